"""Neighbouring parts that go over the same rows run together, a few rows at a time, so that what passes between them is
still in the cache. What only they read needs memory for these rows only.

A softmax is five parts; stitched, its operand is read once from memory and its result written once. No fold changes:
it lies within one row.

A large part that runs alone has its rows too, so that threads can share them out: of a fold that keeps a later axis,
the entries of that axis.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchlean.backends.compiled.schedule import Fold, Loop, Part, Schedule
from torchlean.backends.compiled.views import View
from torchlean.ir.ops.create import IOTA
from torchlean.record import record

SHARED = 1 << 20  # bytes touched from which on threads share the rows out
GRAIN = 1 << 14  # bytes of the rows that stay together on one thread
LARGE = 1 << 18  # bytes passed on, below which they stay in the cache anyway
BLOCK_BYTES = 1 << 17  # of all rows a block touches
MULTIPLE = 16  # rows of a block: folds take so many at once
WIDE = 64  # of short rows
FEW = 8  # blocks, below which rows are shared out one by one


@record(eq=False)
class Stitched:
    """Parts [start, end) over `rows` rows, `block` at a time. `local`: the roots that have memory for one block.

    `axis`: of a part's own, those of one entry apart, which has the rows; `shared`: whether threads share them out.
    """

    start: int
    end: int
    rows: int
    block: int
    local: frozenset[int]
    axis: int
    shared: bool


def stitched(schedule: Schedule) -> list[Stitched]:
    """The runs of parts to stitch, in order."""
    found: list[Stitched] = []
    last = {root: at for at, part in enumerate(schedule.parts) for root in schedule.roots_read(part)}
    start = 0
    while start < len(schedule.parts):
        run = _Run(schedule, start)
        made = run.made(last) if run.end > start + 1 else None
        end = max(run.end, start + 1)
        found += [made] if made is not None else [each for at in range(start, end) for each in _alone(schedule, at)]
        start = end
    return found


class _Run:
    """The longest run from a part on."""

    def __init__(self, schedule: Schedule, start: int) -> None:
        self.schedule, self.start, self.end = schedule, start, start
        self.inside: set[int] = set()
        self.rows = _rows(schedule, schedule.parts[start])
        while self.end < len(schedule.parts) and self._fits(schedule.parts[self.end]):
            self.inside |= set(schedule.made_by(schedule.parts[self.end]))
            self.end += 1

    def _fits(self, part: Part) -> bool:
        if self.rows is None or _rows(self.schedule, part) != self.rows:
            return False
        steps: dict[int, int] = {}
        for view in views_read(self.schedule, part):
            maker = self.schedule.nodes.get(view.root)
            if maker is not None and maker.op is IOTA:
                return False
            step = view.squeezed()[1][0]
            if steps.setdefault(view.root, step) != step:
                return False
            if view.root in self.inside and not self._in_row(view, step):
                return False
        return True

    def _in_row(self, view: View, step: int) -> bool:
        """Whether each row of a view lies in the same row of its root."""
        assert self.rows is not None
        pitch = self.schedule.types[view.root].size // self.rows
        sizes, strides = view.squeezed()
        reach = sum([(size - 1) * by for size, by in zip(sizes[1:], strides[1:], strict=True)])
        return step == pitch and min(strides) >= 0 and view.offset + reach < pitch

    def made(self, last: dict[int, int]) -> Stitched | None:
        """The run, if it is worth it; `last` says which part reads a root last."""
        schedule, rows = self.schedule, self.rows
        assert rows is not None
        types = schedule.types
        stored = [root for root in self.inside if root in schedule.stored]
        local = frozenset([root for root in stored if last.get(root, -1) < self.end and root not in schedule.placed])
        passed = sum([types[root].nbytes for root in stored])
        touched = {root for part in schedule.parts[self.start : self.end] for root in schedule.roots_read(part)}
        touched |= set(stored)
        row = row_bytes(schedule, touched, rows)
        block = max(1, BLOCK_BYTES // max(1, row) // MULTIPLE) * MULTIPLE
        if passed < LARGE or 2 * block > rows:
            return None
        return Stitched(self.start, self.end, rows, block, local, 0, row * rows >= SHARED)


def row_bytes(schedule: Schedule, roots: Iterable[int], rows: int) -> int:
    """Bytes of one row of everything that has rows."""
    types = schedule.types
    return sum([types[root].nbytes // rows for root in roots if types[root].size >= rows])


def _alone(schedule: Schedule, at: int) -> list[Stitched]:
    """A part by itself, if it is large and has rows."""
    part = schedule.parts[at]
    axis = _axis(schedule, part)
    if axis is None or not isinstance(part, Loop | Fold):
        return []
    shape = part.shape if isinstance(part, Loop) else schedule.types[part.node.inputs[0]].shape
    rows = tuple([size for size in shape if size != 1])[axis]
    steps: dict[int, int] = {}
    for view in views_read(schedule, part):
        maker = schedule.nodes.get(view.root)
        step = view.squeezed()[1][axis]
        if (maker is not None and maker.op is IOTA) or steps.setdefault(view.root, step) != step:
            return []
    stored = [id for id in schedule.made_by(part) if id in schedule.stored]
    row = row_bytes(schedule, {*schedule.roots_read(part), *stored}, rows)
    if axis or row * WIDE < GRAIN:
        block = max(1, GRAIN // max(1, row) // WIDE) * WIDE
    else:
        block = MULTIPLE if rows >= FEW * MULTIPLE else 1
    if row * rows < SHARED or 2 * block > rows:
        return []
    return [Stitched(at, at + 1, rows, block, frozenset(), axis, True)]


def _axis(schedule: Schedule, part: Part) -> int | None:
    """The first axis that a part keeps, those of one entry apart."""
    if isinstance(part, Loop):
        return 0 if part.shape and 0 not in part.shape else None
    if not isinstance(part, Fold):
        return None
    shape = schedule.types[part.node.inputs[0]].shape
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    kept = [place for place, axis in enumerate(axes) if axis not in part.node.params.axes]
    return kept[0] if kept and 0 not in shape else None


def _rows(schedule: Schedule, part: Part) -> int | None:
    """How many rows a part goes over one by one, or None."""
    if isinstance(part, Loop):
        return part.shape[0] if part.shape and 0 not in part.shape else None
    if not isinstance(part, Fold):
        return None
    shape = schedule.types[part.node.inputs[0]].shape
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    kept = [axis for axis in axes if axis not in part.node.params.axes]
    folded = [axis for axis in axes if axis in part.node.params.axes]
    if not kept or not folded or max(kept) > min(folded) or 0 in shape:
        return None
    return shape[kept[0]]


def views_read(schedule: Schedule, part: Part) -> list[View]:
    """The places in memory a loop or fold reads, over its own shape."""
    assert isinstance(part, Loop | Fold)
    nodes = part.nodes if isinstance(part, Loop) else [*part.inlined, part.node]
    found: list[View] = []
    for node in nodes:
        for id in node.inputs:
            view = schedule.views[id]
            maker = schedule.nodes.get(view.root)
            if schedule.is_local(part, view) or (
                maker is not None and schedule.is_made_up(view.root) and maker.op is not IOTA
            ):
                continue
            found.append(view)
    return found
