"""`pytest --capsules`: what is collected, how a lie is reported, what is recorded, and that it costs nothing unasked.

Each test runs pytest in a folder of its own. `-p torchlean_pytest` names the plugin as its entry point does, so that
the tests hold whether or not the checkout is installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

HONEST = """
from capsules.lies import LIES, HONEST, capsule, module
from dataclasses import replace
from torchlean.evidence.ledger import Ledger

MODULE = replace(HONEST, capsules=HONEST.capsules[:2])
LIAR = next(lie for lie in LIES if lie.name == "a bound of 1 ulp, 4 off").module
RECORDED = replace(MODULE, ledger=Ledger("liar", package="torchlean", shipped=None, libraries=("numpy",)))
ELSEWHERE = replace(MODULE, probe=lambda: "no chip is plugged in")
"""


@pytest.fixture
def kit(tmp_path: Path, root: Path) -> Any:
    """Run pytest with these arguments beside a package `mine`: the exit code, and what was printed."""
    (tmp_path / "mine.py").write_text(HONEST)
    paths = [str(tmp_path), str(root), str(root / "tests")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTEST_ADDOPTS", None)

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "torchlean_pytest", "-p", "no:cacheprovider", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_one_item_per_capsule_and_contract(kit: Any) -> None:
    code, text = kit("--capsules", "mine:MODULE", "--collect-only", "-q")
    assert code == 0, text
    assert text.splitlines()[:8] == [
        f"mine:MODULE::liar.{op}::{claim}" for op in ("add", "exp") for claim in ("shape", "layout", "value", "vjp")
    ]
    assert "8 tests collected" in text


def test_an_honest_module_passes_and_others_of_the_folder_are_left_alone(kit: Any, tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_other(): raise AssertionError")
    code, text = kit("--capsules", "mine:MODULE", "--capsules-quick")
    assert code == 0, text
    assert "8 passed" in text
    code, text = kit("--capsules", "mine:MODULE", "--capsules-quick", "test_other.py")
    assert code == 1
    assert "1 failed, 8 passed" in text


def test_a_lie_is_reported_so_that_its_author_can_act(kit: Any) -> None:
    code, text = kit("--capsules", "mine:LIAR", "-n", "2")
    assert code == 1
    assert "1 failed, 3 passed" in text
    assert "liar.exp value: lies outside the claimed bound (exp-f64[3,5] (f64[3,5]))" in text
    assert re.search(
        r"  expected: np\.float64\(.*\) at \[0, 0\], 1 ulp\n  got:      np\.float64\(.*\), 4 ulp away", text
    )
    assert "  fix:      correct the kernel, or claim the bound it keeps" in text
    assert re.search(r"^\d+ cases, seed 0; claimed: 1 ulp$", text, re.MULTILINE)
    assert re.search(r"^worst deviation: 4 ulp; ulp .*3-4: \d+", text, re.MULTILINE)
    assert "Traceback" not in text
    assert "run_contracts" not in text


def test_a_module_that_cannot_run_here_is_skipped(kit: Any) -> None:
    code, text = kit("--capsules", "mine:ELSEWHERE", "-rs")
    assert code == 0
    assert "8 skipped" in text
    assert "honest cannot run here: no chip is plugged in" in text


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_was_found_is_recorded(kit: Any, tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "records"
    code, text = kit("--capsules", "mine:RECORDED", "--capsules-quick", "--evidence-out", str(folder), "-n", workers)
    assert code == 0, text
    assert f"mine:RECORDED: 8 claims recorded in {folder / 'liar.json'}" in text
    held = json.loads((folder / "liar.json").read_text())
    assert len(held["body"]["claims"]) == 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--capsules", "mine"), "--capsules: 'mine' does not name a capsule module"),
        (
            ("--capsules", "nowhere.at:ALL"),
            "got:      ModuleNotFoundError: No module named 'nowhere'",
        ),
        (("--capsules", "mine:HONESTY"), "--capsules: mine:HONESTY is NoneType, not a CapsuleModule"),
        (("--capsules", "mine:HONESTY"), "expected: one of those in mine: HONEST, MODULE, LIAR"),
        (("--capsules", "mine:MODULE", "--evidence-out", "x"), "capsule module `honest` has no ledger to write to"),
        (("--evidence-out", "x"), "--evidence-out needs --capsules PACKAGE.MODULE:NAME: there is nothing to record"),
    ],
)
def test_a_wrong_request_is_refused_with_what_to_do(kit: Any, arguments: tuple[str, ...], told: str) -> None:
    code, text = kit(*arguments)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert told in text


def test_samples_beside_the_module_are_checked(kit: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HONEST + "SAMPLES = [1]")
    code, text = kit("--capsules", "mine:MODULE")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "SAMPLES in mine is not a tuple of samples and calls" in text


def test_unasked_it_imports_nothing(kit: Any, tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    assert 'torchlean_pytest' in sys.modules\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] in ('torchlean', 'numpy')]\n"
    )
    code, text = kit("test_light.py", "-n", "0")
    assert code == 0, text
    assert "1 passed" in text


def test_the_distribution_names_the_plugin_and_carries_it(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"torchlean_pytest": "torchlean_pytest"}
    assert "torchlean_pytest" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
