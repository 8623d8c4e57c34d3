"""Sizes no memory holds, refused before anything is made; integers that are never wrapped; float64 that stays so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
import torchlean.numpy as tnp
from torchlean import ops
from torchlean.errors import LimitExceeded, TypeRuleError

X = np.array([1.0, 2.0, 3.0], np.float32)


# -- sizes -------------------------------------------------------------------------------------------------------------
HUGE = 2**62
TOO_LARGE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: tnp.zeros((2**40, 2**40)),
    "eye": lambda: tnp.eye(2**31),
    "linspace": lambda: tnp.linspace(0, 1, 2**45),
    "tile": lambda: tnp.tile(X, (2**50,)),
    "repeat": lambda: tnp.repeat(X, 2**50),
    "broadcast_to": lambda: tnp.broadcast_to(X, (HUGE, 3)),
    "outer": lambda: tnp.outer(np.zeros(2**21), np.zeros(2**21)),
    "pad": lambda: tnp.pad(X, (2**60, 0)),
    "vander": lambda: tnp.vander(X, 2**45),
    "fft": lambda: tnp.fft.fft(X, n=2**45),
    "fftfreq": lambda: tnp.fft.fftfreq(2**45),
    "rfftfreq": lambda: tnp.fft.rfftfreq(2**45),
    "normal": lambda: tl.random.normal(tl.random.key(0), (2**45,)),
    "scan": lambda: ops.scan(lambda c, _: (c, c), np.float32(0), None, length=2**45),
    "fori_loop": lambda: ops.fori_loop(0, 2**50, lambda i, c: c + 1, np.int32(0)),
    "vmap": lambda: tl.vmap(lambda: np.float32(1), axis_size=2**63)(),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_functions_of_numpy_names_refuse_what_is_too_large(name: str) -> None:
    started = time.process_time()
    with pytest.raises(LimitExceeded, match=r"(?s)would make .*\(1 TiB\)") as caught:
        TOO_LARGE[name]()
    assert time.process_time() - started < 5
    assert "test_fault_sizes.py" in str(caught.value)


def test_what_has_no_entries_may_still_be_too_large() -> None:
    """NumPy multiplies the other axes; the types are exact nevertheless."""
    assert tl.eval_shape(lambda: tnp.zeros((HUGE, 0, HUGE))).shape == (HUGE, 0, HUGE)
    assert tnp.zeros((2**30, 0, 2**29)).type.shape == (2**30, 0, 2**29)
    with pytest.raises(LimitExceeded, match=r"(?s)0 entries, 0 bytes.*axes NumPy can index.*a stride of 2\*\*63 bytes"):
        tnp.zeros((2**30, 0, 2**31))
    with pytest.raises(LimitExceeded, match="0 entries"):
        ops.reshape(np.zeros((0, 3), np.float32), (2**63, 0))


def test_jacobians_of_any_size_have_exact_types() -> None:
    wide = tl.TensorType((2**40,), tl.DType.F32)
    assert tl.eval_shape(tl.jacfwd(ops.sin), wide).shape == (2**40, 2**40)
    assert tl.eval_shape(tl.hessian(lambda x: ops.sum(x * x)), wide).shape == (2**40, 2**40)


def test_twenty_thousand_ops() -> None:
    def f(x: Any) -> Any:
        for _ in range(10_000):
            x = ops.sin(x) * 0.5
        return ops.sum(x)

    started = time.process_time()
    graph = tl.make_graph(tl.grad(f))(X)
    assert time.process_time() - started < 10
    assert len(graph) > 40_000
    assert len(str(graph)) < 20_000
    assert len(repr(graph)) < 100


# -- numbers -----------------------------------------------------------------------------------------------------------
BIG = 2**40
NARROW = np.int32(1)
WRAPPING: dict[str, Callable[[], Any]] = {
    "array": lambda: tl.array(BIG),
    "array as i32": lambda: tl.array(np.int64(BIG), "i32"),
    "asarray": lambda: tnp.asarray([BIG]),
    "full": lambda: tnp.full((2,), BIG),
    "full_like": lambda: ops.full_like(NARROW, BIG),
    "full_like of bytes": lambda: ops.full_like(np.uint8(0), 300),
    "full_like of a fraction": lambda: ops.full_like(NARROW, 1.5),
    "full_like of NaN": lambda: ops.full_like(NARROW, float("nan")),
    "add": lambda: tl.array(NARROW) + BIG,
    "compare": lambda: tl.array(NARROW) < BIG,
    "where": lambda: tnp.where(True, tl.array(NARROW), BIG),
    "clip": lambda: tnp.clip(tl.array(NARROW), 0, BIG),
    "pad": lambda: tnp.pad(np.ones(2, np.int32), 1, constant_values=BIG),
    "entry": lambda: tl.array(np.ones(2, np.int32)).at[0].set(BIG),
    "iota": lambda: ops.iota((300,), 0, "u8"),
    "arange": lambda: tnp.arange(300, dtype=tnp.uint8),
    "keys beyond 2**32": lambda: tl.random.split(tl.random.key(0), 2**45),
    "carry": lambda: ops.scan(lambda c, _: (c + 1, None), BIG, None, length=2),
    "switch": lambda: ops.switch(BIG, [lambda: 1.0, lambda: 2.0]),
    "jit": lambda: tl.jit(lambda x: x)(BIG),
    "loop beyond 64 bits": lambda: ops.fori_loop(2**70, 2**70 + 2, lambda i, c: c, np.int32(0)),
    "traced loop": lambda: tl.jit(lambda n: ops.fori_loop(n, BIG, lambda i, c: c, np.int32(0)))(NARROW),
}


@pytest.mark.parametrize("name", WRAPPING)
def test_an_integer_is_never_wrapped(name: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        WRAPPING[name]()
    text = str(caught.value)
    assert "test_fault_sizes.py" in text
    assert any(word in text for word in ("fit", "it is not in [", "it is no integer", "static_argnums")), text


def test_integers_of_64_bits_stay_exact() -> None:
    for made in (tl.array(np.int64(BIG)), tl.jit(lambda x: x)(np.int64(BIG)), tnp.asarray(BIG, dtype=tnp.int64)):
        assert (int(made), str(made.type)) == (BIG, "i64[]")
    assert int(ops.scan(lambda c, _: (c + 1, None), np.int64(BIG), None, length=2)[0]) == BIG + 2


@pytest.mark.parametrize("first", [2**31 - 3, 2**31 - 1, BIG, -(2**31) - 2, 2**62])
def test_a_loop_counts_beyond_32_bits(first: int) -> None:
    def step(i: Any, carry: Any) -> Any:
        return carry + ops.convert(i, "i64")

    want = sum(range(first, first + 3)) - 3 * first
    assert int(ops.fori_loop(first, first + 3, lambda i, c: step(i, c) - first, np.int64(0))) == want
    bounds = np.int32(2**31 - 2), np.int64(2**31 + 3)
    assert int(tl.jit(lambda n, m: ops.fori_loop(n, m, lambda i, c: c + 1, np.int32(0)))(*bounds)) == 5
    with pytest.raises(TypeRuleError, match=r"fori_loop from u64\[\] to i32\[\]: no integer dtype holds both bounds"):
        tl.jit(lambda n, m: ops.fori_loop(n, m, lambda i, c: c, np.int32(0)))(np.uint64(3), np.int32(4))


def test_float64_stays_float64() -> None:
    x = np.float64(0.1)
    made = [tl.array(x), tl.array([0.1], "f64"), tl.jit(lambda v: v * 3)(x), tl.grad(lambda v: v * v)(x)]
    made += [tnp.full((2,), x), tnp.linspace(0, 1, 3, dtype=tnp.float64), tl.array([x]), ops.full((2,), x)]
    made += [
        tl.random.normal(tl.random.key(0), (2,), tl.DType.F64),
        ops.scan(lambda c, _: (c, c), x, None, length=2)[1],
    ]
    assert [array.type.dtype.short for array in made] == ["f64"] * len(made)
    assert float(tl.array(x)) == 0.1
