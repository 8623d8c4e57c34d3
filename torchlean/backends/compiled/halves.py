"""Floats of 16 bits in C: words in memory, `float` in between, rounded after every operation as the definition says.

An operation on them is computed in float32 and rounded once. What is only moved keeps its word, or goes through
`float` and back, which keeps the payload of a NaN too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torchlean.backends.compiled.quotients import power, reduced_word
from torchlean.backends.compiled.served import HALVES
from torchlean.backends.compiled.text import C_TYPE, float_of, literal, number
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import quotients, words


def local_type(dtype: DType) -> str:
    """The C type of a value that a function computes with."""
    return "float" if dtype in HALVES else C_TYPE[dtype]


def wide(dtype: DType) -> DType:
    """The dtype in which entries are computed."""
    return DType.F32 if dtype in HALVES else dtype


def local_literal(dtype: DType, bits: int) -> str:
    """A constant as a value that a function computes with."""
    return number(DType.F32, _value_of(dtype, bits)) if dtype in HALVES else literal(dtype, bits)


def _value_of(dtype: DType, bits: int) -> float:
    import numpy as np

    word = np.array(bits, np.uint16)
    return float_of(DType.F32, bits << 16) if dtype is DType.BF16 else float(word.view(np.float16))


def loaded(dtype: DType, entry: str) -> str:
    """An entry in memory as a value."""
    return f"tl_wide_{dtype.short}({entry})" if dtype in HALVES else entry


def stored(dtype: DType, value: str) -> str:
    """A value, already rounded, as an entry in memory."""
    return f"tl_word_{dtype.short}({value})" if dtype in HALVES else value


def rounded(dtype: DType, text: str) -> str:
    """What an expression of float32 gives, rounded to the dtype."""
    return f"tl_round_{dtype.short}({text})" if dtype in HALVES else text


def special(op: Op, params: Any, given: DType, made: DType, x: tuple[str, ...]) -> str | None:
    """The expression of an op that is more than one operation, or whose operand float32 does not hold; else None."""
    if op is words.BITCAST_CONVERT and (made in HALVES or given in HALVES):
        word = stored(given, x[0]) if given in HALVES else f"((uint16_t){x[0]})"
        return loaded(made, word) if made in HALVES else f"(({C_TYPE[made]}){word})"
    if made in HALVES and op in _OF_WORDS:
        return _OF_WORDS[op](params, made, x)
    if op is ew.RSQRT and made in HALVES:
        return f"(1.0f / {rounded(made, f'__builtin_sqrtf({x[0]})')})"
    if op is ew.SIGN and made is DType.BF16:  # ml_dtypes keeps the sign of a zero
        return f"({x[0]} > 0 ? 1.0f : {x[0]} < 0 ? -1.0f : {x[0]})"
    if op is ew.CONVERT and made in HALVES and given not in HALVES and given is not DType.F32:
        wide = f"tl_double_{given.short}" if given in (DType.I64, DType.U64) else "(double)"
        return f"tl_odd_float({wide}({x[0]}))"
    return None


def _power(params: ew.Exponent, made: DType, x: tuple[str, ...]) -> str:
    return power(
        params.exponent,
        x[0],
        "float",
        "1.0f",
        lambda a, b: rounded(made, f"{a} * {b}"),
        lambda a: rounded(made, f"1.0f / {a}"),
    )


def _reduced(params: words.Precision, made: DType, x: tuple[str, ...]) -> str:
    lines = [f"const uint16_t given = {stored(made, x[0])};", *reduced_word(params, made, "given")]
    return f"({{ {' '.join(lines)} {x[0]} == {x[0]} ? {loaded(made, '(uint16_t)(bits | sign)')} : {x[0]}; }})"


_OF_WORDS: MappingProxyType[Op, Any] = MappingProxyType(
    {
        ew.INTEGER_POW: _power,
        words.REDUCE_PRECISION: _reduced,
        quotients.NEXTAFTER: lambda params, made, x: f"tl_next_{made.short}({x[0]}, {x[1]})",
    }
)


_WIDE_F16 = """static inline float tl_wide_f16(uint16_t h) {
    const uint32_t rest = (uint32_t)(h & 0x7fff) << 13, power = rest & 0x0f800000u;
    const union { uint32_t b; float a; } tiny = { .b = rest + 0x38800000u };
    const union { float a; uint32_t b; } small = { .a = tiny.a - 0x1p-14f };
    const uint32_t normal = rest + (power == 0x0f800000u ? 0x70000000u : 0x38000000u);
    const union { uint32_t b; float a; } made = { .b = (power == 0 ? small.b : normal) | (uint32_t)(h & 0x8000) << 16 };
    return made.a;
}"""
_WORD_F16 = """static inline uint16_t tl_word_f16(float x) {
    const union { float a; uint32_t b; } given = { .a = x };
    const uint32_t sign = given.b >> 16 & 0x8000u, rest = given.b & 0x7fffffffu;
    const union { uint32_t b; float a; } size = { .b = rest };
    const union { float a; uint32_t b; } tiny = { .a = size.a + 0.5f };
    const uint32_t payload = rest >> 13 & 0x3ffu;
    const uint32_t normal = (rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13;
    const uint32_t finite = rest < 0x38800000u ? tiny.b - 0x3f000000u : rest >= 0x47800000u ? 0x7c00u : normal;
    return (uint16_t)(sign | (rest > 0x7f800000u ? 0x7c00u | (payload ? payload : 0x200u) : finite));
}"""
_WIDE_BF16 = """static inline float tl_wide_bf16(uint16_t h) {
    const union { uint32_t b; float a; } made = { .b = (uint32_t)h << 16 };
    return made.a;
}"""
_WORD_BF16 = """static inline uint16_t tl_word_bf16(float x) {
    const union { float a; uint32_t b; } given = { .a = x };
    const uint32_t near = (given.b + 0x7fffu + (given.b >> 16 & 1)) >> 16;
    const uint32_t payload = given.b >> 16 | ((given.b & 0x7f0000u) == 0 ? 0x40u : 0);
    return (uint16_t)(x != x ? payload : near);
}"""
_NEXT = """static inline float tl_next_SHORT(float x, float y) {
    const uint16_t word = tl_word_SHORT(x), other = tl_word_SHORT(y);
    const uint16_t least = (other & 0x8000) | 1, nearer = word - 1, farther = word + 1;
    const int inwards = (x > 0) != (y > x);
    const float next = tl_wide_SHORT(x == 0 ? least : inwards ? nearer : farther);
    return x != x || y != y ? x + y : x == y ? EQUAL : next;
}"""
_DOUBLES = MappingProxyType(  # of 64-bit integers, with the last bit odd where some are dropped: see `ir.carriers`
    {
        f"tl_double_{short}": f"""static inline double tl_double_{short}({c} x) {{
    const {c} low = x & 0xfff;
    const double near = (double)x, odd = (double)(low != 0 ? x - low + 0x800 : x);
    return __builtin_fabs(near) < 0x1p52 ? near : odd;
}}"""
        for short, c in (("i64", "int64_t"), ("u64", "uint64_t"))
    }
)
_ODD = """static inline float tl_odd_float(double x) {
    const float near = (float)x;
    const double back = near;
    const union { float a; uint32_t b; } word = { .a = near };
    const uint32_t below = __builtin_fabs(back) > __builtin_fabs(x) ? word.b - 1 : word.b;
    const union { uint32_t b; float a; } odd = { .b = below | 1 };
    return back == x || x != x ? near : odd.a;
}"""


def _rounding(short: str) -> str:
    return f"static inline float tl_round_{short}(float x) {{ return tl_wide_{short}(tl_word_{short}(x)); }}"


_TEXTS = MappingProxyType(
    {
        "f16": (_WIDE_F16, _WORD_F16, _rounding("f16")),
        "bf16": (_WIDE_BF16, _WORD_BF16, _rounding("bf16")),
    }
)


def helpers(called: Any) -> list[str]:
    """The functions of this file that a text calls by name, in an order in which C takes them."""
    made = [_ODD] if "tl_odd_float" in called else []
    made += [text for name, text in _DOUBLES.items() if name in called]
    for short, texts in _TEXTS.items():
        if any([f"tl_{verb}_{short}" in called for verb in ("wide", "word", "round", "next")]):
            made += texts
        if f"tl_next_{short}" in called:
            equal = "x" if short == "f16" else "y"  # which of two zeros is kept: by NumPy, and by ml_dtypes
            made.append(_NEXT.replace("SHORT", short).replace("EQUAL", equal))
    return made
