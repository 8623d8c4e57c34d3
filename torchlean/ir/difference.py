"""What changed from one graph to another, by structure and not by ids. Users reach it as `debug.diff`.

Nodes are matched in three steps. (1) By structure: op, params and the structure of the operands, down to the inputs,
numbered so that equal structures have equal numbers. (2) What is left, in program order: equal op, params and operands
that are matched to one another; then equal op and operands (params or types changed); then equal op, params and types
(operands changed). (3) The rest was removed or added. Of the matched nodes, those outside the longest run that is
in one order on both sides have moved. Source lines are shown and not compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.ops.effect import Message
from torchlean.ir.printer import node_text


@dataclass(frozen=True, slots=True)
class Difference:
    """Nodes by position in their graph: `removed` of the first, `added` to the second, pairs that differ.

    `changed`: pairs and what differs; `moved` and `same`: pairs; `boundary`: lines on inputs and outputs. True if
    anything differs; prints one line per difference.
    """

    before: Graph
    after: Graph
    removed: tuple[int, ...]
    added: tuple[int, ...]
    changed: tuple[tuple[int, int, str], ...]
    moved: tuple[tuple[int, int], ...]
    same: tuple[tuple[int, int], ...]
    boundary: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.changed or self.moved or self.boundary)

    def __str__(self) -> str:
        counts = [
            f"{count} {name}"
            for name, count in (
                ("removed", len(self.removed)),
                ("added", len(self.added)),
                ("changed", len(self.changed)),
                ("moved", len(self.moved)),
                ("same", len(self.same)),
            )
            if count or name == "same"
        ]
        lines = [f"{self.before.name} → {self.after.name}: {', '.join(counts)}", *self.boundary]
        # In the order of the second graph; what was removed goes where it was, before what followed it.
        rows: list[tuple[float, int, list[str]]] = []
        for old, new, what in self.changed:
            mine, theirs = self._line("- ", self.before, old), self._line("+ ", self.after, new)
            rows.append((new, 1, [f"~ {what}", f"  {mine}", f"  {theirs}", *self._inside(old, new)]))
        for old, new in self.moved:
            after = f"from position {old} to {new}"
            rows.append((new, 1, [f"{self._line('> ', self.after, new)}  ({after})"]))
        rows += [(new, 1, [self._line("+ ", self.after, new)]) for new in self.added]
        follows = sorted([(old, new) for old, new, *_ in (*self.same, *self.moved, *self.changed)])
        olds = [old for old, _ in follows]
        for old in self.removed:
            at = bisect_left(olds, old)
            place = follows[at][1] if at < len(follows) else len(self.after.nodes)
            rows.append((place, 0, [self._line("- ", self.before, old)]))
        for _, _, texts in sorted(rows, key=lambda row: row[:2]):
            lines += texts
        return "\n".join(lines)

    __repr__ = __str__

    def _inside(self, old: int, new: int) -> list[str]:
        """What changed in the graphs that two matched nodes hold."""
        lines: list[str] = []
        held = zip(sub_graphs(self.before.nodes[old].params), sub_graphs(self.after.nodes[new].params), strict=False)
        for (field, mine), (_, theirs) in held:
            inner = diff(mine, theirs)
            if inner:
                lines += [
                    f"    {field}: {line}" if not at else f"    {line}"
                    for at, line in enumerate(str(inner).splitlines())
                ]
        return lines

    def _line(self, mark: str, graph: Graph, position: int) -> str:
        node = graph.nodes[position]
        return f"{mark}{node_text(graph, node)}  # {node.where}"


def diff(before: Graph, after: Graph) -> Difference:
    """What changed from `before` to `after`; the difference is false when the graphs compute by one structure."""
    numbers: dict[Any, int] = {}
    first, second = _Side(before, numbers), _Side(after, numbers)
    pairs = _by_structure(first, second)
    changes = _by_neighbours(first, second, pairs)
    matched = sorted([(new, old) for old, new in pairs.items() if new not in changes])
    kept = _longest_increasing([old for _, old in matched])
    same, moved = [], []
    for at, (new, old) in enumerate(matched):
        (same if at in kept else moved).append((old, new))
    taken = set(pairs.values())
    return Difference(
        before=before,
        after=after,
        removed=tuple([at for at in range(len(before.nodes)) if at not in pairs]),
        added=tuple([at for at in range(len(after.nodes)) if at not in taken]),
        changed=tuple(sorted([(old, new, changes[new]) for old, new in pairs.items() if new in changes], key=_second)),
        moved=tuple(moved),
        same=tuple(same),
        boundary=tuple(_boundary(first, second, pairs)),
    )


def _second(change: tuple[int, int, str]) -> int:
    return change[1]


class _Side:
    """A graph with, per node, the number of its structure, and, per value, what made it."""

    def __init__(self, graph: Graph, numbers: dict[Any, int]) -> None:
        self.graph = graph
        self.maker: dict[int, tuple[int, int]] = {}  # value id → (node, which result); (-1, position) for an input
        self.structures: list[int] = []
        self.params: list[int] = []
        for position, id in enumerate(graph.inputs):
            self.maker[id] = (-1, position)
        for at, node in enumerate(graph.nodes):
            self.params.append(number_of_params(node, numbers))
            operands: list[Any] = []
            for id in node.inputs:
                made, which = self.maker[id]
                operands.append((which, self.structures[made] if made >= 0 else graph.types[id]))
            key = (node.op.name, self.params[-1], tuple(operands), self.types(node))
            self.structures.append(numbers.setdefault(key, len(numbers)))
            for which, id in enumerate(node.outputs):
                self.maker[id] = (at, which)

    def types(self, node: Node) -> tuple[Any, ...]:
        return tuple([self.graph.types[id] for id in node.outputs])


def number_of_params(node: Node, numbers: dict[Any, int]) -> int:
    """Equal for params that mean the same; bodies count by structure: a custom rule's params have identity."""
    if isinstance(node.params, Message):
        said = node.params  # all but its line
        key = (node.op.name, said.text, said.treedef, said.fixed, said.levels, said.mapped)
        return numbers.setdefault(key, len(numbers))
    bodies = tuple([(field, number_of_graph(held, numbers)) for field, held in sub_graphs(node.params)])
    if not bodies:
        return numbers.setdefault((type(node.params).__name__, node.params), len(numbers))
    attributes = getattr(node.params, "attributes", ())
    return numbers.setdefault((type(node.params).__name__, attributes, bodies), len(numbers))


