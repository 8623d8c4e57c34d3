"""What the tests of XLA share: a profile whose records may be stale, and groups of many calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from torchlean.backends import EXTERNAL, Capsule, Device, Executable, Profile, accept, plan, profiles, reference
from torchlean.backends.handler import Group
from torchlean.backends.xla import MODULE
from torchlean.conformance.kit.calls import Trial
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.types import TensorType

Array = np.ndarray[Any, Any]
Call = tuple[Capsule, Trial]
XLA = Profile(name="xla", device=Device.CPU, modules=(MODULE, reference.MODULE), policy=EXTERNAL.allowing_stale())
REFERENCE = profiles.reference_cpu.under(profiles.reference_cpu.policy.allowing_stale())


def run(graph: Graph, arrays: Sequence[Array], profile: Any = XLA) -> tuple[Array, ...]:
    """A graph's results under a profile."""
    return Executable(accept(plan(graph, profile))).checked(*arrays)


def group_of(calls: Iterable[Call]) -> tuple[Group, list[Array], list[Node]]:
    """Every call as one node of one group, so that they are compiled together; the operands; the nodes."""
    types: list[TensorType] = []
    nodes: list[Node] = []
    names: list[str] = []
    inputs: list[int] = []
    arrays: list[Array] = []
    for capsule, trial in calls:
        ids = tuple(range(len(types), len(types) + len(trial.arrays)))
        types += trial.types
        made = capsule.op.type_rule(trial.params, *trial.types)
        outs = tuple(range(len(types), len(types) + len(made)))
        types += made
        nodes.append(Node(capsule.op, ids, outs, trial.params, NOWHERE))
        names.append(capsule.name)
        inputs += ids
        arrays += trial.arrays
    group = Group(
        nodes=tuple(nodes),
        capsules=tuple(names),
        types=tuple(types),
        inputs=tuple(inputs),
        outputs=tuple([id for node in nodes for id in node.outputs]),
    )
    return group, arrays, nodes
