"""bfloat16, the 8-bit formats and complex numbers: rounding, promotion, what is refused, and what imports ml_dtypes."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from math import isqrt
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from torchlean.errors import TypeRuleError
from torchlean.ir import ops
from torchlean.ir.carriers import complex_product, complex_quotient, convert
from torchlean.ir.dtypes import DType, as_dtype, dtype_of_carrier
from torchlean.ir.ops.create import Fill
from torchlean.ir.ops.promote import promote_dtypes
from torchlean.runtime.array import array

BF16 = ml_dtypes.bfloat16
STORAGE = [dtype for dtype in DType if dtype.is_storage]


# -- rounding ----------------------------------------------------------------------------------------------------------
def exact(x: Any) -> Fraction:
    return Fraction(float(x))


def rounded_bf16(value: Fraction) -> float:
    """The bfloat16 nearest to an exact value, ties to even, subnormals and overflow included."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = max((size.numerator.bit_length() - size.denominator.bit_length()), -126)
    while Fraction(2) ** exponent > size and exponent > -126:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (exponent - 7)
    count = size / unit
    whole = count.numerator // count.denominator
    rest = count - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    made = whole * unit
    if made >= Fraction(2) ** 128:
        return float("inf") if value > 0 else float("-inf")
    return float(made) if value > 0 else -float(made)


