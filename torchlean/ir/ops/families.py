"""Constructors for the families of ops that share a type rule and a batching rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.rules import Elementwise, NoTangent, Partial, Pointwise, Slope
from torchlean.ir.types import TensorType, show_types

FLOATS = frozenset({Kind.FLOAT})
INEXACT = frozenset({Kind.FLOAT, Kind.COMPLEX})
SIGNED = frozenset({Kind.FLOAT, Kind.SIGNED})
NUMBERS = frozenset({Kind.FLOAT, Kind.SIGNED, Kind.UNSIGNED})  # those with an order
SIGNED_FIELDS = SIGNED | INEXACT
FIELDS = NUMBERS | INEXACT  # those with + and ·
BOOLEANS = frozenset({Kind.BOOL})
ORDERED = frozenset(Kind) - {Kind.COMPLEX}
ANYTHING = frozenset(Kind)

TypeOf = Callable[..., tuple[TensorType, ...]]


def kind_fault(dtype: DType, kinds: frozenset[Kind]) -> TypeFault:
    """The fault for an operand of the wrong kind."""
    wanted = " or ".join(sorted(kind.value for kind in kinds))
    if dtype.is_storage:
        return TypeFault(
            f"{dtype.short} only stores numbers",
            expected=f"{wanted} dtype",
            got=dtype.short,
            fix="convert first: ops.convert(x, 'f32')",
        )
    return TypeFault(
        f"a {dtype.kind.value} operand is not allowed",
        expected=f"{wanted} dtype",
        got=dtype.short,
        fix="take ops.real, ops.imag or ops.abs of it"
        if dtype.is_complex
        else "convert the operand with ops.convert(x, dtype)",
    )


def equal_operands(*types: TensorType) -> None:
    """Refuse operands whose types differ."""
    first = types[0]
    for other in types[1:]:
        if other is not first and other != first:
            what = "shapes" if other.shape != first.shape else "dtypes"
            raise TypeFault(
                f"operand {what} differ",
                expected="operands of one type",
                got=show_types(types),
                fix="broadcast or convert one operand (ops.broadcast_to, ops.convert)",
            )


def _one_operand(kinds: frozenset[Kind]) -> TypeOf:
    def rule(params: Any, x: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        return (x,)

    return rule


def _two_operands(kinds: frozenset[Kind]) -> TypeOf:
    def rule(params: Any, x: TensorType, y: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        if y is not x and y != x:
            equal_operands(x, y)
        return (x,)

    return rule


def _to_bool(kinds: frozenset[Kind]) -> TypeOf:
    def rule(params: Any, x: TensorType, y: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        equal_operands(x, y)
        return (TensorType(x.shape, DType.BOOL),)

    return rule


def unary(
    name: str,
    *,
    denote: Callable[..., Any],
    partial: Partial | NoTangent | None,
    kinds: frozenset[Kind],
    doc: str,
    slope: Slope = Slope.FINITE,
) -> Op:
    """y[i] = f(x[i]), one dtype in and out. `denote(algebra, x)`; `partial(params, y, x)`; `slope`: see rules."""
    return Op(
        name=name,
        params=NoParams,
        type_rule=_one_operand(kinds),
        denote=lambda algebra, params, x: (denote(algebra, x),),
        diff=partial if isinstance(partial, NoTangent) else Elementwise((partial,), slope),
        batch=Pointwise(),
        reduces=False,
        doc=doc,
    )


def binary(
    name: str,
    *,
    denote: Callable[..., Any],
    partials: tuple[Partial | None, Partial | None] | NoTangent,
    kinds: frozenset[Kind],
    doc: str,
    slope: Slope = Slope.FINITE,
) -> Op:
    """z[i] = f(x[i], y[i]), operands of one type. `denote(algebra, x, y)`; `partial(params, z, x, y)`."""
    return Op(
        name=name,
        params=NoParams,
        type_rule=_two_operands(kinds),
        denote=lambda algebra, params, x, y: (denote(algebra, x, y),),
        diff=partials if isinstance(partials, NoTangent) else Elementwise(partials, slope),
        batch=Pointwise(),
        reduces=False,
        doc=doc,
    )


def comparison(name: str, doc: str, *, kinds: frozenset[Kind] = ANYTHING) -> Op:
    """A boolean per entry; `name` is the relation."""
    return Op(
        name=name,
        params=NoParams,
        type_rule=_to_bool(kinds),
        denote=lambda algebra, params, x, y: (algebra.compare(name, x, y),),
        diff=NoTangent("a comparison is locally constant"),
        batch=Pointwise(),
        reduces=False,
        doc=doc,
    )


def apply1(op: Op, *operands: Any) -> Any:
    """Apply an op without params to operands of one type."""
    return bind1(op, NO_PARAMS, *operands)
