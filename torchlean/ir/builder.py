"""Emission: the builder that answers ops while a function is traced, the values it hands out, and the one ContextVar.

Equal nodes (op, params, inputs) are shared, which is bit-exact. Nothing else is simplified: `x + 0` is not `x` when x
is -0.0, and a framework that reports what ran does not change bits in passing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

import numpy as np

from torchlean.errors import LeakedTracerError, TraceError, TypeRuleError, message
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.location import NOWHERE, SourceLocation, caller_location, location_from
from torchlean.ir.op import EffectOp, Op, TypeFault
from torchlean.ir.operand import HOST, NUMBER, is_python_number, no_operand, scalar_array, type_of
from torchlean.ir.operators import Operators, home_of
from torchlean.ir.types import TensorType, show_types

Step = tuple[Op, Any, tuple[int, ...], tuple[TensorType, ...]]  # op, params, operands, result types

_new = object.__new__  # tracing makes thousands of values and nodes: `Value(…)` and `Node(…)` take twice as long
_node = tuple.__new__


class Answerer(Protocol):
    """Whatever currently answers an op: a `Builder` while tracing, else the ambient eager session."""

    @property
    def bodies(self) -> dict[Any, Any]:
        """Traced bodies of composites, by (composite, attributes, types)."""
        ...

    remembered: Any
    """What keeps programs by the traced graphs they were derived from, or None; see runtime/remembered.py."""

    watch: Any
    """What `random.check_key_reuse` notes the use of keys in, or None."""

    def bind(self, op: Op, params: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Apply `op`; one result per output."""
        ...

    def evaluate(self, graph: Graph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Apply a closed graph; one result per output."""
        ...


CURRENT: ContextVar[Answerer | None] = ContextVar("torchlean_current", default=None)


def answerer() -> Answerer:
    """The builder of the innermost trace, or this context's session (made on first use)."""
    current = CURRENT.get()
    if current is None:
        # The session lies above this file; it is reached by name, once per context.
        current = importlib.import_module("torchlean.runtime.session").default_session()
        CURRENT.set(current)
    return current


def bind(op: Op, params: Any, *operands: Any) -> tuple[Any, ...]:
    """Apply `op` to operands through whatever answers ops now."""
    return (CURRENT.get() or answerer()).bind(op, params, operands)


def bind1(op: Op, params: Any, *operands: Any) -> Any:
    """`bind` for the many ops with one output."""
    current = CURRENT.get()
    if current.__class__ is Builder:
        return current.apply(op, params, operands)  # type: ignore[union-attr]
    return (current or answerer()).bind(op, params, operands)[0]


def type_fault_error(op: Op, types: tuple[TensorType, ...], fault: TypeFault, where: SourceLocation) -> TypeRuleError:
    """The error a user sees when a type rule refuses: op, full operand types, their line, expected, got, fix."""
    operands = f" of {show_types(types)}" if types else ""
    return TypeRuleError(
        message(
            f"{op.name}{operands}: {fault.what}",
            expected=fault.expected,
            got=fault.got,
            fix=fault.fix,
            where=str(where),
        )
    )


class Value(Operators):
    """A traced value: its builder, id and type. It has no number yet, so Python cannot branch on it."""

    __slots__ = ("__weakref__", "builder", "id", "type")

    def __init__(self, builder: Builder, id: int, type: TensorType) -> None:
        self.builder = builder
        self.id = id
        self.type = type

    def __repr__(self) -> str:
        return f"Value(%{self.id}: {self.type})"

    def _refuse(
        self,
        action: str,
        fix: str,
        expected: str = "a concrete number",
        got: str = "a value that has none until the traced program runs",
    ) -> NoReturn:
        raise TraceError(
            message(
                f"{action} a traced {self.type} {self.builder.maker(self.id)}",
                expected=expected,
                got=got,
                fix=fix,
                where=str(caller_location()),
            )
        )

    def __bool__(self) -> bool:
        self._refuse(
            "bool() of",
            "choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; "
            "or run eagerly in a Session",
        )

    def __float__(self) -> float:
        self._refuse("float() of", "keep it a tensor; ops.convert(x, 'f32') changes its dtype")

    def __int__(self) -> int:
        self._refuse("int() of", "keep it a tensor; ops.convert(x, 'i32') changes its dtype")

    def __index__(self) -> int:
        self._refuse(
            "use as a Python index of",
            "index with ops.take(x, i, axis=0), which accepts traced integers; sizes in shapes must be Python ints",
        )

    def __iter__(self) -> NoReturn:
        if not self.type.shape:
            self._refuse("iteration over", "use the scalar itself", expected="at least one axis", got="a scalar")
        self._refuse("iteration over", "write `for i in range(x.shape[0]): x[i]`, or use vmap")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self._refuse("conversion to a NumPy array of", "use torchlean.ops functions on it instead of NumPy's")

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> NoReturn:
        self._refuse(f"numpy.{function.__name__} of", f"write {home_of(function.__name__)}(…)")

    def item(self) -> NoReturn:
        self._refuse("item() of", "keep it a tensor; debug.print('{x}', x=x) shows it when the program runs")

    def tolist(self) -> NoReturn:
        self._refuse("tolist() of", "keep it a tensor; debug.print('{x}', x=x) shows it when the program runs")

    def numpy(self) -> NoReturn:
        self._refuse("numpy() of", "keep it a tensor; debug.print('{x}', x=x) shows it when the program runs")

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self._refuse(
            "item assignment to",
            "write x = x.at[index].set(value)",
            expected="a new value: values are immutable",
            got=f"x[{index!r}] = …"[:60],
        )


class Builder:
    """Appends nodes to a graph under construction."""

    __slots__ = (
        "__weakref__",
        "_arrays",
        "_captured_ids",
        "_files",
        "_shared",
        "bodies",
        "capture_arrays",
        "capture_constants",
        "captured",
        "closed",
        "inputs",
        "name",
        "nodes",
        "owner",
        "parent",
        "remembered",
        "types",
        "watch",
        "where",
    )

    def __init__(self, *, parent: Builder | None = None, name: str = "graph") -> None:
        self.types: list[TensorType] = []
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.parent = parent
        self.captured: list[Any] = []  # values of enclosing builders that became extra inputs, in input order
        self.capture_arrays = False  # whether an eager array becomes an extra input too, instead of a constant
        self.capture_constants = False  # likewise for an array of NumPy's
        self.remembered = None
        self.name = name
        self.closed = False
        self.where: SourceLocation | None = None  # set while a transform replays a node: results inherit its line
        self.bodies: dict[Any, Any] = {}  # traced bodies of composites, by (composite, attributes, types)
        self.watch: Any = None  # what notes the use of keys, if anything; of whatever answered before this trace
        self.owner: Any = None if parent is None else parent.owner  # the backend that differentiates, if one does
        self._shared: dict[tuple[Any, ...], tuple[int, ...]] | None = {}
        self._captured_ids: dict[tuple[int, int], int] = {}
        self._files: set[str] = set()  # known to be of this package, which no user's line is in
        self._arrays: dict[int, tuple[Any, int]] = {}  # immutable eager arrays already lifted, by identity

    @staticmethod
    def continuing(graph: Graph, *, name: str) -> Builder:
        """A builder whose first nodes are those of `graph`, ids unchanged."""
        made = Builder(name=name)
        made.types = list(graph.types)
        made.nodes = list(graph.nodes)
        made.inputs = list(graph.inputs)
        made._shared = None if graph.shared is None else dict(graph.shared)
        return made

    # -- values ------------------------------------------------------------------------------------------------------
    def add_input(self, type: TensorType) -> Value:
        """A new graph input."""
        id = len(self.types)
        self.types.append(type)
        self.inputs.append(id)
        return Value(self, id, type)

    def add_inputs(self, types: Sequence[TensorType]) -> list[Value]:
        """New graph inputs."""
        first = len(self.types)
        self.types.extend(types)
        self.inputs.extend(range(first, len(self.types)))
        return [Value(self, id, type) for id, type in enumerate(types, first)]

    def value(self, id: int) -> Value:
        return Value(self, id, self.types[id])

    def maker(self, id: int) -> str:
        """`made by tanh at train.py:12 in f`, or which input it is: for messages."""
        for node in self.nodes:
            if id in node.outputs:
                return f"made by {node.op.name} at {node.where}"
        if id in self.inputs:
            return f"which is argument {self.inputs.index(id)} of {self.name}"
        return "of unknown origin"

    # -- operands ----------------------------------------------------------------------------------------------------
    def lift(self, operand: Any) -> int:
        """The id of an operand in this graph: own value, captured outer value, or a constant."""
        if operand.__class__ is Value:
            if operand.builder is self:
                return operand.id
            return self._capture(operand)
        if isinstance(operand, Operators):  # an eager array: immutable, so identity decides
            known = self._arrays.get(id(operand))
            if known is not None:
                return known[1]
            if self.capture_arrays:
                lifted = self.add_input(operand.type).id
                self.captured.append(operand)
            else:
                lifted = self._constant(np.asarray(operand))
            self._arrays[id(operand)] = (operand, lifted)
            return lifted
        if isinstance(operand, HOST):  # first: a numpy.float64 is a Python float too
            return self._constant(np.asarray(operand))
        if isinstance(operand, NUMBER):
            return self._constant(scalar_array(operand))
        raise no_operand(operand)

    def _constant(self, array: np.ndarray[Any, Any]) -> int:
        literal = Literal(array)
        return self.emit(CONSTANT, literal, ())[0]

    def _capture(self, value: Value) -> int:
        owner = value.builder
        key = (id(owner), value.id)
        known = self._captured_ids.get(key)
        if known is not None:
            return known
        ancestor = self.parent
        while ancestor is not None and ancestor is not owner:
            ancestor = ancestor.parent
        if ancestor is None:
            raise leaked(value)
        inner = self.add_input(value.type)
        self.captured.append(value)
        self._captured_ids[key] = inner.id
        return inner.id

    # -- nodes -------------------------------------------------------------------------------------------------------
    def bind(self, op: Op, params: Any, operands: tuple[Any, ...]) -> tuple[Value, ...]:
        """Apply `op`: lift the operands, type the result, append (or share) a node."""
        ids = tuple([o.id if o.__class__ is Value and o.builder is self else self.lift(o) for o in operands])
        types = self.types
        key = (op, params, ids)
        shared = self.shared if self._shared is None else self._shared
        outputs = shared.setdefault(key, (len(types),))
        if outputs[0] == len(types):
            outputs = self._make(key, outputs)
        return tuple([Value(self, out, types[out]) for out in outputs])

    def apply(self, op: Op, params: Any, operands: tuple[Any, ...]) -> Value:
        """`bind` for an op with one output."""
        ids = tuple([o.id if o.__class__ is Value and o.builder is self else self.lift(o) for o in operands])
        types = self.types
        first = len(types)
        key = (op, params, ids)
        shared = self.shared if self._shared is None else self._shared
        outputs = shared.setdefault(key, (first,))
        out = outputs[0]
        if out == first:
            self._make(key, outputs)
        made = _new(Value)
        made.builder = self
        made.id = out
        made.type = types[out]
        return made

    def emit(self, op: Op, params: Any, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The output ids of a node, shared with an equal earlier node."""
        key = (op, params, inputs)
        outputs = self._entered(key)
        return outputs if outputs[0] != len(self.types) else self._make(key, outputs)

    def emit_typed(self, node: Node, inputs: tuple[int, ...], made: tuple[TensorType, ...]) -> tuple[int, ...]:
        """Re-emit a node of a checked graph on these inputs, with known result types."""
        key = (node[0], node[3], inputs)
        outputs = self._entered(key)
        return outputs if outputs[0] != len(self.types) else self._append(key, outputs, made, node[4])

    def _entered(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        """The outputs of the node there is, or else those of a new node, whose first id is the next one: append it."""
        return self.shared.setdefault(key, (len(self.types),))

    @property
    def shared(self) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """(op, params, inputs) → outputs of every node; made when the first node is emitted after an adoption."""
        if self._shared is None:
            nodes = self.nodes
            self._shared = {(node[0], node[3], node[1]): node[2] for node in nodes if node[0].__class__ is not EffectOp}
        return self._shared

    def _make(self, key: tuple[Any, ...], outputs: tuple[int, ...]) -> tuple[int, ...]:
        """Type and append a node that was entered just now."""
        op, params, inputs = key
        types = self.types
        try:
            if self.closed:
                raise self._ended(op, inputs)
            if op is CONSTANT and self.capture_constants:
                return self._captured_constant(params, outputs)
            made = op.type_rule(params, *[types[i] for i in inputs])
        except BaseException as fault:
            del self.shared[key]
            if not isinstance(fault, TypeFault):
                raise
            where = self.where or caller_location()
            raise type_fault_error(op, tuple([types[i] for i in inputs]), fault, where) from None
        return self._append(key, outputs, made, self.where or location_from(sys._getframe(2), self._files))

    def _captured_constant(self, literal: Literal, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """An operand in the place of a node: equal arrays are one operand, by the table of shared nodes."""
        self.types.append(literal.type)
        self.inputs.extend(outputs)
        self.captured.append(literal.array)
        return outputs

    def _ended(self, op: Op, inputs: tuple[int, ...]) -> TraceError:
        return TraceError(
            message(
                f"{op.name} of {show_types(tuple([self.types[i] for i in inputs]))} in a trace that has ended",
                expected="a running trace",
                got=f"the one of {self.name}, whose graph is finished",
                fix="return the value from the traced function, and apply the op to the result",
                where=str(caller_location()),
            )
        )

    def _append(
        self, key: tuple[Any, ...], outputs: tuple[int, ...], made: tuple[TensorType, ...], where: SourceLocation
    ) -> tuple[int, ...]:
        """Append a node that was entered just now, under the ids of its results."""
        types = self.types
        if len(made) == 1:
            types.append(made[0])
        else:
            outputs = self.shared[key] = tuple(range(outputs[0], outputs[0] + len(made)))
            types.extend(made)
        self.nodes.append(_node(Node, (key[0], key[2], outputs, key[1], where)))
        if key[0].__class__ is EffectOp:
            del self.shared[key]
        return outputs

    def inline(self, graph: Graph, operands: tuple[int, ...]) -> tuple[int, ...]:
        """Append the nodes of a closed graph applied to `operands`; ids of its outputs."""
        if not self.nodes and operands == graph.inputs and len(self.types) == len(operands):
            # The usual case of a transform under `make_graph` or another transform: nothing to renumber.
            self.types = list(graph.types)
            self.nodes = list(graph.nodes)
            self._shared = None
            return graph.outputs
        ids: list[int] = [-1] * len(graph.types)
        for inner, outer in zip(graph.inputs, operands, strict=True):
            ids[inner] = outer
        types = graph.types
        shared = self.shared
        for op, ins, outs, params, where in graph.nodes:
            key = (op, params, tuple([ids[i] for i in ins]))
            outputs = shared.setdefault(key, (len(self.types),))
            if outputs[0] == len(self.types):
                outputs = self._append(key, outputs, tuple([types[o] for o in outs]), where)
            for inner, outer in zip(outs, outputs, strict=True):
                ids[inner] = outer
        return tuple([ids[o] for o in graph.outputs])

    def repeat(self, steps: Sequence[Step], values: list[int], where: SourceLocation) -> list[int]:
        """Emit `steps`, whose operands are positions in `values`; ids of results are appended there, step by step."""
        shared, types, nodes = self.shared, self.types, self.nodes
        for op, params, positions, made in steps:
            if len(positions) == 2:
                left, right = positions
                inputs: tuple[int, ...] = (values[left], values[right])
            else:
                inputs = tuple([values[position] for position in positions])
            first = len(types)
            key = (op, params, inputs)
            outputs = shared.setdefault(key, (first,))
            if outputs[0] == first:
                if len(made) == 1:
                    types.append(made[0])
                    nodes.append(_node(Node, (op, inputs, outputs, params, where)))
                else:
                    outputs = self._append(key, outputs, made, where)
            values += outputs
        return values

    def evaluate(self, graph: Graph, operands: tuple[Any, ...]) -> tuple[Value, ...]:
        """Apply a closed graph to operands by appending its nodes."""
        ids = self.inline(graph, tuple([self.lift(operand) for operand in operands]))
        return tuple([self.value(id) for id in ids])

    def finish(self, outputs: tuple[int, ...]) -> Graph:
        """The graph built so far, with these outputs. The builder accepts no more nodes."""
        self.closed = True
        return Graph(
            inputs=tuple(self.inputs),
            nodes=tuple(self.nodes),
            outputs=outputs,
            types=tuple(self.types),
            name=self.name,
            shared=self._shared,
        )


def leaked(value: Value) -> LeakedTracerError:
    """The error for a value used outside the trace that made it."""
    return LeakedTracerError(
        message(
            f"a traced {value.type} {value.builder.maker(value.id)} belongs to a trace that has ended",
            expected="a value of the running trace, or an array",
            got="a traced value that leaked out of the function that made it",
            fix="return it from the traced function instead of storing it",
            where=str(caller_location()),
        )
    )


__all__ = [
    "CURRENT",
    "HOST",
    "NOWHERE",
    "NUMBER",
    "Answerer",
    "Builder",
    "Value",
    "answerer",
    "bind",
    "bind1",
    "is_python_number",
    "leaked",
    "no_operand",
    "scalar_array",
    "type_fault_error",
    "type_of",
]
