"""Complex numbers in C: sums and moves are the language's own, products and quotients those of the definition.

C's own product repairs NaN, and a compiler may choose how it rounds; the formulas here are written out. GCC 12 fuses
a difference and a sum of products that lie side by side (vfmaddsub) though `-ffp-contract=off` forbids it; it does
so when it vectorises, which an empty `asm` prevents.
"""

from __future__ import annotations

from typing import Any

from torchlean.backends.compiled.quotients import power
from torchlean.backends.compiled.text import C_TYPE, one
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import parts
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.elementary import SQUARE


def times(dtype: DType, x: str, y: str) -> str:
    """The product of two entries."""
    return f"tl_mul_{dtype.short}({x}, {y})" if dtype.is_complex else f"({C_TYPE[dtype]})({x} * {y})"


def special(op: Op, params: Any, made: DType, x: tuple[str, ...]) -> str | None:
    """The expression of an op that complex numbers have another one for; else None."""
    if not made.is_complex:
        return None
    if op is CHAIN_MUL:
        return f"tl_chain_mul_{made.short}({x[0]}, {x[1]})"
    if op is ew.INTEGER_POW:
        return power(
            params.exponent,
            x[0],
            C_TYPE[made],
            one(made),
            lambda a, b: times(made, a, b),
            lambda a: f"tl_div_{made.short}({one(made)}, {a})",
        )
    if op is ew.MUL:
        return times(made, x[0], x[1])
    if op is SQUARE:
        return times(made, x[0], x[0])
    return f"tl_div_{made.short}({x[0]}, {x[1]})" if op is ew.DIV else None


def _part(name: str) -> Any:
    return lambda params, given, made, x: f"(__{name}__ {x[0]})"


def table() -> dict[Op, Any]:
    """The ops that take complex numbers apart and put them together."""
    return {
        parts.REAL: _part("real"),
        parts.IMAG: _part("imag"),
        parts.COMPLEX: lambda params, given, made, x: f"__builtin_complex({x[0]}, {x[1]})",
        parts.CONJ: lambda params, given, made, x: f"__builtin_complex(__real__ {x[0]}, -__imag__ {x[0]})",
    }


def _functions(short: str, c: str, f: str) -> dict[str, str]:
    z = C_TYPE[DType.C64 if short == "c64" else DType.C128]
    entries = [f"    const {c} a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;", "    IN_ORDER;"]
    product = [
        f"static inline {z} tl_mul_{short}({z} x, {z} y) {{",
        *entries,
        f"    const {c} ac = a * c, bd = b * d, ad = a * d, bc = b * c;",
        "    return __builtin_complex(ac - bd, ad + bc);",
        "}",
    ]
    quotient = [
        f"static inline {z} tl_div_{short}({z} x, {z} y) {{",
        *entries,
        f"    const int large = __builtin_fabs{f}(c) >= __builtin_fabs{f}(d);",
        f"    const {c} outer = large ? c : d, inner = large ? d : c, one = 1;",
        f"    const {c} ratio = inner / (outer == 0 ? one : outer), part = inner * ratio;",
        f"    const {c} scale = one / (outer + part), size = __builtin_fabs{f}(c);",
        f"    const {c} first = large ? a : a * ratio, second = large ? b * ratio : b;",
        f"    const {c} third = large ? b : b * ratio, fourth = large ? a * ratio : a;",
        f"    const {c} above = first + second, beside = third - fourth;",
        f"    const {c} real = above * scale, imag = beside * scale;",
        "    const int nothing = c == 0 && d == 0;",
        "    return __builtin_complex(nothing ? a / size : real, nothing ? b / size : imag);",
        "}",
    ]
    chained = [
        f"static inline {z} tl_chain_mul_{short}({z} t, {z} slope) {{",
        f"    const {z} product = tl_mul_{short}(t, slope);",
        "    const int settles = (t == 0) | ((slope == 0) & (t == t));",
        "    return ((product != product) & settles) ? 0 : product;",
        "}",
    ]
    return {
        f"tl_mul_{short}": "\n".join(product),
        f"tl_div_{short}": "\n".join(quotient),
        f"tl_chain_mul_{short}": "\n".join(chained),
    }


def helpers() -> dict[str, str]:
    """Products, quotients and products of the chain rule, by name."""
    return {**_functions("c64", "float", "f"), **_functions("c128", "double", "")}
