"""A composite node does what its op's name says: a file, or a graph made by hand, with another body is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ir.programs import f32, programs

import torchlean as tl
from torchlean import debug
from torchlean.backends.accept import accept
from torchlean.backends.executable import Executable
from torchlean.backends.planner import plan
from torchlean.backends.profiles import reference_cpu
from torchlean.errors import GraphError, SerializationError
from torchlean.ir import ops
from torchlean.ir.builder import Builder
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.composite import Composed, Composite, call, composite
from torchlean.ir.ops.elementwise import NEG
from torchlean.ir.serialize import dumps, loads
from torchlean.ir.strict_json import canonical
from torchlean.transforms.bodies import check_bodies
from torchlean.transforms.slopes import Derivatives

X = np.array([1.0, 2.0, 4.0], np.float32)
RELU = tl.make_graph(ops.relu)(f32(3))
EXP = tl.make_graph(ops.exp)(f32(3))


def with_params(graph: Graph, change: Callable[[Composed], Composed], at: int | None = None) -> Graph:
    """The graph with other params in its only composite node, or in the node at `at`."""
    if at is None:
        (at,) = [position for position, node in enumerate(graph.nodes) if isinstance(node.op, Composite)]
    nodes = list(graph.nodes)
    nodes[at] = nodes[at]._replace(params=change(nodes[at].params))
    return Graph(inputs=graph.inputs, nodes=tuple(nodes), outputs=graph.outputs, types=graph.types, name=graph.name)


def with_body(graph: Graph, body: Graph, at: int | None = None) -> Graph:
    """The graph with another body in its only composite node, or in the node at `at`."""
    return with_params(graph, lambda params: dataclasses.replace(params, body=body), at)


def with_attributes(graph: Graph, *attributes: tuple[str, Any]) -> Graph:
    """The graph with other attributes on its only composite node."""
    return with_params(graph, lambda params: dataclasses.replace(params, attributes=attributes))


def refusal(graph: Graph, *extra: Any) -> str:
    """The text `loads` refuses the graph's file with; `check_bodies` says the same, and `check` has nothing to say."""
    check(graph)
    with pytest.raises(GraphError) as by_hand:
        check_bodies(graph, extra)
    with pytest.raises(GraphError) as read:
        loads(dumps(graph), extra_ops=extra)
    texts = [
        re.sub(r"\(test_bodies.py:.*\)", "", str(found.value)).split("\nyour line")[0] for found in (by_hand, read)
    ]
    assert texts[0] == texts[1]
    return str(read.value)


# -- the fault itself --------------------------------------------------------------------------------------------------
def test_a_file_whose_relu_is_an_exponential_is_refused() -> None:
    """Where it was read, denote computed the exponential and a provider's own relu the relu."""
    graph = with_body(RELU, EXP)
    first, expected, got, fix, *_ = refusal(graph).splitlines()
    assert first.startswith("node %1 = relu() of f32[3] has a body that is not relu's (test_bodies.py:")
    assert expected == "  expected: %1: f32[3] = full(shape=(3,), dtype=f32, value=0.0)"
    assert got == "  got:      %1: f32[3] = exp(%0)"
    assert fix == "  fix:      put the nodes of the body in its place, or make the graph again with this version"
    accepted = accept(plan(graph, reference_cpu))  # of a graph made by hand it is taken on trust
    (promised,), (meant,) = Executable(accepted).call(X), denote(graph, (X,))
    assert promised.tolist() == X.tolist()
    assert np.allclose(meant, np.exp(X))


def negated(body: Graph) -> Graph:
    """The body with its first result negated, or a boolean one inverted: every type stays."""
    out = body.outputs[0]
    types = (*body.types, body.types[out])
    node = Node(NEG, (out,), (len(body.types),), NO_PARAMS, body.nodes[-1].where)
    outputs = (len(body.types), *body.outputs[1:])
    return Graph(inputs=body.inputs, nodes=(*body.nodes, node), outputs=outputs, types=types, name=body.name)


def composites_in(graph: Graph) -> list[int]:
    return [at for at, node in enumerate(graph.nodes) if isinstance(node.op, Composite)]


def test_the_body_of_every_composite_and_of_every_gradient_is_compared() -> None:
    """As traced it is accepted; with one node more, or with its last two operands exchanged, it is not."""
    refused: set[str] = set()
    for name, graph in programs().items():
        check_bodies(graph)
        for at in composites_in(graph):
            op = graph.nodes[at].op
            body = graph.nodes[at].params.body
            text = refusal(with_body(graph, negated(body), at))
            assert f"= {op.name}(" in text, name
            assert "no more nodes" in text, name
            refused.add(op.name)
    wanted = {op.name for op in ops.COMPOSITES} | {op.gradient.name for op in ops.COMPOSITES if op.gradient}
    assert refused == wanted
    assert len(refused) == len(COMPOSITE_OPS) + len([op for op in ops.COMPOSITES if op.gradient])


