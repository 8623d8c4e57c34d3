"""Operands as users have them: unaligned, with gaps, reversed, overlapping, read-only, empty; and wrong ones."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops
from torchlean.backends import Executable, accept, plan
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds, PlainKernel
from torchlean.ir.dtypes import as_dtype

pytestmark = pytest.mark.usefixtures("compiler")


def program(x: Any, y: Any) -> Any:
    return ops.sum(x * y + ops.exp(x), 0), ops.matmul(ops.transpose(x), y), x - y


def unaligned(array: Any) -> Any:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(array.tobytes(), np.uint8)
    made = raw[1:].view(array.dtype).reshape(array.shape)
    assert not made.flags.aligned
    return made


def gapped(array: Any) -> Any:
    made = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)[::2, ::3]
    made[...] = array
    return made


def reversed_twice(array: Any) -> Any:
    return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]


def readonly(array: Any) -> Any:
    made = array.copy()
    made.flags.writeable = False
    return made


LAYOUTS = (unaligned, gapped, reversed_twice, readonly, np.asfortranarray, lambda a: a.astype(">f4").astype("<f4"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (33, 65)])
def test_the_memory_of_operands_does_not_matter(layout: Any, shape: tuple[int, int]) -> None:
    x, y = normal(*shape, seed=1), normal(*shape, seed=2)
    graph = traced(program, x, y)
    want = run(graph, [x, y], REFERENCE)
    for got in (run(graph, [layout(x), layout(y)]), run(graph, [layout(x), y])):
        assert [same_bits(g, w) for g, w in zip(got, want, strict=True)] == [True] * 3


def test_overlapping_operands_and_the_same_twice() -> None:
    whole = normal(9, 7, seed=3)
    for x, y in ((whole[:8], whole[1:]), (whole, whole)):
        graph = traced(program, x, y)
        before = whole.copy()
        for got, want in zip(run(graph, [x, y]), run(graph, [x, y], REFERENCE), strict=True):
            assert same_bits(got, want)
            assert not np.shares_memory(got, whole)
        assert same_bits(whole, before)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_operands(shape: tuple[int, int]) -> None:
    x, y = normal(*shape, seed=1), normal(*shape, seed=2)
    graph = traced(program, x, y)
    for got, want in zip(run(graph, [x, y]), run(graph, [x, y], REFERENCE), strict=True):
        assert same_bits(got, want)


def test_results_are_arrays_of_their_own() -> None:
    x = normal(4, 3)
    graph = traced(
        lambda x: (ops.transpose(x + 1), x + 1, ops.reshape(x + 1, (12,)), ops.sum(x), x, ops.full((2,), 1.0)), x
    )
    got, want = run(graph, [x]), run(graph, [x], REFERENCE)
    for at, (g, w) in enumerate(zip(got, want, strict=True)):
        assert isinstance(g, np.ndarray)
        assert same_bits(g, w)
        assert not any([np.shares_memory(g, other) for other in (*got[:at], x)])


def test_an_operand_of_another_size_is_refused() -> None:
    x = normal(5, 7)
    executable = Executable(accept(plan(traced(lambda x: ops.exp(x) * 2, x), COMPILED)))
    with pytest.raises(ValueError, match="operand 0 of a compiled kernel has 12 bytes, and it was made for 140"):
        executable.call(normal(3))
    with pytest.raises(TypeError):
        executable.call(x, x)


def test_without_the_headers_of_python_ctypes_calls_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(5, 7, seed=1), normal(5, 7, seed=2)
    graph = traced(program, x, y)
    builds = Builds()
    monkeypatch.setattr(builds, "stub", lambda: None)
    profile = COMPILED.with_modules(module(builds))
    made = Executable(accept(plan(graph, profile)))
    for got, want in zip(made.call(x, y), run(graph, [x, y], REFERENCE), strict=True):
        assert same_bits(got, want)
    kernels = [held for held in made.call.__globals__.values() if isinstance(held, PlainKernel)]
    assert len(kernels) == 1
    with pytest.raises(ValueError, match="operand 1 of a compiled kernel has 4 bytes, and it was made for 140"):
        kernels[0](x, np.float32(1))
    with pytest.raises(TypeError, match="a compiled kernel of 2 operands was given 1"):
        kernels[0](x)


def test_threads_share_a_kernel_and_its_arena() -> None:
    """Each call that finds the arena lent out gets one of its own."""
    x = normal(200, 300, seed=5)

    def f(x: Any) -> Any:
        return ops.softmax(x @ ops.transpose(x), -1) @ x

    lowered = tl.lower(f, x, profile=COMPILED)
    want = np.asarray(lowered(x)).copy()
    wrong: list[int] = []
    done: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            if not same_bits(np.asarray(lowered(x)), want):
                wrong.append(number)
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2, 3]
    assert wrong == []


def test_sums_that_run_backwards() -> None:
    """GCC 12 adds the wrong entries when it vectorises such a sum; a random program found it."""
    x = normal(4, 3)
    graph = traced(lambda x: (ops.sum(ops.reverse(x, (1,))), ops.sum(ops.reverse(x, (0,)), 1)), x)
    for got, want in zip(run(graph, [x]), run(graph, [x], REFERENCE), strict=True):
        assert same_bits(got, want)


@pytest.mark.parametrize("shape", [(1000, 777), (131, 3, 600)])
def test_parts_that_are_stitched_row_by_row_have_the_same_bits(shape: tuple[int, ...]) -> None:
    x, w = normal(*shape, seed=1), normal(shape[-1], seed=2)
    x[3], x[5], x[7] = np.nan, -np.inf, 0
    x[7].reshape(-1)[5] = -0.0

    def f(x: Any, w: Any) -> Any:
        return ops.softmax(x, -1) * w, ops.layer_norm(ops.sin(x * 4000), w, w), ops.amax(x, -1)

    graph = traced(f, x, w)
    source = Executable(accept(plan(graph, COMPILED))).source
    assert "const int64_t rows = r + " in source
    for got, want in zip(run(graph, [x, w]), run(graph, [x, w], REFERENCE), strict=True):
        assert same_bits(got, want)


MIXED = {
    "transposed": lambda y: ops.transpose(y),
    "upside down": lambda y: ops.reverse(y, (0,)),
    "the row before": lambda y: ops.pad(y[:-1], 0.0, ((1, 0), (0, 0))),
    "rows of one column": lambda y: ops.broadcast(y[:, 3], y.type.shape, (1,)),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_needs_other_rows_is_not_stitched_to_what_makes_them(name: str) -> None:
    x = normal(640, 640, seed=1)

    def f(x: Any) -> Any:
        y = ops.exp(x)
        other = MIXED[name](y)
        return ops.softmax(other, -1), ops.softmax(other + y, -1)

    graph = traced(f, x)
    for got, want in zip(run(graph, [x]), run(graph, [x], REFERENCE), strict=True):
        assert same_bits(got, want)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_products_are_rounded_before_they_are_added(dtype: Any) -> None:
    """GCC 12 fuses them when it vectorises, whatever it is told; sizes are such that it would."""
    x, y = (normal(40, 64, seed=s).astype(dtype) + 1j * normal(40, 64, seed=s + 1).astype(dtype) for s in (1, 3))
    x[0, :6] = [np.nan, np.inf, complex(0, np.inf), 0, complex(-0.0, -0.0), complex(np.inf, np.nan)]

    def f(x: Any, y: Any) -> Any:
        return x * y, x / y, y / x, ops.square(x), x @ ops.transpose(y), ops.cumprod(y, 0), ops.sum(x * ops.conj(y), 1)

    graph = traced(f, x, y)
    assert {step.capsule.provider for step in plan(graph, COMPILED).steps} == {"compiled"}
    with np.errstate(all="ignore"):
        for got, want in zip(run(graph, [x, y]), run(graph, [x, y], REFERENCE), strict=True):
            assert same_bits(got, want)


@pytest.mark.parametrize("short", ["f16", "bf16", "f32", "f64"])
def test_signs_of_every_length(short: str) -> None:
    """GCC 12 breaks down on some of them."""
    xs = [normal(n, seed=n).astype(as_dtype(short).carrier) for n in (*range(1, 20), 33, 64)]
    graph = traced(lambda *xs: tuple([ops.signbit(x) for x in xs]), *xs)
    for got, want in zip(run(graph, xs), run(graph, xs, REFERENCE), strict=True):
        assert same_bits(got, want)
