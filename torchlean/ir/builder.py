"""Emission: the builder that answers ops while a function is traced, the values it hands out, and the one ContextVar.

Equal nodes (op, params, inputs) are shared, which is bit-exact. Nothing else is simplified: `x + 0` is not `x` when x
is -0.0, and a framework that reports what ran does not change bits in passing.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

import numpy as np

from torchlean.errors import LeakedTracerError, TraceError, TypeRuleError, message, shown
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.location import NOWHERE, SourceLocation, caller_location
from torchlean.ir.op import EffectOp, Op, TypeFault
from torchlean.ir.operators import Operators, home_of
from torchlean.ir.types import TensorType, show_types, type_of_array


class Answerer(Protocol):
    """Whatever currently answers an op: a `Builder` while tracing, else the ambient eager session."""

    @property
    def bodies(self) -> dict[Any, Any]:
        """Traced bodies of composites, by (composite, attributes, types)."""
        ...

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
        "_shared",
        "bodies",
        "capture_arrays",
        "captured",
        "closed",
        "inputs",
        "name",
        "nodes",
        "parent",
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
        self.name = name
        self.closed = False
        self.where: SourceLocation | None = None  # set while a transform replays a node: results inherit its line
        self.bodies: dict[Any, Any] = {}  # traced bodies of composites, by (composite, attributes, types)
        self.watch: Any = None  # what notes the use of keys, if anything; of whatever answered before this trace
        self._shared: dict[tuple[Any, ...], tuple[int, ...]] | None = {}
        self._captured_ids: dict[tuple[int, int], int] = {}
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
        if isinstance(operand, np.ndarray | np.generic):  # first: a numpy.float64 is a Python float too
            return self._constant(np.asarray(operand))
        if isinstance(operand, bool | int | float | complex):
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
        key = (op, params, ids)
        outputs = self.shared.get(key) or self._make(key)
        types = self.types
        return tuple([Value(self, out, types[out]) for out in outputs])

    def apply(self, op: Op, params: Any, operands: tuple[Any, ...]) -> Value:
        """`bind` for an op with one output."""
        ids = tuple([o.id if o.__class__ is Value and o.builder is self else self.lift(o) for o in operands])
        key = (op, params, ids)
        out = (self.shared.get(key) or self._make(key))[0]
        return Value(self, out, self.types[out])

    def emit(self, op: Op, params: Any, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The output ids of a node, shared with an equal earlier node."""
        key = (op, params, inputs)
        return self.shared.get(key) or self._make(key)

    def emit_typed(self, node: Node, inputs: tuple[int, ...], made: tuple[TensorType, ...]) -> tuple[int, ...]:
        """Re-emit a node of a checked graph on these inputs, with known result types."""
        key = (node[0], node[3], inputs)
        return self.shared.get(key) or self._append(key, made, node[4])

    @property
    def shared(self) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """(op, params, inputs) → outputs of every node; made when the first node is emitted after an adoption."""
        if self._shared is None:
            nodes = self.nodes
            self._shared = {(node[0], node[3], node[1]): node[2] for node in nodes if node[0].__class__ is not EffectOp}
        return self._shared

    def _make(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        """Type and append a node that is not there yet."""
        op, params, inputs = key
        if self.closed:
            raise TraceError(
                message(
                    f"{op.name} of {show_types(tuple([self.types[i] for i in inputs]))} in a trace that has ended",
                    expected="a running trace",
                    got=f"the one of {self.name}, whose graph is finished",
                    fix="return the value from the traced function, and apply the op to the result",
                    where=str(caller_location()),
                )
            )
        types = self.types
        try:
            made = op.type_rule(params, *[types[i] for i in inputs])
        except TypeFault as fault:
            where = self.where or caller_location()
            raise type_fault_error(op, tuple(types[i] for i in inputs), fault, where) from None
        return self._append(key, made, self.where or caller_location())

    def _append(self, key: tuple[Any, ...], made: tuple[TensorType, ...], where: SourceLocation) -> tuple[int, ...]:
        types = self.types
        first = len(types)
        if len(made) == 1:
            types.append(made[0])
            outputs: tuple[int, ...] = (first,)
        else:
            types.extend(made)
            outputs = tuple(range(first, first + len(made)))
        self.nodes.append(Node(key[0], key[2], outputs, key[1], where))
        if key[0].__class__ is not EffectOp:
            self.shared[key] = outputs
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
            outputs = shared.get(key) or self._append(key, tuple([types[o] for o in outs]), where)
            for inner, outer in zip(outs, outputs, strict=True):
                ids[inner] = outer
        return tuple([ids[o] for o in graph.outputs])

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


def scalar_array(scalar: Any) -> np.ndarray[Any, Any]:
    """A Python number on its own: bool, int32, float32 or complex64. An int that does not fit is refused."""
    if isinstance(scalar, bool):
        return np.asarray(scalar, dtype=np.bool_)
    if isinstance(scalar, int):
        if not -(2**31) <= scalar < 2**31:
            raise TypeRuleError(
                message(
                    f"the Python integer {scalar} does not fit i32[]",
                    expected="an integer in [-2**31, 2**31)",
                    got=str(scalar),
                    fix="say the dtype: numpy.int64(...)",
                    where=str(caller_location()),
                )
            )
        return np.asarray(scalar, dtype=np.int32)
    return np.asarray(scalar, dtype=np.complex64 if isinstance(scalar, complex) else np.float32)


def no_operand(operand: Any) -> TypeRuleError:
    """The error for what holds no numbers with a dtype."""
    return TypeRuleError(
        message(
            f"a {type(operand).__name__} is not a tensor operand",
            expected="a torchlean array, a NumPy array or a Python number",
            got=shown(operand),
            fix="convert it first, e.g. numpy.asarray(...)",
            where=str(caller_location()),
        )
    )


def is_python_number(operand: Any) -> bool:
    """Whether an operand is a plain Python number, whose dtype is weak; a `numpy.float64`, though a float, is not."""
    return isinstance(operand, bool | int | float | complex) and not isinstance(operand, np.generic)


def type_of(operand: Any) -> TensorType:
    """The type of a traced value, an eager array, a NumPy array or a Python number."""
    if isinstance(operand, Operators):
        return operand.type
    if isinstance(operand, np.ndarray | np.generic):
        return type_of_array(np.asarray(operand))
    if isinstance(operand, bool | int | float | complex):
        return type_of_array(scalar_array(operand))
    raise no_operand(operand)


__all__ = [
    "CURRENT",
    "NOWHERE",
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
