"""How a claim stands here and now: one state with its reason."""

from __future__ import annotations

from enum import Enum

from torchlean.evidence.claim import ClaimRecord
from torchlean.record import record


class State(Enum):
    """What a record is worth here. Only `FRESH` and `OTHER_VERSION` are records of the source that would run."""

    FRESH = "fresh"
    OTHER_VERSION = "other-version"  # our source is the one tried; a library or the machine is not
    STALE = "stale"  # a source of ours, or the capsule itself, changed
    FAILED = "failed"
    NEVER_RUN = "never run"

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.value


@record
class Standing:
    """The state of one claim. `reason` says why it is not fresh (empty when it is); `tried` is the record, or None."""

    state: State
    reason: str
    tried: ClaimRecord | None

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)


def never_run(reason: str) -> Standing:
    """The standing of a claim without a record."""
    return Standing(State.NEVER_RUN, reason, None)


NO_LEDGER = never_run("its capsule module has no ledger")
