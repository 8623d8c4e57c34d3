"""What the draws refuse, by its text: shapes, counts, axes, bounds, parameters, dtypes, and what not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import random
from torchlean.errors import ConfigError, OutOfRangeError, TypeRuleError

HALVES = np.float32([0.5, 0.5])
MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)

REFUSED: tuple[tuple[Callable[[Any], Any], type[Exception], str], ...] = (
    # shapes and counts
    (lambda k: random.uniform(k, (-3,)), TypeRuleError, "random.uniform: (-3,) is not a shape"),
    (lambda k: random.normal(k, (2.5,)), TypeRuleError, "random.normal: (2.5,) is not a shape"),
    (lambda k: random.bits(k, True), TypeRuleError, "random.bits: True is not a shape"),
    (lambda k: random.gamma(k, 1.0, "ab"), TypeRuleError, "random.gamma: 'ab' is not a shape"),
    (lambda k: random.split(k, 2.7), TypeRuleError, "random.split: 2.7 is not a shape"),
    (lambda k: random.split(k, -1), TypeRuleError, "random.split: -1 is not a shape"),
    (lambda k: random.permutation(k, -2), ConfigError, "random.permutation: the number of integers -2 is not a count"),
    (lambda k: random.choice(k, -3, (3,)), ConfigError, "random.choice: the number of integers -3 is not a count"),
    (lambda k: random.choice(k, 0, (3,)), TypeRuleError, "random.choice does not draw from 3 of 0 entries"),
    (
        lambda k: random.choice(k, 3, (5,), replace=False),
        TypeRuleError,
        "random.choice does not draw from 5 of 3 entries",
    ),
    # operands and axes
    (lambda k: random.permutation(k, True), TypeRuleError, "random.permutation does not draw from the scalar bool[]"),
    (lambda k: random.permutation(k, tl.array(1.0)), TypeRuleError, "random.permutation does not draw from the scalar"),
    (lambda k: random.choice(k, 2.0), TypeRuleError, "random.choice does not draw from the scalar f32[]"),
    (lambda k: random.permutation(k, MATRIX, 2), OutOfRangeError, "random.permutation of i32[2,3]: there is no axis 2"),
    (lambda k: random.choice(k, MATRIX, (3,), axis=-3), OutOfRangeError, "random.choice of i32[2,3]: there is no axis"),
    (
        lambda k: random.categorical(k, HALVES, axis=1),
        OutOfRangeError,
        "random.categorical of f32[2]: there is no axis 1",
    ),
    (lambda k: random.categorical(k, MATRIX), TypeRuleError, "random.categorical does not draw from i32[2,3]"),
    (lambda k: random.categorical(k, 0.5), TypeRuleError, "random.categorical does not draw from f32[]"),
    (
        lambda k: random.categorical(k, np.float32(MATRIX), shape=(3,)),
        TypeRuleError,
        "random.categorical does not draw from shape [3]",
    ),
    (lambda k: random.permutation(k[None], 3), TypeRuleError, "does not draw from keys u32[1,2]"),
    (lambda k: random.uniform([1, 2]), TypeRuleError, "random.uniform: a list is not a key"),
    # bounds
    (lambda k: random.uniform(k, low=2.0), ConfigError, "random.uniform cannot draw from [2.0, 1.0) as f32"),
    (lambda k: random.uniform(k, low=float("nan")), ConfigError, "random.uniform cannot draw from [nan, 1.0) as f32"),
    (lambda k: random.uniform(k, high=float("inf")), ConfigError, "random.uniform cannot draw from [0.0, inf) as f32"),
    (lambda k: random.uniform(k, dtype="f16", high=1e6), ConfigError, "cannot draw from [0.0, 1000000.0) as f16"),
    (lambda k: random.uniform(k, low=-3e38, high=3e38), ConfigError, "cannot draw from [-3e+38, 3e+38) as f32"),
    (lambda k: random.uniform(k, low=tl.array(0.5)), ConfigError, "f32[]), 1.0) as f32"),
    (lambda k: random.randint(k, (2,), 0.5, 3), ConfigError, "random.randint cannot draw from [0.5, 3) as i32"),
    (lambda k: random.randint(k, (2,), True, 3), ConfigError, "random.randint cannot draw from [True, 3) as i32"),
    (lambda k: random.randint(k, (2,), 0, 2**33, "u64"), ConfigError, "cannot draw from [0, 8589934592) as u64"),
    # parameters
    (lambda k: random.bernoulli(k, 1.5), ConfigError, "random.bernoulli: p 1.5 is no parameter of the distribution"),
    (lambda k: random.bernoulli(k, np.float32([0, -1])), ConfigError, "random.bernoulli: p -1.0 is no parameter"),
    (lambda k: random.bernoulli(k, float("nan")), ConfigError, "random.bernoulli: p nan is no parameter"),
    (lambda k: random.bernoulli(k, HALVES, (3,)), TypeRuleError, "the shapes do not broadcast"),
    (lambda k: random.bernoulli(k, np.zeros((4, 3), "f4"), (3,)), TypeRuleError, "broadcast_to of f32[4,3]"),
    (lambda k: random.gamma(k, 0.0), ConfigError, "random.gamma: a 0.0 is no parameter of the distribution"),
    (lambda k: random.gamma(k, float("inf")), ConfigError, "random.gamma: a inf is no parameter of the distribution"),
    (lambda k: random.beta(k, 1.0, -1.0), ConfigError, "random.beta: b -1.0 is no parameter of the distribution"),
    (lambda k: random.dirichlet(k, 1.0), ConfigError, "random.dirichlet: alpha 'f32[]' is no parameter"),
    (lambda k: random.dirichlet(k, np.float32([1, 0])), ConfigError, "random.dirichlet: alpha 0.0 is no parameter"),
    (
        lambda k: random.truncated_normal(k, 1.0, 1.0),
        ConfigError,
        "random.truncated_normal: the interval (low, high) = (1.0, 1.0) is no parameter of the distribution",
    ),
    (lambda k: random.truncated_normal(k, float("nan"), 1.0), ConfigError, "(nan, 1.0) is no parameter"),
    (lambda k: random.choice(k, 3, p=HALVES), TypeRuleError, "random.choice does not draw from probabilities f32[2]"),
    (lambda k: random.choice(k, 2, p=np.float32([-0.5, 1.5])), ConfigError, "random.choice: p -0.5 is no parameter"),
    (
        lambda k: random.choice(k, 2, (2,), replace=False, p=np.float32([1, 0])),
        TypeRuleError,
        "random.choice does not draw from 1 entries of positive probability",
    ),
    (lambda k: random.choice(k, 2, p=np.float32([0, 0])), TypeRuleError, "from 0 entries of positive probability"),
    # numbers for keys, and dtypes
    (lambda k: random.fold_in(k, np.int64(-1)), ConfigError, "np.int64(-1) cannot be folded into a key"),
    (lambda k: random.fold_in(k, True), ConfigError, "True cannot be folded into a key"),
    (lambda k: random.fold_in(k, HALVES), ConfigError, "f32[2] cannot be folded into a key"),
    (lambda k: random.SeedStream("a"), ConfigError, "SeedStream: 'a' is not a seed"),
    (lambda k: random.rademacher(k, (4,), "u8"), TypeRuleError, "random.rademacher does not draw u8"),
    (lambda k: random.normal(k, (4,), "c64"), TypeRuleError, "random.normal does not draw c64"),
    (lambda k: random.gumbel(k, (4,), "i32"), TypeRuleError, "random.gumbel does not draw i32"),
)


@pytest.mark.parametrize("at", range(len(REFUSED)))
@pytest.mark.parametrize("way", [lambda f: f, tl.make_graph], ids=["eager", "traced"])
def test_refused_by_its_text(at: int, way: Callable[..., Any]) -> None:
    draw, kind, text = REFUSED[at]
    with pytest.raises(kind) as caught:
        way(draw)(random.key(0))
    lines = str(caught.value).splitlines()
    assert text in lines[0]
    assert "test_random_refusals.py:" in lines[0]
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["expected", "got", "fix"]


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_a_refused_draw_does_not_use_its_key_up(at: int) -> None:
    draw, kind, _ = REFUSED[at]
    key = random.key(0)
    with random.check_key_reuse():
        with pytest.raises(kind):
            draw(key)
        random.normal(key)


def test_what_is_near_a_refusal_and_allowed() -> None:
    key = random.key(0)
    assert random.uniform(key, 3).tolist() == random.uniform(key, (3,)).tolist()
    assert random.uniform(key, (2,), low=1.5, high=1.5).tolist() == [1.5, 1.5]
    assert random.bernoulli(key, 1, (3,)).tolist() == [True] * 3
    assert random.choice(key, 0, (0,)).shape == random.permutation(key, 0).shape == (0,)
    assert random.permutation(key, 1).tolist() == [0]
    assert random.permutation(key, np.int64(5)).tolist() == random.permutation(key, 5).tolist()
    assert random.choice(key, np.uint8(5), (9,)).tolist() == random.choice(key, 5, (9,)).tolist()
    assert random.split(key, 0).shape == (0, 2)
    assert np.asarray(random.split(key, (2, 3))).reshape(6, 2).tolist() == random.split(key, 6).tolist()
    assert random.fold_in(key, np.int64(7)).tolist() == random.fold_in(key, 7).tolist()
    low, high = -(2**63), 2**64
    assert all(0 <= int(x) - low < 7 for x in random.randint(key, (9,), low, low + 7, "i64").tolist())
    assert all(high - 5 <= int(x) < high for x in random.randint(key, (9,), high - 5, high, "u64").tolist())


def test_tensors_out_of_a_distributions_domain_give_nan_or_the_nearest() -> None:
    key = random.key(0)
    assert np.isnan(np.asarray(random.gamma(key, tl.array([-1.0, 0.0, float("nan")])))).all()
    assert np.isnan(np.asarray(random.beta(key, tl.array(-1.0), 1.0)))
    assert np.isnan(np.asarray(random.dirichlet(key, tl.array([1.0, -1.0])))).all()
    assert random.bernoulli(key, tl.array([1.5, -0.5, float("nan")])).tolist() == [True, False, False]


def test_small_parameters_give_corners_and_not_nan() -> None:
    """Γ(a) draws far below 1 are too small for float32; their ratios are not."""
    drawn = np.asarray(random.dirichlet(random.key(1), np.float32([1e-3] * 3), (200,)))
    assert np.abs(drawn.sum(-1) - 1).max() < 1e-6
    assert (drawn.argmax(-1) == np.arange(3)[:, None]).sum(1).min() > 40
    corners = np.asarray(random.beta(random.key(1), 1e-3, 1e-3, (400,)))
    assert 140 < (corners > 0.5).sum() < 260
