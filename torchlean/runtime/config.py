"""One run's settings: arithmetic, device or profile, seed, execution. Checked before anything runs; nothing is guessed.

A device name and a hand-built profile answer the same question, so the last answer wins: `with_device` clears the
profile, `with_backend_profile` sets the device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from torchlean.backends import profiles
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import Device, device_named
from torchlean.errors import BackendMissing, ConfigError, message


class Arithmetic(StrEnum):
    """The number system of a run. `NATIVE` is the hardware's; the others are refused by name where they cannot run."""

    NATIVE = "native"
    IEEE = "ieee"
    COMPLEX = "complex"


class Execution(StrEnum):
    """`EAGER`: each op runs when called, recorded on a tape. `LOWERED`: one accepted plan runs as generated code."""

    EAGER = "eager"
    LOWERED = "lowered"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run; names may be given as strings. `profile` None means the device's maintained profile.

    Raises ConfigError for a name outside the known ones, and for a seed that is no integer in [0, 2**64).
    """

    arithmetic: str = Arithmetic.NATIVE
    device: Device | str = Device.CPU
    profile: Profile | None = None
    seed: int = 0
    execution: str = Execution.EAGER
    show_backend: bool = False

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "arithmetic", _choice(Arithmetic, "arithmetic", self.arithmetic))
        set_field(self, "execution", _choice(Execution, "execution", self.execution))
        if not isinstance(self.device, Device):
            set_field(self, "device", device_named(self.device))
        if isinstance(self.seed, bool) or not 0 <= self.seed < 2**64:
            raise ConfigError(
                message(
                    f"seed {self.seed!r} is out of range",
                    expected="an integer in [0, 2**64)",
                    got=repr(self.seed),
                    fix="pass a non-negative seed, e.g. seed=2026",
                )
            )

    def with_device(self, device: Device | str) -> RunConfig:
        """The same run on another device, with its maintained profile; ConfigError when it has none."""
        chosen = device if isinstance(device, Device) else device_named(device)
        profiles.for_device(str(chosen))
        return replace(self, device=chosen, profile=None)

    def with_backend_profile(self, profile: Profile) -> RunConfig:
        """The same run on an explicit profile and its device."""
        return replace(self, device=profile.device, profile=profile)

    def resolved_profile(self) -> Profile:
        """The explicit profile, or the maintained one of the device. ConfigError when there is none that fits."""
        device = str(self.device)
        if self.profile is None:
            return profiles.for_device(device)
        if self.profile.device is not self.device:
            raise ConfigError(
                message(
                    f"backend profile `{self.profile.name}` targets `{self.profile.device}`, but the runtime requested "
                    f"`{device}`",
                    expected="one device",
                    got=f"{self.profile.device} and {device}",
                    fix="use with_device or with_backend_profile, which keep the two together",
                )
            )
        if not any(capsule.device is self.device for module in self.profile.modules for capsule in module.capsules):
            raise ConfigError(
                message(
                    f"backend profile `{self.profile.name}` has no capsule for device `{device}`",
                    expected="at least one capsule module for the device",
                    got=", ".join(module.name for module in self.profile.modules) or "no modules",
                    fix="add one: profile.with_modules(MODULE)",
                )
            )
        return self.profile

    def validate_for_execution(self) -> Profile:
        """The profile this run will use, after checking that it can run here.

        Raises ConfigError for settings that exclude one another, BackendMissing for what this version or machine lacks.
        """
        if self.arithmetic == Arithmetic.COMPLEX:
            raise ConfigError(
                "supervised training supports real arithmetic; complex arithmetic requires an explicit complex-valued "
                "training API"
            )
        profile = self.resolved_profile()
        if self.arithmetic == Arithmetic.IEEE:
            raise BackendMissing(
                message(
                    "arithmetic `ieee` cannot run: this version has no provider of software binary formats",
                    expected="a capsule module with software binary32 kernels (profile ieee_cpu)",
                    got=f"profile {profile.name}, whose kernels use the hardware's arithmetic",
                    fix="use arithmetic native: + - * / and sqrt round correctly there, so they give the same bits",
                )
            )
        reasons = [(module.name, module.probe()) for module in profile.modules]
        missing = [f"{name}: {reason}" for name, reason in reasons if reason is not None]
        if missing and len(missing) == len(reasons):
            raise BackendMissing(
                message(
                    f"no capsule module of backend profile `{profile.name}` can run here",
                    expected="at least one available module",
                    got="; ".join(missing),
                    fix="install what is missing, or choose another profile",
                )
            )
        return profile

    def as_json(self) -> dict[str, object]:
        """The settings as plain data, for provenance."""
        return {
            "arithmetic": str(self.arithmetic),
            "device": str(self.device),
            "profile": None if self.profile is None else self.profile.name,
            "seed": self.seed,
            "execution": str(self.execution),
            "show_backend": self.show_backend,
        }


def _choice(kind: type[Arithmetic] | type[Execution], what: str, given: str) -> str:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(
            message(
                f"unknown {what} {given!r}", expected=f"one of: {known}", got=repr(given), fix=f"choose one of: {known}"
            )
        ) from None
