"""Many calls of kernels as one group, for the tests of providers that fuse: what is compiled together costs once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from torchlean.backends import Capsule
from torchlean.backends.handler import Group
from torchlean.conformance.kit.calls import Trial
from torchlean.ir.graph import Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.types import TensorType

Array = np.ndarray[Any, Any]
Call = tuple[Capsule, Trial]


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
