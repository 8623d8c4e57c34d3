"""Gather, scatter, sort, interpolation: duplicates, ties, grid points."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.conformance.check import Check


def _filled(ns: Any, x: Any) -> Any:
    return ns.sum(ns.put_rows((2,), [0, 0], ns.stack([x, x])))


CHECKS = (
    Check(
        id="gather_duplicates",
        item=46,
        f=lambda ns, x: ns.sum(ns.take(x, ns.array(np.array([0, 0, 1], np.int32)), axis=0)),
        at=np.array([5.0, 6.0, 7.0]),
        value=16,
        slope=np.array([2, 1, 0]),
        second=np.zeros((3, 3)),
        reason="the transpose of a gather adds",
    ),
    Check(
        id="set_duplicates_grad",
        item=47,
        f=lambda ns, v: ns.sum(ns.put_rows((2,), [0, 0], v)),
        at=np.array([3.0, 4.0]),
        value=4,
        slope=np.array([0, 1]),
        second=np.zeros((2, 2)),
        reason="the last update is kept, and it alone receives",
    ),
    Check(
        id="index_fill_dup_grad",
        item=47,
        f=_filled,
        at=np.array(3.0),
        value=3,
        slope=1,
        second=0,
        reason="one entry of the result is x",
    ),
    Check(
        id="sort_ties_grad",
        item=50,
        f=lambda ns, x: ns.sum(ns.sort(x) * ns.array(np.arange(1.0, 4.0))),
        at=np.ones(3),
        value=6,
        slope=np.array([1, 2, 3]),
        second=np.zeros((3, 3)),
        reason="a stable sort moves nothing",
    ),
    Check(
        id="sort_second_derivative",
        item=50,
        f=lambda ns, x: ns.sum(ns.sort(x) ** 2),
        at=np.array([2.0, 1.0]),
        value=5,
        slope=np.array([4, 2]),
        second=2 * np.eye(2),
        reason="the order is locally constant",
    ),
)
