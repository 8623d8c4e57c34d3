"""How a claim stands: every state, with its reason, for a provider outside torchlean whose files are edited."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from evidence.chip import Chip

from torchlean.backends import Ulp
from torchlean.conformance import recorded
from torchlean.errors import ConfigError, SerializationError
from torchlean.evidence import folder, here, recording
from torchlean.evidence.closure import Reached
from torchlean.evidence.ledger import Ledger, Measured
from torchlean.evidence.standing import State
from torchlean.evidence.store import parse


def run(chip: Chip, *, shipped: bool = False) -> recorded.Recorded:
    return recorded.run(chip.module, chip.module.capsules, quick=True, seed=0, shipped=shipped)


def standing(chip: Chip, obligation: str = "value") -> str:
    return str(chip.ledger.standing(chip.module.capsules[0], obligation))


def test_never_run_then_fresh(chip: Chip, home: Path) -> None:
    where = chip.package / "records" / "chip.json"
    assert standing(chip) == f"never run: no record of it in {where} or {home / 'chip.json'}"
    made = run(chip)
    assert (made.file, made.unwritten, made.failed, len(made.outcomes)) == (home / "chip.json", "", (), 4)
    assert [standing(chip, claim) for claim in ("shape", "layout", "value", "vjp")] == ["fresh"] * 4
    held = chip.ledger.standing(chip.module.capsules[0], "value").tried
    assert held is not None
    assert held.outcome.cases > 0
    assert {path for path, _ in held.run.files} >= {f"{chip.name}/helpers.py", "torchlean/ir/ops/elementwise.py"}
    assert dict(held.run.versions).keys() >= {"numpy", "python"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return np.negative(x)", "return np.negative(x)  # a comment"),
        ('"""Turns numbers round."""', '"""Another docstring."""'),
        ("def unrelated(x):\n    return x", "def unrelated(x):\n    return 2 * x"),
        ("def unused(self, x):\n        return x", "def unused(self, x):\n        return 2 * x"),
        ("return Sign().turned(x)", "return Sign().turned(\n        x,\n    )"),
    ],
)
def test_what_the_kernel_does_not_do_may_change(chip: Chip, old: str, new: str) -> None:
    run(chip)
    chip.edit(old, new)
    assert [chip.state(claim) for claim in ("shape", "layout", "value", "vjp")] == ["fresh"] * 4


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("return np.negative(x)", "return np.negative(x) + 0", "Sign.turned changed"),
        ("return Sign().turned(x)", "return -x", "negated changed"),
        ("import numpy as np", "import numpy.ma as np", "np changed"),
        ("class Sign:", "class Signs:", "Sign was removed"),
    ],
)
def test_one_changed_line_makes_the_claim_stale_and_is_named(chip: Chip, old: str, new: str, named: str) -> None:
    run(chip)
    chip.edit(old, new)
    assert chip.state() == "stale"
    assert f"{chip.name}/helpers.py::{named}" in standing(chip)
    chip.edit(new, old)
    assert chip.state() == "fresh"


def test_a_derivative_rule_of_the_op_matters_to_the_vjp_only(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchlean.evidence import closure

    run(chip)
    path = "torchlean/ir/ops/elementwise.py"
    text = closure.file_here(path).read_text()  # type: ignore[union-attr]
    other = home_of(chip) / "elementwise.py"
    original = closure.file_here
    monkeypatch.setattr(closure, "file_here", lambda asked: other if asked == path else original(asked))
    start = text.index('NEG = unary("neg"')
    other.write_text(text[:start] + text[start:].replace("partial=Unit.MINUS", "partial=Unit.PLUS", 1))
    chip.ledger.forget()
    assert chip.state("value") == "fresh"
    assert chip.state("vjp") == "stale"
    assert standing(chip, "vjp") == f"stale: {path}::NEG@rules changed"
    other.write_text(text[:start] + text[start:].replace("a.neg(x)", "a.neg(a.neg(x))", 1))
    chip.ledger.forget()
    assert standing(chip, "value") == f"stale: {path}::NEG changed"


def home_of(chip: Chip) -> Path:
    return chip.package.parent


def test_a_capsule_given_another_bound_is_not_the_one_that_was_tried(chip: Chip) -> None:
    run(chip)
    other = chip.code.capsule(bound=Ulp(9))
    held = chip.ledger.standing(other, "value")
    assert held.state is State.STALE
    assert held.reason == (
        "the capsule's bound is torchlean.backends.capsule.Ulp(n=9), was torchlean.backends.capsule.Bitwise() "
        "when it was tried"
    )
    assert chip.ledger.standing(other, "shape").state is State.FRESH  # which says nothing of values
    assert chip.state() == "fresh"


def test_a_file_in_another_language_counts_as_a_whole(chip: Chip) -> None:
    kernel = chip.package / "neg.cu"
    kernel.write_text("__global__ void neg();")
    capsule = chip.module.capsules[0]
    value = replace(capsule.value, source=f"{chip.name}/neg.cu")
    module = replace(chip.module, capsules=(replace(capsule, value=value),))
    recorded.run(module, module.capsules, quick=True, seed=0)
    assert chip.ledger.standing(module.capsules[0], "value").state is State.FRESH
    kernel.write_text("__global__ void neg(); // even a comment")
    chip.ledger.forget()
    assert str(chip.ledger.standing(module.capsules[0], "value")) == f"stale: {chip.name}/neg.cu changed"
    assert chip.ledger.standing(module.capsules[0], "vjp").state is State.FRESH
    kernel.unlink()
    chip.ledger.forget()
    assert chip.ledger.standing(module.capsules[0], "value").state is State.STALE


def test_of_long_facts_the_part_that_differs_is_shown(chip: Chip) -> None:
    run(chip)
    capsule = chip.module.capsules[0]
    other = replace(capsule, handler=replace(capsule.handler, make=chip.code.capsule))
    held = chip.ledger.standing(other, "value")
    assert held.reason.startswith(f"the capsule's handler is …make={chip.name}.capsules.capsule(")
    assert f", was …make={chip.name}.capsules.make) when it was tried" in held.reason


def test_other_versions_and_machines_are_named(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    run(chip)
    original = here.versions
    monkeypatch.setattr(
        here, "versions", lambda libraries: tuple({**dict(original(libraries)), "numpy": "9.9"}.items())
    )
    chip.ledger.forget()
    assert chip.state() == "other-version"
    assert standing(chip).startswith("other-version: numpy 9.9 here, ")
    monkeypatch.setattr(here, "machine", lambda: "m68k")
    chip.ledger.forget()
    assert "; instruction sets m68k here, " in standing(chip)
    run(chip)  # what the user does about it
    assert chip.state() == "fresh"


def test_a_tools_version_counts_as_a_librarys(chip: Chip) -> None:
    chip.ledger.tools = lambda: [("C compiler", "12")]
    run(chip)
    assert chip.state() == "fresh"
    chip.ledger.tools = lambda: [("C compiler", "13")]
    chip.ledger.forget()
    assert standing(chip) == "other-version: C compiler 13 here, 12 when it was tried"


def test_a_kernel_that_is_wrong_is_recorded_as_failed(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = __import__(f"{chip.name}.helpers", fromlist=["Sign"])
    monkeypatch.setattr(helpers.Sign, "turned", lambda self, x: x)  # the source on disk is not what runs
    made = run(chip)
    assert {outcome.claim for outcome in made.failed} >= {"value", "vjp"}
    assert chip.state() == "failed"
    assert standing(chip).startswith("failed: chip.neg value: ")
    monkeypatch.undo()


def test_the_users_newer_record_wins_over_the_shipped_one(
    chip: Chip, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = run(chip, shipped=True)
    assert shipped.file == chip.package / "records" / "chip.json"
    assert not home.exists()
    assert chip.state() == "fresh"
    with monkeypatch.context() as patch:
        helpers = __import__(f"{chip.name}.helpers", fromlist=["Sign"])
        patch.setattr(helpers.Sign, "turned", lambda self, x: x)
        patch.setattr(recording, "utc_now", lambda: "2999-01-01T00:00:00Z")
        run(chip)
    assert chip.state() == "failed"
    chip.edit("return Sign().turned(x)", "return -x")  # of this source neither is a record
    assert chip.state() == "stale"


def test_an_old_users_record_of_another_source_does_not_hide_the_shipped_one(chip: Chip) -> None:
    run(chip)
    chip.edit("return Sign().turned(x)", "return -x")
    assert chip.state() == "stale"
    run(chip, shipped=True)
    assert chip.state() == "fresh"


def test_a_partial_run_keeps_the_other_records(chip: Chip, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(chip)
    monkeypatch.setattr(recording, "utc_now", lambda: "2999-01-01T00:00:00Z")
    ledger = chip.ledger
    recorder = recording.Recorder(ledger, chip.module.capsules, version="0", quick=True)
    held = parse((home / "chip.json").read_bytes(), "chip.json")
    outcome = held.claims["chip.neg", "vjp", False, ""].outcome
    assert recording.save(recorder.book([outcome]), home / "chip.json") is None
    merged = parse((home / "chip.json").read_bytes(), "chip.json")
    assert len(merged.claims) == 4
    assert len({record.run.key for record in merged.claims.values()}) == 2
    assert len(merged.symbols) == 2


def test_an_edited_file_is_refused_and_can_be_written_anew(chip: Chip, home: Path) -> None:
    run(chip)
    file = home / "chip.json"
    file.write_text(file.read_text().replace('"failures":[]', '"failures":["x"]', 1))
    chip.ledger.forget()
    with pytest.raises(SerializationError, match="was altered after it was written"):
        standing(chip)
    made = run(chip)
    assert made.replaced.endswith("was altered after it was written")
    assert chip.state() == "fresh"


def test_sources_that_change_during_a_run_are_not_recorded(chip: Chip) -> None:
    recorder = recording.Recorder(chip.ledger, chip.module.capsules, version="0", quick=True)
    chip.edit("return Sign().turned(x)", "return -x")
    with pytest.raises(SerializationError) as refused:
        recorder.book([])
    assert str(refused.value).splitlines()[0] == "sources of chip changed while its claims were tried"
    assert f"got:      other ones on disk: {chip.name}/helpers.py::negated" in str(refused.value)
    chip.edit("return -x", "return Sign().turned(x)  # a comment changes nothing")
    recorder.book([])


# -- folders -----------------------------------------------------------------------------------------------------------
def test_a_folder_that_cannot_be_written_to_is_said_and_nothing_breaks(chip: Chip, home: Path) -> None:
    home.write_text("a file, not a folder")
    made = run(chip)
    assert made.unwritten == f"{home} cannot be written to (File exists)"
    assert len(made.outcomes) == 4
    assert chip.state() == "never run"


def test_a_user_without_a_home_still_plans(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHLEAN_EVIDENCE_DIR")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(folder.Path, "home", nowhere)
    assert folder.users_folder() is None
    assert chip.state() == "never run"
    assert run(chip).unwritten == "this user has no home folder"
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("platform", "variables", "tail"),
    [
        ("linux", {}, ".local/share/torchlean/evidence"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/torchlean/evidence"),
        ("linux", {"XDG_DATA_HOME": "relative"}, ".local/share/torchlean/evidence"),  # which XDG says to ignore
        ("darwin", {}, "Library/Application Support/torchlean/evidence"),
        ("win32", {}, "AppData/Local/torchlean/evidence"),
    ],
)
def test_the_users_folder(monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], tail: str) -> None:
    for name in ("TORCHLEAN_EVIDENCE_DIR", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(folder.sys, "platform", platform)
    found = folder.users_folder()
    monkeypatch.undo()
    assert found is not None
    assert found.as_posix().endswith(tail)


def test_shipping_needs_a_checkout(chip: Chip) -> None:
    (chip.package.parent / "pyproject.toml").unlink()
    with pytest.raises(ConfigError) as refused:
        run(chip, shipped=True)
    lines = str(refused.value).splitlines()
    assert lines[0] == "records of chip cannot be shipped from here"
    assert lines[1] == "  expected: a source checkout of its package that can be written to"


def test_a_module_without_a_ledger_cannot_record(chip: Chip) -> None:
    with pytest.raises(ConfigError, match="capsule module `chip` has no ledger to write to"):
        recorded.run(replace(chip.module, ledger=None), chip.module.capsules, quick=True, seed=0)


# -- in one process ----------------------------------------------------------------------------------------------------
def test_outcomes_of_this_process_are_a_ledger(chip: Chip) -> None:
    made = run(chip)
    ledger = Measured(made.outcomes)
    capsule = chip.module.capsules[0]
    assert str(ledger.standing(capsule, "value")) == "fresh"
    other = Measured([outcome for outcome in made.outcomes if outcome.claim == "shape"])
    assert str(other.standing(capsule, "value")) == "never run: this process did not try it"
    assert repr(Ledger("x", package="x", shipped=None, libraries=())) == "<ledger of x>"


def test_a_ledger_remembers_until_it_is_told_to_forget(chip: Chip, home: Path) -> None:
    run(chip)
    assert chip.state() == "fresh"
    (home / "chip.json").unlink()
    assert chip.state() == "fresh"
    chip.ledger.forget()
    assert chip.state() == "never run"


def test_versions_are_read_without_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata
    import sys

    for library in ("numpy", "optree", "ml_dtypes"):
        wanted = importlib.metadata.version(library)
        assert here.version_of(library) == wanted
        monkeypatch.delitem(sys.modules, library, raising=False)
        assert here.version_of(library) == wanted
    monkeypatch.undo()
    assert here.version_of("no_such_library_anywhere") == "not installed"
    assert here.differences([("a", "1")], [("b", "2")]) == [
        "a not installed here, 1 when it was tried",
        "b 2 here, not installed when it was tried",
    ]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a" / "records.json"
    folder.write(target, "one")

    def fails(source: str, to: Path) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(OSError, match="disk full"):
            folder.write(target, "two")
    assert target.read_text() == "one"
    assert [entry.name for entry in target.parent.iterdir()] == ["records.json"]


def test_symbols_compare_by_content() -> None:
    assert Reached("a", "b", "c", (1,)) == Reached("a", "b", "c", (1,))
