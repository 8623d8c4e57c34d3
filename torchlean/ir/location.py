"""Where a node comes from: the user's file, line and function.

A location keeps the code object and the instruction offset; the line is worked out only when somebody asks, since
tracing makes one location per node.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_new = object.__new__

# Files of this package, and code it generated.
_OURS = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<torchlean")


class SourceLocation:
    """A place in a user's program. `str()` is `train.py:42 in loss`."""

    __slots__ = ("_code", "_filename", "_function", "_line", "_offset", "derivative_of")

    def __init__(self, filename: str, line: int, function: str) -> None:
        self.derivative_of = ""  # of a node that a derivative transform made: the op it differentiates
        self._code: CodeType | None = None
        self._offset = -1
        self._filename = filename
        self._line = line
        self._function = function

    @staticmethod
    def of_instruction(code: CodeType, offset: int) -> SourceLocation:
        """A location whose line is looked up on demand."""
        made = SourceLocation.__new__(SourceLocation)
        made._code = code
        made._offset = offset
        made.derivative_of = ""
        return made

    def derivative(self, op: str) -> SourceLocation:
        """This place, for what the derivative of an op consists of; a derivative of that keeps the op it has."""
        made = _new(SourceLocation)
        made._code = code = self._code
        if code is None:
            made._filename, made._line, made._function = self._filename, self._line, self._function
        made._offset = self._offset
        made.derivative_of = self.derivative_of or op
        return made

    @property
    def filename(self) -> str:
        return self._filename if self._code is None else self._code.co_filename

    @property
    def is_traced(self) -> bool:
        """Whether it was seen in this process, and not read from a file that may name any place."""
        return self._code is not None

    @property
    def function(self) -> str:
        return self._function if self._code is None else self._code.co_name

    @property
    def line(self) -> int:
        if self._code is None:
            return self._line
        best = self._code.co_firstlineno
        for start, end, line in self._code.co_lines():
            if start <= self._offset < end and line is not None:
                best = line
        return best

    def __str__(self) -> str:
        if not self.filename:
            return "no user code"
        text = f"{os.path.basename(self.filename)}:{self.line} in {self.function}"
        return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a file name may hold bytes that are no text

    def __repr__(self) -> str:
        return f"SourceLocation({self})"


NOWHERE = SourceLocation("", 0, "")


def is_ours(code: CodeType) -> bool:
    """Whether code belongs to this package."""
    return code.co_filename.startswith(_OURS)


def caller_location() -> SourceLocation:
    """The innermost frame outside this package: the line of the user's call."""
    return location_from(sys._getframe(1), set())


def location_from(frame: FrameType | None, ours: set[str]) -> SourceLocation:
    """The innermost frame outside this package, from `frame` on. `ours` remembers files found to be of this package."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in ours:
            if not code.co_filename.startswith(_OURS):
                made = _new(SourceLocation)
                made._code = code
                made._offset = frame.f_lasti
                made.derivative_of = ""
                return made
            ours.add(code.co_filename)
        frame = frame.f_back
    return NOWHERE
