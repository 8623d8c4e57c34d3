"""Samples of complex operands; `COMPLEX_SMOOTH` are those at which every op is differentiable."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import (
    C64,
    C128,
    F32,
    Sample,
    complex_specials,
    disc,
    integers,
    spaced,
    specials,
    uniform,
)
from torchlean.conformance.samples.matrices import fourier_samples, matrices_samples
from torchlean.conformance.samples.windows import CONVOLUTIONS, adjoint, output_shape
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import (
    cumulative,
    dynamic,
    elementary,
    fft,
    fold,
    parts,
    spectral,
)
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import scattering as scatter_ops
from torchlean.ir.ops import sorting as sort_ops
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.ops.cumulative import PartialRun, Run
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE, Flipped, NewShape, Permutation
from torchlean.ir.ops.sorting import Sorting
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT

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
    for sample in (*fourier_samples(), *matrices_samples()):
        if sample.op in (spectral.EIGH, spectral.SVD):
            continue  # vectors of complex matrices have no derivative of their own: only up to a phase
        if sample.name.startswith(keep) and sample.arrays[0].size:
            complex_result = sample.op is fft.RFFT or any(array.dtype == C128 for array in sample.arrays)
            if complex_result:
                yield sample


def complex_rough_samples() -> Iterator[Sample]:
    for op, centre in HOLOMORPHIC:
        yield Sample(op, NO_PARAMS, (disc((7,), dtype=C64, centre=centre),), "c64[7]", False)
        yield Sample(op, NO_PARAMS, (complex_specials(),), "c64 specials", False)
        yield Sample(op, NO_PARAMS, (disc((0, 3), dtype=C64),), "c64 empty", False)
    for op in (ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.POW, ew.EQ, ew.NE):
        pair = disc((3, 5), dtype=C64), disc((3, 5), 1, C64)
        yield Sample(op, NO_PARAMS, pair, "c64[3,5]", False)
        yield Sample(op, NO_PARAMS, (complex_specials(), complex_specials(turn=7)), "c64 specials", False)
        yield Sample(op, NO_PARAMS, (disc((0, 3), dtype=C64), disc((0, 3), dtype=C64)), "c64 empty", False)
    pair = disc((3, 5), dtype=C64), disc((3, 5), 1, C64)
    yield Sample(CHAIN_MUL, NO_PARAMS, pair, "c64[3,5]", False)
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
