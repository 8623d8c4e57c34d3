"""Schedules: values by their formulas, the traced twin, PyTorch's decay laws, refusals."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import numpy as np
import pytest

from torchlean.errors import ConfigError
from torchlean.ir.evaluate import denote
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.optim import schedules

SCHEDULES = {
    "constant": schedules.constant(0.3),
    "step": schedules.step(0.5, 4, 0.5),
    "exponential": schedules.exponential(0.5, 0.9),
    "cosine": schedules.cosine(0.4, 12, 0.1),
    "warmup_cosine": schedules.warmup_cosine(0.4, 3, 12, 0.1),
}


def test_values_by_hand() -> None:
    assert [SCHEDULES["constant"](t) for t in (0, 99)] == [0.3, 0.3]
    assert [SCHEDULES["step"](t) for t in (0, 3, 4, 8)] == [0.5, 0.5, 0.25, 0.125]
    assert SCHEDULES["exponential"](2) == pytest.approx(0.405, rel=1e-15)
    assert [SCHEDULES["cosine"](t) for t in (0, 6, 12, 99)] == pytest.approx([0.4, 0.25, 0.1, 0.1], rel=1e-15)
    warm = [SCHEDULES["warmup_cosine"](t) for t in (0, 1, 2, 3, 12)]
    assert warm == pytest.approx([0.4 / 3, 0.8 / 3, 0.4, 0.4, 0.1], rel=1e-15)
    middle = 0.1 + 0.3 * (1 + math.cos(math.pi * 4 / 9)) / 2
    assert SCHEDULES["warmup_cosine"](7) == pytest.approx(middle, rel=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_traced_schedule_follows_within_a_few_roundings(name: str) -> None:
    """f32: five roundings of 2⁻²⁴, and an error of pow or cos of as much again per factor; 2e-6 covers 15 steps."""
    schedule = SCHEDULES[name]
    graph = trace_flat(lambda t: (schedule(t),), [type_of_array(np.asarray(np.int32(0)))]).graph
    for t in range(15):
        (rate,) = denote(graph, [np.int32(t)])
        assert rate.dtype == np.float32
        assert rate.shape == ()
        assert float(rate) == pytest.approx(schedule(t), rel=2e-6)
    eager: Any = schedule(np.int32(5))
    assert float(np.asarray(eager)) == pytest.approx(schedule(5), rel=2e-6)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_agrees_with_pytorch() -> None:
    import torch

    def rates(make: Any) -> list[float]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
        scheduler = make(optimizer)
        seen: list[float] = []
        for _ in range(12):
            seen.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
        return seen

    kinds = torch.optim.lr_scheduler
    for mine, theirs in (
        (schedules.step(0.4, 5, 0.3), lambda o: kinds.StepLR(o, 5, 0.3)),
        (schedules.exponential(0.4, 0.8), lambda o: kinds.ExponentialLR(o, 0.8)),
        (schedules.cosine(0.4, 12, 0.1), lambda o: kinds.CosineAnnealingLR(o, 12, 0.1)),
    ):
        assert [mine(t) for t in range(12)] == pytest.approx(rates(theirs), rel=1e-12)


def test_settings_out_of_range_are_refused() -> None:
    for make, text in (
        (lambda: schedules.step(0.1, 0), "step schedule: size = 0"),
        (lambda: schedules.step(-0.1, 2), "step schedule: base = -0.1"),
        (lambda: schedules.step(0.1, 2.5), "step schedule: size = 2.5"),  # type: ignore[arg-type]
        (lambda: schedules.constant(math.nan), "constant schedule: rate = nan"),
        (lambda: schedules.exponential(0.1, -1), "exponential schedule: factor = -1"),
        (lambda: schedules.warmup_cosine(0.1, 5, 5), "cosine schedule: total = 5"),
        (lambda: schedules.warmup_cosine(0.1, -1, 5), "cosine schedule: warmup = -1"),
        (lambda: schedules.cosine(0.1, 0), "cosine schedule: total = 0"),
        (lambda: schedules.cosine(0.1, 3, -1), "cosine schedule: low = -1"),
    ):
        with pytest.raises(ConfigError, match=text):
            make()
