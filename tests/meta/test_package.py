"""What the package must carry: types, versions that agree, licences, short files."""

from __future__ import annotations

import tomllib
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import pytest

import torchlean

LONGEST = 500  # lines; HOUSE_STYLE aims at 300


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def test_the_versions_agree(project: dict[str, Any]) -> None:
    assert torchlean.__version__ == project["version"]
    assert metadata.version("torchlean") == project["version"]


def test_the_changelog_has_this_version(project: dict[str, Any], root: Path) -> None:
    assert project["version"] in (root / "CHANGELOG.md").read_text()


def test_the_package_is_typed_and_carries_its_data() -> None:
    names = {entry.name for entry in resources.files("torchlean").iterdir()}
    assert "py.typed" in names
    stored = {entry.name for entry in resources.files("torchlean.data").iterdir()}
    assert {"digits.npz", "DIGITS_ATTRIBUTION.md"} <= stored
    assert {"__init__.py", "README.md"} <= {entry.name for entry in resources.files("cuda_kernels").iterdir()}


def test_the_licence_files_exist(project: dict[str, Any], root: Path) -> None:
    assert len(project["license-files"]) == 2
    for name in project["license-files"]:
        assert (root / name).is_file(), name
    assert "MIT License" in (root / "LICENSE").read_text()
    attribution = (root / "torchlean" / "data" / "DIGITS_ATTRIBUTION.md").read_text()
    assert "CC BY 4.0" in attribution
    assert "BSD-3-Clause" in attribution


def test_no_file_is_longer_than_a_reader_can_hold(root: Path) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (root / "torchlean").rglob("*.py")}
    assert len(lengths) >= 3
    assert {str(path.relative_to(root)): n for path, n in lengths.items() if n > LONGEST} == {}
