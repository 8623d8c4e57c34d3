"""Capsule modules of other packages: found by entry point, and every way the entry can be wrong is refused by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from torchlean.backends import installed
from torchlean.errors import ConfigError

MODULE = """
from torchlean.backends import CapsuleModule, always_available

MODULE = CapsuleModule(name={name!r}, capsules=(), probe=always_available)
OTHER = 3
"""


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes an installed package with one entry point."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(package: str, name: str, value: str, *, text: str | None = None) -> None:
        (tmp_path / f"{package}.py").write_text(MODULE.format(name=name) if text is None else text)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[torchlean.capsules]\n{name} = {value}\n")
        monkeypatch.delitem(sys.modules, package, raising=False)

    return made


def text_of(*names: str) -> str:
    with pytest.raises(ConfigError) as caught:
        installed(*names)
    return str(caught.value)


def test_modules_are_found_by_name(offer: Any) -> None:
    offer("chip_two", "two", "chip_two:MODULE")
    offer("chip_one", "one", "chip_one:MODULE")
    names = [module.name for module in installed()]
    assert [name for name in names if name in ("one", "two")] == ["one", "two"]
    assert [module.name for module in installed("two", "one")] == ["two", "one"]


def test_a_name_nobody_offers_is_refused() -> None:
    text = text_of("absent_chip")
    assert text.startswith("no installed package offers the capsule module 'absent_chip'\n  expected: ")
    assert text.endswith("  got:      'absent_chip'\n  fix:      install the package that provides it")


def test_two_packages_of_one_name_are_refused(offer: Any) -> None:
    offer("chip_a", "same", "chip_a:MODULE")
    offer("chip_b", "same", "chip_b:MODULE")
    assert text_of() == (
        "two installed packages offer the capsule module 'same'\n"
        "  expected: one entry point of that name in the group torchlean.capsules\n"
        "  got:      chip_a:MODULE and chip_b:MODULE\n"
        "  fix:      uninstall one of them"
    )


def test_a_package_that_cannot_be_imported_is_refused(offer: Any) -> None:
    offer("chip_broken", "broken", "chip_broken:MODULE", text="import no_such_library")
    assert text_of("broken") == (
        "the capsule module 'broken' cannot be loaded from chip_broken:MODULE\n"
        "  got:      ModuleNotFoundError: No module named 'no_such_library'\n"
        "  fix:      repair or uninstall the package that provides it"
    )


@pytest.mark.parametrize(
    ("package", "value", "got"),
    [
        ("chip_number", "chip_number:OTHER", "int"),
        ("chip_named", "chip_named:MODULE", "a module named 'another'"),
    ],
)
def test_an_entry_that_is_no_module_of_its_name_is_refused(offer: Any, package: str, value: str, got: str) -> None:
    offer(package, "mine", value, text=MODULE.format(name="another"))
    assert text_of("mine") == (
        f"the entry point 'mine' is {value}, which is not its capsule module\n"
        "  expected: a CapsuleModule named 'mine'\n"
        f"  got:      {got}\n"
        "  fix:      correct the entry point in the package that provides it"
    )
