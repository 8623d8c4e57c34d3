"""`check` accepts what tracing and the transforms make, and refuses what breaks any invariant, naming the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from golden_text import require_golden
from ir.programs import MLP, f32, mlp_loss, programs
from ops.samples import Sample, cases

from torchlean.errors import GraphError
from torchlean.ir import ops
from torchlean.ir.builder import bind
from torchlean.ir.check import check
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.composite import Composed
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.ops.spread import Axes
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.api import make_graph

PROGRAMS = programs()


def example() -> Graph:
    """tanh, exp, a product and its sum."""

    def f(x: Any) -> Any:
        y = ops.tanh(x)
        return ops.sum(y * ops.exp(y))

    return make_graph(f)(f32(3))


def edited(graph: Graph, **parts: Any) -> Graph:
    held = {name: getattr(graph, name) for name in ("inputs", "nodes", "outputs", "types", "name")}
    return Graph(**{**held, **parts})


def with_node(graph: Graph, position: int, **fields: Any) -> Graph:
    nodes = list(graph.nodes)
    nodes[position] = nodes[position]._replace(**fields)
    return edited(graph, nodes=tuple(nodes))


def with_type(graph: Graph, id: int, type: TensorType) -> Graph:
    types = list(graph.types)
    types[id] = type
    return edited(graph, types=tuple(types))


def refusal(graph: Graph) -> str:
    with pytest.raises(GraphError) as caught:
        check(graph)
    return str(caught.value)


# -- what is accepted --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_and_transformed_programs_are_accepted(name: str) -> None:
    check(PROGRAMS[name])


def test_nothing_is_accepted_too() -> None:
    check(Graph(inputs=(), nodes=(), outputs=(), types=()))
    check(Graph(inputs=(0,), nodes=(), outputs=(0, 0), types=(f32(0),)))


@pytest.mark.parametrize("sample", cases())
def test_a_graph_whose_declared_type_is_edited_is_refused_naming_the_node(sample: Sample) -> None:
    """For every op and sample: one more axis, another dtype."""
    types = [type_of_array(array) for array in sample.arrays]
    graph = trace_flat(lambda *xs: bind(sample.op, sample.params, *xs), types).graph
    check(graph)
    node = graph.nodes[-1]
    for id in node.outputs:
        declared = graph.types[id]
        other = DType.F32 if declared.dtype is not DType.F32 else DType.F64
        for wrong in (declared.with_shape((*declared.shape, 1)), declared.with_dtype(other)):
            says = refusal(with_type(graph, id, wrong))
            assert f" = {sample.op.name} declares {wrong}, but its type rule gives {declared}" in says
            assert f"%{id}" in says


# -- what is refused ---------------------------------------------------------------------------------------------------
def test_the_refusal_reads_well() -> None:
    says = refusal(with_type(example(), 3, f32(4)))
    require_golden("check_refusal", re.sub(r"py:\d+", "py:LINE", says))


def test_the_refusal_has_at_most_six_lines() -> None:
    graph = make_graph(mlp_loss)(*MLP)
    assert len(refusal(with_type(graph, 8, f32(9))).splitlines()) <= 6


NEGATIVE = TensorType((-3,), DType.F32)
SOUND = example()
LAST = len(SOUND.nodes) - 1
REFUSED: tuple[tuple[str, Graph, str], ...] = (
    ("a use before its definition", with_node(SOUND, 0, inputs=(3,)), "node %1 = tanh uses %3 before it is defined"),
    ("a use of itself", with_node(SOUND, 1, inputs=(2,)), "node %2 = exp uses %2 before it is defined"),
    ("a use of no value", with_node(SOUND, 1, inputs=(99,)), "node %2 = exp uses %99 before it is defined"),
    ("a negative id", with_node(SOUND, 1, inputs=(-1,)), "node %2 = exp uses %-1 before it is defined"),
    (
        "a second definition",
        with_node(SOUND, 1, outputs=(1,)),
        "node %1 = exp cannot define it: %1 is defined already",
    ),
    (
        "a definition of an input",
        with_node(SOUND, 0, outputs=(0,)),
        "node %0 = tanh cannot define it: %0 is defined already",
    ),
    ("one value twice", edited(SOUND, inputs=(0, 0)), "input 1 of graph f: %0 is defined already"),
    ("an input without a type", edited(SOUND, inputs=(9,)), "input 0 of graph f: %9 has no declared type"),
    (
        "a result without a type",
        with_node(SOUND, 1, outputs=(9,)),
        "node %9 = exp cannot define it: %9 has no declared type",
    ),
    ("an input of negative size", with_type(SOUND, 0, NEGATIVE), "input 0 of graph f: %0 is declared f32[-3]"),
    ("an undefined output", edited(SOUND, outputs=(9,)), "output 0 of graph f: %9 is never defined"),
    ("an output not yet defined", edited(SOUND, nodes=SOUND.nodes[:1]), "output 0 of graph f: %4 is never defined"),
    ("no result", with_node(SOUND, 1, outputs=()), "node nothing = exp defines no value"),
    (
        "a result of a smaller id",
        Graph(
            inputs=(1,), nodes=(SOUND.nodes[0]._replace(inputs=(1,), outputs=(0,)),), outputs=(0,), types=(f32(3),) * 2
        ),
        "node %0 = tanh defines %0 from a value of a larger id",
    ),
    (
        "params of another class",
        with_node(SOUND, LAST, params=NO_PARAMS),
        "node %4 = reduce_sum has params of class NoParams, expected Axes",
    ),
    (
        "params the rule refuses",
        with_node(SOUND, LAST, params=Axes((5,))),
        "node %4 = reduce_sum is ill-typed: the axes are not axes of the operand; "
        "expected increasing axes in [0, 1), got [5]",
    ),
    (
        "too few operands",
        with_node(SOUND, 2, inputs=(1,)),
        "node %3 = mul has operands or params its type rule does not take: f32[3] (",
    ),
    (
        "too many operands",
        with_node(SOUND, 1, inputs=(0, 1, 1)),
        "node %2 = exp has operands or params its type rule does not take: f32[3], f32[3], f32[3]",
    ),
    (
        "params of the wrong type",
        with_node(SOUND, LAST, params=Axes(3)),  # type: ignore[arg-type]
        "node %4 = reduce_sum has operands or params its type rule does not take",
    ),
)


@pytest.mark.parametrize(("graph", "says"), [pytest.param(g, says, id=name) for name, g, says in REFUSED])
def test_a_broken_invariant_is_refused(graph: Graph, says: str) -> None:
    text = refusal(graph)
    assert says in text
    if text.startswith("node"):
        assert any(line.startswith("> ") for line in text.splitlines())
        assert "test_check.py:" in text.splitlines()[0]
    assert len(text.splitlines()) <= 6


def test_a_body_is_checked_too() -> None:
    graph = make_graph(lambda x: ops.softmax(x))(f32(3, 5))
    params: Composed = graph.nodes[0].params
    broken = with_type(params.body, 3, f32(7))
    says = refusal(with_node(graph, 0, params=Composed(params.attributes, broken)))
    assert "declares f32[7], but its type rule gives" in says


def test_a_body_that_many_nodes_share_is_checked_once() -> None:
    """A chain of a hundred nodes each holding the previous body twice would otherwise take 2**100 steps."""
    graph = make_graph(lambda x: ops.silu(ops.silu(x)))(f32(3))
    for _ in range(100):
        nodes = tuple([n._replace(params=Composed(n.params.attributes, graph)) for n in graph.nodes])
        graph = edited(graph, nodes=nodes)
    check(graph)


@dataclass(frozen=True, slots=True)
class _Sized:
    size: int


def test_a_rule_that_gives_a_negative_size_is_refused() -> None:
    op = Op(
        name="shrunk",
        params=_Sized,
        type_rule=lambda params, x: (TensorType((params.size,), x.dtype),),
        denote=lambda algebra, params, x: (x,),
        diff=NoTangent("not needed"),
        batch=Pointwise(),
        reduces=False,
        doc="A careless op.",
    )
    node = Node(op, (0,), (1,), _Sized(-3), SOUND.nodes[0].where)
    graph = Graph(inputs=(0,), nodes=(node,), outputs=(1,), types=(f32(3), NEGATIVE))
    assert "cannot define it: %1 is declared f32[-3], which has a negative size" in refusal(graph)


def test_a_hundred_thousand_nodes_are_checked() -> None:
    graph = make_graph(_chain)(f32(2))
    check(graph)
    says = refusal(with_node(graph, 99_998, op=ADD))
    assert says.startswith("node %99999 = add has operands or params its type rule does not take")


def _chain(x: Any) -> Any:
    for _ in range(100_000):
        x = ops.tanh(x)
    return x


def test_the_array_of_a_constant_has_its_declared_type() -> None:
    graph = trace_flat(lambda: [ops.constant(np.float32([1.0, 2.0]))], []).graph
    assert "constant declares f32[3], but its type rule gives f32[2]" in refusal(with_type(graph, 0, f32(3)))
