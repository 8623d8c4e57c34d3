"""The examples of `docs/plans.md` run, and print what the page shows below them.

`TORCHLEAN_WRITE_GOLDEN=1` writes the texts anew; read the diff before committing it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

from backends.plan_programs import timeless

PAIR = re.compile(r"^```python\n(?P<source>.*?)^```\n(?:\n^```text\n(?P<text>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def shown(printed: str) -> str:
    """What the page shows of an output: not what is of this machine."""
    lines = [line for line in timeless(printed).splitlines() if not line.startswith("  profile settings:")]
    return "\n".join(lines).rstrip() + "\n"


def run_page(text: str) -> tuple[str, int]:
    """The page with the outputs of its examples, and how many it shows."""
    namespace: dict[str, Any] = {"__name__": "plans"}
    made, end, count = "", 0, 0
    for found in PAIR.finditer(text):
        printed = io.StringIO()
        source = "\n" * text.count("\n", 0, found.start("source")) + found["source"]
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "plans.md", "exec"), namespace)
        if found["text"] is not None:
            made += text[end : found.start("text")] + shown(printed.getvalue())
            end = found.end("text")
            count += 1
    return made + text[end:], count


def test_the_page_shows_what_its_examples_print(root: Path) -> None:
    page = root / "docs" / "plans.md"
    text = page.read_text(encoding="utf-8")
    for _ in range(2 if os.environ.get("TORCHLEAN_WRITE_GOLDEN") else 1):  # the outputs name lines below them
        made, count = run_page(text)
        if os.environ.get("TORCHLEAN_WRITE_GOLDEN"):
            page.write_text(made, encoding="utf-8")
            text = made
    assert count == text.count("```text\n") == 6
    assert made == text
