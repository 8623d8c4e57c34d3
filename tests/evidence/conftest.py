"""A provider outside torchlean, and a data folder of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from evidence.chip import Chip, importable

NUMBERS = count()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own records, still absent."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TORCHLEAN_EVIDENCE_DIR", str(folder))
    return folder


@pytest.fixture
def chip(tmp_path: Path, home: Path) -> Iterator[Chip]:
    """A fresh provider, nothing recorded."""
    with importable(tmp_path / "site", f"chip{next(NUMBERS)}") as made:
        yield made
