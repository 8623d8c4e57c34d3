"""Samples of the elementary, special, integer, running, sorting, Fourier and matrix ops, and of bfloat16 and complex
operands of the older ones. Operands are drawn as in `samples.py`.

`COMPLEX_SMOOTH` are the complex ones at which every op is differentiable: `tests/laws/test_complex.py` runs over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from ops.samples import (
    CONVOLUTIONS,
    F16,
    F32,
    F64,
    Sample,
    _elementwise,
    _integer,
    adjoint,
    integers,
    output_shape,
    spaced,
    specials,
    uniform,
)

from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import (
    cumulative,
    determinant,
    dynamic,
    elementary,
    factor,
    fft,
    fold,
    parts,
    quotients,
    rounding,
    spectral,
    triangular,
    words,
)
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import scattering as scatter_ops
from torchlean.ir.ops import sorting as sort_ops
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.ops.cumulative import PartialRun, Run
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE, Flipped, NewShape, Permutation
from torchlean.ir.ops.reduce import ARGMAX, REDUCE_MAX, ArgAxis
from torchlean.ir.ops.rounding import Halves, Rounded
from torchlean.ir.ops.sorting import Sorting
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.ops.triangular import Triangle
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT

Array = np.ndarray[Any, Any]

BF16 = ml_dtypes.bfloat16
C64, C128 = np.complex64, np.complex128

NUMERIC_OPS: tuple[Op, ...] = (
    *rounding.OPS,
    *elementary.OPS,
    *quotients.OPS,
    *words.OPS,
    *parts.OPS,
    *cumulative.OPS,
    *fold.OPS,
    *dynamic.OPS,
    *scatter_ops.OPS,
    *sort_ops.OPS,
    *fft.OPS,
    *triangular.OPS,
    *factor.OPS,
    *spectral.OPS,
    *determinant.OPS,
)


def disc(shape: tuple[int, ...], seed: int = 0, dtype: Any = C128, centre: complex = 0) -> Array:
    """Seeded complex numbers in the unit square around `centre`."""
    real, imag = uniform(shape, -1, 1, seed=seed), uniform(shape, -1, 1, seed=seed + 100)
    return (real + 1j * imag + centre).astype(dtype)


def complex_specials(dtype: Any = C64, turn: int = 0) -> Array:
    """Every pair of a NaN, an infinity, both zeros and an ordinary number."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5])
    part = np.dtype(dtype).type(0).real.dtype
    made = np.empty((6, 6), dtype)
    made.real, made.imag = values.astype(part)[:, None], values.astype(part)[None, :]
    return np.roll(made.reshape(-1), turn)


# -- one number --------------------------------------------------------------------------------------------------------
def _rounding() -> Iterator[Sample]:
    wide = (-3.0, 3.0)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, -0.49999999999999994, 4503599627370497.5])
    for op in (rounding.FLOOR, rounding.CEIL, rounding.TRUNC):
        yield from _elementwise(op, wide, smooth=False)
        yield Sample(op, NO_PARAMS, (halves,), "halves", False)
        yield Sample(op, NO_PARAMS, (uniform((3,), -3, 3).astype(BF16),), "bf16[3]", False)
    for way in Halves:
        for sample in _elementwise(rounding.ROUND, wide, params=Rounded(way), smooth=False):
            yield Sample(sample.op, sample.params, sample.arrays, f"{way.name} {sample.name}", False)
        yield Sample(rounding.ROUND, Rounded(way), (halves,), f"{way.name} halves", False)
        yield Sample(rounding.ROUND, Rounded(way), (uniform((3,), -3, 3).astype(BF16),), f"{way.name} bf16[3]", False)
    for op in (rounding.IS_FINITE, rounding.IS_NAN, rounding.SIGNBIT):
        yield from _elementwise(op, wide, smooth=False)
        yield Sample(op, NO_PARAMS, (specials(BF16),), "bf16 specials", False)
    for op in (rounding.IS_FINITE, rounding.IS_NAN):
        yield Sample(op, NO_PARAMS, (complex_specials(),), "c64 specials", False)


ELEMENTARY: tuple[tuple[Op, tuple[float, float]], ...] = (
    (elementary.EXP2, (-2.0, 2.0)),
    (elementary.LOG2, (0.5, 2.0)),
    (elementary.LOG10, (0.5, 2.0)),
    (elementary.CBRT, (0.5, 2.0)),
    (elementary.TAN, (-1.0, 1.0)),
    (elementary.ASIN, (-0.7, 0.7)),
    (elementary.ACOS, (-0.7, 0.7)),
    (elementary.ATAN, (-2.0, 2.0)),
    (elementary.SINH, (-2.0, 2.0)),
    (elementary.COSH, (-2.0, 2.0)),
    (elementary.ASINH, (-2.0, 2.0)),
    (elementary.ACOSH, (1.6, 3.0)),
    (elementary.ATANH, (-0.6, 0.6)),
    (elementary.ERFC, (-2.0, 2.0)),
    (elementary.ERF_INV, (-0.7, 0.7)),
    (elementary.LGAMMA, (1.2, 4.0)),
    (elementary.DIGAMMA, (1.2, 4.0)),
    (elementary.SQUARE, (-2.0, 2.0)),
)


