"""What the tests of generated C share: profiles whose records may be stale, joined graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.backends import Executable, accept, plan, profiles
from torchlean.backends.compiled import MODULE
from torchlean.ir.graph import Graph, Node
from torchlean.ir.types import TensorType

Array = np.ndarray[Any, Any]
CAPSULES = {capsule.op: capsule for capsule in MODULE.capsules}
COMPILED = profiles.checked_cpu.under(profiles.checked_cpu.policy.allowing_stale())
REFERENCE = profiles.reference_cpu.under(profiles.reference_cpu.policy.allowing_stale())


def run(graph: Graph, arrays: Sequence[Array], profile: Any = COMPILED) -> tuple[Array, ...]:
    """A graph's results under a profile."""
    return Executable(accept(plan(graph, profile))).checked(*arrays)


def joined(graphs: Sequence[Graph]) -> Graph:
    """The graphs side by side as one."""
    types: list[TensorType] = []
    nodes: list[Node] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for graph in graphs:
        first = len(types)
        types += graph.types

        def moved(ids: tuple[int, ...], first: int = first) -> tuple[int, ...]:
            return tuple([id + first for id in ids])

        nodes += [node._replace(inputs=moved(node.inputs), outputs=moved(node.outputs)) for node in graph.nodes]
        inputs += moved(graph.inputs)
        outputs += moved(graph.outputs)
    return Graph(inputs=tuple(inputs), nodes=tuple(nodes), outputs=tuple(outputs), types=tuple(types), name="joined")
