"""Control flow as XLA's own: a scan of a thousand steps is compiled as one loop.

`rule(run, params, made, *operands)`: `run(graph, operands)` lowers a sub-graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op
from torchlean.ir.ops import branches, remat, repeating, scanning

Run = Callable[[Graph, tuple[Any, ...]], tuple[Any, ...]]
Higher = Callable[..., Any]


def _cond(run: Run, params: branches.Branches, made: Made, index: Any, *operands: Any) -> Any:
    last = len(params.branches) - 1
    if not last:
        return run(params.branches[0], operands)
    chosen = lax.clamp(np.int32(0), index, np.int32(last))
    made_of = [lambda *xs, branch=branch: run(branch, xs) for branch in params.branches]
    return lax.switch(chosen, made_of, *operands)


def _scan(run: Run, params: scanning.Scan, made: Made, *operands: Any) -> Any:
    first = params.consts + params.carries
    consts, carry, xs = operands[: params.consts], operands[params.consts : first], operands[first:]

    def step(held: tuple[Any, ...], rows: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        results = run(params.body, (*consts, *held, *rows))
        return results[: params.carries], results[params.carries :]

    ends, stacks = lax.scan(step, tuple(carry), tuple(xs), length=params.length, reverse=params.reverse)
    return (*ends, *stacks)


def _while(run: Run, params: repeating.While, made: Made, *operands: Any) -> Any:
    first = params.condition_consts
    second = first + params.body_consts
    mine, theirs, carry = operands[:first], operands[first:second], operands[second:]
    return lax.while_loop(
        lambda held: run(params.condition, (*mine, *held))[0],
        lambda held: run(params.body, (*theirs, *held)),
        tuple(carry),
    )


def _checkpoint(run: Run, params: remat.Checkpoint, made: Made, *operands: Any) -> Any:
    """The body behind a barrier: XLA would else find its values computed before, and keep them. Where jax derives, it
    keeps what the policy says.
    """
    policies = jax.checkpoint_policies
    kept = {
        remat.Policy.NOTHING: policies.nothing_saveable,
        remat.Policy.DOTS: policies.dots_saveable,
        remat.Policy.NAMES: policies.save_only_these_names(*params.names),
        remat.Policy.EVERYTHING: policies.everything_saveable,
    }

    def body(*given: Any) -> Any:
        return run(params.body, tuple(lax.optimization_barrier(given)) if given else ())

    return jax.checkpoint(body, policy=kept[params.policy])(*operands)


def table() -> dict[Op, Higher]:
    """The rules of this file."""
    return {
        branches.COND: _cond,
        scanning.SCAN: _scan,
        repeating.WHILE: _while,
        remat.CHECKPOINT: _checkpoint,
    }
