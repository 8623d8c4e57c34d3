"""`evidence` and `evidence run`: the table, its JSON, exit codes, and folders that cannot be written to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from evidence.chip import Chip, importable

NUMBERS = count()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("TORCHLEAN_EVIDENCE_DIR", str(folder))
    return folder


@pytest.fixture
def chip(tmp_path: Path, home: Path) -> Iterator[Chip]:
    with importable(tmp_path / "site", f"clichip{next(NUMBERS)}") as made:
        yield made


def chosen(chip: Chip) -> tuple[str, ...]:
    return ("--module", f"{chip.name}.capsules:MODULE", "--provider", "chip")


def test_every_claim_of_every_provider_is_listed(run) -> None:
    result = run("evidence")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["capsule", "claim", "state", "cases", "worst", "tried", "why"]
    for capsule in ("reference.exp", "numpy.matmul"):
        assert [line.split()[1] for line in lines if line.split()[:1] == [capsule]] == [
            "shape",
            "layout",
            "value",
            "vjp",
        ]
    assert lines[-1].startswith(f"{len(lines) - 3} claims: ")
    assert "\x1b" not in result.stdout


def test_running_then_listing(run, chip: Chip, home: Path) -> None:
    result = run("evidence", *chosen(chip))
    assert [line.split()[2:4] for line in result.stdout.splitlines()[1:5]] == [["never", "run"]] * 4
    assert run("evidence", "--check", *chosen(chip)).exit_code == 1
    result = run("evidence", "run", "--quick", *chosen(chip))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("chip: 4 of 4 claims passed in ")
    assert result.stdout.endswith(f" s, recorded in {home / 'chip.json'}\n")
    assert result.stderr == ""
    result = run("evidence", "--check", *chosen(chip))
    assert result.exit_code == 0
    assert [line.split()[:3] for line in result.stdout.splitlines()[1:5]] == [
        ["chip.neg", claim, "fresh"] for claim in ("shape", "layout", "value", "vjp")
    ]
    assert result.stdout.endswith("\n4 claims: 4 fresh\n")


def test_as_json(run, chip: Chip, home: Path) -> None:
    result = run("evidence", "run", "--quick", "--seed", "3", "--format", "json", *chosen(chip))
    assert result.exit_code == 0
    (made,) = json.loads(result.stdout)["runs"]
    assert (made["provider"], made["passed"], made["failed"], made["untried"]) == ("chip", 4, [], [])
    assert made["file"] == str(home / "chip.json")
    listed = json.loads(run("evidence", "--format", "json", *chosen(chip)).stdout)
    assert listed["counts"] == {"fresh": 4, "other-version": 0, "stale": 0, "failed": 0, "never run": 0}
    assert listed["folder"] == str(home)
    value = next(claim for claim in listed["claims"] if claim["claim"] == "value")
    assert (value["capsule"], value["device"], value["needed"], value["state"]) == ("chip.neg", "cpu", True, "fresh")
    assert value["tried"]["seed"] == 3
    assert value["tried"]["quick"] is True
    assert value["tried"]["cases"] > 0
    assert value["tried"]["versions"].keys() >= {"numpy", "python"}
    assert not next(claim for claim in listed["claims"] if claim["claim"] == "shape")["needed"]


def test_a_stale_claim_says_why_and_answers_no(run, chip: Chip) -> None:
    run("evidence", "run", "--quick", *chosen(chip))
    chip.edit("return np.negative(x)", "return 0 - x")
    result = run("evidence", "--check", *chosen(chip))
    assert result.exit_code == 1
    assert "stale  " in result.stdout
    assert f"{chip.name}/helpers.py::Sign.turned changed" in result.stdout
    assert run("evidence", *chosen(chip)).exit_code == 0


def test_a_failed_claim_is_printed_and_answers_no(run, chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = __import__(f"{chip.name}.helpers", fromlist=["Sign"])
    monkeypatch.setattr(helpers.Sign, "turned", lambda self, x: x)
    result = run("evidence", "run", "--quick", *chosen(chip))
    assert result.exit_code == 1
    assert "  failed: chip.neg value: chip.neg value: " in result.stdout


def test_a_folder_that_cannot_be_written_to_is_one_line(run, chip: Chip, home: Path) -> None:
    home.write_text("a file")
    result = run("evidence", "run", "--quick", *chosen(chip))
    assert result.exit_code == 1
    assert result.stderr == f"warning: nothing was recorded for chip: {home} cannot be written to (File exists)\n"
    assert ", not recorded\n" in result.stdout


def test_an_altered_file_is_refused_and_written_anew(run, chip: Chip, home: Path) -> None:
    run("evidence", "run", "--quick", *chosen(chip))
    file = home / "chip.json"
    file.write_text(file.read_text().replace('"quick":true', '"quick":false'))
    result = run("evidence", *chosen(chip))
    assert result.exit_code == 3
    assert f"error: evidence: the evidence record {file} was altered after it was written" in result.stderr
    result = run("evidence", "run", "--quick", *chosen(chip))
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {file} was written anew: the evidence record {file} was altered")


def test_a_provider_that_cannot_run_here_says_why(run, chip: Chip) -> None:
    from dataclasses import replace

    chip.code.MODULE = replace(chip.module, probe=lambda: "no such device")
    listed = json.loads(run("evidence", "--check", "--format", "json", *chosen(chip)).stdout)
    assert {(claim["state"], claim["reason"]) for claim in listed["claims"]} == {("never run", "no such device")}
    assert run("evidence", "--check", *chosen(chip)).exit_code == 0
    result = run("evidence", "run", *chosen(chip))
    assert result.exit_code == 0
    assert result.stderr == "chip: not run, no such device\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--provider", "abacus"), "no provider is called 'abacus'; there are compiled, reference"),
        (("--capsule", "abacus.*"), "no capsule is called 'abacus.*'; `torchlean evidence` lists them"),
        (
            ("--module", "no_such_package:M"),
            "no_such_package:M cannot be imported; expected: no_such_package as a module",
        ),
        (("--module", "torchlean.errors:message"), "torchlean.errors:message is function, not a CapsuleModule"),
        (("--module", "torchlean"), "'torchlean' does not name a capsule module; expected: package.module:NAME"),
    ],
)
def test_names_that_mean_nothing_are_refused(run, arguments: tuple[str, ...], text: str) -> None:
    result = run("evidence", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_shipping_is_refused_outside_a_checkout(run, chip: Chip) -> None:
    (chip.package.parent / "pyproject.toml").unlink()
    result = run("evidence", "run", "--quick", "--shipped", *chosen(chip))
    assert result.exit_code == 2
    assert "error: evidence: records of chip cannot be shipped from here" in result.stderr


def test_progress_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from torchlean.cli import evidence

    with evidence._progress("chip", 2) as tell:
        tell("chip.neg")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(evidence.sys.stderr, "isatty", lambda: True)
    with evidence._progress("chip", 2) as tell:
        tell("chip.neg")
    assert "chip 1/2 chip.neg" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("flint") is None, reason="python-flint (the extra `arb`) is not installed")
def test_an_exhaustive_run_is_recorded_beside_the_sampled_one(run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small share of the inputs: the whole takes minutes."""
    from torchlean.conformance.exhaustive import sweep

    monkeypatch.setattr(sweep, "ALL", 2**17)
    monkeypatch.setattr(sweep, "BLOCK", 2**16)
    result = run("evidence", "run", "--exhaustive", "--capsule", "reference.sqrt", "--capsule", "reference.add")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("reference: 1 of 1 claims passed in ")
    progress = home / "exhaustive" / "reference.sqrt.jsonl"
    assert len(progress.read_text().splitlines()) == 3
    record = json.loads((home / "reference.json").read_text())
    assert "exhaustive float32" in json.dumps(record)
    before = progress.read_text()
    assert run("evidence", "run", "--exhaustive", "--capsule", "reference.sqrt").exit_code == 0
    assert progress.read_text() == before  # nothing was tried twice


def test_what_cannot_be_exhaustive_is_refused(run, home: Path) -> None:
    result = run("evidence", "run", "--exhaustive", "--capsule", "reference.add")
    assert result.exit_code == 2
    assert "none of these capsules is a function of one float32" in result.stderr
    assert "exclude each other" in run("evidence", "run", "--exhaustive", "--quick").stderr
