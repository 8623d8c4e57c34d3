"""The examples of the README run as written: every ```python block, in order, in one namespace, in an empty folder.

A block marked ```python notest is shown to readers only.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FENCE = re.compile(r"^```(?P<info>.*)$")


class Block(NamedTuple):
    """A code block: its text, and the line of the README its first line is on."""

    line: int
    source: str


def python_blocks(text: str) -> list[Block]:
    """The ```python blocks of a Markdown text that are not marked `notest`."""
    blocks: list[Block] = []
    info: list[str] | None = None
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if fence is None:
            held.append(line)
        elif info is None:
            info, held = fence["info"].split(), []
        else:
            if info[:1] == ["python"] and "notest" not in info:
                blocks.append(Block(number - len(held), "\n".join(held)))
            info = None
    assert info is None, "a code block is not closed"
    return blocks


def run(blocks: list[Block], filename: str) -> tuple[dict[str, Any], str]:
    """Execute the blocks in one namespace, located at their lines of the file: the namespace, and what was printed."""
    namespace: dict[str, Any] = {"__name__": "readme"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            source = "\n" * (block.line - 1) + block.source
            exec(compile(source, filename, "exec"), namespace)
    return namespace, printed.getvalue()


def test_the_examples_of_the_readme_run(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = root / "README.md"
    blocks = python_blocks(readme.read_text(encoding="utf-8"))
    assert len(blocks) == readme.read_text(encoding="utf-8").count("```python\n") >= 5
    monkeypatch.chdir(tmp_path)
    _, printed = run(blocks, str(readme))
    assert printed


EXAMPLE = """Text
```python
x = 1
```
```sh
exit 1
```
```python notest
raise SystemExit
```
  ```python
  indented fences are text
  ```
```python
y = x + 1

print(y)
```
"""


def test_blocks_are_found_with_their_lines_and_run_in_one_namespace() -> None:
    blocks = python_blocks(EXAMPLE)
    assert [block.line for block in blocks] == [3, 15]
    namespace, printed = run(blocks, "example.md")
    assert (namespace["y"], printed) == (2, "2\n")


def test_a_failing_block_is_located() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(python_blocks("# Title\n\n```python\nx = 0\n1 / x\n```\n"), "example.md")
    assert [(entry.path, entry.lineno + 1) for entry in caught.traceback[-1:]] == [("example.md", 5)]


def test_an_open_block_is_refused() -> None:
    with pytest.raises(AssertionError, match="not closed"):
        python_blocks("```python\nx = 1\n")
