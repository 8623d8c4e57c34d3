"""Kernels that add in float64 and round once: for float32, with errors some 10⁸ times smaller than a float32 sum's."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.ops.dot import DotDims
from torchlean.ir.ops.spread import Axes
from torchlean.ir.types import TensorType


def reduce_sum(params: Axes, types: tuple[TensorType, ...]) -> Any:
    """The sum over the axes."""
    axes = params.axes

    def run(x: Any) -> Any:
        return np.add.reduce(x, axes, np.float64).astype(np.float32)

    return run


def dot_general(params: DotDims, types: tuple[TensorType, ...]) -> Any:
    """Σ lhs · rhs over the contracted axes: each product of two float32 is exact in float64."""
    lhs, rhs = types
    batch, folded, left, right = "abcd", "klmn", "pqrs", "uvwx"
    names = [[""] * lhs.rank, [""] * rhs.rank]
    for letters, axes in (
        (batch, (params.lhs_batch, params.rhs_batch)),
        (folded, (params.lhs_contract, params.rhs_contract)),
        (left, (params.lhs_free(lhs.rank), ())),
        (right, ((), params.rhs_free(rhs.rank))),
    ):
        for side in (0, 1):
            for letter, axis in zip(letters, axes[side], strict=False):
                names[side][axis] = letter
    used = [name for side in names for name in side]
    made = "".join([letter for letter in batch + left + right if letter in used])
    text = f"{''.join(names[0])},{''.join(names[1])}->{made}"

    def run(x: Any, y: Any) -> Any:
        return np.einsum(text, x.astype(np.float64), y.astype(np.float64), optimize=True).astype(np.float32)

    return run


def refuses(params: Any, types: tuple[TensorType, ...]) -> str | None:
    """Only float32 has a dtype of twice the digits to add in; more than four axes of a kind have no letters left."""
    for type in types:
        if type.dtype.short != "f32":
            return f"serves float32 only, not {type.dtype.short}"
    if isinstance(params, DotDims) and max([type.rank for type in types], default=0) > 4:
        return "serves operands of up to four axes"
    return None
