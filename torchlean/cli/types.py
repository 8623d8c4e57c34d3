"""Argument types as text: `f32[32,4]`, `f32[]`, and trees of them: `(f32[2], {w: f32[8,2], b: f32[8]})`."""

from __future__ import annotations

import re
from typing import Any

from torchlean.errors import DataError, message
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType

_TENSOR = re.compile(r"([a-z]+[0-9]*)(?:\[([0-9, ]*)\])?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEEPEST = 50
EXAMPLES = "f32[32,4], f32[], (f32[2], f32[3]) or {w: f32[8,2], b: f32[8]}"


def parse_type(text: str) -> Any:
    """The type, or tuple, list or dict of types, that `text` denotes; DataError with the place it goes wrong."""
    reader = _Reader(text)
    found = reader.tree(0)
    reader.space()
    if reader.at != len(text):
        raise reader.fault("something after the type")
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fault(self, what: str) -> DataError:
        return DataError(
            message(f"cannot read the type {self.text!r}: {what} at column {self.at + 1}", expected=EXAMPLES)
        )

    def space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def takes(self, mark: str) -> bool:
        self.space()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def tree(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self.fault(f"more than {_DEEPEST} levels")
        if self.takes("("):
            return tuple(self.items(")", depth))
        if self.takes("["):
            return self.items("]", depth)
        if self.takes("{"):
            return self.entries(depth)
        return self.tensor()

    def items(self, close: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self.takes(close):
            if found and not self.takes(","):
                raise self.fault(f"expected a comma or {close!r}")
            if found and self.takes(close):
                break
            found.append(self.tree(depth + 1))
        return found

    def entries(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self.takes("}"):
            if found and not self.takes(","):
                raise self.fault("expected a comma or '}'")
            self.space()
            name = _NAME.match(self.text, self.at)
            if name is None or name[0] in found:
                raise self.fault("expected a new name")
            self.at = name.end()
            if not self.takes(":"):
                raise self.fault("expected ':'")
            found[name[0]] = self.tree(depth + 1)
        return found

    def tensor(self) -> TensorType:
        self.space()
        match = _TENSOR.match(self.text, self.at)
        named = {dtype.short: dtype for dtype in DType}
        if match is None or match[1] not in named:
            raise self.fault(f"no dtype ({', '.join(named)})")
        sizes = [size.strip() for size in (match[2] or "").split(",")] if (match[2] or "").strip() else []
        if not all(re.fullmatch("[0-9]{1,18}", size) for size in sizes):
            raise self.fault("a shape that is not a list of sizes")
        self.at = match.end()
        return TensorType(tuple([int(size) for size in sizes]), named[match[1]])
