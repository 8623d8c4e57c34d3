"""The text of a user's line, for nodes that were traced in this process.

A graph that was read from a file may name any file of this machine as its place, so its lines are never opened.
"""

from __future__ import annotations

import linecache

from torchlean.ir.location import SourceLocation
from torchlean.report.escape import cut

_LONGEST = 200


class SourceLines:
    """Lines of source files, each file looked at once per report."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()

    def text(self, where: SourceLocation) -> str:
        """The line without its indentation; empty when it cannot be known."""
        if not where.is_traced:
            return ""
        if where.filename not in self._fresh:
            self._fresh.add(where.filename)
            linecache.checkcache(where.filename)
        return cut(linecache.getline(where.filename, where.line).strip(), _LONGEST)
