"""A layered drawing of a graph, as numbers: rows by longest path, orders by barycentres, positions by least squares.

Operands are above their users. An edge that would pass many rows is left out and becomes a reference, a short label
at its user; how far edges may reach is chosen so that the work stays linear in the size of the graph. Everything is
deterministic: ties go by position, and coordinates are integers.

The three steps are those of Sugiyama, Tagawa and Toda (1981). Positions within a row minimise the weighted squared
distances to the neighbours' mean under the row's separations, which is isotonic regression (pool adjacent violators).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchlean.record import record

GAP_X, GAP_Y, MARGIN = 22, 46, 28
WIDEST_ROW = 2600  # pixels; a row that is wider continues in the next
_FARTHEST = 8  # rows an edge may pass
_PASSED_PER_BOX = 2
_MOST_PASSING = 40  # edges that pass one row
_SWEEPS = 12
_PLACEMENTS = 24
_STRAIGHT = 8.0  # how much more a bend in the middle of an edge counts than one at a box
_LOOSE = 0.05  # how much less an edge counts that comes from an input or a constant with no other user
_HOME = 0.02  # pull to the middle of the drawing, so that long graphs do not drift sideways
_BEND_WIDTH, _BEND_GAP = 6, 12  # pixels kept clear around an edge that passes a row


@record
class Route:
    """An edge. `via` are the (x, top, bottom) it passes rows at; `is_reference`: it is not drawn but named."""

    source: int
    target: int
    start: tuple[int, int]
    via: tuple[tuple[int, int, int], ...]
    end: tuple[int, int]
    is_reference: bool


@record
class Layout:
    """Left upper corners of the boxes, the boxes of each row from left to right, and a route per edge as given."""

    width: int
    height: int
    x: tuple[int, ...]
    y: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    routes: tuple[Route, ...]


Edges = Sequence[tuple[int, int]]


def layout(widths: Sequence[int], height: int, edges: Edges) -> Layout:
    """Place boxes of these even widths and one height. Every edge goes from a smaller box number to a larger one."""
    rows_of, loose = _rows(widths, edges)
    drawn = _drawn(rows_of, edges)
    net = _Net(widths, rows_of, loose, [edge for edge, is_drawn in zip(edges, drawn, strict=True) if is_drawn])
    _order(net)
    centres = _positions(net)
    tops = [MARGIN + row * (height + GAP_Y) for row in range(len(net.rows))]
    routes = _routes(net, centres, tops, height, edges, drawn)
    count = len(widths)
    lefts = tuple([centres[box] - widths[box] // 2 for box in range(count)])
    right = max([centres[item] + net.widths[item] // 2 for item in range(len(centres))], default=0)
    return Layout(
        width=right + MARGIN,
        height=(tops[-1] + height if tops else MARGIN) + MARGIN,
        x=lefts,
        y=tuple([tops[rows_of[box]] for box in range(count)]),
        rows=tuple([tuple([item for item in row if item < count]) for row in net.rows]),
        routes=routes,
    )


# -- rows --------------------------------------------------------------------------------------------------------------
def _rows(widths: Sequence[int], edges: Edges) -> tuple[list[int], list[bool]]:
    """A row for each box, below those of its operands: the longest path, then downwards where that shortens edges.

    And which boxes follow their one user: nothing else holds them in their place.
    """
    count = len(widths)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    row = [0] * count
    follows = [False] * count
    for box in range(count):
        row[box] = max([row[source] + 1 for source in above[box]], default=0)
        follows[box] = len(below[box]) == 1 and all([follows[source] for source in above[box]])
    for box in reversed(range(count)):
        if below[box]:
            held = len([source for source in above[box] if not follows[source]])
            if held <= len(below[box]):
                row[box] = min([row[target] for target in below[box]]) - 1
    return _narrowed(widths, row, above), follows


def _narrowed(widths: Sequence[int], row: list[int], above: list[list[int]]) -> list[int]:
    """The rows with boxes moved down out of rows that are too wide, and no empty row."""
    used: dict[int, int] = {}
    following: dict[int, int] = {}  # a full row → one to try instead

    def free(at: int) -> int:
        passed: list[int] = []
        while at in following:
            passed.append(at)
            at = following[at]
        for full in passed:
            following[full] = at
        return at

    for box in sorted(range(len(row)), key=lambda box: (row[box], box)):
        at = free(max([row[box], *[row[source] + 1 for source in above[box]]]))
        row[box] = at
        used[at] = used.get(at, 0) + widths[box] + GAP_X
        if used[at] >= WIDEST_ROW:
            following[at] = at + 1
    dense = {at: position for position, at in enumerate(sorted(used))}
    return [dense[at] for at in row]


def _drawn(row: list[int], edges: Edges) -> list[bool]:
    """Which edges are drawn: the short ones, while they pass few rows in all and few pass any one row."""
    budget = _PASSED_PER_BOX * len(row) + 40
    passed: set[tuple[int, int]] = set()  # (source, row): the edges of a source share their way
    crowd: Counter[int] = Counter()
    drawn = [False] * len(edges)
    for number in sorted(range(len(edges)), key=lambda number: row[edges[number][1]] - row[edges[number][0]]):
        source, target = edges[number]
        if row[target] - row[source] > _FARTHEST:
            break
        added = {(source, at) for at in range(row[source] + 1, row[target])} - passed
        if len(passed) + len(added) > budget or any([crowd[at] >= _MOST_PASSING for _, at in added]):
            continue
        drawn[number] = True
        passed |= added
        crowd.update([at for _, at in added])
    return drawn


# -- orders ------------------------------------------------------------------------------------------------------------
class _Net:
    """Boxes, and bends where edges pass rows: one per source and row, shared by the edges of that source."""

    def __init__(self, widths: Sequence[int], row: list[int], loose: list[bool], edges: Edges) -> None:
        count = len(widths)
        self.loose = loose
        self.widths = list(widths)
        self.boxes = count
        self.row = list(row)
        self.bend: dict[tuple[int, int], int] = {}
        self.up: list[list[int]] = [[] for _ in range(count)]
        self.down: list[list[int]] = [[] for _ in range(count)]
        for source, target in edges:
            self._join(self._passage(source, target), target)
        self.rows: list[list[int]] = [[] for _ in range(max(row, default=-1) + 1)]
        for item, at in enumerate(self.row):
            self.rows[at].append(item)

    def _passage(self, source: int, target: int) -> int:
        """The item just above `target` on the way from `source`; bends are added as needed."""
        last = source
        for at in range(self.row[source] + 1, self.row[target]):
            item = self.bend.get((source, at))
            if item is None:
                item = self.bend[source, at] = len(self.row)
                self.row.append(at)
                self.widths.append(_BEND_WIDTH)
                self.up.append([])
                self.down.append([])
                self._join(last, item)
            last = item
        return last

    def _join(self, upper: int, lower: int) -> None:
        self.down[upper].append(lower)
        self.up[lower].append(upper)

    def weight(self, one: int, other: int) -> float:
        """How much an edge between two items, in either order, wants to be vertical."""
        if one >= self.boxes and other >= self.boxes:
            return _STRAIGHT
        return _LOOSE if min(one, other) < self.boxes and self.loose[min(one, other)] else 1.0


def _order(net: _Net) -> None:
    """Sort each row by the mean position of its neighbours, downwards and upwards in turn; keep the best seen."""
    sweeps = _SWEEPS if len(net.row) <= 4000 else _SWEEPS // 2
    position = [0.0] * len(net.row)
    for row in net.rows:
        _number(row, position)
    best, fewest = [list(row) for row in net.rows], _crossings(net)
    for sweep in range(sweeps):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        neighbours = net.up if downwards else net.down
        for row in net.rows if downwards else reversed(net.rows):
            wanted = {item: _mean([position[other] for other in neighbours[item]], position[item]) for item in row}
            row.sort(key=lambda item: (wanted[item], position[item], item))
            _number(row, position)
        found = _crossings(net)
        if found < fewest:
            best, fewest = [list(row) for row in net.rows], found
    net.rows = best


def _number(row: list[int], position: list[float]) -> None:
    """Positions from 0 to 1, so that rows of different lengths compare."""
    for at, item in enumerate(row):
        position[item] = (at + 0.5) / len(row)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(net: _Net) -> int:
    """How many pairs of edges between adjacent rows cross, counted by inversions with a Fenwick tree."""
    total = 0
    at = [0] * len(net.row)
    for row in net.rows:
        for position, item in enumerate(row):
            at[item] = position
    for row, lower in zip(net.rows, net.rows[1:], strict=False):
        tree = [0] * (len(lower) + 1)
        seen = 0
        for item in row:
            ends = sorted([at[other] for other in net.down[item]])
            for end in ends:
                index, not_right = end + 1, 0
                while index:
                    not_right += tree[index]
                    index &= index - 1
                total += seen - not_right
            for end in ends:
                index = end + 1
                while index <= len(lower):
                    tree[index] += 1
                    index += index & -index
            seen += len(ends)
    return total


# -- positions ---------------------------------------------------------------------------------------------------------
def _positions(net: _Net) -> list[int]:
    """The centre of every item."""
    centre = [0.0] * len(net.row)
    offsets: list[list[int]] = []
    for row in net.rows:
        ends: list[int] = []
        for position, item in enumerate(row):
            before = row[position - 1] if position else item
            clear = GAP_X if max(before, item) < net.boxes else _BEND_GAP
            ends.append(ends[-1] + (net.widths[before] + net.widths[item]) // 2 + clear if position else 0)
        for item, end in zip(row, ends, strict=True):
            centre[item] = end - ends[-1] / 2  # rows begin centred on 0
        offsets.append(ends)
    for sweep in range(_PLACEMENTS):
        downwards = sweep % 2 == 0
        both = sweep >= _PLACEMENTS - 2
        order = range(len(net.rows)) if downwards else reversed(range(len(net.rows)))
        for number in order:
            row = net.rows[number]
            if not row:
                continue
            wanted: list[float] = []
            weights: list[float] = []
            for item in row:
                near = net.up[item] + net.down[item] if both else net.up[item] if downwards else net.down[item]
                pulls = [net.weight(item, other) for other in near]
                pull = sum(pulls)
                home = pull * _HOME if item < net.boxes else 0.0
                moment = sum([weight * centre[other] for weight, other in zip(pulls, near, strict=True)])
                wanted.append(moment / (pull + home) if pull else centre[item] * (1 - _HOME))
                weights.append(pull + home if pull else _LOOSE)
            for item, at in zip(row, _separated(wanted, weights, offsets[number]), strict=True):
                centre[item] = at
    shift = MARGIN - min([round(at) - net.widths[item] // 2 for item, at in enumerate(centre)], default=0)
    return [round(at) + shift for at in centre]


def _separated(wanted: list[float], weights: list[float], offsets: list[int]) -> list[float]:
    """Positions nearest to those wanted whose differences are at least those of `offsets`: isotonic regression."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, count
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] >= mean:
            before, before_weight, before_count = blocks.pop()
            mean = (before * before_weight + mean * total) / (before_weight + total)
            total += before_weight
            count += before_count
        blocks.append((mean, total, count))
    made: list[float] = []
    for mean, _, count in blocks:
        rounded = float(round(mean))  # whole numbers, so that equal separations stay equal
        made += [rounded + offset for offset in offsets[len(made) : len(made) + count]]
    return made


