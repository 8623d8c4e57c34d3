"""Records of every input: what they can stand for, and the table in docs/evidence.md, which is made of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from evidence.chip import Chip

from torchlean.backends import profiles
from torchlean.conformance import recorded
from torchlean.conformance.named import known_modules
from torchlean.evidence import recording
from torchlean.evidence.claim import ClaimRecord, Outcome
from torchlean.evidence.standing import State
from torchlean.evidence.store import parse
from torchlean.evidence.tables import NONE, exhaustive_table

START, END = "<!-- exhaustive -->\n", "<!-- end -->\n"
EVERY = Outcome(
    capsule="chip.neg",
    claim="value",
    tests=("exhaustive float32, worst at -87.71553039550781 (word 0xc2af6e5a)",),
    cases=2**32,
    failures=(),
    worst=0.764437,
    unit="ulp",
    histogram=(("correctly rounded", 2**32 - 3), ("≤ 1 ulp", 2), ("≤ 2 ulp", 1)),
    tolerance="5 ulp",
    seed=0,
    exhaustive=True,
)


def sampled(chip: Chip) -> None:
    recorded.run(chip.module, chip.module.capsules, quick=True, seed=0)


def every_input(chip: Chip, outcome: Outcome = EVERY) -> None:
    """A record of every input, as an exhaustive run would leave it."""
    recorder = recording.Recorder(chip.ledger, chip.module.capsules, version="0", quick=False)
    file = chip.ledger.files()[1]
    assert file is not None
    recording.save(recorder.book([outcome]), file)
    chip.ledger.forget()


def standing(chip: Chip) -> str:
    return str(chip.ledger.standing(chip.module.capsules[0], "value"))


# -- what they stand for -----------------------------------------------------------------------------------------------
def test_every_float32_is_not_every_type(chip: Chip, home: Path) -> None:
    every_input(chip)
    assert standing(chip) == "never run: every float32 was tried, and no other type"
    sampled(chip)
    held = chip.ledger.standing(chip.module.capsules[0], "value")
    assert held.state is State.FRESH
    assert held.tried.outcome == EVERY  # what is shown is the stronger one


def test_a_sampled_failure_is_not_hidden_by_it(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    capsule = chip.module.capsules[0]
    failing = replace(EVERY, failures=("chip.neg value: of float64 it is wrong",), exhaustive=False)
    every_input(chip, failing)
    monkeypatch.setattr(recording, "utc_now", lambda: "2999-01-01T00:00:00Z")
    every_input(chip)
    assert standing(chip) == "failed: chip.neg value: of float64 it is wrong"
    assert chip.ledger.exhaustive(capsule, "value").state is State.FRESH


def test_its_own_failure_is_not_hidden_by_samples(chip: Chip) -> None:
    every_input(chip, replace(EVERY, failures=("chip.neg value: wrong at 0x7f7fffff",)))
    sampled(chip)
    assert standing(chip) == "failed: chip.neg value: wrong at 0x7f7fffff"


def test_it_goes_stale_with_the_source(chip: Chip) -> None:
    every_input(chip)
    chip.edit("return Sign().turned(x)", "return -x")
    assert standing(chip) == f"stale: {chip.name}/helpers.py::negated changed"
    sampled(chip)
    assert standing(chip) == "fresh"
    held = chip.ledger.exhaustive(chip.module.capsules[0], "value")
    assert held.state is State.STALE
    assert recorded.exhaustive_standings([(chip.module, list(chip.module.capsules))]) == [held]


# -- the table ---------------------------------------------------------------------------------------------------------
def test_the_table_of_none_is_a_sentence() -> None:
    assert exhaustive_table([]) == NONE


def test_a_line_of_the_table(chip: Chip) -> None:
    every_input(chip)
    tried = chip.ledger.exhaustive(chip.module.capsules[0], "value").tried
    run = replace(tried.run, date="2026-01-31T10:00:00Z", versions=(("numpy", "2.4.0"),))
    failed = replace(EVERY, capsule="other.neg", worst=None, histogram=(), failures=("x",), tests=())
    lines = exhaustive_table([replace(tried, run=run), replace(tried, run=run, outcome=failed)]).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == 9
    assert lines[2] == (
        "| chip.neg | 5 ulp | 0.764 | -87.7155304 | 4,294,967,293 (99.99 %) | 2 (0.00 %) | 1 (0.00 %) "
        "| 2026-01-31, NumPy 2.4.0 |"
    )
    assert lines[3].startswith("| other.neg | 5 ulp: failed |  |  | 0 | 0 | 4,294,967,296 (100.00 %) |")


def test_the_command_prints_it(chip: Chip) -> None:
    from click.testing import CliRunner

    from torchlean.cli.main import torchlean

    every_input(chip)
    chosen = ["--module", f"{chip.name}.capsules:MODULE", "--provider", "chip"]
    result = CliRunner().invoke(torchlean, ["evidence", "--exhaustive", "--check", *chosen])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[2].startswith("| chip.neg | 5 ulp | 0.764 |")
    chip.edit("return Sign().turned(x)", "return -x")
    assert CliRunner().invoke(torchlean, ["evidence", "--exhaustive", "--check", *chosen]).exit_code == 1


def shipped() -> Sequence[ClaimRecord]:
    """The exhaustive records of the package, which must be of the source as it is."""
    found: dict[str, ClaimRecord] = {}
    for module in {module.name: module for profile in profiles.MAINTAINED for module in profile.modules}.values():
        assert module.ledger is not None
        file = module.ledger.files()[0]
        assert file is not None
        held = parse(file.read_bytes(), file.name).claims
        found |= {key[0]: record for key, record in held.items() if key[2]}
    return [found[name] for name in sorted(found, key=lambda name: name.partition(".")[::-2])]


def test_the_page_lists_the_shipped_records(root: Path) -> None:
    """When this fails: TORCHLEAN_WRITE_GOLDEN=1 python -m pytest tests/evidence/test_exhaustive_records.py"""
    page = root / "docs" / "evidence.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    assert before
    assert after
    made = f"{before}{START}{exhaustive_table(shipped())}\n{END}{after}"
    if os.environ.get("TORCHLEAN_WRITE_GOLDEN"):
        page.write_text(made, encoding="utf-8")
        text = made
    assert text == made


def test_no_shipped_record_of_every_input_is_stale_or_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHLEAN_EVIDENCE_DIR", str(tmp_path))
    known = [(each.module, list(each.module.capsules)) for each in known_modules()]
    for module, _ in known:
        if module.ledger is not None:
            module.ledger.forget()
    held = recorded.exhaustive_standings(known)
    assert [str(each) for each in held if each.state not in (State.FRESH, State.OTHER_VERSION)] == []
    names = {each.tried.outcome.capsule for each in held if each.tried is not None}
    assert names == {each.outcome.capsule for each in shipped()}
