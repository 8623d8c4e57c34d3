"""Elementwise ops as C expressions over operand names, rounding for rounding what the definition says.

`EXPRESSIONS[op](params, operand dtypes, result dtype, operands)` is the text. Selection is written as `?:` on values
that are computed anyway, so that loops stay vectorisable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.backends.compiled import complexes, halves, quotients
from torchlean.backends.compiled.served import STRICT
from torchlean.backends.compiled.text import C_TYPE, SUFFIX, number, one, zero
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import rounding, words
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.strict.c_code import PRELUDE
from torchlean.ir.strict.functions import emit_c

_FINITE = re.compile(r"\(?-?(?=[\d.]*[1-9])\d+\.\d*(e[-+]?\d+)?f?\)?")  # a literal, as `number` writes it
Dtypes = tuple[DType, ...]
Write = Callable[[Any, Dtypes, DType, tuple[str, ...]], str]


def _infix(sign: str) -> Write:
    def write(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
        return _as(made, f"{x[0]} {sign} {x[1]}", given[0])

    return write


def _as(made: DType, text: str, computed: DType) -> str:
    """The text in parentheses, cast where C's own promotion has widened it."""
    wide = made.is_float or (made is computed and made.width >= 32)
    return f"({text})" if wide else f"(({C_TYPE[made]})({text}))"


def _compare(sign: str) -> Write:
    return lambda params, given, made, x: f"((uint8_t)({x[0]} {sign} {x[1]}))"


def is_nan(x: str) -> str:
    return f"{x} != {x}"


def largest(dtype: DType, x: str, y: str, sign: str = ">=") -> str:
    """max (or min, with <=): NaN wins, and of equal zeros the first. `x` and `y` are names."""
    return f"(({x} {sign} {y} || {is_nan(x)}) ? {x} : {y})" if dtype.is_float else f"({x} {sign} {y} ? {x} : {y})"


def _extreme(sign: str) -> Write:
    return lambda params, given, made, x: largest(made, x[0], x[1], sign)


