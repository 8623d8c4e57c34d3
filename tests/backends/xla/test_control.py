"""Control flow is XLA's own: loops are compiled as loops, and the plan names what runs inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.xla.kit import REFERENCE, XLA

import torchlean as tl
from torchlean import ops
from torchlean.backends import numpy as numpy_provider
from torchlean.backends import reference
from torchlean.backends.accept import accept
from torchlean.backends.plan import Plan, Step, all_steps
from torchlean.errors import PlanRejected

X = np.linspace(-1, 1, 4)


def both(function: Any, *arguments: Any) -> tuple[Any, list[Any], list[Any]]:
    fast, strict = tl.lower(function, *arguments, profile=XLA), tl.lower(function, *arguments, profile=REFERENCE)
    leaves = [[np.asarray(leaf) for leaf in tl.pytree.leaves(made(*arguments))] for made in (fast, strict)]
    return fast, *leaves


def close(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want) > 0
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)


def walk(c: Any, x: Any) -> tuple[Any, Any]:
    return ops.sin(c) * 0.9 + x, ops.sum(c)


def test_a_scan_of_a_thousand_steps_is_one_loop() -> None:
    xs = np.random.default_rng(0).normal(size=(1000, 4))
    made, got, want = both(lambda c, xs: tl.scan(walk, c, xs), X, xs)
    close(got, want)
    assert made.source.count("stablehlo.while") == 1
    assert len(made.source.splitlines()) < 100
    assert {step.capsule.provider for step in all_steps(made.plan)} == {"xla"}
    assert "xla.sin" in str(made.plan)  # inside the scan


def test_the_gradient_of_a_scan() -> None:
    xs = np.random.default_rng(1).normal(size=(50, 4))
    _, got, want = both(tl.grad(lambda c, xs: ops.sum(tl.scan(walk, c, xs)[1]), (0, 1)), X, xs)
    close(got, want)


def test_a_scan_from_the_end_without_inputs_or_results() -> None:
    _, got, want = both(lambda c: tl.scan(lambda c, _: (c * 2, None), c, None, length=5)[0], X)
    close(got, want)
    xs = np.arange(12.0).reshape(3, 4)
    _, got, want = both(lambda c, xs: tl.scan(walk, c, xs, reverse=True), X, xs)
    close(got, want)


def test_while_and_nested_loops() -> None:
    _, got, want = both(lambda n: tl.while_loop(lambda s: s < n, lambda s: s * 3, np.int64(1)), np.int64(10**12))
    close(got, want)

    def outer(c: Any, x: Any) -> tuple[Any, Any]:
        inner = tl.fori_loop(0, 3, lambda i, s: s * 0.5 + x, c)
        return inner, ops.sum(inner)

    made, got, want = both(lambda c, xs: tl.scan(outer, c, xs), X, np.arange(8.0).reshape(2, 4))
    close(got, want)
    assert made.source.count("stablehlo.while") == 2


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branches_are_chosen_by_a_clamped_index(index: int) -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: ops.sin(x)]
    made, got, want = both(lambda i, x: ops.switch(i, branches, x), np.int32(index), X)
    close(got, want)
    assert "stablehlo.case" in made.source


def test_associative_scans_and_checkpoints() -> None:
    xs = np.linspace(0.5, 1.5, 7)
    _, got, want = both(lambda x: ops.associative_scan(lambda a, b: a * b, x), xs)
    close(got, want)
    made, got, want = both(tl.grad(lambda x: ops.sum(tl.remat(lambda x: ops.sin(ops.exp(x)))(x))), xs)
    close(got, want)
    assert "optimization_barrier" in made.source


def test_mapped_conditions() -> None:
    _, got, want = both(tl.vmap(lambda x: ops.cond(x > 0, lambda x: ops.sqrt(x), lambda x: -x, x)), X)
    close(got, want)


def test_a_body_that_is_planned_elsewhere_is_not_run_by_xla() -> None:
    """Sines come from NumPy here, so the loop is the strict provider's, and the plan says why."""
    xs = np.ones((3, 4))
    made = tl.lower(lambda c, xs: tl.scan(walk, c, xs), X, xs, profile=XLA.with_modules(numpy_provider.MODULE))
    (scan,) = [step for step in made.plan.steps if step.node.op.name == "scan"]
    assert scan.capsule.name == "reference.scan"
    assert "xla.scan refuses scan: it runs its body itself, where sin is planned on numpy.sin" in [
        str(refusal) for refusal in scan.refused
    ]
    want = tl.lower(lambda c, xs: tl.scan(walk, c, xs), X, xs, profile=REFERENCE)
    close(*[[np.asarray(leaf) for leaf in tl.pytree.leaves(each(X, xs))] for each in (made, want)])


def test_a_plan_that_says_otherwise_is_rejected() -> None:
    """Acceptance looks at the inner plans itself."""
    made = tl.lower(lambda c, xs: tl.scan(walk, c, xs), X, np.ones((3, 4)), profile=XLA).plan
    sine = next(capsule for capsule in reference.MODULE.capsules if capsule.op.name == "sin")

    def altered(step: Step) -> Step:
        return Step(step.node, sine, step.refused, step.inner) if step.node.op.name == "sin" else step

    steps: list[Step] = []
    for step in made.steps:
        inner = tuple(
            [Plan(graph=held.graph, profile=held.profile, steps=tuple(map(altered, held.steps))) for held in step.inner]
        )
        steps.append(Step(step.node, step.capsule, step.refused, inner))
    with pytest.raises(PlanRejected, match=r"xla\.scan runs its body itself, where sin is planned on reference\.sin"):
        accept(Plan(graph=made.graph, profile=made.profile, steps=tuple(steps)))


def test_an_effect_in_a_body_leaves_the_loop_to_the_host() -> None:
    def body(c: Any, x: Any) -> tuple[Any, Any]:
        tl.debug.check(ops.all(x > 0), "positive")
        return c + x, None

    made = tl.lower(lambda c, xs: tl.scan(body, c, xs)[0], X, np.ones((3, 4)), profile=XLA)
    (scan,) = [step for step in made.plan.steps if step.node.op.name == "scan"]
    assert scan.capsule.name == "reference.scan"
    (text,) = [str(refusal) for refusal in scan.refused if refusal.capsule == "xla.scan"]
    assert "its body has check: it acts on the host while the program runs" in text
    np.testing.assert_allclose(np.asarray(made(X, np.ones((3, 4)))), X + 3)


def test_the_cost_of_a_loop_is_known() -> None:
    made = tl.lower(lambda c, xs: tl.scan(walk, c, xs), X, np.ones((10, 4)), profile=XLA)
    assert made.cost().flops > 10 * 4
    assert "xla.scan" in str(made.cost())
