"""Arithmetic, comparison and logic as users call them: promotion and broadcasting, then a strict primitive.

They only arrange operands and bind primitives; every primitive's own type rule is strict.
"""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import parts
from torchlean.ir.ops.promote import pair, shapes_disagree, spread_to, tensor
from torchlean.ir.ops.quotients import HYPOT
from torchlean.ir.types import broadcast_shapes

__all__ = [
    "abs",
    "add",
    "clamp",
    "complex",
    "conj",
    "cos",
    "div",
    "eq",
    "erf",
    "exp",
    "expm1",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "le",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "pow",
    "power",
    "real",
    "rsqrt",
    "select",
    "sign",
    "sin",
    "sqrt",
    "sub",
    "tanh",
]


def _unary(op: Op, x: Any) -> Any:
    return bind1(op, NO_PARAMS, tensor(x))


def _binary(op: Op, x: Any, y: Any) -> Any:
    x, y = pair(op.name, x, y)
    return bind1(op, NO_PARAMS, x, y)


# -- arithmetic --------------------------------------------------------------------------------------------------------
def add(x: Any, y: Any) -> Any:
    """x + y, broadcast."""
    return _binary(ew.ADD, x, y)


def sub(x: Any, y: Any) -> Any:
    """x - y, broadcast."""
    return _binary(ew.SUB, x, y)


def mul(x: Any, y: Any) -> Any:
    """x · y elementwise, broadcast."""
    return _binary(ew.MUL, x, y)


def div(x: Any, y: Any) -> Any:
    """x / y elementwise, broadcast; floats only."""
    return _binary(ew.DIV, x, y)


def pow(x: Any, y: Any) -> Any:
    """x to the power y elementwise; floats only."""
    return _binary(ew.POW, x, y)


def integer_pow(x: Any, exponent: int) -> Any:
    """x to a fixed integer power, by repeated squaring."""
    return bind1(ew.INTEGER_POW, ew.Exponent(int(exponent)), tensor(x))


def power(x: Any, y: Any) -> Any:
    """What `x ** y` means: `integer_pow` for a Python integer exponent, else `pow`."""
    return integer_pow(x, y) if isinstance(y, int) and not isinstance(y, bool) else pow(x, y)


def max(x: Any, y: Any) -> Any:
    """The larger entry; NaN if either is; ties split the derivative."""
    return _binary(ew.MAX, x, y)


def min(x: Any, y: Any) -> Any:
    """The smaller entry; NaN if either is; ties split the derivative."""
    return _binary(ew.MIN, x, y)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high); derivative 0 at and beyond the bounds."""
    x = tensor(x)
    _, low = pair("clamp", x, low)
    _, high = pair("clamp", x, high)
    return bind1(ew.CLAMP, NO_PARAMS, low, x, high)


def neg(x: Any) -> Any:
    """-x."""
    return _unary(ew.NEG, x)


def abs(x: Any) -> Any:
    """|x|, of complex numbers real; derivative 0 at 0."""
    x = tensor(x)
    if type_of(x).dtype.is_complex:
        return bind1(HYPOT, NO_PARAMS, real(x), imag(x))
    return bind1(ew.ABS, NO_PARAMS, x)


def sign(x: Any) -> Any:
    """-1, 0 or 1."""
    return _unary(ew.SIGN, x)


def sqrt(x: Any) -> Any:
    """Square root."""
    return _unary(ew.SQRT, x)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return _unary(ew.RSQRT, x)


def exp(x: Any) -> Any:
    """e to the power x."""
    return _unary(ew.EXP, x)


def expm1(x: Any) -> Any:
    """exp(x) - 1, accurate near 0."""
    return _unary(ew.EXPM1, x)


def log(x: Any) -> Any:
    """Natural logarithm."""
    return _unary(ew.LOG, x)


def log1p(x: Any) -> Any:
    """log(1 + x), accurate near 0."""
    return _unary(ew.LOG1P, x)


def sin(x: Any) -> Any:
    """Sine of radians."""
    return _unary(ew.SIN, x)


def cos(x: Any) -> Any:
    """Cosine of radians."""
    return _unary(ew.COS, x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return _unary(ew.TANH, x)


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), also called sigmoid."""
    return _unary(ew.LOGISTIC, x)


def erf(x: Any) -> Any:
    """Error function."""
    return _unary(ew.ERF, x)


# -- complex -----------------------------------------------------------------------------------------------------------
def complex(x: Any, y: Any) -> Any:
    """x + i·y from real parts; f32 parts make c64, f64 parts c128."""
    return _binary(parts.COMPLEX, x, y)


def real(z: Any) -> Any:
    """The real part; a real tensor is its own."""
    z = tensor(z)
    return bind1(parts.REAL, NO_PARAMS, z) if type_of(z).dtype.is_complex else z


def imag(z: Any) -> Any:
    """The imaginary part, complex tensors only."""
    return _unary(parts.IMAG, z)


def conj(z: Any) -> Any:
    """The complex conjugate; a real tensor is its own."""
    z = tensor(z)
    return bind1(parts.CONJ, NO_PARAMS, z) if type_of(z).dtype.is_complex else z


# -- comparison and logic ----------------------------------------------------------------------------------------------
def lt(x: Any, y: Any) -> Any:
    """x < y."""
    return _binary(ew.LT, x, y)


def le(x: Any, y: Any) -> Any:
    """x ≤ y."""
    return _binary(ew.LE, x, y)


def gt(x: Any, y: Any) -> Any:
    """x > y."""
    return _binary(ew.GT, x, y)


def ge(x: Any, y: Any) -> Any:
    """x ≥ y."""
    return _binary(ew.GE, x, y)


def eq(x: Any, y: Any) -> Any:
    """x = y."""
    return _binary(ew.EQ, x, y)


def ne(x: Any, y: Any) -> Any:
    """x ≠ y."""
    return _binary(ew.NE, x, y)


def logical_and(x: Any, y: Any) -> Any:
    """x and y, booleans."""
    return _binary(ew.LOGICAL_AND, x, y)


def logical_or(x: Any, y: Any) -> Any:
    """x or y, booleans."""
    return _binary(ew.LOGICAL_OR, x, y)


def logical_xor(x: Any, y: Any) -> Any:
    """One of x and y, booleans."""
    return _binary(ew.LOGICAL_XOR, x, y)


def logical_not(x: Any) -> Any:
    """not x, booleans."""
    return _unary(ew.LOGICAL_NOT, x)


def select(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; all three broadcast."""
    condition = tensor(condition)
    x, y = pair("select", x, y)
    chosen, branch = type_of(condition), type_of(x)
    shape = broadcast_shapes(chosen.shape, branch.shape)
    if shape is None:
        raise shapes_disagree("select", chosen, branch)
    return bind1(ew.SELECT, NO_PARAMS, spread_to(condition, shape), spread_to(x, shape), spread_to(y, shape))
