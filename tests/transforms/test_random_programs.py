"""Programs drawn at random, evaluated here and by JAX: value, gradient, tangent, mapped gradient, Hessian product.

A program is a list of instructions read by two interpreters, one over `torchlean.ops` and one over `jax.numpy`. All in
float32. Relative error ≤ 1e-5 of the largest entry of the result, which is the scale its rounding errors have.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import torchlean as tl
from torchlean import ops

TOLERANCE = 1e-5
# The error is relative to the largest entry of a result. Where all of them are small by cancellation, what remains is
# the rounding of the terms that cancelled: the program's values stay below about 10 and its result adds at most seven
# means of them, so 7·10·2⁻²⁴ ≈ 4e-6 bounds the first-order error of one rounding at each [Higham 2002, §3.1].
FLOOR = 5e-6
EXAMPLES = 220
LENGTH = 6

UNARY = ("sin", "cos", "tanh", "exp_of_minus_abs", "logistic", "square", "softplus", "sqrt_plus", "neg", "log1p_square")
BINARY = ("add", "sub", "mul", "safe_div", "max", "min")
REDUCTIONS = ("sum", "mean", "max")


class Instruction(NamedTuple):
    """An operation by name, its operands by position among the values so far, and its settings."""

    name: str
    operands: tuple[int, ...]
    settings: tuple[Any, ...]


class Program(NamedTuple):
    shape: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    seed: int


# -- drawing -----------------------------------------------------------------------------------------------------------
SHAPES = ((3,), (2, 3), (3, 2), (4, 3), (2, 2, 3))


@st.composite
def programs(draw: Any) -> Program:
    shape = draw(st.sampled_from(SHAPES))
    shapes: list[tuple[int, ...]] = [shape]
    instructions: list[Instruction] = []
    for _ in range(draw(st.integers(3, LENGTH))):
        made = _instruction(draw, shapes)
        instructions.append(made[0])
        shapes.append(made[1])
    return Program(shape, tuple(instructions), draw(st.integers(0, 999)))


def _instruction(draw: Any, shapes: list[tuple[int, ...]]) -> tuple[Instruction, tuple[int, ...]]:
    at = draw(st.integers(0, len(shapes) - 1))
    shape = shapes[at]
    kinds = ["unary", "binary", "broadcast", "select"]
    if shape:
        kinds += ["reduce", "slice", "reverse", "reshape", "concatenate", "transpose", "matmul", "softmax"]
    kind = draw(st.sampled_from(kinds))
    axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
    others = [i for i, other in enumerate(shapes) if other == shape]
    other = draw(st.sampled_from(others))
    match kind:
        case "unary":
            return Instruction("unary", (at,), (draw(st.sampled_from(UNARY)),)), shape
        case "binary":
            return Instruction("binary", (at, other), (draw(st.sampled_from(BINARY)),)), shape
        case "broadcast":
            row = [i for i, s in enumerate(shapes) if len(s) <= len(shape) and s == shape[len(shape) - len(s) :]]
            return Instruction("binary", (at, draw(st.sampled_from(row))), (draw(st.sampled_from(BINARY[:4])),)), shape
        case "select":
            return Instruction("select", (at, other), ()), shape
        case "reduce":
            name = draw(st.sampled_from(REDUCTIONS))
            return Instruction("reduce", (at,), (name, axis)), shape[:axis] + shape[axis + 1 :]
        case "slice":
            step = draw(st.sampled_from((1, 2)))
            start = draw(st.integers(0, 1)) if shape[axis] > 1 else 0
            size = len(range(start, shape[axis], step))
            return Instruction("slice", (at,), (axis, start, step)), (*shape[:axis], size, *shape[axis + 1 :])
        case "reverse":
            return Instruction("reverse", (at,), (axis,)), shape
        case "reshape":
            return Instruction("reshape", (at,), ()), (int(np.prod(shape)),)
        case "concatenate":
            size = 2 * shape[axis]
            if int(np.prod(shape)) > 24:
                return Instruction("reverse", (at,), (axis,)), shape
            return Instruction("concatenate", (at, other), (axis,)), (*shape[:axis], size, *shape[axis + 1 :])
        case "transpose":
            return Instruction("transpose", (at,), ()), shape[::-1]
        case "matmul":
            return Instruction("matmul", (at,), ()), (*shape[:-1], 2)
        case "softmax":
            return Instruction("softmax", (at,), (axis,)), shape
        case _:
            raise AssertionError(kind)


# -- two interpreters --------------------------------------------------------------------------------------------------
def weight(rows: int) -> np.ndarray[Any, Any]:
    """The constant right operand of a matrix product."""
    return np.linspace(-1, 1, 2 * rows, dtype=np.float32).reshape(rows, 2)


def ours(program: Program, x: Any) -> Any:
    values = [x]
    for name, operands, settings in program.instructions:
        a = values[operands[0]]
        b = values[operands[-1]]
        match name:
            case "unary":
                made = _unary_ours(settings[0], a)
            case "binary":
                made = _binary_ours(settings[0], a, b)
            case "select":
                made = ops.select(a > 0.1, ops.tanh(b), a * 0.5)
            case "reduce":
                reduce = {"sum": ops.sum, "mean": ops.mean, "max": ops.amax}[settings[0]]
                made = reduce(a, settings[1])
            case "slice":
                axis, start, step = settings
                made = a[(slice(None),) * axis + (slice(start, None, step),)]
            case "reverse":
                made = ops.reverse(a, settings[0])
            case "reshape":
                made = a.reshape(-1)
            case "concatenate":
                made = ops.concatenate([a, b], settings[0])
            case "transpose":
                made = a.T
            case "matmul":
                made = ops.tanh(a @ weight(a.shape[-1]))
            case "softmax":
                made = ops.softmax(a, settings[0])
            case _:
                raise AssertionError(name)
        values.append(made)
    return ops.sin(sum([ops.mean(value) for value in values]))


def theirs(program: Program, x: Any) -> Any:
    values = [x]
    for name, operands, settings in program.instructions:
        a = values[operands[0]]
        b = values[operands[-1]]
        match name:
            case "unary":
                made = _unary_theirs(settings[0], a)
            case "binary":
                made = _binary_theirs(settings[0], a, b)
            case "select":
                made = jnp.where(a > 0.1, jnp.tanh(b), a * 0.5)
            case "reduce":
                made = {"sum": jnp.sum, "mean": jnp.mean, "max": jnp.max}[settings[0]](a, settings[1])
            case "slice":
                axis, start, step = settings
                made = a[(slice(None),) * axis + (slice(start, None, step),)]
            case "reverse":
                made = jnp.flip(a, settings[0])
            case "reshape":
                made = a.reshape(-1)
            case "concatenate":
                made = jnp.concatenate([a, b], settings[0])
            case "transpose":
                made = a.T
            case "matmul":
                made = jnp.tanh(jnp.matmul(a, weight(a.shape[-1]), precision="highest"))
            case "softmax":
                raised = jnp.exp(a - jax.lax.stop_gradient(a.max(settings[0], keepdims=True)))
                made = raised / raised.sum(settings[0], keepdims=True)
            case _:
                raise AssertionError(name)
        values.append(made)
    return jnp.sin(sum([jnp.mean(value) for value in values]))


def _unary_ours(name: str, x: Any) -> Any:
    match name:
        case "exp_of_minus_abs":
            return ops.exp(-ops.abs(x))
        case "square":
            return ops.tanh(x) ** 2
        case "sqrt_plus":
            return ops.sqrt(x * x + 1.0)
        case "log1p_square":
            return ops.log1p(x * x)
        case "softplus":
            return ops.tanh(ops.softplus(x))
        case _:
            return getattr(ops, name)(x)


def _unary_theirs(name: str, x: Any) -> Any:
    match name:
        case "exp_of_minus_abs":
            return jnp.exp(-jnp.abs(x))
        case "square":
            return jnp.tanh(x) ** 2
        case "sqrt_plus":
            return jnp.sqrt(x * x + 1.0)
        case "log1p_square":
            return jnp.log1p(x * x)
        case "softplus":
            return jnp.tanh(jnp.logaddexp(x, 0.0))
        case "logistic":
            return 1.0 / (1.0 + jnp.exp(-x))
        case "neg":
            return -x
        case _:
            return getattr(jnp, name)(x)


def _binary_ours(name: str, x: Any, y: Any) -> Any:
    match name:
        case "safe_div":
            return x / (y * y + 1.0)
        case "mul":
            return ops.tanh(x) * y
        case "max" | "min":
            return getattr(ops, name)(x, y * 0.75 + 0.01)
        case _:
            return getattr(ops, name)(x, y) * 0.5


def _binary_theirs(name: str, x: Any, y: Any) -> Any:
    match name:
        case "safe_div":
            return x / (y * y + 1.0)
        case "mul":
            return jnp.tanh(x) * y
        case "max":
            return jnp.maximum(x, y * 0.75 + 0.01)
        case "min":
            return jnp.minimum(x, y * 0.75 + 0.01)
        case _:
            return getattr(jnp, {"sub": "subtract"}.get(name, name))(x, y) * 0.5


# -- the comparison ----------------------------------------------------------------------------------------------------
class Answers(NamedTuple):
    """What is compared, at x along v, and the gradients at three more points."""

    value: Any
    gradient: Any
    tangent: Any
    mapped_gradient: Any
    hessian_product: Any
    gradient_of_gradient: Any


# Compilation is what takes the time here, and its optimisations do not matter to an oracle.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def our_answers(program: Program, x: Any, xs: Any, v: Any) -> Answers:
    def f(x: Any) -> Any:
        return ours(program, x)

    gradient = tl.grad(f)
    return Answers(
        value=f(x),
        gradient=gradient(x),
        tangent=tl.jvp(f, (x,), (v,))[1],
        mapped_gradient=tl.vmap(gradient)(xs),
        hessian_product=tl.jvp(gradient, (x,), (v,))[1],
        gradient_of_gradient=tl.grad(lambda x: ops.sum(gradient(x) * v))(x),
    )


def jax_answers(program: Program, x: Any, xs: Any, v: Any) -> Answers:
    """One compilation: value, gradient, tangent and Hessian product at all four points at once."""
    both = jax.value_and_grad(lambda x: theirs(program, x))
    along = jax.jit(jax.vmap(lambda x: jax.jvp(both, (x,), (v,))), compiler_options=QUICKLY)
    (values, gradients), (tangents, products) = jax.tree.map(np.asarray, along(np.concatenate([x[None], xs])))
    return Answers(values[0], gradients[0], tangents[0], gradients[1:], products[0], products[0])


@hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(programs())
def test_a_random_program_agrees_with_jax_in_six_quantities(program: Program) -> None:
    random = np.random.default_rng(program.seed)
    x, v = (random.uniform(-1.5, 1.5, program.shape).astype(np.float32) for _ in range(2))
    xs = random.uniform(-1.5, 1.5, (3, *program.shape)).astype(np.float32)
    got, want = our_answers(program, x, xs, v), jax_answers(program, x, xs, v)
    for name, mine, yours in zip(Answers._fields, got, want, strict=True):
        a, b = np.asarray(mine), np.asarray(yours)
        assert a.shape == b.shape
        assert a.dtype == b.dtype == np.float32
        largest = float(np.max(np.abs(b)))
        assert float(np.max(np.abs(a.astype(np.float64) - b))) <= max(TOLERANCE * largest, FLOOR), name


def test_the_programs_are_many_and_of_every_kind() -> None:
    """What the test above draws: at least 200 programs, and every instruction in at least ten of them."""
    drawn: list[Program] = []

    @hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    @hypothesis.given(programs())
    def collect(program: Program) -> None:
        drawn.append(program)

    collect()
    assert len(drawn) >= 200
    found = Counter(kind for program in drawn for kind in {instruction.name for instruction in program.instructions})
    kinds = {"unary", "binary", "select", "reduce", "slice", "reverse", "reshape", "concatenate", "transpose", "matmul"}
    assert set(found) == kinds | {"softmax"}
    assert min(found.values()) >= 10
    assert {len(program.shape) for program in drawn} == {1, 2, 3}
