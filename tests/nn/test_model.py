"""Counting, telling apart and printing parameters; losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchlean import nn, pytree, random
from torchlean.errors import OutOfRangeError, StructureError, TypeRuleError
from torchlean.random import SeedStream
from torchlean.transforms.api import grad

F = np.float32


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.tanh, nn.Dropout(0.5), nn.Linear(4, 2, bias=False))


SUMMARY = """\
part         parameters                      trainable  fixed
-------------------------------------------------------------
0 Linear     f32[4,3], f32[4]                       16      0
1 BatchNorm  f32[4], f32[4], f32[4], f32[4]          8      8
2 tanh       -                                       0      0
3 Dropout    u64[]                                   0      1
4 Linear     f32[2,4]                                8      0
-------------------------------------------------------------
total                                               32      9"""


def test_counts_and_summary() -> None:
    built = model()
    params = built.init(SeedStream(1))
    assert built.parameter_count(params) == nn.parameter_count(built, params) == 16 + 8 + 8
    assert nn.summary(built, params) == SUMMARY
    single = nn.Linear(3, 4)
    assert "0 Linear" in nn.summary(single, single.init(random.key(0)))


def test_partition_and_merge_are_inverse_and_make_integer_state_differentiable() -> None:
    built = model()
    params = built.init(SeedStream(1))
    free, fixed = nn.partition(params, built.trainable(params))
    assert len(pytree.leaves(free)) == 5
    assert len(pytree.leaves(fixed)) == 3
    whole = nn.merge(free, fixed)
    assert pytree.structure(whole) == pytree.structure(params)
    assert all(a is b for a, b in zip(pytree.leaves(whole), pytree.leaves(params), strict=True))
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(F)

    def loss(free: Any) -> tuple[Any, Any]:
        y, after = built.apply(nn.merge(free, fixed), x, mode="train", rng=1)
        return nn.mse_sum(y, np.zeros((6, 2), F)), after

    slopes, after = grad(loss, has_aux=True)(free)
    assert pytree.structure(slopes) == pytree.structure(free)
    assert pytree.structure(after) == pytree.structure(params)
    with pytest.raises(StructureError, match="the flags do not fit the parameters"):
        nn.partition(params, (True,))


def test_an_empty_model_is_the_identity() -> None:
    built = nn.Sequential()
    x = np.ones((2, 3), F)
    assert built.init(random.key(0)) == ()
    assert built((), x) is x


# -- losses ------------------------------------------------------------------------------------------------------------
def test_losses_by_their_definitions() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((4, 3)), rng.random((4, 3))
    labels = np.array([0, 2, 1, 1])
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    nll = -logs[range(4), labels].mean()
    close = lambda got, wanted: np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-13)  # noqa: E731
    close(nn.mse(x, y), ((x - y) ** 2).mean())
    close(nn.mse_sum(x, y), ((x - y) ** 2).sum())
    close(nn.cross_entropy(x, labels), nll)
    close(nn.nll(logs, labels), nll)
    close(nn.cross_entropy_one_hot(x, np.eye(3)[labels]), nll)
    p = 1 / (1 + np.exp(-x))
    close(nn.bce_with_logits(x, y), -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())


def test_bce_with_logits_is_finite_far_out() -> None:
    x, y = np.array([-1000.0, 1000.0], F), np.array([1.0, 0.0], F)
    assert float(np.asarray(nn.bce_with_logits(x, y))) == 1000
    assert np.asarray(grad(nn.bce_with_logits)(x, y)).tolist() == [-0.5, 0.5]


def test_losses_refuse_what_does_not_fit() -> None:
    x = np.zeros((4, 3), F)
    for loss in (nn.mse, nn.mse_sum, nn.bce_with_logits, nn.cross_entropy_one_hot):
        with pytest.raises(TypeRuleError, match=r"of f32\[4,3\], f32\[3\]: prediction and target differ"):
            loss(x, np.zeros(3, F))
    with pytest.raises(OutOfRangeError, match="nll_loss: label 3 is not one of 3 classes"):
        nn.nll(x, np.array([0, 1, 2, 3]))
