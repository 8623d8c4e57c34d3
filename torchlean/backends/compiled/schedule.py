"""What a group becomes: loops that compute elementwise values, folds, and calls, in order, and where each value lives.

Elementwise nodes of one shape share a loop where their operands allow it; a value that only its own loop reads has no
memory. A fold computes the cheap elementwise values that only it reads. Everything else is stored: in a result, or in
the arena. No value is computed in another order or rounded elsewhere than the definition says.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchlean.backends.compiled.expressions import DEAR, EXPRESSIONS
from torchlean.backends.compiled.served import FOLDS, STRICT, VIEWS
from torchlean.backends.compiled.views import View, same_strides, viewed, whole
from torchlean.backends.handler import Group
from torchlean.backends.strides import contiguous
from torchlean.ir.graph import Node
from torchlean.ir.op import Op
from torchlean.ir.ops.create import FULL, IOTA
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT
from torchlean.ir.types import Shape, TensorType

PRODUCTS: frozenset[Op] = frozenset({DOT_GENERAL, CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT})
MOST_NODES = 64  # of one loop
NEAR = 64  # parts that are looked back over for a loop to join
MOST_INLINED = 16  # elementwise nodes computed inside a fold
SMALL = 4096  # entries below which loops over one shape are joined though they share no operand


class Loop:
    """Elementwise nodes computed together over one shape, in order; `stores` are those with memory."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nodes: list[Node] = []
        self.computes: set[int] = set()
        self.reads: set[int] = set()


class Fold:
    """One reduction, with the elementwise nodes it computes itself."""

    def __init__(self, node: Node, inlined: list[Node]) -> None:
        self.node = node
        self.inlined = inlined
        self.computes = {each.outputs[0] for each in inlined}


class Call:
    """Any other node: a function of stored operands, which are where `views` say."""

    def __init__(self, node: Node, views: list[View]) -> None:
        self.node = node
        self.views = views


class Copy:
    """A view stored row-major under another id: a result, or a reshape that strides do not allow."""

    def __init__(self, source: View, target: int) -> None:
        self.source = source
        self.target = target


Part = Loop | Fold | Call | Copy


