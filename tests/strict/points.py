"""Where the strict functions are tried: every exponent, random numbers, neighbours of what is special, hard cases."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BOUNDS = MappingProxyType(
    {
        "exp": 1.0,
        "log": 1.0,
        "tanh": 1.0,
        "logistic": 1.0,
        "expm1": 2.0,
        "log1p": 2.0,
        "sin": 2.0,
        "cos": 2.0,
        "erf": 2.0,
        "pow": 2.0,
    }
)
UNARY = tuple(name for name in BOUNDS if name != "pow")

# Where the result stops being an ordinary number, or the definition changes from one formula to the next.
_NEAR = (0.0, 0.25, 0.3465736, 0.5, 0.6931472, 0.7071068, 1.0, 1.0397208, 1.4142136, 1.5707964, 2.0, 3.1415927, 4.0)
_NEAR += (5.9, 6.0, 9.0, 16.635532, 17.3, 18.7, 36.7, 87.33655, 88.72284, 103.97208, 6399.0, 6400.0)
_NEAR += (708.3964, 709.78271, 745.13322, 1.5e6, 2.0**24, 2.0**53)
# f64 next to multiples of π/2 [Muller, Elementary Functions, table 11.1], and f32.
_HARD = (6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72, 5e22, 1e22, 355.0, 103993.0, 710.0, 1.7e308)


def bits_of(carrier: np.dtype[Any], words: Array) -> Array:
    return words.astype(f"u{carrier.itemsize}").view(carrier)


def every_exponent(carrier: np.dtype[Any], seed: int = 0) -> Array:
    """One random number of either sign for each exponent, subnormal ones of every length among them."""
    info = np.finfo(carrier)
    random = np.random.default_rng(seed)
    exponents = np.arange(int(info.minexp) - int(info.nmant), int(info.maxexp))
    x = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
    x = np.minimum(x, float(info.max)) * random.choice([-1.0, 1.0], exponents.size)
    return x.astype(carrier)


def neighbours(carrier: np.dtype[Any], steps: int = 3) -> Array:
    """Some numbers on either side of each special place."""
    with np.errstate(over="ignore"):
        centres = np.array([*_NEAR, *_HARD]).astype(carrier)
    centres = centres[np.isfinite(centres)]
    words = centres.view(f"i{carrier.itemsize}")[:, None] + np.arange(-steps, steps + 1)
    x = words.reshape(-1).astype(f"i{carrier.itemsize}").view(carrier)
    x = np.concatenate([x, -x])
    return x[np.isfinite(x)]


def random_words(carrier: np.dtype[Any], count: int, seed: int) -> Array:
    width = 8 * carrier.itemsize
    x = bits_of(carrier, np.random.default_rng(seed).integers(0, 2**width, count, dtype=np.uint64))
    return x[np.isfinite(x)]


def moderate(carrier: np.dtype[Any], count: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    wide = 800.0 if carrier.itemsize == 8 else 110.0
    parts = (random.normal(0, 1, count), random.uniform(-wide, wide, count), 1 + random.normal(0, 1e-2, count))
    return np.concatenate(parts).astype(carrier)


def inside(name: str, x: Array) -> Array:
    """The numbers of the open domain of a function."""
    if name == "log":
        return np.abs(x)[x != 0]
    return x[x > -1] if name == "log1p" else x


def pairs(carrier: np.dtype[Any], count: int, seed: int) -> tuple[Array, Array]:
    """Bases and exponents whose powers are mostly ordinary numbers."""
    random = np.random.default_rng(seed)
    top = 700.0 if carrier.itemsize == 8 else 90.0
    base = np.concatenate(
        [np.exp(random.normal(0, 3, count)), 1 + random.normal(0, 1e-4, count), np.exp(random.uniform(-80, 80, count))]
    )
    base = base.astype(carrier)
    exponent = (
        random.uniform(-1.05, 1.05, base.size) * top / np.maximum(np.abs(np.log(base.astype(float))), 1e-5)
    ).astype(carrier)
    return base, exponent
