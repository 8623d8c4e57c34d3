"""Plans and acceptance ask for evidence, each by itself; what a policy admits beyond fresh records can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence.chip import Chip

import torchlean as tl
from torchlean import ops
from torchlean.backends import (
    CHECKED,
    Failure,
    Plan,
    Profile,
    accept,
    always_available,
    plan,
    select,
)
from torchlean.backends.audit import evidence_record
from torchlean.backends.vocabulary import Device
from torchlean.conformance import recorded
from torchlean.errors import PlanRejected
from torchlean.evidence import here
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import NEG
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType

X = TensorType((3,), tl.DType.F32)
STALE = CHECKED.allowing_stale()


def graph() -> Graph:
    return trace_flat(lambda x: (ops.negative(x),), (X,), name="minus").graph


def profile(chip: Chip, policy: Any = CHECKED, **changes: Any) -> Profile:
    return Profile(name="chips", device=Device.CPU, modules=(replace(chip.module, **changes),), policy=policy)


def tried(chip: Chip) -> None:
    recorded.run(chip.module, chip.module.capsules, quick=True, seed=0)


def refusal(made: Any, *arguments: Any) -> str:
    with pytest.raises(PlanRejected) as refused:
        made(*arguments)
    return str(refused.value)


def under(made: Plan, policy: Any) -> Plan:
    """The same steps, claimed to hold under another policy."""
    return Plan(graph=made.graph, profile=made.profile.under(policy), steps=made.steps)


def test_a_fresh_claim_is_planned_accepted_and_printed(chip: Chip) -> None:
    tried(chip)
    made = plan(graph(), profile(chip))
    accepted = accept(made)
    assert str(made).splitlines() == [
        "plan: 1 kernels, profile chips, device cpu",
        "  %1  = neg  f32[3]  chip.neg  checked  n/a  tested: …::test_bits (fresh)",
    ]
    assert {name: str(held) for name, held in made.evidence(made.steps[0]).items()} == {
        "value": "fresh",
        "vjp": "fresh",
    }
    (kernel,) = accepted.audit.kernels
    assert [report.state for report in kernel.obligations] == ["", "", "fresh", "fresh"]
    assert str(kernel.obligations[2]).endswith("::test_bits (fresh)")


def test_a_stale_claim_is_refused_by_planning_and_by_acceptance(chip: Chip) -> None:
    tried(chip)
    chip.edit("return np.negative(x)", "return 0 - x")
    why = (
        f"stale, {chip.name}/helpers.py::Sign.turned changed; to refresh it: torchlean evidence run --capsule chip.neg"
    )
    value = f"chip.neg has no admissible value evidence for neg: {why}"
    vjp = f"chip.neg has no admissible vjp evidence for neg: {why}"
    text = refusal(plan, graph(), profile(chip))
    assert [line.strip() for line in text.splitlines()[2:4]] == [value, vjp]
    assert select(NEG, NO_PARAMS, (X,), profile(chip)) is None
    made = plan(graph(), profile(chip, STALE))
    text = refusal(accept, under(made, CHECKED))
    assert [line.strip() for line in text.splitlines()[1:]] == [value, vjp]


def test_a_policy_may_admit_stale_evidence_and_the_plan_says_so(chip: Chip) -> None:
    tried(chip)
    chip.edit("return np.negative(x)", "return 0 - x")
    made = plan(graph(), profile(chip, STALE))
    accept(made)
    assert str(made).splitlines() == [
        "plan: 1 kernels, profile chips, device cpu, stale evidence allowed",
        "  %1  = neg  f32[3]  chip.neg  checked  n/a  tested: …::test_bits (stale)",
        f"  evidence stale: {chip.name}/helpers.py::Sign.turned changed (chip.neg value, chip.neg vjp); "
        "to try it here: torchlean evidence run --provider chip",
    ]
    data = made.as_json()
    assert (data["allow_stale"], data["exact_evidence"]) == (True, False)
    assert data["steps"][0]["evidence"] == {"value": "stale", "vjp": "stale"}
    assert data["evidence_notes"] == [str(made).splitlines()[2].strip()]
    held = evidence_record(made.profile, [made.steps[0].capsule])
    assert held == {
        "allow_stale": True,
        "exact": False,
        "claims": {"stale": 2},
        "not_fresh": {
            "chip.neg value": f"stale: {chip.name}/helpers.py::Sign.turned changed",
            "chip.neg vjp": f"stale: {chip.name}/helpers.py::Sign.turned changed",
        },
    }


def test_other_versions_are_admitted_with_a_note_unless_the_evidence_must_be_exact(
    chip: Chip, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(chip)
    now = dict(here.versions(("numpy",)))
    monkeypatch.setattr(here, "versions", lambda libraries: tuple({**now, "numpy": "9.9"}.items()))
    chip.ledger.forget()
    made = plan(graph(), profile(chip))
    accept(made)
    differs = f"numpy 9.9 here, {np.__version__} when it was tried"
    assert str(made).splitlines()[1:] == [
        "  %1  = neg  f32[3]  chip.neg  checked  n/a  tested: …::test_bits (other-version)",
        f"  evidence other-version: {differs} (chip.neg value, chip.neg vjp); "
        "to try it here: torchlean evidence run --provider chip",
    ]
    exact = CHECKED.with_exact_evidence()
    wanted = (
        f"chip.neg has no admissible value evidence for neg: other-version, {differs}; "
        "to refresh it: torchlean evidence run --capsule chip.neg"
    )
    assert wanted in refusal(plan, graph(), profile(chip, exact))
    assert wanted in refusal(accept, under(made, exact))
    assert plan(graph(), profile(chip, exact.allowing_stale()).under(CHECKED)) is not None
    tried(chip)
    assert str(plan(graph(), profile(chip, exact))).splitlines()[0].endswith(", exact evidence required")


def test_a_module_without_a_ledger_was_never_run(chip: Chip) -> None:
    text = refusal(plan, graph(), profile(chip, ledger=None))
    assert (
        "chip.neg has no admissible value evidence for neg: never run, its capsule module has no ledger; "
        "to refresh it: torchlean evidence run --capsule chip.neg"
    ) in text
    made = plan(graph(), profile(chip, STALE, ledger=None))
    accept(made)
    assert "  evidence never run: its capsule module has no ledger (chip.neg value, chip.neg vjp)" in str(made)
    assert "chip.neg has no admissible vjp evidence" in refusal(accept, under(made, CHECKED))


def test_failed_evidence_is_admitted_by_no_policy(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = __import__(f"{chip.name}.helpers", fromlist=["Sign"])
    with monkeypatch.context() as patch:
        patch.setattr(helpers.Sign, "turned", lambda self, x: x)
        tried(chip)
    for policy in (CHECKED, STALE):
        text = refusal(plan, graph(), profile(chip, policy))
        assert "chip.neg has no admissible value evidence for neg: failed, chip.neg value: " in text
    good = plan(graph(), profile(chip, STALE, ledger=None))
    assert "value evidence for neg: failed, " in refusal(
        accept, Plan(graph=good.graph, profile=profile(chip, STALE), steps=good.steps)
    )


def test_guarded_and_trusted_contracts_need_no_record(chip: Chip) -> None:
    from torchlean.backends import Claim, capsule

    guarded = replace(
        chip.module.capsules[0],
        value=capsule.guarded(Claim.VALUE, "every result is compared with the definition"),
        vjp=capsule.trusted(Claim.VJP, "its author"),
    )
    module = replace(chip.module, capsules=(guarded,), ledger=None, probe=always_available)
    trusting = Profile(name="t", device=Device.CPU, modules=(module,), policy=CHECKED.admitting_external())
    made = plan(graph(), trusting)
    accept(made)
    assert made.evidence(made.steps[0]) == {}


def test_the_reason_is_one_of_the_vocabulary(chip: Chip) -> None:
    from torchlean.backends.planner import explain

    (candidate,) = explain(NEG, NO_PARAMS, (X,), profile(chip))
    assert [refusal.failure for refusal in candidate.refusals] == [Failure.LEDGER, Failure.LEDGER]
    assert str(Failure.LEDGER) == "evidence not current"


def test_training_records_what_its_capsules_were_admitted_on(tmp_path: Any) -> None:
    from torchlean import nn, optim, train

    data = train.dataset(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))
    trainer = train.Trainer(nn.Linear(2, 1), "mse", optim.SGD(learning_rate=0.1))
    session = trainer.open()
    session.steps(data, 2)
    held = trainer.record(session, data)["evidence"]
    assert (held["allow_stale"], held["exact"]) == (False, False)
    assert set(held["claims"]) <= {"fresh", "other-version"}
    assert sum(held["claims"].values()) >= 10
    session.save(tmp_path / "c.safetensors")
    saved = train.checkpoint.read(tmp_path / "c.safetensors").metadata["evidence"]
    assert saved.startswith('{"allow_stale":false,"claims":{')
