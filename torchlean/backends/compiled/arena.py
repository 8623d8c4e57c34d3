"""Where stored values that are no results live: offsets in one block, reused after their last reader."""

from __future__ import annotations

from collections.abc import Sequence

from torchlean.backends.compiled.schedule import Schedule
from torchlean.backends.compiled.stitch import Stitched

ALIGNMENT = 64  # bytes: of a vector register and of a cache line


class Arena:
    """Offsets of the arena's values. One workspace, which each call may overwrite, lies behind them."""

    def __init__(self, schedule: Schedule, runs: Sequence[Stitched]) -> None:
        self.offsets: dict[int, int] = {}
        self._end = 0
        self._workspace = 0
        self._busy: list[tuple[int, int]] = []  # (offset, end), in order
        ends = _ends(schedule)
        shares = {root: (run.block, run.rows) for run in runs for root in run.local}
        ending = {at: run.end - 1 for run in runs for at in range(run.start, run.end)}  # all rows, before any is free
        ends = _later(ends, ending)
        for at, part in enumerate(schedule.parts):
            for id in schedule.made_by(part):
                if id in schedule.stored and id not in schedule.placed:
                    block, rows = shares.get(id, (1, 1))
                    self.offsets[id] = self._take(schedule.types[id].nbytes * block // rows)
            freed = {self.offsets[root] for root in ends.get(at, ()) if root in self.offsets}
            self._busy = [each for each in self._busy if each[0] not in freed]

    @property
    def size(self) -> int:
        return self._end + self._workspace

    def _take(self, nbytes: int) -> int:
        """The first gap that is large enough."""
        wanted = padded(max(1, nbytes))
        start = 0
        for position, (offset, end) in enumerate(self._busy):
            if offset - start >= wanted:
                self._busy.insert(position, (start, start + wanted))
                break
            start = end
        else:
            self._busy.append((start, start + wanted))
        self._end = max(self._end, start + wanted)
        return start

    def address(self, root: int) -> str:
        return f"(arena + {self.offsets[root]})"

    def workspace(self, nbytes: int) -> str:
        """The address of a workspace of so many bytes."""
        self._workspace = max(self._workspace, padded(nbytes))
        return f"(arena + {self._end})"


def _later(ends: dict[int, list[int]], ending: dict[int, int]) -> dict[int, list[int]]:
    made: dict[int, list[int]] = {}
    for at, roots in ends.items():
        made.setdefault(ending.get(at, at), []).extend(roots)
    return made


def padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _ends(schedule: Schedule) -> dict[int, list[int]]:
    """The stored values read for the last time by each part."""
    last: dict[int, int] = {}
    for at, part in enumerate(schedule.parts):
        for id in (*schedule.made_by(part), *schedule.roots_read(part)):
            last[id] = at
    made: dict[int, list[int]] = {}
    for root, at in last.items():
        made.setdefault(at, []).append(root)
    return made
