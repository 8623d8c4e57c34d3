"""Log-space arithmetic, softmax, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.conformance.check import Check

_NOTHING = (-math.inf, -math.inf)


def _masked_softmax(ns: Any, x: Any) -> Any:
    return ns.softmax(ns.where(ns.array(np.zeros(2, dtype=bool)), x, -math.inf))


def _hidden_query(ns: Any, q: Any) -> Any:
    k, v = ns.array(np.ones((3, 1))), ns.array(np.array([[1.0], [3.0], [8.0]]))
    return ns.sum(ns.attention(q, k, v, np.zeros((1, 3), dtype=bool)))


def _shared_weights(ns: Any, w: Any) -> Any:
    """One row sees nothing and is left out of the loss; the weights serve both rows."""
    x = ns.array(np.array([[1.0, 0.5], [-1.0, 2.0]]))
    y = ns.attention(ns.matmul(x, w), ns.matmul(x, w), ns.matmul(x, w), np.array([[True, True], [False, False]]))
    return ns.sum(y[0])


def _beta(ns: Any, t: Any) -> Any:
    def betaln(a: Any) -> Any:
        return ns.lgamma(a) + ns.lgamma(ns.array(1.0)) - ns.lgamma(a + 1.0)

    return betaln(ns.exp(t)) - betaln(ns.exp(t) + 1.0)


CHECKS = (
    Check(
        id="logsumexp_all_neginf_value",
        item=38,
        f=lambda ns, x: ns.logsumexp(x),
        at=np.array(_NOTHING),
        value=-math.inf,
        reason="log 0",
    ),
    Check(
        id="logsumexp_all_neginf_grad",
        item=38,
        f=lambda ns, x: ns.logsumexp(x),
        at=np.array(_NOTHING),
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason="a zero of log-space has no influence",
    ),
    Check(
        id="logsumexp_partial_neginf_grad",
        item=38,
        f=lambda ns, x: ns.logsumexp(x),
        at=np.array([-math.inf, 1.0]),
        value=1,
        slope=np.array([0, 1]),
        second=np.zeros((2, 2)),
        reason="the softmax",
    ),
    Check(
        id="logsumexp_posinf_grad",
        item=38,
        f=lambda ns, x: ns.logsumexp(x),
        at=np.array([math.inf, 0.0]),
        value=math.inf,
        slope=np.array([1, 0]),
        second=np.zeros((2, 2)),
        reason="all of the influence is that of the infinite entry",
    ),
    Check(
        id="logaddexp_all_neginf",
        item=38,
        f=lambda ns, v: ns.logaddexp(v[0], v[1]),
        at=np.array(_NOTHING),
        value=-math.inf,
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason="as logsumexp",
    ),
    Check(
        id="softmax_all_masked_value",
        item=40,
        f=lambda ns, x: ns.softmax(x),
        at=np.array(_NOTHING),
        value=np.zeros(2),
        slope=np.zeros((2, 2)),
        second=np.zeros((2, 2, 2)),
        reason="declared: a row of nothing weighs nothing",
    ),
    Check(
        id="softmax_where_all_false",
        item=40,
        f=_masked_softmax,
        at=np.array([1.0, 2.0]),
        value=np.zeros(2),
        slope=np.zeros((2, 2)),
        second=np.zeros((2, 2, 2)),
        reason="the same by a mask",
    ),
    Check(
        id="sdpa_all_masked_value",
        item=40,
        f=_hidden_query,
        at=np.ones((1, 1)),
        value=0,
        reason="declared: a query that sees nothing gives zeros",
    ),
    Check(
        id="sdpa_all_masked_grad_q",
        item=40,
        f=_hidden_query,
        at=np.ones((1, 1)),
        slope=np.zeros((1, 1)),
        second=np.zeros((1, 1, 1, 1)),
        reason="and receives nothing",
    ),
    Check(
        id="log_softmax_neginf_entry_grad",
        item=40,
        f=lambda ns, x: ns.log_softmax(x)[1],
        at=np.array([-math.inf, 0.0]),
        value=0,
        slope=np.zeros(2),
        second=np.zeros((2, 2)),
        reason="one_hot - softmax",
    ),
    Check(
        id="softmax_ce_hessian",
        item=41,
        f=lambda ns, x: -ns.log_softmax(x)[0],
        at=np.array([0.5, 0.5]),
        value=math.log(2),
        slope=np.array([-0.5, 0.5]),
        second=np.array([[0.25, -0.25], [-0.25, 0.25]]),
        reason="diag(p) - p·pᵀ",
    ),
    Check(
        id="betaln_hess_at_0",
        item=43,
        f=_beta,
        at=np.zeros(()),
        value=math.log(2),
        slope=-0.5,
        second=0.25,
        reason="log(1 + e^-t): -σ(-t) and σ(t)(1 - σ(t))",
        rtol=1e-9,
    ),
    Check(
        id="log1p_expm1_small_grad",
        item=44,
        f=lambda ns, v: ns.stack([ns.log1p(v[0]), ns.expm1(v[1])]),
        at=np.array([1e-12, 1e-12]),
        value=np.array([1e-12, 1e-12]),
        slope=np.eye(2),
        reason="1/(1 + x) and eˣ, to 1 ulp of 1 in float32",
        rtol=1e-11,
    ),
)

SHARED_WEIGHTS = _shared_weights
