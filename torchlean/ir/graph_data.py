"""A graph as plain JSON data, and back: dictionaries, lists, integers and text only.

Values are numbered densely (inputs first, then results in node order), floats are hexadecimal text, arrays base64 of
little-endian bytes. Reading bounds every size before anything is allocated and validates each parameter by the type
hints of its class. Types are checked afterwards, by `check`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from enum import Enum
from math import prod
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from torchlean.errors import InternalError
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph, Node, without_effects
from torchlean.ir.literal import Literal
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import Op
from torchlean.ir.ops import ALL_OPS
from torchlean.ir.ops.composite import Composed, Composite
from torchlean.ir.ops.pulling import FUNCTION_VJP
from torchlean.ir.strict_json import (
    MAX_INTEGER,
    encodes,
    read_fields,
    read_hex_float,
    read_integer,
    read_integers,
    read_list,
    read_text,
    refuse,
    shown,
)
from torchlean.ir.types import TensorType

MAX_DEPTH = 20  # graphs within graphs
MAX_ELEMENTS = 2**48  # of one tensor: nothing larger could be allocated
MAX_RANK = 64  # NumPy's own limit


def graph_data(graph: Graph) -> dict[str, Any]:
    """The graph as plain data; SerializationError for params that hold Python functions (custom rules)."""
    return _Writer().graph(graph, 0)


def read_graph(data: Any, extra_ops: Iterable[Op] = ()) -> Graph:
    """The graph in plain data, not yet type-checked; `extra_ops` are ops of the caller's that it may use."""
    return _Reader(_op_table(extra_ops)).graph(data, 0)


def _op_table(extra: Iterable[Op]) -> dict[str, Op]:
    """Ops by name: all of ours, the gradients of composites, and the caller's."""
    table: dict[str, Op] = {}
    for given in (*ALL_OPS, *extra):
        gradient = given.gradient if isinstance(given, Composite) else None
        for op in (given,) if gradient is None else (given, gradient):
            if table.setdefault(op.name, op) is not op:
                refuse(f"an extra op has the name of another op: {shown(op.name)}", fix="rename it")
    return table


# -- writing -----------------------------------------------------------------------------------------------------------
class _Writer:
    """Writes one document; a body that several nodes share is walked once."""

    def __init__(self) -> None:
        self._bodies: dict[int, tuple[Graph, dict[str, Any]]] = {}

    def graph(self, graph: Graph, depth: int) -> dict[str, Any]:
        """The hashed part of the file."""
        _require_depth(depth)
        if not encodes(graph.name):
            refuse("the name of a graph has a lone surrogate", expected="text that UTF-8 can encode")
        graph = without_effects(graph, in_bodies=False)  # remarks about a program, not part of it
        ids = {id: at for at, id in enumerate(graph.inputs)}
        nodes: list[dict[str, Any]] = []
        for node in graph.nodes:
            entry = {
                "op": node.op.name,
                "inputs": [ids[id] for id in node.inputs],
                "types": [_type_data(graph.types[id]) for id in node.outputs],
                "params": self._params(node, depth),
            }
            for id in node.outputs:
                ids[id] = len(ids)
            nodes.append(entry)
        return {
            "name": graph.name,
            "inputs": [_type_data(type) for type in graph.input_types],
            "nodes": nodes,
            "outputs": [ids[id] for id in graph.outputs],
        }

    def _params(self, node: Node, depth: int) -> dict[str, Any]:
        params = node.params
        if isinstance(params, Literal):
            little = params.array.astype(params.array.dtype.newbyteorder("<"), copy=False)
            return {"type": _type_data(params.type), "bytes": base64.b64encode(little.tobytes()).decode()}
        if isinstance(params, Composed):
            attributes = [[name, self._value(value, node, depth)] for name, value in params.attributes]
            return {"attributes": attributes, "body": self._body(params.body, depth)}
        if node.op is FUNCTION_VJP:
            refuse(
                f"{node.op.name} ({node.where}) is a gradient its backend takes, which cannot be written",
                fix="lower the function for torchlean-tape, whose gradients are nodes",
            )
        if isinstance(node.op, Composite):
            refuse(
                f"{node.op.name} ({node.where}) holds Python functions and cannot be written",
                fix="write a graph without custom derivative rules: apply the transform first",
            )
        return {name: self._value(getattr(params, name), node, depth) for name in type(params).__dataclass_fields__}

    def _body(self, body: Graph, depth: int) -> dict[str, Any]:
        known = self._bodies.get(id(body))
        if known is None:
            known = self._bodies[id(body)] = (body, self.graph(body, depth + 1))
        return known[1]

    def _value(self, value: Any, node: Node, depth: int) -> Any:
        if isinstance(value, DType):
            return {"dtype": value.short}
        if isinstance(value, Enum):
            return {"enum": value.name}
        if value is None or isinstance(value, bool) or (isinstance(value, str) and encodes(value)):
            return value
        if isinstance(value, int | np.integer) and -MAX_INTEGER < value < MAX_INTEGER:
            return int(value)
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, tuple):
            return [self._value(entry, node, depth) for entry in value]
        if isinstance(value, Graph):
            return {"graph": self._body(value, depth)}
        refuse(
            f"a parameter of {node.op.name} ({node.where}) cannot be written",
            expected="numbers of at most 128 bits, text, enums, tuples, graphs",
            got=shown(value),
        )


