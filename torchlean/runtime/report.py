"""Which capsules a session selected, kept as data; lines appear as they happen for whoever asked to be told.

Two lists: what the model's forward and loss selected, and what only VJPs and parameter updates did. A capsule is listed
once, under the first list if the forward ever uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from torchlean.backends.audit import obligations
from torchlean.backends.capsule import Capsule, report_lines
from torchlean.backends.vocabulary import VjpMode, label


class Phase(Enum):
    """What a kernel is run for."""

    FORWARD = "forward"
    DERIVATIVE = "derivative"

    __hash__ = object.__hash__


HEADERS = (
    (Phase.FORWARD, "[TorchLean] backend capsules used:"),
    (Phase.DERIVATIVE, "[TorchLean] capsules used by torchlean-tape VJPs and updates:"),
)


def header(phase: Phase) -> str:
    """The line that opens a phase's list."""
    return next(text for of, text in HEADERS if of is phase)


class BackendReport:
    """The selections of one session, in order of first use. `tell`, if given, receives each line as it is made."""

    __slots__ = ("_open", "_phase_of", "_tell", "_vjps", "profile")

    def __init__(self, profile: str, tell: Callable[[str], None] | None = None) -> None:
        self.profile = profile
        self._tell = tell
        self._open = Phase.FORWARD
        self._vjps: dict[tuple[str, str | None], None] = {}
        # Capsules by identity, since a handler need not be hashable; composites' VJPs by name and capsule.
        self._phase_of: dict[Any, tuple[Capsule | str, Phase]] = {}
        if tell is not None:
            tell(header(Phase.FORWARD))

    def used(self, capsule: Capsule, phase: Phase) -> None:
        """Note a selection; only the first one per capsule is news, and a forward use outranks a derivative's."""
        self._note(id(capsule), capsule, phase)

    def pulled_back(self, op: str, capsule: str | None, phase: Phase) -> None:
        """Note who does the `<op>.vjp` of a composite: a capsule natively, or (None) the kernels of its nodes."""
        self._vjps[op, capsule] = None
        self._note((op, capsule), f"  {op}: {capsule or 'expanded into its nodes'} vjp={_owner(capsule)}", phase)

    def _note(self, key: Any, used: Capsule | str, phase: Phase) -> None:
        known = self._phase_of.get(key)
        if known is not None:
            if known[1] in (phase, Phase.FORWARD):
                return
            self._phase_of.pop(key, None)  # it moves to the end of the forward's list
        self._phase_of[key] = (used, phase)
        if self._tell is not None:
            if phase is not self._open:
                self._open = phase
                self._tell(header(phase))
            for line in _lines_of(used):
                self._tell(line)

    @property
    def vjps(self) -> tuple[tuple[str, VjpMode, str | None], ...]:
        """The `<op>.vjp` of composites that ran: the op, who owns its derivative, and the capsule of a native one."""
        return tuple([(op, _owner(capsule), capsule) for op, capsule in tuple(self._vjps)])

    def capsules(self, phase: Phase) -> tuple[Capsule, ...]:
        """The capsules of one list, in order of first use."""
        return tuple([used for used in self._used(phase) if isinstance(used, Capsule)])

    def _used(self, phase: Phase) -> list[Capsule | str]:
        return [used for used, of in tuple(self._phase_of.values()) if of is phase]

    @property
    def forward(self) -> tuple[Capsule, ...]:
        return self.capsules(Phase.FORWARD)

    @property
    def derivative(self) -> tuple[Capsule, ...]:
        return self.capsules(Phase.DERIVATIVE)

    def lines(self) -> list[str]:
        """The whole report as text lines. The first header is always there; the second only when it has entries."""
        made: list[str] = []
        for phase, text in HEADERS:
            listed = self._used(phase)
            if listed or phase is Phase.FORWARD:
                made.append(text)
            for used in listed:
                made += _lines_of(used)
        return made

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"profile": self.profile} | {
            **{phase.value: [_capsule_data(capsule) for capsule in self.capsules(phase)] for phase, _ in HEADERS},
            "composite_vjps": [{"op": op, "mode": str(mode), "capsule": name} for op, mode, name in self.vjps],
        }


def _owner(capsule: str | None) -> VjpMode:
    return VjpMode.TAPE if capsule is None else VjpMode.BACKEND


def _lines_of(used: Capsule | str) -> list[str]:
    return [used] if isinstance(used, str) else report_lines(used)


def _capsule_data(capsule: Capsule) -> dict[str, Any]:
    return {
        "op": label(capsule.op),
        "capsule": capsule.name,
        "provider": capsule.provider,
        "device": str(capsule.device),
        "trust": str(capsule.trust),
        "vjp": str(capsule.vjp_mode),
        "reduction": str(capsule.numerics.reduction),
        "contracts": {report.obligation: f"{report.text}; {report.evidence}" for report in obligations(capsule)},
    }
