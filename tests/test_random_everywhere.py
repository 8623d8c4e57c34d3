"""Every draw has the same bits eagerly, in a graph, with a strict profile, mapped over keys, and on every machine."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import random
from torchlean.backends.profiles import numpy_cpu, reference_cpu
from torchlean.ir.evaluate import denote

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
LOGITS = np.float32([[0.1, 2.0, -1.0], [1.0, 1.0, 1.0]])
WEIGHTS = np.float32([0.5, 0.25, 0.0, 0.25])

DRAWS: dict[str, Callable[[Any], Any]] = {
    "bits": lambda k: random.bits(k, (3, 5)),
    "bits u64": lambda k: random.bits(k, (7,), "u64"),
    "split": lambda k: random.split(k, (2, 3)),
    "fold_in": lambda k: random.fold_in(k, np.arange(5, dtype=np.int32)),
    "uniform": lambda k: random.uniform(k, (3, 5), low=-2.0, high=3.0),
    "uniform f64": lambda k: random.uniform(k, (7,), "f64"),
    "uniform f16": lambda k: random.uniform(k, (7,), "f16"),
    "uniform bf16": lambda k: random.uniform(k, (7,), "bf16"),
    "randint": lambda k: random.randint(k, (3, 5), -9, 1000),
    "randint u8": lambda k: random.randint(k, (7,), 0, 256, "u8"),
    "bernoulli": lambda k: random.bernoulli(k, np.float32([[0.1], [0.9]]), (2, 20)),
    "rademacher": lambda k: random.rademacher(k, (9,), "f64"),
    "permutation": lambda k: random.permutation(k, 11),
    "shuffle": lambda k: random.shuffle(k, ROWS, axis=1),
    "choice": lambda k: random.choice(k, 100, (3, 2)),
    "choice apart": lambda k: random.choice(k, ROWS, (3,), replace=False),
    "choice weighted": lambda k: random.choice(k, 4, (9,), p=WEIGHTS),
    # from here on: made with log, erf or cos, which the fast provider rounds otherwise
    "choice weighted apart": lambda k: random.choice(k, 4, (3,), replace=False, p=WEIGHTS),
    "categorical": lambda k: random.categorical(k, LOGITS, shape=(9, 2)),
    "normal": lambda k: random.normal(k, (3, 5)),
    "normal f64": lambda k: random.normal(k, (7,), "f64"),
    "normal bf16": lambda k: random.normal(k, (7,), "bf16"),
    "truncated_normal": lambda k: random.truncated_normal(k, -0.5, 2.0, (9,)),
    "exponential": lambda k: random.exponential(k, (9,)),
    "gumbel": lambda k: random.gumbel(k, (9,)),
    "laplace": lambda k: random.laplace(k, (9,)),
    "logistic": lambda k: random.logistic(k, (9,)),
    "cauchy": lambda k: random.cauchy(k, (9,)),
    "gamma": lambda k: random.gamma(k, np.float32([0.3, 1.0, 7.5])),
    "beta": lambda k: random.beta(k, 0.5, 2.0, (9,)),
    "dirichlet": lambda k: random.dirichlet(k, np.float32([0.5, 1.0, 2.0]), (4,)),
}
NOT_DRAWS = {
    "SeedStream",
    "call_draws",
    "call_key",
    "check_key_reuse",
    "draw32",
    "key",
    "key_of",
    "splitmix64",
    "uniform01",
}
every_draw = pytest.mark.parametrize(("name", "draw"), DRAWS.items(), ids=list(DRAWS))


def bits_of(x: Any) -> tuple[Any, ...]:
    array = np.ascontiguousarray(x)
    return array.dtype, array.shape, array.tobytes()


def test_every_public_draw_is_here() -> None:
    assert {name.split()[0] for name in DRAWS} == set(random.__all__) - NOT_DRAWS
    assert len(DRAWS) == 31
    assert all(inspect.getdoc(getattr(random, name)) for name in random.__all__)


@every_draw
def test_eager_traced_lowered_and_mapped_draws_have_the_same_bits(name: str, draw: Callable[[Any], Any]) -> None:
    key = random.key(2026)
    eager = bits_of(draw(key))
    graph = tl.make_graph(draw)(key)
    assert bits_of(denote(graph, [np.asarray(key)])[0]) == eager
    assert bits_of(tl.jit(draw, profile=reference_cpu)(key)) == eager
    with tl.Session(reference_cpu):
        assert bits_of(draw(random.key(2026))) == eager
    keys = random.split(key, 3)
    each = [np.asarray(draw(keys[at])) for at in range(3)]
    assert bits_of(tl.vmap(draw)(keys)) == bits_of(np.stack(each))
    assert bits_of(tl.jit(tl.vmap(draw), profile=reference_cpu)(keys)) == bits_of(np.stack(each))


@every_draw
def test_the_fast_provider_draws_the_same_up_to_its_own_functions(name: str, draw: Callable[[Any], Any]) -> None:
    key = random.key(2026)
    want, got = np.asarray(draw(key)), np.asarray(tl.jit(draw, profile=numpy_cpu)(key))
    with tl.Session(numpy_cpu):
        assert bits_of(draw(random.key(2026))) == bits_of(got)
    if list(DRAWS).index(name) < list(DRAWS).index("choice weighted apart"):
        assert bits_of(got) == bits_of(want)
        return
    assert got.dtype == want.dtype
    rtol = {np.dtype("f4"): 2e-6, np.dtype("f8"): 4e-15}.get(want.dtype, 2.0**-7)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=0)


@every_draw
def test_another_key_draws_other_values(name: str, draw: Callable[[Any], Any]) -> None:
    drawn = [np.asarray(draw(random.key(seed))) for seed in range(8)]
    assert len({one.tobytes() for one in drawn}) > 3


# Computed by this test's own threefry in Python integers, hence on any machine.
def threefry(key: tuple[int, int], counter: int) -> tuple[int, int]:
    """Threefry-2x32-20 of a 64-bit counter.  [Salmon et al. 2011]"""
    word = 0xFFFFFFFF
    schedule = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = ((counter >> 32) + key[0]) & word, ((counter & word) + key[1]) & word
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = (a + b) & word
            b = ((b << turn | b >> (32 - turn)) & word) ^ a
        a = (a + schedule[(group + 1) % 3]) & word
        b = (b + schedule[(group + 2) % 3] + group + 1) & word
    return a, b


@pytest.mark.parametrize("seed", [0, 1, 2026, 2**63 + 5])
def test_exact_draws_follow_from_the_words_by_integer_arithmetic(seed: int) -> None:
    pair = (seed >> 32, seed & 0xFFFFFFFF)
    key, count = random.key(seed), 50
    pairs = [threefry(pair, at) for at in range(count)]
    words = [a ^ b for a, b in pairs]
    assert np.asarray(random.bits(key, (count,))).tolist() == words
    assert np.asarray(random.bits(key, (count,), "u64")).tolist() == [a << 32 | b for a, b in pairs]
    assert np.asarray(random.split(key, count)).tolist() == [list(each) for each in pairs]
    assert np.asarray(random.fold_in(key, 7)).tolist() == list(threefry(pair, 7))
    assert np.asarray(random.uniform(key, (count,))).tolist() == [(w >> 9) / 2**23 for w in words]
    assert np.asarray(random.uniform(key, (count,), "f16")).tolist() == [(w >> 22) / 2**10 for w in words]
    assert np.asarray(random.uniform(key, (count,), "f64")).tolist() == [
        ((a << 32 | b) >> 12) / 2**52 for a, b in pairs
    ]
    assert np.asarray(random.randint(key, (count,), -5, 1000)).tolist() == [(w * 1005 >> 32) - 5 for w in words]
    assert np.asarray(random.bernoulli(key, 0.25, (count,))).tolist() == [w >> 30 == 0 for w in words]
    assert np.asarray(random.rademacher(key, (count,))).tolist() == [1 if w >> 31 == 0 else -1 for w in words]
    assert np.asarray(random.choice(key, 9, (count,))).tolist() == [w * 9 >> 32 for w in words]
    second = threefry(pair, 1)
    by_word = sorted(range(count), key=lambda at: threefry_word(second, at))
    assert np.asarray(random.permutation(key, count)).tolist() == by_word


def threefry_word(key: tuple[int, int], counter: int) -> int:
    a, b = threefry(key, counter)
    return a ^ b


# Printed once: log, erf, cos, … are the strict functions, which no machine rounds otherwise.
GOLDEN: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "normal f32": (lambda k: random.normal(k, (3,), "f32"), [1.2900349, 0.8775969, 0.7577996]),
    "normal f64": (
        lambda k: random.normal(k, (3,), "f64"),
        [-0.8613979273345644, 0.1263236769434665, 0.006796201082870727],
    ),
    "exponential f32": (lambda k: random.exponential(k, (3,), "f32"), [2.3175025, 1.6603037, 1.4948356]),
    "gumbel f32": (lambda k: random.gumbel(k, (3,), "f32"), [2.2660923, 1.5567443, 1.3705363]),
    "laplace f32": (lambda k: random.laplace(k, (3,), "f32"), [-1.6243557, -0.9671567, -0.8016885]),
    "logistic f32": (lambda k: random.logistic(k, (3,), "f32"), [2.213786, 1.4494824, 1.2408649]),
    "cauchy f32": (lambda k: random.cauchy(k, (3,), "f32"), [3.1271048, 1.4706478, 1.1761857]),
    "exponential f64": (
        lambda k: random.exponential(k, (3,), "f64"),
        [2.1402335568331354, 0.8083653450637301, 2.377474833992498],
    ),
    "gumbel f64": (
        lambda k: random.gumbel(k, (3,), "f64"),
        [2.0783155681509693, 0.5278983554150605, 2.3291822108518194],
    ),
    "cauchy f64": (
        lambda k: random.cauchy(k, (3,), "f64"),
        [2.581771694041398, 0.17263198094315305, 3.3329148772183936],
    ),
    "truncated_normal": (lambda k: random.truncated_normal(k, -0.5, 2.0, (3,)), [1.3492321, 1.0370349, 0.9434217]),
    "gamma": (lambda k: random.gamma(k, np.float32([0.3, 1.0, 7.5])), [0.3227309, 0.006515867, 5.7547436]),
    "beta": (lambda k: random.beta(k, 0.5, 2.0, (3,)), [0.38838094, 0.5344234, 0.0022807107]),
    "dirichlet": (lambda k: random.dirichlet(k, np.float32([0.5, 1.0, 2.0])), [0.39247963, 0.0037929104, 0.60372746]),
}


@pytest.mark.parametrize("name", list(GOLDEN))
def test_draws_made_with_functions_are_the_same_to_the_bit(name: str) -> None:
    draw, expected = GOLDEN[name]
    drawn = np.asarray(draw(random.key(2026)))
    np.testing.assert_array_equal(drawn, np.array(expected, drawn.dtype))