def _type_data(type: TensorType) -> list[Any]:
    return [type.dtype.short, list(type.shape)]


def _require_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        refuse("graphs are nested too deeply", expected=f"at most {MAX_DEPTH} levels")


# -- reading -----------------------------------------------------------------------------------------------------------
class _Reader:
    """Reads one document with a fixed table of ops. Params are read by the type hints of their class."""

    def __init__(self, table: Mapping[str, Op]) -> None:
        self._table = table
        self._hints: dict[type, dict[str, Any]] = {}
        self._bodies: dict[tuple[Any, ...], Graph] = {}  # by (op, attributes, operand types), which determine them

    def graph(self, data: Any, depth: int) -> Graph:
        _require_depth(depth)
        fields = read_fields(data, ("name", "inputs", "nodes", "outputs"), "a graph")
        types = [_read_type(entry) for entry in read_list(fields["inputs"], "the inputs of a graph")]
        inputs = tuple(range(len(types)))
        nodes: list[Node] = []
        for entry in read_list(fields["nodes"], "the nodes of a graph"):
            held = read_fields(entry, ("op", "inputs", "types", "params"), "a node")
            name = held["op"]
            op = self._table.get(name) if isinstance(name, str) else None
            if op is None:
                refuse("unknown op", expected="an op of this version, or one of extra_ops", got=shown(name))
            made = [_read_type(type) for type in read_list(held["types"], f"the types of a {op.name}")]
            used = read_integers(held["inputs"], f"the inputs of a {op.name}")
            if any(not 0 <= id < len(types) for id in used):
                refuse(
                    f"a {op.name} uses a value before it is defined",
                    expected=f"ids below {len(types)}",
                    got=shown(used),
                )
            params = self._params(op, held["params"], tuple([types[id] for id in used]), depth)
            nodes.append(Node(op, used, tuple(range(len(types), len(types) + len(made))), params, NOWHERE))
            types += made
        return Graph(
            inputs=inputs,
            nodes=tuple(nodes),
            outputs=read_integers(fields["outputs"], "the outputs of a graph"),
            types=tuple(types),
            name=read_text(fields["name"], "the name of a graph"),
        )

    def _params(self, op: Op, data: Any, operands: tuple[TensorType, ...], depth: int) -> Any:
        if op.params is Literal:
            return _read_literal(data)
        if op.params is Composed:
            return self._composed(op, data, operands, depth)
        if isinstance(op, Composite):
            refuse(f"{op.name} holds Python functions and cannot be read")
        hints = self._hints.get(op.params)
        if hints is None:
            hints = self._hints[op.params] = get_type_hints(op.params)
        fields = read_fields(data, tuple(hints), f"the params of a {op.name}")
        return op.params(
            **{name: self._typed(fields[name], hint, f"{name} of a {op.name}", depth) for name, hint in hints.items()}
        )

    def _composed(self, op: Op, data: Any, operands: tuple[TensorType, ...], depth: int) -> Composed:
        fields = read_fields(data, ("attributes", "body"), f"the params of a {op.name}")
        attributes: list[tuple[str, Any]] = []
        for entry in read_list(fields["attributes"], f"the attributes of a {op.name}"):
            name, value = _pair(entry, f"an attribute of a {op.name}")
            attributes.append(
                (read_text(name, f"an attribute of a {op.name}"), _read_plain(value, f"{name} of a {op.name}"))
            )
        body = self.graph(fields["body"], depth + 1)
        key = (op, tuple(attributes), operands)
        known = self._bodies.setdefault(key, body)
        if known is not body and graph_data(known) != graph_data(body):
            refuse(f"two {op.name} nodes of equal attributes and operand types differ in their bodies")
        return Composed(key[1], known)

    def _typed(self, data: Any, hint: Any, what: str, depth: int) -> Any:
        """A value of the hinted type."""
        if hint is int:
            return read_integer(data, what)
        if hint is Graph:
            return self.graph(read_fields(data, ("graph",), what)["graph"], depth + 1)
        if hint is DType or hint is float:
            return _read_tagged(data, "dtype" if hint is DType else "float", what)
        if hint is str:
            return read_text(data, what)
        if hint is bool:
            return data if isinstance(data, bool) else refuse(f"{what}: not true or false", got=shown(data))
        if isinstance(hint, type) and issubclass(hint, Enum):
            name = read_text(read_fields(data, ("enum",), what)["enum"], what)
            if name not in hint.__members__:
                refuse(f"{what}: unknown", expected=" or ".join(hint.__members__), got=shown(name))
            return hint[name]
        choices = get_args(hint)
        if get_origin(hint) is tuple:
            entries = read_list(data, what)
            if choices[-1] is Ellipsis:
                return tuple([self._typed(entry, choices[0], what, depth) for entry in entries])
            if len(entries) != len(choices):
                refuse(f"{what}: wrong length", expected=str(len(choices)), got=shown(data))
            return tuple([self._typed(e, h, what, depth) for e, h in zip(entries, choices, strict=True)])
        if get_origin(hint) in (Union, UnionType) and len(choices) == 2 and NoneType in choices:
            other = choices[0] if choices[1] is NoneType else choices[1]
            return None if data is None else self._typed(data, other, what, depth)
        raise InternalError(f"{what}: no reader for parameters of type {hint}")


