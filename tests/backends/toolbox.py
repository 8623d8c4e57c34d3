"""What the backend tests share: running a kernel on arrays, comparing bits, tracing a function of arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from torchlean.backends import CapsuleModule
from torchlean.conformance.kit.bounds import same_bits
from torchlean.conformance.kit.calls import Trial, calls_of, defined, lone_node, run_kernel
from torchlean.conformance.samples.larger import normal
from torchlean.evidence.claim import CLAIMS, Outcome
from torchlean.evidence.ledger import Environment, Measured
from torchlean.evidence.standing import Standing
from torchlean.ir.graph import Graph
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array

Array = np.ndarray[Any, Any]

__all__ = ["Array", "calls", "defined", "lone_node", "normal", "run_kernel", "same_bits", "traced", "tried"]


class _Assumed(Measured):
    """A ledger that says the same under every value of a switch."""

    def _standing(self, capsule: Any, claim: str, environment: Environment) -> Standing:
        return super()._standing(capsule, claim, ())


def tried(module: CapsuleModule) -> CapsuleModule:
    """The module with a ledger that says every claim was just tried and held: for tests of what else a plan needs."""
    outcomes = [
        Outcome(made.name, claim, ("a test",), 1, (), None, "", (), "", 0, exhaustive=False)
        for made in module.capsules
        for claim in CLAIMS
    ]
    return replace(module, ledger=_Assumed(outcomes))


def traced(function: Callable[..., Any], *arrays: Array, name: str = "graph") -> Graph:
    """The graph of a function of arrays of these types."""

    def flat(*values: Any) -> tuple[Any, ...]:
        made = function(*values)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    return trace_flat(flat, [type_of_array(array) for array in arrays], name=name).graph


def calls(capsules: Any, cases: Any) -> list[Any]:
    """The calls of every capsule in the cases, as pytest parameters (capsule, trial). Fails if a capsule has none."""
    found: list[tuple[Any, Trial]] = [(made, trial) for made in capsules for trial in calls_of(made.op, cases)]
    tried = {capsule.op for capsule, _ in found}
    assert tried == {made.op for made in capsules}, [made.name for made in capsules if made.op not in tried]
    return [pytest.param(made, trial, id=f"{made.name} {trial.name}") for made, trial in found]
