"""checkpoint, checkpoint_name and what a policy may keep, as users call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.errors import TypeRuleError, message, shown
from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.calling import traced_body
from torchlean.ir.ops.promote import tensor
from torchlean.ir.ops.remat import CHECKPOINT, CHECKPOINT_NAME, Checkpoint, Name, Policy
from torchlean.record import record


@record
class SaveNames:
    """A policy that keeps the values named so by `checkpoint_name`."""

    names: tuple[str, ...]


def save_names(*names: str) -> SaveNames:
    """The policy that keeps the values of these names."""
    return SaveNames(names)


def checkpoint(f: Callable[..., Any], policy: str | SaveNames | None = None) -> Callable[..., Any]:
    """`f`, whose derivative computes its intermediate values again instead of keeping them: same values, less memory.

    `policy` says what is kept besides the arguments: `"nothing"` (the default), `"dots"` (results of matrix products
    and convolutions), `save_names(…)` (values given a name by `checkpoint_name`), `"everything"`.
    Arguments that are no arrays reach `f` unchanged. What `f` closes over counts as an argument.
    """
    kept, names = _policy(policy)

    @wraps(f)
    def checkpointed(*arguments: Any, **keywords: Any) -> Any:
        leaves, treedef = pytree.flatten((arguments, keywords))
        positions = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Operators | np.ndarray | np.generic)]
        operands = [leaves[at] for at in positions]

        def of_arrays(given: Any) -> Any:
            filled = list(leaves)
            for at, value in zip(positions, given, strict=True):
                filled[at] = value
            chosen, named = pytree.unflatten(treedef, filled)
            return f(*chosen, **named)

        structure = pytree.structure(tuple(operands))
        body = traced_body("checkpoint", "f", of_arrays, [(structure, [type_of(x) for x in operands])], user=f)
        if not body.graph.outputs:
            return pytree.unflatten(body.out, [])
        made = bind(CHECKPOINT, Checkpoint(body.graph, kept, names), *operands, *body.captured)
        return pytree.unflatten(body.out, made)

    return checkpointed


def _policy(policy: Any) -> tuple[Policy, tuple[str, ...]]:
    if policy is None:
        return Policy.NOTHING, ()
    if isinstance(policy, SaveNames):
        return Policy.NAMES, policy.names
    for known in (Policy.NOTHING, Policy.DOTS, Policy.EVERYTHING):
        if policy == known.value:
            return known, ()
    raise TypeRuleError(
        message(
            "checkpoint: unknown policy",
            expected="'nothing', 'dots', 'everything', or save_names('a', …)",
            got=shown(policy),
            fix="leave it out to keep nothing but the arguments",
            where=str(caller_location()),
        )
    )


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, under a name by which a checkpoint policy can keep it."""
    return bind1(CHECKPOINT_NAME, Name(name), tensor(x))