def _read_plain(data: Any, what: str) -> Any:
    """An attribute of a composite: nothing, a number, text, a dtype, or a tuple of these."""
    if data is None or isinstance(data, bool | int):
        return data
    if isinstance(data, str):
        return read_text(data, what)
    if isinstance(data, list):
        return tuple([_read_plain(entry, what) for entry in data])
    return _read_tagged(data, "dtype" if isinstance(data, dict) and "dtype" in data else "float", what)


def _read_tagged(data: Any, tag: str, what: str) -> Any:
    held = read_fields(data, (tag,), what)[tag]
    return _read_dtype(held) if tag == "dtype" else read_hex_float(held, what)


def _read_dtype(data: Any) -> DType:
    for dtype in DType:
        if dtype.short == data:
            return dtype
    refuse("unknown dtype", expected=", ".join(dtype.short for dtype in DType), got=shown(data))


def _pair(data: Any, what: str) -> tuple[Any, Any]:
    if not (isinstance(data, list) and len(data) == 2):
        refuse(f"{what}: not a pair", expected="two entries", got=shown(data))
    return data[0], data[1]


def _read_type(data: Any) -> TensorType:
    """A type whose tensors could exist: sizes and their product are bounded before anything is allocated."""
    short, sizes = _pair(data, "a type")
    shape = read_integers(sizes, "a shape")
    if len(shape) > MAX_RANK or any(size < 0 for size in shape):
        refuse(
            "a type has too many axes or a negative size", expected=f"at most {MAX_RANK} sizes ≥ 0", got=shown(shape)
        )
    if any(size > MAX_ELEMENTS for size in shape) or prod(shape) > MAX_ELEMENTS:
        refuse("a tensor is too large", expected="at most 2**48 elements", got=shown(shape))
    return TensorType(shape, _read_dtype(short))


def _read_literal(data: Any) -> Literal:
    fields = read_fields(data, ("type", "bytes"), "a constant")
    type = _read_type(fields["type"])
    text = read_text(fields["bytes"], "the bytes of a constant")
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        refuse("the bytes of a constant are not base64", got=shown(text))
    if len(raw) != type.nbytes:
        refuse("a constant has the wrong length", expected=f"{type.nbytes} bytes for {type}", got=str(len(raw)))
    if type.dtype is DType.BOOL and raw.strip(b"\0\1"):
        refuse("a boolean constant holds bytes other than 0 and 1")
    array = np.frombuffer(raw, dtype=type.dtype.carrier.newbyteorder("<")).reshape(type.shape)
    return Literal(array.astype(type.dtype.carrier, copy=False))
