"""The mission's first theorem as a law: `check` accepts a graph ⇒ `denote` returns exactly the declared types.

For every op and sample, for random programs, and for what the transforms make of both. And `check` is not lenient: an
accepted graph in which one declared type, one params or one input id is edited is refused, naming the node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse
from ops.samples import CONVOLUTIONS

from torchlean.errors import GraphError, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.check import check
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import Literal
from torchlean.ir.op import NO_PARAMS, NoParams, TypeFault
from torchlean.ir.ops import ALL_OPS, PRIMITIVES
from torchlean.ir.ops.composite import Composed
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.vjp import vjp_graph
from torchlean.transforms.vmap import vmap_graph

Array = np.ndarray[Any, Any]


def params(cases: Sequence[Case]) -> list[Any]:
    return [pytest.param(case, id=repr(case)) for case in cases]


def entries(types: Sequence[TensorType], seed: int) -> list[Array]:
    """Arrays of the types, with small entries."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 3, type.shape).astype(type.dtype.carrier) for type in types]


def assert_sound(graph: Graph, arguments: Sequence[Array]) -> None:
    """`check` accepts, and every value — not only the outputs — has the type it declares."""
    check(graph)
    every = tuple(range(len(graph.types)))
    made = {id for node in graph.nodes for id in node.outputs} | set(graph.inputs)
    shown = tuple([id for id in every if id in made])
    whole = Graph(inputs=graph.inputs, nodes=graph.nodes, outputs=shown, types=graph.types)
    values = denote(whole, arguments)
    assert [type_of_array(value) for value in values] == [graph.types[id] for id in shown]


def variants(graph: Graph) -> Iterator[Graph]:
    """What the transforms make of a graph."""
    floats = [at for at, type in enumerate(graph.input_types) if type.dtype.is_float]
    yield dead_code_eliminated(graph)
    yield jvp_graph(graph, [at in floats for at in range(len(graph.inputs))])[0]
    if graph.inputs:
        yield vmap_graph(graph, 2, [True, *[False] * (len(graph.inputs) - 1)])
    if all([has_reverse(node.op) for node in graph.nodes]):
        pulled = vjp_graph(graph, floats)
        yield pulled
        if graph.inputs:
            yield vmap_graph(pulled, 2, [True] * len(pulled.inputs))


# -- accepted ⇒ typed as declared --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", params(ALL_CASES))
def test_an_accepted_graph_returns_the_declared_types(case: Case) -> None:
    graph = graph_of(case)
    assert_sound(graph, case.arrays)
    assert {graph.types[id] for id in graph.inputs} == {type_of_array(array) for array in case.arrays}
    for made in variants(graph):
        assert_sound(made, entries(made.input_types, len(case.arrays)))


# -- random programs ---------------------------------------------------------------------------------------------------
SHAPES = ((), (3,), (2, 3), (3, 2), (1, 3), (0, 3))
UNARY = (ops.neg, ops.abs, ops.sin, ops.tanh, ops.exp, ops.logistic, ops.relu, ops.silu, ops.sign, ops.stop_gradient)
BINARY = (ops.add, ops.sub, ops.mul, ops.div, ops.max, ops.min, ops.lt, ops.eq)
LENGTH = 20


def step(values: list[Any], choose: Any) -> Any:
    """One more value from a few earlier ones, or None where the draw does not fit the types."""
    x, y = choose(values), choose(values)
    kind = choose(range(12))
    floats = x.dtype.is_float and y.dtype.is_float
    rank = x.ndim
    if kind <= 2:
        return choose(UNARY)(x) if x.dtype.is_float else None
    if kind <= 5:
        return choose(BINARY)(x, y) if floats and y.shape in (x.shape, ()) else None
    if kind == 6:
        return x.T
    if kind == 7:
        return ops.reshape(x, (x.size,))
    if kind == 8:
        return ops.sum(x, choose(range(rank))) if rank and not x.dtype.is_bool else None
    if kind == 9:
        return (
            ops.matmul(x, y) if floats and rank and y.ndim and x.shape[-1] == y.shape[-2 if y.ndim > 1 else 0] else None
        )
    if kind == 10:
        condition = choose(values)
        same = x.type == y.type and condition.dtype.is_bool and condition.shape == x.shape
        return ops.select(condition, x, y) if same else ops.convert(x, choose((DType.F32, DType.F64, DType.I32)))
    return x[choose((0, -1, slice(None, None, -1), slice(1, None, 2)))] if rank and x.shape[0] else None


