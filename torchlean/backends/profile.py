"""Profiles: a device, an ordered registry of capsule modules, and a policy. Plain frozen values; nothing is global.

Module order is semantic: the first admissible capsule in module order is chosen, and the plan prints it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from torchlean.backends.capsule import Capsule
from torchlean.backends.policy import AssurancePolicy
from torchlean.backends.target import Probe
from torchlean.backends.vocabulary import Device
from torchlean.errors import PlanRejected, message


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleModule:
    """A named set of capsules. `probe()` is None when they can run on this machine, else the reason why not."""

    name: str
    capsules: tuple[Capsule, ...]
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What may run: `modules` in order of preference, on `device`, under `policy`."""

    name: str
    device: Device
    modules: tuple[CapsuleModule, ...]
    policy: AssurancePolicy

    def with_modules(self, *modules: CapsuleModule) -> Profile:
        """New modules in front; an old one of the same name is replaced. A name given twice is refused at planning."""
        new = {module.name for module in modules}
        return replace(self, modules=(*modules, *[old for old in self.modules if old.name not in new]))

    def on(self, device: Device) -> Profile:
        """The same registry and policy for another device."""
        return replace(self, device=device)

    def under(self, policy: AssurancePolicy, *, name: str | None = None) -> Profile:
        """The same registry and device under another policy."""
        return replace(self, policy=policy, name=name or self.name)

    def __str__(self) -> str:
        return f"profile={self.name} device={self.device} assurance={self.policy.label} vjp={self.policy.vjp}"


def refuse_duplicates(profile: Profile) -> None:
    """PlanRejected when two modules share a name, or two capsules share (name, op, provider, device)."""
    names = Counter(module.name for module in profile.modules)
    for name, count in names.items():
        if count > 1:
            raise PlanRejected(
                message(
                    f"duplicate backend capsule module `{name}`",
                    expected="every module name once",
                    got=", ".join(module.name for module in profile.modules),
                    fix="drop one, or rename it",
                )
            )
    seen: set[tuple[Any, ...]] = set()
    for module in profile.modules:
        for capsule in module.capsules:
            identity = (capsule.name, capsule.op, capsule.provider, capsule.device)
            if identity in seen:
                raise PlanRejected(
                    message(
                        f"duplicate backend capsule identity `{capsule.name}`",
                        expected="one capsule for each (name, op, provider, device)",
                        got=f"{capsule.name} twice on {capsule.device}, the second in module {module.name}",
                        fix="give one of them a variant",
                    )
                )
            seen.add(identity)
