"""Keys and draws against JAX and published vectors; the splitmix64 stream against TorchLean's published weights."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import numpy as np
import pytest

from torchlean import random
from torchlean.errors import ConfigError, TypeRuleError
from torchlean.ir import ops
from torchlean.transforms.batching import vmap

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


def array(x: Any) -> Any:
    return np.asarray(x)


# -- anchors: Random123's known answers, and numbers JAX 0.10.2 printed (threefry_partitionable=True) ------------------
@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ([0, 0], [0, 0], [0x6B200159, 0x99BA4EFE]),
        ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 2, [0x1CB996FC, 0xBB002BE7]),
        ([0x13198A2E, 0x03707344], [0x243F6A88, 0x85A308D3], [0xC4923A9C, 0x483DF7A0]),
    ],
)
def test_threefry_known_answers(key: list[int], counter: list[int], words: list[int]) -> None:
    made = ops.threefry2x32(np.array(key, np.uint32), np.array(counter, np.uint32))
    assert array(made).tolist() == words


def test_anchors_of_jax() -> None:
    assert [f"{word:08x}" for word in array(random.bits(random.key(0), (4,)))] == [
        "f29a4fa7",
        "fa843692",
        "55110e28",
        "77faa835",
    ]
    assert array(random.split(random.key(0))).tolist() == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert array(random.fold_in(random.key(0), 7)).tolist() == [2716826189, 292468403]
    expected = np.array([0.947667, 0.9785799, 0.33229148], np.float32)
    np.testing.assert_array_equal(array(random.uniform(random.key(0), (3,))), expected)
    expected = np.array([-0.02830462, 0.46713185, 0.29570296], np.float32)
    np.testing.assert_allclose(array(random.normal(random.key(42), (3,))), expected, rtol=5e-7)


@needs_jax
@pytest.mark.parametrize("seed", [0, 1, 2026, 2**32 - 1])
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 2)])
def test_same_bits_as_jax(seed: int, shape: tuple[int, ...]) -> None:
    import jax

    theirs, mine = jax.random.key(seed), random.key(seed)
    data = jax.random.key_data
    np.testing.assert_array_equal(array(mine), data(theirs))
    np.testing.assert_array_equal(array(random.split(mine, 5)), data(jax.random.split(theirs, 5)))
    np.testing.assert_array_equal(array(random.fold_in(mine, 99)), data(jax.random.fold_in(theirs, 99)))
    np.testing.assert_array_equal(array(random.bits(mine, shape)), jax.random.bits(theirs, shape))
    np.testing.assert_array_equal(array(random.uniform(mine, shape)), jax.random.uniform(theirs, shape))
    np.testing.assert_array_equal(array(random.bernoulli(mine, 0.3, shape)), jax.random.bernoulli(theirs, 0.3, shape))


@needs_jax
def test_near_jax_where_it_may_fuse_or_take_its_own_logarithm() -> None:
    """Scaled uniforms: 1 ulp of the largest term, for JAX fuses multiply and add. Normals: a few ulp of log1p, sqrt."""
    import jax

    theirs, mine = jax.random.key(3), random.key(3)
    scaled = array(random.uniform(mine, (1000,), low=-0.3, high=2.0))
    np.testing.assert_allclose(
        scaled, jax.random.uniform(theirs, (1000,), minval=-0.3, maxval=2.0), atol=2.4e-7, rtol=0
    )
    normal = array(random.normal(mine, (4000,)))
    np.testing.assert_allclose(normal, jax.random.normal(theirs, (4000,)), rtol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(
            array(random.uniform(mine, (5, 7), "f64")), jax.random.uniform(theirs, (5, 7), "float64")
        )
        np.testing.assert_array_equal(array(random.bits(mine, (9,), "u64")), jax.random.bits(theirs, (9,), "uint64"))


# -- laws --------------------------------------------------------------------------------------------------------------
def test_a_batch_of_keys_draws_what_each_key_draws() -> None:
    keys = random.split(random.key(5), 3)
    batch = array(random.uniform(keys, (4,)))
    mapped = array(vmap(lambda key: random.uniform(key, (4,)))(keys))
    rows = [array(random.uniform(keys[i], (4,))) for i in range(3)]
    assert batch.tolist() == mapped.tolist() == [row.tolist() for row in rows]
    halves = array(random.split(keys))
    assert [array(random.split(keys[i])).tolist() for i in range(3)] == halves.tolist()


def test_folding_in_a_tensor_folds_each_entry() -> None:
    made = array(random.fold_in(random.key(1), np.array([4, 9], np.int32)))
    assert made.tolist() == [array(random.fold_in(random.key(1), n)).tolist() for n in (4, 9)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_uniform_is_half_open_and_normal_has_its_moments(dtype: str) -> None:
    """With n = 2¹⁶ draws a mean is off by 1/√n of the deviation; 5 of those is a 1 in 10⁶ event; the key is fixed."""
    n = 1 << 16
    unit = array(random.uniform(random.key(7), (n,), dtype)).astype(np.float64)
    assert unit.min() >= 0
    assert unit.max() < 1
    assert abs(unit.mean() - 0.5) < 5 / math.sqrt(12 * n)
    draws = array(random.normal(random.key(8), (n,), dtype)).astype(np.float64)
    assert np.isfinite(draws).all()
    assert abs(draws.mean()) < 5 / math.sqrt(n)
    assert abs(draws.var() - 1) < 5 * math.sqrt(2 / n)


def test_randint_covers_its_range_evenly() -> None:
    n = 70000
    draws = array(random.randint(random.key(1), (n,), -3, 4))
    counts = np.bincount(draws + 3, minlength=7)
    assert draws.dtype == np.int32
    assert len(counts) == 7
    assert np.abs(counts - n / 7).max() < 5 * math.sqrt(n / 7)
    wide = array(random.randint(random.key(1), (99,), 0, 2**32, "u64"))
    assert wide.tolist() == array(random.bits(random.key(1), (99,))).astype(np.uint64).tolist()


# -- refusals ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "7"])
def test_what_is_not_a_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="is not a seed"):
        random.key(seed)


def test_refusals_name_function_and_fix() -> None:
    with pytest.raises(TypeRuleError, match=r"random.uniform: i32\[\] is not a key"):
        random.uniform(3, (2,))
    with pytest.raises(TypeRuleError, match=r"random.split: f32\[2\] is not a key"):
        random.split(np.zeros(2, np.float32))
    with pytest.raises(ConfigError, match="4294967296 cannot be folded into a key"):
        random.fold_in(random.key(0), 2**32)
    with pytest.raises(TypeRuleError, match=r"random.uniform does not draw i32"):
        random.uniform(random.key(0), (2,), "i32")
    with pytest.raises(TypeRuleError, match=r"random.bits does not draw u8"):
        random.bits(random.key(0), (2,), "u8")
    for low, high, dtype in ((3, 3, "i32"), (0, 300, "u8"), (0, 2**33, "i64")):
        with pytest.raises(ConfigError, match=r"random.randint cannot draw from"):
            random.randint(random.key(0), (2,), low, high, dtype)


def test_bit_ops_refuse_other_operands() -> None:
    with pytest.raises(TypeRuleError, match=r"splitmix64 of u32\[\]: not a 64-bit word"):
        ops.splitmix64(np.uint32(4))
    with pytest.raises(TypeRuleError, match=r"threefry2x32 of u32\[3\], u32\[3\]: not pairs of words"):
        ops.threefry2x32(np.zeros(3, np.uint32), np.zeros(3, np.uint32))
    assert array(ops.shift_right(np.array([2**32 - 1, 5], np.uint32), 32)).tolist() == [0, 0]
    assert array(ops.shift_right(np.array([2**32 - 1, 5], np.uint32), 33)).tolist() == [0, 0]
    assert array(ops.shift_right(np.array([2**32 - 1, 5], np.uint32), 1)).tolist() == [2**31 - 1, 2]


# -- the seed stream ---------------------------------------------------------------------------------------------------
def splitmix(x: int) -> int:
    """SplitMix64 in Python integers [Steele et al. 2014]."""
    z = (x + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("x", [0, 1, 2026, 2**63, 2**64 - 1])
def test_splitmix64_on_integers_and_tensors(x: int) -> None:
    assert random.splitmix64(x) == splitmix(x)
    assert int(array(ops.splitmix64(np.uint64(x)))) == splitmix(x)
    assert random.draw32(x, 5).tolist() == [splitmix((x + i) % 2**64) % 2**32 for i in range(5)]
    assert array(random.call_draws(np.uint64(x), (2, 3))).ravel().tolist() == random.draw32(x, 6).tolist()
    assert int(array(random.call_key(np.uint64(x), 3))) == random.key_of(x, 3) == splitmix((x + 3) % 2**64)


def test_the_stream_gives_the_published_first_row() -> None:
    stream = random.SeedStream(2026)
    first = stream.take()
    assert first == splitmix((2026 + 0x9E3779B97F4A7C15) % 2**64)
    limit = math.sqrt(6 / 10)
    row = -limit + random.uniform01(random.key_of(first, 0), 2) * (2 * limit)
    assert [f"{x:.6f}" for x in row] == ["-0.337801", "0.526946"]
    assert stream.taken == 1
    assert repr(stream) == "SeedStream(2026), 1 taken"
