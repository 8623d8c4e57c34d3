"""The records that ship: there for every claim, of the sources as they are, and read quickly."""

from __future__ import annotations

from collections import Counter
from importlib import resources

import pytest

from torchlean.backends import profiles
from torchlean.backends.vocabulary import OBLIGATIONS
from torchlean.conformance import recorded
from torchlean.evidence.standing import State
from torchlean.evidence.store import parse, render

MODULES = tuple({module.name: module for profile in profiles.MAINTAINED for module in profile.modules}.values())
HERE = (State.FRESH, State.OTHER_VERSION)  # another NumPy or machine than the one that was tried is no fault


def test_the_maintained_modules_have_ledgers() -> None:
    assert {module.name for module in MODULES} >= {"reference", "numpy"}
    for module in MODULES:
        assert module.ledger is not None
        assert module.ledger.provider == module.name


def test_no_shipped_record_is_stale_failed_or_missing() -> None:
    """When this fails: `torchlean evidence run --shipped`, and commit the records."""
    held = [each for each in recorded.claims(recorded.chosen(MODULES)) if each.module.probe() is None]
    assert len(held) >= 4 * 170
    bad = {
        f"{each.capsule.name} {each.obligation}": str(each.standing) for each in held if each.standing.state not in HERE
    }
    assert bad == {}
    tried = [each.standing.tried for each in held]
    assert all([record is not None and record.outcome.cases > 0 for record in tried])


def test_every_tested_contract_is_needed_and_every_other_is_not() -> None:
    counts = Counter(each.is_needed for each in recorded.claims(recorded.chosen(MODULES)))
    tested = sum(
        "covered by test suite" in str(getattr(capsule, obligation).evidence)
        for module in MODULES
        for capsule in module.capsules
        for obligation in OBLIGATIONS
    )
    assert counts[True] == tested >= 250


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_the_files_are_package_data_and_canonical(module: object) -> None:
    name = module.name  # type: ignore[attr-defined]
    data = (resources.files("torchlean.evidence") / "records" / f"{name}.json").read_bytes()
    book = parse(data, name)
    assert render(book).encode() == data.replace(b"\r\n", b"\n")
    assert book.provider == name
    names = {capsule.name for capsule in module.capsules}  # type: ignore[attr-defined]
    assert {capsule for capsule, *_ in book.claims} == names
    assert not [held.outcome.capsule for held in book.claims.values() if held.run.quick]


def test_the_default_profiles_plan_from_the_shipped_records() -> None:
    import numpy as np

    import torchlean as tl
    from torchlean import ops

    x = np.ones((4, 3), np.float32)
    for profile in profiles.MAINTAINED:
        lowered = tl.lower(tl.grad(lambda x: ops.sum(ops.softmax(x @ x.T))), x, profile=profile)
        states = {str(held.state) for step in lowered.plan.steps for held in lowered.plan.evidence(step).values()}
        assert states <= {"fresh", "other-version"}
        assert states
