"""What `import torchlean` costs and drags in. Measured in fresh interpreters with bytecode caches warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("jax", "jaxlib", "torch", "onnx", "cuda", "scipy", "safetensors", "click", "rich", "hypothesis")
GOAL_MS = 80  # CPU time that `import torchlean` adds to `import numpy` on an idle machine
ALLOWED_MS = 160  # a shared one may be twice as slow
RUNS = 7

LOADED = "import sys, json, torchlean; print(json.dumps(sorted(sys.modules)))"
COST = """
import numpy, json, time
started = time.process_time()
import torchlean
print(json.dumps(1000 * (time.process_time() - started)))
"""
LAZY = """
import json, sys, torchlean
before = set(sys.modules)
getattr(torchlean, sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def python(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a program in a fresh interpreter and return what it prints, read as JSON. Bytecode is kept between runs."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(program: str, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            capture_output=True,
            text=True,
            cwd=root,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def packages(modules: list[str]) -> set[str]:
    """The top-level packages of these modules."""
    return {name.split(".")[0] for name in modules}


def test_importing_torchlean_imports_no_heavy_package(python: Any) -> None:
    loaded = python(LOADED)
    assert {"numpy", "optree", "torchlean"} <= packages(loaded)
    assert packages(loaded) & set(HEAVY) == set()


def test_importing_torchlean_does_not_import_what_lies_above_the_transforms(python: Any) -> None:
    lazy = ("backends", "runtime", "nn", "numpy", "optim", "train", "cli", "data")
    loaded = python(LOADED)
    assert [name for name in loaded if name.startswith(tuple([f"torchlean.{part}" for part in lazy]))] == []


@pytest.mark.parametrize("name", ["nn", "numpy", "optim", "random", "lower", "Session"])
def test_parts_imported_on_first_use_import_no_heavy_package_either(python: Any, name: str) -> None:
    assert packages(python(LAZY, name)) & set(HEAVY) == set()


def test_importing_torchlean_is_cheap(python: Any) -> None:
    python(COST)  # writes the bytecode
    cost_ms = min([python(COST) for _ in range(RUNS)])
    print(f"import torchlean adds {cost_ms:.0f} ms CPU to import numpy (goal {GOAL_MS}, allowed {ALLOWED_MS})")
    assert cost_ms <= ALLOWED_MS
