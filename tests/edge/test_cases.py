"""Every reported case, on every provider, eager and lowered: value, JVP, VJP, and JVP of VJP."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchlean.conformance.check import Check, Claim, agrees
from torchlean.conformance.namespaces import Absent, Torchlean
from torchlean.conformance.place import Place
from torchlean.conformance.run import ALL, ASPECTS, CHECKS, PLACES, peers, run

RUNS = [pytest.param(check, place, id=f"{check.id}-{place.name}") for check in ALL for place in PLACES]
PENDING: tuple[str, ...] = ()  # checks that wait for an op; a name that is not absent any more fails below


@pytest.mark.parametrize(("check", "place"), RUNS)
def test_the_case_is_right_in_every_aspect(check: Check | Claim, place: Place) -> None:
    result = run(check, place)
    if result.pending is not None:
        assert check.id in PENDING, f"{check.id} needs {result.pending}"
        return
    assert result.outcomes
    wrong = {aspect: outcome.seen for aspect, outcome in result.outcomes.items() if not outcome.right}
    assert not wrong, f"{check.id} on {place.name}: {wrong}"


def test_every_recorded_case_is_checked_and_counted() -> None:
    ids = [check.id for check in ALL]
    assert len(ids) == len(set(ids))
    assert set(peers()["checks"]) <= set(ids)
    assert len(peers()["checks"]) == 96
    assert len(ALL) >= 124
    assert len(PLACES) == 8
    aspects = {
        "value": sum(check.value is not None for check in CHECKS),
        "slope": sum(check.slope is not None for check in CHECKS),
        "second": sum(check.second is not None for check in CHECKS),
    }
    assert aspects["value"] >= 85
    assert aspects["slope"] >= 80
    assert aspects["second"] >= 75
    assert ASPECTS == ("value", "jvp", "vjp", "second")


def test_what_is_pending_is_really_absent() -> None:
    """The list only shrinks: a check that could run must not wait."""
    for name in PENDING:
        check = next(check for check in ALL if check.id == name)
        assert run(check, PLACES[0]).pending is not None, f"{name} can run now"
    with pytest.raises(Absent, match="no_such_function"):
        Torchlean().no_such_function  # noqa: B018


def test_an_expectation_can_fail() -> None:
    check = next(check for check in CHECKS if check.id == "where_log_dead")
    altered = Check(
        id="altered", item=11, f=check.f, at=check.at, value=0, slope=2, second=0, reason="wrong on purpose"
    )
    outcomes = run(altered, PLACES[0]).outcomes
    assert {aspect: outcome.right for aspect, outcome in outcomes.items()} == {
        "value": True,
        "jvp": False,
        "vjp": False,
        "second": True,
    }


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (0.0, math.nan, False),
        (math.inf, math.inf, True),
        (-math.inf, math.inf, False),
        (1e30, math.inf, False),
        (1e-30, 1.1e-30, False),
        (1 + 1e-13, 1.0, True),
        (1 + 1e-10, 1.0, False),
        (-0.0, 0.0, True),
        (np.zeros(2), 0.0, False),
    ],
)
def test_agreement(got: object, want: object, same: bool) -> None:
    assert agrees(got, want, 1e-12) is same