@st.composite
def programs(draw: Any) -> tuple[Graph, int]:
    """A graph of about twenty random ops, and a seed for its arguments."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    types = [TensorType(shape, draw(st.sampled_from((DType.F32, DType.F64)))) for shape in shapes]
    choices = draw(st.lists(st.integers(0, 2**16), min_size=5 * LENGTH, max_size=5 * LENGTH))

    def choose(options: Sequence[Any]) -> Any:
        return options[(choices.pop() if choices else 0) % len(options)]

    def flat(*inputs: Any) -> list[Any]:
        values = list(inputs)
        while choices and len(values) < LENGTH + len(inputs):
            made = step(values, choose)
            if made is not None:
                values.append(made)
        return values[-3:]

    return trace_flat(flat, types).graph, draw(st.integers(0, 99))


@settings(max_examples=150)
@given(programs())
def test_a_random_program_returns_the_declared_types(program: tuple[Graph, int]) -> None:
    graph, seed = program
    assert_sound(graph, entries(graph.input_types, seed))
    for made in variants(graph):
        assert_sound(made, entries(made.input_types, seed))


@settings(max_examples=60)
@given(programs(), st.data())
def test_one_edit_anywhere_in_a_random_program_is_refused(program: tuple[Graph, int], data: st.DataObject) -> None:
    graph, _ = program
    if not graph.nodes:
        return
    position = data.draw(st.integers(0, len(graph.nodes) - 1))
    edits = (
        list(wrong_types(graph, position)) + list(wrong_inputs(graph, position)) + list(wrong_params(graph, position))
    )
    for edited, named in edits:
        refused(edited, named)


# -- an edited graph is refused ----------------------------------------------------------------------------------------
def name_of(node: Node) -> str:
    return f"node {', '.join(f'%{id}' for id in node.outputs)} = {node.op.name} "


def refusal(graph: Graph) -> str | None:
    """The first line of why `check` refuses, or None."""
    try:
        check(graph)
    except GraphError as error:
        return str(error).splitlines()[0]
    return None


def refused(graph: Graph, named: Node) -> None:
    """`check` refuses, and the first line names the node."""
    with pytest.raises(GraphError) as caught:
        check(graph)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(name_of(named)), first
    assert len(str(caught.value).splitlines()) <= 6


def with_types(graph: Graph, types: Sequence[TensorType]) -> Graph:
    return Graph(inputs=graph.inputs, nodes=graph.nodes, outputs=graph.outputs, types=tuple(types))


def with_node(graph: Graph, position: int, **changed: Any) -> tuple[Graph, Node]:
    node = graph.nodes[position]._replace(**changed)
    nodes = (*graph.nodes[:position], node, *graph.nodes[position + 1 :])
    return Graph(inputs=graph.inputs, nodes=nodes, outputs=graph.outputs, types=graph.types), node


def other_types(type: TensorType) -> Iterator[TensorType]:
    """Types unlike this one in one thing: dtype, a size, the rank."""
    yield from (type.with_dtype(dtype) for dtype in DType if dtype is not type.dtype)
    yield type.with_shape((*type.shape, 1))
    yield type.with_shape((1, *type.shape))
    for axis, size in enumerate(type.shape):
        yield type.with_shape((*type.shape[:axis], size + 1, *type.shape[axis + 1 :]))
        yield type.with_shape(type.shape[:axis] + type.shape[axis + 1 :])


def wrong_types(graph: Graph, position: int) -> Iterator[tuple[Graph, Node]]:
    """Every other declared type of every output of the node."""
    node = graph.nodes[position]
    for id in node.outputs:
        for type in other_types(graph.types[id]):
            yield with_types(graph, (*graph.types[:id], type, *graph.types[id + 1 :])), node


def wrong_inputs(graph: Graph, position: int) -> Iterator[tuple[Graph, Node]]:
    """Input ids that are out of range, the node's own, defined later, or of another type; one too many, one too few."""
    node = graph.nodes[position]
    last = len(graph.types)
    for at in range(len(node.inputs)):
        for other in (-1, last, last + 7, node.outputs[0], last - 1):
            if other >= node.outputs[0] or other < 0:
                yield with_node(graph, position, inputs=(*node.inputs[:at], other, *node.inputs[at + 1 :]))
    yield with_node(graph, position, outputs=(*node.outputs, node.outputs[0]))
    yield with_node(graph, position, outputs=(last,) * len(node.outputs))
    if graph.inputs:
        yield with_node(graph, position, outputs=(graph.inputs[0],) * len(node.outputs))


def wrong_params(graph: Graph, position: int) -> Iterator[tuple[Graph, Node]]:
    """Params of another class."""
    node = graph.nodes[position]
    for other in (NO_PARAMS, Literal(np.zeros(3)), None, "axes"):
        if not isinstance(other, node.op.params):
            yield with_node(graph, position, params=other)