# -- routes ------------------------------------------------------------------------------------------------------------
def _routes(
    net: _Net, centres: list[int], tops: list[int], height: int, edges: Edges, drawn: list[bool]
) -> tuple[Route, ...]:
    """Edges leave a box at the middle of its lower side and enter along the upper one, by where they come from."""
    arriving: dict[int, list[tuple[int, int, int]]] = {}  # target → (reference?, x it comes from, edge)
    for number, ((source, target), is_drawn) in enumerate(zip(edges, drawn, strict=True)):
        before = net.bend.get((source, net.row[target] - 1), source)
        arriving.setdefault(target, []).append((0 if is_drawn else 1, centres[before] if is_drawn else 0, number))
    ends: dict[int, int] = {}
    for target, found in arriving.items():
        found.sort()
        usable = net.widths[target] - 20
        for position, (_, _, number) in enumerate(found):
            shift = (2 * position + 1 - len(found)) * usable // (2 * len(found))
            ends[number] = centres[target] + shift
    made: list[Route] = []
    for number, ((source, target), is_drawn) in enumerate(zip(edges, drawn, strict=True)):
        via: list[tuple[int, int, int]] = []
        if is_drawn:
            for at in range(net.row[source] + 1, net.row[target]):
                via.append((centres[net.bend[source, at]], tops[at], tops[at] + height))
        made.append(
            Route(
                source=source,
                target=target,
                start=(centres[source], tops[net.row[source]] + height),
                via=tuple(via),
                end=(ends[number], tops[net.row[target]]),
                is_reference=not is_drawn,
            )
        )
    return tuple(made)