def _elementary() -> Iterator[Sample]:
    for op, place in ELEMENTARY:
        yield from _elementwise(op, place)
        yield Sample(op, NO_PARAMS, (uniform((7,), *place).astype(BF16),), "bf16[7]", False)
        far = np.array([-90.0, -20.0, -3.5, -1.0, 1.0, 3.5, 20.0, 90.0], dtype=F32)
        yield Sample(op, NO_PARAMS, (far,), "out of range", False)
    yield from _integer(elementary.SQUARE, 1, dtypes=(np.int32, np.uint8))
    for order in (1, 2, 3):
        params = elementary.Order(order)
        yield Sample(elementary.POLYGAMMA, params, (uniform((3, 5), 1.5, 4.0),), f"{order} f64[3,5]", order < 3)
        yield Sample(elementary.POLYGAMMA, params, (uniform((), 1.5, 4.0),), f"{order} f64[]", order < 3)
        yield Sample(elementary.POLYGAMMA, params, (specials(),), f"{order} specials", False)
        yield Sample(elementary.POLYGAMMA, params, (uniform((0, 3), dtype=F32),), f"{order} empty", False)
        below = np.array([-0.5, -1.0, -2.25, -7.75])
        yield Sample(elementary.POLYGAMMA, params, (below,), f"{order} out of range", False)
    poles = np.array([0.0, -0.0, -1.0, -2.5, 1e300, 171.7])
    for op in (elementary.LGAMMA, elementary.DIGAMMA):
        yield Sample(op, NO_PARAMS, (poles,), "out of its range", False)
    ends = np.array([1.0, -1.0, 1.5, 0.999999, -0.999999, 1e-30, 0.0, -0.0])
    yield Sample(elementary.ERF_INV, NO_PARAMS, (ends,), "out of its range", False)


def _quotients() -> Iterator[Sample]:
    away, wide = (0.5, 2.0), (-2.0, 2.0)
    yield from _elementwise(quotients.HYPOT, away, away)
    yield from _elementwise(quotients.ATAN2, away, away)
    yield from _elementwise(quotients.NEXTAFTER, wide, wide, smooth=False)
    yield Sample(quotients.NEXTAFTER, NO_PARAMS, (uniform((3,)), uniform((3,), seed=1)), "f64[3]", True)
    tiny = np.array([0.0, 0.0, 1e-30, -1e-30, 1e38]), np.array([0.0, -0.0, 1e-30, 1e-30, 1e38])
    for op in (quotients.HYPOT, quotients.ATAN2):
        yield Sample(op, NO_PARAMS, tuple([array.astype(F32) for array in tiny]), "origin", False)
    for op in (quotients.REM, quotients.REMAINDER, quotients.FLOOR_DIVIDE):
        smooth = op is not quotients.FLOOR_DIVIDE
        yield from _elementwise(op, wide, away, smooth=False)
        x, y = np.array([5.3, -5.3, 5.3, -5.3, 0.7]), np.array([2.0, 2.0, -2.0, -2.0, 3.0])
        yield Sample(op, NO_PARAMS, (x, y), "signs", smooth)
        signs = np.array([7, -7, 7, -7, 5, -(2**31), 0]), np.array([3, 3, -3, -3, 0, -1, 0])
        yield Sample(op, NO_PARAMS, tuple([array.astype(np.int32) for array in signs]), "integer signs", False)
        unsigned = integers((3, 5), 0, 200, np.uint8), integers((3, 5), 0, 9, np.uint8, seed=1)
        yield Sample(op, NO_PARAMS, unsigned, "u8[3,5]", False)
        whole = np.array([0.0, -0.0, 6.0, -6.0]), np.array([3.0, 3.0, 3.0, 3.0])
        yield Sample(op, NO_PARAMS, whole, "multiples", False)


# -- bits --------------------------------------------------------------------------------------------------------------
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def extremes(dtype: Any, seed: int = 0) -> Array:
    """The smallest and largest integers, small ones, and random ones."""
    limits = np.iinfo(dtype)
    random = np.random.default_rng(seed).integers(limits.min, limits.max, 4, dtype=dtype, endpoint=True)
    return np.array([limits.min, limits.max, 0, 1, *random.tolist()], dtype=dtype)


