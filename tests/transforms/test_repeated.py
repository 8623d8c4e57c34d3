"""Pull-backs emitted again without asking the rule are what the rule would emit; nodes refused leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse

import torchlean as tl
from torchlean import ops
from torchlean.errors import TypeRuleError
from torchlean.ir.builder import Builder, bind, bind1
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import ADD, SELECT
from torchlean.ir.tracing import trace_flat
from torchlean.transforms import vjp
from torchlean.transforms.slopes import Derivatives
from torchlean.transforms.vjp import vjp_graph

COPIES = 4
REPEATING = [
    case
    for case in ALL_CASES
    if float_operands(case) and has_reverse(case.op) and case.op.diff.__class__ in vjp._REPEATED
]


def whole(graph: Graph) -> Any:
    """Everything there is about a graph, locations included."""
    nodes = [(*node[:4], str(node.where), node.where.derivative_of) for node in graph.nodes]
    return graph.inputs, graph.outputs, graph.types, nodes, graph.shared


def by_rules_alone(graph: Graph, wrt: Any, mode: Derivatives, monkeypatch: pytest.MonkeyPatch) -> Graph:
    with monkeypatch.context() as patch:
        patch.setattr(vjp, "_REPEATED", frozenset())
        return vjp_graph(graph, wrt, mode=mode)


def test_the_samples_have_every_kind_of_rule() -> None:
    assert {case.op.diff.__class__ for case in REPEATING} == vjp._REPEATED
    assert len(REPEATING) > 150


@pytest.mark.parametrize("mode", list(Derivatives))
@pytest.mark.parametrize("case", [pytest.param(case, id=repr(case)) for case in REPEATING])
def test_copies_of_a_node_pull_back_to_the_nodes_its_rule_emits(
    case: Case, mode: Derivatives, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = graph_of(case)
    floats = float_operands(case)

    def copies(*values: Any) -> list[Any]:
        count = len(one.inputs)
        made: list[Any] = []
        for at in range(0, len(values), count):
            made += bind(case.op, one.nodes[-1].params, *values[at : at + count])
        return made

    graph = trace_flat(copies, one.input_types * COPIES).graph
    # the last two copies are differentiated in other operands than the first ones
    every = [at * len(one.inputs) + position for at in range(COPIES - 1) for position in floats]
    for wrt in (every, [*every, (COPIES - 1) * len(one.inputs) + floats[0]]):
        got, want = vjp_graph(graph, wrt, mode=mode), by_rules_alone(graph, wrt, mode, monkeypatch)
        assert whole(got) == whole(want)


def test_operands_that_coincide_share_what_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on distinct operands, repeated on equal ones, on constants of the sweep and on results of one another."""

    def f(x: Any, y: Any) -> Any:
        one = ops.full((3,), 1.0, "f32")
        total = one
        for left, right in ((x, y), (y, x), (x, x), (one, x), (x, one), (one, one), (x, y)):
            total = total + (left * right) / (ops.exp(right) + one) * ops.tanh(left) + (total * one)
        return (total * total).sum() + (total * x).sum() * (one * x).sum()

    graph = tl.make_graph(f)(np.ones(3, np.float32), np.ones(3, np.float32))
    for mode in Derivatives:
        got, want = vjp_graph(graph, (0, 1), mode=mode), by_rules_alone(graph, (0, 1), mode, monkeypatch)
        assert whole(got) == whole(want)


def test_nodes_with_other_params_are_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    contractions = [((1,), (0,)), ((0,), (1,)), ((1,), (1,)), ((0,), (0,))]

    def f(x: Any, y: Any) -> Any:
        for contract in contractions * COPIES:
            x = ops.dot_general(x, y, contract=contract)
        return x.sum()

    graph = tl.make_graph(f)(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))
    got = vjp_graph(graph, (0, 1))
    assert whole(got) == whole(by_rules_alone(graph, (0, 1), Derivatives.STANDARD, monkeypatch))


def test_a_rule_is_asked_twice_for_any_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    given = vjp.pulled_back
    monkeypatch.setattr(vjp, "pulled_back", lambda *a: asked.append(a[1].op.name) or given(*a))

    def f(x: Any) -> Any:
        for _ in range(50):
            x = ops.tanh(x @ x)
        return x.sum()

    tl.make_graph(tl.grad(f))(np.ones((3, 3), np.float32))
    assert {name: asked.count(name) for name in asked} == {"reduce_sum": 1, "tanh": 2, "dot_general": 2}


def test_what_a_type_rule_refused_is_refused_again() -> None:
    def f(x: Any, y: Any) -> Any:
        texts: list[str] = []
        for _ in range(2):
            for apply in (lambda: bind1(ADD, NO_PARAMS, x, y), lambda: bind(SELECT, NO_PARAMS, x, x, y)):
                with pytest.raises(TypeRuleError) as fault:
                    apply()
                texts.append(str(fault.value).splitlines()[0])
        assert texts[:2] == texts[2:]
        return bind1(ADD, NO_PARAMS, x, x)

    graph = tl.make_graph(f)(np.ones(2, np.float32), np.ones(3, np.float32))
    assert [node.op for node in graph.nodes] == [ADD]
    assert graph.shared is not None
    assert list(graph.shared.values()) == [node.outputs for node in graph.nodes]


def test_a_type_rule_that_fails_otherwise_leaves_nothing_either() -> None:
    builder = Builder()
    x = builder.add_input(tl.TensorType((2,), tl.DType.F32))
    for _ in range(2):
        with pytest.raises(TypeError):
            builder.apply(ADD, NO_PARAMS, (x,))
    assert (builder.nodes, builder.shared) == ([], {})