COMPOSITE_OPS = {op.name for op in ops.COMPOSITES}


def test_each_difference_is_named() -> None:
    def edited(change: Callable[[Node], Node], at: int) -> str:
        nodes = list(body.nodes)
        nodes[at] = change(nodes[at])
        again = Graph(inputs=body.inputs, nodes=tuple(nodes), outputs=body.outputs, types=body.types, name="other")
        return refusal(with_body(graph, again))

    graph = tl.make_graph(lambda x: ops.softmax(x))(f32(3))
    body = graph.nodes[0].params.body
    last = len(body.nodes) - 1
    assert "got:      %17: f32[3] = div(%16, %10)" in edited(lambda n: n._replace(inputs=n.inputs[::-1]), last)
    text = edited(lambda n: n._replace(op=ops.PRIMITIVES[[op.name for op in ops.PRIMITIVES].index("mul")]), last)
    assert "expected: %17: f32[3] = div(%10, %16)\n  got:      %17: f32[3] = mul(%10, %16)" in text
    shorter = Graph(inputs=body.inputs, nodes=body.nodes[:-1], outputs=(body.outputs[0] - 1,), types=body.types)
    assert "expected: %17: f32[3] = div(%10, %16)\n  got:      no more nodes" in refusal(with_body(graph, shorter))
    other = Graph(inputs=body.inputs, nodes=body.nodes, outputs=(body.nodes[9].outputs[0],), types=body.types)
    assert "expected: return %17\n  got:      return %10" in refusal(with_body(graph, other))


def test_parameters_that_print_alike_are_told_apart() -> None:
    """A constant too long to print differs in one entry."""
    wide = composite("wide", _wide, reduces=False, reduces_in_gradient=False, doc="x + 0 … 11.")
    other = composite("wide", _wider, reduces=False, reduces_in_gradient=False, doc="x + 0 … 10, 12.")
    graph = tl.make_graph(lambda x: call(wide, x))(f32(12))
    changed = with_body(graph, tl.make_graph(lambda x: call(other, x))(f32(12)).nodes[0].params.body)
    assert "got:      %1: f32[12] = constant(<12 entries>) (other parameters)" in refusal(changed, wide)


def _wide(x: Any) -> Any:
    return x + np.arange(12, dtype=np.float32)


def _wider(x: Any) -> Any:
    return x + np.array([*range(11), 12], dtype=np.float32)


def test_names_and_lines_of_a_body_do_not_count() -> None:
    body = RELU.nodes[0].params.body
    here = RELU.nodes[0].where
    nodes = tuple([node._replace(where=here) for node in body.nodes])
    renamed = Graph(inputs=body.inputs, nodes=nodes, outputs=body.outputs, types=body.types, name="another")
    check_bodies(with_body(RELU, renamed))
    assert loads(dumps(with_body(RELU, renamed))).nodes[0].params.body.name == "another"


def test_a_body_that_is_right_for_one_node_may_be_wrong_for_another() -> None:
    graph = tl.make_graph(lambda x: ops.silu(ops.relu(x)))(f32(3))
    assert "silu() of f32[3] has a body that is not silu's" in refusal(with_body(graph, graph.nodes[0].params.body, 1))
    twice = tl.make_graph(lambda x: ops.softmax(ops.softmax(x, 0), 1))(f32(3, 3))
    assert "softmax(axis=1) of" in refusal(with_body(twice, twice.nodes[0].params.body, 1))


def test_a_body_inside_a_body_is_compared_too() -> None:
    """In the loop of a scan, and in a composite's own composite."""

    def loop(x: Any) -> Any:
        return ops.scan(lambda carry, y: (ops.relu(carry) * y, None), x, np.ones(2, np.float32))[0]

    graph = tl.make_graph(loop)(f32(3))
    check_bodies(graph)
    (at,) = [at for at, node in enumerate(graph.nodes) if node.op.name == "scan"]
    scan = graph.nodes[at]
    changed = dataclasses.replace(scan.params, body=with_body(scan.params.body, EXP))
    nodes = (*graph.nodes[:at], scan._replace(params=changed), *graph.nodes[at + 1 :])
    text = refusal(Graph(inputs=graph.inputs, nodes=nodes, outputs=graph.outputs, types=graph.types))
    assert text.startswith("node %2 = relu() of f32[3] has a body that is not relu's (test_bodies.py:")

    outer = tl.make_graph(lambda x: call(TWICE, x))(f32(3))
    check_bodies(outer, [TWICE])
    inner = outer.nodes[0].params.body
    text = refusal(with_body(outer, with_body(inner, EXP)), TWICE)
    assert "expected: %1: f32[3] = relu(%0)\n  got:      %1: f32[3] = relu(%0) (other parameters)" in text


