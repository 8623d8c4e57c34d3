"""Environment variables that change capsules: values change labels, and nothing chosen before outlives a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.plan_programs import V, X, still
from backends.toolbox import tried

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends import (
    Capsule,
    CapsuleModule,
    Plan,
    Reduction,
    Switch,
    accept,
    always_available,
    at_load,
    plan,
    reference,
)
from torchlean.errors import ConfigError, PlanRejected
from torchlean.ir.ops.spread import REDUCE_SUM

VARIABLE = "TORCHLEAN_TEST_DETERMINISTIC_REDUCTIONS"
SUMS = next(made for made in reference.MODULE.capsules if made.op is REDUCE_SUM)


def as_switched(capsule: Capsule, value: str) -> Capsule:
    """With the switch on the sums are added in a fixed tree; without, in whatever order is fastest."""
    if capsule.op is not REDUCE_SUM:
        return capsule
    order = Reduction.FIXED_TREE if value == "1" else Reduction.IMPLEMENTATION_DEFINED
    return replace(capsule, numerics=replace(capsule.numerics, reduction=order))


UNTRIED = CapsuleModule(
    name="chip",
    capsules=(replace(SUMS, provider="chip", handler=replace(SUMS.handler, provider="chip")),),
    probe=always_available,
    switches=(
        Switch(
            variable=VARIABLE,
            choices=("0", "1"),
            effect="makes the chip add in a fixed order",
            changes=as_switched,
        ),
    ),
)
CHIP = tried(UNTRIED)
FREE = still(profiles.numpy_cpu).with_modules(CHIP)
BITWISE = FREE.deterministic("bitwise")


def total(x: Any) -> Any:
    return ops.sum(x, (0,))


def orders(made: Any) -> list[tuple[str, str]]:
    return [(step.capsule.name, str(step.capsule.numerics.reduction)) for step in made.steps]


def test_the_value_changes_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tl.make_graph(total)(X)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert orders(plan(graph, FREE)) == [("chip.reduce_sum", "implementation-defined")]
    assert orders(plan(graph, BITWISE)) == [("reference.reduce_sum", "fixed-left")]
    monkeypatch.setenv(VARIABLE, "1")
    made = plan(graph, BITWISE)
    assert orders(made) == [("chip.reduce_sum", "fixed-tree")]
    accept(made)
    assert made.as_json()["environment"] == {VARIABLE: "1"}
    assert made.profile.switched_by == ((VARIABLE, "1"),)
    assert str(made).splitlines()[0].endswith(f", bitwise determinism required, {VARIABLE}=1")
    assert tl.explain("reduce_sum", X, axes=(0,), profile=BITWISE).chosen is not None


def test_an_empty_value_is_the_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert FREE.environment() == ((VARIABLE, "0"),)


@pytest.mark.parametrize("value", ["yes", "2", " 1", "true"])
def test_a_bad_value_is_an_error_naming_the_variable_and_the_choices(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    for use in (lambda: tl.lower(total, X, profile=FREE), lambda: tl.Session(FREE), lambda: FREE.environment()):
        with pytest.raises(ConfigError) as refused:
            use()
        assert str(refused.value).splitlines() == [
            f"{VARIABLE} is {value!r}; choose 0 or 1",
            "  expected: 0, 1 (it makes the chip add in a fixed order)",
            f"  got:      {value!r}",
            "  fix:      set it to one of these, or unset it for 0",
        ]


def test_a_plan_of_another_environment_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    made = plan(tl.make_graph(total)(X), BITWISE)
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(PlanRejected) as refused:
        accept(made)
    assert str(refused.value).splitlines()[1:] == [f"  {VARIABLE} was 1 when this was planned and is 0 now: plan again"]


def test_a_plan_that_read_no_switch_is_not_accepted() -> None:
    made = plan(tl.make_graph(total)(X), FREE)
    with pytest.raises(PlanRejected, match="the switches of its modules were not read: plan again"):
        accept(Plan(graph=made.graph, profile=FREE, steps=made.steps))


def test_a_lowered_function_refuses_to_run_and_jit_lowers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 3), np.float32)
    monkeypatch.setenv(VARIABLE, "0")
    lowered, jitted = tl.lower(total, X, profile=FREE), tl.jit(total, profile=FREE)
    assert lowered(x).tolist() == jitted(x).tolist() == [4.0, 4.0, 4.0]
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(PlanRejected) as refused:
        lowered(x)
    lines = str(refused.value).splitlines()
    assert lines[0].startswith(
        f"total was lowered in another environment: {VARIABLE} was 0 when this was planned and is 1 now "
        "(test_switches.py:"
    )
    assert lines[1] == "  fix:      lower it again (tl.jit does by itself), or set the variable back"
    assert jitted(x).tolist() == [4.0, 4.0, 4.0]
    assert orders(jitted.lower(x).plan) == [("chip.reduce_sum", "fixed-tree")]
    monkeypatch.setenv(VARIABLE, "0")
    assert lowered(x).tolist() == [4.0, 4.0, 4.0]


def test_a_session_forgets_its_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    session = tl.Session(BITWISE)
    with session:
        x = session.array(np.ones((4, 3), np.float32))
        total(x)
        total(x)
        assert [capsule.name for capsule in session.report.forward] == ["reference.reduce_sum"]
        assert session.selections == 1
        monkeypatch.setenv(VARIABLE, "1")
        total(x)
        assert [str(capsule.numerics.reduction) for capsule in session.report.forward] == ["fixed-left", "fixed-tree"]
        assert session.selections == 1
        monkeypatch.setenv(VARIABLE, "maybe")
        with pytest.raises(ConfigError, match=f"{VARIABLE} is 'maybe'; choose 0 or 1"):
            total(x)


def test_a_sessions_pulled_back_programs_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of a broadcast is a sum."""
    monkeypatch.setenv(VARIABLE, "0")
    session = tl.Session(BITWISE, track_gradients=True)
    found: list[set[str]] = []
    with session:
        for value in ("0", "1", "1", "0"):
            monkeypatch.setenv(VARIABLE, value)
            x = session.parameter(np.ones(3, np.float32))
            session.backward(ops.broadcast_to(x, (4, 3)), seed=np.ones((4, 3), np.float32))
            assert session.gradient(x).numpy().tolist() == [4.0, 4.0, 4.0]
            found.append({capsule.name for capsule in session.report.derivative})
            session.reset_tape()
    assert "chip.reduce_sum" not in found[0]
    assert "chip.reduce_sum" in found[1]


