"""Masks: a branch that is not taken contributes nothing, whatever its own slope is there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.conformance.check import Check

_TAKEN = "only the branch taken contributes"


def _half_power(ns: Any, x: Any) -> Any:
    return ns.where(x < 0, -((-x) ** 0.5), x**0.5)


def _nan_mean_of_squares(ns: Any, x: Any) -> Any:
    squares = x**2
    known = ns.logical_not(ns.isnan(squares))
    return ns.sum(ns.where(known, squares, 0.0)) / 1.0


def _naive_elu(ns: Any, x: Any) -> Any:
    return ns.where(x > 0, x, ns.exp(x) - 1.0)


CHECKS = (
    Check(
        id="where_sqrt_dead_branch",
        item=11,
        f=lambda ns, x: ns.where(x < 1, x, ns.sqrt(x)),
        at=np.zeros(()),
        value=0,
        slope=1,
        second=0,
        reason=_TAKEN,
    ),
    Check(
        id="where_sqrt_negative_dead",
        item=11,
        f=lambda ns, x: ns.where(x >= 0, x, ns.sqrt(-x)),
        at=np.ones(()),
        value=1,
        slope=1,
        second=0,
        reason=_TAKEN,
    ),
    Check(
        id="where_log_dead",
        item=11,
        f=lambda ns, x: ns.where(x > 0, ns.log(x), x),
        at=np.zeros(()),
        value=0,
        slope=1,
        second=0,
        reason=_TAKEN,
    ),
    Check(
        id="where_reciprocal_dead",
        item=11,
        f=lambda ns, x: ns.where(x == 0, x, 1.0 / x),
        at=np.zeros(()),
        value=0,
        slope=1,
        second=0,
        reason=_TAKEN,
    ),
    Check(
        id="where_chain_dead",
        item=11,
        f=lambda ns, x: ns.where(x == 0, 2.0 * x, x * ns.sin(1.0 / x)),
        at=np.zeros(()),
        value=0,
        slope=2,
        second=0,
        reason="sin(1/0) is NaN, and stays in the branch not taken",
    ),
    Check(
        id="where_overflow_dead",
        item=11,
        f=_naive_elu,
        at=np.array(1e4),
        value=1e4,
        slope=1,
        second=0,
        reason="exp overflows in the branch not taken",
    ),
    Check(
        id="max_of_f_nan_other_entry",
        item=13,
        f=lambda ns, x: ns.max(ns.stack([x, ns.sqrt(0.0 * x)])),
        at=np.ones(()),
        value=1,
        slope=1,
        second=0,
        reason="the slope of the entry selected",
    ),
    Check(
        id="neg_base_frac_pow_where",
        item=14,
        f=_half_power,
        at=np.array(-1.0),
        value=-1,
        slope=0.5,
        second=0.25,
        reason="-(-x)^½ has slope ½(-x)^-½",
    ),
    Check(
        id="nanmean_of_square_with_nan",
        item=16,
        f=_nan_mean_of_squares,
        at=np.array([math.nan, 1.0]),
        value=1,
        slope=np.array([0, 2]),
        second=np.array([[0, 0], [0, 2]]),
        reason="the masked entry receives 0",
    ),
    Check(
        id="nanmean_of_square_with_nan/function",
        item=16,
        f=lambda ns, x: ns.nanmean(x**2),
        at=np.array([math.nan, 1.0]),
        value=1,
        slope=np.array([0, 2]),
        second=np.array([[0, 0], [0, 2]]),
        reason="the masked entry receives 0",
    ),
    Check(
        id="xlogy_00_value_grad",
        item=17,
        f=lambda ns, y: ns.xlogy(0.0 * y, y) + ns.xlogy(ns.array(0.0), y),
        at=np.zeros(()),
        value=0,
        reason="0 · log 0 is the limit 0",
    ),
    Check(
        id="xlogy_00_slope",
        item=17,
        f=lambda ns, y: ns.xlogy(ns.array(0.0), y),
        at=np.zeros(()),
        value=0,
        slope=0,
        second=0,
        reason="d/dy = x/y with x = 0",
    ),
    Check(
        id="entr_grad_at_0",
        item=17,
        f=lambda ns, x: ns.entr(x),
        at=np.zeros(()),
        value=0,
        slope=math.inf,
        second=-math.inf,
        reason="-log x - 1, and -1/x",
    ),
    Check(
        id="p_log_p_where_at_0",
        item=17,
        f=lambda ns, p: ns.where(p > 0, p * ns.log(p), 0.0),
        at=np.zeros(()),
        value=0,
        slope=0,
        second=0,
        reason=_TAKEN,
    ),
)
