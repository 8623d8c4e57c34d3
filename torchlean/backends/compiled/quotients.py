"""More elementwise ops as C expressions: powers, remainders, signs and neighbours of numbers, words shifted, counted.

`fmod` and `nextafter` are exact, so every C library has the same ones; what is built from them is as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from torchlean.backends.compiled.text import C_TYPE, SUFFIX
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import bits, quotients, rounding, words
from torchlean.ir.ops.elementary import SQUARE
from torchlean.ir.ops.words import Precision

_STORED = MappingProxyType(  # bits of exponent and mantissa
    {DType.F32: (8, 23), DType.F64: (11, 52), DType.F16: (5, 10), DType.BF16: (8, 7)}
)


def _square(params: Any, given: Any, made: DType, x: tuple[str, ...]) -> str:
    return f"(({C_TYPE[made]})({x[0]} * {x[0]}))"


def _signbit(params: Any, given: Any, made: DType, x: tuple[str, ...]) -> str:
    """By the word: GCC 12 does not get through vectorising the built-in function."""
    word = f"int{given[0].width}_t"
    return f"((uint8_t)(((union {{ {C_TYPE[given[0]]} a; {word} b; }}){{ .a = {x[0]} }}).b < 0))"


def _called(name: str) -> Any:
    return lambda params, given, made, x: f"tl_{name}_{made.short}({', '.join(x)})"


def _shifted(params: bits.Places, given: Any, made: DType, x: tuple[str, ...]) -> str:
    return f"(({C_TYPE[made]}){0 if params.places == made.width else f'({x[0]} >> {params.places})'})"


def _leading_zeros(params: Any, given: Any, made: DType, x: tuple[str, ...]) -> str:
    word, rest = f"(uint64_t)(uint{made.width}_t){x[0]}", 64 - made.width
    return f"(({C_TYPE[made]})({x[0]} == 0 ? {made.width} : __builtin_clzll({word}) - {rest}))"


def _reduced(params: Precision, given: Any, made: DType, x: tuple[str, ...]) -> str:
    """In a float's own word."""
    c, word = C_TYPE[made], f"uint{made.width}_t"
    lines = [
        f"const union {{ {c} a; {word} b; }} given = {{ .a = {x[0]} }};",
        *reduced_word(params, made, "given.b"),
        f"const union {{ {word} b; {c} a; }} rounded = {{ .b = bits | sign }};",
    ]
    return f"({{ {' '.join(lines)} given.a == given.a ? rounded.a : given.a; }})"


def reduced_word(params: Precision, dtype: DType, given: str) -> list[str]:
    """Statements that make `sign` and `bits` of a word: the stored bits rounded to nearest even; then too large becomes
    ±∞ and below the least normal number ±0.
    """
    word, width = f"uint{dtype.width}_t", dtype.width
    exponent, stored = _STORED[dtype]
    drop = stored - params.mantissa
    lines = [
        f"const {word} sign = {given} & {1 << (width - 1)}ULL;",
        f"{word} bits = {given} ^ sign;",
    ]
    if drop > 0:
        half, kept = (1 << (drop - 1)) - 1, (1 << width) - (1 << drop)
        lines.append(f"bits = (bits + {half}ULL + ((bits >> {drop}) & 1)) & {kept}ULL;")
    if params.exponent < exponent:
        bias, middle = 2 ** (params.exponent - 1) - 1, 2 ** (exponent - 1) - 1
        lines.append(f"bits = bits >> {stored} > {middle + bias} ? {((1 << exponent) - 1) << stored}ULL : bits;")
        lines.append(f"bits = bits >> {stored} <= {middle - bias} ? 0 : bits;")
    return lines


def power(exponent: int, v: str, c: str, one: str, times: Callable[[str, str], str], over: Callable[[str], str]) -> str:
    """`v` to a whole power by repeated squaring in the definition's order, naming each square; `over` is 1 / of one."""
    if exponent == 0:
        return one
    remaining, square, result, lines = abs(exponent), v, "", ""
    while remaining:
        if remaining & 1:
            lines += f" const {c} {square}r = {times(result, square)};" if result else ""
            result = f"{square}r" if result else square
        remaining >>= 1
        if remaining:
            lines += f" const {c} {square}q = {times(square, square)};"
            square += "q"
    last = over(result) if exponent < 0 else result
    return f"({{{lines} {last}; }})" if lines else f"({last})"


