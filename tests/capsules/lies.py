"""Capsules that lie, one each, and an honest module. A lie says which contract it breaks and what a reader is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from torchlean.backends import (
    FRESH,
    SPREADING,
    VIEW,
    Accumulator,
    Bitwise,
    Capsule,
    CapsuleModule,
    Claim,
    Contraction,
    Device,
    Implementation,
    NumericalPolicy,
    Reduction,
    Relative,
    Subnormals,
    Ulp,
    VjpMode,
    always_available,
    guarded,
    tested,
    vjp_unavailable,
)
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.op import Op
from torchlean.ir.ops.activation import GELU, RELU, SILU
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.elementwise import ADD, CONVERT, EXP, LOG, MAX, MUL, NEG, SQRT, TANH
from torchlean.ir.ops.layout import TRANSPOSE
from torchlean.ir.ops.spread import REDUCE_SUM

POINTWISE = NumericalPolicy(
    reduction=Reduction.NOT_APPLICABLE,
    contraction=Contraction.SEPARATE,
    subnormals=Subnormals.GRADUAL,
    accumulator=Accumulator.NOT_APPLICABLE,
)
FOLD = NumericalPolicy(
    reduction=Reduction.FIXED_LEFT,
    contraction=Contraction.SEPARATE,
    subnormals=Subnormals.GRADUAL,
    accumulator=Accumulator.OPERAND,
)
FREE = replace(FOLD, reduction=Reduction.IMPLEMENTATION_DEFINED, contraction=Contraction.IMPLEMENTATION_DEFINED)


BITS = Bitwise()


def plain(params: Any, types: Any) -> str | None:
    """Serves the formats NumPy itself knows, but no complex numbers."""
    return next((f"serves no {t.dtype}" for t in types if t.dtype.is_extended or t.dtype.is_complex), None)


def capsule(op: Op, kernel: Callable[..., Any], bound: Any = BITS, *, traits: Any = FRESH, **changes: Any) -> Capsule:
    """A capsule whose kernel is a function of (params, *arrays)."""

    def make(params: Any, types: Any) -> Any:
        return lambda *arrays: kernel(params, *arrays)

    facts: dict[str, Any] = {
        "op": op,
        "provider": "liar",
        "device": Device.CPU,
        "shape": guarded(Claim.SHAPE, "types derived again"),
        "layout": guarded(Claim.LAYOUT, "NumPy's strides"),
        "value": tested(Claim.VALUE, "tests/capsules/test_kit.py::test_an_honest_module_keeps_every_contract"),
        "vjp": tested(Claim.VJP, "tests/capsules/test_kit.py::test_an_honest_module_keeps_every_contract"),
        "vjp_mode": VjpMode.TAPE,
        "bound": bound,
        "numerics": FOLD if op.reduces else POINTWISE,
        "handler": Implementation(op=op, provider="liar", device=Device.CPU, traits=traits, make=make),
        "refuses": plain,
    }
    return Capsule(**{**facts, **changes})


def module(*capsules: Capsule, name: str = "liar") -> CapsuleModule:
    return CapsuleModule(name=name, capsules=capsules, probe=always_available)


# -- honest kernels ----------------------------------------------------------------------------------------------------
def straight(x: Any) -> Any:
    """A row-major copy of the same rank."""
    return np.array(x, order="C")


def by_definition(op: Op) -> Callable[..., Any]:
    return lambda params, *arrays: np.array(op.denote(NumpyAlgebra(), params, *arrays)[0])


def folded(params: Any, x: Any) -> Any:
    """A left fold over the axes in row-major order."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in params.axes)
    count = prod([x.shape[axis] for axis in params.axes])
    rows = np.transpose(x, params.axes + kept).reshape((count, *[x.shape[axis] for axis in kept]))
    total = np.zeros(rows.shape[1:], x.dtype)
    for row in rows:
        total = total + row
    return np.asarray(total, x.dtype)


