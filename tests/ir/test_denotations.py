"""Definitions against independent oracles: JAX, NumPy, scalar loops, published vectors; never the code under test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ops.samples import CONVOLUTIONS, SAMPLES, Sample, adjoint, output_shape, uniform

from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.op import Op
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.random import RANDOM_BITS, Algorithm, Draw, halves, splitmix64, threefry2x32
from torchlean.ir.ops.reduce import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MIN
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT
from torchlean.ir.ops.window_types import Window


def value(op: Op, params: Any, *arrays: Any) -> np.ndarray[Any, Any]:
    """The first result of the definition."""
    with np.errstate(all="ignore"):
        return np.asarray(op.denote(NumpyAlgebra(), params, *arrays)[0])


def samples(*ops: Op) -> list[Any]:
    """The samples of some ops as pytest parameters; at least three each."""
    chosen = [sample for sample in SAMPLES if sample.op in ops]
    assert len(chosen) >= 3 * len(ops)
    return [pytest.param(sample, id=repr(sample)) for sample in chosen]


def same_bits(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Equal type and bits; any NaN counts as any other."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))
    np.testing.assert_array_equal(got, want)


# -- convolution -------------------------------------------------------------------------------------------------------
def jax_conv(window: Window, x: Any, w: Any) -> Any:
    """`jax.lax.conv_general_dilated` in the layout used here."""
    return jax.lax.conv_general_dilated(
        x,
        w,
        window_strides=window.strides,
        padding=window.padding,
        rhs_dilation=window.dilation,
        feature_group_count=window.groups,
        precision="highest",
    )


# JAX rejects groups that leave no channels and convolutions without input channels.
NON_EMPTY = [case for case in CONVOLUTIONS if min(case[0]) > 0]


@pytest.mark.parametrize(("x_shape", "w_shape", "window"), NON_EMPTY)
def test_convolution_and_its_adjoints_agree_with_jax(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], window: Window
) -> None:
    """Tolerance: at most 72 float64 terms of size 4 per entry."""
    x, w = uniform(x_shape), uniform(w_shape, seed=1)
    ct = uniform(output_shape(x_shape, w_shape, window), seed=2)
    with jax.enable_x64(True):
        want, pull = jax.vjp(lambda x, w: jax_conv(window, x, w), jnp.asarray(x), jnp.asarray(w))
        want_x, want_w = pull(jnp.asarray(ct))
        assert want.dtype == np.float64
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(value(CONV, window, x, w), want, **close)
    np.testing.assert_allclose(value(CONV_INPUT_ADJOINT, adjoint(window, x_shape[2:]), ct, w), want_x, **close)
    np.testing.assert_allclose(value(CONV_KERNEL_ADJOINT, adjoint(window, w_shape[2:]), x, ct), want_w, **close)


def test_the_cases_of_the_convolution_oracle() -> None:
    assert len(NON_EMPTY) == 9


def _reads(window: Window, output: tuple[int, ...], kernel: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """The input position that a kernel offset meets at an output position, or None outside the input."""
    at = [
        o * s + k * d - low
        for o, k, s, d, (low, _) in zip(output, kernel, window.strides, window.dilation, window.padding, strict=True)
    ]
    return tuple(at) if all(0 <= i < n for i, n in zip(at, sizes, strict=True)) else None


@pytest.mark.parametrize(("x_shape", "w_shape", "window"), CONVOLUTIONS)
def test_convolution_folds_in_the_stated_order(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], window: Window
) -> None:
    """Bit for bit the scalar loops of the doc strings, in float32 with values that make the order show."""
    x = uniform(x_shape, -1e4, 1e4, np.float32)
    w = uniform(w_shape, -1e4, 1e4, np.float32, seed=1)
    out_shape = output_shape(x_shape, w_shape, window)
    ct = uniform(out_shape, -1e4, 1e4, np.float32, seed=2)
    sizes, per_in, per_out = x_shape[2:], w_shape[1], w_shape[0] // window.groups
    y, dx, dw = (np.zeros(shape, dtype=np.float32) for shape in (out_shape, x_shape, w_shape))
    for n, o, *out in np.ndindex(*out_shape):
        for i in range(per_in):
            for k in np.ndindex(*w_shape[2:]):
                at = _reads(window, tuple(out), k, sizes)
                if at is not None:
                    y[(n, o, *out)] += x[(n, o // per_out * per_in + i, *at)] * w[(o, i, *k)]
    for n, o, i in np.ndindex(x_shape[0], w_shape[0], per_in):
        for k in np.ndindex(*w_shape[2:]):
            for out in np.ndindex(*out_shape[2:]):
                at = _reads(window, out, k, sizes)
                if at is not None:
                    dx[(n, o // per_out * per_in + i, *at)] += ct[(n, o, *out)] * w[(o, i, *k)]
    for n, *out in np.ndindex(out_shape[0], *out_shape[2:]):
        for o, i, *k in np.ndindex(*w_shape):
            at = _reads(window, tuple(out), tuple(k), sizes)
            if at is not None:
                dw[(o, i, *k)] += x[(n, o // per_out * per_in + i, *at)] * ct[(n, o, *out)]
    same_bits(value(CONV, window, x, w), y)
    same_bits(value(CONV_INPUT_ADJOINT, adjoint(window, sizes), ct, w), dx)
    same_bits(value(CONV_KERNEL_ADJOINT, adjoint(window, w_shape[2:]), x, ct), dw)


def test_positions_outside_the_input_are_skipped_not_multiplied() -> None:
    window = Window((1,), ((1, 1),), (1,), 1)
    x, w = np.ones((1, 1, 3)), np.array([[[np.inf, 1.0, np.nan]]])
    np.testing.assert_array_equal(value(CONV, window, x, w)[0, 0], [np.nan, np.nan, np.inf])


# -- positions ---------------------------------------------------------------------------------------------------------
def _position(params: Along, index: Any, size: int) -> int | None:
    if 0 <= int(index) < size:
        return int(index)
    if params.mode is Mode.FILL:
        return None
    return 0 if int(index) < 0 else size - 1


def _entries(params: Along, shape: tuple[int, ...], indices: Any) -> Any:
    """(index position, result position, operand position or None), in row-major order of the indices."""
    axis, batch = params.axis, params.batch
    for at in np.ndindex(*indices.shape):
        found = _position(params, indices[at], shape[axis])
        for pre in np.ndindex(*shape[batch:axis]):
            for post in np.ndindex(*shape[axis + 1 :]):
                result = (*at[:batch], *pre, *at[batch:], *post)
                yield result, None if found is None else (*at[:batch], *pre, found, *post)


@pytest.mark.parametrize("sample", samples(GATHER))
def test_gather_is_a_loop(sample: Sample) -> None:
    x, indices = sample.arrays
    got = value(GATHER, sample.params, x, indices)
    want = np.zeros_like(got)
    for result, source in _entries(sample.params, x.shape, indices):
        if source is not None:
            want[result] = x[source]
    same_bits(got, want)


@pytest.mark.parametrize("sample", samples(SCATTER_ADD))
def test_scatter_add_is_a_loop_in_the_order_of_the_indices(sample: Sample) -> None:
    x, indices, updates = sample.arrays
    want = np.array(x)
    with np.errstate(all="ignore"):
        for result, source in _entries(sample.params, x.shape, indices):
            if source is not None:
                want[source] = want[source] + updates[result]
    same_bits(value(SCATTER_ADD, sample.params, x, indices, updates), want)


def test_gather_along_an_axis_is_numpy_take() -> None:
    x, indices = uniform((3, 5, 7)), np.array([[4, 0, 1], [2, 2, 3]], dtype=np.int32)
    same_bits(value(GATHER, Along(1, 0, Mode.FILL), x, indices), np.take(x, indices, axis=1))
    same_bits(value(GATHER, Along(1, 0, Mode.CLIP), x, indices * 3 - 4), np.take(x, indices * 3 - 4, 1, mode="clip"))
    paired = np.array([[6, 0], [1, 1], [2, 3]], dtype=np.int32)
    flat = x[:, 0]
    same_bits(value(GATHER, Along(1, 1, Mode.FILL), flat, paired), np.take_along_axis(flat, paired, 1))


# -- cutting and joining -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sample", samples(PAD))
def test_pad_agrees_with_jax(sample: Sample) -> None:
    x, fill = sample.arrays
    params = sample.params
    with jax.enable_x64(True):
        widths = list(zip(params.low, params.high, params.interior, strict=True))
        want = np.asarray(jax.lax.pad(jnp.asarray(x), jnp.asarray(fill), widths))
    same_bits(value(PAD, params, x, fill), want)


@pytest.mark.parametrize("sample", samples(SLICE))
def test_slice_reads_what_a_loop_reads(sample: Sample) -> None:
    (x,), params = sample.arrays, sample.params
    axes = [range(*bounds) for bounds in zip(params.starts, params.limits, params.strides, strict=True)]
    want = np.zeros([len(axis) for axis in axes], dtype=x.dtype)
    for at in np.ndindex(*want.shape):
        want[at] = x[tuple([axis[i] for axis, i in zip(axes, at, strict=True)])]
    same_bits(value(SLICE, params, x), want)


@pytest.mark.parametrize("sample", samples(CONCATENATE))
def test_concatenate_writes_stretches(sample: Sample) -> None:
    got, axis, at = value(CONCATENATE, sample.params, *sample.arrays), sample.params.axis, 0
    for array in sample.arrays:
        same_bits(np.moveaxis(got, axis, 0)[at : at + array.shape[axis]], np.moveaxis(array, axis, 0))
        at += array.shape[axis]
    assert at == got.shape[axis]


# -- reductions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sample", samples(REDUCE_MAX, REDUCE_MIN))
def test_extremes_agree_with_numpy(sample: Sample) -> None:
    """Values only: NumPy leaves open which of two equal zeros it returns."""
    numpy = np.max if sample.op is REDUCE_MAX else np.min
    (x,), axes = sample.arrays, sample.params.axes
    np.testing.assert_array_equal(value(sample.op, sample.params, x), numpy(x, axis=axes) if axes else x)


def test_of_equal_zeros_the_first_is_the_extreme() -> None:
    zeros = np.array([[0.0, -0.0], [-0.0, 0.0]])
    for op in (REDUCE_MAX, REDUCE_MIN):
        assert np.signbit(value(op, Axes((1,)), zeros)).tolist() == [False, True]


@pytest.mark.parametrize("sample", samples(ARGMAX, ARGMIN))
def test_positions_of_extremes_agree_with_numpy(sample: Sample) -> None:
    numpy = np.argmax if sample.op is ARGMAX else np.argmin
    (x,), params = sample.arrays, sample.params
    want = numpy(x, axis=params.axis).astype(params.dtype.carrier)
    same_bits(value(sample.op, params, x), np.asarray(want))


@pytest.mark.parametrize("sample", samples(REDUCE_SUM))
def test_reduce_sum_is_a_scalar_left_fold(sample: Sample) -> None:
    (x,), axes = sample.arrays, sample.params.axes
    want = np.zeros([n for axis, n in enumerate(x.shape) if axis not in axes], dtype=x.dtype)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*x.shape):
            kept = tuple([i for axis, i in enumerate(at) if axis not in axes])
            want[kept] = want[kept] + x[at]
    same_bits(value(REDUCE_SUM, sample.params, x), want)
    if x.dtype == np.float64:
        np.testing.assert_allclose(want, np.sum(x, axis=axes), rtol=1e-13, atol=1e-13)


# -- contraction -------------------------------------------------------------------------------------------------------
def _letters(dims: DotDims, left: int, right: int) -> str:
    """The einsum of a dot_general."""
    mine = [chr(ord("a") + axis) for axis in range(left)]
    yours = [chr(ord("A") + axis) for axis in range(right)]
    for a, b in zip(dims.lhs_contract + dims.lhs_batch, dims.rhs_contract + dims.rhs_batch, strict=True):
        yours[b] = mine[a]
    kept = [mine[a] for a in dims.lhs_batch]
    kept += [mine[a] for a in range(left) if a not in dims.lhs_contract + dims.lhs_batch]
    kept += [yours[b] for b in range(right) if b not in dims.rhs_contract + dims.rhs_batch]
    return f"{''.join(mine)},{''.join(yours)}->{''.join(kept)}"


@pytest.mark.parametrize("sample", [case for case in samples(DOT_GENERAL) if case.values[0].smooth])
def test_dot_general_is_the_einsum(sample: Sample) -> None:
    """Tolerance: at most 15 float64 terms of size 4 per entry."""
    lhs, rhs = sample.arrays
    want = np.einsum(_letters(sample.params, lhs.ndim, rhs.ndim), lhs, rhs)
    np.testing.assert_allclose(value(DOT_GENERAL, sample.params, lhs, rhs), want, rtol=1e-13, atol=1e-13)


def test_dot_general_is_the_scalar_triple_loop() -> None:
    """Bit for bit, in float32, products rounded before they are added."""
    lhs, rhs = uniform((5, 37), -1e3, 1e3, np.float32), uniform((37, 3), -1e3, 1e3, np.float32, seed=1)
    want = np.zeros((5, 3), dtype=np.float32)
    for m in range(5):
        for n in range(3):
            total = np.float32(0)
            for k in range(37):
                total = total + lhs[m, k] * rhs[k, n]
            want[m, n] = total
    got = value(DOT_GENERAL, DotDims((1,), (0,), (), ()), lhs, rhs)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    assert not np.array_equal(got, lhs[:, ::-1] @ rhs[::-1])  # the order shows in these operands


def test_dot_general_folds_several_axes_in_row_major_order_of_the_pairs() -> None:
    lhs, rhs = uniform((3, 5), -1e3, 1e3, np.float32), uniform((5, 3), -1e3, 1e3, np.float32, seed=1)
    for left, right in (((0, 1), (1, 0)), ((1, 0), (0, 1))):
        total = np.float32(0)
        for at in np.ndindex(*[lhs.shape[axis] for axis in left]):
            mine = tuple([at[left.index(axis)] for axis in range(2)])
            yours = tuple([at[right.index(axis)] for axis in range(2)])
            total = total + lhs[mine] * rhs[yours]
        same_bits(value(DOT_GENERAL, DotDims(left, right, (), ()), lhs, rhs), np.asarray(total))


# -- random bits -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 3), (1025,), (2, 3, 5)])
@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1, 2026])
def test_threefry_bits_are_those_of_jax(shape: tuple[int, ...], seed: int) -> None:
    key = jax.random.key(seed, impl="threefry2x32")
    assert jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    words = np.asarray(jax.random.key_data(key))
    same_bits(
        value(RANDOM_BITS, Draw(shape, Algorithm.THREEFRY2X32), words),
        np.asarray(jax.random.bits(key, shape, "uint32")),
    )


# key, counter, output: kat_vectors of Random123 1.14 (threefry2x32, 20 rounds)
KNOWN_ANSWERS = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)


@pytest.mark.parametrize(("key", "counter", "output"), KNOWN_ANSWERS)
def test_threefry_gives_the_known_answers(
    key: tuple[int, int], counter: tuple[int, int], output: tuple[int, int]
) -> None:
    words = [np.array([word], dtype=np.uint32) for word in (*key, *counter)]
    assert tuple([int(word[0]) for word in threefry2x32(*words)]) == output


def test_the_counter_has_64_bits() -> None:
    high, low = halves(np.array([5, 2**31, 2**32 + 5, 2**64 - 2], dtype=np.uint64))
    assert high.tolist() == [0, 0, 1, 2**32 - 1]
    assert low.tolist() == [5, 2**31, 5, 2**32 - 2]


@pytest.fixture(scope="module")
def quickstart(shared_data: Path) -> ModuleType:
    """The independent re-creation of the quickstart's numbers."""
    path = shared_data / "reference" / "quickstart_reference.py"
    if not path.is_file():
        pytest.skip("no quickstart reference in the shared data")
    spec = importlib.util.spec_from_file_location("quickstart_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("key", [0, 1, 2026, 2**63 + 11, 2**64 - 3])
def test_splitmix_bits_are_those_of_the_reference(quickstart: ModuleType, key: int) -> None:
    want = np.array([quickstart.draw32(key, index) for index in range(15)], dtype=np.uint32).reshape(3, 5)
    same_bits(value(RANDOM_BITS, Draw((3, 5), Algorithm.SPLITMIX64), np.array(key, dtype=np.uint64)), want)


def test_splitmix_gives_the_known_answers() -> None:
    """The first outputs of SplitMix64 from the seeds 0 and 1234567 (Vigna's splitmix64.c)."""
    seeds = np.array([0, 1234567], dtype=np.uint64)
    assert splitmix64(seeds).tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


def test_a_batch_of_keys_draws_what_each_key_draws() -> None:
    keys = np.array([[[1, 2], [3, 4]]], dtype=np.uint32)
    params = Draw((3, 5), Algorithm.THREEFRY2X32)
    got = value(RANDOM_BITS, params, keys)
    assert got.shape == (1, 2, 3, 5)
    for at in np.ndindex(1, 2):
        same_bits(got[at], value(RANDOM_BITS, params, keys[at]))
