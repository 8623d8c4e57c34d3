"""Draws against the distributions they are named for: distance of distribution functions, counts, independence.

Keys are fixed, so nothing here is left to chance; limits are what one fair draw in 10⁶ exceeds. The same checks are
shown to reject samplers that are slightly wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchlean import random, vmap

Vector = np.ndarray[Any, Any]
COUNT = 200_000
RARE = 1e-6


def distance(draws: Vector, cdf: Callable[[Vector], Vector]) -> float:
    """√n times the largest distance of the empirical distribution function from `cdf` (Kolmogorov, Smirnov)."""
    x = np.sort(np.asarray(draws, dtype=np.float64).reshape(-1))
    steps = np.arange(len(x) + 1) / len(x)
    exact = cdf(x)
    return math.sqrt(len(x)) * max(np.max(steps[1:] - exact), np.max(exact - steps[:-1]))


FAR = math.sqrt(-math.log(RARE / 2) / 2)  # P(distance > FAR) ≈ 2·exp(-2·FAR²): 2.69


def chi_squared_limit(degrees: int) -> float:
    """About the point χ² exceeds once in 10⁶.  [Wilson & Hilferty 1931]"""
    return degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3


def chi_squared(counts: Any, expected: Any) -> float:
    return float(np.sum((np.asarray(counts) - expected) ** 2 / expected))


erf = np.vectorize(math.erf)


def normal_cdf(x: Vector) -> Vector:
    return (1 + erf(x / math.sqrt(2))) / 2


def clipped(x: Vector) -> Vector:
    return np.clip(x, 0, 1)


BETWEEN = float(normal_cdf(np.array(2.0)) - normal_cdf(np.array(-0.5)))
CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Callable[[Vector], Vector]]] = {
    "uniform": (lambda k: random.uniform(k, (COUNT,)), clipped),
    "uniform f64": (lambda k: random.uniform(k, (COUNT,), "f64"), clipped),
    "uniform scaled": (lambda k: random.uniform(k, (COUNT,), low=-3.0, high=5.0), lambda x: (x + 3) / 8),
    "normal": (lambda k: random.normal(k, (COUNT,)), normal_cdf),
    "normal f64": (lambda k: random.normal(k, (COUNT,), "f64"), normal_cdf),
    "exponential": (lambda k: random.exponential(k, (COUNT,)), lambda x: 1 - np.exp(-x)),
    "gumbel": (lambda k: random.gumbel(k, (COUNT,)), lambda x: np.exp(-np.exp(-x))),
    "laplace": (
        lambda k: random.laplace(k, (COUNT,)),
        lambda x: np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2),
    ),
    "logistic": (lambda k: random.logistic(k, (COUNT,)), lambda x: 1 / (1 + np.exp(-x))),
    "cauchy": (lambda k: random.cauchy(k, (COUNT,)), lambda x: np.arctan(x) / np.pi + 0.5),
    "truncated_normal": (
        lambda k: random.truncated_normal(k, -0.5, 2.0, (COUNT,)),
        lambda x: (normal_cdf(x) - float(normal_cdf(np.array(-0.5)))) / BETWEEN,
    ),
    "gamma 3": (lambda k: random.gamma(k, 3.0, (COUNT,)), lambda x: 1 - np.exp(-x) * (1 + x + x * x / 2)),
    "gamma 1": (lambda k: random.gamma(k, 1.0, (COUNT,), "f64"), lambda x: 1 - np.exp(-x)),
    "gamma ½": (lambda k: random.gamma(k, 0.5, (COUNT,)), lambda x: erf(np.sqrt(x))),
    "beta 2, 3": (lambda k: random.beta(k, 2.0, 3.0, (COUNT,)), lambda x: x * x * (6 - 8 * x + 3 * x * x)),
    "beta ½, ½": (lambda k: random.beta(k, 0.5, 0.5, (COUNT,)), lambda x: 2 / np.pi * np.arcsin(np.sqrt(x))),
    "dirichlet": (
        lambda k: random.dirichlet(k, np.float32([1, 2, 1]), (COUNT,))[:, 1],
        lambda x: x * x * (3 - 2 * x),
    ),
}


@pytest.mark.parametrize("name", list(CONTINUOUS))
def test_the_distribution_function_is_the_named_one(name: str) -> None:
    draw, cdf = CONTINUOUS[name]
    assert distance(draw(random.key(31)), cdf) < FAR


def index_of_order(order: Vector) -> int:
    """Which of the six orders of three it is."""
    return 2 * int(order[0]) + int(order[1] > order[2])


DISCRETE: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "randint": (lambda k: random.randint(k, (COUNT,), -3, 4) + 3, [1 / 7] * 7),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (COUNT,)), [0.7, 0.3]),
    "rademacher": (lambda k: (random.rademacher(k, (COUNT,)) + 1) // 2, [0.5, 0.5]),
    "choice": (lambda k: random.choice(k, 11, (COUNT,)), [1 / 11] * 11),
    "choice weighted": (
        lambda k: random.choice(k, 4, (COUNT,), p=np.float32([1, 5, 2, 2])),
        [0.1, 0.5, 0.2, 0.2],
    ),
    "categorical": (
        lambda k: random.categorical(k, np.log(np.float32([0.6, 0.1, 0.3])), shape=(COUNT,)),
        [0.6, 0.1, 0.3],
    ),
    "categorical f16": (
        lambda k: random.categorical(k, np.log(np.float32([0.6, 0.1, 0.3])).astype("f2"), shape=(COUNT,)),
        [0.6, 0.1, 0.3],
    ),
    "orders": (
        lambda k: list(
            map(index_of_order, np.asarray(vmap(lambda each: random.permutation(each, 3))(random.split(k, COUNT))))
        ),
        [1 / 6] * 6,
    ),
    "first of some apart": (
        lambda k: vmap(lambda each: random.choice(each, 3, (2,), False, np.float32([0.6, 0.1, 0.3]))[0])(
            random.split(k, COUNT)
        ),
        [0.6, 0.1, 0.3],
    ),
}


@pytest.mark.parametrize("name", list(DISCRETE))
def test_the_counts_are_those_of_the_distribution(name: str) -> None:
    draw, chances = DISCRETE[name]
    drawn = np.asarray(draw(random.key(31))).astype(np.int64)
    counts = np.bincount(drawn, minlength=len(chances))
    assert len(counts) == len(chances)
    assert chi_squared(counts, len(drawn) * np.array(chances)) < chi_squared_limit(len(chances) - 1)


def test_words_are_balanced_bit_by_bit_and_independent_of_their_neighbours() -> None:
    words = np.asarray(random.bits(random.key(5), (COUNT,)))
    ones = [(words >> np.uint32(bit) & np.uint32(1)).sum() for bit in range(32)]
    assert max(abs(each - COUNT / 2) for each in ones) < 5.5 * math.sqrt(COUNT) / 2
    cells = (words[:-1] >> np.uint32(28)).astype(np.int64) * 16 + (words[1:] >> np.uint32(28))
    counts = np.bincount(cells, minlength=256)
    assert chi_squared(counts, (COUNT - 1) / 256) < chi_squared_limit(255)


@pytest.mark.parametrize("how", ["split", "fold_in", "seeds"])
def test_streams_of_related_keys_are_uncorrelated(how: str) -> None:
    """The correlation of n independent pairs has deviation 1/√n."""
    key, n = random.key(77), 4096
    keys = {
        "split": lambda: list(np.asarray(random.split(key, 12))),
        "fold_in": lambda: [np.asarray(random.fold_in(key, at)) for at in range(12)],
        "seeds": lambda: [np.asarray(random.key(at)) for at in range(12)],
    }[how]()
    streams = np.stack([np.asarray(random.uniform(each, (n,))) for each in keys]).astype(np.float64)
    correlations = np.corrcoef(streams) - np.eye(12)
    assert np.abs(correlations).max() < 5.5 / math.sqrt(n)


# -- the checks can fail -----------------------------------------------------------------------------------------------
FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a normal 4 % too wide": (lambda k: random.normal(k, (COUNT,)) * 1.04, "normal"),
    "a normal shifted by 0.02": (lambda k: random.normal(k, (COUNT,)) + 0.02, "normal"),
    "a normal without tails": (lambda k: random.truncated_normal(k, -2.5, 2.5, (COUNT,)), "normal"),
    "a uniform squeezed": (lambda k: random.uniform(k, (COUNT,)) ** 1.02, "uniform"),
    "a uniform in seven bits": (lambda k: random.uniform(k, (COUNT,), "bf16").astype("f32"), "uniform"),
    "an exponential of rate 0.97": (lambda k: random.exponential(k, (COUNT,)) / 0.97, "exponential"),
    "a gamma of 3.05": (lambda k: random.gamma(k, 3.05, (COUNT,)), "gamma 3"),
    "a gamma never rejected": (lambda k: 8 / 3 * (1 + random.normal(k, (COUNT,)) / 24**0.5) ** 3, "gamma 3"),
    "a gamma of 1.5 for ½": (lambda k: random.gamma(k, 1.5, (COUNT,)), "gamma ½"),
    "a beta turned round": (lambda k: random.beta(k, 3.0, 2.0, (COUNT,)), "beta 2, 3"),
    "one coordinate for another": (
        lambda k: random.dirichlet(k, np.float32([1, 2, 1]), (COUNT,))[:, 0],
        "dirichlet",
    ),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_sampler_slightly_wrong_is_seen(name: str) -> None:
    draw, of = FAULTS[name]
    assert distance(draw(random.key(31)), CONTINUOUS[of][1]) > FAR


def test_a_biased_count_is_seen() -> None:
    """Remainders of seven bits by 7 favour 0 and 1 by one part in 18."""
    words = np.asarray(random.bits(random.key(31), (COUNT,))).astype(np.int64)
    counts = np.bincount((words & 127) % 7, minlength=7)
    assert chi_squared(counts, COUNT / 7) > chi_squared_limit(6)
    counts = np.bincount(np.asarray(random.bernoulli(random.key(31), 0.31, (COUNT,))).astype(np.int64))
    assert chi_squared(counts, COUNT * np.array([0.7, 0.3])) > chi_squared_limit(1)
