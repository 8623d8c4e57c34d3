"""Determinants of singular matrices, and eigenvalues that coincide."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.conformance.check import Check

_COFACTORS = "the transposed adjugate, which a singular matrix has too"


def _hessian() -> np.ndarray[Any, Any]:
    """Of ad - bc: by (a, d) 1, by (b, c) -1."""
    made = np.zeros((2, 2, 2, 2))
    made[0, 0, 1, 1] = made[1, 1, 0, 0] = 1
    made[0, 1, 1, 0] = made[1, 0, 0, 1] = -1
    return made


CHECKS = (
    Check(
        id="det_singular_grad",
        item=70,
        f=lambda ns, x: ns.det(x),
        at=np.array([[1.0, 0.0], [0.0, 0.0]]),
        value=0,
        slope=np.array([[0, 0], [0, 1]]),
        second=_hessian(),
        reason=_COFACTORS,
    ),
    Check(
        id="det_1x1_zero_grad",
        item=70,
        f=lambda ns, x: ns.det(x),
        at=np.zeros((1, 1)),
        value=0,
        slope=np.ones((1, 1)),
        second=np.zeros((1, 1, 1, 1)),
        reason="the determinant is the entry",
    ),
    Check(
        id="det_rank1_grad",
        item=70,
        f=lambda ns, x: ns.det(x),
        at=np.array([[0.0, 1.0], [0.0, 1.0]]),
        value=0,
        slope=np.array([[1, 0], [-1, 0]]),
        second=_hessian(),
        reason=_COFACTORS,
    ),
    Check(
        id="eigh_degenerate_grad",
        item=70,
        f=lambda ns, x: ns.sum(ns.eigh(x)[0] ** 2),
        at=np.eye(2),
        value=2,
        slope=2 * np.eye(2),
        reason="Σλ² is the squared norm of a symmetric matrix, smooth where eigenvalues meet",
    ),
)
