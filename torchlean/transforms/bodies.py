"""Whether each composite node of a graph has the body its op would trace: what its name promises is what it does.

A kernel is chosen by a node's op, so a `softmax` with another body would mean one thing to `denote` and another to a
provider that has a softmax of its own. Tracing cannot make such a node; a file or a hand-made graph can. The body that
is wanted is traced again from the attributes and operand types, that of a `.vjp` derived again, and compared node by
node; names and source locations do not count.

Attributes of a file are a stranger's, so tracing stops once it has made more nodes than the body at hand could match.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from torchlean.errors import GraphError, SerializationError, message
from torchlean.ir.builder import CURRENT, Builder
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.graph_data import graph_data
from torchlean.ir.location import NOWHERE, SourceLocation
from torchlean.ir.op import Op
from torchlean.ir.ops import COMPOSITES
from torchlean.ir.ops.composite import Composed, Composite
from torchlean.ir.printer import node_text
from torchlean.ir.rules import HigherOrder
from torchlean.ir.types import TensorType, show_types
from torchlean.transforms.rewrite import extract
from torchlean.transforms.slopes import Derivatives
from torchlean.transforms.vjp import Pull

# Of a derivative's nodes the forward body is not always part, so how many it may take is bounded for the whole graph.
_FREE_NODES, _NODES_PER_NODE = 4096, 16

_NO_DERIVATIVE = "its composite's rule makes no such derivative"

Attributes = tuple[tuple[str, Any], ...]


def check_bodies(graph: Graph, extra_ops: Iterable[Op] = ()) -> None:
    """Raise GraphError naming the first composite node whose body is not its op's own, and where they differ.

    `graph` is one that `check` accepts. `extra_ops` are the caller's composites, by which their derivatives are known.
    """
    nodes = list(_nodes_with_bodies(graph))
    known = [op for op in (*COMPOSITES, *extra_ops) if isinstance(op, Composite)]
    trace = _Bodies(known, _FREE_NODES + _NODES_PER_NODE * sum([len(node.params.body) for node, _, _ in nodes]))
    for node, types, where in nodes:
        wanted = trace.body(node, types)
        fault = wanted if isinstance(wanted, str) else _difference(wanted, node.params.body)
        if fault is not None:
            raise GraphError(_report(node, types, where, fault))


def _nodes_with_bodies(graph: Graph) -> Iterator[tuple[Node, tuple[TensorType, ...], SourceLocation]]:
    """Composite nodes, equal ones of one body once: of the graph and of every graph its nodes hold. With them their
    operand types and line, which for a body from a file is that of the node that holds it.
    """
    work = [(graph, NOWHERE)]
    seen: set[Any] = {id(graph)}
    while work:
        current, holder = work.pop()
        for node in current.nodes:
            held = [sub for _, sub in sub_graphs(node.params)]
            new = [sub for sub in held if id(sub) not in seen]
            seen.update(map(id, new))
            where = node.where if node.where.filename else holder
            work += [(sub, where) for sub in new]
            if not isinstance(node.op, Composite) or not isinstance(node.params, Composed):
                continue
            key = (node.op, repr(node.params.attributes), id(node.params.body))
            if key not in seen:
                seen.add(key)
                yield node, tuple([current.types[value] for value in node.inputs]), where


class _Bodies:
    """Traces what bodies should be, each once."""

    def __init__(self, composites: Iterable[Composite], budget: int) -> None:
        self._source = {op.gradient: op for op in composites if op.gradient is not None}
        self._known: dict[Any, Graph | str] = {}
        self._budget = budget

    def body(self, node: Node, types: tuple[TensorType, ...]) -> Graph | str:
        """The body a node should have; or, as text, why there is none."""
        assert isinstance(node.op, Composite)
        attributes: Attributes = node.params.attributes
        source = self._source.get(node.op)
        if source is None:
            return self._traced(node.op, attributes, types, 2 * len(node.params.body) + 64)
        return self._derived(source, attributes, types)

    def _traced(self, op: Composite, attributes: Attributes, types: tuple[TensorType, ...], limit: int) -> Graph | str:
        key = (op, repr(attributes), types)  # as text: 1, 1.0 and True are other attributes
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._trace(op, attributes, types, limit)
        return found

    def _trace(self, op: Composite, attributes: Attributes, types: tuple[TensorType, ...], limit: int) -> Graph | str:
        builder = Builder(name=op.name)
        nodes = builder.nodes = _Bounded(min(limit, self._budget))
        token = CURRENT.set(builder)
        try:
            made = op.function(*[builder.add_input(type) for type in types], **_arguments(op, attributes))
            made = made if isinstance(made, tuple | list) else (made,)
            return builder.finish(tuple([builder.lift(result) for result in made]))
        except _TooManyError:
            return f"{op.name} has more than {nodes.limit} nodes there"
        except Exception as error:  # the attributes may be anything, and so may the caller's function
            return f"{op.name} cannot be traced there: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        finally:
            CURRENT.reset(token)
            self._budget -= len(nodes)

    def _derived(self, source: Composite, attributes: Attributes, types: tuple[TensorType, ...]) -> Graph | str:
        """The body of `source.vjp` for operands and cotangents of these types."""
        (name, wrt), *rest = attributes or (("", None),)
        if name != "wrt" or not isinstance(wrt, tuple):
            return "its first attribute is not wrt, the operands to differentiate by"
        variant = next((mode for mode in Derivatives if mode.variant and mode.variant == tuple(rest[:1])), None)
        mode = Derivatives.STANDARD if variant is None else variant
        rest = rest[len(mode.variant) :]
        forward: Graph | str = "it has no operands"
        for count in range(len(types), -1, -1):  # how many of the operands are the composite's own
            forward = self._traced(source, tuple(rest), types[:count], self._budget)
            if isinstance(forward, Graph) and forward.output_types == types[count:]:
                break
        else:
            return f"{source.name} takes no such operands and cotangents ({_reason(forward)})"
        places = range(len(forward.inputs))
        if list(wrt) != sorted(set(wrt)) or not all([type(at) is int and at in places for at in wrt]):
            return f"wrt={wrt} names no operands of {source.name}, in order"
        return self._derivative(source, Composed(tuple(rest), forward), types, wrt, mode) or _NO_DERIVATIVE

    def _derivative(
        self,
        source: Composite,
        params: Composed,
        types: tuple[TensorType, ...],
        wrt: tuple[int, ...],
        mode: Derivatives,
    ) -> Graph | None:
        """The body of the node that the composite's own rule makes, if it makes the one that is named."""
        assert isinstance(source.diff, HigherOrder)
        builder = Builder(name=f"{source.name}.vjp")
        token = CURRENT.set(builder)
        try:
            values = [builder.add_input(type) for type in types]
            count = len(params.body.inputs)
            source.diff.vjp(Pull(mode), source, params, values[:count], values[count:], wrt)
        finally:
            CURRENT.reset(token)
        named = repr((("wrt", wrt), *mode.variant, *params.attributes))
        made = [node for node in builder.nodes if node.op is source.gradient and repr(node.params.attributes) == named]
        return made[0].params.body if made else None