def every_kind(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Random finite bfloat16 bit patterns: all exponents, subnormals too."""
    bits = np.random.default_rng(seed).integers(0, 2**16, 2 * count, dtype=np.uint16)
    made = bits.view(BF16)
    return made[(bits & 0x7F80) != 0x7F80][:count]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_bfloat16_arithmetic_rounds_once(name: str) -> None:
    """float32 has 24 ≥ 2·8 + 2 digits, so its rounding is innocuous [Figueroa 1995]; subnormal results too."""
    x, y = every_kind(4000, 1), every_kind(4000, 2)
    exponents = np.random.default_rng(3).integers(0, 2**7, 4000).astype(np.uint16)
    x[:2000] = ((x[:2000].view(np.uint16) & 0x807F) | (exponents[:2000] << 7)).view(BF16)  # small products
    y[:2000] = ((y[:2000].view(np.uint16) & 0x807F) | (exponents[2000:] << 7)).view(BF16)
    with np.errstate(all="ignore"):
        made = np.asarray(getattr(ops, name)(array(x), array(y)))
    checked = 0
    for a, b, got in zip(x, y, made, strict=True):
        if name == "div" and b == 0:
            continue
        pair = exact(a), exact(b)
        want = {"add": lambda p, q: p + q, "sub": lambda p, q: p - q, "mul": lambda p, q: p * q}.get(
            name, lambda p, q: p / q
        )(*pair)
        assert float(got) == rounded_bf16(want), (a, b)
        checked += 1
    assert checked >= 3900


def test_bfloat16_square_roots_round_once() -> None:
    x = np.abs(every_kind(3000, 4))
    made = np.asarray(ops.sqrt(array(x)))
    for a, got in zip(x, made, strict=True):
        value, two = exact(a), Fraction(2) ** 600
        root = Fraction(isqrt(int(value * two * two)), 1) / two
        assert float(got) == rounded_bf16(root), a


@pytest.mark.parametrize("source", [np.float64, np.float32, np.float16, np.int64, np.uint64, np.int32])
def test_conversion_to_bfloat16_rounds_once(source: Any) -> None:
    """Also where ml_dtypes itself rounds twice: float64 and integers near a tie."""
    random = np.random.default_rng(5)
    if np.dtype(source).kind == "f":
        x = random.uniform(-4, 4, 2000) * 2.0 ** random.integers(-8, 8, 2000)
        ties = np.round(x * 2.0**7) / 2.0**7 + 2.0**-8
        x = np.concatenate([x, ties, ties + 2.0**-40, ties - 2.0**-40]).astype(source)
    else:
        info = np.iinfo(source)
        x = random.integers(info.min, info.max, 2000, dtype=source, endpoint=True)
        shift = np.dtype(source).itemsize * 8 - 10
        base = (random.integers(1, 200, 2000) << shift).astype(source)
        half = np.dtype(source).type(1 << (shift - 1))
        x = np.concatenate(
            [x, base + half, base + half + np.dtype(source).type(1), base + half - np.dtype(source).type(1)]
        )
    made = convert(x, np.dtype(BF16))
    for value, got in zip(x, made, strict=True):
        want = Fraction(int(value)) if np.dtype(source).kind in "iu" else exact(value)
        assert float(got) == rounded_bf16(want), value


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_every_8_bit_pattern_survives_a_round_trip_through_wider_floats(dtype: DType) -> None:
    patterns = np.arange(256, dtype=np.uint8).view(dtype.carrier)
    for wide in ("f32", "f64", "bf16") if dtype is not DType.F8E8M0FNU else ("f32", "f64"):
        back = np.asarray(ops.convert(ops.convert(array(patterns), wide), dtype))
        same = (back.view(np.uint8) == patterns.view(np.uint8)) | (back != back)
        assert same.all(), wide


def test_a_sum_may_be_accumulated_in_a_wider_dtype() -> None:
    x = np.full(1000, 1.0, BF16)
    assert float(np.asarray(ops.sum(array(x)))) == 256.0  # 256 + 1 rounds back to 256
    assert float(np.asarray(ops.sum(array(x), accumulator="f32"))) == 1000.0
    assert np.asarray(ops.sum(array(x), accumulator="f32")).dtype == BF16
    product = ops.dot_general(array(x), array(x), contract=((0,), (0,)), accumulator="f32")
    assert (float(np.asarray(product)), product.type.dtype) == (1000.0, DType.BF16)
    small = np.full(20, 0.5, np.float16)
    assert float(np.asarray(ops.prod(array(small), accumulator="f32"))) == np.float16(0.5**20)


# -- complex numbers ---------------------------------------------------------------------------------------------------
def test_complex_products_and_quotients_are_those_of_exact_arithmetic_but_for_roundings() -> None:
    random = np.random.default_rng(0)
    z, w = (random.normal(size=(2, 300)) * 10.0 ** random.integers(-5, 5, (2, 300)) for _ in range(2))
    z, w = z[0] + 1j * z[1], w[0] + 1j * w[1]
    product, quotient = complex_product(z, w), complex_quotient(z, w)
    for a, b, p, q in zip(z, w, product, quotient, strict=True):
        x, y, u, v = map(exact, (a.real, a.imag, b.real, b.imag))
        size = abs(a) * abs(b)
        assert abs(float(exact(p.real) - (x * u - y * v))) <= 4e-16 * size
        assert abs(float(exact(p.imag) - (x * v + y * u))) <= 4e-16 * size
        scale = u * u + v * v
        assert abs(float(exact(q.real) - (x * u + y * v) / scale)) <= 2e-15 * abs(a) / abs(b)
        assert abs(float(exact(q.imag) - (y * u - x * v) / scale)) <= 2e-15 * abs(a) / abs(b)


def test_a_complex_quotient_does_not_overflow_on_the_way() -> None:
    big = np.array([1e300 + 1e300j])
    np.testing.assert_array_equal(complex_quotient(big, big), [1.0 + 0j])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(complex_quotient(np.array([1 + 0j]), np.array([0j])).real, [np.inf])


@pytest.mark.parametrize("value", [1j, -0.0 + 2j, complex(-0.0, -0.0), complex(np.nan, -np.inf)])
@pytest.mark.parametrize("dtype", [DType.C64, DType.C128])
def test_a_complex_fill_keeps_its_bits(value: complex, dtype: DType) -> None:
    fill = Fill.of((), dtype, value)
    assert fill.entry.tobytes() == np.array(value, dtype.carrier).tobytes()
    assert fill.bits < 2**dtype.width


# -- promotion ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        ("f16", "bf16", "f32"),
        ("bf16", "f32", "f32"),
        ("bf16", "f64", "f64"),
        ("f32", "c64", "c64"),
        ("f64", "c64", "c128"),
        ("f32", "c128", "c128"),
        ("bf16", "c64", "c64"),
        ("c64", "c128", "c128"),
        ("u8", "f16", "f16"),
        ("u8", "bf16", "bf16"),
        ("u8", "f32", "f32"),
        ("u8", "c64", "c64"),
        ("i8", "f32", None),
        ("u16", "f32", None),
        ("i32", "c64", None),
        ("bool", "c64", None),
        ("f8e4m3fn", "f32", None),
        ("f8e4m3fn", "f8e5m2", None),
    ],
)
def test_the_promotion_table(x: str, y: str, want: str | None) -> None:
    expected = None if want is None else as_dtype(want)
    assert promote_dtypes(as_dtype(x), as_dtype(y)) is expected
    assert promote_dtypes(as_dtype(y), as_dtype(x)) is expected


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_inexact], ids=str)
def test_every_u8_is_exact_in_every_float_it_promotes_to(dtype: DType) -> None:
    whole = np.arange(256, dtype=np.uint8)
    assert (convert(convert(whole, dtype.carrier).real, np.dtype(np.float64)) == whole).all()


def test_python_complex_numbers_are_weak() -> None:
    for dtype, want in (("f32", "c64"), ("f64", "c128"), ("bf16", "c64"), ("c64", "c64"), ("c128", "c128")):
        x = ops.convert(array(np.ones(2, np.float32)), dtype)
        assert (x * 1j).type.dtype is as_dtype(want)
        assert (1j + x).type.dtype is as_dtype(want)
    assert ops.constant(1j).type.dtype is DType.C64
    with pytest.raises(TypeRuleError, match="mul of i32"):
        array(np.ones(2, np.int32)) * 1j


# -- what is refused ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_storage_formats_refuse_arithmetic_and_say_to_convert(dtype: DType) -> None:
    x = array(np.ones((2, 2), dtype.carrier))
    for function in (
        lambda v: v + v,
        lambda v: v * v,
        ops.exp,
        lambda v: v @ v,
        ops.sum,
        ops.amax,
        ops.cumsum,
        ops.prod,
        ops.neg,
    ):
        with pytest.raises(TypeRuleError, match=f"{dtype} only stores numbers") as caught:
            function(x)
        assert "convert first: ops.convert(x, 'f32')" in str(caught.value)
    assert (x == x).type.dtype is DType.BOOL
    assert x.reshape(4)[1:].type.shape == (3,)


def test_complex_numbers_have_no_order_and_are_not_cut_to_real_ones() -> None:
    z = array(np.ones(2, np.complex64))
    for function in (lambda v: v < v, ops.amax, lambda v: ops.max(v, v), ops.floor, ops.argmax, ops.sort, ops.cummax):
        with pytest.raises(TypeRuleError, match=r"a complex operand is not allowed") as caught:
            function(z)
        assert "take ops.real, ops.imag or ops.abs of it" in str(caught.value)
    with pytest.raises(TypeRuleError, match="a complex number is not converted to f32"):
        z.astype("f32")
    np.testing.assert_array_equal(np.asarray(z.astype("bool")), [True, True])


# -- names and imports -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_every_dtype_is_found_by_its_names_and_carrier(dtype: DType) -> None:
    assert as_dtype(dtype.short) is as_dtype(dtype.label) is as_dtype(dtype.carrier) is dtype
    assert dtype_of_carrier(dtype.carrier) is dtype
    assert dtype.carrier.itemsize * 8 == max(dtype.width, 8)
    assert dtype.part.is_complex is False


def test_ml_dtypes_is_imported_when_it_is_needed_and_not_before() -> None:
    program = """
import sys, torchlean, numpy
assert "ml_dtypes" not in sys.modules
torchlean.array([1.0, 2.0]) + 1
assert "ml_dtypes" not in sys.modules
torchlean.array([1.0]).astype("bf16")
assert "ml_dtypes" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
