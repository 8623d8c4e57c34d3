"""Local VJPs, planned once per (op, params, types, operands wanted): the op's VJP graph without its forward node.

The forward value is never recomputed: where the derivative reads it, the saved result is fed in. So a dropout mask, for
one, is the mask that ran.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.profile import Profile
from torchlean.ir.graph import Graph, Node, without_effects
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import Op
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType
from torchlean.runtime.kernels import Kernels, Program, make_room
from torchlean.transforms.rewrite import extract
from torchlean.transforms.slopes import Derivatives
from torchlean.transforms.vjp import vjp_graph


class Pullback:
    """(saved operands, saved results, cotangents) → cotangents of the wanted operands.

    `operands`, `results` and `cotangents` are the positions the graph reads; the others need not be kept. `program` is
    made when it first runs, so that its capsules are reported as the derivative's, and again when a switch of the
    profile has changed; `profile` is the one it was made under.
    """

    __slots__ = ("cotangents", "graph", "operands", "profile", "program", "results")

    def __init__(
        self, graph: Graph, operands: tuple[int, ...], results: tuple[int, ...], cotangents: tuple[int, ...]
    ) -> None:
        self.graph = graph
        self.operands = operands
        self.results = results
        self.cotangents = cotangents
        self.program: Program | None = None
        self.profile: Profile | None = None


class Pullbacks:
    """The pullbacks of one session."""

    __slots__ = ("_kernels", "_known")

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._known: dict[Any, Pullback] = {}

    def differentiates(self, op: Op) -> bool:
        """Whether the op has a derivative at all."""
        return not isinstance(op.diff, NoTangent)

    def find(
        self,
        op: Op,
        params: Any,
        operands: tuple[TensorType, ...],
        results: tuple[TensorType, ...],
        wrt: tuple[int, ...],
    ) -> Pullback:
        """The plan, from the cache or made now."""
        key = (op, params, operands, wrt)
        found = self._known.get(key)
        if found is None:
            found = local_pullback(op, params, operands, results, wrt)
            make_room(self._known)
            self._known[key] = found
        return found

    def run(
        self, plan: Pullback, saved: list[np.ndarray[Any, Any]], cotangents: list[np.ndarray[Any, Any]]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """The cotangents of the wanted operands."""
        profile = self._kernels.current_profile()
        if plan.program is None or plan.profile is not profile:
            plan.program = self._kernels.program(plan.graph)
            plan.profile = profile
        return plan.program(*saved, *cotangents)


def local_pullback(
    op: Op, params: Any, operands: tuple[TensorType, ...], results: tuple[TensorType, ...], wrt: tuple[int, ...]
) -> Pullback:
    """The VJP graph of a graph of one node, reading saved results instead of computing them again."""
    count = len(operands)
    node = Node(op, tuple(range(count)), tuple(range(count, count + len(results))), params, NOWHERE)
    forward = Graph(inputs=node.inputs, nodes=(node,), outputs=node.outputs, types=(*operands, *results), name=op.name)
    # One node tells nothing of its operands and cotangents, which may be infinite.
    full = vjp_graph(without_effects(forward), wrt, mode=Derivatives.GUARDED)
    primals = full.inputs[:count]
    again = [made for made in full.nodes if made.op is op and made.inputs == primals and made.params == params]
    made_before = again[0].outputs if again else ()
    nodes = [made for made in full.nodes if not again or made is not again[0]]
    read = {value for made in nodes for value in made.inputs} | set(full.outputs)

    def those_read(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([position for position, value in enumerate(values) if value in read])

    cotangents = full.inputs[count:]
    reads = (those_read(primals), those_read(made_before), those_read(cotangents))
    sources = (primals, made_before, cotangents)
    inputs = tuple([values[at] for values, positions in zip(sources, reads, strict=True) for at in positions])
    return Pullback(extract(full, nodes, inputs, full.outputs, full.name), *reads)
