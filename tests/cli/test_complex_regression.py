"""`complex_regression`: it learns, repeats itself bit for bit, and keeps both components in a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from torchlean.train import checkpoint, complex_regression


def test_it_prints_both_components_and_learns_the_target(run) -> None:
    result = run("complex_regression")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "== Complex regression: linear (seed=2026, steps=200) =="
    assert lines[1] == "target(heldout)    = -1.662079 +2.816334i"
    assert lines[3].startswith("trained(heldout)   = -1.6620")
    assert lines[4].startswith("steps=200 arithmetic=complex scalar=Complex64 loss=5.557686 -> 0.000000")


@pytest.mark.parametrize("profile", ["checked_cpu", "fast_cpu"])
@pytest.mark.parametrize("model", complex_regression.MODELS)
def test_the_loss_goes_down_on_every_profile(run, model: str, profile: str) -> None:
    result = run("complex_regression", "--model", model, "--profile", profile, "--steps", 100, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["loss_last"] < 0.2 * record["loss_before"]
    assert set(record["heldout"]["trained"]) == {"real", "imag"}
    assert record["heldout"]["trained"]["imag"] != 0


def test_a_checkpoint_keeps_both_components_and_training_resumes_from_it(run, tmp_path: Path) -> None:
    path = tmp_path / "complex.safetensors"
    assert run("complex_regression", "--steps", 30, "--save", path).exit_code == 0
    held = checkpoint.read(path).arrays
    assert {name: array.dtype for name, array in held.items()} == {
        "params['w']": np.complex64,
        "params['b']": np.complex64,
    }
    assert all(np.abs(array.imag).max() > 0 for array in held.values())
    again = json.loads(run("complex_regression", "--steps", 30, "--resume", path, "--json").stdout)
    whole = json.loads(run("complex_regression", "--steps", 60, "--json").stdout)
    assert again["heldout"]["trained"] == whole["heldout"]["trained"]  # bit for bit
    assert again["loss_last"] == whole["loss_last"]
    other = run("complex_regression", "--model", "two-layer", "--resume", path)
    assert other.exit_code == 3
    assert "saved by the model complex_regression linear" in other.stderr


def test_what_cannot_run_is_refused(run) -> None:
    native = run("complex_regression", "--arithmetic", "native")
    assert native.exit_code == 2
    assert "this command computes in complex numbers; arithmetic `native`" in native.stderr
    fast = run("complex_regression", "--rate", 50)
    assert fast.exit_code == 2
    assert "the loss is inf at step" in fast.stderr
    assert "lower the learning rate" in fast.stderr


def test_complex128_is_refused_by_the_format_naming_what_it_holds(tmp_path: Path) -> None:
    from torchlean.errors import SerializationError

    with pytest.raises(SerializationError, match=r"(?s)cannot be saved.*complex64.*complex128"):
        checkpoint.save(tmp_path / "x", {"p": np.zeros(1, np.complex128)}, {})