def _reason(forward: Graph | str) -> str:
    return forward if isinstance(forward, str) else f"its results are {show_types(forward.output_types)}"


def _arguments(op: Composite, attributes: Attributes) -> dict[str, Any]:
    """Attributes as keywords, without the mark of a body that `graph.quiet` freed of its effects."""
    marked = ("effects", False) in attributes and "effects" not in inspect.signature(op.function).parameters
    return dict([pair for pair in attributes if not (marked and pair == ("effects", False))])


class _TooManyError(Exception):
    """A trace made more nodes than it may."""


class _Bounded(list[Node]):
    """The nodes of a builder, of which there may be so many."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def append(self, node: Node, /) -> None:
        if len(self) >= self.limit:
            raise _TooManyError
        super().append(node)


# -- comparing ---------------------------------------------------------------------------------------------------------
def _difference(wanted: Graph, given: Graph) -> tuple[str, str] | str | None:
    """Where two bodies differ: what is wanted and what is there. None for bodies that do the same."""
    try:
        mine, other = _unnamed(graph_data(wanted)), _unnamed(graph_data(given))
    except SerializationError as error:
        return f"its body cannot be compared: {str(error).partition(chr(10))[0]}"
    if mine == other:
        return None
    if mine["inputs"] != other["inputs"]:
        return show_types(wanted.input_types), show_types(given.input_types)
    texts = _texts(wanted), _texts(given)
    for (ours, text), (theirs, other_text) in zip_longest(
        *[zip(data["nodes"], lines, strict=True) for data, lines in zip((mine, other), texts, strict=True)],
        fillvalue=(None, "no more nodes"),
    ):
        if ours != theirs:
            return text, other_text + (" (other parameters)" if text == other_text else "")
    return _outputs(wanted), _outputs(given)


def _texts(graph: Graph) -> list[str]:
    dense = extract(graph, list(graph.nodes), graph.inputs, graph.outputs, graph.name)
    return [node_text(dense, node) for node in dense.nodes]


def _outputs(graph: Graph) -> str:
    dense = extract(graph, list(graph.nodes), graph.inputs, graph.outputs, graph.name)
    return "return " + ", ".join([f"%{value}" for value in dense.outputs])


def _unnamed(data: Any) -> Any:
    """Plain data of a graph without the names of it and of the graphs within."""
    if isinstance(data, list):
        return [_unnamed(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    is_graph = data.keys() == {"name", "inputs", "nodes", "outputs"}
    return {key: _unnamed(entry) for key, entry in data.items() if not (is_graph and key == "name")}


def _report(node: Node, types: tuple[TensorType, ...], where: SourceLocation, fault: tuple[str, str] | str) -> str:
    attributes = ", ".join([f"{name}={value!r}" for name, value in node.params.attributes])
    expected, got = fault if isinstance(fault, tuple) else ("the body that the op traces", fault)
    return message(
        f"node {', '.join([f'%{value}' for value in node.outputs])} = {node.op.name}({attributes}) of "
        f"{show_types(types)} has a body that is not {node.op.name}'s",
        expected=_short(expected),
        got=_short(got),
        fix="put the nodes of the body in its place, or make the graph again with this version",
        where=str(where),
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}…"
