"""The bodies of an op, run one by one as the op runs them: how a fault of a composite or a loop is traced into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchlean.ir.graph import Graph, without_effects
from torchlean.ir.op import Op
from torchlean.ir.ops import branches, remat, repeating, scanning
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import Structured

Run = Callable[[Graph, Sequence[Any], str], Sequence[Any]]  # a body, its operands, which run of it this is


def holds_bodies(op: Op) -> bool:
    """Whether the op runs graphs that its params hold."""
    return isinstance(op, Composite) or isinstance(op.diff, Structured)


def run_bodies(op: Op, params: Any, operands: Sequence[Any], array: Callable[[Any], Any], run: Run) -> None:
    """Run what the op runs, without its effects; `array` makes an operand of a NumPy array."""
    if isinstance(op, Composite) or op is remat.CHECKPOINT:
        run(without_effects(params.body), operands, "")
    elif op is branches.COND:
        last = len(params.branches) - 1
        chosen = int(np.clip(np.asarray(operands[0]), 0, last))
        run(without_effects(params.branches[chosen]), operands[1:], f" (branch {chosen})")
    elif op is scanning.SCAN:
        body = without_effects(params.body)
        first = params.consts + params.carries
        fixed, carry = operands[: params.consts], list(operands[params.consts : first])
        stacked = [np.asarray(operand) for operand in operands[first:]]
        for step in scanning.steps(params):
            entries = [array(xs[step]) for xs in stacked]
            carry = list(run(body, [*fixed, *carry, *entries], f" (step {step})"))[: params.carries]
    elif op is repeating.WHILE:
        first = params.condition_consts
        second = first + params.body_consts
        condition, body = without_effects(params.condition), without_effects(params.body)
        carry, step = list(operands[second:]), 0
        while np.asarray(run(condition, [*operands[:first], *carry], f" (condition {step})")[0]):
            carry = list(run(body, [*operands[first:second], *carry], f" (step {step})"))
            step += 1
