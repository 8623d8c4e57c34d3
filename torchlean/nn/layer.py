"""What a layer is: a frozen record of hyperparameters whose parameters live apart, in a pytree it makes and reads."""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args, runtime_checkable

from torchlean import pytree
from torchlean.errors import ConfigError, message
from torchlean.ir.location import caller_location

Mode = Literal["train", "eval"]
Params = Any  # a pytree of tensors


@runtime_checkable
class Layer(Protocol):
    """`layer.init(source)` makes parameters; `layer(params, x)` is the evaluation output.

    `apply` also returns the parameters to go on with: the same, or with running statistics updated in "train" mode.
    `rng` is the number of the training step (an integer, or an integer tensor); only layers that draw need it.
    """

    def init(self, source: Any, dtype: Any = "f32") -> Params: ...

    def apply(self, params: Params, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Params]: ...

    def trainable(self, params: Params) -> Any:
        """The tree of `params` with a bool per leaf: whether an optimizer may change it."""
        ...

    def __call__(self, params: Params, x: Any) -> Any: ...


def all_trainable(params: Params) -> Any:
    """True at every leaf."""
    return pytree.map(lambda leaf: True, params)


def is_training(mode: str) -> bool:
    """Whether `mode` is "train"; ConfigError for a word that is no mode."""
    if mode not in get_args(Mode):
        raise ConfigError(
            message(
                f"{mode!r} is not a mode",
                expected='"train" or "eval"',
                got=repr(mode),
                fix='say mode="train" to update statistics and drop units',
                where=str(caller_location()),
            )
        )
    return mode == "train"


def require_sizes(layer: str, **sizes: Any) -> None:
    """Refuse a hyperparameter that is not an integer ≥ 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ConfigError(
                message(
                    f"{layer}: {name} = {size!r}",
                    expected="an integer ≥ 1",
                    got=repr(size),
                    fix=f"give the layer's {name}",
                    where=str(caller_location()),
                )
            )


def require_fraction(layer: str, name: str, value: float) -> None:
    """Refuse a number outside [0, 1]."""
    if not 0 <= value <= 1:
        raise ConfigError(
            message(
                f"{layer}: {name} = {value!r}",
                expected="a number in [0, 1]",
                got=repr(value),
                fix=f"{name} is a fraction, not a percentage",
                where=str(caller_location()),
            )
        )
