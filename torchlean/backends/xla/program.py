"""A graph as a function of jax values: node by node, by the rules. Importing this imports jax.

A result that is an operand, or another result, is copied, so that no two results share memory, nor one with an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from torchlean.backends.vocabulary import label
from torchlean.backends.xla.rules import HIGHER, RULES
from torchlean.errors import BackendMissing, InternalError, TorchLeanError, message
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.create import CONSTANT
from torchlean.ir.types import show_types

HELD = 1 << 12  # bytes of a constant from which on it is handed to the program instead of being written into it


class Program:
    """`function(*operands, *held)`: a tuple of results. `held`: the large constants, as NumPy arrays."""

    def __init__(self, graph: Graph, rules: Mapping[Op, Callable[..., Any]] = RULES) -> None:
        self.graph = graph
        self.rules = rules
        self.large = tuple([node for node in graph.nodes if node.op is CONSTANT and node.params.type.nbytes >= HELD])
        self.held = tuple([node.params.array for node in self.large])

    def function(self, *given: Any) -> tuple[Any, ...]:
        count = len(self.graph.inputs)
        operands, held = given[:count], given[count:]
        known = {node.outputs[0]: value for node, value in zip(self.large, held, strict=True)}
        results = self.run(self.graph, operands, known)
        taken = {id(operand) for operand in given}
        made: list[Any] = []
        for result in results:
            own = jnp.array(result, copy=True) if id(result) in taken else result
            taken.add(id(result))
            made.append(own)
        return tuple(made)

    def run(self, graph: Graph, operands: Sequence[Any], known: Mapping[int, Any] | None = None) -> tuple[Any, ...]:
        """The results of a graph, some of whose values may be known."""
        values: dict[int, Any] = dict(known or {})
        values.update(zip(graph.inputs, operands, strict=True))
        for node in graph.nodes:
            if node.outputs[0] not in values:
                results = self._apply(graph, node, [values[id] for id in node.inputs])
                values.update(zip(node.outputs, results, strict=True))
        return tuple([values[id] for id in graph.outputs])

    def _apply(self, graph: Graph, node: Node, operands: list[Any]) -> tuple[Any, ...]:
        made = tuple([graph.types[id] for id in node.outputs])
        try:
            results = self._results(node, made, operands)
        except TorchLeanError:
            raise
        except Exception as fault:
            raise _cannot(graph, node, fault) from fault
        for result, type in zip(results, made, strict=True):
            if np.shape(result) != type.shape or result.dtype != type.dtype.carrier:
                raise InternalError(
                    f"the XLA rule of {node.op.name} made {result.dtype}{list(np.shape(result))} for {type}"
                )
        return results

    def _results(self, node: Node, made: Any, operands: list[Any]) -> tuple[Any, ...]:
        higher = HIGHER.get(node.op)
        if higher is None and isinstance(node.op, Composite) and node.op not in self.rules:
            return self.run(node.params.body, operands)
        results = (
            self.rules[node.op](node.params, made, *operands)
            if higher is None
            else higher(self.run, node.params, made, *operands)
        )
        return tuple(results) if isinstance(results, tuple | list) else (results,)


def _cannot(graph: Graph, node: Node, fault: Exception) -> BackendMissing:
    types = show_types(tuple([graph.types[id] for id in node.inputs]))
    return BackendMissing(
        message(
            f"{label(node.op)} of {types} cannot be written for XLA",
            expected="one program for the whole group",
            got=f"{type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}",
            fix="plan this op on another provider (profile.with_modules puts one first), and report this",
            where=str(node.where),
        )
    )
