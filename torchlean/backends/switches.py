"""Environment variables that change what capsules do: declared by their module, read when a plan is made, recorded.

A `Switch` is read each time something is planned; its value may change the label, the numbers or the handler of the
module's capsules, and a plan or a remembered selection made under another value is not used any more. A `LoadSetting`
is read once by a library, when it is loaded: a later change has no effect, so it is only recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from torchlean.backends.capsule import Capsule
from torchlean.errors import ConfigError, message

Environment = tuple[tuple[str, str], ...]  # (variable, value), in the order of declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """`variable` takes one of `choices`, the first of which holds when it is not set (or empty).

    `changes(capsule, value)` is the capsule as it is under a value: itself, or one with another label.
    """

    variable: str
    choices: tuple[str, ...]
    effect: str
    changes: Callable[[Capsule, str], Capsule]

    def concerns(self, capsule: Capsule) -> bool:
        """Whether some value makes another capsule of it. What is tried under one value then says nothing of others."""
        return any([self.changes(capsule, value) is not capsule for value in self.choices])

    def value(self) -> str:
        """The value now; ConfigError naming the variable and the choices for any other."""
        held = os.environ.get(self.variable, "")
        if not held:
            return self.choices[0]
        if held not in self.choices:
            raise ConfigError(
                message(
                    f"{self.variable} is {held!r}; choose {' or '.join(self.choices)}",
                    expected=f"{', '.join(self.choices)} (it {self.effect})",
                    got=repr(held),
                    fix=f"set it to one of these, or unset it for {self.choices[0]}",
                )
            )
        return held


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSetting:
    """A variable that a library read when it was loaded, with the value it had then ("" when it was not set)."""

    variable: str
    value: str
    effect: str


def at_load(variable: str, effect: str) -> LoadSetting:
    """The setting with the value the variable has now; call it where the library is imported."""
    return LoadSetting(variable=variable, value=os.environ.get(variable, ""), effect=effect)
