"""What XLA counts of the executables it made, beside the counts of this project."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.backends.analyses import Analysis, Said, lines

jax = pytest.importorskip("jax")
XLA = tl.profiles.xla_cpu.under(tl.profiles.xla_cpu.policy.allowing_stale())
W, X = np.ones((64, 32), np.float32), np.ones((16, 64), np.float32)


def step(w: Any, x: Any) -> Any:
    return ops.sum(ops.tanh(x @ w) ** 2)


def test_both_counts_stand_side_by_side() -> None:
    lowered = tl.lower(tl.value_and_grad(step), W, X, profile=XLA)
    (found,) = lowered.cost().analyses
    direct = jax.jit(jax.value_and_grad(lambda w, x: jax.numpy.sum(jax.numpy.tanh(x @ w) ** 2))).lower(W, X).compile()
    said, theirs = found.said, direct.cost_analysis()
    assert found.compiler == "xla"
    assert found.positions == tuple(range(len(lowered.plan.steps)))
    assert found.flops == lowered.cost().flops
    assert said.transcendental == theirs["transcendentals"] == 16 * 32
    assert said.flops is not None
    assert said.transcendental is not None
    assert said.flops + said.transcendental == pytest.approx(found.flops, rel=0.02)
    assert said.moved is not None
    assert W.nbytes + X.nbytes < said.moved < 4 * found.moved
    text = lowered.cost().text()
    assert "compiled groups, as counted here step by step and as their compiler counts them:" in text
    assert f"{found.flops:,}" in text.splitlines()[-1]
    assert lowered.as_json()["cost"]["analyses"] == [found.as_json()]


def test_groups_around_another_provider_have_a_row_each() -> None:
    def program(x: Any) -> Any:
        y = ops.tanh(x) + 1
        tl.debug.print("{y}", y=y)
        return ops.exp(y) * 2

    lowered = tl.lower(program, X, profile=XLA)
    rows = lowered.cost().analyses
    steps = [lowered.plan.steps[at].capsule.name for row in rows for at in row.positions]
    assert {name.split(".")[0] for name in steps} == {"xla"}
    assert sum([row.flops for row in rows]) == lowered.cost().flops


def test_a_provider_that_says_nothing_has_none() -> None:
    lowered = tl.lower(step, W, X)
    assert lowered.cost().analyses == ()
    assert "compiler" not in lowered.cost().text()


def test_what_a_compiler_does_not_say() -> None:
    said = Said(flops=None, transcendental=None, moved=7, workspace=0, aliased=8)
    row = Analysis(compiler="xla", positions=(3,), said=said, flops=1000, moved=2000)
    header, cells = [" ".join(line.split()) for line in lines([row])[1:]]
    assert header == "flops here by compiler bytes moved here by compiler workspace aliased"
    assert cells == "xla, 1 step from 3 1,000 unsaid 2,000 7 0 8"
    assert lines([]) == []
