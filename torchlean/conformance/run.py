"""Run the checks on every provider, eager and lowered, and set the results beside those recorded for others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.backends.profile import Profile
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
_DIVIDES_ONCE = "XLA writes (a/b)/c as a/(b·c), which overflows or underflows where that does not"
DECLARED: MappingProxyType[tuple[str, str, str], str] = MappingProxyType(  # (profile, check, aspect) → why not ours
    {
        ("xla_cpu", "log_subnormal_f32", "value"): "subnormal numbers count as zero, as its capsules say",
        ("xla_cpu", "arctan2_1e-30_underflow", "jvp"): _DIVIDES_ONCE,
        ("xla_cpu", "arctan2_1e-30_underflow", "vjp"): _DIVIDES_ONCE,
    }
)


@dataclass(frozen=True, slots=True)
class Result:
    """What one check gave in one place. An aspect without an expectation is absent; `pending` names a missing op;
    `declared`: why an aspect may be wrong there, which docs/xla.md says, too.
    """

    id: str
    place: str
    outcomes: dict[str, Outcome]
    pending: str | None = None
    declared: dict[str, str] = field(default_factory=dict[str, str])

    def is_wrong(self, aspect: str) -> bool:
        """Whether an aspect is neither right nor declared."""
        return not self.outcomes[aspect].right and aspect not in self.declared


def run(check: Check | Claim, place: Place) -> Result:
    """Look at every aspect of a check in one place."""
    name = place.profile.name
    declared = {aspect: why for (profile, id, aspect), why in DECLARED.items() if (profile, id) == (name, check.id)}
    try:
        if isinstance(check, Claim):
            return Result(check.id, place.name, {"value": check.run(place)}, declared=declared)
        return Result(check.id, place.name, dict(_aspects(check, place)), declared=declared)
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


def places_of(profile: Profile) -> tuple[Place, ...]:
    """The modes of a profile that say something of it: sessions leave modules out that are for lowered programs."""
    modes = ("eager", "lowered") if profile.for_sessions() is profile else ("lowered",)
    return tuple([Place(profile, mode) for mode in modes])


def peers() -> dict[str, Any]:
    """What other libraries gave, as recorded: `versions`, `tally`, and per check `expected` and a text per library."""
    text = resources.files("torchlean.conformance").joinpath("peers.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
