"""How control flow runs: plans show what runs inside, acceptance covers it, every way has the bits of the meaning."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.toolbox import tried
from control.programs import OURS, PROGRAMS, arguments
from golden_text import require_golden

import torchlean as tl
from torchlean import ops
from torchlean.backends import Executable, accept, plan, profiles, reference
from torchlean.backends.audit import audit, plan_report
from torchlean.backends.plan import Plan, Step, all_steps
from torchlean.errors import InternalError, PlanRejected
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, sub_graphs, with_sub_graphs
from torchlean.ir.printer import graph_text
from torchlean.ir.serialize import content_hash, dumps, loads

SAVES = ("carries", "residuals")
CASES = [pytest.param(name, save, id=f"{name}-{save}") for name in PROGRAMS for save in SAVES]


def same_bits(got: Any, want: Any) -> bool:
    got, want = np.asarray(got), np.asarray(want)
    return (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


def gradient(name: str, save: str) -> Callable[..., Any]:
    return tl.value_and_grad(PROGRAMS[name](OURS, save=save), argnums=(0, 1, 2))


def example(x: Any, ys: Any) -> Any:
    """Small enough to print: a scan of a branch."""

    def step(carry: Any, y: Any) -> Any:
        new = ops.cond(carry > y, lambda c, y: ops.relu(c) * y, lambda c, y: ops.sin(c), carry, y)
        return new, new * x

    return ops.scan(step, x, ys)


EXAMPLE = np.float32(0.5), np.linspace(-1, 1, 4, dtype=np.float32)


# -- bits --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "save"), CASES)
def test_eager_lowered_and_denoted_have_the_same_bits(name: str, save: str) -> None:
    operands = arguments()
    f = gradient(name, save)
    graph = tl.make_graph(f)(*operands)
    check(graph)
    want = denote(graph, operands)
    lowered = tl.lower(f, *operands)
    for made in (tl.pytree.leaves(f(*operands)), tl.pytree.leaves(lowered(*operands))):
        assert [same_bits(a, b) for a, b in zip(made, want, strict=True)] == [True] * 4


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_what_is_saved_changes_no_bit(name: str) -> None:
    operands = arguments()
    carries, residuals = [tl.pytree.leaves(gradient(name, save)(*operands)) for save in SAVES]
    assert [same_bits(a, b) for a, b in zip(carries, residuals, strict=True)] == [True] * 4


def test_written_out_steps_have_the_bits_of_the_loop() -> None:
    xs = np.linspace(-1, 1, 6, dtype=np.float32)

    def f(unroll: Any, reverse: bool) -> Any:
        return tl.scan(lambda c, x: (ops.sin(c * x), c), np.float32(2), xs, unroll=unroll, reverse=reverse)

    for reverse in (False, True):
        want = f(1, reverse)
        for unroll in (True, 6, 9, 2, False):
            assert [same_bits(a, b) for a, b in zip(f(unroll, reverse), want, strict=True)] == [True, True]
    graph = tl.make_graph(lambda x: tl.scan(lambda c, x: (c + x, None), x[0], x, unroll=True))(xs)
    assert "scan" not in [node.op.name for node in graph.nodes]


def test_results_share_no_memory_with_arguments_or_one_another() -> None:
    def f(x: Any, ys: Any) -> Any:
        carried = ops.scan(lambda c, y: ((c[1], c[0], y), None), (x, x, x), ys)[0]
        chosen = ops.cond(ys[0, 0] > 0, lambda x: (x, x), lambda x: (x, x * 0.0), x)
        looped = ops.while_loop(lambda c: c[0][0] < 0, lambda c: c, (x, x))
        return carried, chosen, looped, ops.checkpoint(lambda x: (x, x, ops.transpose(ys)))(x)

    x, ys = np.ones(3, np.float32), np.ones((4, 3), np.float32)
    made = tl.lower(f, x, ys).executable.call(x, ys)
    for at, result in enumerate(made):
        assert not np.shares_memory(result, x)
        assert not np.shares_memory(result, ys)
        assert not any(np.shares_memory(result, other) for other in made[at + 1 :])
    want = denote(tl.make_graph(f)(x, ys), (x, ys))
    assert [same_bits(a, b) for a, b in zip(made, want, strict=True)] == [True] * len(want)


# -- text --------------------------------------------------------------------------------------------------------------
def test_graphs_plans_and_sources_show_what_is_inside() -> None:
    graph = tl.make_graph(example)(*EXAMPLE)
    require_golden("graph_control", graph_text(graph))
    require_golden(
        "graph_control_gradient", graph_text(tl.make_graph(tl.grad(lambda x, ys: example(x, ys)[0]))(*EXAMPLE))
    )
    tried_cpu = profiles.reference_cpu.with_modules(tried(reference.MODULE))  # printed the same on every machine
    lowered = tl.lower(example, *EXAMPLE, profile=tried_cpu)
    require_golden("plan_control", str(lowered.plan))
    require_golden("source_control", lowered.source)


def test_the_plan_as_data_holds_the_inner_plans() -> None:
    (step,) = tl.lower(example, *EXAMPLE).plan.as_json()["steps"]
    assert step["op"] == "scan"
    (inner,) = [entry for entry in step["body"]["steps"] if entry["op"] == "cond"]
    assert [entry["op"] for entry in inner["branches[0]"]["steps"]] == ["sin"]


def test_composites_inside_a_loop_are_expanded_there() -> None:
    def f(w: Any, x: Any) -> Any:
        return tl.scan(lambda c, _: (ops.softmax(ops.linear(c, w)), None), x, None, 3)[0]

    w, x = np.eye(3, dtype=np.float32), np.linspace(0, 1, 3, dtype=np.float32)
    made = tl.lower(f, w, x)
    (step,) = made.plan.steps
    (inner,) = step.inner
    assert made.plan.expansions == ()
    assert sorted([expansion.op for expansion in inner.expansions]) == ["linear", "softmax"]
    assert step.node.params.body is inner.graph
    assert "expanded softmax ×1: no capsule implements it" in str(made.plan)
    assert same_bits(made(w, x), denote(made.graph, (w, x))[0])


def test_the_audit_and_the_report_count_the_kernels_inside() -> None:
    made = tl.lower(example, *EXAMPLE, profile=profiles.reference_cpu).plan
    counts = {kernel.capsule: kernel.nodes for kernel in audit(made).kernels}
    assert {"reference.scan", "reference.cond", "reference.sin", "reference.relu", "reference.gt"} <= set(counts)
    assert sum(counts.values()) == len(list(all_steps(made))) > len(made)
    assert [line for line in plan_report(made) if line.startswith("  sin: reference.sin")]


# -- acceptance --------------------------------------------------------------------------------------------------------
def tampered(made: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with the plan of its scan's body changed."""
    (step,) = made.steps
    other = replace(step, inner=(change(step.inner[0]),))
    return Plan(graph=made.graph, profile=made.profile, steps=(other,), expansions=made.expansions)


