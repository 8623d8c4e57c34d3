"""Complex numbers in C: what is made of stated operations has the bits of the definition, specials among them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, run
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops
from torchlean.backends import plan
from torchlean.ir.builder import bind1
from torchlean.ir.evaluate import denote
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.chain import CHAIN_MUL

pytestmark = pytest.mark.usefixtures("compiler")

DTYPES = [np.complex64, np.complex128]
PARTS = (0.0, -0.0, 1.5, -2.25, 1e-38, 3e38, np.inf, -np.inf, np.nan)


def numbers(dtype: Any, *shape: int, seed: int = 1) -> Any:
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 50)).astype(dtype)


def specials(dtype: Any) -> Any:
    """Every pair of such parts."""
    made = np.empty(len(PARTS) ** 2, dtype)
    made.real, made.imag = np.array(list(product(PARTS, PARTS))).T
    return made


def agrees(f: Any, *arrays: Any) -> None:
    graph = traced(f, *arrays)
    assert {step.capsule.provider for step in plan(graph, COMPILED).steps} == {"compiled"}
    with np.errstate(all="ignore"):
        for got, want in zip(run(graph, arrays), denote(graph, arrays), strict=True):
            assert same_bits(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-5, -2, -1, 0, 1, 2, 3, 6, 11])
def test_powers(dtype: Any, exponent: int) -> None:
    x = np.concatenate([specials(dtype), numbers(dtype, 200)])
    agrees(lambda x: ops.integer_pow(x, exponent), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_the_chain_rule(dtype: Any) -> None:
    one = specials(dtype)
    t, slope = np.repeat(one, len(one)), np.tile(one, len(one))
    agrees(lambda t, slope: bind1(CHAIN_MUL, NO_PARAMS, t, slope), t, slope)


@pytest.mark.parametrize("dtype", DTYPES)
def test_questions(dtype: Any) -> None:
    agrees(lambda x: (ops.is_finite(x), ops.is_nan(x), ops.convert(x, "bool"), x == x, x != x), specials(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1.0, complex(0, np.inf)], ids=["finite", "infinite"])
@pytest.mark.parametrize("how", ["same", "strided"])
def test_convolutions(dtype: Any, factor: complex, how: str) -> None:
    x, w = numbers(dtype, 3, 4, 9, 8), numbers(dtype, 6, 2, 3, 2, seed=2)
    w[0, 0, 0, 0] = factor
    given: Any = {"padding": "same"} if how == "same" else {"strides": (2, 1), "dilation": (1, 2), "padding": 1}

    def f(x: Any, w: Any) -> Any:
        return ops.conv(x, w, groups=2, **given)

    agrees(lambda x, w: (f(x, w), *tl.vjp(f, x, w)[1](f(x, w))), x, w)


def test_convolutions_that_threads_share_out() -> None:
    def f(x: Any, w: Any) -> Any:
        return ops.conv(x, w)

    agrees(
        lambda x, w: (f(x, w), *tl.vjp(f, x, w)[1](f(x, w))),
        *[numbers(np.complex64, 9, 4, 24, 24), numbers(np.complex64, 16, 4, 3, 3)],
    )


def test_they_are_sorted_along_with_keys() -> None:
    agrees(lambda k, x: ops.sort(k, x, axis=0), normal(40, 3), numbers(np.complex64, 40, 3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "sqrt", "rsqrt", "expm1", "log1p"])
def test_functions_whose_bits_are_those_of_a_library_stay_with_the_reference(dtype: Any, name: str) -> None:
    notes = str(plan(traced(getattr(ops, name), numbers(dtype, 3)), COMPILED))
    assert f"reference.{name}" in notes
    assert "of complex numbers it is defined as NumPy's own, whose bits are those of one C library" in notes
