"""The tape: what ran, in evaluation order, as data. No closures: the local VJP is the op's own VJP graph.

One node per value; an op with several results appends one node per result, sharing op, params, parents and saved
buffers. Plain operands that no handle stands for have the parent -1. Gradients come back as buffers, one per node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchlean.errors import HandleError, TypeRuleError, message
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.printer import params_text
from torchlean.ir.types import TensorType
from torchlean.runtime.buffer import Buffer, Owners
from torchlean.runtime.kernels import Kernels
from torchlean.runtime.pullback import Pullbacks

HostArray = np.ndarray[Any, Any]


class TapeNode(NamedTuple):
    """One value. `op` is None for a leaf (a parameter or input). `parents` are node ids, -1 for an operand off it.

    `saved`: the buffers the VJP reads, in the order its plan says. `owner` and `generation` say whose it is. `output`
    is which result of the op this is; `results` are the types of all of them, `operands` those of the operands.
    """

    op: Op | None
    params: Any
    parents: tuple[int, ...]
    saved: tuple[Buffer, ...]
    owner: str
    generation: int
    requires_grad: bool
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    output: int
    name: str

    @property
    def type(self) -> TensorType:
        return self.results[self.output]


class Tape:
    """The nodes of one recording phase of one session. `reset` starts the next generation."""

    __slots__ = ("_former", "_kernels", "_pullbacks", "examine", "generation", "nodes", "owner")

    def __init__(self, owner: str, kernels: Kernels) -> None:
        self.owner = owner
        self.generation = 0
        self.nodes: list[TapeNode] = []
        self._former: dict[int, str] = {}
        self._kernels = kernels
        self._pullbacks = Pullbacks(kernels)
        self.examine: Callable[..., None] | None = None  # told (node, id, saved, seeds, contributions) of each VJP run

    def __len__(self) -> int:
        return len(self.nodes)

    def reset(self) -> None:
        """Forget every node; handles made before are stale from now on. Names stay known for one generation."""
        with self._kernels.lock:
            self._former = {id: node_name(node) for id, node in enumerate(self.nodes) if node.op is None}
            self.nodes = []
            self.generation += 1

    def name_of(self, id: int, generation: int) -> str:
        """What messages call a node of this or the previous generation."""
        if generation == self.generation and id < len(self.nodes):
            return node_name(self.nodes[id])
        return self._former.get(id, "a result") if generation == self.generation - 1 else "a handle"

    # -- recording ---------------------------------------------------------------------------------------------------
    def leaf(self, type: TensorType, *, requires_grad: bool, name: str) -> int:
        """The id of a new leaf."""
        node = TapeNode(None, NO_PARAMS, (), (), self.owner, self.generation, requires_grad, (), (type,), 0, name)
        with self._kernels.lock:
            self.nodes.append(node)
            return len(self.nodes) - 1

    def record(
        self,
        op: Op,
        params: Any,
        parents: tuple[int, ...],
        operands: Sequence[tuple[TensorType, Buffer]],
        results: Sequence[tuple[TensorType, Buffer]],
    ) -> int:
        """Append what just ran; the id of its first result."""
        operand_types = tuple([type for type, _ in operands])
        result_types = tuple([type for type, _ in results])
        wrt = self._wrt(op, parents, operand_types)
        saved: tuple[Buffer, ...] = ()
        if wrt:
            reads = self._pullbacks.find(op, params, operand_types, result_types, wrt)
            saved = (
                *[operands[position][1] for position in reads.operands],
                *[results[position][1] for position in reads.results],
            )
        made = [
            TapeNode(
                op, params, parents, saved, self.owner, self.generation,
                bool(wrt) and type.dtype.is_float, operand_types, result_types, output, "",
            )
            for output, type in enumerate(result_types)
        ]  # fmt: skip
        with self._kernels.lock:
            first = len(self.nodes)
            self.nodes.extend(made)
        return first

    def _wrt(self, op: Op, parents: tuple[int, ...], types: tuple[TensorType, ...]) -> tuple[int, ...]:
        """Positions of the operands a gradient flows to."""
        if not self._pullbacks.differentiates(op):
            return ()
        nodes = self.nodes
        return tuple(
            [
                position
                for position, (parent, type) in enumerate(zip(parents, types, strict=True))
                if parent >= 0 and nodes[parent].requires_grad and type.dtype.is_float
            ]
        )

    # -- reverse sweep -----------------------------------------------------------------------------------------------
    def backward_dense(self, out: int, seed: Any = None) -> list[Buffer]:
        """One gradient per node; zeros for nodes the sweep did not reach, whose VJPs never ran.

        `seed` is the cotangent of `out` (ones when None). Raises HandleError for an id the tape does not have and
        TypeRuleError for a seed of another type.
        """
        with self._kernels.lock:
            return self.backward_dense_from(self._seeded(out, seed))

    def backward_dense_from(self, initial: Sequence[Any]) -> list[Buffer]:
        """`backward_dense` from explicit initial gradients: one array per node, or None."""
        with self._kernels.lock:
            found = self._sweep(self._initial(initial), range(len(self.nodes)))
            return self._buffers(found, range(len(self.nodes)))

    def backward_sparse(self, out: int, seed: Any = None, retain: Iterable[int] = ()) -> dict[int, Buffer]:
        """The gradients of the nodes in `retain` only (zeros where unreached); the others are dropped on the way."""
        with self._kernels.lock:
            kept = frozenset([self.require(id) for id in retain])
            found = self._sweep(self._initial(self._seeded(out, seed)), kept)
            ids = sorted(kept)
            return dict(zip(ids, self._buffers(found, ids), strict=True))

    def require(self, id: int) -> int:
        """The id, if the tape has it."""
        if not 0 <= id < len(self.nodes):
            raise HandleError(
                message(
                    f"invalid node id {id}",
                    expected=f"an id in [0, {len(self.nodes)})",
                    got=str(id),
                    fix="use an id of this tape's current generation",
                    where=str(caller_location()),
                )
            )
        return id

    def _seeded(self, out: int, seed: Any) -> list[Any]:
        """Initial gradients: `seed`, or ones, for `out` alone."""
        type = self.nodes[self.require(out)].type
        initial: list[Any] = [None] * len(self.nodes)
        initial[out] = np.ones(type.shape, dtype=type.dtype.carrier) if seed is None else seed
        return initial

    def _initial(self, initial: Sequence[Any]) -> list[HostArray | None]:
        nodes = self.nodes
        if len(initial) != len(nodes):
            raise TypeRuleError(
                message(
                    "initial gradients: one entry per node is needed",
                    expected=f"{len(nodes)} entries (arrays or None)",
                    got=f"{len(initial)} entries",
                    fix="pass None for nodes without an initial gradient",
                    where=str(caller_location()),
                )
            )
        made: list[HostArray | None] = []
        for id, (node, given) in enumerate(zip(nodes, initial, strict=True)):
            array = None if given is None else np.array(given) if isinstance(given, np.ndarray) else np.asarray(given)
            if array is not None and (array.shape != node.type.shape or array.dtype != node.type.dtype.carrier):
                raise TypeRuleError(
                    message(
                        f"upstream gradient of node {id} ({node_name(node)}) does not have the node's type",
                        expected=str(node.type),
                        got=f"{array.dtype}{list(array.shape)}",
                        fix="give the gradient the shape and dtype of the value",
                        where=str(caller_location()),
                    )
                )
            made.append(array)
        return made

    def _sweep(self, grads: list[HostArray | None], keep: Collection[int]) -> list[HostArray | None]:
        """Reverse accumulation in place: contributions are added by the profile's own `add`."""
        nodes, kernels = self.nodes, self._kernels
        with kernels.derivatives(), np.errstate(all="ignore"):
            for id in range(len(nodes) - 1, -1, -1):
                node = nodes[id]
                if node.output:
                    continue  # the first result's turn serves them all
                count = len(node.results)
                cotangents = grads[id : id + count]
                if all(ct is None for ct in cotangents):
                    continue
                if node.op is not None:
                    self._pull(node, id, cotangents, grads)
                for at in range(id, id + count):
                    if at not in keep:
                        grads[at] = None
        return grads

    def _pull(self, node: TapeNode, id: int, cotangents: list[HostArray | None], grads: list[HostArray | None]) -> None:
        """Run a node's VJP and add what it contributes to the parents."""
        op, params, parents, operands = node.op, node.params, node.parents, node.operands
        assert op is not None
        wrt = self._wrt(op, parents, operands)
        if not wrt:
            return
        plan = self._pullbacks.find(op, params, operands, node.results, wrt)
        seeds = [_or_zeros(cotangents[position], node.results[position]) for position in plan.cotangents]
        saved = [buffer.array for buffer in node.saved]
        made = self._pullbacks.run(plan, saved, seeds)
        if self.examine is not None:
            self.examine(node, id, saved, seeds, made)
        for position, contribution in zip(wrt, made, strict=True):
            parent = parents[position]
            known = grads[parent]
            if known is None:
                grads[parent] = contribution
            else:
                type = operands[position]
                total = self._kernels.entry(ADD, NO_PARAMS, (type, type)).run(known, contribution)
                grads[parent] = np.asarray(total)

    def _buffers(self, grads: list[HostArray | None], ids: Iterable[int]) -> list[Buffer]:
        """Owned buffers; nodes that share one gradient array share its storage."""
        owners = Owners(self._kernels.allocator, ())
        return [owners.buffer(_or_zeros(grads[id], self.nodes[id].type)) for id in ids]

    # -- reading -----------------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        lines = [f"tape of session {self.owner}, generation {self.generation}: {len(self.nodes)} nodes"]
        for id, node in enumerate(self.nodes):
            if node.op is None:
                what = ("parameter" if node.requires_grad else "input") + (f" {node.name!r}" if node.name else "")
            else:
                arguments = ["·" if parent < 0 else f"%{parent}" for parent in node.parents] + params_text(node.params)
                part = f"[{node.output}]" if len(node.results) > 1 else ""
                what = f"{node.op.name}({', '.join(arguments)}){part}"
            lines.append(f"  %{id}: {node.type} = {what}" + ("" if node.requires_grad else "  # no gradient"))
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The tape as plain data: op names, the text of the params, parents, types."""
        return {
            "owner": self.owner,
            "generation": self.generation,
            "nodes": [
                {
                    "id": id,
                    "op": "leaf" if node.op is None else node.op.name,
                    "name": node.name,
                    "params": params_text(node.params),
                    "parents": list(node.parents),
                    "type": str(node.type),
                    "output": node.output,
                    "requires_grad": node.requires_grad,
                }
                for id, node in enumerate(self.nodes)
            ],
        }


def node_name(node: TapeNode) -> str:
    """What a message calls a node: its name in quotes, or the op that made it."""
    if node.name:
        return repr(node.name)
    return "a leaf" if node.op is None else f"a result of {node.op.name}"


def _or_zeros(gradient: HostArray | None, type: TensorType) -> HostArray:
    return np.zeros(type.shape, dtype=type.dtype.carrier) if gradient is None else gradient
