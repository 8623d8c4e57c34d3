"""What a compiler says of a group of steps it compiled, beside what is counted of the same steps here.

Compilers count as they like: XLA counts the body of a loop once, what it fuses once, and each value of exp or log apart
from other operations (here they are operations, too).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchlean.backends.grouping import fused
from torchlean.backends.plan import Plan
from torchlean.record import record


@record
class Said:
    """Of one executable. `flops` does not hold `transcendental`; None is what the compiler does not say. `moved`: bytes
    read and written; `workspace`: bytes held beside operands and results; `aliased`: bytes of results that lie in
    memory of operands.
    """

    flops: int | None
    transcendental: int | None
    moved: int | None
    workspace: int
    aliased: int


@record
class Analysis:
    """A group, by the positions of its steps, what `compiler` says of it, and what is counted here: operations (with
    the transcendental ones), and bytes moved, step by step.
    """

    compiler: str
    positions: tuple[int, ...]
    said: Said
    flops: int
    moved: int

    def as_json(self) -> dict[str, object]:
        """The analysis as plain data."""
        said = self.said
        return {
            "compiler": self.compiler,
            "positions": list(self.positions),
            "flops": self.flops,
            "moved": self.moved,
            "said": {
                "flops": said.flops,
                "transcendental": said.transcendental,
                "moved": said.moved,
                "workspace": said.workspace,
                "aliased": said.aliased,
            },
        }


def analyses(plan: Plan, flops: Sequence[int], moved: Sequence[int]) -> tuple[Analysis, ...]:
    """The groups of a plan whose compiler says what they cost, beside these counts of its steps."""
    found: list[Analysis] = []
    for unit, made in fused(plan):
        ask = getattr(made, "analysis", None)
        if ask is not None:
            found.append(
                Analysis(
                    compiler=plan.steps[unit.positions[0]].capsule.provider,
                    positions=unit.positions,
                    said=ask(),
                    flops=sum([flops[at] for at in unit.positions]),
                    moved=sum([moved[at] for at in unit.positions]),
                )
            )
    return tuple(found)


def lines(found: Iterable[Analysis]) -> list[str]:
    """The analyses as a table: the same numbers here and by the compiler, side by side."""
    rows = [("", "flops here", "by compiler", "bytes moved here", "by compiler", "workspace", "aliased")]
    rows += [_row(analysis) for analysis in found]
    if len(rows) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return ["  compiled groups, as counted here step by step and as their compiler counts them:"] + [
        ("    " + "  ".join(row)).rstrip() for row in cells
    ]


def _row(analysis: Analysis) -> tuple[str, ...]:
    said, count = analysis.said, len(analysis.positions)
    theirs = None if said.flops is None else said.flops + (said.transcendental or 0)
    steps = f"{analysis.compiler}, {count} step{'s' if count > 1 else ''} from {analysis.positions[0]}"
    numbers = (analysis.flops, theirs, analysis.moved, said.moved, said.workspace, said.aliased)
    return (steps, *["unsaid" if number is None else f"{number:,}" for number in numbers])
