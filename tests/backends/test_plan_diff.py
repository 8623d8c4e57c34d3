"""What changed from one plan to another: provider, order, precision, evidence, expansion, and why."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from backends.plan_programs import V, W, X, layer, loop, loss, other_layer, still, timeless
from backends.toolbox import tried
from golden_text import require_golden

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends import (
    CapsuleModule,
    Plan,
    Ulp,
    VjpMode,
    accept,
    always_available,
    audit,
    compare,
    plan,
    plan_report,
    reference,
)
from torchlean.backends import numpy as numpy_provider
from torchlean.ir.ops.elementwise import TANH

FAST, STRICT = still(profiles.numpy_cpu), still(profiles.reference_cpu)
TANHS = next(made for made in reference.MODULE.capsules if made.op is TANH)


def lowered(f: Any, profile: Any, *types: Any) -> tl.Lowered:
    return tl.lower(f, *(types or (W, X)), profile=profile)


def theirs(**changes: Any) -> Any:
    """The strict profile with another tanh in front."""
    made = replace(TANHS, provider="theirs", handler=replace(TANHS.handler, provider="theirs"), **changes)
    return STRICT.with_modules(tried(CapsuleModule(name="theirs", capsules=(made,), probe=always_available)))


def test_equal_plans_are_said_to_be_equal() -> None:
    first, second = lowered(loss, FAST), lowered(loss, FAST)
    found = first.diff(second)
    assert not found
    assert str(found) == "loss on numpy_cpu → loss on numpy_cpu: the plans are equal, 3 steps"
    assert found.as_json()["equal"] is True
    assert repr(found) == "<PlanDifference loss on numpy_cpu → loss on numpy_cpu: equal>"


def test_from_fast_to_strict() -> None:
    found = lowered(tl.value_and_grad(loss), FAST).diff(lowered(tl.value_and_grad(loss), STRICT))
    assert found
    require_golden("plan_diff_strict", timeless(str(found)))


def test_from_free_to_deterministic_the_refusals_are_the_reasons() -> None:
    found = lowered(tl.value_and_grad(loss), FAST).diff(lowered(tl.value_and_grad(loss), FAST.deterministic()).plan)
    require_golden("plan_diff_deterministic", timeless(str(found)))
    changed = {change.op: change for change in found.changes}
    assert changed["matmul"].why == (
        "numpy.matmul adds in implementation-defined order, which bitwise determinism excludes, for matmul",
    )
    facts = {what: (old, new) for what, old, new in changed["matmul"].facts}
    assert facts["provider"] == ("numpy", "reference")
    assert facts["order"] == ("implementation-defined", "fixed-left")
    assert facts["accumulator"] == ("implementation-defined", "operand dtype")
    assert facts["contraction"] == ("implementation-defined", "separate")
    assert "value evidence" in facts


def test_back_again_module_order_is_the_reason() -> None:
    found = lowered(layer, STRICT).diff(lowered(layer, FAST))
    (change,) = [each for each in found.changes if each.op == "matmul"]
    assert change.why == ("numpy.matmul comes before reference.matmul in the modules of numpy_cpu",)
    again = lowered(layer, FAST).diff(lowered(layer, STRICT))
    (change,) = [each for each in again.changes if each.op == "matmul"]
    assert change.why == ("profile reference_cpu has no numpy.matmul: its modules are reference",)
    undone = lowered(layer, FAST.deterministic()).diff(lowered(layer, FAST))
    (change,) = [each for each in undone.changes if each.op == "matmul"]
    assert change.why == ("numpy.matmul comes before reference.matmul in the modules of numpy_cpu",)


@pytest.mark.parametrize(
    ("changes", "fact", "values"),
    [
        ({"bound": Ulp(3)}, "bound", ("Bitwise()", "Ulp(n=3)")),
        ({"vjp_mode": VjpMode.BACKEND}, "vjp", ("torchlean-tape", "backend-vjp")),
        ({"variant": "direct"}, "capsule", ("theirs.tanh", "theirs.direct_tanh")),
    ],
)
def test_one_fact_of_one_capsule(changes: Any, fact: str, values: tuple[str, str]) -> None:
    found = lowered(other_layer, theirs()).diff(lowered(other_layer, theirs(**changes)))
    (change,) = found.changes
    assert (change.op, change.before, change.after) == ("tanh", "%3", "%3")
    assert change.facts == ((fact, *values),)
    assert (change.why == ()) == (fact != "capsule")


def test_a_change_of_precision_is_of_types() -> None:
    wide = [tl.TensorType(type.shape, tl.DType.F64) for type in (W, X)]
    found = lowered(other_layer, STRICT).diff(lowered(other_layer, STRICT, *wide))
    assert [fact for change in found.changes for fact in change.facts if fact[0] == "types"] == [
        ("types", "f32[4,2]", "f64[4,2]"),
        ("types", "f32[4,2]", "f64[4,2]"),
        ("types", "f32[]", "f64[]"),
    ]
    assert "~ input 0: f32[3,2] → f64[3,2]" in str(found)


def test_graphs_that_differ_are_aligned() -> None:
    found = lowered(layer, STRICT).diff(lowered(other_layer, STRICT))
    require_golden("plan_diff_structure", timeless(str(found)))
    assert [each.op for each in found.changes] == ["reduce_sum"]
    data = found.as_json()
    assert json.loads(json.dumps(data)) == data
    assert len(data["removed"]) == len(found.graphs.removed) > 5
    assert [line.split("  ")[-1] for line in data["added"]] == ["reference.tanh"]


def test_loops_are_looked_into() -> None:
    found = lowered(loop, STRICT).diff(lowered(loop, FAST))
    ((where, inner),) = found.inside
    assert where.endswith("scan body")
    assert {change.op for change in inner.changes} >= {"matmul", "reduce_sum"}
    assert "  inside " in str(found)
    assert found.as_json()["inside"][0]["step"] == where
    assert not lowered(loop, STRICT).diff(lowered(loop, STRICT))


def test_only_the_profile_changed() -> None:
    found = lowered(ops.tanh, STRICT, V).diff(lowered(ops.tanh, STRICT.deterministic("run-to-run"), V))
    assert found
    assert found.changes == ()
    assert str(found).splitlines()[1:] == ["  profile determinism: not required → run-to-run"]


def test_many_equal_changes_take_one_entry_and_little_time() -> None:
    def deep(x: Any) -> Any:
        for step in range(500):
            x = ops.relu(-x) + float(step)
        return x

    first, second = lowered(deep, STRICT, V), lowered(deep, FAST, V)
    started = time.process_time()
    found = first.diff(second)
    spent = time.process_time() - started
    assert len(found.changes) == 500
    assert len(str(found).splitlines()) < 30
    assert "… ×500" in str(found)
    print(f"diff of {len(first.plan)} steps: {1000 * spent:.0f} ms")
    assert spent < 2


# -- derivatives of composites -----------------------------------------------------------------------------------------
def test_who_does_a_derivative_is_visible_everywhere() -> None:
    """`backend-vjp` where a capsule does it natively, `torchlean-tape` where it is expanded."""
    f = tl.grad(lambda w, x: (ops.softmax(ops.relu(x @ w), -1) ** 2).sum())
    native = lowered(f, FAST)
    assert [str(made) for made in native.plan.derivatives()] == [
        "relu.vjp ×1 (backend-vjp)",
        "softmax.vjp ×1 (torchlean-tape)",
    ]
    text = str(native.plan).splitlines()
    assert "  expanded softmax.vjp ×1 (torchlean-tape): no capsule implements it" in text
    assert "  native relu.vjp ×1 (backend-vjp): numpy.relu.vjp" in text
    assert (
        native.plan.as_json()["derivatives"]
        == audit(native.plan).as_json()["derivatives"]
        == [
            {"op": "relu.vjp", "mode": "backend-vjp", "capsule": "numpy.relu.vjp", "count": 1},
            {"op": "softmax.vjp", "mode": "torchlean-tape", "capsule": None, "count": 1},
        ]
    )
    assert [line for line in plan_report(native.plan) if ".vjp: " in line and " vjp=" in line][-2:] == [
        "  relu.vjp: numpy.relu.vjp vjp=backend-vjp",
        "  softmax.vjp: expanded into its nodes vjp=torchlean-tape",
    ]
    strict = lowered(f, STRICT)
    assert {str(made) for made in strict.plan.derivatives()} == {
        "relu.vjp ×1 (torchlean-tape)",
        "softmax.vjp ×1 (torchlean-tape)",
    }
    assert "~ relu.vjp: numpy.relu.vjp ×1 → expanded ×1 (no capsule implements it)" in native.diff(strict).expansions
    position = [step.node.op.name for step in native.plan.steps].index("relu.vjp")
    assert "backend-vjp" in native.explain(position).verdict()


def test_sessions_report_who_does_a_derivative() -> None:
    for profile, owner in (
        (FAST, "numpy.relu.vjp vjp=backend-vjp"),
        (STRICT, "expanded into its nodes vjp=torchlean-tape"),
    ):
        session = tl.Session(profile, track_gradients=True)
        with session:
            x = session.parameter([1.0, -2.0])
            session.backward(ops.relu(x).sum())
        assert f"  relu.vjp: {owner}" in session.report.lines()
        assert [op for op, _, _ in session.report.vjps] == ["relu.vjp"]
        assert session.report.as_json()["composite_vjps"][0]["op"] == "relu.vjp"


def test_derivatives_inside_loops_count() -> None:
    f = tl.grad(lambda w, x: tl.scan(lambda c, row: (ops.relu(c + (row @ w).sum()), None), x[0, 0], x)[0])
    made = lowered(f, FAST).plan
    assert [each.op for each in made.derivatives()] == ["relu.vjp"]
    assert made.derivatives(inside=False) == ()
    assert audit(made).derivatives == made.derivatives()


def test_a_plan_diffs_plans() -> None:
    graph = tl.make_graph(other_layer)(W, X)
    first, second = plan(graph, STRICT), plan(graph, FAST)
    assert str(first.diff(second)) == str(compare(first, second))
    assert isinstance(accept(first).plan, Plan)
    assert numpy_provider.MODULE.name in str(first.diff(second))
