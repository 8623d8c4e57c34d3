"""What is recorded of a claim: the outcome of trying it, and the circumstances it was tried in.

An outcome is a test result, never a proof: it says what happened on the cases that were tried. A claim is named by its
capsule and its obligation. The circumstances (sources, versions, machine, date) are one `Run`, shared by every claim
that was tried in it.
"""

from __future__ import annotations

from torchlean.errors import InternalError
from torchlean.record import record

SCHEMA = 1  # of record files; another number is refused
CLAIMS = ("shape", "layout", "value", "vjp")
MOST_FAILURES = 5  # texts kept per outcome


@record
class Outcome:
    """What trying one claim of one capsule gave.

    `claim` is shape, layout, value or vjp. `tests` are the ids of the tests behind it. `failures` holds the first few
    texts; none means passed. `worst` is the largest deviation seen in `unit` ("ulp", "of the bound"), None where
    nothing is measured. `histogram` counts cases by deviation, in the order it is printed. `tolerance` is the claimed
    limit in words. `exhaustive`: every input there is was tried.
    """

    capsule: str
    claim: str
    tests: tuple[str, ...]
    cases: int
    failures: tuple[str, ...]
    worst: float | None
    unit: str
    histogram: tuple[tuple[str, int], ...]
    tolerance: str
    seed: int
    exhaustive: bool

    def __post_init__(self) -> None:
        if self.claim not in CLAIMS:
            raise InternalError(f"an outcome is of a claim among {', '.join(CLAIMS)}, not {self.claim!r}")

    @property
    def passed(self) -> bool:
        """At least one case was tried, and none failed."""
        return self.cases > 0 and not self.failures


@record
class Run:
    """The circumstances of a run: `key` names it in its file; `files` are (path, hash) of the sources the claims
    depend on, each path starting with its package; `versions` are (library, version) pairs; `machine` is the
    architecture and the instruction sets in use; `date` is UTC, as in 2026-01-31.
    """

    key: str
    date: str
    torchlean: str
    versions: tuple[tuple[str, str], ...]
    machine: str
    quick: bool
    files: tuple[tuple[str, str], ...]


@record
class ClaimRecord:
    """An outcome with its circumstances. `facts` are what the claim rested on beside sources (`subject.facts`), as
    (name, text) pairs; `roots` are where its source closure starts: positions in the run's list of symbols.
    """

    outcome: Outcome
    facts: tuple[tuple[str, str], ...]
    roots: tuple[int, ...]
    run: Run