def product(params: Any, x: Any, y: Any) -> Any:
    """Matrices and vectors, one rounded product after another."""
    left, right = np.atleast_2d(x), y.reshape(y.shape[0], prod(y.shape[1:]))
    total = np.zeros((left.shape[0], right.shape[1]), x.dtype)
    for k in range(left.shape[1]):
        total = total + left[:, k, None] * right[k]
    return total.reshape(x.shape[:-1] + y.shape[1:])


def matrices(params: Any, types: Any) -> str | None:
    """Serves f32 rows by columns alone."""
    x, y = types
    if x.dtype.short != "f32" or params.lhs_batch or not 1 <= x.rank <= 2 or not 1 <= y.rank <= 2:
        return "serves f32 vectors and matrices"
    return None if params.lhs_contract == (x.rank - 1,) and params.rhs_contract == (0,) else "rows by columns alone"


def relu(params: Any, x: Any) -> Any:
    return np.where(np.isnan(x) | (x > 0), x, x.dtype.type(0))


def relu_vjp(params: Any, x: Any, ct: Any) -> Any:
    return np.where(x <= 0, x.dtype.type(0), ct)


NATIVE = {"vjp_mode": VjpMode.BACKEND}
HONEST = module(
    capsule(ADD, lambda params, x, y: np.add(x, y)),
    capsule(EXP, by_definition(EXP)),
    capsule(TRANSPOSE, lambda params, x: x.transpose(params.axes), traits=VIEW),
    capsule(REDUCE_SUM, folded),
    capsule(DOT_GENERAL, product, refuses=matrices),
    capsule(RELU, relu, Ulp(0), **NATIVE),
    capsule(RELU.gradient, relu_vjp),
    name="honest",
)


# -- lies --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Lie:
    """`broken`: the contracts that must fail, and no other; `told`: what one of their failures says."""

    name: str
    capsule: Capsule
    broken: tuple[str, ...]
    told: str
    others: tuple[Capsule, ...] = ()
    quick: bool = True  # whether a dozen samples show it

    @property
    def module(self) -> CapsuleModule:
        return module(self.capsule, *self.others)


def near_exp(params: Any, x: Any) -> Any:
    made = by_definition(EXP)(params, x)
    return np.where(np.isfinite(made), made + 4 * np.spacing(np.where(np.isfinite(made), made, 0)), made)


def pairwise(params: Any, x: Any) -> Any:
    return np.asarray(np.add.reduce(straight(x), params.axes), x.dtype)


def widened(params: Any, x: Any) -> Any:
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    if x.dtype.kind != "f":
        return folded(params, x)
    return np.asarray(np.add.reduce(straight(x), params.axes, wide)).astype(x.dtype)


