"""Sequential models, and what one does with a tree of parameters: count, tell apart, print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchlean import pytree
from torchlean.errors import ConfigError, StructureError, message
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.nn import init
from torchlean.nn.layer import Layer, Mode, Params, is_training

Part = Layer | Callable[[Any], Any]


@dataclass(frozen=True, slots=True, init=False)
class Sequential:
    """Layers and plain functions applied in order. Parameters: a tuple, one entry per part, `()` for a function.

    `Sequential(nn.Linear(4, 16), nn.tanh, nn.Linear(16, 3))`. Part `i` is initialised from the key folded with `i`.
    """

    layers: tuple[Part, ...]

    def __init__(self, *layers: Part) -> None:
        for position, layer in enumerate(layers):
            if not callable(layer) or isinstance(layer, type):
                raise ConfigError(
                    message(
                        f"part {position} of Sequential is {layer!r}",
                        expected="a layer, or a function of one tensor",
                        got=type(layer).__name__,
                        fix="pass an instance: nn.Linear(4, 16), nn.Flatten(), nn.relu",
                        where=str(caller_location()),
                    )
                )
        object.__setattr__(self, "layers", layers)

    def init(self, source: Any, dtype: Any = "f32") -> tuple[Params, ...]:
        return tuple(
            [
                layer.init(init.child(source, position), dtype) if isinstance(layer, Layer) else ()
                for position, layer in enumerate(self.layers)
            ]
        )

    def apply(self, params: Any, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, tuple[Params, ...]]:
        is_training(mode)
        self._require(params)
        after: list[Params] = []
        for layer, held in zip(self.layers, params, strict=True):
            if isinstance(layer, Layer):
                x, held = layer.apply(held, x, mode=mode, rng=rng)
            else:
                x = layer(x)
            after.append(held)
        return x, tuple(after)

    def trainable(self, params: Any) -> tuple[Any, ...]:
        self._require(params)
        return tuple(
            [
                layer.trainable(held) if isinstance(layer, Layer) else ()
                for layer, held in zip(self.layers, params, strict=True)
            ]
        )

    def __call__(self, params: Any, x: Any) -> Any:
        return self.apply(params, x)[0]

    def parameter_count(self, params: Any) -> int:
        """How many trainable numbers there are."""
        return parameter_count(self, params)

    def _require(self, params: Any) -> None:
        if not isinstance(params, tuple | list) or len(params) != len(self.layers):
            held = f"{len(params)} entries" if isinstance(params, tuple | list) else type(params).__name__
            raise StructureError(
                message(
                    f"these are not the parameters of a Sequential of {len(self.layers)} parts",
                    expected=f"a tuple of {len(self.layers)} entries",
                    got=held,
                    fix="pass what model.init returned, parameters first: model(params, x)",
                    where=str(caller_location()),
                )
            )


def _sizes(params: Params) -> list[int]:
    return [type_of(leaf).size for leaf in pytree.leaves(params)]


def parameter_count(layer: Layer, params: Params) -> int:
    """How many trainable numbers `params` holds."""
    flags = pytree.leaves(layer.trainable(params))
    return sum([size for size, flag in zip(_sizes(params), flags, strict=True) if flag])


def partition(params: Params, flags: Any) -> tuple[Params, Params]:
    """(trainable, fixed): the tree of `params` twice, with None where the flag is False, or True.

    What is not trainable may be integers, which no gradient accepts: differentiate with respect to the first.
    """
    leaves, treedef = pytree.flatten(params)
    chosen = pytree.leaves(flags)
    if len(chosen) != len(leaves):
        raise StructureError(
            message(
                "the flags do not fit the parameters",
                expected=f"{len(leaves)} flags",
                got=f"{len(chosen)}",
                fix="use model.trainable(params)",
                where=str(caller_location()),
            )
        )
    pairs = list(zip(leaves, chosen, strict=True))
    return (
        pytree.unflatten(treedef, [leaf if flag else None for leaf, flag in pairs]),
        pytree.unflatten(treedef, [None if flag else leaf for leaf, flag in pairs]),
    )


def merge(trainable: Params, fixed: Params) -> Params:
    """Undo `partition`."""
    return pytree.map(
        lambda mine, yours: yours if mine is None else mine, trainable, fixed, is_leaf=lambda tree: tree is None
    )


def summary(layer: Layer, params: Params) -> str:
    """A table: one line per part with its parameters' types, then the totals."""
    parts = list(zip(layer.layers, params, strict=True)) if isinstance(layer, Sequential) else [(layer, params)]
    rows = [("part", "parameters", "trainable", "fixed")]
    for position, (part, held) in enumerate(parts):
        name = type(part).__name__ if isinstance(part, Layer) else getattr(part, "__name__", repr(part))
        types = ", ".join(str(type_of(leaf)) for leaf in pytree.leaves(held)) or "-"
        trained = parameter_count(part, held) if isinstance(part, Layer) else 0
        rows.append((f"{position} {name}", types, str(trained), str(sum(_sizes(held)) - trained)))
    trained = parameter_count(layer, params)
    rows.append(("total", "", str(trained), str(sum(_sizes(params)) - trained)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3].rjust(widths[3])])
        for row in rows
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])
