"""Tests of error texts: `@refused(kind, text)` turns a function that must raise into a test of the whole message.

In `text`, `@` stands for the user's place, `file.py:line in function`. The line is taken from the traceback: the
innermost frame of the test's own file. An error about an earlier line marks that line with the comment `# the cause`.
Another place a message names is `~`, and its line is marked `# made here`.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

CAUSE = "# the cause"
MADE = "# made here"
MAX_LINES = 6


def innermost(filename: str, trace: TracebackType | None) -> str:
    """`file.py:line in function` of the last frame of a traceback that lies in a file."""
    place = "nowhere"
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == filename:
            place = f"{os.path.basename(filename)}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return place


def marked(body: Callable[[], Any], mark: str) -> int | None:
    """The line of the body that ends in a mark."""
    lines, first = inspect.getsourcelines(body)
    found = [first + at for at, line in enumerate(lines) if line.rstrip().endswith(mark)]
    assert len(found) <= 1
    return found[0] if found else None


def with_makers(text: str, body: Callable[[], Any]) -> str:
    """The text with the other place of the test's file it names, which must be the marked one, as `~`."""
    line = marked(body, MADE)
    pattern = rf"{re.escape(os.path.basename(body.__code__.co_filename))}:(\d+) in (\w+|<lambda>)"
    lines = {int(found.group(1)) for found in re.finditer(pattern, text)}
    assert lines == (set() if line is None else {line}), f"line {line} is marked, lines {lines} are named:\n{text}"
    return re.sub(pattern, "~", text)


def explained(body: Callable[[], Any], kind: type[Exception]) -> str:
    """The message of what `body` raises, with its place replaced by `@`."""
    with pytest.raises(kind) as caught:
        body()
    assert type(caught.value) is kind
    got = str(caught.value)
    first = got.splitlines()[0]
    line = marked(body, CAUSE)
    filename = body.__code__.co_filename
    if line is None:
        place = innermost(filename, caught.value.__traceback__)
        assert f"({place})" in first, f"not at {place}:\n{got}"
        return with_makers(got.replace(place, "@"), body)
    before, _, after = first.partition(f"({os.path.basename(filename)}:{line} in ")
    assert after.endswith(")"), f"not at line {line}:\n{got}"
    return "\n".join([f"{before}(@)", *got.splitlines()[1:]])


def assert_well_formed(text: str) -> None:
    """At most six lines; after the first, each is one of expected, got, fix, in that order."""
    lines = text.splitlines()
    assert 1 <= len(lines) <= MAX_LINES
    labels = [line[:12] for line in lines[1:]]
    order = ["  expected: ", "  got:      ", "  fix:      "]
    assert labels == [label for label in order if label in labels], labels
    assert "  fix:      " in labels, "no fix"


def refused(kind: type[Exception], text: str) -> Callable[[Callable[[], Any]], Callable[[], None]]:
    """A test that the function raises `kind` with exactly this message."""

    def make(body: Callable[[], Any]) -> Callable[[], None]:
        @functools.wraps(body)
        def test() -> None:
            got = explained(body, kind)
            assert got == text.strip("\n")
            assert_well_formed(got)

        return test

    return make