def _twice(x: Any) -> Any:
    return ops.relu(x) * 2.0


TWICE = composite("twice", _twice, reduces=False, reduces_in_gradient=False, doc="Twice the relu.")


# -- attributes --------------------------------------------------------------------------------------------------------
def test_attributes_must_be_those_of_the_body() -> None:
    graph = tl.make_graph(lambda x: ops.softmax(x, 0))(f32(3, 3))
    assert "softmax(axis=1) of f32[3,3] has a body that is not softmax's" in refusal(
        with_attributes(graph, ("axis", 1))
    )
    assert "got:      softmax cannot be traced there: " in refusal(with_attributes(graph, ("axis", 7)))
    text = refusal(with_attributes(graph, ("axis", 0), ("base", 2)))
    assert "got:      softmax cannot be traced there: TypeError: " in text
    assert "got:      softmax cannot be traced there: TypeError: " in refusal(with_attributes(graph))
    text = refusal(with_attributes(graph, ("axis", "x" * 5000)))
    assert len(text) < 7000
    assert "got:      softmax cannot be traced there: " in text


def gradient_of(f: Any, *types: Any) -> Graph:
    """The graph of f's gradient that is left of its only gradient composite."""
    graph = tl.make_graph(tl.grad(lambda *xs: ops.sum(f(*xs)), tuple(range(len(types)))))(*types)
    (node,) = [node for node in graph.nodes if node.op.name.endswith(".vjp")]
    types = tuple([graph.types[value] for value in node.inputs])
    count = len(types)
    outputs = tuple(range(count, count + len(node.outputs)))
    made = tuple([graph.types[value] for value in node.outputs])
    alone = node._replace(inputs=tuple(range(count)), outputs=outputs)
    return Graph(inputs=alone.inputs, nodes=(alone,), outputs=outputs, types=(*types, *made))


WRONG_DERIVATIVES: dict[str, tuple[tuple[tuple[str, Any], ...], str]] = {
    "nothing": ((), "its first attribute is not wrt, the operands to differentiate by"),
    "no wrt": ((("axis", 0),), "its first attribute is not wrt, the operands to differentiate by"),
    "a number": ((("wrt", 0), ("axis", 0)), "its first attribute is not wrt, the operands to differentiate by"),
    "too large": ((("wrt", (1,)), ("axis", 0)), "wrt=(1,) names no operands of softmax, in order"),
    "negative": ((("wrt", (-1,)), ("axis", 0)), "wrt=(-1,) names no operands of softmax, in order"),
    "a bool": ((("wrt", (False,)), ("axis", 0)), "wrt=(False,) names no operands of softmax, in order"),
    "twice": ((("wrt", (0, 0)), ("axis", 0)), "wrt=(0, 0) names no operands of softmax, in order"),
    "text": ((("wrt", ("0",)), ("axis", 0)), "wrt=('0',) names no operands of softmax, in order"),
    "of softmax": ((("wrt", (0,)), ("axis", 9)), "softmax takes no such operands and cotangents (softmax cannot be"),
    "unknown variant": ((("wrt", (0,)), ("derivatives", "best"), ("axis", 0)), "(softmax cannot be traced there: "),
}


@pytest.mark.parametrize("name", WRONG_DERIVATIVES)
def test_attributes_of_a_derivative(name: str) -> None:
    graph = gradient_of(lambda x: ops.softmax(x, 0) * x, f32(3))
    check_bodies(graph)
    attributes, why = WRONG_DERIVATIVES[name]
    text = refusal(with_attributes(graph, *attributes))
    assert "expected: the body that the op traces\n  got:      " in text
    assert why in text


def test_a_derivative_of_other_operands_is_another() -> None:
    graph = gradient_of(ops.mse_loss, f32(3), f32(3))
    assert graph.nodes[0].params.attribute("wrt") == (0, 1)
    check_bodies(graph)
    only = gradient_of(lambda x: ops.mse_loss(x, np.zeros(3, np.float32)), f32(3))
    assert only.nodes[0].params.attribute("wrt") == (0,)
    text = refusal(with_body(only, negated(only.nodes[0].params.body)))
    assert "mse_loss.vjp(wrt=(0,)) of f32[3], f32[3], f32[] has a body that is not mse_loss.vjp's" in text
    swapped = refusal(with_attributes(only, ("wrt", (1,))))
    assert "mse_loss.vjp(wrt=(1,)) of" in swapped


