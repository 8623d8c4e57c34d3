"""Symbols of a file: what leaves their hashes alone, and what does not."""

from __future__ import annotations

import pytest

from torchlean.evidence.source import file_hash, symbols_of

TEXT = '''"""Doc."""
import numpy as np
from torchlean.ir import ops as o

TABLE = {"a": 1}
TABLE["b"] = 2


class Box(Base):
    """Doc."""

    size: int = 3

    def area(self, by):
        """Doc."""
        return self.size * by  # why

    def other(self):
        return 1


EXP = unary(
    "exp",
    denote=lambda a, x: a.exp(x),
    partial=lambda p, y, x: slope(y),
    batch=Pointwise(),
    doc="words",
)


def double(x, *, batch=2):
    """Doc."""
    from math import pi

    y = helper(x, batch=batch)
    return len(y) * pi
'''


def hashes(text: str) -> dict[str, str]:
    return {name: symbol.hash for name, symbol in symbols_of(text, "pack.mod", is_package=False).items()}


def changed(old: str, new: str) -> set[str]:
    assert TEXT.count(old) == 1
    before, after = hashes(TEXT), hashes(TEXT.replace(old, new))
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def test_the_symbols_of_a_file() -> None:
    names = {"np", "o", "TABLE", "Box", "Box.area", "Box.other", "EXP", "EXP@rules", "double"}
    assert set(hashes(TEXT)) == names


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # why", "  # because"),
        ('        """Doc."""\n        return self', "        return self"),
        ('"""Doc."""\nimport', '"""Other words."""\nimport'),
        ('doc="words"', 'doc="other words"'),
        ("batch=Pointwise()", "batch=Rule(f)"),
        ("def double(x, *, batch=2):", "def double(\n    x,\n    *,\n    batch=2,\n):"),
        ("self.size * by", "(self.size * by)"),
        ('"a": 1', "'a': 1,"),
    ],
)
def test_comments_docstrings_layout_and_batching_change_no_hash(old: str, new: str) -> None:
    assert changed(old, new) == set()


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("import numpy as np", "import other as np", {"np"}),
        ("import ops as o", "import op as o", {"o"}),
        ('"a": 1', '"a": 2', {"TABLE"}),
        ('TABLE["b"] = 2', 'TABLE["b"] = 3', {"TABLE"}),
        ("self.size * by", "self.size + by", {"Box.area"}),
        ("size: int = 3", "size: int = 4", {"Box"}),
        ("class Box(Base)", "class Box(Other)", {"Box"}),
        ("def other(self)", "def __eq__(self)", {"Box", "Box.other", "Box.__eq__"}),
        ("a.exp(x)", "a.exp(x + 0)", {"EXP"}),
        ("slope(y)", "slope(x)", {"EXP@rules"}),
        ("batch=2", "batch=3", {"double"}),
        ("batch=batch)", "batch=x)", {"double"}),
        ("from math import pi", "from cmath import pi", {"double"}),
        ("* pi", "* pi\n\n\ndef len(x):\n    return 0", {"double", "len"}),  # a name that was built in
    ],
)
def test_what_changes_a_hash(old: str, new: str, names: set[str]) -> None:
    assert changed(old, new) == names


def test_what_a_symbol_refers_to() -> None:
    made = symbols_of(TEXT, "pack.mod", is_package=False)
    assert made["double"].chains == (("=math", "pi"), ("helper",), ("len",))
    assert made["Box.area"].attributes == {"size"}
    assert (made["Box"].members, made["Box"].bases) == ({"area", "other"}, (("Base",),))
    assert made["EXP"].attributes == {"exp"}
    assert ("slope",) in made["EXP@rules"].chains
    assert ("slope",) not in made["EXP"].chains
    assert made["o"].chains == (("torchlean.ir", "ops"),)


def test_relative_and_conditional_imports() -> None:
    text = "if A:\n    from .b import c\nelse:\n    from ..d import c as e\nfrom .f import *\n"
    made = symbols_of(text, "pack.inner.mod", is_package=False)
    assert made["c"].chains == (("pack.inner.b", "c"),)
    assert made["e"].chains == (("pack.d", "c"),)
    assert made["*"].chains == (("pack.inner.f",),)
    assert symbols_of("from . import x", "pack", is_package=True)["x"].chains == (("pack", "x"),)


def test_line_ends_do_not_change_the_hash_of_a_file() -> None:
    assert file_hash(b"a\r\nb\r\n") == file_hash(b"a\nb\n")
    assert file_hash(b"a\n") != file_hash(b"a \n")
