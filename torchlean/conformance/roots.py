"""Roots, norms, distances, angles: the least subgradient at a kink, the smooth derivative of what is smooth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.conformance.check import Check

_EVEN = "an even function has slope 0 at 0; it is also the least element of the unit ball"


def _norm_by_dot(ns: Any, x: Any) -> Any:
    return ns.sqrt(ns.matmul(x, x))


def _distances(ns: Any, x: Any) -> Any:
    apart = ns.square(ns.expand_dims(x, axis=1) - ns.expand_dims(x, axis=0))
    return ns.sum(ns.where(ns.array(np.eye(2, dtype=bool)), 0.0, ns.sqrt(apart)))


def _angle(ns: Any, v: Any) -> Any:
    return ns.atan2(v[0], v[1])


_FAR, _NEAR = 1e-13, 5.68e-14
_SQUARED = _FAR**2 + _NEAR**2

CHECKS = (
    Check(
        id="norm_at_0",
        item=1,
        f=lambda ns, x: ns.sqrt(ns.sum(x * x)),
        at=np.zeros(3),
        value=0,
        slope=np.zeros(3),
        second=np.zeros((3, 3)),
        reason=_EVEN,
    ),
    Check(
        id="norm_at_0/function",
        item=1,
        f=lambda ns, x: ns.norm(x),
        at=np.zeros(3),
        value=0,
        slope=np.zeros(3),
        second=np.zeros((3, 3)),
        reason=_EVEN,
    ),
    Check(
        id="norm_at_0/dot",
        item=1,
        f=_norm_by_dot,
        at=np.zeros(3),
        value=0,
        slope=np.zeros(3),
        second=np.zeros((3, 3)),
        reason="x · x is another spelling of the sum of squares",
    ),
    Check(
        id="norm_sq_at_0",
        item=2,
        f=lambda ns, x: ns.norm(x) ** 2,
        at=np.zeros(3),
        value=0,
        slope=np.zeros(3),
        second=2 * np.eye(3),
        reason="Σx², a polynomial",
    ),
    Check(
        id="norm_sq_at_0/product",
        item=2,
        f=lambda ns, x: ns.sqrt(ns.sum(x * x)) * ns.sqrt(ns.sum(x * x)),
        at=np.zeros(3),
        value=0,
        slope=np.zeros(3),
        second=2 * np.eye(3),
        reason="Σx², a polynomial",
    ),
    Check(
        id="sqrt_of_x2_at_0",
        item=4,
        f=lambda ns, x: ns.sqrt(x * x),
        at=np.zeros(()),
        value=0,
        slope=0,
        second=0,
        reason="|x|, however it is spelled",
    ),
    Check(
        id="sqrt_of_x2_at_0/power",
        item=4,
        f=lambda ns, x: ns.sqrt(x**2),
        at=np.zeros(()),
        value=0,
        slope=0,
        second=0,
        reason="|x|, however it is spelled",
    ),
    Check(
        id="sqrt_of_x2_at_0/square",
        item=4,
        f=lambda ns, x: ns.sqrt(ns.square(x)),
        at=np.zeros(()),
        value=0,
        slope=0,
        second=0,
        reason="|x|, however it is spelled",
    ),
    Check(
        id="sqrt_of_mean_square_at_0",
        item=4,
        f=lambda ns, x: ns.sqrt(ns.mean(ns.square(x - 1.0))),
        at=np.ones(3),
        value=0,
        slope=np.zeros(3),
        second=np.zeros((3, 3)),
        reason="the root of a mean squared error at a perfect fit",
    ),
    Check(
        id="pairwise_dist_diag",
        item=5,
        f=_distances,
        at=np.array([1.0, 3.0]),
        value=4,
        slope=np.array([-2, 2]),
        second=np.zeros((2, 2)),
        reason="2·|x₁ - x₂|; the diagonal is masked out",
    ),
    Check(
        id="sqrt_at_0",
        item=7,
        f=lambda ns, x: ns.sqrt(x),
        at=np.zeros(()),
        value=0,
        slope=math.inf,
        second=-math.inf,
        reason="the one-sided derivatives diverge: ½x^-½ and -¼x^-3/2",
    ),
    Check(
        id="hessian_norm_sq_1_2_3_symmetric",
        item=8,
        f=lambda ns, x: ns.norm(x) ** 2,
        at=np.array([1.0, 2.0, 3.0]),
        value=14,
        slope=np.array([2, 4, 6]),
        second=2 * np.eye(3),
        reason="Σx², exactly",
        rtol=1e-15,
    ),
    Check(
        id="hvp_norm_at_0_second_order",
        item=8,
        f=lambda ns, x: ns.norm(x),
        at=np.zeros(2),
        value=0,
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason="declared: at a kink the second derivative is that of the slope chosen, a constant",
    ),
    Check(
        id="arctan2_00",
        item=10,
        f=_angle,
        at=np.zeros(2),
        value=0,
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason="undefined; declared 0, the choice of least norm",
    ),
    Check(
        id="where_arctan2_dead",
        item=10,
        f=lambda ns, x: ns.sum(ns.where(x > 0, ns.atan2(x, x), 0.0)),
        at=np.zeros(1),
        value=0,
        slope=np.zeros(1),
        second=np.zeros((1, 1)),
        reason="the branch is not taken",
    ),
    Check(
        id="arctan2_tiny",
        item=10,
        f=_angle,
        at=np.array([_FAR, _NEAR]),
        value=math.atan2(_FAR, _NEAR),
        slope=np.array([_NEAR, -_FAR]) / _SQUARED,
        reason="x/h² and -y/h²",
    ),
    Check(
        id="arctan2_1e-30_underflow",
        item=10,
        f=_angle,
        at=np.array([1e-30, 1e-30], np.float32),
        value=np.float32(math.pi / 4),
        slope=np.array([5e29, -5e29]),
        reason="x/h², which float32 holds though h² underflows; the second derivative it does not hold",
        rtol=1e-6,
    ),
    Check(
        id="hypot_at_0",
        item=10,
        f=lambda ns, v: ns.hypot(v[0], v[1]),
        at=np.zeros(2),
        value=0,
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason=_EVEN,
    ),
    Check(
        id="hypot_sq_at_0",
        item=10,
        f=lambda ns, v: ns.hypot(v[0], v[1]) ** 2,
        at=np.zeros(2),
        value=0,
        slope=np.zeros(2),
        second=2 * np.eye(2),
        reason="x² + y²",
    ),
    Check(
        id="std_of_equal_entries",
        item=1,
        f=lambda ns, x: ns.std(x),
        at=np.full(3, 2.0),
        value=0,
        slope=np.zeros(3),
        second=np.zeros((3, 3)),
        reason="the root of a sum of squares at its minimum",
    ),
    Check(
        id="std_sq_is_var",
        item=2,
        f=lambda ns, x: ns.std(x) ** 2,
        at=np.full(2, 2.0),
        value=0,
        slope=np.zeros(2),
        second=np.array([[0.5, -0.5], [-0.5, 0.5]]),
        reason="the variance ((x - y)/2)², a polynomial",
    ),
)
