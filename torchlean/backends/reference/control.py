"""Strict kernels of control flow: Python loops and choices over the functions of their accepted sub-plans.

A kernel gets those functions first, then the operands. Each function returns a tuple, and may return memory of its
arguments or of constants, so what a kernel passes on is copied where it is not an array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, VIEW, Expression, Kernel, Traits
from torchlean.ir.op import Op
from torchlean.ir.ops import branches, remat, repeating, scanning
from torchlean.ir.types import TensorType

_ndarray = np.ndarray


def owned(results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """The results as arrays that share no memory with the operands or with one another."""
    taken = {id(operand) for operand in operands}
    made: list[Any] = []
    for result in results:
        if result.__class__ is not _ndarray:
            array = np.array(result)
        elif result.base is not None or id(result) in taken or not result.flags.owndata:
            array = result.copy()
        else:
            array = result
        taken.add(id(array))
        made.append(array)
    return made


def scan(params: scanning.Scan, types: tuple[TensorType, ...]) -> Kernel:
    """The loop of the definition; stacked results are written into place."""
    consts, carries = params.consts, params.carries
    first = consts + carries
    order = scanning.steps(params)
    shapes = scanning.SCAN.type_rule(params, *types)[carries:]
    single = carries + len(shapes) == 1
    stacks = [(type.shape, type.dtype.carrier) for type in shapes]

    def kernel(body: Any, *operands: Any) -> Any:
        fixed, carry, xs = operands[:consts], operands[consts:first], operands[first:]
        made = [np.empty(shape, dtype=carrier) for shape, carrier in stacks]
        for step in order:
            results = body(*fixed, *carry, *[x[step] for x in xs])
            carry = results[:carries]
            for stack, row in zip(made, results[carries:], strict=True):
                stack[step] = row
        ends = [*owned(carry, operands), *made]
        return ends[0] if single else tuple(ends)

    return kernel


def cond(params: branches.Branches, types: tuple[TensorType, ...]) -> Kernel:
    """The chosen branch."""
    last = len(params.branches) - 1
    single = len(params.branches[0].outputs) == 1

    def kernel(*given: Any) -> Any:
        index = int(given[last + 1])
        operands = given[last + 2 :]
        chosen = given[0 if index < 0 else last if index > last else index]
        made = owned(chosen(*operands), operands)
        return made[0] if single else tuple(made)

    return kernel


def while_loop(params: repeating.While, types: tuple[TensorType, ...]) -> Kernel:
    """The loop of the definition."""
    first = params.condition_consts
    second = first + params.body_consts
    single = len(params.body.outputs) == 1

    def kernel(condition: Any, body: Any, *operands: Any) -> Any:
        mine, theirs, carry = operands[:first], operands[first:second], operands[second:]
        while condition(*mine, *carry)[0]:
            carry = body(*theirs, *carry)
        made = owned(carry, operands)
        return made[0] if single else tuple(made)

    return kernel


def checkpoint(params: remat.Checkpoint, types: tuple[TensorType, ...]) -> Kernel:
    """The body; its intermediate values are gone when it returns."""
    single = len(params.body.outputs) == 1

    def kernel(body: Any, *operands: Any) -> Any:
        made = owned(body(*operands), operands)
        return made[0] if single else tuple(made)

    return kernel


def checkpoint_name(params: remat.Name, types: tuple[TensorType, ...]) -> Kernel:
    """The operand itself."""
    return Expression("{0}", {})


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of every op of control flow."""
    return {
        branches.COND: (FRESH, cond),
        scanning.SCAN: (FRESH, scan),
        repeating.WHILE: (FRESH, while_loop),
        remat.CHECKPOINT: (FRESH, checkpoint),
        remat.CHECKPOINT_NAME: (VIEW, checkpoint_name),
    }
