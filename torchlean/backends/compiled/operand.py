"""What a call reads, and what the text of one is."""

from __future__ import annotations

from collections.abc import Sequence

from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.views import View
from torchlean.ir.dtypes import DType
from torchlean.ir.types import Shape
from torchlean.record import record


@record
class Operand:
    """An operand as it is in memory, or the literal that each of its entries is."""

    view: View
    dtype: DType
    constant: str | None = None

    @property
    def shape(self) -> Shape:
        return self.view.shape

    def entry(self, name: str, variables: Sequence[str]) -> str:
        """`name[…]`: the entry at these positions."""
        if self.constant is not None:
            return self.constant
        return f"{name}[{index_text(self.view.offset, self.view.strides, variables)}]"


@record
class Called:
    """`text`: the body of a function; `workspace`: bytes it uses beside; `helpers`: functions it calls.

    `tasks`: how many independent ones threads may share out; then the text does those of [start, stop), and `pieces`
    is how many each thread should take: few, where what they have in common is done for each.
    """

    text: str
    workspace: int = 0
    helpers: tuple[str, ...] = ()
    tasks: int = 1
    pieces: int = 4


def loops(sizes: Sequence[int | str], names: Sequence[str], inner: Sequence[str], indent: str = "    ") -> list[str]:
    """Statements inside one loop per size."""
    lines: list[str] = []
    depth = indent
    for size, name in zip(sizes, names, strict=True):
        lines.append(f"{depth}for (int64_t {name} = 0; {name} < {size}; {name}++) {{")
        depth += "    "
    lines += [depth + line for line in inner]
    for _ in sizes:
        depth = depth[4:]
        lines.append(f"{depth}}}")
    return lines


def positions(count: int) -> list[str]:
    return [f"i{axis}" for axis in range(count)]