def _words() -> Iterator[Sample]:
    for dtype in INTEGERS:
        name = np.dtype(dtype).name
        x, y = extremes(dtype), np.roll(extremes(dtype, 1), 3)
        for op in (words.AND, words.OR, words.XOR):
            yield Sample(op, NO_PARAMS, (x, y), name, False)
        for op in (words.NOT, words.POPULATION_COUNT, words.CLZ):
            yield Sample(op, NO_PARAMS, (x,), name, False)
        width = np.dtype(dtype).itemsize * 8
        places = np.array([0, 1, 2, 3, width // 2, width - 1, width % 127, 7], dtype=dtype)
        outside = np.array([width % 127, 3, -1 if np.dtype(dtype).kind == "i" else 100, 0] * 2).astype(dtype)
        for op in (words.SHIFT_LEFT, words.SHIFT_RIGHT_LOGICAL, words.SHIFT_RIGHT_ARITHMETIC):
            yield Sample(op, NO_PARAMS, (x, places), name, False)
            yield Sample(op, NO_PARAMS, (x, outside), f"{name} beyond", False)
    for op in (words.AND, words.NOT, words.SHIFT_LEFT, words.CLZ):
        count = len([None for kind in ("and", "shift_left") if op.name == kind]) + 1
        for shape in ((), (0, 3)):
            arrays = tuple([integers(shape, 0, 9, np.int32, seed) for seed in range(count)])
            yield Sample(op, NO_PARAMS, arrays, f"int32{list(shape)}", False)
    for source, target in (
        (F32, DType.I32),
        (np.int32, DType.F32),
        (np.uint64, DType.F64),
        (F64, DType.U32),
        (F16, DType.BF16),
        (BF16, DType.U8),
        (F32, DType.F16),
    ):
        for shape in ((3, 5), (), (0, 3)):
            array = uniform(shape, 0, 100).astype(source)
            name = f"{np.dtype(source)}{list(shape)} to {target}"
            yield Sample(words.BITCAST_CONVERT, words.Bitcast(target), (array,), name, False)
    pairs = integers((3, 2), 0, 2**31, np.uint32)
    yield Sample(words.BITCAST_CONVERT, words.Bitcast(DType.F64), (pairs,), "u32[3,2] to f64", False)
    yield Sample(words.BITCAST_CONVERT, words.Bitcast(DType.I32), (specials(),), "specials", False)
    for exponent, mantissa in ((8, 7), (5, 10), (8, 23), (5, 2), (4, 3), (11, 52), (8, 0)):
        params = words.Precision(exponent, mantissa)
        name = f"e{exponent}m{mantissa}"
        yield Sample(words.REDUCE_PRECISION, params, (uniform((3, 5), dtype=F32),), f"{name} f32[3,5]", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(),), f"{name} specials", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(F64),), f"{name} specials-f64", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(BF16),), f"{name} specials-bf16", False)
    exact = words.Precision(11, 52)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform((3, 5)),), "f64[3,5]", True)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform(()),), "f64[]", True)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform((0, 3)),), "empty", False)


# -- folds -------------------------------------------------------------------------------------------------------------
SHAPES = (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 5), 1), ((1,), 0))


def _running() -> Iterator[Sample]:
    for op in (cumulative.CUMSUM, cumulative.CUMPROD):
        for shape, axis in SHAPES:
            for reverse in (False, True):
                for exclusive in (False, True):
                    params = PartialRun(axis, reverse, exclusive)
                    name = f"{list(shape)} along {axis}{' reversed' * reverse}{' exclusive' * exclusive}"
                    yield Sample(op, params, (uniform(shape, 0.5, 1.5),), f"f64{name}", True)
                    yield Sample(op, params, (uniform(shape, dtype=F32),), f"f32{name}", False)
        params = PartialRun(0, reverse=False, exclusive=False)
        yield Sample(op, params, (specials(),), "specials", False)
        yield Sample(op, params, (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, params, (integers((3, 5), 100, 200, np.uint8),), "u8 wraps", False)
        yield Sample(op, params, (uniform((7,)).astype(BF16),), "bf16[7]", False)
        yield Sample(op, params, (np.array([-0.0, -0.0, 1e8, 1.0, -1e8], dtype=F32),), "order shows", False)
    zeros = (np.array([2.0, 0.0, 3.0, 4.0]), np.array([0.0, 2.0, 3.0]), np.array([2.0, 0.0, 0.0, 3.0]), np.zeros(3))
    for at, array in enumerate(zeros):
        for reverse in (False, True):
            params = PartialRun(0, reverse, exclusive=False)
            yield Sample(cumulative.CUMPROD, params, (array,), f"zeros {at}{' reversed' * reverse}", True)
    for op in (cumulative.CUMMAX, cumulative.CUMMIN):
        for shape, axis in SHAPES:
            for reverse in (False, True):
                name = f"{list(shape)} along {axis}{' reversed' * reverse}"
                yield Sample(op, Run(axis, reverse), (spaced(shape),), f"f64{name}", True)
                yield Sample(op, Run(axis, reverse), (spaced(shape, F32),), f"f32{name}", False)
        run = Run(0, reverse=False)
        yield Sample(op, run, (specials(),), "specials", False)
        yield Sample(op, run, (np.array([1.0, 3.0, 3.0, 1.0, 3.0, 0.0, 0.0]),), "ties", False)
        yield Sample(op, run, (np.array([0.0, -0.0, 0.0]),), "zeros", False)
        yield Sample(op, run, (np.array([1.0, 2.0, np.nan, 1.0, 5.0]),), "NaN", False)
        yield Sample(op, run, (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, run, (integers((3, 5), -9, 9),), "i32[3,5]", False)
    for shape, axis in SHAPES:
        for reverse in (False, True):
            name = f"{list(shape)} along {axis}{' reversed' * reverse}"
            yield Sample(cumulative.CUMLOGSUMEXP, Run(axis, reverse), (uniform(shape),), f"f64{name}", True)
            a, b = uniform(shape, 0.5, 1.5), uniform(shape, seed=1)
            yield Sample(cumulative.RECURRENCE, Run(axis, reverse), (a, b), f"f64{name}", True)
            narrow = a.astype(F32), b.astype(F32)
            yield Sample(cumulative.RECURRENCE, Run(axis, reverse), narrow, f"f32{name}", False)
    run = Run(0, reverse=False)
    yield Sample(cumulative.CUMLOGSUMEXP, run, (specials(),), "specials", False)
    yield Sample(
        cumulative.CUMLOGSUMEXP, run, (np.array([-np.inf, -np.inf, 1.0, -np.inf, np.inf, 2.0]),), "-inf", False
    )
    yield Sample(cumulative.CUMLOGSUMEXP, run, (np.array([-1e4, 1e4, 0.0], dtype=F32),), "far", False)
    yield Sample(cumulative.CUMLOGSUMEXP, run, (uniform((0, 3), dtype=F32),), "empty", False)
    yield Sample(cumulative.RECURRENCE, run, (specials(), specials(turn=3)), "specials", False)
    yield Sample(cumulative.RECURRENCE, run, (np.zeros(5), uniform((5,))), "zeros", True)
    yield Sample(cumulative.RECURRENCE, run, (uniform((0, 3), dtype=F32),) * 2, "empty", False)
    yield Sample(cumulative.RECURRENCE, run, (integers((5,), -3, 3), integers((5,), -3, 3, seed=1)), "i32[5]", False)


def _folds() -> Iterator[Sample]:
    for shape, axes in (((3, 5), (0,)), ((3, 5), (1,)), ((2, 3, 5), (0, 2)), ((7,), (0,)), ((3,), ()), ((), ())):
        name = f"{list(shape)} over {list(axes)}"
        yield Sample(fold.REDUCE_PROD, Axes(axes), (uniform(shape, 0.5, 1.5),), f"f64{name}", True)
        yield Sample(fold.REDUCE_PROD, Axes(axes), (uniform(shape, dtype=F32),), f"f32{name}", False)
        for op in (fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR):
            yield Sample(op, Axes(axes), (integers(shape, 0, 2, np.bool_),), f"bool{name}", False)
            yield Sample(op, Axes(axes), (integers(shape, -9, 9),), f"i32{name}", False)
    for at, array in enumerate((np.array([2.0, 0.0, 3.0]), np.array([0.0, 0.0, 3.0]), np.zeros(2))):
        yield Sample(fold.REDUCE_PROD, Axes((0,)), (array,), f"zeros {at}", True)
    for op in (fold.REDUCE_PROD,):
        yield Sample(op, Axes((0,)), (uniform((0, 3), dtype=F32),), "nothing", False)
        yield Sample(op, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, Axes((1,)), (np.stack([specials(), specials(turn=2)]),), "specials", False)
        yield Sample(op, Axes((0,)), (integers((3, 5), 0, 200, np.uint8),), "u8 wraps", False)
    for op in (fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR):
        yield Sample(op, Axes((0,)), (integers((0, 3), 0, 9, np.uint8),), "nothing", False)
        yield Sample(op, Axes((0,)), (integers((0, 3), 0, 2, np.bool_),), "no booleans", False)


# -- positions ---------------------------------------------------------------------------------------------------------
def _windows() -> Iterator[Sample]:
    for shape, sizes, starts in (
        ((7,), (3,), (2,)),
        ((7,), (3,), (9,)),
        ((7,), (3,), (-2,)),
        ((3, 5), (2, 2), (1, 3)),
        ((3, 5), (3, 5), (1, 1)),
        ((3, 5), (0, 2), (2, 1)),
        ((0, 3), (0, 2), (0, 5)),
        ((), (), ()),
    ):
        name = f"{list(shape)} {list(sizes)} at {list(starts)}"
        at = np.array(starts, dtype=np.int32)
        for dtype in (F64, F32):
            x, update = uniform(shape, dtype=dtype), uniform(sizes, dtype=dtype, seed=1)
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes(sizes), (x, at), label, dtype is F64)
            yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (x, update, at), label, dtype is F64)
    far = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    x = integers((3, 5), 0, 9, np.uint8)
    yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes((2, 2)), (x, far), "u8 far", False)
    yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (x, x[:2, :2], far), "u8 far", False)
    one = np.array([1], dtype=np.uint8)
    yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes((4,)), (specials(), one), "specials", False)
    yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (specials(), specials(turn=3)[:4], one), "specials", False)


