"""A progress bar on stderr when it is a terminal, nothing otherwise: pipes and logs get only plain lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator


@contextlib.contextmanager
def progress(title: str, total: int, *, wanted: bool = True) -> Generator[Callable[[int], None]]:
    """A function to call with the number of steps done so far."""
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
