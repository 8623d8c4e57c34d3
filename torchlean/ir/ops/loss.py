"""Composites: mean squared error and cross entropy; one_hot.

The VJP of the squared error is stated, not derived: 2·(y − t)·ct / n with the division last, the bits of TorchLean's
published runs (`2(y−t)/n`; a derived rule would multiply by a rounded 1/n).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import Value, answerer, type_of
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.location import caller_location
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.activation import log_softmax
from torchlean.ir.ops.composite import Composed, Composite, call, composite
from torchlean.ir.ops.create import constant, iota
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.ops.promote import tensor
from torchlean.ir.rules import HigherOrder
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, drop_axes, show_types


def _pulled_back_by(*pullbacks: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The `vjp` of a composite from one `pullback(*primals, *cotangents)` per operand: its gradient's body."""

    def vjp(recurse: Any, op: Any, params: Composed, primals: Any, cotangents: Any, wrt: tuple[int, ...]) -> list[Any]:
        current = answerer()
        types = (*params.body.input_types, *params.body.output_types)
        key = (op.gradient, params.attributes, wrt, types)
        derived = current.bodies.get(key)
        if derived is None:
            wanted = [pullbacks[position] for position in wrt]
            traced = trace_flat(lambda *values: [pull(*values) for pull in wanted], types, name=op.gradient.name)
            derived = Composed((("wrt", wrt), *params.attributes), traced.graph)
            current.bodies[key] = derived
        made = dict(zip(wrt, current.bind(op.gradient, derived, (*primals, *cotangents)), strict=True))
        return [made.get(position) for position in range(len(primals))]

    return vjp


def _mse(prediction: Any, target: Any) -> Any:
    d = prediction - target
    return shaping.mean(d * d)


def _mse_slope(prediction: Any, target: Any, ct: Any) -> Any:
    shape = prediction.type.shape
    return (2.0 * (prediction - target)) * shaping.broadcast_to(ct, shape) / float(prod(shape))


def _mse_target_slope(prediction: Any, target: Any, ct: Any) -> Any:
    return -_mse_slope(prediction, target, ct)


def _stated_mse() -> Composite:
    derived = composite(
        "mse_loss",
        _mse,
        reduces=True,
        reduces_in_gradient=False,
        doc="Mean of (prediction - target)² over all entries: a left fold, then one division.",
    )
    assert isinstance(derived.diff, HigherOrder)
    stated = HigherOrder(jvp=derived.diff.jvp, vjp=_pulled_back_by(_mse_slope, _mse_target_slope))
    return dataclasses.replace(derived, diff=stated)


MSE_LOSS = _stated_mse()


def mse_loss(prediction: Any, target: Any) -> Any:
    """Mean of (prediction − target)² over all entries, a scalar; NaN for no entries.

    Both of one type f[…]; TypeRuleError otherwise (broadcasting a loss hides mistakes). Gradient 2(y − t)·ct / n.
    """
    prediction, target = tensor(prediction), tensor(target)
    require_equal("mse_loss", prediction.type, target.type)
    return call(MSE_LOSS, prediction, target)


def require_equal(name: str, prediction: TensorType, target: TensorType) -> None:
    """Refuse a prediction and a target of different types, or of a dtype that is not floating."""
    if prediction == target and prediction.dtype.is_float:
        return
    raise TypeRuleError(
        message(
            f"{name} of {show_types((prediction, target))}: prediction and target differ",
            expected="two tensors of one float type (a loss does not broadcast)",
            got=show_types((prediction, target)),
            fix="reshape the target, e.g. y[:, None], or convert it",
            where=str(caller_location()),
        )
    )


