"""Evidence of XLA: results of every op within the bound its capsule states, and gradients near the definition's.

The oracle is `denote` over `NumpyAlgebra`. Some fifty calls at a time are compiled together; they have nothing in
common, so each is computed as if it were alone. `torchlean evidence run --provider xla` tries each alone, on more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backends.groups import Call, group_of
from backends.toolbox import defined, normal

from torchlean.backends import Capsule, Unstated
from torchlean.backends.handler import grouper_of
from torchlean.backends.xla import MODULE
from torchlean.backends.xla.served import REFUSED, has_complex, served
from torchlean.conformance.kit.calls import Arrays, Trial, calls_of, run_graph, run_kernel
from torchlean.conformance.kit.derivatives import graph_of_trial
from torchlean.conformance.kit.factorised import PROMISED
from torchlean.conformance.kit.subject import thinned
from torchlean.conformance.kit.value import verdict_of
from torchlean.conformance.samples.cases import KIT_CASES
from torchlean.ir.evaluate import denote
from torchlean.ir.op import Op
from torchlean.ir.ops import ALL_OPS, EFFECTS
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.composite import Composite
from torchlean.transforms.vjp import vjp_graph

EACH = 3  # calls of a capsule
TOGETHER = 40  # calls compiled at once


def tried(capsule: Capsule, most: int) -> list[Trial]:
    found = [trial for trial in calls_of(capsule.op, KIT_CASES) if capsule.refuses(trial.params, trial.types) is None]
    first = {trial.types: trial for trial in found}
    return thinned(list(first.values()), most)


def batches(most: int) -> list[Any]:
    return together([(capsule, trial) for capsule in MODULE.capsules for trial in tried(capsule, most)])


def together(calls: list[Call]) -> list[Any]:
    parts = [calls[at : at + TOGETHER] for at in range(0, len(calls), TOGETHER)]
    return [pytest.param(part, id=f"{part[0][0].name} to {part[-1][0].name}") for part in parts]


def test_every_op_is_served_or_refused_by_name() -> None:
    assert {capsule.op for capsule in MODULE.capsules} == set(served())
    assert set(ALL_OPS) <= set(served())
    assert set(EFFECTS) == set(REFUSED)
    gradients = [op.gradient for op in ALL_OPS if isinstance(op, Composite) and op.gradient is not None]
    assert len(gradients) >= 20
    assert set(gradients) <= set(served())


def test_every_capsule_serves_a_sample() -> None:
    assert [capsule.name for capsule in MODULE.capsules if not tried(capsule, 2)] == []


def compared(calls: list[Call]) -> Iterator[tuple[Capsule, Trial, Arrays, Arrays]]:
    """The results of each call, all compiled together, and what the definition gives."""
    group, arrays, nodes = group_of(calls)
    grouper = grouper_of(MODULE.capsules[0])
    assert grouper is not None
    results = dict(zip(group.outputs, grouper.fuse(group).kernel(packs=True)(*arrays), strict=True))
    for (capsule, trial), node in zip(calls, nodes, strict=True):
        got = tuple([results[id] for id in node.outputs])
        want = defined(trial.op, trial.params, trial.arrays)
        assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want], trial
        yield capsule, trial, got, want


def check(calls: list[Call]) -> None:
    for capsule, trial, got, want in compared(calls):
        verdict = verdict_of(capsule, trial, got, want)
        assert not isinstance(verdict, str), f"{capsule.name} {trial}: {verdict}"
        assert verdict.ok, f"{capsule.name} {trial}: {verdict.first(got, want)}"


@pytest.mark.parametrize("calls", batches(EACH))
def test_the_results_are_within_their_bounds(calls: list[Call]) -> None:
    check(calls)


def smooth_calls_of_unstated_capsules() -> list[Call]:
    """Two of each capsule that claims no distance; factorisations keep promises of their own (`verdict_of`)."""
    found: list[Call] = []
    for capsule in MODULE.capsules:
        if isinstance(capsule.bound, Unstated) and capsule.op not in PROMISED:
            trials = [trial for trial in calls_of(capsule.op, KIT_CASES) if trial.smooth]
            found += [(capsule, t) for t in trials if capsule.refuses(t.params, t.types) is None][:2]
    return found


@pytest.mark.parametrize("calls", together(smooth_calls_of_unstated_capsules()))
def test_where_no_distance_is_claimed_smooth_samples_are_near(calls: list[Call]) -> None:
    """In double precision, away from kinks, poles and cuts."""
    for capsule, trial, got, want in compared(calls):
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=f"{capsule.name} {trial}")


def test_how_many_capsules_claim_no_distance_is_known() -> None:
    unstated = [capsule for capsule in MODULE.capsules if isinstance(capsule.bound, Unstated)]
    assert 30 <= len(unstated) <= 60
    assert len({capsule.name for capsule, _ in smooth_calls_of_unstated_capsules()}) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("calls", batches(1000))
def test_the_results_are_within_their_bounds_on_every_sample(calls: list[Call]) -> None:
    check(calls)


@pytest.mark.parametrize("capsule", [pytest.param(c, id=c.name) for c in MODULE.capsules if c.variant == "complex"])
def test_functions_of_complex_numbers_away_from_their_cuts(capsule: Capsule) -> None:
    trials = [trial for trial in calls_of(capsule.op, KIT_CASES) if trial.smooth and has_complex(trial.types)]
    for trial in trials[:1]:
        (got,) = run_kernel(capsule, trial.params, trial.arrays)
        np.testing.assert_allclose(got, defined(trial.op, trial.params, trial.arrays)[0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in (ew.TANH, ew.DIV, ew.POW, ew.CLAMP, ew.MUL)])
def test_the_gradient_is_within_its_bound(op: Op) -> None:
    """Smooth samples: the VJP as nodes, each run by XLA, against the definition's."""
    capsules = {capsule.op: capsule for capsule in reversed(MODULE.capsules)}
    trials = [trial for trial in calls_of(op, KIT_CASES) if trial.smooth and trial.arrays[0].dtype == np.float64]
    assert trials
    (trial, *_) = trials
    graph = graph_of_trial(trial)
    pulled = vjp_graph(graph, tuple(range(len(trial.arrays))))
    arrays = [*trial.arrays, *[normal(*type.shape, seed=3).astype(type.dtype.carrier) for type in graph.output_types]]
    for got, want in zip(run_graph(pulled, arrays, capsules), denote(pulled, arrays), strict=True):
        assert np.allclose(got, want, rtol=1e-13, atol=1e-13)
