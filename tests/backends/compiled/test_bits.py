"""Evidence of generated C: every kernel, every plan and every gradient has the bits of the definition.

The oracle is `denote` over `NumpyAlgebra`. Calls of one op, and some twenty graphs at a time, are compiled together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import CAPSULES, COMPILED, joined, run
from backends.groups import group_of
from backends.toolbox import defined, normal, same_bits
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse

from torchlean.backends import Capsule, plan
from torchlean.backends.compiled import MODULE
from torchlean.conformance.kit.calls import calls_of
from torchlean.conformance.samples.larger import LARGER
from torchlean.ir.evaluate import denote
from torchlean.ir.ops import COMPOSITES
from torchlean.transforms.vjp import vjp_graph

pytestmark = pytest.mark.usefixtures("compiler")

TOGETHER = 20


def served(capsule: Capsule) -> list[Any]:
    trials = [*calls_of(capsule.op, ALL_CASES), *calls_of(capsule.op, LARGER)]
    return [trial for trial in trials if capsule.refuses(trial.params, trial.types) is None]


@pytest.mark.parametrize("capsule", [pytest.param(capsule, id=capsule.name) for capsule in MODULE.capsules])
def test_the_kernel_has_the_bits_of_the_definition(capsule: Capsule) -> None:
    kernel_agrees(capsule)


def kernel_agrees(capsule: Capsule) -> None:
    """Every sample and dtype the capsule serves, compiled together."""
    trials = served(capsule)
    assert trials, "no sample is served"
    group, arrays, nodes = group_of([(capsule, trial) for trial in trials])
    results = dict(zip(group.outputs, capsule.handler.grouper.fuse(group).kernel(packs=True)(*arrays), strict=True))
    for trial, node in zip(trials, nodes, strict=True):
        for id, want in zip(node.outputs, defined(trial.op, trial.params, trial.arrays), strict=True):
            assert results[id].dtype == want.dtype
            assert same_bits(results[id], want), (capsule.name, trial)


def test_how_many_calls_are_tried_is_known() -> None:
    assert sum([len(served(capsule)) for capsule in MODULE.capsules]) >= 1200


def batches(cases: list[Case]) -> list[Any]:
    parts = [cases[at : at + TOGETHER] for at in range(0, len(cases), TOGETHER)]
    return [pytest.param(part, id=f"{part[0]!r} and {len(part) - 1} more") for part in parts]


def check(graphs: list[Any], operands: list[Any], cases: list[Case]) -> None:
    got = iter(run(joined(graphs), [array for arrays in operands for array in arrays]))
    for case, graph, arrays in zip(cases, graphs, operands, strict=True):
        for want in denote(graph, arrays):
            assert same_bits(next(got), want), case


@pytest.mark.parametrize("cases", batches(list(ALL_CASES)))
def test_a_plan_has_the_bits_of_the_definition(cases: list[Case]) -> None:
    check([graph_of(case) for case in cases], [case.arrays for case in cases], cases)


def differentiable() -> list[Case]:
    found = [case for case in ALL_CASES if float_operands(case) and has_reverse(case.op)]
    assert len(found) >= 800
    return found


@pytest.mark.parametrize("cases", batches(differentiable()))
def test_the_gradient_has_the_bits_of_its_definition(cases: list[Case]) -> None:
    graphs, operands = [], []
    for case in cases:
        graph = graph_of(case)
        graphs.append(vjp_graph(graph, float_operands(case)))
        cotangents = [normal(*type.shape, seed=9).astype(type.dtype.carrier) for type in graph.output_types]
        operands.append((*case.arrays, *cotangents))
    check(graphs, operands, cases)


def test_most_composites_run_whole_as_c() -> None:
    """In float32, planned with compiled before reference, hardly anything is left for NumPy."""
    cases = [case for case in ALL_CASES if case.op in COMPOSITES and all([a.dtype != np.float64 for a in case.arrays])]
    steps = [step.capsule.provider for case in cases for step in plan(graph_of(case), COMPILED).steps]
    assert steps.count("compiled") >= 0.9 * len(steps)
    assert set(CAPSULES) == {capsule.op for capsule in MODULE.capsules}
