"""Ops that move entries without changing any: reshape, transpose, reverse."""

from __future__ import annotations

from math import prod

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


@record
class NewShape:
    """`shape`: the shape of the result; entries keep their row-major order."""

    shape: Shape


def _reshape_type(params: NewShape, x: TensorType) -> tuple[TensorType, ...]:
    if prod(params.shape) != x.size or any(size < 0 for size in params.shape):
        raise TypeFault(
            f"cannot be reshaped to {list(params.shape)}",
            expected=f"a shape of {x.size} entries",
            got=f"{list(params.shape)}, {prod(params.shape)} entries",
            fix="check the product of the sizes; one of them may be -1 in ops.reshape",
        )
    return (TensorType(params.shape, x.dtype),)


RESHAPE = Op(
    name="reshape",
    params=NewShape,
    type_rule=_reshape_type,
    denote=lambda algebra, params, x: (algebra.shape(lambda v: np.reshape(v, params.shape), x),),
    diff=Linear(transpose=lambda params, ct, x: (bind1(RESHAPE, NewShape(type_of(x).shape), ct),)),
    batch=Rule(lambda params, size, operands, mapped: (bind1(RESHAPE, NewShape((size, *params.shape)), operands[0]),)),
    reduces=False,
    doc="The same entries in row-major order under another shape.",
)


@record
class Permutation:
    """`axes`: axis `i` of the result is axis `axes[i]` of the operand."""

    axes: tuple[int, ...]


def _transpose_type(params: Permutation, x: TensorType) -> tuple[TensorType, ...]:
    if sorted(params.axes) != list(range(x.rank)):
        raise TypeFault(
            "the axes are not a permutation",
            expected=f"each of {list(range(x.rank))} once",
            got=str(list(params.axes)),
            fix="list every axis of the operand once",
        )
    return (TensorType(tuple([x.shape[axis] for axis in params.axes]), x.dtype),)


def inverse_permutation(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `axes`."""
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return tuple(inverse)


TRANSPOSE = Op(
    name="transpose",
    params=Permutation,
    type_rule=_transpose_type,
    denote=lambda algebra, params, x: (algebra.shape(lambda v: np.transpose(v, params.axes), x),),
    diff=Linear(transpose=lambda params, ct, x: (bind1(TRANSPOSE, Permutation(inverse_permutation(params.axes)), ct),)),
    batch=Rule(
        lambda params, size, operands, mapped: (
            bind1(TRANSPOSE, Permutation((0, *[axis + 1 for axis in params.axes])), operands[0]),
        )
    ),
    reduces=False,
    doc="Permute the axes.",
)


@record
class Flipped:
    """`axes`: the axes whose order is reversed; unique."""

    axes: tuple[int, ...]


def _reverse_type(params: Flipped, x: TensorType) -> tuple[TensorType, ...]:
    if len(set(params.axes)) != len(params.axes) or any(not 0 <= axis < x.rank for axis in params.axes):
        raise TypeFault(
            "the axes are not axes of the operand",
            expected=f"unique axes in [0, {x.rank})",
            got=str(list(params.axes)),
            fix="name existing axes once",
        )
    return (x,)


REVERSE = Op(
    name="reverse",
    params=Flipped,
    type_rule=_reverse_type,
    denote=lambda algebra, params, x: (algebra.shape(lambda v: np.flip(v, params.axes), x),),
    diff=Linear(transpose=lambda params, ct, x: (bind1(REVERSE, params, ct),)),
    batch=Rule(
        lambda params, size, operands, mapped: (
            bind1(REVERSE, Flipped(tuple([axis + 1 for axis in params.axes])), operands[0]),
        )
    ),
    reduces=False,
    doc="Reverse the order of entries along axes.",
)

OPS = (RESHAPE, TRANSPOSE, REVERSE)
