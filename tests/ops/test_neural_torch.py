"""Neural composites and their gradients against PyTorch, in float64.

Tolerance: both sides evaluate well-conditioned formulas of a few dozen roundings of 2⁻⁵³ each; 1e-12 is 10⁴ of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchlean.ir import ops
from torchlean.transforms.api import vjp

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed: nothing to compare with", allow_module_level=True)

import torch
from torch.nn import functional as F  # noqa: N812

TOLERANCE = 1e-12
Case = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


LABELS = np.array([0, 4, 2])
IMAGE = draws(2, 3, 7, 6)
QKV = (draws(2, 4, 3, seed=1), draws(2, 5, 3, seed=2), draws(2, 5, 6, seed=3))
MASK = np.random.default_rng(7).random((4, 5)) > 0.3
MASK[:, 0] = True
STATISTICS = (draws(3, seed=3), np.exp(draws(3, seed=4)))

CASES: tuple[Case, ...] = (
    ("relu", ops.relu, F.relu, (draws(3, 5),)),
    ("gelu tanh", ops.gelu, lambda x: F.gelu(x, approximate="tanh"), (draws(3, 5),)),
    ("gelu erf", lambda x: ops.gelu(x, approximate=False), F.gelu, (draws(3, 5),)),
    ("silu", ops.silu, F.silu, (draws(3, 5),)),
    ("softplus", ops.softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x)), (3 * draws(3, 5),)),
    ("softmax", ops.softmax, lambda x: F.softmax(x, -1), (draws(3, 5),)),
    ("softmax 0", lambda x: ops.softmax(x, 0), lambda x: F.softmax(x, 0), (draws(3, 5),)),
    ("log_softmax", ops.log_softmax, lambda x: F.log_softmax(x, -1), (draws(3, 5),)),
    ("logsumexp", lambda x: ops.logsumexp(x, 0), lambda x: torch.logsumexp(x, 0), (draws(3, 5),)),
    (
        "layer_norm",
        ops.layer_norm,
        lambda x, w, b: F.layer_norm(x, (5,), w, b),
        (draws(3, 5), draws(5, seed=1), draws(5, seed=2)),
    ),
    (
        "layer_norm two axes",
        lambda x, w: ops.layer_norm(x, w, axis=(1, 2)),
        lambda x, w: F.layer_norm(x, (3, 5), w),
        (draws(2, 3, 5), draws(3, 5, seed=1)),
    ),
    (
        "batch_norm eval",
        lambda x, w, b: ops.batch_norm(x, w, b, STATISTICS[0], STATISTICS[1]),
        lambda x, w, b: F.batch_norm(x, *map(torch.tensor, STATISTICS), w, b, training=False),
        (IMAGE, draws(3, seed=1), draws(3, seed=2)),
    ),
    (
        "batch_norm train",
        lambda x, w, b: ops.batch_norm_train(x, w, b)[0],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (IMAGE, draws(3, seed=1), draws(3, seed=2)),
    ),
    ("linear", ops.linear, F.linear, (draws(2, 3, 4), draws(5, 4, seed=1), draws(5, seed=2))),
    ("attention", ops.attention, F.scaled_dot_product_attention, QKV),
    (
        "attention masked",
        lambda q, k, v: ops.attention(q, k, v, MASK, scale=0.5),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(MASK), scale=0.5),
        QKV,
    ),
    (
        "attention causal",
        lambda q, k, v: ops.attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        QKV,
    ),
    ("mse", ops.mse_loss, F.mse_loss, (draws(3, 5), draws(3, 5, seed=1))),
    (
        "cross_entropy",
        lambda x: ops.cross_entropy(x, LABELS),
        lambda x: F.cross_entropy(x, torch.tensor(LABELS)),
        (draws(3, 5),),
    ),
    (
        "cross_entropy_one_hot",
        lambda x, t: ops.cross_entropy_one_hot(x, ops.softmax(t)),
        lambda x, t: F.cross_entropy(x, F.softmax(t, -1)),
        (draws(3, 5), draws(3, 5, seed=1)),
    ),
    ("nll", lambda x: ops.nll_loss(x, LABELS), lambda x: F.nll_loss(x, torch.tensor(LABELS)), (draws(3, 5),)),
    ("max_pool", lambda x: ops.max_pool(x, 3), lambda x: F.max_pool2d(x, 3), (IMAGE,)),
    (
        "max_pool padded",
        lambda x: ops.max_pool(x, (3, 2), (1, 2), 1),
        lambda x: F.max_pool2d(x, (3, 2), (1, 2), 1),
        (IMAGE,),
    ),
    ("avg_pool", lambda x: ops.avg_pool(x, 2, 1, 1), lambda x: F.avg_pool2d(x, 2, 1, 1), (IMAGE,)),
    (
        "avg_pool without padding",
        lambda x: ops.avg_pool(x, 3, 2, 1, count_padding=False),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (IMAGE,),
    ),
    ("conv", ops.conv, F.conv2d, (IMAGE, draws(4, 3, 3, 2, seed=1))),
)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_value_and_gradients_agree(case: Case) -> None:
    _, mine, theirs, arrays = case
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = theirs(*tensors)
    ct = draws(*expected.shape, seed=11)
    slopes = torch.autograd.grad(expected, tensors, torch.tensor(ct))
    value, pull = vjp(mine, *arrays)
    made = pull(np.asarray(ct))
    np.testing.assert_allclose(np.asarray(value), expected.detach().numpy(), rtol=TOLERANCE, atol=TOLERANCE)
    assert len(made) == len(arrays)
    for got, wanted in zip(made, slopes, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted.numpy(), rtol=TOLERANCE, atol=TOLERANCE)


def test_batch_statistics_are_the_mean_and_the_biased_variance() -> None:
    _, mean, variance = ops.batch_norm_train(IMAGE, np.ones(3), np.zeros(3))
    np.testing.assert_allclose(np.asarray(mean), IMAGE.mean((0, 2, 3)), rtol=TOLERANCE)
    np.testing.assert_allclose(np.asarray(variance), IMAGE.var((0, 2, 3)), rtol=TOLERANCE)