def test_profiles_without_switches_pay_nothing() -> None:
    assert not profiles.numpy_cpu.has_switches
    assert profiles.numpy_cpu.switched() is profiles.numpy_cpu
    assert profiles.numpy_cpu.drift() is None
    session = tl.Session(profiles.numpy_cpu)
    assert type(session._kernels.entries) is dict


def test_a_diff_says_which_switch_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    before = tl.lower(total, X, profile=FREE)
    monkeypatch.setenv(VARIABLE, "1")
    found = before.diff(tl.lower(total, X, profile=FREE))
    assert str(found).splitlines()[1:4] == [
        f"  profile switches: {VARIABLE}=0 → {VARIABLE}=1",
        f"  ~ reduce_sum %1  ({before.plan.steps[0].node.where})",
        "      order: implementation-defined → fixed-tree",
    ]


# -- what libraries read when they are loaded --------------------------------------------------------------------------
def test_settings_are_what_was_there_when_the_library_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "7")
    setting = at_load(VARIABLE, "changes nothing")
    monkeypatch.setenv(VARIABLE, "8")
    module = replace(CHIP, switches=(), settings=(setting, at_load("TORCHLEAN_TEST_UNSET", "changes nothing")))
    profile = still(profiles.reference_cpu).with_modules(module)
    assert profile.settings() == ((VARIABLE, "7"),)
    assert tl.lower(ops.tanh, V, profile=profile).plan.as_json()["environment"] == {VARIABLE: "7"}


def test_the_number_of_threads_is_on_record_because_it_changes_bits() -> None:
    """Measured here, so that the declaration stays honest: if no product differs, only the record is checked."""
    program = (
        "import json, numpy as np\n"
        "from torchlean import profiles\n"
        "rng = np.random.default_rng(0)\n"
        "made = [rng.normal(size=(130, 1000)) @ rng.normal(size=(1000, 70)) for _ in range(4)]\n"
        "print(json.dumps([dict(profiles.numpy_cpu.settings()), [m.tobytes().hex() for m in made]]))\n"
    )
    found: list[Any] = []
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    assert [settings["OPENBLAS_NUM_THREADS"] for settings, _ in found] == ["1", "2"]
    print("products differ with the threads:", found[0][1] != found[1][1])
