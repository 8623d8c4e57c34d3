"""What the tests of XLA share: profiles whose records may be stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.backends import EXTERNAL, Device, Executable, Profile, accept, plan, profiles, reference
from torchlean.backends.xla import MODULE
from torchlean.ir.graph import Graph

Array = np.ndarray[Any, Any]
XLA = Profile(name="xla", device=Device.CPU, modules=(MODULE, reference.MODULE), policy=EXTERNAL.allowing_stale())
REFERENCE = profiles.reference_cpu.under(profiles.reference_cpu.policy.allowing_stale())


def run(graph: Graph, arrays: Sequence[Array], profile: Any = XLA) -> tuple[Array, ...]:
    """A graph's results under a profile."""
    return Executable(accept(plan(graph, profile))).checked(*arrays)
