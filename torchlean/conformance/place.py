"""Where a check runs: a provider's profile, op by op or lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from torchlean import pytree
from torchlean.backends.profile import Profile
from torchlean.runtime.session import Session
from torchlean.transforms.lower import Lowered, lower

_NUMPY = (np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class Place:
    """A profile, and `eager` (a session) or `lowered` (one accepted plan)."""

    profile: Profile
    mode: Literal["eager", "lowered"]

    @property
    def name(self) -> str:
        return f"{self.profile.name} {self.mode}"

    def call(self, f: Callable[..., Any], *arguments: Any) -> Any:
        """`f(*arguments)` there."""
        if self.mode == "lowered":
            return self.lowered(f, *arguments)(*arguments)
        with Session(self.profile) as session:
            return f(*pytree.map(lambda leaf: session.array(leaf) if isinstance(leaf, _NUMPY) else leaf, arguments))

    def lowered(self, f: Callable[..., Any], *arguments: Any) -> Lowered:
        """`f` planned and accepted for these arguments, whatever the mode."""
        return lower(f, *arguments, profile=self.profile)
