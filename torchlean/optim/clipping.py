"""Bounds on gradients, over the whole tree."""

from __future__ import annotations

from typing import Any

from torchlean import pytree
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.optim import checks
from torchlean.optim.leaves import spread


def global_norm(tree: Any) -> Any:
    """√Σ g² over all float entries of all leaves, leaf after leaf; f32[] (or f64[] if the first leaf is)."""
    total: Any = None
    for leaf in pytree.leaves(tree):
        if type_of(leaf).dtype.is_float:
            squares = ops.sum(ops.integer_pow(leaf, 2))
            total = squares if total is None else total + ops.convert(squares, total.type.dtype)
    return ops.full((), 0.0, "f32") if total is None else ops.sqrt(total)


def clip_by_norm(tree: Any, limit: float) -> tuple[Any, Any]:
    """(the tree scaled by limit/norm where its global norm is above `limit`, the norm before). NaN stays NaN."""
    checks.positive("clip_by_norm", "limit", limit)
    norm = global_norm(tree)
    scale = ops.select(ops.gt(norm, limit), limit / norm, 1.0)
    return pytree.map(lambda g: g * spread(scale, type_of(g)) if type_of(g).dtype.is_float else g, tree), norm


def clip_by_value(tree: Any, limit: float) -> Any:
    """Every float entry clamped to [−limit, limit]."""
    checks.positive("clip_by_value", "limit", limit)
    return pytree.map(lambda g: ops.clamp(g, -limit, limit) if type_of(g).dtype.is_float else g, tree)
