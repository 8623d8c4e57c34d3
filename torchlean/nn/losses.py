"""Losses: scalars, means over all positions unless they say otherwise."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.ops.loss import require_equal
from torchlean.ir.ops.promote import tensor


def mse(prediction: Any, target: Any) -> Any:
    """Mean of (prediction − target)² over all entries; both of one type."""
    return ops.mse_loss(prediction, target)


def mse_sum(prediction: Any, target: Any) -> Any:
    """Sum of (prediction − target)² over all entries; both of one type."""
    prediction, target = tensor(prediction), tensor(target)
    require_equal("mse_sum", prediction.type, target.type)
    return ops.sum(ops.integer_pow(prediction - target, 2))


def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """Mean of −log softmax(logits) at integer labels; see `ops.cross_entropy` for labels out of range."""
    return ops.cross_entropy(logits, labels, axis)


def cross_entropy_one_hot(logits: Any, targets: Any, axis: int = -1) -> Any:
    """Mean of −Σ targets·log softmax(logits) along `axis`."""
    return ops.cross_entropy_one_hot(logits, targets, axis)


def nll(log_probabilities: Any, labels: Any, axis: int = -1) -> Any:
    """Mean of −log_probabilities at integer labels."""
    return ops.nll_loss(log_probabilities, labels, axis)


def bce_with_logits(logits: Any, targets: Any) -> Any:
    """Mean of y·softplus(−x) + (1 − y)·softplus(x): binary cross entropy of logistic(x), without overflow."""
    logits, targets = tensor(logits), tensor(targets)
    require_equal("bce_with_logits", logits.type, targets.type)
    return ops.mean(targets * ops.softplus(-logits) + (1.0 - targets) * ops.softplus(logits))
