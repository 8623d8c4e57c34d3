"""On a copy of the package: a line of a handler changes, the plan is refused; the evidence is run, it is accepted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLAN = """
import sys
import numpy as np
import torchlean as tl
from torchlean import ops
assert tl.__file__.startswith(sys.argv[1]), tl.__file__
x = np.ones(3, np.float32)
print(tl.lower(getattr(ops, sys.argv[2]), *[x] * int(sys.argv[3]), profile=tl.profiles.reference_cpu).plan)
"""
LINE = "    return _ALGEBRA.min(_ALGEBRA.max(x, low), high)"
SAME = "    return _ALGEBRA.min(_ALGEBRA.max(x, low), high) if True else None"
WRONG = "    return _ALGEBRA.min(_ALGEBRA.max(x, low), low)"


class Copy:
    """The package in a folder of its own, run in new processes."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / "torchlean", folder / "torchlean", ignore=ignored)
        shutil.copy(root / "pyproject.toml", folder)
        self.handlers = folder / "torchlean" / "backends" / "reference" / "elementwise.py"
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "TORCHLEAN_EVIDENCE_DIR": str(folder / "home"),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, cwd=self.folder, env=self.environment
        )

    def plan(self, function: str = "clamp", operands: int = 3) -> str:
        """The plan's text, or what was raised."""
        done = self.python("-c", PLAN, str(self.folder), function, str(operands))
        return done.stdout if done.returncode == 0 else done.stderr

    def evidence(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "torchlean", "evidence", *arguments)

    def edit(self, old: str, new: str) -> None:
        text = self.handlers.read_text()
        assert text.count(old) == 1
        self.handlers.write_text(text.replace(old, new))


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Copy:
    return Copy(root, tmp_path)


def test_change_a_line_be_refused_run_the_evidence_be_accepted(copy: Copy) -> None:
    assert "reference.clamp  checked" in copy.plan()
    copy.edit(LINE, f"{LINE}  # a comment")
    assert "(stale)" not in (accepted := copy.plan())
    assert "reference.clamp  checked" in accepted
    copy.edit(f"{LINE}  # a comment", SAME)
    refused = copy.plan()
    for obligation in ("value", "vjp"):
        assert (
            f"reference.clamp has no admissible {obligation} evidence for clamp: stale, "
            "torchlean/backends/reference/elementwise.py::clamp changed; "
            "to refresh it: torchlean evidence run --capsule reference.clamp"
        ) in refused
    assert "PlanRejected" in refused
    assert "reference.exp  checked" in copy.plan("exp", 1)  # nothing else of the file is stale
    assert copy.evidence("--check", "--capsule", "reference.clamp").returncode == 1
    made = copy.evidence("run", "--quick", "--capsule", "reference.clamp")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("reference: 4 of 4 claims passed in ")
    assert made.stdout.strip().endswith(f"recorded in {copy.folder / 'home' / 'reference.json'}")
    assert "reference.clamp  checked  n/a  tested: …::" in (accepted := copy.plan())
    assert "(fresh)" in accepted
    assert copy.evidence("--check", "--capsule", "reference.clamp").returncode == 0


def test_a_wrong_line_stays_refused_and_a_shipped_run_writes_the_package(copy: Copy) -> None:
    copy.edit(LINE, WRONG)
    made = copy.evidence("run", "--quick", "--capsule", "reference.clamp")
    assert made.returncode == 1
    assert "  failed: reference.clamp value: " in made.stdout
    refused = copy.plan()
    assert "reference.clamp has no admissible value evidence for clamp: failed, " in refused
    copy.edit(WRONG, SAME)
    records = copy.folder / "torchlean" / "evidence" / "records" / "reference.json"
    before = records.read_bytes()
    made = copy.evidence("run", "--quick", "--shipped", "--capsule", "reference.clamp")
    assert made.returncode == 0, made.stderr
    assert records.read_bytes() != before
    assert "reference.clamp  checked" in copy.plan()