FIRST = {case.op: case for case in reversed(ALL_CASES) if case.arrays or case.op.name in ("constant", "full", "iota")}
ONE_PER_OP = [FIRST[op] for op in ALL_OPS if op in FIRST]


@pytest.mark.parametrize("case", params(ALL_CASES))
def test_an_edited_type_input_or_params_is_refused_and_the_node_named(case: Case) -> None:
    graph = graph_of(case)
    tried = 0
    for position in range(len(graph.nodes)):
        for edits in (wrong_types, wrong_inputs, wrong_params):
            for edited, named in edits(graph, position):
                refused(edited, named)
                tried += 1
    assert tried >= 15


@pytest.mark.parametrize("case", params(ONE_PER_OP))
def test_an_edit_in_a_transformed_graph_is_refused_and_the_node_named(case: Case) -> None:
    for graph in variants(graph_of(case)):
        for position in range(len(graph.nodes)):
            for edits in (wrong_types, wrong_inputs, wrong_params):
                for edited, named in edits(graph, position):
                    refused(edited, named)


@pytest.mark.parametrize("case", params([case for case in ALL_CASES if case.arrays]))
def test_an_edited_input_type_is_refused_by_a_user_of_it_or_leaves_a_sound_graph(case: Case) -> None:
    """Some ops take any dtype (convert) or any shape; then the edited graph is another sound one."""
    graph = graph_of(case)
    for id in graph.inputs:
        users = tuple([name_of(node) for node in graph.nodes if id in node.inputs])
        for type in other_types(graph.types[id]):
            edited = with_types(graph, (*graph.types[:id], type, *graph.types[id + 1 :]))
            complaint = refusal(edited)
            if complaint is None:
                assert_sound(edited, entries(edited.input_types, id))
            else:
                assert complaint.startswith(users)


# -- params that do not fit --------------------------------------------------------------------------------------------
def other_values(value: Any) -> Iterator[Any]:
    """Values near this one, legal or not."""
    if isinstance(value, Enum):
        yield from (member for member in type(value) if member is not value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield value + "'"
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -1, 10**6, -(10**6), 0)
    elif isinstance(value, tuple):
        yield from ((), (*value, 0), (*value, *value), value[:-1], value[::-1])
        for at, entry in enumerate(value):
            yield from ((*value[:at], other, *value[at + 1 :]) for other in other_values(entry))


def near(value: Any) -> Iterator[Any]:
    """Params that differ in one field."""
    for field in dataclasses.fields(value):
        for other in other_values(getattr(value, field.name)):
            if other != getattr(value, field.name):
                yield dataclasses.replace(value, **{field.name: other})


def is_plain(case: Case) -> bool:
    """Whether the params are a record of numbers, not a graph or an array."""
    node = graph_of(case).nodes[0]
    return dataclasses.is_dataclass(node.params) and not isinstance(node.params, Composed) and node.params != NO_PARAMS


def small(type: TensorType) -> bool:
    return type.size <= 10**4


PLAIN = [case for case in ALL_CASES if is_plain(case)]


def test_the_number_of_cases_is_known() -> None:
    assert len(ALL_CASES) >= 3000
    assert {op.name for op in ALL_OPS if op not in FIRST} == set(), "ops without a sample"
    assert [case.op for case in ONE_PER_OP] == list(ALL_OPS)
    have_params = {op.name for op in PRIMITIVES if op.params is not NoParams} - {"constant"}
    assert have_params - {case.op.name for case in PLAIN} == set(), "ops without a sample whose params are edited"
    assert len(PLAIN) >= 1500
    assert len(CONVOLUTIONS) == 11


@pytest.mark.parametrize("case", params(PLAIN))
def test_an_op_with_edited_params_is_refused_or_means_what_it_declares(case: Case) -> None:
    """Whatever the numbers in the params: `check` refuses, or the type rule gives the types `denote` returns."""
    graph = graph_of(case)
    node = graph.nodes[0]
    accepted = refusals = 0
    for edited in near(node.params):
        made = ruled(node, edited, graph.input_types)
        if made is None:
            refused(*with_node(graph, 0, params=edited))
            refusals += 1
            continue
        if not all(map(small, made)):
            continue  # legal, but a million entries are not needed to see it
        types = (*graph.input_types, *made)
        again = Graph(
            inputs=graph.inputs, nodes=(node._replace(params=edited),), outputs=node.outputs, types=types, name="edited"
        )
        if any(size < 0 for type in made for size in type.shape):
            refused(again, node)
            refusals += 1
        else:
            assert_sound(again, case.arrays)
            accepted += 1
    assert accepted + refusals > 0


