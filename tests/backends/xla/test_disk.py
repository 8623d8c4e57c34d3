"""Executables on disk: jax's own cache keeps them, and another process compiles nothing anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
PROGRAM = """
import collections
import jax
import numpy as np
import torchlean as tl
from torchlean import ops

events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rsplit("/", 1)[-1]]))
profile = tl.profiles.xla_cpu.under(tl.profiles.xla_cpu.policy.allowing_stale())
lowered = tl.lower(lambda x: ops.sum(ops.tanh(x) @ x), np.ones((8, 8), np.float32), profile=profile)
print(float(lowered(np.ones((8, 8), np.float32))), events["cache_hits"], events["cache_misses"])
"""


def run(folder: Path, root: Path) -> list[str]:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(root),
    }
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_another_process_reads_what_one_has_compiled(tmp_path: Path, root: Path) -> None:
    value, hits, misses = run(tmp_path, root)
    assert (hits, misses) == ("0", "1")
    kept = sorted(tmp_path.iterdir())
    assert kept
    assert run(tmp_path, root) == [value, "1", "0"]
    assert sorted(tmp_path.iterdir()) == kept
