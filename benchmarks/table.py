"""Where does every goal of the CPU stand? A line for each, from the JSON that the other files wrote.

`python benchmarks/table.py [FOLDER]`; a goal against several peers is held against the best of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
GOALS: tuple[tuple[str, str, str], ...] = (  # what is asked, the file that measures it, how the text of its rows begins
    ("trace + grad of a 1000-layer MLP", "trace_grad", "trace + grad of 1000 layers"),
    ("the same, ready to call, as Python", "framework", "the gradient of 1000 layers, ready"),
    ("grad on arrays, not lowered, 2-8-1 MLP", "framework", "grad of the 2-8-1 MLP on arrays"),
    ("eager add of 16 floats", "framework", "eager add of 16 floats"),
    ("train step, 2-8-1 MLP, batch 25, Adam", "compiled", "2-8-1 MLP, batch 25, Adam"),
    ("train step, 64-128-10 MLP, batch 64", "compiled", "64-128-10 MLP, batch 64"),
    ("512³ float32 product, one thread", "compiled", "512³ float32 product"),
    ("1024³ float32 product, one thread", "compiled", "1024³ float32 product"),
    ("chain of 8 ops on 10⁷ floats", "compiled", "chain of 8 on 10⁷"),
    ("softmax 4096×1024", "compiled", "softmax 4096×1024"),
    ("layer norm 4096×1024", "compiled", "layer norm 4096×1024"),
    ("conv 64×3×32×32 → 64, 3×3, forward", "compiled", "conv 64×3×32×32 → 64, 3×3 /"),
    ("conv 64×3×32×32 → 64, 3×3, gradient", "compiled", "conv 64×3×32×32 → 64, 3×3, gradient"),
    ("attention B4 H8 T256 D64, forward", "compiled", "attention B4 H8 T256 D64 /"),
    ("attention B4 H8 T256 D64, gradient", "compiled", "attention B4 H8 T256 D64, gradient"),
    ("peak memory, grad of a 200-layer MLP", "framework", "peak memory of the grad of 200 layers"),
    ("import torchlean over import numpy", "import_time", "import torchlean, CPU time over import numpy"),
    ("growth from 10 to 10⁵ ops, power of", "growth", ""),
)


def rows_of(folder: Path, file: str) -> list[dict[str, Any]] | None:
    """What a benchmark wrote; None where it has not run."""
    path = folder / f"{file}.json"
    return json.loads(path.read_text())["rows"] if path.is_file() else None


def line(what: str, file: str, start: str, folder: Path) -> tuple[str, str, str, str]:
    """Verdict, value, goal and text: of the rows with a goal the one that comes out worst."""
    rows = rows_of(folder, file)
    if rows is None:
        return "—", "", "", f"{what}: not measured, run `python benchmarks/{file}.py`"
    held = [row for row in rows if row.get("goal") is not None and row["what"].startswith(start)]
    if not held:
        return "—", "", "", f"{what}: {file}.json has no such row, run `python benchmarks/{file}.py`"
    worst = max(held, key=lambda row: row["value"] / row["goal"])
    peer = (
        f" / {worst['against']}"
        if worst.get("against")
        else f" ({worst['what'].partition(':')[0]})"
        if not start
        else ""
    )
    unit = {"ratio": "×", "": ""}.get(worst["unit"], f" {worst['unit']}")
    verdict = "met" if worst["value"] <= worst["goal"] else "MISSED"
    return verdict, f"{worst['value']:.3g}{unit}", f"{worst['goal']:g}{unit}", f"{what}{peer}"


def table(folder: Path) -> str:
    """Every goal; then what the numbers were measured on, which should be one machine."""
    lines = [("", "value", "goal", "what / the best peer"), *[line(*goal, folder) for goal in GOALS]]
    widths = [max([len(each[column]) for each in lines]) for column in range(3)]
    text = [
        "  ".join([*[cell.rjust(width) for cell, width in zip(each[:3], widths, strict=True)], each[3]])
        for each in lines
    ]
    return "\n".join([*text, *sorted(_machines(folder))])


def _machines(folder: Path) -> set[str]:
    found: set[str] = set()
    for file in dict.fromkeys([file for _, file, _ in GOALS]):
        path = folder / f"{file}.json"
        if path.is_file():
            told = json.loads(path.read_text())["machine"]
            versions = ", ".join([f"{name} {told['versions'].get(name, '?')}" for name in ("numpy", "jax", "torch")])
            found.add(f"{told['processor']}, {told['cores']} cores; {versions}; {told.get('compiler', '?')}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where a goal is not measured."""
    folder = Path(arguments[0]) if arguments else FOLDER
    made = table(folder)
    print(made)
    return int("not measured" in made or "has no such row" in made)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
