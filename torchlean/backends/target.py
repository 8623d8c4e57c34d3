"""The machine, and probes that look for a library without importing it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

Probe = Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a plan was made on: operating system, architecture, Python."""

    system: str
    machine: str
    python: str

    def __str__(self) -> str:
        return f"{self.system} {self.machine}, Python {self.python}"


def this_machine() -> Target:
    """The target this process runs on."""
    return Target(system=platform.system(), machine=platform.machine(), python=platform.python_version())


def always_available() -> str | None:
    """The probe of a module that needs nothing beyond the core's own dependencies."""
    return None


def needs_library(name: str) -> Probe:
    """A probe that answers None when the library can be imported, else why not."""

    def probe() -> str | None:
        return None if find_spec(name) is not None else f"the library {name} is not installed"

    return probe
