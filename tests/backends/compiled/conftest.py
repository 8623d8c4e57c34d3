"""Generated C is compiled once per test session, into a folder of its own; without a compiler these tests skip."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from torchlean.backends.compiled import MODULE


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("TORCHLEAN_CACHE_DIR")
    os.environ["TORCHLEAN_CACHE_DIR"] = before or str(tmp_path_factory.mktemp("compiled"))
    yield
    if before is None:
        del os.environ["TORCHLEAN_CACHE_DIR"]


@pytest.fixture
def compiler() -> None:
    """Skip, saying so, where this machine has no C compiler."""
    reason = MODULE.probe()
    if reason is not None:
        pytest.skip(reason)
