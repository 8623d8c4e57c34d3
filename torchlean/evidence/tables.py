"""What was tried on every input, as a table for the documentation and for `torchlean evidence --exhaustive`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchlean.evidence.claim import ClaimRecord

HEAD = ("kernel", "claimed", "worst, ulp", "at", "correctly rounded", "1 ulp or less", "more", "tried")
NONE = "No claim was tried on every input yet."
_AT = re.compile(r"worst at (\S+)")


def exhaustive_table(records: Iterable[ClaimRecord]) -> str:
    """The records as a Markdown table, a line each; a sentence when there are none."""
    rows = [_row(each) for each in records]
    if not rows:
        return NONE
    return "\n".join([_line(HEAD), _line(["---"] * len(HEAD)), *map(_line, rows)])


def _row(held: ClaimRecord) -> tuple[str, ...]:
    outcome, counts = held.outcome, dict(held.outcome.histogram)
    right = counts.get("correctly rounded", 0)
    near = counts.get("≤ 1 ulp", 0)
    found = [found[1] for text in outcome.tests if (found := _AT.search(text))]
    library = dict(held.run.versions).get("numpy")
    return (
        outcome.capsule,
        outcome.tolerance if outcome.passed else f"{outcome.tolerance}: failed",
        "" if outcome.worst is None else f"{outcome.worst:.3f}",
        f"{float(found[0]):.9g}" if found else "",
        _share(right, outcome.cases),
        _share(near, outcome.cases),
        _share(outcome.cases - right - near, outcome.cases),
        held.run.date[:10] + ("" if library is None else f", NumPy {library}"),
    )


def _share(count: int, of: int) -> str:
    """`4,292,372,247 (99.94 %)`; the percentage is cut, so that only all is 100 %."""
    return f"{count:,} ({count * 10_000 // of / 100:.2f} %)" if count and of else str(count)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
