"""The strict functions: one definition each, run by NumPy and emitted as C.

Long arrays are computed in blocks that fit the cache. Layout decides nothing: every entry is computed by the same
operations, each exact or rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.ir.strict import c_code, circular, error_function, exponential, hyperbolic, logarithm, numpy_code, power
from torchlean.ir.strict.branchless import branchless
from torchlean.ir.strict.words import Kind, Program, Word, program

Array = np.ndarray[Any, Any]

BLOCK = 1 << 14  # entries: some eight buffers of 64 or 128 KiB stay in the second-level cache
FEW = 1 << 9  # up to so many entries the fewest calls are fastest

_KIND: MappingProxyType[str, Kind] = MappingProxyType({"f32": "f32", "f64": "f64"})


class Strict:
    """A function of one or two floats, defined by words."""

    def __init__(self, name: str, definition: Callable[..., Word], inputs: int = 1) -> None:
        self.name = name
        self.definition = definition
        self.inputs = inputs

    def __repr__(self) -> str:
        return f"Strict({self.name})"

    def program(self, dtype: str) -> Program:
        """The straight-line program for "f32" or "f64"."""
        return program(self.definition, _KIND[dtype], self.inputs)

    @cached_property
    def _few32(self) -> Callable[..., Array]:
        """What computes a few entries of f32."""
        return numpy_code.compiled(self.program("f32"))

    @cached_property
    def _few64(self) -> Callable[..., Array]:
        return numpy_code.compiled(self.program("f64"))

    @cached_property
    def _many32(self) -> Callable[..., Array]:
        """What computes a block of f32."""
        return numpy_code.compiled(branchless(self.program("f32")))

    @cached_property
    def _many64(self) -> Callable[..., Array]:
        return numpy_code.compiled(branchless(self.program("f64")))

    def __call__(self, *xs: Array) -> Array:
        """Elementwise, for f32 or f64 arrays of one shape; the result is row-major and new."""
        with np.errstate(all="ignore"):
            return self.quiet(*xs)

    def quiet(self, *xs: Array) -> Array:
        """As a call, where NumPy's floating-point warnings are off already."""
        first = xs[0]
        size, shape, single = first.size, first.shape, first.dtype.itemsize == 4
        few = size <= FEW
        block = (self._few32 if few else self._many32) if single else (self._few64 if few else self._many64)
        flat = [x.reshape(-1) for x in xs]
        if size <= BLOCK:
            return block(*flat).reshape(shape)
        made = np.empty(size, dtype=first.dtype)
        for start in range(0, size, BLOCK):
            part = slice(start, start + BLOCK)
            made[part] = block(*[x[part] for x in flat])
        return made.reshape(shape)


EXP = Strict("exp", exponential.exp)
EXPM1 = Strict("expm1", exponential.expm1)
LOG = Strict("log", logarithm.log)
LOG1P = Strict("log1p", logarithm.log1p)
SIN = Strict("sin", circular.sin)
COS = Strict("cos", circular.cos)
TANH = Strict("tanh", hyperbolic.tanh)
LOGISTIC = Strict("logistic", hyperbolic.logistic)
ERF = Strict("erf", error_function.erf)
POW = Strict("pow", power.pow, 2)

FUNCTIONS: MappingProxyType[str, Strict] = MappingProxyType(
    {function.name: function for function in (EXP, EXPM1, LOG, LOG1P, SIN, COS, TANH, LOGISTIC, ERF, POW)}
)


def emit_c(name: str, dtype: str) -> str:
    """The function as C text, called `tl_<name>_<dtype>`; `c_code.PRELUDE` goes once before all of them."""
    return c_code.function(f"tl_{name}_{dtype}", FUNCTIONS[name].program(dtype))
