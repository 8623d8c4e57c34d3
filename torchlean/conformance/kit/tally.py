"""What is found while one contract of a capsule is tried: cases, deviations, and failures as a reader wants them."""

from __future__ import annotations

from collections.abc import Iterable

from torchlean.backends.capsule import Capsule
from torchlean.conformance.kit.calls import Trial
from torchlean.errors import message
from torchlean.evidence.claim import MOST_FAILURES, Outcome

BUCKETS: tuple[tuple[str, float], ...] = (
    ("0", 0.0),
    ("1", 1.0),
    ("2", 2.0),
    ("3-4", 4.0),
    ("5-8", 8.0),
    ("9-64", 64.0),
    ("65-1024", 1024.0),
    ("more", float("inf")),
)


class Tally:
    """One contract under trial."""

    __slots__ = ("_counts", "_more", "capsule", "cases", "claim", "failures", "worst")

    def __init__(self, capsule: Capsule, claim: str) -> None:
        self.capsule = capsule
        self.claim = claim
        self.cases = 0
        self.failures: list[str] = []
        self.worst: float | None = None
        self._counts = dict.fromkeys([name for name, _ in BUCKETS], 0)
        self._more = 0

    def tried(self, count: int = 1) -> None:
        """So many cases more."""
        self.cases += count

    def failed(self, what: str, *, trial: Trial | None = None, expected: object, got: object, fix: str) -> None:
        """A case that does not hold: what is wrong, on which sample, and what the author of the capsule may do."""
        if len(self.failures) >= MOST_FAILURES:
            self._more += 1
            return
        name = f"{self.capsule.name} {self.claim}: {what}"
        self.failures.append(message(name, expected=expected, got=got, fix=fix, where=trial))

    def deviated(self, deviation: float, ulps: float | None) -> None:
        """A case's deviation, in the unit of the claimed bound, and its distance in ulp where results are floats."""
        self.worst = deviation if self.worst is None else max(self.worst, deviation)
        if ulps is not None:
            self._counts[next(name for name, limit in BUCKETS if ulps <= limit)] += 1

    def outcome(self, *, tests: Iterable[str], unit: str, tolerance: str, seed: int) -> Outcome:
        """What was found. Without a case there is no outcome that passes."""
        failures = list(self.failures)
        if self._more:
            failures[-1] += f"\n  … and {self._more} failures more"
        return Outcome(
            capsule=self.capsule.name,
            claim=self.claim,
            tests=tuple(tests),
            cases=self.cases,
            failures=tuple(failures),
            worst=self.worst,
            unit=unit,
            histogram=tuple([(name, count) for name, count in self._counts.items() if count]),
            tolerance=tolerance,
            seed=seed,
            exhaustive=False,
        )
