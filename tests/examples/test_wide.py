"""The worked third-party backend: installed from its folder, found by entry point, planned, broken, tried again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "torchlean-wide"

pytestmark = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds the example, is absent")

# where torchlean is installed its entry point loads the plugin; in a checkout that was installed before, name it
PLUGIN = () if "torchlean" in {point.name for point in entry_points(group="pytest11")} else ("-p", "torchlean_pytest")

PLAN = """
import numpy as np
import torchlean as tl
from torchlean.backends import installed
from torchlean.errors import PlanRejected

x = np.full((300, 7), 0.1, np.float32)
y = np.ones((7, 2), np.float32)
profile = tl.profiles.numpy_cpu.with_modules(*installed("wide"))
made = tl.lower(lambda x, y: (tl.ops.sum(x), tl.ops.matmul(x, y)), x, y, profile=profile)
print(made.plan)
total, product = made(x, y)
if made.plan.steps[0].capsule.name == "wide.reduce_sum":
    assert abs(float(total) - 2100 * float(np.float32(0.1))) < 2e-5, float(total)
np.testing.assert_allclose(np.asarray(product), np.full((300, 2), 0.7), rtol=1e-6)
grads = tl.lower(tl.grad(lambda x, y: tl.ops.sum(tl.ops.matmul(x, y) ** 2)), x, y, profile=profile)
assert "wide.matmul" in str(grads.plan)
"""


class Place:
    """A folder the example is installed into, and a data folder of its own for evidence."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        source = folder / "source"
        shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        options = ["--no-deps", "--no-build-isolation", "--target", str(self.site), str(source)]
        done = subprocess.run([*pip, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        path = os.pathsep.join([str(self.site), str(ROOT)])
        self.environment = os.environ | {"PYTHONPATH": path, "TORCHLEAN_EVIDENCE_DIR": str(folder / "evidence")}

    def run(self, *command: str, fails: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, env=self.environment, cwd=self.site.parent
        )
        text = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, text
        return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("wide"))


def test_the_plan_chooses_it_and_its_shipped_evidence_holds(place: Place) -> None:
    text = place.run("-c", PLAN)
    assert "wide.reduce_sum" in text
    assert "wide.matmul" in text
    listed = place.run("-m", "torchlean", "evidence", "--provider", "wide")
    assert "wide.matmul" in listed
    assert "stale" not in listed
    assert "failed" not in listed


def test_its_claims_hold_in_the_kit(place: Place) -> None:
    text = place.run(
        "-m", "pytest", *PLUGIN, "--capsules", "torchlean_wide:MODULE", "-p", "no:cacheprovider", "-p", "no:xdist", "-v"
    )
    assert "8 passed" in text


def test_a_changed_kernel_is_refused_until_it_is_tried_again(place: Place) -> None:
    file = place.site / "torchlean_wide" / "kernels.py"
    source = file.read_text()
    changed = source.replace(
        "np.add.reduce(x, axes, np.float64).astype(np.float32)",
        "np.add.reduce(x.astype(np.float64), axes).astype(np.float32)",
    )
    assert changed != source
    file.write_text(changed)
    try:
        text = place.run("-c", PLAN)
        assert "torchlean_wide/kernels.py::reduce_sum" in text
        assert "numpy.reduce_sum" in text  # what runs instead is in the plan, with the reason
        assert "wide.matmul" in text  # its kernel did not change
        place.run("-m", "torchlean", "evidence", "run", "--provider", "wide", "--quick")
        assert "torchlean_wide/kernels.py::reduce_sum" not in place.run("-c", PLAN)
    finally:
        file.write_text(source)


def test_a_false_kernel_fails_its_claim_and_is_not_admitted(place: Place) -> None:
    file = place.site / "torchlean_wide" / "kernels.py"
    source = file.read_text()
    file.write_text(
        source.replace("return np.add.reduce(x, axes, np.float64)", "return 1.01 * np.add.reduce(x, axes, np.float64)")
    )
    try:
        text = place.run("-m", "torchlean", "evidence", "run", "--provider", "wide", "--quick", fails=True)
        assert "wide.reduce_sum" in text
        planned = place.run("-c", PLAN)
        assert "failed" in planned
        assert "numpy.reduce_sum" in planned
    finally:
        file.write_text(source)
