"""A group of nodes becomes one XLA executable, compiled when it is first called for.

jax is imported then: a program that plans nothing for XLA pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from torchlean.backends.donation import DonatingGroup
from torchlean.backends.handler import Fused, Group
from torchlean.backends.sharding import ShardedGroup
from torchlean.backends.xla.library import missing
from torchlean.ir.graph import Graph
from torchlean.record import record

if TYPE_CHECKING:
    from torchlean.backends.analyses import Said
    from torchlean.backends.collectives import Collective
    from torchlean.backends.xla.building import Builds, Built


@record(eq=False)
class FusedXla:
    """An executable and how it is called."""

    built: Built

    @property
    def source(self) -> str:
        from torchlean.backends.xla.building import MANY, shortened

        count = len(self.built.graph.nodes)
        if count >= MANY:  # which takes as long to print as to plan
            return f'{count} nodes; as_text("stablehlo") has the program'
        return shortened(self.built.text())

    @property
    def workspace(self) -> int:
        return self.built.workspace()

    def analysis(self) -> Said:
        """XLA's own count of operations and bytes."""
        return self.built.analysis()

    @property
    def keeps(self) -> bool:
        return False

    def stablehlo(self) -> str:
        """The whole program; constants that are handed to it are its last operands."""
        return self.built.text()

    def collectives(self) -> tuple[Collective, ...]:
        """What devices exchange while it runs."""
        return self.built.collectives()

    def kernel(self, *, packs: bool) -> Callable[..., Any]:
        if self.built.layout is not None:
            from torchlean.backends.xla.placing import sharded_kernel

            return sharded_kernel(self.built, packs=packs)
        from torchlean.backends.xla.calling import kernel

        return kernel(self.built, packs=packs)


class XlaGrouper:
    """Makes executables of groups for a device of jax (None: its first CPU device), and keeps them."""

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._lock = Lock()
        self._builds: Builds | None = None

    def builds(self) -> Builds:
        """The executables of this process."""
        with self._lock:
            if self._builds is None:
                from torchlean.backends.xla.building import Builds

                self._builds = Builds(device=self._device)
            return self._builds

    def missing(self) -> str | None:
        """Why nothing can be compiled here, or None."""
        return missing()

    def fuse(self, group: Group) -> Fused:
        layout = group.layout if isinstance(group, ShardedGroup) else None
        donated = group.positions if isinstance(group, DonatingGroup) else ()
        return FusedXla(self.builds().built(closed(group), layout, donated))


def closed(group: Group) -> Graph:
    """The group as a graph of its own, values numbered from 0: equal groups are equal graphs."""
    ids: dict[int, int] = {}
    for id in (*group.inputs, *[id for node in group.nodes for id in node.outputs]):
        ids.setdefault(id, len(ids))
    return Graph(
        inputs=tuple([ids[id] for id in group.inputs]),
        nodes=tuple(
            [
                node._replace(
                    inputs=tuple([ids[id] for id in node.inputs]), outputs=tuple([ids[id] for id in node.outputs])
                )
                for node in group.nodes
            ]
        ),
        outputs=tuple([ids[id] for id in group.outputs]),
        types=tuple([group.types[id] for id in ids]),
        name="group",
    )