def ruled(node: Node, edited: Any, types: Sequence[TensorType]) -> tuple[TensorType, ...] | None:
    """The types of the node with other params, or None where its type rule refuses them (or cannot read them)."""
    try:
        return node.op.type_rule(edited, *types)
    except (TypeFault, TypeError, ValueError, IndexError, ArithmeticError):
        return None  # besides TypeFault: params no call can make, such as three strides and two paddings


@pytest.mark.parametrize("case", params([case for case in PLAIN if case.arrays]))
def test_params_whose_type_changes_are_refused_and_the_node_named(case: Case) -> None:
    graph = graph_of(case)
    node = graph.nodes[0]
    for edited in near(node.params):
        if ruled(node, edited, graph.input_types) != graph.output_types:
            refused(*with_node(graph, 0, params=edited))


# -- the rest of the invariants ----------------------------------------------------------------------------------------
def _pair() -> Graph:
    return trace_flat(lambda x: [ops.tanh(ops.sin(x))], [TensorType((3,), DType.F32)]).graph


def test_an_output_that_nothing_defines_is_refused() -> None:
    graph = _pair()
    for id in (-1, len(graph.types)):
        edited = Graph(inputs=graph.inputs, nodes=graph.nodes, outputs=(id,), types=graph.types)
        with pytest.raises(GraphError, match=f"output 0 of graph graph: %{id} is never defined"):
            check(edited)
    edited = Graph(inputs=graph.inputs, nodes=graph.nodes[:1], outputs=graph.outputs, types=graph.types)
    with pytest.raises(GraphError, match="output 0 of graph graph: %2 is never defined"):
        check(edited)


def test_an_input_defined_twice_or_out_of_range_is_refused() -> None:
    graph = _pair()
    for inputs, fault in (
        ((0, 0), "input 1 of graph graph: %0 is defined already"),
        ((7,), "input 0 of graph graph: %7 has no declared type"),
        ((-1,), "input 0 of graph graph: %-1 has no declared type"),
    ):
        edited = Graph(inputs=inputs, nodes=graph.nodes, outputs=graph.outputs, types=graph.types)
        with pytest.raises(GraphError, match=fault):
            check(edited)


def test_a_fault_in_a_composites_body_is_refused_by_the_name_of_its_node() -> None:
    graph = trace_flat(lambda x: [ops.softmax(x)], [TensorType((3,), DType.F32)]).graph
    (node,) = graph.nodes
    body = node.params.body
    for position in range(len(body.nodes)):
        for edited, named in wrong_types(body, position):
            if len(edited.output_types) and edited.output_types != body.output_types:
                continue  # then the node itself is at fault
            whole, _ = with_node(graph, 0, params=Composed(node.params.attributes, edited))
            refused(whole, named)


def test_two_nodes_in_the_wrong_order_are_refused() -> None:
    graph = _pair()
    edited = Graph(inputs=graph.inputs, nodes=graph.nodes[::-1], outputs=graph.outputs, types=graph.types)
    with pytest.raises(GraphError) as caught:
        check(edited)
    assert str(caught.value).splitlines()[0].startswith("node %2 = tanh uses %1 before it is defined")
    assert "> %2: f32[3] = tanh(%1)" in str(caught.value)


def test_the_derivative_graphs_of_every_case_are_accepted() -> None:
    """All of them in one count, so that none is lost to a filter."""
    accepted = 0
    for case in ALL_CASES:
        graph = graph_of(case)
        wrt = float_operands(case)
        if has_reverse(case.op):
            check(vjp_graph(graph, wrt, with_outputs=True))
        check(jvp_graph(graph, [at in wrt for at in range(len(case.arrays))])[0])
        accepted += 2
    assert accepted == 2 * len(ALL_CASES)


def test_a_type_rule_never_raises_for_a_wrong_number_of_operands_what_check_does_not_catch() -> None:
    """One operand too many or too few is refused by name, for every op."""
    for case in ONE_PER_OP:
        graph = graph_of(case)
        node = graph.nodes[0]
        if not node.inputs or node.op.name in ("concatenate", "sort"):
            continue
        for inputs in (node.inputs[:-1], (*node.inputs, node.inputs[0], node.inputs[0])):
            refused(*with_node(graph, 0, inputs=inputs))


def test_tracing_refuses_what_check_would() -> None:
    """The builder applies the same type rule while tracing."""
    with pytest.raises(TypeRuleError, match=r"^sin of i32\[3\]: a signed integer operand is not allowed"):
        trace_flat(lambda x: [ops.sin(x)], [TensorType((3,), DType.I32)])