class Schedule:
    """The parts of a group. `views[v]` says where value `v` is; `stored` which values have memory of their own."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.types: dict[int, TensorType] = {}
        self.views: dict[int, View] = {}
        self.nodes: dict[int, Node] = {}  # by the value they make; constants and counters too
        self.parts: list[Part] = []
        self.made_at: dict[int, int] = {}  # root → part
        self.inlined: dict[int, int] = {}  # value → the fold's result
        self.within: dict[int, list[int]] = {}  # the fold's result → values it computes
        self.uses: dict[int, int] = {}
        self.stored: set[int] = set()
        self.place: dict[int, int] = {}  # value → where its node is in the group
        self.placed: dict[int, int] = {}  # root → result position
        self._build()

    # -- building --------------------------------------------------------------------------------------------------
    def _build(self) -> None:
        group = self.group
        for id in group.inputs:
            self._value(id)
            self.views[id] = whole(id, self.types[id].shape)
            self.made_at[id] = -1
        for position, node in enumerate(group.nodes):
            for id in set(node.inputs):
                self.uses[id] = self.uses.get(id, 0) + 1
            for id in node.outputs:
                self._value(id)
                self.nodes[id] = node
                self.place[id] = position
        for id in group.outputs:
            self.uses[id] = self.uses.get(id, 0) + 1
        for node in group.nodes:
            if node.op in FOLDS:
                self._inline(node)
        for node in group.nodes:
            self._place(node)
        self._results()
        self._find_stored()
        self.parts = [part for part in self.parts if not isinstance(part, Loop) or part.nodes]

    def _value(self, id: int) -> None:
        self.types[id] = self.group.types[id]

    def is_elementwise(self, id: int) -> bool:
        node = self.nodes.get(id)
        return node is not None and node.op in EXPRESSIONS

    def is_made_up(self, id: int) -> bool:
        """Whether a value needs no memory at all: a constant or a counter."""
        node = self.nodes.get(id)
        return node is not None and (node.op is FULL or node.op is IOTA)

    def _inline(self, node: Node) -> None:
        """Let a fold compute what only it reads, if that is cheap or the fold runs along stored rows."""
        (source,) = node.inputs
        shape = self.types[source].shape
        along_rows = bool(shape) and (len(shape) - 1) in node.params.axes
        chosen: list[int] = []
        pending = [source]
        while pending and len(chosen) < MOST_INLINED:
            id = pending.pop()
            if not self.is_elementwise(id) or self.uses[id] > 1 or id in chosen:
                continue
            made = self.nodes[id]
            if along_rows and made.op in DEAR:
                continue
            if made.op in STRICT:
                continue
            chosen.append(id)
            pending += made.inputs
        for id in chosen:
            self.inlined[id] = node.outputs[0]
        self.within[node.outputs[0]] = chosen

    def _place(self, node: Node) -> None:
        out = node.outputs[0]
        shape = self.types[out].shape
        if node.op in VIEWS:
            given = self.views[node.inputs[0]]
            made = viewed(node, given)
            if made is None:
                self._append(Copy(given, out), node)
            else:
                self.views[out] = made
            return
        for id in node.outputs:
            self.views[id] = whole(id, self.types[id].shape)
        if node.op is FULL or node.op is IOTA:
            self.made_at[out] = -1
        elif node.op in FOLDS:
            inlined = sorted(self.within[out], key=self.place.__getitem__)
            self._append(Fold(node, [self.nodes[id] for id in inlined]), node)
        elif node.op not in EXPRESSIONS:
            self._append(Call(node, [self._in_memory(self.views[id], node) for id in node.inputs]), node)
        elif out not in self.inlined:
            self._place_elementwise(node, shape)

    def _append(self, part: Part, node: Node) -> None:
        for id in node.outputs:
            self.views[id] = whole(id, self.types[id].shape)
            self.made_at[id] = len(self.parts)
        self.parts.append(part)

    def _in_memory(self, view: View, reader: Node) -> View:
        """An operand of a call; a counter, or a constant the call cannot take as a literal, is stored first."""
        maker = self.nodes.get(view.root)
        if maker is None or not self.is_made_up(view.root) or (maker.op is FULL and reader.op not in PRODUCTS):
            return view
        fresh = self._fresh(TensorType(view.shape, self.types[view.root].dtype))
        self.views[fresh] = whole(fresh, view.shape)
        self.made_at[fresh] = len(self.parts)
        self.parts.append(Copy(view, fresh))
        return self.views[fresh]

    def _fresh(self, type: TensorType) -> int:
        """An id that no node has."""
        id = -1 - len(self.types)
        self.types[id] = type
        return id

    def _place_elementwise(self, node: Node, shape: Shape) -> None:
        """Join the loop that computes an operand, else one that reads an operand, else begin a loop."""
        out = node.outputs[0]
        wanted = tuple([size for size in shape if size != 1])
        earliest, produced, roots = 0, -1, set[int]()
        for id in node.inputs:
            view = self.views[id]
            roots.add(view.root)
            at = self.made_at[view.root]
            if at < 0:
                continue
            part = self.parts[at]
            if isinstance(part, Loop) and part.shape == wanted and self._is_same(view, wanted):
                earliest, produced = max(earliest, at), max(produced, at)
            else:
                earliest = max(earliest, at + 1)
        chosen = None
        for at in range(len(self.parts) - 1, max(earliest, len(self.parts) - NEAR) - 1, -1):
            part = self.parts[at]
            if isinstance(part, Loop) and part.shape == wanted and len(part.nodes) < MOST_NODES:
                near = at == produced or not roots.isdisjoint(part.reads | part.computes)
                if near or self.types[out].size <= SMALL:
                    chosen = at
                    if at == produced:
                        break
        if chosen is None:
            chosen = len(self.parts)
            self.parts.append(Loop(wanted))
        loop = self.parts[chosen]
        assert isinstance(loop, Loop)
        loop.nodes.append(node)
        loop.computes.add(out)
        loop.reads |= roots
        self.made_at[out] = chosen

    def _is_same(self, view: View, wanted: Shape) -> bool:
        """Whether a view is the value itself, entry for entry, but for axes of one entry."""
        sizes, steps = view.squeezed()
        return view.offset == 0 and sizes == wanted and same_strides(sizes, steps, contiguous(sizes))

    def is_local(self, part: Loop | Fold, view: View) -> bool:
        """Whether a part computes an operand itself, so that it is a name and no memory."""
        if view.root not in part.computes:
            return False
        return isinstance(part, Fold) or self._is_same(view, part.shape)

    # -- memory ----------------------------------------------------------------------------------------------------
    def _results(self) -> None:
        """Give each result memory: its own root's, or a copy of the view it is."""
        for position, id in enumerate(self.group.outputs):
            view = self.views[id]
            size = self.types[view.root].size
            is_own = (
                self.made_at.get(view.root, -1) >= 0 and view.root not in self.inlined and view.root not in self.placed
            )
            if is_own and view.is_whole and size == self.types[id].size:
                self.placed[view.root] = position
                continue
            fresh = self._fresh(self.types[id])
            self.made_at[fresh] = len(self.parts)
            self.placed[fresh] = position
            self.parts.append(Copy(view, fresh))

    def _find_stored(self) -> None:
        for at, part in enumerate(self.parts):
            for root in self.roots_read(part):
                if self.made_at[root] >= 0 and not (isinstance(part, Loop) and self.made_at[root] == at):
                    self.stored.add(root)
            for id in self.made_by(part):
                if not isinstance(part, Loop):
                    self.stored.add(id)
        self.stored |= set(self.placed)

    def in_memory(self) -> frozenset[int]:
        """The roots that have memory: what is given, and what is stored."""
        return frozenset([*self.group.inputs, *self.stored])

    def made_by(self, part: Part) -> tuple[int, ...]:
        if isinstance(part, Loop):
            return tuple([node.outputs[0] for node in part.nodes])
        return (part.target,) if isinstance(part, Copy) else part.node.outputs

    def roots_read(self, part: Part) -> Iterator[int]:
        """The stored values a part reads."""
        if isinstance(part, Copy):
            if not self.is_made_up(part.source.root):
                yield part.source.root
            return
        if isinstance(part, Call):
            yield from [view.root for view in part.views if not self.is_made_up(view.root)]
            return
        nodes = part.nodes if isinstance(part, Loop) else [part.node]
        if isinstance(part, Fold):
            nodes = [*part.inlined, part.node]
        for node in nodes:
            for id in node.inputs:
                view = self.views[id] if id in self.views else whole(id, self.types[id].shape)
                if self.is_made_up(view.root):
                    continue
                if not self.is_local(part, view):
                    yield view.root
