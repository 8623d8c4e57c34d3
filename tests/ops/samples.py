"""Operands for every op: ordinary, empty, scalar, special floats, ties, and sizes no power of two divides.

Laws (`tests/laws`) run over all of them. `cases()` fails unless every op of the families has a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from torchlean.ir.dtypes import DType
from torchlean.ir.literal import Literal
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import cut as cut_ops
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.chain import OPS as CHAIN
from torchlean.ir.ops.create import CONSTANT, FULL, IOTA, Fill, Iota
from torchlean.ir.ops.create import OPS as CREATE
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.dot import OPS as DOT
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.gather import OPS as POSITIONS
from torchlean.ir.ops.layout import OPS as LAYOUT
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE, Flipped, NewShape, Permutation
from torchlean.ir.ops.random import OPS as RANDOM
from torchlean.ir.ops.random import RANDOM_BITS, Algorithm, Draw
from torchlean.ir.ops.reduce import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MIN, ArgAxis
from torchlean.ir.ops.reduce import OPS as REDUCE
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.ops.spread import OPS as SPREAD
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT
from torchlean.ir.ops.window import OPS as WINDOW
from torchlean.ir.ops.window_types import AdjointWindow, Window

SAMPLED = (*CREATE, *ew.OPS, *CHAIN, *LAYOUT, *SPREAD, *cut_ops.OPS, *POSITIONS, *DOT, *REDUCE, *WINDOW, *RANDOM)

F16, F32, F64 = np.float16, np.float32, np.float64
SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3.4e38, 1.0, -2.5)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One call of an op. `smooth`: float64 and away from kinks and poles, so difference quotients mean something."""

    op: Op
    params: Any
    arrays: tuple[np.ndarray[Any, Any], ...]
    name: str
    smooth: bool

    def __repr__(self) -> str:
        return f"{self.op.name}-{self.name}"


