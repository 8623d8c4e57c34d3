"""Samples in bfloat16 and in the 8-bit storage formats."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from torchlean.conformance.samples.draw import BF16, F64, Sample, specials, uniform
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, TRANSPOSE, NewShape, Permutation
from torchlean.ir.ops.reduce import ARGMAX, REDUCE_MAX, ArgAxis
from torchlean.ir.ops.spread import REDUCE_SUM, Axes


def bfloat_samples() -> Iterator[Sample]:
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


def stored_samples() -> Iterator[Sample]:
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