def table() -> dict[Op, Any]:
    """Every op of this file."""
    return {
        SQUARE: _square,
        rounding.SIGNBIT: _signbit,
        quotients.REM: _called("rem"),
        quotients.REMAINDER: _called("remainder"),
        quotients.FLOOR_DIVIDE: _called("floor_divide"),
        quotients.NEXTAFTER: lambda params, given, made, x: f"__builtin_nextafter{SUFFIX[made]}({x[0]}, {x[1]})",
        bits.SHIFT_RIGHT: _shifted,
        bits.SPLITMIX64: lambda params, given, made, x: f"tl_splitmix64({x[0]})",
        words.CLZ: _leading_zeros,
        words.REDUCE_PRECISION: _reduced,
    }


def _function(name: str, dtype: DType, *lines: str) -> tuple[str, str]:
    full, c = f"tl_{name}_{dtype.short}", C_TYPE[dtype]
    return full, "\n".join([f"static inline {c} {full}({c} x, {c} y) {{", *[f"    {line}" for line in lines], "}"])


def _of_floats(dtype: DType) -> list[tuple[str, str]]:
    c, f = C_TYPE[dtype], SUFFIX[dtype]
    return [
        _function("rem", dtype, f"return __builtin_fmod{f}(x, y);"),
        _function(
            "remainder",
            dtype,
            f"const {c} rest = __builtin_fmod{f}(x, y);",
            "if (y == 0 || rest != rest) return rest;",
            f"if (rest == 0) return __builtin_copysign{f}(0, y);",
            "return (y < 0) != (rest < 0) ? rest + y : rest;",
        ),
        _function(
            "floor_divide",
            dtype,
            "if (y == 0) return x / y;",
            f"const {c} rest = __builtin_fmod{f}(x, y);",
            f"{c} quotient = (x - rest) / y;",
            "if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;",
            f"if (quotient == 0) return __builtin_copysign{f}(0, x / y);",
            f"const {c} down = __builtin_floor{f}(quotient);",
            f"return quotient - down > {'0.5f' if f else '0.5'} ? down + 1 : down;",
        ),
    ]


def _of_integers(dtype: DType) -> list[tuple[str, str]]:
    """Zero as a divisor gives 0; the most negative number divided by -1 wraps."""
    c = C_TYPE[dtype]
    if dtype.kind.name == "UNSIGNED":
        rest, quotient = f"return y == 0 ? 0 : ({c})(x % y);", f"return y == 0 ? 0 : ({c})(x / y);"
        return [
            _function("rem", dtype, rest),
            _function("remainder", dtype, rest),
            _function("floor_divide", dtype, quotient),
        ]
    return [
        _function("rem", dtype, f"return y == 0 || y == -1 ? 0 : ({c})(x % y);"),
        _function(
            "remainder",
            dtype,
            "if (y == 0 || y == -1) return 0;",
            f"const {c} rest = ({c})(x % y);",
            f"return rest != 0 && (rest < 0) != (y < 0) ? ({c})(rest + y) : rest;",
        ),
        _function(
            "floor_divide",
            dtype,
            "if (y == 0) return 0;",
            f"if (y == -1) return ({c})-x;",
            f"return ({c})(x / y - (x % y != 0 && (x < 0) != (y < 0)));",
        ),
    ]


_SPLITMIX = """static inline uint64_t tl_splitmix64(uint64_t x) {
    uint64_t z = x + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}"""


def helpers() -> dict[str, str]:
    """The functions these expressions call, by name."""
    made = {"tl_splitmix64": _SPLITMIX}
    for dtype in C_TYPE:
        if dtype in SUFFIX or dtype.is_integer:
            made.update(_of_floats(dtype) if dtype.is_float else _of_integers(dtype))
    return made