def by_size(params: Any, x: Any) -> Any:
    """Small terms first: an order that the entries decide."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in params.axes)
    count = prod([x.shape[axis] for axis in params.axes])
    rows = np.transpose(x, params.axes + kept).reshape((count, *[x.shape[axis] for axis in kept]))
    if not x.size or x.dtype.kind != "f":
        return folded(params, x)
    rows = np.take_along_axis(rows, np.argsort(np.abs(rows), axis=0, kind="stable"), 0)
    total = np.zeros(rows.shape[1:], x.dtype)
    for row in rows:
        total = total + row
    return np.asarray(total, x.dtype)


def fused(params: Any, x: Any, y: Any) -> Any:
    """Products in double precision, rounded after they were added."""
    left, right = np.atleast_2d(x).astype(np.float64), y.reshape(y.shape[0], prod(y.shape[1:])).astype(np.float64)
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for k in range(left.shape[1]):
        total = (left[:, k, None] * right[k] + total).astype(np.float32)
    return total.reshape(x.shape[:-1] + y.shape[1:])


class Unguarded:
    """A handler that binds anything."""

    op, provider, device, traits = NEG, "liar", Device.CPU, FRESH

    def bind(self, node: Any, types: Any, session: Any) -> Any:
        return np.negative


def in_memory_order(params: Any, x: Any) -> Any:
    return np.negative(x.ravel(order="K")).reshape(x.shape)


def blocked_tanh(params: Any, x: Any) -> Any:
    """Four at a time, and the rest by another formula: one unit off."""
    made = by_definition(TANH)(params, x).reshape(-1)
    rest = made[made.size // 4 * 4 :]
    rest[...] = np.nextafter(rest, np.asarray(0, made.dtype))
    return made.reshape(x.shape)


def overwriting(params: Any, x: Any) -> Any:
    np.negative(x, out=x)
    return x.copy()


def log_of_some(params: Any, x: Any) -> Any:
    if x.dtype == np.float16:
        raise NotImplementedError("float16")
    return by_definition(LOG)(params, x)


def flushing(params: Any, x: Any, y: Any) -> Any:
    made = np.multiply(x, y)
    if made.dtype.kind != "f":
        return made
    return np.where(np.abs(made) < np.finfo(made.dtype).tiny, np.copysign(made.dtype.type(0), made), made)


def right_when_small(params: Any, x: Any) -> Any:
    made = by_definition(TANH)(params, x)
    return -made if x.size > 1000 else made


def flat_add(params: Any, x: Any, y: Any) -> Any:
    return (x.reshape(-1) + y.reshape(-1)).reshape(x.shape)


@dataclass
class Scratch:
    """A handler whose kernels write to one buffer."""

    op, provider, device, traits = ADD, "liar", Device.CPU, FRESH

    def bind(self, node: Any, types: Any, session: Any) -> Any:
        bound = capsule(ADD, lambda params, x, y: x).handler.bind(node, types, session)
        assert bound is not None
        out = types[node.outputs[0]]
        buffer = np.zeros(out.shape, out.dtype.carrier)

        def kernel(x: Any, y: Any) -> Any:
            np.add(x, y, out=buffer)
            return buffer

        return kernel


class Moody:
    """A refusal that depends on how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, params: Any, types: Any) -> str | None:
        self.asked += 1
        return plain(params, types) or ("not now" if self.asked % 2 and types[0].shape == (7,) else None)


NEGATE = lambda params, x: np.negative(x)  # noqa: E731
WITHOUT = {"vjp": vjp_unavailable("inference only"), "vjp_mode": VjpMode.NONE}
REST = ("shape", "layout", "value", "vjp")
HANDLER = capsule(NEG, NEGATE).handler