def _scatters() -> Iterator[Sample]:
    every = (scatter_ops.SCATTER, scatter_ops.SCATTER_MUL, scatter_ops.SCATTER_MIN, scatter_ops.SCATTER_MAX)
    for shape, params, indices in (
        ((5,), Along(0, 0, Mode.FILL), np.array([4, 0, 2, 2], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.FILL), np.array([-1, 5, 2, 2, 2, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((3, 5), Along(1, 0, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5), Along(1, 1, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((2, 3, 5), Along(2, 1, Mode.CLIP), np.array([[4, 0, 4], [1, 1, 7]], dtype=np.int64)),
        ((5,), Along(0, 0, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((0, 3), Along(1, 1, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
    ):
        made = (*shape[: params.axis], *indices.shape[params.batch :], *shape[params.axis + 1 :])
        count = int(np.prod(shape)) + int(np.prod(made))
        values = spaced((count,))
        x, updates = values[: int(np.prod(shape))].reshape(shape), values[int(np.prod(shape)) :].reshape(made)
        name = f"{list(shape)} along {params.axis} paired {params.batch} {params.mode.value} "
        name += str(indices.reshape(-1).tolist()).replace(" ", "")
        for op in every:
            yield Sample(op, params, (x, indices, updates), f"f64{name}", True)
            yield Sample(op, params, (x.astype(F32), indices, updates.astype(F32)), f"f32{name}", False)
    where = np.array([0, 0, 2, 2, 4], dtype=np.int32)
    ties = np.array([1.0, 2.0, 0.0, 5.0, 3.0]), where, np.array([1.0, 1.0, 0.0, -0.0, 4.0])
    for op in every:
        yield Sample(op, Along(0, 0, Mode.FILL), ties, "ties", False)
        wide = specials(), np.arange(10, dtype=np.int32), specials(turn=3)
        yield Sample(op, Along(0, 0, Mode.FILL), wide, "specials", False)
        ints = integers((3,), -9, 9), np.array([0, 0, 2], dtype=np.int32), integers((3,), -9, 9, seed=1)
        yield Sample(op, Along(0, 0, Mode.CLIP), ints, "i32", False)
    zeros = np.array([2.0, 3.0, 1.0]), np.array([0, 0, 1], dtype=np.int32), np.array([0.0, 4.0, 0.0])
    yield Sample(scatter_ops.SCATTER_MUL, Along(0, 0, Mode.FILL), zeros, "one zero", False)
    flags = integers((5,), 0, 2, np.bool_), where, integers((5,), 0, 2, np.bool_, seed=1)
    yield Sample(scatter_ops.SCATTER, Along(0, 0, Mode.FILL), flags, "bool", False)


def _sorts() -> Iterator[Sample]:
    for shape, axis in (*SHAPES, ((0, 3), 0)):
        for descending in (False, True):
            name = f"{list(shape)} along {axis}{' descending' * descending}"
            one = Sorting(axis, 1, descending)
            yield Sample(sort_ops.SORT, one, (spaced(shape),), f"f64{name}", True)
            pair = spaced(shape), uniform(shape, seed=1)
            yield Sample(sort_ops.SORT, one, pair, f"f64 with another {name}", True)
            keys = integers(shape, 0, 3), spaced(shape, F32), uniform(shape, dtype=F32)
            yield Sample(sort_ops.SORT, Sorting(axis, 2, descending), keys, f"two keys {name}", False)
    place = np.arange(10, dtype=np.int32)
    for descending in (False, True):
        one = Sorting(0, 1, descending)
        end = " descending" * descending
        yield Sample(sort_ops.SORT, one, (specials(), place), f"specials{end}", False)
        yield Sample(sort_ops.SORT, one, (specials(BF16), place), f"bf16 specials{end}", False)
        ties = np.array([2.0, 1.0, 2.0, -0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 2.0])
        yield Sample(sort_ops.SORT, one, (ties, place), f"ties{end}", False)
        yield Sample(sort_ops.SORT, one, (place % 2 == 0, place), f"bool{end}", False)
        yield Sample(sort_ops.SORT, one, (extremes(np.uint64), place[:8]), f"u64{end}", False)
        yield Sample(sort_ops.SORT, one, (extremes(np.int64), place[:8]), f"i64{end}", False)


# -- Fourier and matrices ----------------------------------------------------------------------------------------------
def _fourier() -> Iterator[Sample]:
    for shape, axis in (((8,), 0), ((3, 7), 1), ((5, 2), 0), ((2, 3, 4), 1), ((1,), 0), ((0, 3), 1)):
        name = f"{list(shape)} along {axis}"
        for dtype in (C128, C64):
            for inverse in (False, True):
                label = f"{np.dtype(dtype).name}{name}{' inverse' * inverse}"
                yield Sample(fft.FFT, fft.Transform(axis, inverse), (disc(shape, dtype=dtype),), label, False)
        for dtype in (F64, F32):
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(fft.RFFT, fft.RealTransform(axis), (uniform(shape, dtype=dtype),), label, False)
        n = shape[axis]
        half = (*shape[:axis], n // 2 + 1, *shape[axis + 1 :])
        for dtype in (C128, C64):
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(fft.IRFFT, fft.RealInverse(axis, n), (disc(half, dtype=dtype),), label, False)
    yield Sample(fft.FFT, fft.Transform(0, inverse=False), (complex_specials(),), "specials", False)
    yield Sample(fft.RFFT, fft.RealTransform(0), (specials(),), "specials", False)


def definite(n: int, batch: tuple[int, ...] = (), dtype: Any = F64, seed: int = 0) -> Array:
    """Well-conditioned Hermitian positive definite matrices with well separated eigenvalues."""
    base = matrix((*batch, n, n), dtype, seed)
    turned, _ = np.linalg.qr(base.astype(C128 if np.dtype(dtype).kind == "c" else F64))
    made = (turned * (1.0 + np.arange(n))) @ np.conj(np.swapaxes(turned, -1, -2))
    return made.astype(dtype)


def matrix(shape: tuple[int, ...], dtype: Any = F64, seed: int = 0) -> Array:
    """Seeded entries; diagonally heavy, so that triangles and the whole are well conditioned."""
    made = disc(shape, seed) if np.dtype(dtype).kind == "c" else uniform(shape, -1, 1, seed=seed)
    return (made + 2.0 * np.eye(*shape[-2:])).astype(dtype)


def separated(shape: tuple[int, ...], dtype: Any = F64, seed: int = 0) -> Array:
    """Matrices with singular values 1, 2, 3, …"""
    wide = C128 if np.dtype(dtype).kind == "c" else F64
    u, _, vh = np.linalg.svd(matrix(shape, wide, seed), full_matrices=False)
    return ((u * (1.0 + np.arange(min(shape[-2:])))) @ vh).astype(dtype)


MATRIX_DTYPES = (F64, F32, C128, C64)


def _matrices() -> Iterator[Sample]:
    for dtype in MATRIX_DTYPES:
        smooth = dtype is F64
        label = np.dtype(dtype).name
        for shape in ((3, 3), (2, 3, 3), (1, 1)):
            name = f"{label}{list(shape)}"
            square = definite(shape[-1], shape[:-2], dtype)
            yield Sample(triangular.CHOLESKY, NO_PARAMS, (square,), name, smooth)
            yield Sample(spectral.EIGH, NO_PARAMS, (square,), name, smooth)
            yield Sample(determinant.DET, NO_PARAMS, (matrix(shape, dtype),), name, smooth)
            b = matrix((*shape[:-1], 2), dtype, 5)
            for lower in (False, True):
                for turned in (False, True):
                    for unit in (False, True):
                        params = Triangle(lower, turned, unit)
                        how = f"{'lower' if lower else 'upper'}{' adjoint' * turned}{' unit' * unit}"
                        operands = matrix(shape, dtype), b
                        yield Sample(triangular.TRIANGULAR_SOLVE, params, operands, f"{name} {how}", smooth)
        for shape in ((3, 3), (4, 2), (2, 3, 2), (2, 4), (1, 1), (1, 3), (3, 1)):
            name = f"{label}{list(shape)}"
            yield Sample(factor.LU, NO_PARAMS, (matrix(shape, dtype, 3),), name, smooth)
            yield Sample(factor.QR, NO_PARAMS, (separated(shape, dtype, 4),), name, smooth)
            yield Sample(spectral.SVD, NO_PARAMS, (separated(shape, dtype, 6),), name, smooth)
    for op in (triangular.CHOLESKY, spectral.EIGH, spectral.SVD, factor.QR, factor.LU, determinant.DET):
        yield Sample(op, NO_PARAMS, (np.zeros((0, 0), F32),), "f32[0,0]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((0, 3, 3), F32),), "f32[0,3,3]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((3, 3)),), "degenerate: zeros", False)
        yield Sample(op, NO_PARAMS, (np.ones((3, 3)),), "degenerate: rank one", False)
        yield Sample(op, NO_PARAMS, (np.full((2, 2), np.nan),), "NaN", False)
        yield Sample(op, NO_PARAMS, (np.array([[1.0, 0.0], [0.0, -1.0]]),), "degenerate: indefinite", False)
        yield Sample(op, NO_PARAMS, (np.eye(3),), "degenerate: identity", False)
    for op in (spectral.SVD, factor.QR, factor.LU):
        yield Sample(op, NO_PARAMS, (np.zeros((0, 3), F32),), "f32[0,3]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((3, 0), F32),), "f32[3,0]", False)
    singular = np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones((2, 1))
    yield Sample(triangular.TRIANGULAR_SOLVE, Triangle(False, False, False), singular, "degenerate: singular", False)
    nothing = np.zeros((0, 0), F32), np.zeros((0, 2), F32)
    yield Sample(triangular.TRIANGULAR_SOLVE, Triangle(True, False, False), nothing, "f32[0,0]", False)


# -- other dtypes of the older ops -------------------------------------------------------------------------------------
def _bfloat() -> Iterator[Sample]:
    """Ordinary numbers, special ones and scalars in bfloat16."""
    for op in (ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.POW, ew.MAX, ew.MIN, ew.LT, ew.EQ):
        pair = uniform((3, 5), 0.5, 2).astype(BF16), uniform((3, 5), 0.5, 2, seed=1).astype(BF16)
        yield Sample(op, NO_PARAMS, pair, "bf16[3,5]", False)
        yield Sample(op, NO_PARAMS, (pair[0][0, 0], pair[1][0, 0]), "bf16[]", False)
        yield Sample(op, NO_PARAMS, (specials(BF16), specials(BF16, 3)), "bf16 specials", False)
    for op in (
        ew.NEG,
        ew.ABS,
        ew.SIGN,
        ew.SQRT,
        ew.RSQRT,
        ew.EXP,
        ew.EXPM1,
        ew.LOG,
        ew.LOG1P,
        ew.SIN,
        ew.COS,
        ew.TANH,
        ew.LOGISTIC,
        ew.ERF,
    ):
        yield Sample(op, NO_PARAMS, (uniform((3, 5), 0.5, 2).astype(BF16),), "bf16[3,5]", False)
        yield Sample(op, NO_PARAMS, (specials(BF16),), "bf16 specials", False)
    for exponent in (-2, 3):
        base = uniform((5,), 0.5, 2).astype(BF16)
        yield Sample(ew.INTEGER_POW, ew.Exponent(exponent), (base,), f"bf16^{exponent}", False)
    for target in DType:
        if target.is_complex:
            continue
        for source in (BF16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int64):
            array = uniform((3, 5), 0.0, 4.0).astype(source)
            yield Sample(ew.CONVERT, ew.Target(target), (array,), f"{np.dtype(source).name} to {target}", False)
    halfway = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, -(1 + 2**-8 + 2**-40), 3.39e38, 1e-60, -1e-60])
    yield Sample(ew.CONVERT, ew.Target(DType.BF16), (halfway,), "near halfway to bf16", False)
    long = np.array([2**40 + 2**32 + 1, -(2**40) - 2**32 - 1, 2**63 - 1, -(2**63)], dtype=np.int64)
    yield Sample(ew.CONVERT, ew.Target(DType.BF16), (long,), "long integers to bf16", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (uniform((3, 7)).astype(BF16),), "bf16[3,7] over 1", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (uniform((3, 7)).astype(BF16),), "bf16[3,7] over 0", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (uniform((41,)).astype(BF16),), "bf16[41]", False)
    dims = DotDims((1,), (0,), (), ())
    yield Sample(DOT_GENERAL, dims, (uniform((3, 5)).astype(BF16), uniform((5, 7), seed=1).astype(BF16)), "bf16", False)
    yield Sample(REDUCE_MAX, Axes((0,)), (specials(BF16),), "bf16 specials", False)
    yield Sample(ARGMAX, ArgAxis(0), (specials(BF16),), "bf16 specials", False)
    where = np.array([0, 0, 2], dtype=np.int32)
    update = uniform((3,), seed=1).astype(BF16)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (uniform((5,)).astype(BF16), where, update), "bf16", False)
    yield Sample(FULL, Fill.of((3,), DType.BF16, 0.1), (), "0.1 bf16[3]", False)


def _stored() -> Iterator[Sample]:
    """The 8-bit formats are moved, compared and converted."""
    for dtype in (d for d in DType if d.is_storage):
        array = uniform((3, 5), 0.5, 4).astype(dtype.carrier)
        for target in (DType.F32, DType.F64, DType.BF16, DType.F16, DType.I32):
            yield Sample(ew.CONVERT, ew.Target(target), (array,), f"{dtype} to {target}", False)
        yield Sample(ew.CONVERT, ew.Target(dtype), (specials(F64),), f"f64 specials to {dtype}", False)
        yield Sample(RESHAPE, NewShape((5, 3)), (array,), f"{dtype}", False)
        yield Sample(TRANSPOSE, Permutation((1, 0)), (array,), f"{dtype}", False)
        yield Sample(ew.EQ, NO_PARAMS, (array, array[:, ::-1]), f"{dtype}", False)
        yield Sample(ew.LT, NO_PARAMS, (array, array[:, ::-1]), f"{dtype}", False)
        yield Sample(GATHER, Along(0, 0, Mode.CLIP), (array, np.array([2, 0, 9], dtype=np.int32)), f"{dtype}", False)
        yield Sample(FULL, Fill.of((3,), dtype, 1.5), (), f"1.5 {dtype}[3]", False)


HOLOMORPHIC: tuple[tuple[Op, complex], ...] = (
    (ew.NEG, 0),
    (ew.SQRT, 2),
    (ew.RSQRT, 2),
    (ew.EXP, 0),
    (ew.EXPM1, 0),
    (ew.LOG, 2),
    (ew.LOG1P, 2),
    (ew.SIN, 0),
    (ew.COS, 0),
    (ew.TANH, 0),
    (elementary.EXP2, 0),
    (elementary.LOG2, 2),
    (elementary.LOG10, 2),
    (elementary.TAN, 0),
    (elementary.ASIN, 3j),
    (elementary.ACOS, 3j),
    (elementary.ATAN, 3),
    (elementary.SINH, 0),
    (elementary.COSH, 0),
    (elementary.ASINH, 3),
    (elementary.ACOSH, 3),
    (elementary.ATANH, 3j),
    (elementary.SQUARE, 0),
)


def _complex_smooth() -> Iterator[Sample]:
    for op, centre in HOLOMORPHIC:
        for shape in ((3, 5), ()):
            yield Sample(op, NO_PARAMS, (disc(shape, centre=centre),), f"c128{list(shape)}", False)
    for op, centre in ((ew.ADD, 0), (ew.SUB, 0), (ew.MUL, 0), (ew.DIV, 2), (ew.POW, 2)):
        for shape in ((3, 5), ()):
            pair = disc(shape, centre=centre), disc(shape, 1, centre=centre)
            yield Sample(op, NO_PARAMS, pair, f"c128{list(shape)}", False)
    for exponent in (-2, -1, 0, 1, 2, 3):
        params = ew.Exponent(exponent)
        yield Sample(ew.INTEGER_POW, params, (disc((5,), centre=2),), f"c128^{exponent}", False)
    for op in (parts.REAL, parts.IMAG, parts.CONJ):
        for shape in ((3, 5), ()):
            yield Sample(op, NO_PARAMS, (disc(shape),), f"c128{list(shape)}", False)
    for shape in ((3, 5), ()):
        yield Sample(parts.COMPLEX, NO_PARAMS, (uniform(shape), uniform(shape, seed=1)), f"f64{list(shape)}", False)
    yield Sample(ew.CONVERT, ew.Target(DType.C128), (disc((3,)),), "same c128", False)
    yield Sample(ew.CONVERT, ew.Target(DType.C128), (uniform((3,)),), "real to c128", False)
    choice = integers((3, 5), 0, 2, np.bool_), disc((3, 5)), disc((3, 5), 1)
    yield Sample(ew.SELECT, NO_PARAMS, choice, "c128[3,5]", False)
    yield Sample(BROADCAST, Spread((2, 3), (1,)), (disc((3,)),), "c128", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (disc((3, 5)),), "c128", False)
    yield Sample(RESHAPE, NewShape((5, 3)), (disc((3, 5)),), "c128", False)
    yield Sample(TRANSPOSE, Permutation((1, 0)), (disc((3, 5)),), "c128", False)
    yield Sample(REVERSE, Flipped((1,)), (disc((3, 5)),), "c128", False)
    yield Sample(SLICE, Strided((1,), (6,), (2,)), (disc((7,)),), "c128", False)
    yield Sample(PAD, Widths((2,), (-1,), (1,)), (disc((5,)), disc((), 1)), "c128", False)
    yield Sample(CONCATENATE, Joined(0), (disc((3,)), disc((2,), 1)), "c128", False)
    where = np.array([4, 0, 2, 2], dtype=np.int32)
    params = Along(0, 0, Mode.FILL)
    yield Sample(GATHER, params, (disc((5,)), where), "c128", False)
    yield Sample(SCATTER_ADD, params, (disc((5,)), where, disc((4,), 1)), "c128", False)
    yield Sample(scatter_ops.SCATTER, params, (disc((5,)), where, disc((4,), 1)), "c128", False)
    yield Sample(scatter_ops.SCATTER_MUL, params, (disc((5,), centre=2), where, disc((4,), 1, centre=2)), "c128", False)
    at = np.array([1], dtype=np.int32)
    yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes((3,)), (disc((5,)), at), "c128", False)
    yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (disc((5,)), disc((3,), 1), at), "c128", False)
    for left, right, dims in (
        ((3, 5), (5, 2), DotDims((1,), (0,), (), ())),
        ((2, 3, 5), (2, 5, 2), DotDims((2,), (1,), (0,), (0,))),
    ):
        yield Sample(DOT_GENERAL, dims, (disc(left), disc(right, 1)), f"c128 {list(left)}", False)
    for x_shape, w_shape, window in CONVOLUTIONS[1:3]:
        x, w = disc(x_shape), disc(w_shape, 1)
        ct = disc(output_shape(x_shape, w_shape, window), 2)
        yield Sample(CONV, window, (x, w), f"c128 {list(x_shape)}", False)
        yield Sample(CONV_INPUT_ADJOINT, adjoint(window, x_shape[2:]), (ct, w), f"c128 {list(x_shape)}", False)
        yield Sample(CONV_KERNEL_ADJOINT, adjoint(window, w_shape[2:]), (x, ct), f"c128 {list(x_shape)}", False)
    for reverse in (False, True):
        run = PartialRun(0, reverse, exclusive=False)
        yield Sample(cumulative.CUMSUM, run, (disc((5,)),), f"c128{' reversed' * reverse}", False)
        yield Sample(cumulative.CUMPROD, run, (disc((5,)),), f"c128{' reversed' * reverse}", False)
        pair = disc((5,)), disc((5,), 1)
        yield Sample(cumulative.RECURRENCE, Run(0, reverse), pair, f"c128{' reversed' * reverse}", False)
    yield Sample(fold.REDUCE_PROD, Axes((1,)), (disc((3, 4)),), "c128", False)
    key = spaced((5,))
    yield Sample(sort_ops.SORT, Sorting(0, 1, False), (key, disc((5,))), "with c128", False)
    keep = ("c128", "complex128", "float64")
    for sample in (*_fourier(), *_matrices()):
        if sample.op in (spectral.EIGH, spectral.SVD):
            continue  # vectors of complex matrices have no derivative of their own: only up to a phase
        if sample.name.startswith(keep) and sample.arrays[0].size:
            complex_result = sample.op is fft.RFFT or any(array.dtype == C128 for array in sample.arrays)
            if complex_result:
                yield sample


def _complex_rough() -> Iterator[Sample]:
    for op, centre in HOLOMORPHIC:
        yield Sample(op, NO_PARAMS, (disc((7,), dtype=C64, centre=centre),), "c64[7]", False)
        yield Sample(op, NO_PARAMS, (complex_specials(),), "c64 specials", False)
        yield Sample(op, NO_PARAMS, (disc((0, 3), dtype=C64),), "c64 empty", False)
    for op in (ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.POW, ew.EQ, ew.NE):
        pair = disc((3, 5), dtype=C64), disc((3, 5), 1, C64)
        yield Sample(op, NO_PARAMS, pair, "c64[3,5]", False)
        yield Sample(op, NO_PARAMS, (complex_specials(), complex_specials(turn=7)), "c64 specials", False)
        yield Sample(op, NO_PARAMS, (disc((0, 3), dtype=C64), disc((0, 3), dtype=C64)), "c64 empty", False)
    for op in (parts.REAL, parts.IMAG, parts.CONJ):
        yield Sample(op, NO_PARAMS, (complex_specials(),), "c64 specials", False)
        yield Sample(op, NO_PARAMS, (disc((0, 3), dtype=C64),), "c64 empty", False)
    yield Sample(parts.COMPLEX, NO_PARAMS, (specials(), specials(turn=3)), "specials", False)
    yield Sample(parts.COMPLEX, NO_PARAMS, (uniform((0, 3), dtype=F32),) * 2, "empty", False)
    for target in (DType.C64, DType.C128, DType.BOOL):
        yield Sample(ew.CONVERT, ew.Target(target), (complex_specials(),), f"c64 specials to {target}", False)
    yield Sample(FULL, Fill.of((3,), DType.C128, -0.0 + 1j), (), "1j c128[3]", False)
    yield Sample(REDUCE_SUM, Axes((0, 1)), (disc((3, 7), dtype=C64),), "c64", False)
    yield Sample(fold.REDUCE_PROD, Axes((0,)), (disc((5,), dtype=C64),), "c64", False)
    dims = DotDims((1,), (0,), (), ())
    yield Sample(DOT_GENERAL, dims, (disc((3, 5), dtype=C64), disc((5, 2), 1, C64)), "c64", False)


COMPLEX_SMOOTH: tuple[Sample, ...] = tuple(_complex_smooth())
_FURTHER = (
    *_rounding(),
    *_elementary(),
    *_quotients(),
    *_words(),
    *_running(),
    *_folds(),
    *_windows(),
    *_scatters(),
    *_sorts(),
    *_fourier(),
    *_matrices(),
    *_bfloat(),
    *_stored(),
    *_complex_rough(),
)
_NAMES = {repr(sample) for sample in _FURTHER}
NUMERIC: tuple[Sample, ...] = (*_FURTHER, *[sample for sample in COMPLEX_SMOOTH if repr(sample) not in _NAMES])