# -- labels ------------------------------------------------------------------------------------------------------------
def _with_class_axis(labels: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Labels spread along a new class axis: shape `shape`."""
    return shaping.broadcast(labels, shape, tuple([a for a in range(len(shape)) if a != axis]))


def _nll(logs: Any, labels: Any, *, axis: int) -> Any:
    shape = logs.type.shape
    chosen = f.eq(_with_class_axis(labels, shape, axis), iota(shape, axis, labels.type.dtype))
    picked = shaping.sum(f.select(chosen, logs, 0), axis)
    inside = f.logical_and(f.ge(labels, 0), f.lt(labels, shape[axis]))
    return shaping.mean(-f.select(inside, picked, float("nan")))


def _cross_entropy(logits: Any, labels: Any, *, axis: int) -> Any:
    return _nll(log_softmax(logits, axis), labels, axis=axis)


NLL_LOSS = composite(
    "nll_loss",
    _nll,
    reduces=True,
    reduces_in_gradient=True,
    doc="Mean of -logs[label]; a label outside the classes makes it NaN.",
)
CROSS_ENTROPY = composite(
    "cross_entropy",
    _cross_entropy,
    reduces=True,
    reduces_in_gradient=True,
    doc="Mean of -log_softmax(logits)[label]; a label outside the classes makes it NaN.",
)


def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """Mean over all positions of −log softmax(logits) at the label. Shapes: f[…, C at `axis`, …], integers […] → f[].

    Labels whose values are known now are checked: OutOfRangeError outside [0, C). A traced label outside gives NaN, not
    a silent 0.
    """
    return _labelled(CROSS_ENTROPY, logits, labels, axis)


def nll_loss(logs: Any, labels: Any, axis: int = -1) -> Any:
    """Mean over all positions of −logs at the label: `cross_entropy` of scores that are log-probabilities already."""
    return _labelled(NLL_LOSS, logs, labels, axis)


def _labelled(op: Composite, scores: Any, labels: Any, axis: int) -> Any:
    scores = tensor(scores)
    at = shaping.normal_axis(op.name, axis, scores.type)
    count = scores.type.shape[at]
    labels = known_labels(op.name, labels, count)
    if labels.type.shape != drop_axes(scores.type.shape, (at,)) or not scores.type.dtype.is_float:
        raise TypeRuleError(
            message(
                f"{op.name} of {scores.type} with labels {labels.type}: the types do not fit",
                expected=f"float scores, and integer labels of shape {list(drop_axes(scores.type.shape, (at,)))}",
                got=show_types((scores.type, labels.type)),
                fix=f"one label per position (classes are along axis {at}); for one-hot rows use cross_entropy_one_hot",
                where=str(caller_location()),
            )
        )
    return call(op, scores, labels, axis=at)


def _cross_entropy_one_hot(logits: Any, targets: Any, *, axis: int) -> Any:
    return shaping.mean(-shaping.sum(targets * log_softmax(logits, axis), axis))


CROSS_ENTROPY_ONE_HOT = composite(
    "cross_entropy_one_hot",
    _cross_entropy_one_hot,
    reduces=True,
    reduces_in_gradient=True,
    doc="Mean of -Σ targets · log_softmax(logits) along `axis`.",
)


def cross_entropy_one_hot(logits: Any, targets: Any, axis: int = -1) -> Any:
    """Mean over all positions of −Σ targets·log softmax(logits) along `axis`; targets are one-hot or probabilities."""
    logits, targets = tensor(logits), tensor(targets)
    require_equal("cross_entropy_one_hot", logits.type, targets.type)
    return call(
        CROSS_ENTROPY_ONE_HOT, logits, targets, axis=shaping.normal_axis("cross_entropy_one_hot", axis, logits.type)
    )


def one_hot(labels: Any, count: int, dtype: Any = DType.F32) -> Any:
    """1 at the label, 0 elsewhere, along a new last axis of size `count`.

    Known labels outside [0, count) are refused (OutOfRangeError); a traced one gives a row of zeros.
    """
    labels = known_labels("one_hot", labels, count)
    shape = (*labels.type.shape, count)
    chosen = f.eq(_with_class_axis(labels, shape, len(shape) - 1), iota(shape, len(shape) - 1, labels.type.dtype))
    return convert(chosen, as_dtype(dtype))


def known_labels(name: str, labels: Any, count: int) -> Any:
    """Labels as a tensor; those whose values are known now are checked to lie in [0, count)."""
    if isinstance(labels, list | tuple):
        labels = np.asarray(labels)
    type = type_of(labels)
    if not type.dtype.is_integer:
        raise TypeRuleError(
            message(
                f"{name} with labels {type}",
                expected="integer labels",
                got=str(type),
                fix="convert the labels, e.g. y.astype('i32')",
                where=str(caller_location()),
            )
        )
    if isinstance(labels, Value):
        return _wide(labels)
    values = np.asarray(labels)
    outside = values[(values < 0) | (values >= count)]
    if outside.size:
        raise OutOfRangeError(
            message(
                f"{name}: label {outside.flat[0]} is not one of {count} classes",
                expected=f"labels in [0, {count})",
                got=f"{outside.size} of {values.size} labels outside",
                fix="check the labels, or the number of outputs of the model",
                where=str(caller_location()),
            )
        )
    return _wide(labels if hasattr(labels, "type") else constant(values))


def _wide(labels: Any) -> Any:
    """Labels in a dtype that holds every class number."""
    return convert(labels, DType.I32) if labels.type.dtype.width < 32 else labels


COMPOSITES = (MSE_LOSS, NLL_LOSS, CROSS_ENTROPY, CROSS_ENTROPY_ONE_HOT)
