"""Complex regression: a complex model, an explicit real loss, `complex_grad` and SGD.

The supervised trainer takes real data; this is the separate path for complex parameters. Predictions and checkpoints
keep both components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, message
from torchlean.ir import ops
from torchlean.optim import SGD
from torchlean.train import checkpoint
from torchlean.transforms.api import complex_grad

SAMPLES, FEATURES, HIDDEN = 32, 2, 4
MODELS = ("linear", "two-layer")


@dataclass(frozen=True, slots=True)
class Problem:
    """x c64[samples, features], y c64[samples], one held-out x and its y."""

    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    heldout: np.ndarray[Any, Any]
    target: complex


def problem(seed: int) -> Problem:
    """y = (1 + 2i)·x₀ + (-½ + i)·x₁ + (¼ - ½i) at seeded points of the unit square."""
    random = np.random.default_rng(seed)
    parts = random.uniform(-1, 1, (2, SAMPLES + 1, FEATURES))
    x = (parts[0] + 1j * parts[1]).astype(np.complex64)
    y = (x @ np.array([1 + 2j, -0.5 + 1j]) + (0.25 - 0.5j)).astype(np.complex64)
    return Problem(x[:-1], y[:-1], x[-1:], complex(y[-1]))


def initial(model: str, seed: int) -> dict[str, Any]:
    """Seeded weights and zero biases of `linear` or `two-layer`."""
    random = np.random.default_rng([seed, 1])

    def weight(rows: int, columns: int) -> np.ndarray[Any, Any]:
        parts = random.normal(size=(2, rows, columns)) / np.sqrt(2 * columns)
        return (parts[0] + 1j * parts[1]).astype(np.complex64)

    if model == "linear":
        return {"w": weight(1, FEATURES), "b": np.zeros(1, np.complex64)}
    return {
        "w1": weight(HIDDEN, FEATURES),
        "b1": np.zeros(HIDDEN, np.complex64),
        "w2": weight(1, HIDDEN),
        "b2": np.zeros(1, np.complex64),
    }


def predict(params: dict[str, Any], x: Any) -> Any:
    """x c64[n, features] → c64[n]; the hidden layer applies tanh to either component."""
    if "w" in params:
        return _affine(x, params["w"], params["b"])[:, 0]
    hidden = _affine(x, params["w1"], params["b1"])
    raised = ops.complex(ops.tanh(ops.real(hidden)), ops.tanh(ops.imag(hidden)))
    return _affine(raised, params["w2"], params["b2"])[:, 0]


def _affine(x: Any, w: Any, b: Any) -> Any:
    y = ops.matmul(x, ops.transpose(w))
    return y + ops.broadcast(b, y.type.shape, (1,))


def loss(params: dict[str, Any], x: Any, y: Any) -> Any:
    """The mean of |prediction - y|², real."""
    apart = predict(params, x) - y
    return ops.mean(ops.square(ops.real(apart)) + ops.square(ops.imag(apart)))


def step(rate: float) -> Any:
    """(params, x, y) → (params after one SGD step, the loss before it)."""
    optimizer = SGD(rate)

    def update(params: dict[str, Any], x: Any, y: Any) -> tuple[dict[str, Any], Any]:
        def with_value(params: dict[str, Any]) -> tuple[Any, Any]:
            value = loss(params, x, y)
            return value, value

        gradient, value = complex_grad(with_value, has_aux=True)(params)
        return optimizer.update(gradient, optimizer.init(params), params)[0], value

    return update


def losses(run: Any, params: dict[str, Any], data: Problem, steps: int) -> Iterator[tuple[dict[str, Any], float]]:
    """The parameters after each step of `run`, and the loss before it; ConfigError when it is not finite any more."""
    for at in range(steps):
        params, value = run(params, data.x, data.y)
        found = float(np.asarray(value))
        if not np.isfinite(found):
            raise ConfigError(message(f"the loss is {found} at step {at}", fix="lower the learning rate"))
        yield params, found


def save(path: Path | str, params: dict[str, Any], model: str) -> None:
    """A checkpoint; complex64 arrays are stored as they are."""
    checkpoint.save(path, {"params": params}, {"architecture": f"complex_regression {model}"})


def restore(path: Path | str, model: str) -> dict[str, Any]:
    """The parameters of a checkpoint of the same model."""
    trees, _ = checkpoint.restore(path, {"params": initial(model, 0)}, f"complex_regression {model}")
    return trees["params"]
