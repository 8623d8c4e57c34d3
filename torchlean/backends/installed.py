"""Capsule modules of other installed packages: each names its own under the entry-point group `torchlean.capsules`.

Nothing found here runs by itself: a module is used when a profile is given it, as in
`profiles.fast_cpu.with_modules(*installed())`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlean.backends.profile import CapsuleModule
from torchlean.errors import ConfigError, message

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "torchlean.capsules"


def offered() -> dict[str, EntryPoint]:
    """The entry points of all installed packages, by the name of their module; ConfigError when two offer the same."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        first = found.setdefault(point.name, point)
        if first.value != point.value:
            raise ConfigError(
                message(
                    f"two installed packages offer the capsule module {point.name!r}",
                    expected=f"one entry point of that name in the group {GROUP}",
                    got=f"{first.value} and {point.value}",
                    fix="uninstall one of them",
                )
            )
    return found


def installed(*names: str) -> tuple[CapsuleModule, ...]:
    """The modules of all installed packages, by name; with `names`, those and in that order.

    Raises ConfigError when a name is not installed, when an entry point cannot be loaded or is no CapsuleModule, and
    when two packages offer the same name.
    """
    found = offered()
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ConfigError(
            message(
                f"no installed package offers the capsule module {unknown[0]!r}",
                expected=", ".join(found) or f"an entry point in the group {GROUP}; there is none",
                got=repr(unknown[0]),
                fix="install the package that provides it",
            )
        )
    return tuple([_loaded(found[name]) for name in names or sorted(found)])


def _loaded(point: EntryPoint) -> CapsuleModule:
    try:
        module = point.load()
    except Exception as fault:  # whatever another package's import raises
        raise ConfigError(
            message(
                f"the capsule module {point.name!r} cannot be loaded from {point.value}",
                got=f"{type(fault).__name__}: {fault}",
                fix="repair or uninstall the package that provides it",
            )
        ) from fault
    if not isinstance(module, CapsuleModule) or module.name != point.name:
        held = f"a module named {module.name!r}" if isinstance(module, CapsuleModule) else type(module).__name__
        raise ConfigError(
            message(
                f"the entry point {point.name!r} is {point.value}, which is not its capsule module",
                expected=f"a CapsuleModule named {point.name!r}",
                got=held,
                fix="correct the entry point in the package that provides it",
            )
        )
    return module
