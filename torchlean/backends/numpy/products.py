"""Matrix products through BLAS: plain dot for two dimensions, with transposes as views; matmul for batches."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Kernel
from torchlean.ir.ops.dot import DotDims
from torchlean.ir.types import TensorType


def dot_general(params: DotDims, types: tuple[TensorType, ...]) -> Kernel:
    """Products and sums in the order BLAS likes; fused multiply-add where the machine has it."""
    lhs, rhs = types
    if not params.lhs_batch and lhs.rank in (1, 2) and rhs.rank in (1, 2) and len(params.lhs_contract) == 1:
        left = "{0}" if params.lhs_contract[0] == lhs.rank - 1 else "{0}.T"
        right = "{1}" if params.rhs_contract[0] == 0 else "{1}.T"
        return Expression(f"dot({left}, {right})", {"dot": np.dot})
    left_free, right_free = params.lhs_free(lhs.rank), params.rhs_free(rhs.rank)
    batch = tuple([lhs.shape[axis] for axis in params.lhs_batch])
    rows, columns = [lhs.shape[axis] for axis in left_free], [rhs.shape[axis] for axis in right_free]
    folded = prod([lhs.shape[axis] for axis in params.lhs_contract])
    lead = (prod(batch),) if batch else ()
    left_order = params.lhs_batch + left_free + params.lhs_contract
    right_order = params.rhs_batch + params.rhs_contract + right_free
    left_shape, right_shape = (*lead, prod(rows), folded), (*lead, folded, prod(columns))
    made = (*batch, *rows, *columns)
    names: dict[str, Any] = {"product": np.matmul if batch else np.dot}
    left = _seen("{0}", left_order, left_shape, lhs)
    right = _seen("{1}", right_order, right_shape, rhs)
    return Expression(f"product({left}, {right}).reshape({made!r})", names)


def _seen(operand: str, order: tuple[int, ...], shape: tuple[int, ...], type: TensorType) -> str:
    if order != tuple(range(type.rank)):
        operand += f".transpose({order!r})"
    return operand if shape == type.shape and order == tuple(range(type.rank)) else f"{operand}.reshape({shape!r})"
