"""Seeded operands, and one sample of an op: the arrays every law, conformance check and benchmark draws from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from torchlean.ir.op import NO_PARAMS, Op

F16, F32, F64 = np.float16, np.float32, np.float64
SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3.4e38, 1.0, -2.5)
BF16 = ml_dtypes.bfloat16
C64, C128 = np.complex64, np.complex128
Array = np.ndarray[Any, Any]


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


def booleans(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).integers(0, 2, shape).astype(np.bool_)


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


def elementwise(op: Op, *ranges: tuple[float, float], params: Any = NO_PARAMS, smooth: bool = True) -> Iterator[Sample]:
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


def integral(op: Op, count: int, params: Any = NO_PARAMS, dtypes: tuple[Any, ...] = (np.int32,)) -> Iterator[Sample]:
    for dtype in dtypes:
        low = 0 if np.dtype(dtype).kind == "u" else -9
        arrays = tuple([integers((3, 5), low, 9, dtype, seed) for seed in range(count)])
        yield Sample(op, params, arrays, f"{np.dtype(dtype).name}[3,5]", False)
