"""`digits`: accuracy, the record and checkpoint beside it, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from torchlean.train import Trainer, checkpoint
from torchlean.train.examples import digits_cnn, digits_data


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("profile", ["checked_cpu", "fast_cpu"])
def test_at_least_96_percent(launch, model: str, profile: str) -> None:
    # One BLAS thread: OpenBLAS threads that wait for a busy machine's cores made this take up to 60 times as long.
    arguments = ("digits", "--model", model, "--profile", profile, "--require", 0.96)
    result = launch(*arguments, OPENBLAS_NUM_THREADS="1")
    assert result.returncode == 0, result.stdout
    found = re.search(r"^test accuracy  = (0\.\d{4})", result.stdout, re.MULTILINE)
    assert found is not None
    assert float(found[1]) >= 0.96
    assert len(re.findall(r"^epoch", result.stdout, re.MULTILINE)) == {"mlp": 30, "cnn": 12}[model]
    assert result.stderr == ""


def test_an_accuracy_below_the_required_one_is_a_no(run) -> None:
    result = run("digits", "--steps", 1, "--require", 0.96)
    assert result.exit_code == 1
    assert "test accuracy" in result.stdout
    assert re.match(r"digits: test accuracy 0\.\d+ is below the required 0\.96\n", result.stderr)


def test_a_record_and_a_checkpoint_are_written(run, tmp_path: Path) -> None:
    from torchlean import optim

    folder = tmp_path / "new" / "run"
    result = run("digits", "--model", "cnn", "--steps", 25, "--out", folder, "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    record = json.loads((folder / "digits.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["digits.json", "digits.safetensors"]
    assert printed["result"] == record["result"]
    assert record["parameter_count"] == 3850
    assert record["steps"] == 25
    assert [entry["steps"] for entry in record["result"]["curve"]] == [22, 25]
    assert record["checkpoint"] == "digits.safetensors"
    trainer = Trainer(digits_cnn(), "cross_entropy", optim.Adam(0.005), seed=2026)
    session = trainer.open(execution="lowered", batched=True)
    session.load(folder / "digits.safetensors")
    _, test = digits_data(2026, images=True)
    assert session.evaluate(test).accuracy == record["result"]["test_accuracy"]
    assert checkpoint.read(folder / "digits.safetensors").metadata["steps"] == "25"


def test_runs_are_reproducible(run) -> None:
    texts = [re.sub(r"time .*", "", run("digits", "--steps", 30).stdout) for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0] != re.sub(r"time .*", "", run("digits", "--steps", 30, "--seed", 1).stdout)


def test_a_place_that_cannot_be_written_is_refused_before_training(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("digits", "--steps", 1, "--out", tmp_path / "file" / "below")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: digits: --out: cannot make the folder")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_epochs_or_steps(run) -> None:
    result = run("digits", "--steps", 1, "--epochs", 1)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "error: digits: --epochs and --steps exclude one another"


def test_the_data_are_pixels_over_sixteen() -> None:
    train, test = digits_data(0)
    assert (train.inputs.shape, test.inputs.shape) == ((1437, 64), (360, 64))
    assert train.inputs.dtype == np.float32
    assert (float(train.inputs.min()), float(train.inputs.max())) == (0.0, 1.0)
    assert set(train.targets) == set(range(10))
