"""A group of nodes becomes one C function, compiled and loaded when it is first needed.

The generator and the loader are imported then: a program that plans nothing for C pays for neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlean.backends.compiled.served import CALLS
from torchlean.backends.handler import Fused, Group
from torchlean.errors import BackendMissing
from torchlean.record import record

if TYPE_CHECKING:
    from torchlean.backends.compiled.loading import Builds, Signature
    from torchlean.backends.compiled.writer import Program

KEPT = 1 << 20  # bytes of arena up to which the stub keeps it between calls
RELEASED = 1 << 16  # operations or entries from which on other threads may run meanwhile


@record(eq=False)
class FusedC:
    """A program and how it is called."""

    program: Program
    signature: Signature
    builds: Builds

    @property
    def source(self) -> str:
        return self.program.annotated

    @property
    def workspace(self) -> int:
        return self.program.arena

    @property
    def keeps(self) -> bool:
        return self.program.arena <= KEPT

    def kernel(self, *, packs: bool) -> Callable[..., Any]:
        return self.builds.kernel(self.program.source, self.signature.packing(packs))


class CGrouper:
    """Writes C for groups and compiles it; by default with the compiler that the environment names."""

    def __init__(self, builds: Builds | None = None) -> None:
        self._builds = builds

    def builds(self) -> Builds:
        """The compiler of this process and what it has loaded."""
        if self._builds is None:
            from torchlean.backends.compiled.loading import Builds

            self._builds = Builds()
        return self._builds

    def missing(self) -> str | None:
        """Why nothing can be compiled here, or None."""
        return self.builds().missing()

    def compiler(self) -> str:
        """Which compiler there is, with its version: records of another one are of other machine code."""
        if self.missing() is not None:
            return "none"
        try:
            return self.builds().toolchain().version
        except BackendMissing:
            return "one that does not run"

    def fuse(self, group: Group) -> Fused:
        from torchlean.backends.compiled.expand import expanded
        from torchlean.backends.compiled.loading import Signature
        from torchlean.backends.compiled.schedule import Schedule
        from torchlean.backends.compiled.writer import write

        builds, types, plain = self.builds(), group.types, expanded(group)
        program = write(Schedule(plain), builds.toolchain())
        signature = Signature(
            tuple([types[id] for id in group.inputs]),
            tuple([types[id] for id in group.outputs]),
            program.arena,
            _work(plain) >= RELEASED,
            False,
            program.shared,
        )
        return FusedC(program, signature, builds)


def _work(group: Group) -> int:
    """Roughly how much there is to do: entries made, and the operations of products."""
    from torchlean.ir.flops import flops_of

    total = sum([group.types[id].size for node in group.nodes for id in node.outputs])
    for node in group.nodes:
        if node.op in CALLS:
            operands = tuple([group.types[id] for id in node.inputs])
            total += flops_of(node, operands, group.types[node.outputs[0]]) or 0
    return total