def refusal(made: Plan) -> str:
    with pytest.raises(PlanRejected) as caught:
        accept(made)
    return str(caught.value)


def planned() -> Plan:
    return plan(tl.make_graph(example)(*EXAMPLE), profiles.reference_cpu)


def test_acceptance_looks_inside() -> None:
    made = planned()
    assert accept(made).inner(made.steps[0])[0].plan is made.steps[0].inner[0]

    def with_steps(steps: Any) -> Callable[[Plan], Plan]:
        return lambda inner: Plan(graph=inner.graph, profile=inner.profile, steps=steps(inner.steps))

    def foreign(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return (replace(steps[0], capsule=replace(steps[0].capsule)), *steps[1:])

    assert "reference.gt is unavailable: comes from no module of the profile" in refusal(
        tampered(made, with_steps(foreign))
    )
    missing = refusal(tampered(made, with_steps(lambda steps: steps[:-1])))
    assert "the plan has 3 steps for 4 nodes" in missing
    other = tl.make_graph(lambda x, c, y: (c, y))(EXAMPLE[0], EXAMPLE[0], EXAMPLE[0])
    swapped = refusal(tampered(made, lambda inner: plan(other, inner.profile)))
    assert "inside scan is of another graph than the node holds" in swapped
    profile = refusal(tampered(made, lambda inner: plan(inner.graph, profiles.numpy_cpu)))
    assert "inside scan is for profile 'numpy_cpu'" in profile
    (step,) = made.steps
    absent = Plan(graph=made.graph, profile=made.profile, steps=(replace(step, inner=()),))
    assert "scan holds 1 sub-graphs, but its step has 0 plans for them" in refusal(absent)


def test_an_inner_plan_is_handed_out_for_a_step_of_the_plan_only() -> None:
    made, other = planned(), planned()
    with pytest.raises(InternalError, match="a step of scan is no step of"):
        accept(made).inner(other.steps[0])


def test_an_op_without_a_capsule_inside_a_loop_is_refused_with_its_line() -> None:
    profile = profiles.reference_cpu
    module = profile.modules[0]
    without = replace(module, capsules=tuple([c for c in module.capsules if c.op.name not in ("sin", "exp")]))
    with pytest.raises(PlanRejected) as caught:
        plan(tl.make_graph(lambda x, ys: (ops.exp(x), example(x, ys)))(*EXAMPLE), replace(profile, modules=(without,)))
    text = str(caught.value)
    assert "no capsule implements exp" in text
    assert "no capsule implements sin" in text


def test_a_fault_inside_a_body_is_found_by_check() -> None:
    graph = tl.make_graph(example)(*EXAMPLE)
    (node,) = graph.nodes
    (body,) = [held for _, held in sub_graphs(node.params)]
    wrong = Graph(inputs=body.inputs, nodes=body.nodes[::-1], outputs=body.outputs, types=body.types)
    edited = node._replace(params=with_sub_graphs(node.params, [wrong]))
    with pytest.raises(tl.errors.GraphError, match="before it is defined"):
        check(Graph(inputs=graph.inputs, nodes=(edited,), outputs=graph.outputs, types=graph.types))


# -- equal graphs ------------------------------------------------------------------------------------------------------
def test_equal_scans_are_one_node_and_one_selection() -> None:
    def f(x: Any, ys: Any) -> Any:
        return example(x, ys)[0] + example(x, ys)[0]

    assert [node.op.name for node in tl.make_graph(f)(*EXAMPLE).nodes] == ["scan", "add"]
    with tl.Session() as session:
        example(tl.array(EXAMPLE[0]), EXAMPLE[1])
        known = session.selections
        for turn in range(5):
            example(tl.array(np.float32(turn)), EXAMPLE[1])  # captured, so an operand
        assert session.selections == known


def test_an_eager_array_that_a_body_closes_over_is_an_operand() -> None:
    known: list[int] = []
    with tl.Session() as session:
        for turn in range(3):
            w = tl.array(np.full((3, 3), turn, dtype=np.float32))
            made = tl.scan(lambda c, x, w=w: (ops.matmul(w, c), None), np.ones(3, np.float32), np.zeros(2, np.float32))
            known.append(session.selections)
            np.testing.assert_array_equal(np.asarray(made[0]), np.full(3, (3 * turn) ** 2, dtype=np.float32))
    assert known == [known[0]] * 3


def test_a_tape_reaches_what_a_body_closes_over() -> None:
    (w, h, xs) = arguments()
    f = PROGRAMS["rnn"](OURS)
    with tl.Session(track_gradients=True) as session:
        mine, start = session.parameter(w, "w"), session.parameter(h, "h")
        found = session.backward(f(mine, start, xs))
        got = [np.asarray(found[handle]) for handle in (mine, start)]
    for made, want in zip(got, tl.grad(f, argnums=(0, 1))(w, h, xs), strict=True):
        np.testing.assert_allclose(made, np.asarray(want), rtol=0, atol=1e-5)


# -- what derivatives keep ---------------------------------------------------------------------------------------------
def scans(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes if node.op.name == "scan"]


def test_the_forward_scan_of_a_gradient_keeps_carries_or_residuals_and_runs_once() -> None:
    w, h, xs = arguments()
    kept: dict[str, list[str]] = {}
    for save in SAVES:
        graph = tl.make_graph(tl.grad(PROGRAMS["rnn"](OURS, save=save)))(w, h, xs)
        forward, backward = scans(graph)
        assert backward.params.reverse
        kept[save] = [str(graph.types[id]) for id in forward.outputs[forward.params.carries + 2 :]]
        assert not any("i32" in str(graph.types[id]) for id in (*backward.inputs, *backward.outputs))
    assert kept["carries"] == ["f32[5,3]"]
    assert kept["residuals"] == ["f32[5,3]", "f32[5,3]"]
    inside = {
        save: len(scans(tl.make_graph(tl.grad(PROGRAMS["rnn"](OURS, save=save)))(w, h, xs))[1].params.body)
        for save in SAVES
    }
    assert inside["residuals"] < inside["carries"]


def test_forward_mode_runs_a_loop_once() -> None:
    w, h, xs = arguments()
    graph = tl.make_graph(lambda *vs: tl.jvp(PROGRAMS["rnn"](OURS), (w, h, xs), vs))(w, h, xs)
    assert len(scans(tl.make_graph(lambda v: tl.jvp(lambda w: PROGRAMS["rnn"](OURS)(w, h, xs), (w,), (v,)))(w))) == 1
    assert len(scans(graph)) == 1


def test_residuals_of_constants_are_computed_once() -> None:
    """The square of a captured matrix does not depend on the step."""
    w, h, xs = arguments()

    def f(w: Any) -> Any:
        return tl.scan(lambda c, x: (ops.matmul(ops.sin(w), c) * x, None), h, xs, save="residuals")[0].sum()

    graph = tl.make_graph(tl.grad(f))(w)
    assert "sin" in [node.op.name for node in graph.nodes]
    np.testing.assert_allclose(
        np.asarray(tl.grad(f)(w)), np.asarray(tl.grad(lambda w: f(w) * 1.0)(w)), rtol=0, atol=1e-6
    )


def test_a_branch_under_vmap_is_a_select_only_where_the_predicate_is_mapped() -> None:
    def f(p: Any, x: Any) -> Any:
        return ops.cond(p > 0, ops.sin, ops.exp, x)

    x = np.ones((3, 2), np.float32)
    one = [node.op.name for node in tl.make_graph(tl.vmap(f, in_axes=(None, 0)))(np.float32(1), x).nodes]
    each = [node.op.name for node in tl.make_graph(tl.vmap(f))(np.ones(3, np.float32), x).nodes]
    assert "cond" in one
    assert "select" not in one
    assert "cond" not in each
    assert {"select", "sin", "exp"} <= set(each)


def test_a_branch_not_taken_sends_no_nan_to_its_operand() -> None:
    def f(x: Any) -> Any:
        return ops.cond(x > 0, ops.sqrt, lambda x: x * 3.0, x)

    xs = np.array([-1.0, 0.0, 4.0], np.float32)
    want = np.array([3, 3, 0.25], np.float32)
    np.testing.assert_array_equal(np.asarray(tl.vmap(tl.grad(f))(xs)), want)
    raw = tl.vmap(tl.grad(f, ieee_derivatives=True))  # 0 · ∞ is NaN there, and still stays in the branch not taken
    np.testing.assert_array_equal(np.asarray(raw(xs)), want)
    mapped = tl.grad(lambda xs: tl.vmap(f)(xs).sum(), ieee_derivatives=True)
    np.testing.assert_array_equal(np.asarray(mapped(xs)), want)
    np.testing.assert_array_equal(
        np.asarray(tl.jvp(tl.vmap(f), (xs,), (np.ones(3, np.float32),))[1]), np.array([3, 3, 0.25], np.float32)
    )


def test_an_index_outside_the_branches_is_clamped_whatever_its_dtype() -> None:
    rows = [lambda x: x * 1.0, lambda x: x * 2.0, lambda x: x * 3.0]
    for dtype in ("int8", "uint8", "int32", "int64", "uint64"):
        big, small = np.iinfo(dtype).max, np.iinfo(dtype).min
        for index, want in ((big, 3), (small, 1), (1, 2)):
            assert float(tl.switch(np.array(index, dtype), rows, np.float32(1))) == want
    assert float(tl.switch(-3, rows, np.float32(1))) == 1
    assert float(tl.switch(9, rows, np.float32(1))) == 3


def test_trees_of_nothing_come_back() -> None:
    assert tl.cond(True, lambda: None, lambda: None) is None
    assert tl.scan(lambda c, x: (None, {"a": None}), None, np.ones(3)) == (None, {"a": None})
    assert tl.switch(0, [lambda x: (x, None)], np.float32(2)) is not None


# -- files and threads -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "save"), CASES)
def test_a_gradient_graph_comes_back_from_a_file(name: str, save: str) -> None:
    operands = arguments()
    graph = tl.make_graph(gradient(name, save))(*operands)
    again = loads(dumps(graph))
    assert content_hash(again) == content_hash(graph)
    want = denote(graph, operands)
    assert [same_bits(a, b) for a, b in zip(denote(again, operands), want, strict=True)] == [True] * 4
    made = Executable(accept(plan(again, profiles.reference_cpu))).checked(*operands)
    assert [same_bits(a, b) for a, b in zip(made, want, strict=True)] == [True] * 4


def test_threads_do_not_disturb_one_another() -> None:
    operands = arguments()
    names = list(PROGRAMS) * 2
    want = {
        name: [np.asarray(x).tobytes() for x in tl.pytree.leaves(gradient(name, "carries")(*operands))]
        for name in PROGRAMS
    }
    results: list[bool] = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(name: str) -> None:
        for _ in range(3):
            made = tl.pytree.leaves(gradient(name, "carries")(*operands))
            results.append([np.asarray(x).tobytes() for x in made] == want[name])

    try:
        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert results == [True] * (3 * len(names))
