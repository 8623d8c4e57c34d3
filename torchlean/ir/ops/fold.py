"""Products and logical folds along axes: reduce_prod, reduce_and, reduce_or, reduce_xor.

Like sums they are left folds in row-major order of the axes, from the neutral element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.algebra import axes_first
from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import Kind
from torchlean.ir.op import Op
from torchlean.ir.ops.cumulative import CUMPROD, PartialRun
from torchlean.ir.ops.elementwise import MUL
from torchlean.ir.ops.families import FIELDS, apply1, kind_fault
from torchlean.ir.ops.layout import RESHAPE, TRANSPOSE, NewShape, Permutation
from torchlean.ir.ops.spread import REDUCE_SUM, Axes, check_axes, kept_axes, shift_axes
from torchlean.ir.rules import Custom, NoTangent, Rule
from torchlean.ir.types import TensorType, drop_axes

BITS = frozenset({Kind.BOOL, Kind.SIGNED, Kind.UNSIGNED})


def _fold_type(kinds: frozenset[Kind]) -> Callable[..., tuple[TensorType, ...]]:
    def rule(params: Axes, x: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        check_axes(params.axes, x)
        return (TensorType(drop_axes(x.shape, params.axes), x.dtype),)

    return rule


def _prod_value(algebra: Any, params: Axes, x: Any) -> tuple[Any, ...]:
    rows = algebra.shape(lambda v: axes_first(v, params.axes), x)
    count, *kept = np.shape(rows)
    total = algebra.constant(np.ones(tuple(kept), dtype=x.dtype))
    for k in range(count):
        total = algebra.mul(total, algebra.shape(lambda v, k=k: v[k], rows))
    return (total,)


def _prod_jvp(params: Axes, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """Σ tangent · product of the others, which is a product before times a product after: zeros divide nothing."""
    (x,), (tangent,) = primals, tangents
    if tangent is None:
        return (None,)
    x, tangent = _last(params, x), _last(params, tangent)
    at = len(type_of(x).shape) - 1
    before = bind1(CUMPROD, PartialRun(at, reverse=False, exclusive=True), x)
    after = bind1(CUMPROD, PartialRun(at, reverse=True, exclusive=True), x)
    return (bind1(REDUCE_SUM, Axes((at,)), apply1(MUL, tangent, apply1(MUL, before, after))),)


def _last(params: Axes, x: Any) -> Any:
    """`x` with the reduced axes merged into one at the end."""
    shape = type_of(x).shape
    kept = kept_axes(len(shape), params.axes)
    if params.axes != tuple(range(len(kept), len(shape))):
        x = bind1(TRANSPOSE, Permutation(kept + params.axes), x)
    count = int(np.prod([shape[a] for a in params.axes], dtype=np.int64))
    return bind1(RESHAPE, NewShape((*[shape[a] for a in kept], count)), x)


def _shifted(op: Callable[[], Op]) -> Rule:
    return Rule(lambda params, size, operands, mapped: (bind1(op(), Axes(shift_axes(params.axes)), operands[0]),))


REDUCE_PROD = Op(
    name="reduce_prod",
    params=Axes,
    type_rule=_fold_type(FIELDS),
    denote=_prod_value,
    diff=Custom(jvp=_prod_jvp),
    batch=_shifted(lambda: REDUCE_PROD),
    reduces=True,
    doc="Product over `axes`: a left fold from 1 in row-major order of the axes.",
)


def _logical_fold(name: str, function: np.ufunc, doc: str) -> Op:
    def value(algebra: Any, params: Axes, x: Any) -> tuple[Any, ...]:
        return (algebra.exact(lambda v: function.reduce(v, params.axes, dtype=v.dtype), x),)

    made = Op(
        name=name,
        params=Axes,
        type_rule=_fold_type(BITS),
        denote=value,
        diff=NoTangent("bits have no tangent"),
        batch=_shifted(lambda: made),
        reduces=False,
        doc=doc,
    )
    return made


REDUCE_AND = _logical_fold("reduce_and", np.bitwise_and, "Bitwise and over `axes`; all bits set over nothing.")
REDUCE_OR = _logical_fold("reduce_or", np.bitwise_or, "Bitwise or over `axes`; 0 over nothing.")
REDUCE_XOR = _logical_fold("reduce_xor", np.bitwise_xor, "Bitwise exclusive or over `axes`; 0 over nothing.")

OPS = (REDUCE_PROD, REDUCE_AND, REDUCE_OR, REDUCE_XOR)
