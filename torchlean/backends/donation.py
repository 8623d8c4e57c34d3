"""Operands a group may write over: values nobody reads after it, whose memory its kernel may take for results.

They are intermediates of the plan, and arguments that the caller gives up (`donate_argnums` of `lower` and `jit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from torchlean.backends.handler import Group
from torchlean.ir.types import TensorType

LEAST = (1 << 16) + 1  # bytes from which on it is worth it; smaller operands are copied into memory kept for them


@dataclass(frozen=True, slots=True, kw_only=True)
class DonatingGroup(Group):
    """A group that may write over `donated`, some of its inputs."""

    donated: tuple[int, ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """Where they are among the inputs."""
        return tuple([self.inputs.index(id) for id in self.donated])


def of_use(dying: Iterable[int], outputs: Iterable[int], types: tuple[TensorType, ...]) -> tuple[int, ...]:
    """Those among dying values for which there is a result of the same type to take the memory."""
    wanted = Counter([types[id] for id in outputs])
    found: list[int] = []
    for id in dying:
        if types[id].nbytes >= LEAST and wanted[types[id]] > 0:
            wanted[types[id]] -= 1
            found.append(id)
    return tuple(found)