def _clamp(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    low, v, high = x
    return f"tl_clamp_{made.short}({low}, {v}, {high})"


def _sign(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    (v,) = x
    return sign_of(made, v)


def sign_of(made: DType, v: str) -> str:
    if made.is_float:
        return (
            f"({v} > {zero(made)} ? {one(made)} : {v} < {zero(made)} ? {number(made, -1)} : {v} == {zero(made)} ? "
            + (f"{zero(made)} : {v})")
        )
    return f"(({C_TYPE[made]})(({v} > 0) - ({v} < 0)))"


def _abs(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    (v,) = x
    if made.is_float:
        return f"__builtin_fabs{SUFFIX[made]}({v})"
    return f"(({C_TYPE[made]})({v} < 0 ? -{v} : {v}))" if made.kind.name == "SIGNED" else v


def _neg(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return _as(made, f"-{x[0]}", given[0])


def _builtin(name: str) -> Write:
    return lambda params, given, made, x: f"__builtin_{name}{SUFFIX[made]}({x[0]})"


def _rsqrt(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"({one(made)} / __builtin_sqrt{SUFFIX[made]}({x[0]}))"


def _power(params: ew.Exponent, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return quotients.power(
        params.exponent,
        x[0],
        C_TYPE[made],
        one(made),
        lambda a, b: _as(made, f"{a} * {b}", made),
        lambda a: f"{one(made)} / {a}",
    )


def _chain(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    if _FINITE.fullmatch(x[1]):  # a number that is not 0: the product is NaN only where the operand is
        return _as(made, f"{x[0]} * {x[1]}", given[0])
    return f"tl_chain_mul_{made.short}({x[0]}, {x[1]})"


def _select(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"({x[0]} ? {x[1]} : {x[2]})"


def _not(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"((uint8_t)!{x[0]})"


def _logical(sign: str) -> Write:
    return lambda params, given, made, x: f"((uint8_t)(({x[0]} != 0) {sign} ({x[1]} != 0)))"


def _convert(params: ew.Target, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    (source,), (v,) = given, x
    if source is made:
        return v
    if made.is_bool:
        return f"((uint8_t)({v} != {zero(source)}))"
    if source.is_float and made.is_integer:
        return f"tl_{made.short}_of_{source.short}({v})"
    return f"(({C_TYPE[made]}){v})"


def _round(params: rounding.Rounded, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    (v,) = x
    if params.halves is rounding.Halves.EVEN:
        return f"__builtin_rint{SUFFIX[made]}({v})"
    return f"tl_round_away_{made.short}({v})"


def _finite(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    if given[0].is_complex:
        return f"((uint8_t)({x[0]} - {x[0]} == 0))"
    limit = "FLT_MAX" if given[0] is DType.F32 else "DBL_MAX"
    return f"((uint8_t)(__builtin_fabs{SUFFIX[given[0]]}({x[0]}) <= {limit}))"


def _nan(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"((uint8_t)({is_nan(x[0])}))"


def _bits(sign: str) -> Write:
    return lambda params, given, made, x: f"(({C_TYPE[made]})({x[0]} {sign} {x[1]}))"


def _shift(kind: str) -> Write:
    def write(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
        v, places = x
        word, width = unsigned(made), made.width
        outside = f"({places} < 0 || {places} >= {width})" if made.kind.name == "SIGNED" else f"({places} >= {width})"
        by = f"({places} & {width - 1})"
        if kind == "left":
            return f"(({C_TYPE[made]})({outside} ? 0 : (uint64_t)({word}){v} << {by}))"
        if kind == "logical":
            return f"(({C_TYPE[made]})({outside} ? 0 : ({word}){v} >> {by}))"
        signed = word[1:]
        return f"(({C_TYPE[made]})(({signed}){v} >> ({outside} ? {width - 1} : {by})))"

    return write


def unsigned(dtype: DType) -> str:
    return f"uint{dtype.width}_t"


def _count(params: Any, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"(({C_TYPE[made]})__builtin_popcountll((uint64_t)({unsigned(made)}){x[0]}))"


def _bitcast(params: words.Bitcast, given: Dtypes, made: DType, x: tuple[str, ...]) -> str:
    return f"((union {{ {C_TYPE[given[0]]} a; {C_TYPE[made]} b; }}){{ .a = {x[0]} }}).b"


def _strict(name: str) -> Write:
    return lambda params, given, made, x: f"tl_{name}_{made.short}({', '.join(x)})"


EXPRESSIONS: MappingProxyType[Op, Write] = MappingProxyType(
    {
        ew.ADD: _infix("+"),
        ew.SUB: _infix("-"),
        ew.MUL: _infix("*"),
        ew.DIV: _infix("/"),
        ew.NEG: _neg,
        ew.ABS: _abs,
        ew.SIGN: _sign,
        ew.RSQRT: _rsqrt,
        ew.INTEGER_POW: _power,
        ew.LT: _compare("<"),
        ew.LE: _compare("<="),
        ew.GT: _compare(">"),
        ew.GE: _compare(">="),
        ew.EQ: _compare("=="),
        ew.NE: _compare("!="),
        ew.MAX: _extreme(">="),
        ew.MIN: _extreme("<="),
        ew.CLAMP: _clamp,
        ew.LOGICAL_AND: _logical("&"),
        ew.LOGICAL_OR: _logical("|"),
        ew.LOGICAL_XOR: _logical("^"),
        ew.LOGICAL_NOT: _not,
        ew.SELECT: _select,
        ew.CONVERT: _convert,
        CHAIN_MUL: _chain,
        rounding.ROUND: _round,
        rounding.IS_FINITE: _finite,
        rounding.IS_NAN: _nan,
        words.AND: _bits("&"),
        words.OR: _bits("|"),
        words.XOR: _bits("^"),
        words.NOT: lambda params, given, made, x: f"(({C_TYPE[made]})~{x[0]})",
        words.SHIFT_LEFT: _shift("left"),
        words.SHIFT_RIGHT_LOGICAL: _shift("logical"),
        words.SHIFT_RIGHT_ARITHMETIC: _shift("arithmetic"),
        words.POPULATION_COUNT: _count,
        words.BITCAST_CONVERT: _bitcast,
        ew.SQRT: _builtin("sqrt"),
        rounding.FLOOR: _builtin("floor"),
        rounding.CEIL: _builtin("ceil"),
        rounding.TRUNC: _builtin("trunc"),
        ew.EXP: _strict("exp"),
        ew.EXPM1: _strict("expm1"),
        ew.LOG: _strict("log"),
        ew.LOG1P: _strict("log1p"),
        ew.SIN: _strict("sin"),
        ew.COS: _strict("cos"),
        ew.TANH: _strict("tanh"),
        ew.LOGISTIC: _strict("logistic"),
        ew.ERF: _strict("erf"),
        ew.POW: _strict("pow"),
        **quotients.table(),
        **complexes.table(),
    }
)
DEAR = frozenset({ew.DIV, ew.SQRT, ew.RSQRT})  # worth vectorising: not recomputed inside a fold along rows


# -- helper functions that expressions call, by name -------------------------------------------------------------------
def _float_helpers(dtype: DType) -> dict[str, str]:
    short, c, suffix = dtype.short, C_TYPE[dtype], SUFFIX[dtype]
    helpers = {
        f"tl_chain_mul_{short}": (
            f"static inline {c} tl_chain_mul_{short}({c} t, {c} slope) {{\n"
            f"    const {c} product = t * slope;\n"
            "    const int settles = (t == 0) | !__builtin_isunordered(t, slope);\n"  # 0 · ∞, or 0 · NaN
            "    return ((product != product) & settles) ? 0 : product;\n}"
        ),
        f"tl_round_away_{short}": (
            f"static inline {c} tl_round_away_{short}({c} x) {{\n"
            f"    const {c} down = __builtin_trunc{suffix}(x);\n"
            f"    const {c} sign = {sign_of(dtype, 'x')};\n"
            f"    return __builtin_fabs{suffix}(x - down) >= {number(dtype, 0.5)} ? down + sign : down;\n}}"
        ),
    }
    for made in C_TYPE:
        if made.is_integer:
            helpers[f"tl_{made.short}_of_{short}"] = _saturating(dtype, made)
    return helpers


def _saturating(source: DType, made: DType) -> str:
    """Truncated, held within the range; NaN gives 0. The bounds are those of the integers as doubles."""
    limits = np.iinfo(made.carrier)
    low, high = number(DType.F64, float(limits.min)), number(DType.F64, float(limits.max))
    least, most = (number(made, int(limit)) for limit in (limits.min, limits.max))
    return (
        f"static inline {C_TYPE[made]} tl_{made.short}_of_{source.short}({C_TYPE[source]} x) {{\n"
        "    const double wide = x != x ? 0.0 : __builtin_trunc((double)x);\n"
        f"    const int below = wide <= {low}, above = wide >= {high};\n"
        f"    const {C_TYPE[made]} inside = ({C_TYPE[made]})((below | above) ? 0.0 : wide);\n"
        f"    return above ? {most} : below ? {least} : inside;\n}}"
    )


def _clamp_helper(dtype: DType) -> str:
    c = C_TYPE[dtype]
    return (
        f"static inline {c} tl_clamp_{dtype.short}({c} low, {c} x, {c} high) {{\n"
        f"    const {c} up = {largest(dtype, 'x', 'low')};\n"
        f"    return {largest(dtype, 'up', 'high', '<=')};\n}}"
    )


def _helpers() -> dict[str, str]:
    made = {**quotients.helpers(), **complexes.helpers(), **_float_helpers(DType.F32), **_float_helpers(DType.F64)}
    for dtype in C_TYPE:
        if dtype in SUFFIX or dtype.is_integer:
            made[f"tl_clamp_{dtype.short}"] = _clamp_helper(dtype)
    return made


HELPERS: MappingProxyType[str, str] = MappingProxyType(_helpers())


def helpers(text: str) -> list[str]:
    """The functions that a text calls, in an order in which C takes them."""
    called = dict.fromkeys(re.findall(r"\btl_\w+", text))
    for name in [name for name in called if name in HELPERS]:
        inner = [each for each in re.findall(r"\btl_\w+", HELPERS[name]) if each != name]
        called = dict.fromkeys([*inner, *called])  # what a helper calls comes before it
    made = [*halves.helpers(called), *[HELPERS[name] for name in called if name in HELPERS]]
    strict = [(name, dtype) for name in STRICT.values() for dtype in ("f32", "f64") if f"tl_{name}_{dtype}" in called]
    return made + ([_WORDS, *[_inlined(emit_c(name, dtype)) for name, dtype in strict]] if strict else [])


def _inlined(text: str) -> str:
    """Strict functions are inlined however long they are: a loop that calls one is not vectorised."""
    return text.replace("static inline ", "static inline __attribute__((always_inline)) ")


_WORDS = re.sub(r"#include <\w+\.h>\n", "", PRELUDE)  # the head of a program declares what is used of them