LIES: tuple[Lie, ...] = (
    Lie("a bound of 1 ulp, 4 off", capsule(EXP, near_exp, Ulp(1)), ("value",), "lies outside the claimed bound"),
    Lie(
        "pairwise sums called fixed-left",
        capsule(REDUCE_SUM, pairwise, Relative(1.0)),
        ("value",),
        "does not add left to right",
    ),
    Lie(
        "an order that the entries decide called fixed-tree",
        capsule(REDUCE_SUM, by_size, Relative(1.0), numerics=replace(FOLD, reduction=Reduction.FIXED_TREE)),
        ("value",),
        "does not add in one tree",
    ),
    Lie(
        "a shape guard that never fires",
        capsule(NEG, NEGATE, handler=Unguarded()),
        ("shape",),
        "the guard lets through",
    ),
    Lie(
        "a layout guard that never fires",
        capsule(NEG, in_memory_order, layout_kind="flat-row-major"),
        ("layout",),
        "gives something else for operands in Fortran order",
    ),
    Lie(
        "a VJP off by a factor",
        capsule(RELU, relu, Ulp(0), **NATIVE),
        ("vjp",),
        "liar.relu.vjp is not the VJP of relu",
        (capsule(RELU.gradient, lambda params, x, ct: relu_vjp(params, x, ct) * x.dtype.type(2)),),
    ),
    Lie(
        "a gradient kernel off by a factor",
        capsule(RELU.gradient, lambda params, x, ct: relu_vjp(params, x, ct) * x.dtype.type(2), Ulp(4)),
        ("value",),
        "lies outside the claimed bound",
    ),
    Lie("an n/a order that shows", capsule(TANH, blocked_tanh, Ulp(4)), ("value",), "gives other bits for entries"),
    Lie("an operand written to", capsule(NEG, overwriting), ("layout",), "writes to operand 0"),
    Lie(
        "types accepted and not served",
        capsule(LOG, log_of_some),
        ("shape",),
        "raises on operands that `refuses` accepts",
    ),
    Lie(
        "everything refused",
        capsule(NEG, NEGATE, refuses=lambda params, types: "not yet"),
        REST,
        "refuses every call that is known of its op",
    ),
    Lie("a refusal that changes", capsule(NEG, NEGATE, refuses=Moody()), ("shape",), "changes its answer"),
    Lie(
        "a refusal without a reason",
        capsule(NEG, NEGATE, refuses=lambda params, types: plain(params, types) and ""),
        ("shape",),
        "gives no reason",
    ),
    Lie(
        "results of another dtype",
        capsule(LOG, lambda params, x: by_definition(LOG)(params, x).astype(np.float64)),
        ("shape",),
        "returns other types than the op declares",
    ),
    Lie("subnormals flushed", capsule(MUL, flushing, Ulp(1)), ("value",), "flushes subnormal results"),
    Lie(
        "fused products called separate",
        capsule(
            DOT_GENERAL,
            fused,
            Relative(1.0),
            refuses=matrices,
            numerics=replace(FOLD, reduction=Reduction.IMPLEMENTATION_DEFINED),
        ),
        ("value",),
        "adds products that were not rounded",
    ),
    Lie(
        "rounded products called fused",
        capsule(DOT_GENERAL, product, refuses=matrices, numerics=replace(FOLD, contraction=Contraction.FUSED)),
        ("value",),
        "rounds every product before adding it",
    ),
    Lie(
        "sums in double precision called operand dtype",
        capsule(REDUCE_SUM, widened, Relative(1.0), numerics=FREE),
        ("value",),
        "does not accumulate as claimed",
    ),
    Lie(
        "a result that is the operand",
        capsule(CONVERT, lambda params, x: converted(params, x)),
        ("layout",),
        "result 0 is memory of operand 0",
        quick=False,
    ),
    Lie(
        "a buffer handed out", capsule(ADD, NEGATE, handler=Scratch()), ("layout",), "a second call changes the results"
    ),
    Lie(
        "a trait that does not hold",
        capsule(ADD, flat_add, traits=SPREADING),
        ("layout",),
        "before broadcasting gives something else",
    ),
    Lie(
        "a handler of another op",
        capsule(NEG, NEGATE, handler=replace(HANDLER, op=SQRT)),
        REST,
        "handler implements `sqrt`",
    ),
    Lie(
        "a handler of another provider",
        capsule(NEG, NEGATE, handler=replace(HANDLER, provider="numpy")),
        REST,
        "handler uses provider `numpy`",
    ),
    Lie(
        "a handler of another device",
        capsule(NEG, NEGATE, handler=replace(HANDLER, device=Device.CUDA)),
        REST,
        "handler targets `cuda`",
    ),
    Lie(
        "a NaN that is lost",
        capsule(MAX, lambda params, x, y: np.fmax(x, y), Ulp(0)),
        ("value",),
        "lies outside the claimed",
    ),
    Lie("large operands treated otherwise", capsule(TANH, right_when_small), ("value",), "[1009]"),
    Lie(
        "backend-vjp without a kernel",
        capsule(GELU, lambda params, x: run_body(params, x), **NATIVE),
        ("vjp",),
        "claims backend-vjp without a kernel for it",
    ),
    Lie(
        "none, beside a gradient kernel",
        capsule(SILU, lambda params, x: run_body(params, x), **WITHOUT),
        ("vjp",),
        "says `none`, but its module serves the gradient",
        (capsule(SILU.gradient, lambda params, x, ct: run_body(params, x, ct)),),
    ),
)


def converted(params: Any, x: Any) -> Any:
    from torchlean.ir.carriers import convert

    return x if x.dtype == params.dtype.carrier else convert(x, params.dtype.carrier)


def run_body(params: Any, *arrays: Any) -> Any:
    """A composite by its own body: honest."""
    from torchlean.ir.evaluate import denote

    return denote(params.body, arrays)[0]
