"""Ops that are functions of whole operands: products, movements, positions, sorting, running folds, random words.

`CALLS[op](params, operands, result types, toolchain)` is the body of a function whose operands are `x0, x1, …` (each
pointing at the start of its storage; its view says where its entries are) and whose results are `y0, …`, row-major.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from torchlean.backends.compiled import convolution, matmul, moves, running, sorting
from torchlean.backends.compiled.operand import Called, Operand
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.ir.op import Op
from torchlean.ir.types import TensorType

Emit = Callable[[Any, list[Operand], list[TensorType], Toolchain], Called]

CALLS: MappingProxyType[Op, Emit] = MappingProxyType(
    {**matmul.table(), **convolution.table(), **moves.table(), **running.table(), **sorting.table()}
)

__all__ = ["CALLS", "Called", "Operand"]
