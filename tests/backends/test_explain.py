"""Why a kernel runs: every candidate in module order, every reason, by op, by function, by step of a plan."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.plan_programs import V, W, X, layer, loop, loss, still
from backends.toolbox import tried
from golden_text import require_golden

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends import (
    CapsuleModule,
    Claim,
    Device,
    Failure,
    Outcome,
    accept,
    always_available,
    capsule,
    explain,
    label,
    needs_library,
    plan,
    reference,
)
from torchlean.backends.explain import op_named
from torchlean.errors import ConfigError, PlanRejected, TypeRuleError
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import ALL_OPS
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.ops.spread import REDUCE_SUM, Axes

FAST, STRICT = still(profiles.numpy_cpu), still(profiles.reference_cpu)
SUMS = next(made for made in reference.MODULE.capsules if made.op is REDUCE_SUM)


def crowded() -> Any:
    """A profile in which nearly everything that can be wrong with a sum is."""
    wrong = replace(
        SUMS,
        provider="theirs",
        device=Device.METAL,
        value=capsule.trusted(Claim.VALUE, "Metal"),
        handler=None,
        refuses=lambda params, types: "sizes must be multiples of 32",
    )
    module = tried(CapsuleModule(name="theirs", capsules=(wrong,), probe=needs_library("no_such_library_anywhere")))
    return FAST.with_modules(module).deterministic("bitwise")


def test_an_op_by_name_with_every_candidate_and_every_reason() -> None:
    found = tl.explain("reduce_sum", X, axes=(0,), profile=crowded())
    require_golden("explain_sum", str(found))
    assert [made.capsule.name for made in found] == [
        "theirs.reduce_sum",
        "numpy.reduce_sum",
        "reference.reduce_sum",
    ]
    assert found.outcome is Outcome.CHOSEN
    assert found.chosen is SUMS
    assert len(found) == 3
    assert repr(found) == "<Explanation reduce_sum(f32[4,3]): 3 candidates, reference.reduce_sum>"
    assert "<pre>" in found._repr_html_()


def test_the_data_say_what_the_table_says() -> None:
    data = tl.explain("reduce_sum", X, axes=(0,), profile=crowded()).as_json()
    assert json.loads(json.dumps(data)) == data
    assert {key: data[key] for key in ("op", "types", "outcome", "chosen", "modules")} == {
        "op": "reduce_sum",
        "types": ["f32[4,3]"],
        "outcome": "chosen",
        "chosen": "reference.reduce_sum",
        "modules": ["theirs", "numpy", "reference"],
    }
    first = data["candidates"][0]
    assert [reason["failure"] for reason in first["refusals"]] == [
        str(failure)
        for failure in (
            Failure.FORWARD,
            Failure.TRUST,
            Failure.DEVICE,
            Failure.EVIDENCE,
            Failure.UNAVAILABLE,
            Failure.TYPES,
        )
    ]
    assert [made["admissible"] for made in data["candidates"]] == [False, False, True]
    assert [made["module"] for made in data["candidates"]] == ["theirs", "numpy", "reference"]


def test_an_op_may_be_given_by_name_label_or_record() -> None:
    by_name = explain("reduce_sum", Axes((0,)), (X,), FAST)
    by_record = explain(REDUCE_SUM, Axes((0,)), (X,), FAST)
    assert str(by_name) == str(by_record)
    assert [made.capsule.name for made in explain("sigmoid", NO_PARAMS, (X,), STRICT)] == ["reference.sigmoid"]
    assert explain("add", NO_PARAMS, (X, X), FAST).op is ADD


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("reduce_sun", "did you mean reduce_sum"),
        ("MatMul", "did you mean matmul"),
        ("softmaxx.vjp", "did you mean softmax.vjp"),
        ("zzzz", "print(torchlean.ops.ALL_OPS) lists the ops"),
    ],
)
def test_an_unknown_op_is_refused_with_the_nearest_names(name: str, suggested: str) -> None:
    with pytest.raises(ConfigError) as refused:
        tl.explain(name, X, profile=STRICT)
    lines = str(refused.value).splitlines()
    assert lines[0] == f"unknown op {name!r}"
    assert lines[1].endswith(" names: torchlean's ops, or those of profile reference_cpu's capsules")
    assert lines[2] == f"  got:      {name!r}"
    assert suggested in lines[3]


def test_ops_of_a_profiles_own_capsules_have_names_too() -> None:
    theirs = replace(ADD, name="their_add")
    made = replace(next(c for c in reference.MODULE.capsules if c.op is ADD), op=theirs, provider="theirs")
    profile = STRICT.with_modules(tried(CapsuleModule(name="theirs", capsules=(made,), probe=always_available)))
    assert tl.explain("their_add", X, X, profile=profile).chosen is made


def test_params_are_keywords_and_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        tl.explain("reduce_sum", X, axis=0)
    assert str(refused.value).splitlines()[1:] == [
        "  expected: axes",
        "  got:      axis",
        "  fix:      give these, or explain a function that calls the op",
    ]
    assert str(refused.value).startswith("explain of reduce_sum needs its params as keywords (test_explain.py:")
    with pytest.raises(ConfigError, match="explain of add needs its params as keywords"):
        tl.explain("add", X, X, axis=0)
    with pytest.raises(ConfigError, match=r"explain of softmax needs its params as keywords"):
        tl.explain("softmax", X)
    with pytest.raises(TypeRuleError, match="operand shapes differ"):
        tl.explain("add", X, W)
    with pytest.raises(ConfigError) as strange:
        tl.explain("relu.vjp", X)
    assert str(strange.value).splitlines()[1:] == [
        "  expected: the operands of relu, then the cotangents of its results",
        "  got:      f32[4,3]",
        "  fix:      give the operands of the forward op first",
    ]


def test_operands_may_be_arrays_and_numbers() -> None:
    by_types = tl.explain("add", X, X, profile=FAST)
    arrays = np.zeros((4, 3), np.float32), np.ones((4, 3), np.float32)
    assert str(tl.explain("add", *arrays, profile=FAST)) == str(by_types)


def test_composites_are_expanded_or_native_and_their_derivatives_say_who_owns_them() -> None:
    expanded = tl.explain("softmax", X, axis=1, profile=FAST)
    assert expanded.outcome is Outcome.EXPANDED
    assert expanded.verdict() == "no capsule implements it: it is expanded into its body of 17 nodes"
    native = tl.explain("relu.vjp", X, X, profile=FAST)
    assert native.verdict() == "numpy.relu.vjp runs it (backend-vjp: a native derivative)"
    nodes = tl.explain("softmax.vjp", X, X, axis=1, profile=FAST)
    assert nodes.verdict().endswith("nodes (torchlean-tape: a derivative made of nodes)")
    refused = tl.explain("relu", X, profile=FAST.under(replace(FAST.policy, providers=("nobody",))))
    assert refused.verdict().startswith("every candidate is refused: it is expanded into its body")
    assert refused.as_json()["chosen"] is None


def test_a_function_op_by_op() -> None:
    found = tl.explain(tl.value_and_grad(loss), W, X, profile=FAST.deterministic())
    require_golden("explain_function", str(found))
    assert found.refused == ()
    assert [each.op.name for each in found][:2] == ["dot_general", "relu"]
    data = found.as_json()
    assert json.loads(json.dumps(data)) == data
    assert data["calls"][0]["count"] == 1
    assert data["calls"][0]["where"].startswith("plan_programs.py:")
    assert "<pre>" in found._repr_html_()
    assert repr(found) == f"<ProgramExplanation loss: {len(found)} kinds of call, 0 refused>"


def test_bodies_are_entered_where_planning_enters_them() -> None:
    found = tl.explain(loop, W, X, profile=FAST)
    depths = {kind.explanation.op.name: kind.depth for kind in found.kinds}
    assert depths["scan"] == 0
    assert depths["tanh"] == 1
    expanded = tl.explain(layer, W, X, profile=FAST)
    depths = {kind.explanation.op.name: kind.depth for kind in expanded.kinds}
    assert (depths["softmax"], depths["exp"]) == (0, 1)


def test_a_function_without_a_plan_is_explained_as_planning_refuses_it() -> None:
    nobody = FAST.under(replace(FAST.policy, providers=("nobody",)))
    found = tl.explain(layer, W, X, profile=nobody)
    assert {each.op.name for each in found.refused} > {"dot_general", "exp"}
    last = str(found).splitlines()[-1]
    assert last.startswith("  → a plan is refused: nothing runs matmul(f32[4,3], f32[3,2]), ")
    with pytest.raises(PlanRejected) as refused:
        tl.lower(layer, W, X, profile=nobody)
    text = str(refused.value)
    for each in found.refused:
        assert all([str(reason) in text for candidate in each for reason in candidate.refusals])


def test_explaining_agrees_with_planning_on_every_step() -> None:
    lowered = tl.lower(tl.value_and_grad(loss), W, X, profile=FAST)
    assert len(lowered.plan) > 5
    for position, step in enumerate(lowered.plan.steps):
        found = lowered.explain(position)
        assert found.chosen is step.capsule
        assert found.op is step.node.op
        assert str(lowered.explain(f"%{step.node.outputs[0]}")) == str(found)
        assert str(lowered.plan.explain(step.node)) == str(found)
    assert lowered.explain(-1).op is lowered.plan.steps[-1].node.op


@pytest.mark.parametrize(
    ("which", "shown", "there"),
    [(99, "99", "positions 0 to 1"), ("%99", "'%99'", "%2, %3"), ("tanh", "'tanh'", "%2, %3")],
)
def test_a_step_that_is_not_there_is_refused(which: Any, shown: str, there: str) -> None:
    lowered = tl.lower(lambda w, x: ops.tanh(x @ w), W, X)
    with pytest.raises(ConfigError) as refused:
        lowered.explain(which)
    assert str(refused.value).splitlines() == [
        f"the plan of <lambda> has no step {shown}",
        f"  expected: {there}",
        f"  got:      {shown}",
        "  fix:      print the plan: its lines are in the order of positions and start with the values' names",
    ]
    other, other_node = tl.lower(ops.exp, V), tl.lower(ops.tanh, V).plan.steps[0].node
    with pytest.raises(ConfigError, match="has no step tanh"):
        other.explain(other_node)
    empty = tl.lower(lambda x: x, V)
    with pytest.raises(ConfigError, match="none: the plan has no steps"):
        empty.explain(0)


def test_every_op_has_a_name_and_a_label_here() -> None:
    assert len(ALL_OPS) > 150
    for op in ALL_OPS:
        assert op_named(op.name, FAST) is op
        assert op_named(label(op), FAST) is op


def test_a_thousand_nodes_are_explained_planned_and_accepted_in_a_tenth_of_a_second() -> None:
    """Processor time, the best of five; the limit allows for a machine twice as slow as the one it was set on."""

    def f(x: Any) -> Any:
        for step in range(500):
            x = ops.tanh(x) + float(step)
        return x

    graph = tl.make_graph(f)(V)
    assert len(graph.nodes) >= 1000
    best = 10.0
    for _ in range(5):
        started = time.process_time()
        made = plan(graph, FAST)
        accept(made)
        for position in range(len(made.steps)):
            made.explain(made.steps[position].node)
        best = min(best, time.process_time() - started)
    print(f"explain + plan + accept of {len(made.steps)} steps: {1000 * best:.0f} ms")
    assert best < 0.2
