"""What the tests of generated C share: profiles whose records may be stale, groups of many calls, joined graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from torchlean.backends import Capsule, Executable, accept, plan, profiles
from torchlean.backends.compiled import MODULE
from torchlean.backends.handler import Group
from torchlean.conformance.kit.calls import Trial
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.types import TensorType

Array = np.ndarray[Any, Any]
CAPSULES = {capsule.op: capsule for capsule in MODULE.capsules}
COMPILED = profiles.checked_cpu.under(profiles.checked_cpu.policy.allowing_stale())
REFERENCE = profiles.reference_cpu.under(profiles.reference_cpu.policy.allowing_stale())


def run(graph: Graph, arrays: Sequence[Array], profile: Any = COMPILED) -> tuple[Array, ...]:
    """A graph's results under a profile."""
    return Executable(accept(plan(graph, profile))).checked(*arrays)


def group_of(capsule: Capsule, trials: Iterable[Trial]) -> tuple[Group, list[Array], list[Node]]:
    """Every call as one node of one group, so that they are compiled together; the operands; the nodes."""
    types: list[TensorType] = []
    nodes: list[Node] = []
    inputs: list[int] = []
    arrays: list[Array] = []
    for trial in trials:
        ids = tuple(range(len(types), len(types) + len(trial.arrays)))
        types += trial.types
        made = capsule.op.type_rule(trial.params, *trial.types)
        outs = tuple(range(len(types), len(types) + len(made)))
        types += made
        nodes.append(Node(capsule.op, ids, outs, trial.params, NOWHERE))
        inputs += ids
        arrays += trial.arrays
    group = Group(
        nodes=tuple(nodes),
        capsules=(capsule.name,) * len(nodes),
        types=tuple(types),
        inputs=tuple(inputs),
        outputs=tuple([id for node in nodes for id in node.outputs]),
    )
    return group, arrays, nodes


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
