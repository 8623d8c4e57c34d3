"""Closures: what is reached from a symbol, and what a change to a file spoils."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchlean.evidence import closure
from torchlean.evidence.closure import Closure, Reached, Sources

FILES = {
    "__init__.py": "from pack.low import helper as shown\nfrom pack.star import *\n",
    "low.py": (
        "import numpy as np\n\nLIMIT = 3\n\n\ndef helper(x):\n    return np.exp(x) + LIMIT\n\n\n"
        "def lonely():\n    pass\n"
    ),
    "star.py": "def starred():\n    return 1\n",
    "shapes.py": (
        "class Base:\n    def __init__(self):\n        pass\n\n    def area(self):\n        return 0\n\n"
        "    def unasked(self):\n        return 0\n\n\n"
        "class Square(Base):\n    def side(self):\n        return 1\n"
    ),
    "top.py": (
        "import pack\nfrom pack import shown\nfrom pack.shapes import Square\n"
        "from torchlean.errors import message\n\n\n"
        "def start(x):\n    from pack.low import LIMIT as most\n\n    message('')\n    return shown(x) + most\n\n\n"
        "def measure(shape: Square):\n    return shape.area()\n\n\n"
        "def starts():\n    return pack.starred()\n"
    ),
}


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "pack"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]


def reached(*roots: str) -> list[str]:
    made = Closure(Sources(["pack", "torchlean"]))
    made.add([("pack.top", root) for root in roots])
    return [f"{held.path.removeprefix('pack/').removesuffix('.py')}::{held.name}" for held in made.listed()]


def test_names_are_followed_through_imports_and_reexports(pack: Path) -> None:
    assert reached("start") == [
        "__init__::shown",
        "low::LIMIT",
        "low::helper",
        "low::np",
        "top::message",
        "top::shown",
        "top::start",
    ]


def test_of_a_class_the_methods_that_are_asked_for_are_reached(pack: Path) -> None:
    assert reached("measure") == [
        "shapes::Base",
        "shapes::Base.__init__",
        "shapes::Base.area",
        "shapes::Square",
        "shapes::Square.area",  # which is absent, and must stay so
        "top::Square",
        "top::measure",
    ]


def test_star_imports_are_followed(pack: Path) -> None:
    assert reached("starts") == ["__init__::*", "star::starred", "top::pack", "top::starts"]


def listed(*roots: str) -> tuple[Reached, ...]:
    made = Closure(Sources(["pack"]))
    made.add([("pack.top", root) for root in roots])
    return made.listed()


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("low.py", "LIMIT = 3", "LIMIT = 4", {"low.py::LIMIT": "changed"}),
        ("low.py", "def lonely():\n    pass", "def lonely():\n    return 2", {}),
        ("low.py", "LIMIT = 3", "LIMIT = 3  # three", {}),
        ("low.py", "def helper(x)", "def aided(x)", {"low.py::helper": "was removed"}),
        ("shapes.py", "def unasked(self):\n        return 0", "def unasked(self):\n        return 9", {}),
        ("shapes.py", "def side(self)", "def area(self)", {"shapes.py::Square.area": "was added"}),
        ("__init__.py", "low import helper", "star import starred", {"__init__.py::shown": "changed"}),
        (
            "star.py",
            "def starred():\n    return 1",
            "def starred(:",
            {"star.py::starred": "cannot be read (SyntaxError)"},
        ),
    ],
)
def test_only_symbols_that_differ_are_changed(pack: Path, file: str, old: str, new: str, found: dict[str, str]) -> None:
    symbols = listed("start", "measure", "starts")
    path = pack / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    made = closure.changed(symbols, {f"pack/{file}": path})
    assert {f"{symbols[at].path}::{symbols[at].name}".removeprefix("pack/"): how for at, how in made.items()} == found


def test_a_file_that_is_gone_is_named(pack: Path) -> None:
    symbols = listed("start")
    (pack / "low.py").unlink()
    made = closure.changed(symbols, {"pack/low.py": pack / "low.py"})
    assert {symbols[at].name for at in made} == {"LIMIT", "helper", "np"}
    assert set(made.values()) == {"is not there"}
    assert set(closure.changed(symbols, {"pack/low.py": None}).values()) == {"is not installed"}


def test_what_is_spoiled_is_what_reaches_a_change(pack: Path) -> None:
    symbols = listed("start", "measure")
    limit = next(at for at, held in enumerate(symbols) if held.name == "LIMIT")
    bad = {symbols[at].name for at in closure.spoiled(symbols, [limit])}
    assert bad == {"LIMIT", "helper", "shown", "start"}
    start = next(at for at, held in enumerate(symbols) if held.name == "start")
    assert limit in closure.reached_from(symbols, [start])


def test_modules_without_source_are_not_followed() -> None:
    assert closure.place_of("builtins") is None
    assert closure.place_of("no_such_package_anywhere.inner") is None
    assert closure.file_here("no_such_package_anywhere/inner.py") is None
    here = closure.file_here("torchlean/ir/op.py")
    assert here is not None
    assert here.is_file()
