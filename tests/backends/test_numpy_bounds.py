"""Evidence of the fast provider: each kernel lies within the bound its capsule states, on every sample of its op.

What lying within a bound means is in `torchlean/conformance/kit/bounds.py`; the larger samples are in
`torchlean/conformance/samples/larger.py`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from backends.toolbox import calls, defined, normal, run_kernel, traced
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of

from torchlean.backends import Capsule, Executable, accept, plan, profiles
from torchlean.backends.numpy import MODULE
from torchlean.conformance.kit.calls import Trial, calls_of
from torchlean.conformance.kit.value import verdict_of
from torchlean.conformance.samples.cases import KIT_CASES
from torchlean.conformance.samples.larger import LARGER
from torchlean.ir import ops
from torchlean.ir.evaluate import denote
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.loss import CROSS_ENTROPY
from torchlean.transforms.vjp import vjp_graph

FAST = {capsule.op: capsule for capsule in MODULE.capsules}
CALLS = calls(MODULE.capsules, KIT_CASES)


def test_the_number_of_calls_is_known() -> None:
    assert len(calls(MODULE.capsules, ALL_CASES)) >= 150
    larger = Counter(case.op for case in LARGER)
    assert {op.name: larger[op] for op in (DOT_GENERAL, CROSS_ENTROPY)} == {"dot_general": 28, "cross_entropy": 4}
    assert sum(len(list(calls_of(op, LARGER))) for op in FAST) >= 150
    assert len(list(calls_of(CROSS_ENTROPY.gradient, LARGER))) == 4


@pytest.mark.parametrize(("capsule", "trial"), CALLS)
def test_the_kernel_is_within_its_bound(capsule: Capsule, trial: Trial) -> None:
    if capsule.refuses(trial.params, trial.types) is None:
        assert_within(capsule, trial)


def assert_within(capsule: Capsule, trial: Trial) -> None:
    got, want = run_kernel(capsule, trial.params, trial.arrays), defined(trial.op, trial.params, trial.arrays)
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    verdict = verdict_of(capsule, trial, got, want)
    assert not isinstance(verdict, str), verdict
    assert verdict.ok, verdict.first(got, want)


def test_many_cotangents_pass_relu_with_their_bits() -> None:
    """Beyond the size from which bits are cleared instead of chosen."""
    x, ct = normal(64, 40, seed=1), normal(64, 40, seed=2)
    x.flat[:4], ct.flat[:4] = (np.nan, -0.0, 0.0, -np.inf), (1.0, np.inf, np.nan, np.inf)
    ct.flat[4:8] = (np.inf, -np.inf, -0.0, np.nan)
    for dtype in (np.float16, np.float32, np.float64):
        here, there = x.astype(dtype), ct.astype(dtype)
        (node,) = vjp_graph(traced(ops.relu, here), (0,)).nodes
        for cotangent in (there, np.asfortranarray(there)):
            assert_within(FAST[node.op], Trial("relu.vjp", node.op, node.params, (here, cotangent), False))


# Gradients add at most 2⁹ products in a row in these samples; both sides err by at most that many roundings of each.
ROUNDINGS = 2.0**9


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=repr(case))
        for case in ALL_CASES
        if case.smooth and float_operands(case) and any(node.op in FAST for node in graph_of(case).nodes)
    ],
)
def test_the_gradient_is_within_its_bound(case: Case) -> None:
    graph = graph_of(case)
    pulled = vjp_graph(graph, float_operands(case))
    arrays = (*case.arrays, *[normal(*type.shape, seed=9).astype(type.dtype.carrier) for type in graph.output_types])
    want = denote(pulled, arrays)
    got = Executable(accept(plan(pulled, profiles.fast_cpu))).checked(*arrays)
    for mine, theirs in zip(got, want, strict=True):
        scale = max(1.0, float(np.abs(theirs).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=ROUNDINGS * np.finfo(theirs.dtype).eps * scale)