def uniform(
    shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, dtype: Any = F64, seed: int = 0
) -> np.ndarray[Any, Any]:
    """Seeded values in [low, high)."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def integers(shape: tuple[int, ...], low: int, high: int, dtype: Any = np.int32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Seeded integers in [low, high)."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def spaced(shape: tuple[int, ...], dtype: Any = F64, seed: int = 0) -> np.ndarray[Any, Any]:
    """Distinct values at least 0.1 apart, none within 0.05 of 0, in random order."""
    count = int(np.prod(shape))
    values = (np.arange(count) - count // 2) * 0.1 + 0.05
    return np.random.default_rng([seed, count]).permutation(values).reshape(shape).astype(dtype)


def specials(dtype: Any = F32, turn: int = 0) -> np.ndarray[Any, Any]:
    """NaN, both infinities, both zeros, subnormals, the largest, and two ordinary numbers; rolled by `turn`."""
    with np.errstate(over="ignore"):
        return np.roll(np.array(SPECIALS).astype(dtype), turn)


def _elementwise(
    op: Op, *ranges: tuple[float, float], params: Any = NO_PARAMS, smooth: bool = True
) -> Iterator[Sample]:
    """Float samples with each operand drawn from its range."""
    count = len(ranges)

    def drawn(shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple([uniform(shape, low, high, dtype, seed) for seed, (low, high) in enumerate(ranges)])

    yield Sample(op, params, drawn((3, 5), F64), "f64[3,5]", smooth)
    yield Sample(op, params, drawn((), F64), "f64[]", smooth)
    yield Sample(op, params, drawn((7,), F32), "f32[7]", False)
    yield Sample(op, params, drawn((), F32), "f32[]", False)
    yield Sample(op, params, drawn((3,), F16), "f16[3]", False)
    yield Sample(op, params, drawn((0, 3), F32), "empty", False)
    for turn in (0, 3) if count > 1 else (0,):
        arrays = tuple([specials(F32, turn * place) for place in range(count)])
        yield Sample(op, params, arrays, f"specials-{turn}", False)
    yield Sample(op, params, tuple([specials(F64, place) for place in range(count)]), "specials-f64", False)


def _integer(op: Op, count: int, params: Any = NO_PARAMS, dtypes: tuple[Any, ...] = (np.int32,)) -> Iterator[Sample]:
    for dtype in dtypes:
        low = 0 if np.dtype(dtype).kind == "u" else -9
        arrays = tuple([integers((3, 5), low, 9, dtype, seed) for seed in range(count)])
        yield Sample(op, params, arrays, f"{np.dtype(dtype).name}[3,5]", False)


def _arithmetic() -> Iterator[Sample]:
    wide = (-2.0, 2.0)
    away = (0.5, 2.0)
    for op in (ew.ADD, ew.SUB, ew.MUL):
        yield from _elementwise(op, wide, wide)
        yield from _integer(op, 2, dtypes=(np.int32, np.uint8, np.int64))
        wrap = np.array([2**31 - 1, -(2**31), 7], dtype=np.int32)
        yield Sample(op, NO_PARAMS, (wrap, wrap), "wraps", False)
    yield from _elementwise(ew.DIV, wide, away)
    yield from _elementwise(CHAIN_MUL, wide, wide)
    zero, pole = np.array([0.0, -0.0, np.nan, 1.0, 0.0, np.inf]), np.array([np.inf, np.nan, 0.0, np.inf, 2.0, 0.0])
    yield Sample(CHAIN_MUL, NO_PARAMS, (zero, pole), "zeros meet poles", False)
    for op, places in ((ew.NEG, wide), (ew.ABS, away)):
        yield from _elementwise(op, places)
        yield from _integer(op, 1)
    yield from _elementwise(ew.SIGN, wide, smooth=False)
    yield from _integer(ew.SIGN, 1)
    for op in (ew.SQRT, ew.RSQRT, ew.LOG):
        yield from _elementwise(op, away)
    yield from _elementwise(ew.LOG1P, (-0.5, 2.0))
    for op in (ew.EXP, ew.EXPM1, ew.SIN, ew.COS, ew.TANH, ew.LOGISTIC, ew.ERF):
        yield from _elementwise(op, wide)
        yield Sample(op, NO_PARAMS, (np.array([-90.0, -20.0, 20.0, 90.0], dtype=F32),), "far", False)
    yield from _elementwise(ew.POW, away, wide)
    zeros = np.array([0.0, 0.0, 0.0, -2.0, -2.0], dtype=F64), np.array([0.0, 1.0, 2.0, 3.0, 0.5], dtype=F64)
    yield Sample(ew.POW, NO_PARAMS, zeros, "zero and negative base", False)
    for exponent in (-2, -1, 0, 1, 2, 3, 7):
        params = ew.Exponent(exponent)
        yield Sample(ew.INTEGER_POW, params, (uniform((3, 5), 0.5, 2.0),), f"f64[3,5]^{exponent}", True)
        yield Sample(ew.INTEGER_POW, params, (specials(),), f"specials^{exponent}", False)
    yield Sample(ew.INTEGER_POW, ew.Exponent(3), (uniform((), dtype=F32),), "f32[]", False)
    yield Sample(ew.INTEGER_POW, ew.Exponent(2), (uniform((0, 3), dtype=F32),), "empty", False)
    yield from _integer(ew.INTEGER_POW, 1, ew.Exponent(3))


def _choices() -> Iterator[Sample]:
    wide = (-2.0, 2.0)
    for op in (ew.MAX, ew.MIN):
        yield from _elementwise(op, wide, wide)
        yield from _integer(op, 2)
        ties = np.array([1.0, 0.0, -0.0, 3.0]), np.array([1.0, -0.0, 0.0, 2.0])
        yield Sample(op, NO_PARAMS, ties, "ties", False)
    yield from _elementwise(ew.CLAMP, (-1.0, -0.6), (-2.0, 2.0), (0.6, 1.0))
    yield Sample(
        ew.CLAMP, NO_PARAMS, (np.full(3, -1.0), np.array([-1.0, 0.0, 1.0]), np.full(3, 1.0)), "at the bounds", False
    )
    yield from _integer(ew.CLAMP, 3)
    for op in (ew.LT, ew.LE, ew.GT, ew.GE, ew.EQ, ew.NE):
        yield from _elementwise(op, wide, wide, smooth=False)
        yield from _integer(op, 2, dtypes=(np.int32, np.uint64))
        yield Sample(op, NO_PARAMS, (_booleans((3,), 0), _booleans((3,), 1)), "bool[3]", False)
    for op in (ew.LOGICAL_AND, ew.LOGICAL_OR, ew.LOGICAL_XOR):
        for shape in ((3, 5), (), (0, 3)):
            yield Sample(op, NO_PARAMS, (_booleans(shape, 0), _booleans(shape, 1)), f"bool{list(shape)}", False)
    for shape in ((3, 5), (), (0, 3)):
        yield Sample(ew.LOGICAL_NOT, NO_PARAMS, (_booleans(shape, 0),), f"bool{list(shape)}", False)
        for dtype in (F64, F32, np.int32):
            arrays = (_booleans(shape, 0), uniform(shape, dtype=dtype), uniform(shape, dtype=dtype, seed=1))
            name = f"{np.dtype(dtype).name}{list(shape)}"
            yield Sample(ew.SELECT, NO_PARAMS, arrays, name, dtype is F64)
    yield Sample(ew.SELECT, NO_PARAMS, (_booleans((10,), 2), specials(), specials(turn=3)), "specials", False)
    for target in DType:
        for source in (F16, F32, F64, np.int32, np.uint64, np.bool_):
            array = uniform((3, 5), 0.0, 4.0).astype(source)
            smooth = source is F64 and target is DType.F64
            yield Sample(ew.CONVERT, ew.Target(target), (array,), f"{np.dtype(source).name} to {target}", smooth)
        yield Sample(ew.CONVERT, ew.Target(target), (specials(),), f"specials to {target}", False)
    yield Sample(ew.CONVERT, ew.Target(DType.I32), (uniform((0, 3)),), "empty", False)
    yield from _elementwise(ew.STOP_GRADIENT, wide, smooth=False)
    yield from _integer(ew.STOP_GRADIENT, 1)


def _booleans(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).integers(0, 2, shape).astype(np.bool_)


def _create() -> Iterator[Sample]:
    for name, array in (
        ("f64[3,5]", uniform((3, 5))),
        ("f32[]", uniform((), dtype=F32)),
        ("empty", uniform((0, 3), dtype=F32)),
        ("specials", specials()),
        ("bool[3]", _booleans((3,), 0)),
        ("u64[3]", np.array([0, 1, 2**64 - 1], dtype=np.uint64)),
    ):
        yield Sample(CONSTANT, Literal(array), (), name, False)
    for dtype, value in ((DType.F32, -0.0), (DType.F64, np.nan), (DType.I8, -3), (DType.BOOL, True), (DType.F16, 0.1)):
        for shape in ((3, 5), (), (0, 3)):
            yield Sample(FULL, Fill.of(shape, dtype, value), (), f"{value} {dtype}{list(shape)}", False)
    for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((0, 3), 0), ((3, 0), 0)):
        for dtype in (DType.I32, DType.F64, DType.U8):
            yield Sample(IOTA, Iota(shape, dtype, axis), (), f"{dtype}{list(shape)} along {axis}", False)


def _moved(op: Op, shape: tuple[int, ...], params: Any, name: str) -> Iterator[Sample]:
    """One movement in float64, float32 and booleans."""
    yield Sample(op, params, (uniform(shape),), f"f64 {name}", True)
    yield Sample(op, params, (uniform(shape, dtype=F32),), f"f32 {name}", False)
    yield Sample(op, params, (_booleans(shape, 0),), f"bool {name}", False)


def _layout() -> Iterator[Sample]:
    for shape, new in (((3, 4), (2, 6)), ((3, 5), (15,)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 5))):
        yield from _moved(RESHAPE, shape, NewShape(new), f"{list(shape)} to {list(new)}")
    for shape, axes in (((3, 5), (1, 0)), ((2, 3, 5), (2, 0, 1)), ((), ()), ((0, 3), (1, 0)), ((3,), (0,))):
        yield from _moved(TRANSPOSE, shape, Permutation(axes), f"{list(shape)} by {list(axes)}")
    for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((), ()), ((0, 3), (0,)), ((3,), ())):
        yield from _moved(REVERSE, shape, Flipped(axes), f"{list(shape)} along {list(axes)}")
    yield Sample(RESHAPE, NewShape((2, 5)), (specials(),), "specials", False)
    yield Sample(TRANSPOSE, Permutation((0,)), (specials(),), "specials", False)
    yield Sample(REVERSE, Flipped((0,)), (specials(),), "specials", False)


def _spread() -> Iterator[Sample]:
    for shape, new, axes in (
        ((3,), (2, 3), (1,)),
        ((3,), (3, 5), (0,)),
        ((1, 3), (7, 3), (0, 1)),
        ((3, 1), (2, 3, 5), (1, 2)),
        ((), (3,), ()),
        ((), (), ()),
        ((3,), (0, 3), (1,)),
        ((0,), (0, 3), (0,)),
        ((1,), (0,), (0,)),
    ):
        yield from _moved(BROADCAST, shape, Spread(new, axes), f"{list(shape)} to {list(new)} at {list(axes)}")
    for shape, axes in (((3, 5), (0,)), ((3, 5), (1,)), ((3, 5, 7), (0, 2)), ((7,), (0,)), ((3,), ()), ((), ())):
        yield Sample(REDUCE_SUM, Axes(axes), (uniform(shape),), f"f64{list(shape)} over {list(axes)}", True)
        yield Sample(REDUCE_SUM, Axes(axes), (uniform(shape, dtype=F32),), f"f32{list(shape)} over {list(axes)}", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (uniform((0, 3), dtype=F32),), "nothing to add", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty result", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (np.full(3, -0.0, dtype=F32),), "-0.0", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (np.stack([specials(), specials(turn=2)]),), "specials", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (np.array([1e8, 1.0, -1e8, 1.0], dtype=F32),), "order shows", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (integers((3, 5), 100, 200, np.uint8),), "u8 wraps", False)


def _cut() -> Iterator[Sample]:
    for shape, starts, limits, strides in (
        ((7,), (1,), (6,), (2,)),
        ((3, 5), (0, 1), (3, 4), (1, 1)),
        ((3, 5), (1, 0), (2, 5), (1, 3)),
        ((7,), (3,), (3,), (2,)),
        ((), (), (), ()),
        ((0, 3), (0, 0), (0, 3), (1, 2)),
        ((7,), (0,), (7,), (7,)),
    ):
        name = f"{list(shape)} from {list(starts)} to {list(limits)} by {list(strides)}"
        yield from _moved(SLICE, shape, Strided(starts, limits, strides), name)
    yield Sample(SLICE, Strided((1,), (9,), (2,)), (specials(),), "specials", False)
    for shape, low, high, interior in (
        ((3,), (2,), (1,), (0,)),
        ((3, 5), (1, 0), (0, 2), (0, 1)),
        ((5,), (-1,), (-2,), (0,)),
        ((5,), (-3,), (2,), (2,)),
        ((5,), (-2,), (1,), (2,)),
        ((5,), (1,), (-4,), (1,)),
        ((3,), (-4,), (5,), (0,)),
        ((3,), (5,), (-4,), (0,)),
        ((), (), (), ()),
        ((0, 3), (2, 0), (1, 0), (3, 0)),
        ((1,), (1,), (1,), (2,)),
    ):
        widths = Widths(low, high, interior)
        name = f"{list(shape)} low {list(low)} high {list(high)} interior {list(interior)}"
        yield Sample(PAD, widths, (uniform(shape), uniform((), seed=1)), f"f64 {name}", True)
        yield Sample(PAD, widths, (uniform(shape, dtype=F32), np.array(-0.0, dtype=F32)), f"f32 {name}", False)
        yield Sample(PAD, widths, (_booleans(shape, 0), np.array(True)), f"bool {name}", False)
    yield Sample(PAD, Widths((1,), (0,), (1,)), (specials(), np.array(np.nan, dtype=F32)), "specials", False)
    for axis, shapes in (
        (0, ((3,), (5,), (7,))),
        (1, ((3, 2), (3, 5))),
        (0, ((3,),)),
        (0, ((0, 3), (2, 3), (0, 3))),
        (2, ((2, 3, 1), (2, 3, 4))),
        (0, ((3, 0), (5, 0))),
    ):
        name = f"{[list(shape) for shape in shapes]} along {axis}"
        arrays = [uniform(shape, seed=seed) for seed, shape in enumerate(shapes)]
        yield Sample(CONCATENATE, Joined(axis), tuple(arrays), f"f64 {name}", True)
        yield Sample(CONCATENATE, Joined(axis), tuple([a.astype(F32) for a in arrays]), f"f32 {name}", False)
    yield Sample(CONCATENATE, Joined(0), (specials(), specials(turn=1)), "specials", False)


def _positions() -> Iterator[Sample]:
    for shape, params, indices in (
        ((5,), Along(0, 0, Mode.FILL), np.array([4, 0, 2, 2], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.FILL), np.array(3, dtype=np.int64)),
        ((5,), Along(0, 0, Mode.FILL), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([2**64 - 1, 1], dtype=np.uint64)),
        ((300,), Along(0, 0, Mode.FILL), np.array([127, -1], dtype=np.int8)),
        ((3, 5), Along(1, 0, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5, 2), Along(1, 0, Mode.FILL), np.array([0, 3, 3], dtype=np.uint32)),
        ((3, 5), Along(1, 1, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5), Along(1, 1, Mode.CLIP), np.array([4, -3, 9], dtype=np.int32)),
        ((2, 3, 5), Along(2, 1, Mode.FILL), np.array([[4, 0, 4], [1, 1, 7]], dtype=np.int32)),
        ((2, 3, 5), Along(2, 2, Mode.CLIP), integers((2, 3, 4), -2, 8)),
        ((5,), Along(0, 0, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((0,), Along(0, 0, Mode.FILL), np.array([0, 1], dtype=np.int32)),
        ((0, 3), Along(1, 1, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((3, 0), Along(0, 0, Mode.FILL), np.array([2, 1], dtype=np.int32)),
    ):
        made = (*shape[: params.axis], *indices.shape[params.batch :], *shape[params.axis + 1 :])
        name = f"{list(shape)} along {params.axis} paired {params.batch} {params.mode.value} {indices.dtype}"
        name += str(indices.reshape(-1).tolist()).replace(" ", "")
        for dtype in (F64, F32):
            label = f"{np.dtype(dtype).name}{name}"
            x, updates = uniform(shape, dtype=dtype), uniform(made, dtype=dtype, seed=1)
            yield Sample(GATHER, params, (x, indices), label, dtype is F64)
            yield Sample(SCATTER_ADD, params, (x, indices, updates), label, dtype is F64)
    yield Sample(GATHER, Along(0, 0, Mode.FILL), (specials(), np.arange(-1, 11, dtype=np.int32)), "specials", False)
    yield Sample(GATHER, Along(0, 0, Mode.FILL), (_booleans((5,), 0), np.array([1, 7], dtype=np.int32)), "bool", False)
    many = integers((41,), 0, 3, np.int64), uniform((41, 2), -1e6, 1e6, F32)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (uniform((3, 2), dtype=F32), *many), "order shows", False)
    where = np.arange(10, dtype=np.int32)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (specials(), where, specials(turn=3)), "specials", False)
    ints = integers((3,), -9, 9), np.array([0, 0, 2], dtype=np.int32), integers((3,), -9, 9, seed=1)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.CLIP), ints, "i32", False)


def _dot() -> Iterator[Sample]:
    for left, right, dims in (
        ((3, 5), (5, 7), DotDims((1,), (0,), (), ())),
        ((3, 5), (7, 5), DotDims((1,), (1,), (), ())),
        ((5,), (5,), DotDims((0,), (0,), (), ())),
        ((3,), (5,), DotDims((), (), (), ())),
        ((), (), DotDims((), (), (), ())),
        ((2, 3, 5), (2, 5, 7), DotDims((2,), (1,), (0,), (0,))),
        ((3, 2, 5), (5, 7, 2), DotDims((2,), (0,), (1,), (2,))),
        ((2, 3, 5), (5, 7, 3), DotDims((1, 2), (2, 0), (), ())),
        ((2, 3, 5, 7), (7, 3, 2), DotDims((3, 1), (0, 1), (0,), (2,))),
        ((3, 0), (0, 5), DotDims((1,), (0,), (), ())),
        ((0, 3), (3, 5), DotDims((1,), (0,), (), ())),
        ((3, 5), (3, 5), DotDims((), (), (0, 1), (0, 1))),
    ):
        name = f"{list(left)}·{list(right)} {dims.lhs_contract}{dims.lhs_batch}"
        arrays = uniform(left), uniform(right, seed=1)
        yield Sample(DOT_GENERAL, dims, arrays, f"f64 {name}", True)
        yield Sample(DOT_GENERAL, dims, tuple([a.astype(F32) for a in arrays]), f"f32 {name}", False)
    rows = np.stack([specials(), specials(turn=1)])
    yield Sample(DOT_GENERAL, DotDims((1,), (1,), (), ()), (rows, rows), "specials", False)
    ints = integers((3, 5), -9, 9), integers((5, 2), -9, 9, seed=1)
    yield Sample(DOT_GENERAL, DotDims((1,), (0,), (), ()), ints, "i32", False)


def _reduce() -> Iterator[Sample]:
    for op in (REDUCE_MAX, REDUCE_MIN):
        for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 3, 5), (0, 2)), ((3,), ()), ((), ())):
            yield Sample(op, Axes(axes), (spaced(shape),), f"f64{list(shape)} over {list(axes)}", True)
            yield Sample(op, Axes(axes), (spaced(shape, F32),), f"f32{list(shape)} over {list(axes)}", False)
        yield Sample(op, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty result", False)
        yield Sample(op, Axes((0,)), (specials(),), "specials", False)
        yield Sample(op, Axes((1,)), (np.array([[0.0, -0.0], [-0.0, 0.0]]),), "zeros", False)
        ties = np.array([[1.0, 3.0, 3.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
        yield Sample(op, Axes((1,)), (ties,), "ties", False)
        yield Sample(op, Axes((0,)), (np.array([1.0, np.nan, 2.0, np.nan]),), "two NaN", False)
        yield Sample(op, Axes((0,)), (np.array([np.inf, -np.inf, 1.0]),), "infinities", False)
        yield from _integer(op, 1, Axes((1,)), (np.int32, np.uint8))
    for op in (ARGMAX, ARGMIN):
        for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 5), 1), ((0, 3), 1), ((1,), 0)):
            yield Sample(op, ArgAxis(axis), (spaced(shape, F32),), f"f32{list(shape)} along {axis}", False)
        yield Sample(op, ArgAxis(0), (spaced((7,)),), "f64[7]", False)
        yield Sample(op, ArgAxis(0, DType.I64), (specials(),), "specials", False)
        yield Sample(op, ArgAxis(1, DType.U8), (np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]),), "ties", False)
        yield Sample(op, ArgAxis(0), (np.array([1.0, np.nan, 9.0, np.nan, -9.0]),), "two NaN", False)
        yield Sample(op, ArgAxis(0), (np.array([np.nan, 1.0]),), "NaN first", False)
        yield Sample(op, ArgAxis(0), (np.array([-0.0, 0.0, -0.0]),), "zeros", False)
        yield from _integer(op, 1, ArgAxis(1), (np.int32, np.uint8))


CONVOLUTIONS = (
    ((2, 3, 7), (5, 3, 3), Window((1,), ((0, 0),), (1,), 1)),
    ((2, 2, 7), (3, 2, 3), Window((2,), ((1, 2),), (1,), 1)),
    ((1, 4, 5, 7), (6, 2, 3, 2), Window((1, 2), ((1, 0), (0, 1)), (1, 2), 2)),
    ((2, 3, 5, 5), (3, 1, 3, 3), Window((2, 2), ((1, 1), (1, 1)), (1, 1), 3)),
    ((1, 2, 7), (2, 2, 2), Window((3,), ((0, 0),), (2,), 1)),
    ((1, 1, 3, 2, 3), (2, 1, 2, 1, 2), Window((1, 1, 2), ((0, 1), (0, 0), (1, 0)), (1, 1, 1), 1)),
    ((1, 2, 5), (2, 2, 3), Window((1,), ((-1, 2),), (1,), 1)),
    ((1, 1, 2), (1, 1, 3), Window((1,), ((4, 4),), (2,), 1)),
    ((3, 2), (5, 2), Window((), (), (), 1)),
    ((0, 2, 5), (3, 2, 3), Window((1,), ((0, 0),), (1,), 1)),
    ((2, 0, 5), (3, 0, 3), Window((1,), ((0, 0),), (1,), 1)),
)


def output_shape(x: tuple[int, ...], w: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """The textbook formula."""
    spatial = [
        (n + low + high - (k - 1) * d - 1) // s + 1
        for n, k, s, (low, high), d in zip(x[2:], w[2:], window.strides, window.padding, window.dilation, strict=True)
    ]
    return (x[0], w[0], *spatial)


def adjoint(window: Window, spatial: tuple[int, ...]) -> AdjointWindow:
    """The params of an adjoint of the convolution."""
    return AdjointWindow(window.strides, window.padding, window.dilation, window.groups, spatial)


def _window() -> Iterator[Sample]:
    for x_shape, w_shape, window in CONVOLUTIONS:
        to_input, to_kernel = adjoint(window, x_shape[2:]), adjoint(window, w_shape[2:])
        for dtype in (F64, F32):
            x, w = uniform(x_shape, dtype=dtype), uniform(w_shape, dtype=dtype, seed=1)
            ct = uniform(output_shape(x_shape, w_shape, window), dtype=dtype, seed=2)
            name = f"{np.dtype(dtype).name} {list(x_shape)}*{list(w_shape)} pad {list(window.padding)}"
            yield Sample(CONV, window, (x, w), name, dtype is F64)
            yield Sample(CONV_INPUT_ADJOINT, to_input, (ct, w), name, dtype is F64)
            yield Sample(CONV_KERNEL_ADJOINT, to_kernel, (x, ct), name, dtype is F64)
    window = Window((1,), ((1, 1),), (1,), 1)
    x, w = specials().reshape(1, 1, 10), np.array([[[np.inf, -0.0, 1e-40]]], dtype=F32)
    yield Sample(CONV, window, (x, w), "specials", False)
    yield Sample(CONV_INPUT_ADJOINT, adjoint(window, (10,)), (x, w), "specials", False)
    yield Sample(CONV_KERNEL_ADJOINT, adjoint(window, (3,)), (x, x), "specials", False)
    ints = integers((1, 2, 5), -9, 9), integers((3, 2, 3), -9, 9, seed=1)
    yield Sample(CONV, Window((1,), ((0, 0),), (1,), 1), ints, "i32", False)


def _random() -> Iterator[Sample]:
    key = np.array([17, 42], dtype=np.uint32)
    for shape in ((7,), (3, 5), (), (0, 3)):
        yield Sample(RANDOM_BITS, Draw(shape, Algorithm.THREEFRY2X32), (key,), f"threefry {list(shape)}", False)
        seed = np.array(2**64 - 3, dtype=np.uint64)
        yield Sample(RANDOM_BITS, Draw(shape, Algorithm.SPLITMIX64), (seed,), f"splitmix {list(shape)}", False)
    keys = integers((3, 2), 0, 2**32, np.uint32)
    yield Sample(RANDOM_BITS, Draw((5,), Algorithm.THREEFRY2X32), (keys,), "three threefry keys", False)
    seeds = np.array([[0, 1], [2**63, 2026]], dtype=np.uint64)
    yield Sample(RANDOM_BITS, Draw((5,), Algorithm.SPLITMIX64), (seeds,), "four splitmix keys", False)


SAMPLES: tuple[Sample, ...] = (
    *_create(),
    *_arithmetic(),
    *_choices(),
    *_layout(),
    *_spread(),
    *_cut(),
    *_positions(),
    *_dot(),
    *_reduce(),
    *_window(),
    *_random(),
)


def cases(samples: tuple[Sample, ...] = SAMPLES, ops: tuple[Op, ...] = SAMPLED) -> list[Any]:
    """The samples as pytest parameters. Fails if an op has none, or two samples of an op share a name."""
    missing = [op.name for op in ops if not any(sample.op is op for sample in samples)]
    assert missing == [], f"ops without a sample: {missing}"
    names = [repr(sample) for sample in samples]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert twice == [], f"samples with one name: {twice}"
    return [pytest.param(sample, id=repr(sample)) for sample in samples]
