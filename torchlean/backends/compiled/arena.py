"""Where stored values that are no results live: offsets in one block, reused after their last reader.

A large one whose last reader comes before the part that writes a result lies in that result's memory. So a gradient
program holds little beside its results: activations go one by one, each before a weight's gradient is written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from torchlean.backends.compiled.schedule import Schedule
from torchlean.backends.compiled.stitch import Stitched

ALIGNMENT = 64  # bytes: of a vector register and of a cache line
LENT = 4096  # bytes from which on a value may lie in a result's memory
MOST_TRIED = 64  # results that are looked at for one value


class Arena:
    """Offsets of the arena's values. One workspace, which each call and each run may overwrite, lies behind them; where
    threads share out a run, each has a workspace of its own.
    """

    def __init__(self, schedule: Schedule, runs: Sequence[Stitched]) -> None:
        self.offsets: dict[int, int] = {}
        self.lent: dict[int, tuple[_Lender, int]] = {}  # the result a value lies in, and where there
        self.local: dict[int, int] = {}  # offsets in the workspace of a run
        self.scratch: dict[int, int] = {}  # bytes of workspace, by the start of a run
        self._workspace = 0
        self._space = _Space()
        last = _last(schedule)
        ending = {at: run.end - 1 for run in runs for at in range(run.start, run.end)}  # all rows, before any is free
        ends: dict[int, list[int]] = {}
        for root, at in last.items():
            ends.setdefault(ending.get(at, at), []).append(root)
        shared = {root for run in runs for root in run.local}
        starting = {at: run.start for run in runs for at in range(run.start, run.end)}
        lenders = _lenders(schedule, starting)
        for at, part in enumerate(schedule.parts):
            for id in schedule.made_by(part):
                if id in schedule.stored and id not in schedule.placed and id not in shared:
                    self._keep(id, schedule.types[id].nbytes, ending.get(last[id], last[id]), lenders)
            for root in ends.get(at, ()):
                if root in self.offsets:
                    self._space.free([self.offsets[root]])
                elif root in self.lent:
                    lender, offset = self.lent[root]
                    lender.space.free([offset])
        for run in runs:
            self._place(schedule, run, last)

    def _keep(self, id: int, nbytes: int, until: int, lenders: Sequence[_Lender]) -> None:
        """Give a value that is read up to part `until` a place."""
        if nbytes >= LENT:
            first = bisect_right(lenders, until, key=lambda lender: lender.written)
            for lender in lenders[first : first + MOST_TRIED]:
                offset = lender.space.take(nbytes, lender.nbytes)
                if offset is not None:
                    self.lent[id] = (lender, offset)
                    return
        offset = self._space.take(nbytes)
        assert offset is not None
        self.offsets[id] = offset

    def _place(self, schedule: Schedule, run: Stitched, last: dict[int, int]) -> None:
        """What only a run reads, for one block of its rows."""
        space = _Space()
        for at in range(run.start, run.end):
            for id in schedule.made_by(schedule.parts[at]):
                if id in run.local:
                    offset = space.take(schedule.types[id].nbytes * run.block // run.rows)
                    assert offset is not None
                    self.local[id] = offset
            space.free([self.local[id] for id in run.local if last.get(id) == at and id in self.local])
        self.scratch[run.start] = space.end
        self.workspace(space.end)

    @property
    def size(self) -> int:
        return self._space.end + self._workspace

    def address(self, root: int) -> str:
        if root in self.local:
            return f"(scratch + {self.local[root]})"
        if root in self.lent:
            lender, offset = self.lent[root]
            return f"(out[{lender.position}] + {offset})"
        return f"(arena + {self.offsets[root]})"

    def workspace(self, nbytes: int) -> str:
        """The address of a workspace of so many bytes."""
        self._workspace = max(self._workspace, padded(nbytes))
        return f"(arena + {self._space.end})"


class _Space:
    """Places in memory that does not exist yet: each the first gap that is large enough, else the end."""

    def __init__(self) -> None:
        self.end = 0
        self._taken: dict[int, int] = {}  # offset → bytes
        self._gaps: list[tuple[int, int]] = []  # (offset, end), in order, none beside another

    def take(self, nbytes: int, most: int | None = None) -> int | None:
        """The offset of a place; None where it would end behind `most`."""
        wanted = padded(max(1, nbytes))
        for position, (offset, end) in enumerate(self._gaps):
            if end - offset >= wanted:
                self._gaps[position : position + 1] = [(offset + wanted, end)] if end - offset > wanted else []
                break
        else:
            is_last = bool(self._gaps) and self._gaps[-1][1] == self.end
            offset = self._gaps[-1][0] if is_last else self.end
            if most is not None and offset + nbytes > most:
                return None
            if is_last:
                self._gaps.pop()
            self.end = offset + wanted
        self._taken[offset] = wanted
        return offset

    def free(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            start, end = offset, offset + self._taken.pop(offset)
            at = bisect_left(self._gaps, (start, end))
            after = at
            if after < len(self._gaps) and self._gaps[after][0] == end:
                end = self._gaps[after][1]
                after += 1
            if at and self._gaps[at - 1][1] == start:
                at -= 1
                start = self._gaps[at][0]
            self._gaps[at:after] = [(start, end)]


class _Lender:
    """The memory of a result of `nbytes` until the part that writes it."""

    def __init__(self, position: int, nbytes: int, written: int) -> None:
        self.position, self.nbytes, self.written = position, nbytes, written
        self.space = _Space()


def _lenders(schedule: Schedule, starting: Mapping[int, int]) -> list[_Lender]:
    """The results, in the order in which they are written; all that a run writes, when it starts."""
    made = [
        _Lender(schedule.placed[id], schedule.types[id].nbytes, starting.get(at, at))
        for at, part in enumerate(schedule.parts)
        for id in schedule.made_by(part)
        if id in schedule.placed and schedule.types[id].nbytes >= LENT
    ]
    return sorted(made, key=lambda lender: lender.written)


def padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _last(schedule: Schedule) -> dict[int, int]:
    """Which part reads a stored value for the last time, or makes it."""
    last: dict[int, int] = {}
    for at, part in enumerate(schedule.parts):
        for id in (*schedule.made_by(part), *schedule.roots_read(part)):
            last[id] = at
    return last
