"""`quickstart_mlp` prints the seeds' lines, refuses what cannot run, and speaks JSON."""

from __future__ import annotations

import json
import re

import pytest

SEEDS = """\
== Quickstart: simple MLP training (seed=2026, steps=20) ==
target(heldout)    = [0.200000]
untrained(heldout) = [-0.088261]
dataset size = 25
mean_loss(before training) = 0.495227
mean_loss(after training) = 0.401184
steps=20 arithmetic=native scalar=Float32 loss=0.495227 -> 0.401184
trained(heldout) = [0.365380]
"""
SEVEN = ["reshape", "permute", "matmul", "broadcast", "add", "relu", "mse_loss"]
REFERENCE = ("--profile", "reference_cpu")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--device", "cpu", "--steps", 20, "--seed", 2026),
        ("--execution", "eager"),
        ("--profile", "reference_cpu"),
        ("--profile", "reference_cpu", "--execution", "lowered"),
        ("--profile", "fast_cpu"),
    ],
)
def test_the_lines_of_the_seeds(run, arguments) -> None:
    result = run("quickstart_mlp", *arguments)
    assert result.exit_code == 0
    assert result.stdout == SEEDS
    assert result.stderr == ""


def test_the_seven_capsules_of_the_seeds(run) -> None:
    result = run("quickstart_mlp", "--device", "cpu", "--steps", 20, "--seed", 2026, "--show-backend", *REFERENCE)
    assert result.exit_code == 0
    assert result.stdout.startswith(SEEDS + "[TorchLean] backend capsules used:\n")
    forward = result.stdout.split("[TorchLean]")[1]
    heads = re.findall(
        r"^  (\w+): reference\.(\w+) provider=reference trust=checked vjp=torchlean-tape reduction=(\S+)$",
        forward,
        re.MULTILINE,
    )
    assert heads == [(op, op, "fixed-left" if op in ("matmul", "mse_loss") else "n/a") for op in SEVEN]
    for part in ("shape", "layout", "value", "vjp"):
        assert len(re.findall(rf"^    {part}: ", forward, re.MULTILINE)) == 7


def test_the_default_runs_the_seven_in_c(run) -> None:
    result = run("quickstart_mlp", "--show-backend")
    assert result.exit_code == 0
    assert result.stdout.startswith(SEEDS + "[TorchLean] backend capsules used:\n")
    forward = result.stdout.split("[TorchLean]")[1]
    heads = re.findall(r"^  (\w+): (\w+)\.\1 provider=\2 trust=checked", forward, re.MULTILINE)
    assert {provider for _, provider in heads} == {"compiled"}
    assert set(SEVEN) <= {op for op, _ in heads}


def test_two_hundred_steps(run) -> None:
    lines = run("quickstart_mlp", "--steps", 200).stdout.splitlines()
    assert lines[5] == "mean_loss(after training) = 0.002402"
    assert lines[7] == "trained(heldout) = [0.228325]"


def test_json_is_one_record(run) -> None:
    result = run("quickstart_mlp", "--json", *REFERENCE)
    record = json.loads(result.stdout)
    assert record["command"] == "quickstart_mlp"
    assert record["heldout"]["target"] == pytest.approx([0.2])
    assert f"{record['heldout']['trained'][0]:.6f}" == "0.365380"
    assert [capsule["op"] for capsule in record["capsules"]["forward"]] == SEVEN
    assert f"{record['result']['loss_after']:.6f}" == "0.401184"


@pytest.mark.parametrize("device", ["metal", "tpu", "rocm", "wasm", "trainium", "custom", "external", "cuda", "gpu"])
def test_a_device_without_a_profile_is_refused_in_the_seeds_words(run, device: str) -> None:
    result = run("quickstart_mlp", "--device", device, "--steps", 1)
    name = "cuda" if device == "gpu" else device
    assert result.exit_code == 5
    assert result.stdout == ""
    assert result.stderr == (
        f"error: quickstart_mlp: device `{name}` has no maintained runtime profile; "
        "use a programmatic backend profile\n"
    )


def test_other_arithmetics_are_refused(run) -> None:
    complex_numbers = run("quickstart_mlp", "--arithmetic", "complex")
    assert complex_numbers.exit_code == 2
    assert complex_numbers.stderr.startswith(
        "error: quickstart_mlp: supervised training supports real arithmetic; complex arithmetic requires"
    )
    software = run("quickstart_mlp", "--arithmetic", "ieee")
    assert software.exit_code == 5
    assert software.stderr.startswith("error: quickstart_mlp: arithmetic `ieee` cannot run: ")
    assert len(software.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--steps", 0), "error: quickstart_mlp: Invalid value for '--steps': 0 is not in the range x>=1."),
        (("--steps", "x"), "error: quickstart_mlp: Invalid value for '--steps': 'x' is not a valid integer range."),
        (("--seed", -1), "error: quickstart_mlp: Invalid value for '--seed': -1 is not in the range"),
        (
            ("--device", "cpux"),
            "error: quickstart_mlp: Invalid value for '--device': 'cpux' is not one of 'cpu', 'cuda'",
        ),
        (("--stepz", 3), "error: quickstart_mlp: No such option '--stepz'"),
        (("extra",), "error: quickstart_mlp: Got unexpected extra argument"),
    ],
)
def test_usage_errors_name_the_option(run, arguments, text: str) -> None:
    result = run("quickstart_mlp", *arguments)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0].startswith(text)
    assert lines[1:] == ["try: torchlean quickstart_mlp --help"]


def test_options_come_from_the_environment_too(run) -> None:
    assert "steps=2)" in run("quickstart_mlp", TORCHLEAN_QUICKSTART_MLP_STEPS="2").stdout
    wrong = run("quickstart_mlp", TORCHLEAN_QUICKSTART_MLP_STEPS="none")
    assert wrong.exit_code == 2
    assert "'--steps'" in wrong.stderr
