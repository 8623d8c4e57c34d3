"""`edge-cases`: the table, its JSON, and the exit code when something is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torchlean.backends import profiles
from torchlean.cli import edge_cases
from torchlean.conformance import run as runner
from torchlean.conformance.check import Check


@pytest.fixture(scope="module")
def everything() -> list[runner.Result]:
    """Every check in every place, run once."""
    return runner.run_all()


LONGEST = max([check.id for check in runner.ALL], key=len)


def test_every_check_is_printed_with_the_peers_results(run) -> None:
    result = run("edge-cases")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for check in runner.ALL:
        assert any(line.startswith(f"{check.id} ") for line in lines), check.id
    assert next(line for line in lines if line.startswith("where_log_dead ")).split()[:10] == [
        "where_log_dead", "✓✓✓✓", "✓✓✓✓", "✓✓✓✓", "✓✓✓✓", "✗", "nan", "✗", "nan", "✗",
    ]  # fmt: skip
    assert "checked_cpu lowered: value 122 right, 0 wrong" in result.stdout
    assert "jax 0.10.2, recorded: 61 right, 21 NaN" in result.stdout


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            80,
            [
                "wrong input                            torchlean  jax   torc  auto  mlx",
                "while_loop_grad                        ✓···       E     —     —     —",
            ],
        ),
        (
            130,
            [
                "wrong input                            checked_cpu    fast_cpu       reference_cpu  numpy_cpu      "
                "jax   torc  auto  mlx",
                "while_loop_grad                        ✓···           ✓···           ✓···           ✓···           "
                "E     —     —     —",
            ],
        ),
        (
            200,
            [
                "wrong input                            checked_cpu    fast_cpu       reference_cpu  numpy_cpu      "
                "jax 0.10.2         torch 2.13         autograd 1.9.1     mlx 0.32",
                "while_loop_grad                        ✓···           ✓···           ✓···           ✓···           "
                "E ValueError: Re…  —                  —                  —",
            ],
        ),
    ],
)
def test_it_fits_the_terminal(
    run, monkeypatch: pytest.MonkeyPatch, everything: list[runner.Result], columns: int, shown: list[str]
) -> None:
    monkeypatch.setattr(edge_cases, "_columns", lambda: columns)
    monkeypatch.setattr(runner, "run_all", lambda checks: [r for r in everything if r.id in {c.id for c in checks}])
    lines = run("edge-cases", "--case", "while_loop_grad", "--case", LONGEST).stdout.splitlines()
    assert [line for line in lines if line in shown] == shown
    lines = run("edge-cases").stdout.splitlines()
    table = lines[2 : next(at for at, line in enumerate(lines) if line.startswith("checked_cpu eager"))]
    assert max(map(len, table)) <= columns
    assert max(map(len, lines[-2:])) <= columns


def test_one_check_as_json(run) -> None:
    result = run("edge-cases", "--case", "norm_sq_at_0", "--json")
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    (check,) = record["checks"]
    assert check["recorded"]["torch"] == "✓ [0, 0, 0]"
    assert len(check["torchlean"]) == 8
    for aspects in check["torchlean"].values():
        assert set(aspects) == {"value", "jvp", "vjp", "second"}
        assert all(aspect["right"] for aspect in aspects.values())
    assert record["tally"]["fast_cpu eager"]["second"] == {"right": 1, "wrong": 0}


def test_a_wrong_result_is_shown_and_the_answer_is_no(run, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    wrong: Any = Check(id="off_by_one", item=1, f=lambda ns, x: x * 2.0, at=np.ones(()), slope=3, reason="no")
    monkeypatch.setattr(runner, "ALL", (wrong,))
    result = run("edge-cases", "--case", "off_by_one")
    monkeypatch.undo()
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert "checked_cpu eager, vjp: 2." in result.stdout


def test_an_unknown_check_is_refused(run) -> None:
    result = run("edge-cases", "--case", "nothing")
    assert result.exit_code == 2
    assert "error: edge-cases: no check is called 'nothing'" in result.stderr


@pytest.fixture
def xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """xla_cpu whatever the state of its records."""
    pytest.importorskip("jax")
    profile = profiles.xla_cpu.under(profiles.xla_cpu.policy.allowing_stale())
    (place,) = runner.places_of(profile)
    assert place.name == "xla_cpu lowered"  # sessions leave it out
    monkeypatch.setattr(runner, "places_of", lambda one: {"xla_cpu": (place,)}[one.name])


def test_what_a_provider_declares_is_counted_as_such(run, xla: None) -> None:
    chosen = ("log_subnormal_f32", "arctan2_1e-30_underflow", "norm_sq_at_0", "sqrt_at_0")
    asked = [argument for id in chosen for argument in ("--case", id)]
    result = run("edge-cases", "--profile", "xla_cpu", *asked)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("value, JVP, VJP, JVP of VJP: ✓ right, ✗ wrong, ~ as declared, · not asked")
    assert next(line for line in lines if line.startswith("log_subnormal_f32 ")).split()[1].startswith("~")
    assert next(line for line in lines if line.startswith("arctan2_1e-30_underflow ")).split()[1] == "✓~~·"
    assert next(line for line in lines if line.startswith("norm_sq_at_0 ")).split()[1] == "✓✓✓✓"
    assert any("xla_cpu lowered, value: -inf, as declared: subnormal numbers count as zero" in line for line in lines)
    assert any("as declared: XLA writes (a/b)/c as a/(b·c)" in line for line in lines)
    assert any(line.startswith("xla_cpu lowered: value") and "1 declared" in line for line in lines)
    record = json.loads(run("edge-cases", "--profile", "xla_cpu", *asked, "--json").stdout)
    (check,) = [row for row in record["checks"] if row["id"] == "log_subnormal_f32"]
    assert "subnormal" in check["torchlean"]["xla_cpu lowered"]["value"]["declared"]
    assert "declared" in record["tally"]["xla_cpu lowered"]["jvp"]


def test_what_is_declared_is_wrong_and_nothing_else_is(run, xla: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {(id, aspect) for _, id, aspect in runner.DECLARED} <= {
        (c.id, a) for c in runner.ALL for a in runner.ASPECTS
    }
    monkeypatch.setattr(runner, "DECLARED", {})
    result = run("edge-cases", "--profile", "xla_cpu", "--case", "log_subnormal_f32")
    assert result.exit_code == 1
    assert "✗" in result.stdout


@pytest.mark.slow
def test_on_xla_every_check_is_right_or_declared(xla: None) -> None:
    (place,) = runner.places_of(profiles.xla_cpu)
    results = runner.run_all([place])
    assert [(r.id, aspect) for r in results for aspect in r.outcomes if r.is_wrong(aspect)] == []
    right = [(r.id, aspect) for r in results for aspect in r.declared if r.outcomes[aspect].right]
    assert right == []