def number_of_graph(graph: Graph, numbers: dict[Any, int]) -> int:
    """The number of a whole graph's structure."""
    side = _Side(graph, numbers)
    makers = [side.maker[id] for id in graph.outputs]
    outputs = tuple([(side.structures[made] if made >= 0 else -1, which) for made, which in makers])
    key = (graph.input_types, tuple(side.structures), outputs)
    return numbers.setdefault(key, len(numbers))


# -- matching ----------------------------------------------------------------------------------------------------------
def _by_structure(first: _Side, second: _Side) -> dict[int, int]:
    """Node → node of equal structure, in order among equals."""
    waiting: defaultdict[int, deque[int]] = defaultdict(deque)
    for at, number in enumerate(first.structures):
        waiting[number].append(at)
    pairs: dict[int, int] = {}
    for at, number in enumerate(second.structures):
        if waiting[number]:
            pairs[waiting[number].popleft()] = at
    return pairs


def _by_neighbours(first: _Side, second: _Side, pairs: dict[int, int]) -> dict[int, str]:
    """Match what is left, in program order, adding to `pairs`; new node → what changed, where something did."""
    left = [at for at in range(len(first.graph.nodes)) if at not in pairs]
    back = {new: old for old, new in pairs.items()}
    tables: list[defaultdict[Any, list[int]]] = [defaultdict(list) for _ in range(3)]
    for at in reversed(left):  # so that `pop` gives the earliest
        for table, key in zip(tables, _keys(first, at, None), strict=True):
            table[key].append(at)
    changes: dict[int, str] = {}
    for new in range(len(second.graph.nodes)):
        if new in back:
            continue
        for table, key in zip(tables, _keys(second, new, back), strict=True):
            old = _earliest(table[key], pairs)
            if old is not None:
                pairs[old], back[new] = new, old
                what = _changes(first, old, second, new, back)
                if what:
                    changes[new] = what
                break
    return changes


def _earliest(waiting: list[int], pairs: dict[int, int]) -> int | None:
    while waiting:
        old = waiting.pop()
        if old not in pairs:
            return old
    return None


def _keys(side: _Side, at: int, back: dict[int, int] | None) -> tuple[Any, Any, Any]:
    """By what a node may be matched, the strictest first. Operands are named as in the first graph."""
    node = side.graph.nodes[at]
    operands = tuple([_named(side, id, back) for id in node.inputs])
    types = side.types(node)
    strict = (node.op.name, side.params[at], operands, types)
    return strict, (node.op.name, operands), (node.op.name, side.params[at], types)


def _named(side: _Side, id: int, back: dict[int, int] | None) -> Any:
    made, which = side.maker[id]
    if made < 0:
        return ("input", which)
    return (made if back is None else back.get(made, ("new", made)), which)


def _changes(first: _Side, old: int, second: _Side, new: int, back: dict[int, int]) -> str:
    """What differs between two matched nodes, in a word or two; "" when nothing does."""
    mine, theirs = first.graph.nodes[old], second.graph.nodes[new]
    found: list[str] = []
    if first.params[old] != second.params[new]:
        found.append("params")
    if first.types(mine) != second.types(theirs):
        found.append("types")
    if [_named(first, id, None) for id in mine.inputs] != [_named(second, id, back) for id in theirs.inputs]:
        found.append("operands")
    return " and ".join(found)


def _longest_increasing(numbers: list[int]) -> set[int]:
    """Positions of a longest increasing subsequence [Fredman 1975]."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        place = bisect_left(tails, number)
        before.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(number)
            ends.append(at)
        else:
            tails[place], ends[place] = number, at
    found: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found


def _boundary(first: _Side, second: _Side, pairs: dict[int, int]) -> list[str]:
    """Lines on inputs and outputs that differ."""
    lines: list[str] = []
    mine, theirs = first.graph, second.graph
    for position in range(max(len(mine.inputs), len(theirs.inputs))):
        old = str(mine.input_types[position]) if position < len(mine.inputs) else "none"
        new = str(theirs.input_types[position]) if position < len(theirs.inputs) else "none"
        if old != new:
            lines.append(f"~ input {position}: {old} → {new}")
    for position in range(max(len(mine.outputs), len(theirs.outputs))):
        old = _output(first, position, pairs)
        new = _output(second, position, None)
        if old != new:
            texts = [
                f"%{g.outputs[position]}: {g.types[g.outputs[position]]}" if position < len(g.outputs) else "none"
                for g in (mine, theirs)
            ]
            lines.append(f"~ output {position}: {texts[0]} → {texts[1]}")
    return lines


def _output(side: _Side, position: int, pairs: dict[int, int] | None) -> Any:
    if position >= len(side.graph.outputs):
        return None
    made, which = side.maker[side.graph.outputs[position]]
    if made < 0 or pairs is None:
        return (made, which)
    return (pairs.get(made, ("gone", made)), which)
