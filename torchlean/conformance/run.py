"""Run the checks on every provider, eager and lowered, and set the results beside those recorded for others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from torchlean.backends.profiles import OWN
from torchlean.conformance import determinants, kinks, logs, masks, positions, powers, roots
from torchlean.conformance.check import Check, Claim, Outcome, agrees, shown
from torchlean.conformance.claims import CLAIMS
from torchlean.conformance.namespaces import Absent, Torchlean
from torchlean.conformance.place import Place
from torchlean.transforms.jacobian import jacfwd, jacrev

CHECKS: tuple[Check, ...] = tuple(
    [check for module in (roots, masks, kinks, powers, logs, positions, determinants) for check in module.CHECKS]
)
ALL: tuple[Check | Claim, ...] = tuple(sorted((*CHECKS, *CLAIMS), key=lambda check: check.item))
ASPECTS = ("value", "jvp", "vjp", "second")
PLACES = tuple([Place(profile, mode) for profile in OWN for mode in ("eager", "lowered")])
NS = Torchlean()


@dataclass(frozen=True, slots=True)
class Result:
    """What one check gave in one place. An aspect without an expectation is absent; `pending` names a missing op."""

    id: str
    place: str
    outcomes: dict[str, Outcome]
    pending: str | None = None


def run(check: Check | Claim, place: Place) -> Result:
    """Look at every aspect of a check in one place."""
    try:
        if isinstance(check, Claim):
            return Result(check.id, place.name, {"value": check.run(place)})
        return Result(check.id, place.name, dict(_aspects(check, place)))
    except Absent as absent:
        return Result(check.id, place.name, {}, pending=str(absent))


def _aspects(check: Check, place: Place) -> Iterator[tuple[str, Outcome]]:
    def f(x: Any) -> Any:
        return check.f(NS, x)

    wanted = {
        "value": (check.value, f),
        "jvp": (check.slope, jacfwd(f)),
        "vjp": (check.slope, jacrev(f)),
        "second": (check.second, jacfwd(jacrev(f))),
    }
    for aspect, (want, function) in wanted.items():
        if want is None:
            continue
        made = np.asarray(place.call(function, check.at))
        yield aspect, Outcome(agrees(made, want, check.rtol), shown(made))


def run_all(places: Iterable[Place] = PLACES, checks: Iterable[Check | Claim] = ALL) -> list[Result]:
    """Every check in every place."""
    held = tuple(places)
    return [run(check, place) for check in checks for place in held]


def peers() -> dict[str, Any]:
    """What other libraries gave, as recorded: `versions`, `tally`, and per check `expected` and a text per library."""
    text = resources.files("torchlean.conformance").joinpath("peers.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