def test_a_derivative_that_the_composite_does_not_make_is_refused() -> None:
    """The stated rule of the squared error has no variants."""
    graph = gradient_of(ops.mse_loss, f32(3), f32(3))
    text = refusal(with_attributes(graph, ("wrt", (0, 1)), *Derivatives.IEEE.variant))
    assert "got:      its composite's rule makes no such derivative" in text


@pytest.mark.parametrize("ieee", [False, True])
def test_both_kinds_of_derivatives_come_back(ieee: bool) -> None:
    def loss(x: Any) -> Any:
        return ops.sum(ops.softmax(x) * ops.layer_norm(x, X, X) + ops.gelu(x))

    graph = tl.make_graph(tl.grad(loss, ieee_derivatives=ieee))(f32(3))
    marked = [dict(node.params.attributes).get("derivatives") for node in graph.nodes if node.op.name.endswith(".vjp")]
    assert marked == ["ieee" if ieee else None] * 3
    assert dumps(loads(dumps(graph))) == dumps(graph)


# -- composites of the caller ------------------------------------------------------------------------------------------
def _scaled(x: Any, *, by: float) -> Any:
    return x * by


SCALED = composite("scaled", _scaled, reduces=False, reduces_in_gradient=False, doc="x times a number.")


def test_composites_of_the_caller_and_their_derivatives_are_read() -> None:
    graph = tl.make_graph(tl.value_and_grad(lambda x: ops.sum(call(SCALED, x, by=2.5) * x)))(f32(3))
    names = [node.op.name for node in graph.nodes if isinstance(node.op, Composite)]
    assert names == ["scaled", "scaled.vjp"]
    assert dumps(loads(dumps(graph), extra_ops=iter([SCALED]))) == dumps(graph)


def test_a_composite_of_the_caller_that_has_changed_is_refused() -> None:
    changed = composite("scaled", lambda x, *, by: x / by, reduces=False, reduces_in_gradient=False, doc="Another.")
    graph = tl.make_graph(lambda x: call(SCALED, x, by=2.5))(f32(3))
    with pytest.raises(GraphError, match=r"scaled\(by=2.5\) of f32\[3\] has a body that is not scaled's"):
        loads(dumps(graph), extra_ops=[changed])
    failing = composite("scaled", _raising, reduces=False, reduces_in_gradient=False, doc="None.")
    with pytest.raises(GraphError, match=r"got: +scaled cannot be traced there: ZeroDivisionError: by what\?"):
        loads(dumps(graph), extra_ops=[failing])


def _raising(x: Any, *, by: float) -> Any:
    raise ZeroDivisionError("by what?\nsecond line")


def test_a_derivative_without_its_composite_is_refused() -> None:
    """By hand only: a file's op is looked up with its composite."""
    graph = gradient_of(lambda x: call(SCALED, x, by=2.5) * x, f32(3))
    check_bodies(graph, [SCALED])
    with pytest.raises(GraphError, match=r"scaled.vjp cannot be traced there: InternalError: "):
        check_bodies(graph)


def test_a_body_that_holds_python_functions_cannot_be_compared() -> None:
    @tl.custom_jvp
    def own(x: Any) -> Any:
        return ops.tanh(x)

    own.defjvp(lambda primals, tangents: (own(*primals), tangents[0]))
    held = composite("held", lambda x: own(x), reduces=True, reduces_in_gradient=False, doc="A rule of the user's.")
    graph = tl.make_graph(lambda x: call(held, x))(f32(3))
    with pytest.raises(GraphError, match=r"got: +its body cannot be compared: custom_call .*holds Python functions"):
        check_bodies(graph, [held])
    with pytest.raises(SerializationError, match="holds Python functions and cannot be written"):
        dumps(graph)
    check_bodies(tl.make_graph(lambda x: own(x))(f32(3)))  # a node of the user's own: nothing is promised


