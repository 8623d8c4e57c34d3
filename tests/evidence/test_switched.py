"""A switch makes another kernel of a capsule: what was recorded under one value says nothing of another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evidence.chip import Chip, importable
from evidence.test_plans import X, graph, under

from torchlean.backends import CHECKED, Capsule, CapsuleModule, Profile, Switch, accept, plan, select
from torchlean.backends.vocabulary import Device
from torchlean.cli.main import torchlean
from torchlean.conformance import recorded
from torchlean.errors import PlanRejected
from torchlean.evidence.ledger import Measured
from torchlean.evidence.store import parse, render
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import NEG

NUMBERS = count()
VARIABLE = "TORCHLEAN_TEST_CHIP_DETERMINISTIC_REDUCTIONS"
OTHER = "TORCHLEAN_TEST_CHIP_SPEED"
CLAIMS = ("shape", "layout", "value", "vjp")


def relabelled(capsule: Capsule, value: str) -> Capsule:
    """The same source and the same label: only the value of the variable tells the kernels apart."""
    return replace(capsule) if value == "1" else capsule


def switch(variable: str = VARIABLE, changes: Any = relabelled) -> Switch:
    return Switch(variable=variable, choices=("0", "1"), effect="makes the chip add in a fixed order", changes=changes)


@pytest.fixture
def chip(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chip]:
    monkeypatch.delenv(VARIABLE, raising=False)
    with importable(tmp_path / "site", f"switchedchip{next(NUMBERS)}") as made:
        made.code.MODULE = replace(made.module, switches=(switch(),))
        yield made


def run(module: CapsuleModule, **options: Any) -> recorded.Recorded:
    now = module.switched_now()
    return recorded.run(now, now.capsules, quick=True, seed=0, **options)


def standings(module: CapsuleModule) -> list[str]:
    now = module.switched_now()
    return [str(each.standing) for each in recorded.claims([(now, list(now.capsules))])]


def profile(module: CapsuleModule) -> Profile:
    return Profile(name="chips", device=Device.CPU, modules=(module,), policy=CHECKED)


def test_a_record_of_one_value_is_none_of_the_other(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    run(chip.module)
    assert standings(chip.module) == ["fresh"] * 4
    monkeypatch.setenv(VARIABLE, "1")
    reason = f"it was tried with {VARIABLE}=0, not with {VARIABLE}=1"
    assert standings(chip.module) == [f"never run: {reason}"] * 4
    with pytest.raises(PlanRejected) as refused:
        plan(graph(), profile(chip.module))
    command = f"{VARIABLE}=1 torchlean evidence run --capsule chip.neg"
    assert f"no admissible value evidence for neg: never run, {reason}; to refresh it: {command}" in str(refused.value)
    assert select(NEG, NO_PARAMS, (X,), profile(chip.module)) is None


def test_acceptance_asks_by_itself(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    run(chip.module)
    monkeypatch.setenv(VARIABLE, "1")
    lenient = profile(chip.module).under(CHECKED.allowing_stale())
    made = plan(graph(), lenient)
    accept(made)
    strict = under(made, CHECKED)
    with pytest.raises(PlanRejected) as refused:
        accept(strict)
    assert f"it was tried with {VARIABLE}=0, not with {VARIABLE}=1" in str(refused.value)
    assert f"to refresh it: {VARIABLE}=1 torchlean evidence run --capsule chip.neg" in str(refused.value)


@pytest.mark.parametrize("shipped", [False, True], ids=["user's", "shipped"])
def test_records_stand_beside_each_other(
    chip: Chip, home: Path, monkeypatch: pytest.MonkeyPatch, shipped: bool
) -> None:
    run(chip.module, shipped=shipped)
    monkeypatch.setenv(VARIABLE, "1")
    file = run(chip.module, shipped=shipped).file
    for value in ("1", "0"):
        monkeypatch.setenv(VARIABLE, value)
        chip.ledger.forget()
        assert standings(chip.module) == ["fresh"] * 4
        accept(plan(graph(), profile(chip.module)))
    assert file is not None
    book = parse(file.read_bytes(), "chip.json")
    assert {key[3] for key in book.claims} == {f"{VARIABLE}=0", f"{VARIABLE}=1"}
    assert len(book.claims) == 8
    assert len({held.run.key for held in book.claims.values()}) == 2  # made within one second, perhaps
    assert render(book).encode() == file.read_bytes()


def test_one_value_that_fails_leaves_the_other_alone(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(capsule: Capsule, value: str) -> Capsule:
        handler = replace(capsule.handler, make=lambda params, types: lambda x: x + x)
        return replace(capsule, handler=handler) if value == "1" else capsule

    module = replace(chip.module, switches=(switch(changes=broken),))
    assert not run(module).failed
    monkeypatch.setenv(VARIABLE, "1")
    assert {outcome.claim for outcome in run(module).failed} >= {"value"}
    assert standings(module)[2].startswith("failed: chip.neg value: lies outside the claimed bound")
    monkeypatch.setenv(VARIABLE, "0")
    assert standings(module) == ["fresh"] * 4


def test_a_switch_that_does_not_concern_a_capsule_asks_for_nothing(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    module = replace(chip.module, switches=(switch(changes=lambda capsule, value: capsule),))
    assert module.switched_now().switched_by == ()
    run(module)
    monkeypatch.setenv(VARIABLE, "1")
    assert standings(module) == ["fresh"] * 4


def test_two_switches_are_named_together(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    module = replace(chip.module, switches=(switch(), switch(OTHER)))
    run(module)
    monkeypatch.setenv(OTHER, "1")
    assert standings(module)[0] == (
        f"never run: it was tried with {VARIABLE}=0 {OTHER}=0, not with {VARIABLE}=0 {OTHER}=1"
    )


def test_a_record_from_before_the_switch_is_of_another_kernel(chip: Chip) -> None:
    run(replace(chip.module, switches=()))
    assert standings(chip.module) == [f"never run: it was tried with no switch, not with {VARIABLE}=0"] * 4
    run(chip.module)
    assert standings(replace(chip.module, switches=())) == ["fresh"] * 4


def test_a_changed_source_is_stale_under_each_value(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    run(chip.module)
    monkeypatch.setenv(VARIABLE, "1")
    run(chip.module)
    chip.edit("return Sign().turned(x)", "return -x")
    for value in ("0", "1"):
        monkeypatch.setenv(VARIABLE, value)
        assert standings(chip.module)[2] == f"stale: {chip.name}/helpers.py::negated changed"


def test_what_this_process_measured_is_of_its_values_too(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(chip.module)
    now = chip.module.switched_now()
    module = replace(chip.module, ledger=Measured(made.outcomes, switched_by=now.switched_by))
    assert standings(module) == ["fresh"] * 4
    monkeypatch.setenv(VARIABLE, "1")
    assert standings(module) == [f"never run: it was tried with {VARIABLE}=0, not with {VARIABLE}=1"] * 4


def test_the_command_records_the_value_now_and_says_which(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ["--module", f"{chip.name}.capsules:MODULE", "--provider", "chip"]

    def command(*arguments: str) -> str:
        result = CliRunner().invoke(torchlean, ["evidence", *arguments, *chosen])
        assert result.exit_code == 0, result.output
        return result.stdout

    command("run", "--quick")
    assert command().endswith(f"\n4 claims: 4 fresh\nunder {VARIABLE}=0\n")
    monkeypatch.setenv(VARIABLE, "1")
    listed = json.loads(command("--format", "json"))
    assert listed["counts"]["never run"] == 4
    assert {json.dumps(claim["switches"]) for claim in listed["claims"]} == {json.dumps({VARIABLE: "1"})}
    command("run", "--quick")
    assert command().endswith(f"\n4 claims: 4 fresh\nunder {VARIABLE}=1\n")
    monkeypatch.delenv(VARIABLE)
    assert command().endswith(f"\n4 claims: 4 fresh\nunder {VARIABLE}=0\n")
    assert set(CLAIMS) == {line.split()[1] for line in command().splitlines()[1:5]}
