"""Learning rates as functions of the 0-based step.

A Python integer gives a Python float, computed in binary64; an integer tensor, traced or not, gives f32[] computed with
ops, which may differ in the last bits. One warm-up convention: step t < warmup uses peak·(t + 1)/warmup, so the first
step is not wasted at rate 0 and step warmup − 1 is at the peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlean.errors import ConfigError, message
from torchlean.ir import ops
from torchlean.ir.location import caller_location
from torchlean.optim import checks

Schedule = Callable[[Any], Any]


def constant(rate: float) -> Schedule:
    """`rate` at every step."""
    checks.non_negative("constant schedule", "rate", rate)
    return lambda step: float(rate) if isinstance(step, int) else ops.full((), rate, "f32")


def step(base: float, size: int, factor: float = 0.1) -> Schedule:
    """base·factor^⌊t/size⌋. ConfigError for a size below 1 (a size of 0 would never step)."""
    checks.non_negative("step schedule", "base", base)
    checks.non_negative("step schedule", "factor", factor)
    _require_steps("step schedule", "size", size, 1)

    def rate(t: Any) -> Any:
        if isinstance(t, int):
            return base * factor ** (t // size)
        drops = ops.convert(ops.convert(_float(t) / float(size), "i32"), "f32")  # conversion truncates
        return ops.pow(ops.full((), factor, "f32"), drops) * base

    return rate


def exponential(base: float, factor: float) -> Schedule:
    """base·factor^t."""
    checks.non_negative("exponential schedule", "base", base)
    checks.non_negative("exponential schedule", "factor", factor)

    def rate(t: Any) -> Any:
        return base * factor**t if isinstance(t, int) else ops.pow(ops.full((), factor, "f32"), _float(t)) * base

    return rate


def cosine(peak: float, total: int, low: float = 0.0) -> Schedule:
    """From `peak` at step 0 to `low` at step `total`, along half a cosine, `low` after.  [Loshchilov & Hutter 2017]"""
    return warmup_cosine(peak, 0, total, low)


def warmup_cosine(peak: float, warmup: int, total: int, low: float = 0.0) -> Schedule:
    """t < warmup: peak·(t + 1)/warmup; then low + (peak − low)·(1 + cos(π(t − warmup)/(total − warmup)))/2.

    From `total` on it is `low`. ConfigError unless 0 ≤ warmup < total.
    """
    checks.non_negative("cosine schedule", "peak", peak)
    checks.non_negative("cosine schedule", "low", low)
    _require_steps("cosine schedule", "warmup", warmup, 0)
    _require_steps("cosine schedule", "total", total, warmup + 1)
    span = total - warmup

    def rate(t: Any) -> Any:
        if isinstance(t, int):
            if t >= total:
                return float(low)
            if t < warmup:
                return peak * (t + 1) / warmup
            return low + (peak - low) * (1 + math.cos(math.pi * (t - warmup) / span)) / 2
        now = _float(t)
        fallen = (ops.cos((now - float(warmup)) * (math.pi / span)) + 1.0) * ((peak - low) / 2) + low
        rising = (now + 1.0) * (peak / warmup) if warmup else fallen
        early = ops.select(ops.lt(now, float(warmup)), rising, fallen)
        return ops.select(ops.ge(now, float(total)), ops.full((), low, "f32"), early)

    return rate


def _float(t: Any) -> Any:
    return ops.convert(t, "f32")


def _require_steps(schedule: str, name: str, value: Any, least: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return
    raise ConfigError(
        message(
            f"{schedule}: {name} = {value!r}",
            expected=f"an integer ≥ {least}",
            got=repr(value),
            fix=f"count {name} in steps",
            where=str(caller_location()),
        )
    )
