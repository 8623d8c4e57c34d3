"""What devices exchange while a program runs: the collectives of its compiled modules, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchlean.record import record


@record
class Collective:
    """One instruction of a compiled module. `bytes`: its results on one device, each time it runs.

    `devices`: how many take part together, where the module says it; `times`: how often it runs in one call, None in a
    loop whose steps are not known; `where`: the op and the user's line it was made for.
    """

    kind: str
    type: str
    bytes: int
    devices: int | None
    times: int | None
    where: str


class Collectives:
    """The collectives of a program, in the module's order. Prints as a table."""

    def __init__(self, name: str, rows: Iterable[Collective]) -> None:
        self.name = name
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def totals(self) -> dict[str, tuple[int, int]]:
        """By kind: how many instructions, and the bytes of their results on one device, each counted once."""
        found: dict[str, tuple[int, int]] = {}
        for row in self.rows:
            count, size = found.get(row.kind, (0, 0))
            found[row.kind] = (count + 1, size + row.bytes)
        return found

    def text(self) -> str:
        """The totals by kind, then one line per instruction."""
        totals = [f"{count} {kind} of {size:,} bytes" for kind, (count, size) in self.totals().items()]
        lines = [f"collectives of {self.name}: {', '.join(totals) or 'none'}"]
        cells = [row_text(row) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += [("  " + "  ".join(map(str.ljust, row, widths))).rstrip() for row in cells]
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [
            {
                "kind": row.kind,
                "type": row.type,
                "bytes": row.bytes,
                "devices": row.devices,
                "times": row.times,
                "where": row.where,
            }
            for row in self.rows
        ]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Collectives of {self.name}: {len(self.rows)}>"


def row_text(row: Collective) -> tuple[str, ...]:
    """A collective as cells of a table."""
    devices = "devices unstated" if row.devices is None else f"{row.devices} devices"
    times = "in a loop" if row.times is None else f"×{row.times}"
    return row.kind, row.type, f"{row.bytes:,} bytes", devices, times, row.where
