"""Fixtures every test may use, and one hypothesis profile: seeded, without deadlines, printing how to reproduce."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

os.environ["TORCHLEAN_EVIDENCE_DIR"] = str(ROOT / "no-evidence-of-the-users")  # what ships is what is tested

hypothesis.settings.register_profile("torchlean", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("torchlean")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared material: TORCHLEAN_SHARED, or `shared` beside the checkout."""
    folder = Path(os.environ.get("TORCHLEAN_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder.name} is not beside the checkout and TORCHLEAN_SHARED names no folder")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _forget_what_jax_compiled() -> Iterator[None]:
    """Thousands of compiled programs would stay in the memory of a worker until it ends."""
    yield
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()
