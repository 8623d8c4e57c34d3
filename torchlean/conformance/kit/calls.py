"""What a capsule is tried on: calls of its op with concrete operands, taken from samples, and how a kernel is run.

A gradient op (`relu.vjp`) has no samples of its own: its calls are found in the VJPs of its composite's samples. An op
inside a call is given the operands the definition computes for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule
from torchlean.backends.handler import bind_kernel
from torchlean.conformance.samples.call import Case, float_operands, graph_of
from torchlean.conformance.samples.draw import Array, Sample
from torchlean.errors import TorchLeanError
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.types import TensorType, show_types, type_of_array
from torchlean.record import record
from torchlean.transforms.vjp import vjp_graph

Arrays = tuple[Array, ...]


@record(eq=False)
class Trial:
    """One call of an op. `smooth`: away from kinks, poles and overflow, in double precision."""

    name: str
    op: Op
    params: Any
    arrays: Arrays
    smooth: bool

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple([type_of_array(array) for array in self.arrays])

    def __repr__(self) -> str:
        return f"{self.name} ({show_types(self.types)})" if self.arrays else self.name

    def on(self, arrays: Sequence[Array], how: str) -> Trial:
        """The same call on other operands."""
        return Trial(f"{self.name}, {how}", self.op, self.params, tuple(arrays), False)


# -- from samples to calls ---------------------------------------------------------------------------------------------
def calls_of(op: Op, cases: Iterable[Case]) -> Iterator[Trial]:
    """The calls of `op` in the cases: samples of the op, and for a gradient op the VJPs of its composite's calls."""
    for case in cases:
        if case.op is op:
            if isinstance(case, Sample):
                yield Trial(repr(case), op, case.params, _arrays(case.arrays), case.smooth)
            else:
                yield from _inside(op, graph_of(case), case.arrays, repr(case), case.smooth)
        elif isinstance(case.op, Composite) and case.op.gradient is op:
            yield from _gradients(op, case)


def _gradients(op: Op, case: Case) -> Iterator[Trial]:
    graph = graph_of(case)
    floats = float_operands(case)
    cotangents = [normal(type, 4) for type in graph.output_types]
    for wrt in dict.fromkeys([*[(at,) for at in floats], floats] if floats else ()):
        name = f"VJP of {case!r} in {', '.join(map(str, wrt))}"
        yield from _inside(op, vjp_graph(graph, wrt), (*case.arrays, *cotangents), name, case.smooth)


def _inside(op: Op, graph: Graph, arrays: Sequence[Array], name: str, smooth: bool) -> Iterator[Trial]:
    """The nodes of `op` in a graph, with the operands they have there by definition."""
    values = values_of(graph, arrays)
    found = [node for node in graph.nodes if node.op is op]
    for number, node in enumerate(found):
        operands = _arrays([values[id] for id in node.inputs])
        yield Trial(name if len(found) == 1 else f"{name} [{number}]", op, node.params, operands, smooth)


def _arrays(values: Iterable[Any]) -> Arrays:
    return tuple([np.asarray(value) for value in values])


def normal(type: TensorType, seed: int) -> Array:
    """Seeded normal numbers of a type; for other dtypes, those numbers converted."""
    drawn = np.random.default_rng([seed, *type.shape]).normal(size=type.shape)
    return np.asarray(drawn).astype(type.dtype.carrier)


# -- running -----------------------------------------------------------------------------------------------------------
def defined(op: Op, params: Any, arrays: Sequence[Array]) -> Arrays:
    """What the op's definition gives."""
    with np.errstate(all="ignore"):
        return _arrays(op.denote(NumpyAlgebra(), params, *arrays))


def lone_node(op: Op, params: Any, operands: tuple[TensorType, ...]) -> tuple[Node, tuple[TensorType, ...]]:
    """A node applied to values 0, 1, …, and the types of all values."""
    made = op.type_rule(params, *operands)
    count = len(operands)
    node = Node(op, tuple(range(count)), tuple(range(count, count + len(made))), params, NOWHERE)
    return node, operands + made


def kernel_for(capsule: Capsule, params: Any, operands: tuple[TensorType, ...]) -> Callable[..., tuple[Any, ...]]:
    """The capsule's kernel for operands of these types, returning a tuple whatever the number of results.

    A kernel of control flow gets the functions of its sub-graphs by definition.
    """
    node, types = lone_node(capsule.op, params, operands)
    kernel = bind_kernel(capsule, node, types)
    functions = [] if isinstance(capsule.op, Composite) else [_function(held) for _, held in sub_graphs(params)]

    def run(*arrays: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            made = kernel(*functions, *arrays)
        return made if made.__class__ is tuple else (made,)

    return run


def _function(graph: Graph) -> Callable[..., tuple[Any, ...]]:
    return lambda *arrays: denote(graph, arrays)


def run_kernel(capsule: Capsule, params: Any, arrays: Sequence[Array]) -> Arrays:
    """The results of a capsule's kernel on copies of arrays, as arrays: what it does to its operands stays here."""
    kernel = kernel_for(capsule, params, tuple([type_of_array(array) for array in arrays]))
    return _arrays(kernel(*[array.copy() for array in arrays]))


def values_of(graph: Graph, arrays: Sequence[Array], capsules: Mapping[Op, Capsule] | None = None) -> list[Any]:
    """Every value of a graph, by id. Nodes that one of `capsules` serves are run by it, the others by definition."""
    values: list[Any] = [None] * len(graph.types)
    for id, array in zip(graph.inputs, arrays, strict=True):
        values[id] = array
    for node in graph.nodes:
        operands = [values[id] for id in node.inputs]
        capsule = None if capsules is None else capsules.get(node.op)
        types = tuple([graph.types[id] for id in node.inputs])
        if capsule is not None and capsule.refuses(node.params, types) is None:
            made = run_kernel(capsule, node.params, [np.asarray(operand) for operand in operands])
        else:
            made = defined(node.op, node.params, [np.asarray(operand) for operand in operands])
        for id, value in zip(node.outputs, made, strict=True):
            values[id] = value
    return values


def run_graph(graph: Graph, arrays: Sequence[Array], capsules: Mapping[Op, Capsule]) -> Arrays:
    """The outputs of a graph whose nodes are run by `capsules` where they serve them."""
    values = values_of(graph, arrays, capsules)
    return _arrays([values[id] for id in graph.outputs])


def said(error: BaseException) -> str:
    """An exception as one short line."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def refused(error: BaseException) -> bool:
    """Whether an exception is a refusal on purpose, and no accident."""
    return isinstance(error, TorchLeanError)
