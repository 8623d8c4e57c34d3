"""How does the time of each stage grow with the size of a program, from 10 to 10⁵ ops?

Trace, gradient, plan and acceptance, the Python that runs the plan, the C text for it, and one call. Prints a table
with the fitted power of each, and draws `results/growth.svg`, both axes logarithmic.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
from _paired import report, restart_unpinned

SIZES = (10, 100, 1000, 10_000, 100_000)
STAGES = ("trace", "grad", "plan + accept", "generate Python", "write C", "call")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa8800", "#66ccee", "#aa3377")


def chain(count: int) -> Callable[[Any], Any]:
    """A function of `count` elementwise ops and a sum."""
    from torchlean import ops

    def f(x: Any) -> Any:
        y = x
        for at in range(count):
            y = ops.tanh(y) if at % 3 == 0 else y * x if at % 3 == 1 else y + x
        return ops.sum(y)

    return f


def written(plan: Any) -> list[Any]:
    """The C text of a plan, not compiled."""
    from torchlean.backends.grouping import units

    return [
        each.grouper.fuse(each.group) for each in units(plan) if each.grouper is not None and each.group is not None
    ]


def stages(count: int, rounds: int) -> dict[str, float]:
    """CPU seconds of each stage for `count` ops, the least of some rounds."""
    import torchlean as tl
    from torchlean.backends import Executable, accept, plan, profiles
    from torchlean.backends.compiled import MODULE

    f, x = chain(count), np.linspace(-1, 1, 16).astype(np.float32)
    type = tl.TensorType((16,), tl.DType.F32)
    profile = profiles.numpy_cpu.under(profiles.numpy_cpu.policy.allowing_stale())
    compiled = profiles.checked_cpu.under(profiles.checked_cpu.policy.allowing_stale())
    best: dict[str, float] = {}

    def timed(stage: str, run: Callable[..., Any], *given: Any) -> Any:
        start = time.process_time()
        made = run(*given)
        best[stage] = min(best.get(stage, float("inf")), time.process_time() - start)
        return made

    for _ in range(rounds):
        timed("trace", tl.make_graph(f), type)
        graph = timed("grad", tl.make_graph(tl.grad(f)), type)
        accepted = timed("plan + accept", lambda graph: accept(plan(graph, profile)), graph)
        executable = timed("generate Python", Executable, accepted)
        timed("call", executable.call, x)
        if MODULE.probe() is None:
            timed("write C", written, plan(graph, compiled))
    return best


def drawn(table: dict[int, dict[str, float]]) -> str:
    """The table as lines of one SVG."""
    width, height, left, bottom, right = 680, 420, 70, 50, 190
    times = [each for row in table.values() for each in row.values() if each > 0]
    low, high = log10(min(times)), log10(max(times))
    first, last = log10(min(table)), log10(max(table))

    def place(size: float, seconds: float) -> tuple[float, float]:
        across = (log10(size) - first) / max(last - first, 1e-9)
        up = (log10(seconds) - low) / max(high - low, 1e-9)
        return left + across * (width - left - right), height - bottom - up * (height - bottom - 20)

    def text(x: float, y: float, said: str, anchor: str = "start", colour: str = "#222") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{said}</text>'

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for size in table:
        x, _ = place(size, 10**low)
        lines.append(text(x, height - bottom + 18, f"{size:,}", "middle"))
    for power in range(int(np.floor(low)) + 1, int(np.floor(high)) + 1):
        _, y = place(min(table), 10.0**power)
        lines.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(text(left - 8, y + 4, f"{10.0**power:g} s", "end"))
    ends: list[tuple[float, float, str, str]] = []
    powers = fitted(table)
    for stage, colour in zip(STAGES, COLOURS, strict=True):
        points = [place(size, row[stage]) for size, row in table.items() if row.get(stage, 0) > 0]
        if points:
            path = " ".join([f"{x:.1f},{y:.1f}" for x, y in points])
            lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            ends.append((points[-1][1], points[-1][0], stage, colour))
    above = 0.0
    for y, x, stage, colour in sorted(ends):  # names that would lie on each other are moved apart
        above = max(y, above + 15)
        lines.append(text(x + 8, above + 4, f"{stage}: n^{powers[stage]:.2f}", colour=colour))
    lines.append(text((left + width - right) / 2, height - 10, "ops of the function", "middle"))
    lines.append(text(left - 8, 14, "CPU time", "end"))
    return "\n".join([*lines, "</svg>", ""])


def printed(table: dict[int, dict[str, float]]) -> str:
    """Seconds by size and stage; the fitted power of each, and the power of the last step."""
    head = f"{'ops':>9}" + "".join([f"{stage:>17}" for stage in STAGES])
    rows = [
        f"{size:>9,}" + "".join([f"{row[stage]:>15.4g} s" if stage in row else f"{'—':>17}" for stage in STAGES])
        for size, row in table.items()
    ]
    powers = [
        f"{name:>9}" + "".join([f"{made[stage]:>17.2f}" if stage in made else f"{'—':>17}" for stage in STAGES])
        for name, made in (("fitted", fitted(table)), ("last", exponents(table)))
    ]
    return "\n".join([head, *rows, *powers])


def fitted(table: dict[int, dict[str, float]]) -> dict[str, float]:
    """The power of each stage's growth, by least squares through the logarithms of all sizes: 1 is linear."""
    made: dict[str, float] = {}
    for stage in STAGES:
        points = [(log10(size), log10(row[stage])) for size, row in table.items() if row.get(stage, 0) > 0]
        if len(points) > 1:
            made[stage] = float(np.polyfit(*np.array(points).T, 1)[0])
    return made


def exponents(table: dict[int, dict[str, float]]) -> dict[str, float]:
    """The power with which each stage grew over the last two sizes: 1 is linear."""
    small, large = sorted(table)[-2:]
    return {
        stage: log10(table[large][stage] / table[small][stage]) / log10(large / small)
        for stage in STAGES
        if stage in table[small] and table[small][stage] > 0
    }


def main(sizes: Sequence[int] = SIZES) -> None:
    table = {size: stages(size, 3 if size <= 10_000 else 1) for size in sizes}
    print(printed(table))
    folder = Path(sys.argv[1]).parent if len(sys.argv) > 1 else Path(__file__).parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "growth.svg").write_text(drawn(table))
    rows = [
        {"what": f"{stage}: power of the growth to {max(sizes):,} ops", "value": power, "unit": "", "goal": 1.2}
        for stage, power in exponents(table).items()
    ]
    rows += [
        {"what": f"{stage}: power fitted to all sizes", "value": power, "unit": ""}
        for stage, power in fitted(table).items()
    ]
    rows += [
        {"what": f"{stage}, {size:,} ops", "value": seconds, "unit": "s"}
        for size, row in table.items()
        for stage, seconds in row.items()
    ]
    report(str(__doc__), rows, __file__)


if __name__ == "__main__":
    restart_unpinned()
    main()
