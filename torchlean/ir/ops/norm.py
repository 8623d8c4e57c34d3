"""Composites: layer norm, and batch norm in its evaluation and training forms. Variances are two-pass and biased."""

from __future__ import annotations

import math
from typing import Any

from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir.location import caller_location
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.composite import call, composite
from torchlean.ir.ops.promote import tensor
from torchlean.ir.types import TensorType


def _standardised(x: Any, mean: Any, variance: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """(x - mean) / √(variance + ε), the statistics spread along `axes` of x."""
    shape = x.type.shape
    return (x - shaping.broadcast(mean, shape, axes)) * shaping.broadcast(f.rsqrt(variance + epsilon), shape, axes)


def _moments(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and biased variance over `axes`, in two passes."""
    kept = _others(x.type, axes)
    mean = shaping.mean(x, axes)
    centred = x - shaping.broadcast(mean, x.type.shape, kept)
    return mean, shaping.mean(centred * centred, axes)


def _others(type: TensorType, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([axis for axis in range(type.rank) if axis not in axes])


def _layer_norm(x: Any, *affine: Any, axes: tuple[int, ...], epsilon: float, scaled: bool, shifted: bool) -> Any:
    mean, variance = _moments(x, axes)
    y = _standardised(x, mean, variance, _others(x.type, axes), epsilon)
    operands = list(affine)
    if scaled:
        y = y * shaping.broadcast(operands.pop(0), x.type.shape, axes)
    return y + shaping.broadcast(operands.pop(0), x.type.shape, axes) if shifted else y


LAYER_NORM = composite(
    "layer_norm",
    _layer_norm,
    reduces=True,
    reduces_in_gradient=True,
    doc="(x - mean) · 1/√(variance + ε) · scale + shift, statistics over `axes` [Ba et al. 2016].",
)


def layer_norm(
    x: Any,
    scale: Any = None,
    shift: Any = None,
    axis: int | tuple[int, ...] = -1,
    epsilon: float = 1e-5,
) -> Any:
    """Standardise over `axis` with the biased variance, then scale and shift (each of the shape of those axes).

    Raises TypeRuleError if scale or shift has another shape, ConfigError for an ε that is not finite and ≥ 0.
    """
    x = tensor(x)
    axes = shaping.normal_axes("layer_norm", axis, x.type)
    given = [tensor(operand) for operand in (scale, shift) if operand is not None]
    wanted = tuple([x.type.shape[a] for a in axes])
    for operand in given:
        require_shape("layer_norm", "scale and shift", operand.type, wanted, x.type)
    return call(
        LAYER_NORM,
        x,
        *given,
        axes=axes,
        epsilon=_checked_epsilon("layer_norm", epsilon),
        scaled=scale is not None,
        shifted=shift is not None,
    )


def _batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, axis: int, epsilon: float) -> Any:
    shape = x.type.shape
    y = _standardised(x, mean, variance, (axis,), epsilon)
    return y * shaping.broadcast(scale, shape, (axis,)) + shaping.broadcast(shift, shape, (axis,))


BATCH_NORM = composite(
    "batch_norm",
    _batch_norm,
    reduces=False,
    reduces_in_gradient=True,
    doc="(x - mean) · 1/√(variance + ε) · scale + shift, statistics per channel [Ioffe & Szegedy 2015].",
)


def batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, axis: int = 1, epsilon: float = 1e-5) -> Any:
    """Evaluation form: standardise with given statistics. x f[…, C at `axis`, …]; the other four f[C]."""
    x, at, rest = _channelled("batch_norm", x, axis, scale, shift, mean, variance)
    return call(BATCH_NORM, x, *rest, axis=at, epsilon=_checked_epsilon("batch_norm", epsilon))


def _batch_norm_train(x: Any, scale: Any, shift: Any, *, axis: int, epsilon: float) -> Any:
    mean, variance = _moments(x, _others(x.type, (axis,)))
    return _batch_norm(x, scale, shift, mean, variance, axis=axis, epsilon=epsilon), mean, variance


BATCH_NORM_TRAIN = composite(
    "batch_norm_train",
    _batch_norm_train,
    reduces=True,
    reduces_in_gradient=True,
    doc="batch_norm with the statistics of this batch, which are returned too; the variance is biased.",
)


def batch_norm_train(x: Any, scale: Any, shift: Any, axis: int = 1, epsilon: float = 1e-5) -> tuple[Any, Any, Any]:
    """Training form: (y, mean, variance), the statistics those of all axes but `axis`, the variance biased."""
    x, at, rest = _channelled("batch_norm_train", x, axis, scale, shift)
    return call(BATCH_NORM_TRAIN, x, *rest, axis=at, epsilon=_checked_epsilon("batch_norm_train", epsilon))


def _channelled(name: str, x: Any, axis: int, *per_channel: Any) -> tuple[Any, int, list[Any]]:
    x = tensor(x)
    at = shaping.normal_axis(name, axis, x.type)
    operands = [tensor(operand) for operand in per_channel]
    for operand in operands:
        require_shape(name, "one entry per channel", operand.type, (x.type.shape[at],), x.type)
    return x, at, operands


def _checked_epsilon(name: str, epsilon: float) -> float:
    if not 0 <= epsilon < math.inf:
        raise ConfigError(
            message(
                f"{name}: epsilon {epsilon!r} cannot keep a variance away from 0",
                expected="a finite number ≥ 0",
                got=repr(epsilon),
                fix="use the default 1e-5",
                where=str(caller_location()),
            )
        )
    return float(epsilon)


def require_shape(name: str, what: str, got: TensorType, wanted: tuple[int, ...], x: TensorType) -> None:
    """Refuse an operand of `name` that has not the shape that `x` asks for."""
    if got.shape == wanted:
        return
    raise TypeRuleError(
        message(
            f"{name} of {x} with {got}: the shapes do not fit",
            expected=f"{what}: shape {list(wanted)}",
            got=str(got),
            fix="check the layer's size, or the axis",
            where=str(caller_location()),
        )
    )


COMPOSITES = (LAYER_NORM, BATCH_NORM, BATCH_NORM_TRAIN)