def test_effects_of_a_body_are_no_part_of_it() -> None:
    said: list[str] = []

    def told(x: Any) -> Any:
        debug.print("{x}", x=x, to=said.append)
        return ops.relu(x)

    loud = composite("told", told, reduces=False, reduces_in_gradient=False, doc="A relu that says so.")
    graph = tl.make_graph(tl.value_and_grad(lambda x: ops.sum(call(loud, x) * x)))(f32(3))
    check_bodies(graph, [loud])
    again = loads(dumps(graph), extra_ops=[loud])
    assert [node.op.name for node in again.nodes] == [node.op.name for node in graph.nodes]
    quiet = tl.make_graph(tl.checkpoint(lambda x: call(loud, x) * x))(f32(3))
    check_bodies(
        tl.make_graph(tl.grad(lambda x: ops.sum(tl.checkpoint(lambda y: call(loud, y) * y)(x))))(f32(3)), [loud]
    )
    check_bodies(quiet, [loud])


# -- a stranger's attributes -------------------------------------------------------------------------------------------
def endless() -> Iterator[tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...]]]:
    """Pools whose bodies would have up to 10¹⁸ nodes; all arguments are of a size that could be right."""
    huge = 10**9
    for op in ("max_pool", "avg_pool"):
        for window, shape in (((huge,), (1, 1, huge)), ((huge, huge), (1, 1, huge, huge // 4096))):
            pads = tuple([(0, 0), (huge, huge)][: len(window)])
            more = () if op == "max_pool" else (("count_padding", False),)
            yield op, (("window", window), ("strides", (1,) * len(window)), ("padding", pads), *more), shape


@pytest.mark.parametrize("case", list(endless()), ids=str)
def test_tracing_stops_at_the_size_of_the_body_at_hand(case: Any) -> None:
    name, attributes, shape = case
    (op,) = [op for op in ops.COMPOSITES if op.name == name]
    body = tl.make_graph(ops.neg)(f32(*shape))
    type = f32(*shape)
    node = Node(op, (0,), (1,), Composed(attributes, body), RELU.nodes[0].where)
    started = time.process_time()
    text = refusal(Graph(inputs=(0,), nodes=(node,), outputs=(1,), types=(type, type)))
    assert time.process_time() - started < 1.0
    assert f"got:      {name} has more than 66 nodes there" in text
    derived = node._replace(op=op.gradient, inputs=(0, 0), params=Composed((("wrt", (0,)), *attributes), _second(type)))
    text = refusal(Graph(inputs=(0,), nodes=(derived,), outputs=(1,), types=(type, type)))
    assert time.process_time() - started < 5.0
    assert f"{name} takes no such operands and cotangents (" in text


def _second(type: Any) -> Graph:
    return tl.make_graph(lambda x, y: ops.neg(y))(type, type)


def test_one_document_has_one_allowance() -> None:
    """Many small derivatives, each of another large composite, do not multiply the work."""
    (op,) = [op for op in ops.COMPOSITES if op.name == "max_pool"]
    type = f32(1, 1, 10**6)
    nodes = [
        Node(
            op.gradient,  # type: ignore[arg-type]
            (0, 0),
            (at,),
            Composed(
                (("wrt", (0,)), ("window", (10**6 - at,)), ("strides", (1,)), ("padding", ((0, 0),))), _second(type)
            ),
            RELU.nodes[0].where,
        )
        for at in range(1, 301)
    ]
    graph = Graph(inputs=(0,), nodes=tuple(nodes), outputs=(1,), types=(type,) * 301)
    started = time.process_time()
    assert "takes no such operands and cotangents" in refusal(graph)
    assert time.process_time() - started < 5.0


def test_a_hostile_file_is_refused_before_anything_runs() -> None:
    """The same fault as text, its hash made right again."""
    document = json.loads(dumps(RELU))
    document["graph"]["nodes"][0]["params"]["body"] = json.loads(dumps(EXP))["graph"]
    document["hash"] = hashlib.sha256(canonical(document["graph"]).encode()).hexdigest()
    with pytest.raises(GraphError, match=r"relu\(\) of f32\[3\] has a body that is not relu's"):
        loads(canonical(document))


def test_what_is_traced_is_never_asked_again() -> None:
    """A long model has few distinct bodies, and each is traced once."""

    def deep(x: Any) -> Any:
        for _ in range(300):
            x = ops.gelu(ops.softmax(x))
        return x

    graph = tl.make_graph(deep)(f32(3))
    traced: list[str] = []
    function = Builder.finish

    def counting(self: Builder, outputs: Any) -> Graph:
        traced.append(self.name)
        return function(self, outputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Builder, "finish", counting)
        check_bodies(graph)
        assert sorted(traced) == ["gelu", "softmax"]
        traced.clear()
        check_bodies(loads(dumps(graph)))
        assert sorted(traced) == ["gelu", "gelu", "softmax", "softmax"]
