"""The handler of an XLA capsule: it joins groups in lowered programs, and makes an executable of one node if asked to.

What is only another view, or depends on nothing, is NumPy's own where it stands outside any group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchlean.backends.alone import kernel_alone, view_expression
from torchlean.backends.handler import Kernel, Session, Traits, Types, guard_types
from torchlean.backends.plan import graphs_run
from torchlean.backends.vocabulary import Device
from torchlean.backends.xla.grouper import XlaGrouper
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.graph import Node
from torchlean.ir.op import Op

PROVIDER = "xla"


@dataclass(frozen=True, slots=True, kw_only=True)
class InXla:
    """One op, as part of a group or alone. `runs_bodies`: the sub-graphs of its nodes are part of the executable."""

    op: Op
    provider: str
    device: Device
    traits: Traits
    grouper: XlaGrouper
    capsule: str
    runs_bodies: bool = True

    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        operands = tuple([types[id] for id in node.inputs])
        guard_types(self.op, node, operands, tuple([types[id] for id in node.outputs]))
        if self.traits.view:
            return view_expression(node, types)
        functions = len(graphs_run(self.op, node.params))
        if not node.inputs and not functions:
            made = tuple([np.asarray(x) for x in self.op.denote(NumpyAlgebra(), node.params)])
            return lambda: made[0] if len(made) == 1 else made
        return kernel_alone(self.grouper, self.capsule, node, types, functions)
