"""The text of every refusal while tracing: control flow on a traced value, and values that outlive their trace."""

# ruff: noqa: E501 — messages are kept as they are printed
from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import LeakedTracerError, TraceError, TypeRuleError
from torchlean.ir.builder import CURRENT, Builder
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import SIN

X = np.ones(3, np.float32)
S = np.float32(2)
N = np.int32(1)


# -- a value has no number yet -----------------------------------------------------------------------------------------
@refused(
    TraceError,
    """
bool() of a traced bool[] made by gt at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_if_on_a_traced_value() -> None:
    def f(x: Any) -> Any:
        y = ops.tanh(x)
        if y > 0.5:
            return y
        return -y

    tl.grad(f)(S)


@refused(
    TraceError,
    """
bool() of a traced bool[] made by lt at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_while_on_a_traced_value() -> None:
    def f(x: Any) -> Any:
        while x < 10.0:
            x = x * 2.0
        return x

    tl.make_graph(f)(S)


@refused(
    TraceError,
    """
bool() of a traced bool[] made by gt at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_and_between_traced_values() -> None:
    tl.make_graph(lambda x: (x > 0.0) and (x < 1.0))(S)


@refused(
    TraceError,
    """
bool() of a traced bool[] made by gt at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_a_chained_comparison() -> None:
    tl.make_graph(lambda x: 0.0 < x < 1.0)(S)


@refused(
    TraceError,
    """
bool() of a traced bool[] made by lt at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_pythons_max() -> None:
    tl.make_graph(lambda x: max(x, 1.0))(S)


@refused(
    TraceError,
    """
bool() of a traced bool[] made by eq at @ (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      choose with ops.select(condition, a, b) or ops.cond; branch on shapes or Python arguments instead; or run eagerly in a Session
""",
)
def test_membership() -> None:
    tl.make_graph(lambda x: x in [1.0, 2.0])(S)


@refused(
    TraceError,
    """
float() of a traced f32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      keep it a tensor; ops.convert(x, 'f32') changes its dtype
""",
)
def test_float_of_a_traced_value() -> None:
    tl.jvp(lambda x: float(x) * 2.0, (S,), (S,))


@refused(
    TraceError,
    """
int() of a traced i32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      keep it a tensor; ops.convert(x, 'i32') changes its dtype
""",
)
def test_int_of_a_traced_value() -> None:
    tl.make_graph(lambda x: int(x))(N)


@refused(
    TraceError,
    """
use as a Python index of a traced i32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      index with ops.take(x, i, axis=0), which accepts traced integers; sizes in shapes must be Python ints
""",
)
def test_range_over_a_traced_value() -> None:
    tl.make_graph(lambda n: sum(range(n)))(N)


@refused(
    TraceError,
    """
use as a Python index of a traced i32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      index with ops.take(x, i, axis=0), which accepts traced integers; sizes in shapes must be Python ints
""",
)
def test_a_traced_value_as_the_index_of_a_list() -> None:
    tl.make_graph(lambda n: [1.0, 2.0][n])(N)


@refused(
    TraceError,
    """
iteration over a traced f32[3] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      write `for i in range(x.shape[0]): x[i]`, or use vmap
""",
)
def test_iteration_over_a_traced_value() -> None:
    tl.make_graph(lambda x: [entry * 2.0 for entry in x])(X)


@refused(
    TraceError,
    """
iteration over a traced f32[3] which is argument 0 of f (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      write `for i in range(x.shape[0]): x[i]`, or use vmap
""",
)
def test_unpacking_a_traced_value() -> None:
    def f(x: Any) -> Any:
        a, b, c = x
        return a + b * c

    tl.vmap(f)(np.ones((2, 3), np.float32))


@refused(
    TraceError,
    """
iteration over a traced f32[] which is argument 0 of <lambda> (@)
  expected: at least one axis
  got:      a scalar
  fix:      use the scalar itself
""",
)
def test_iteration_over_a_traced_scalar() -> None:
    tl.make_graph(lambda x: list(x))(S)


@refused(
    TraceError,
    """
conversion to a NumPy array of a traced f32[3] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      use torchlean.ops functions on it instead of NumPy's
""",
)
def test_a_numpy_function_of_a_traced_value() -> None:
    tl.make_graph(lambda x: np.array(x) + 1)(X)


@refused(
    TraceError,
    """
conversion to a NumPy array of a traced f32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      use torchlean.ops functions on it instead of NumPy's
""",
)
def test_a_list_of_traced_values_as_an_operand() -> None:
    tl.make_graph(lambda x: ops.sum([x, x * 2.0]))(S)


@refused(
    TraceError,
    """
item assignment to a traced f32[3] which is argument 0 of f (@)
  expected: a new value: values are immutable
  got:      x[0] = …
  fix:      write x = x.at[index].set(value)
""",
)
def test_item_assignment() -> None:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    tl.make_graph(f)(X)


@refused(
    TraceError,
    """
item assignment to a traced f32[3] which is argument 0 of f (@)
  expected: a new value: values are immutable
  got:      x[0] = …
  fix:      write x = x.at[index].set(value)
""",
)
def test_augmented_item_assignment() -> None:
    def f(x: Any) -> Any:
        x[0] += 1.0
        return x

    tl.make_graph(f)(X)


@refused(
    TraceError,
    """
float() of a traced f32[] which is argument 0 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      keep it a tensor; ops.convert(x, 'f32') changes its dtype
""",
)
def test_complex_of_a_traced_value() -> None:
    tl.make_graph(lambda x: complex(x))(S)


@refused(
    TypeRuleError,
    """
len() of the scalar f32[] (@)
  expected: at least one axis
  got:      none
  fix:      use x.size, the number of entries
""",
)
def test_len_of_a_traced_scalar() -> None:
    tl.make_graph(lambda x: len(x))(S)


@refused(
    TypeRuleError,
    """
the Python integer 1099511627776 does not fit i32[] (@)
  expected: an integer in [-2**31, 2**31)
  got:      1099511627776
  fix:      say the dtype: numpy.int64(...)
""",
)
def test_a_result_that_is_too_large_an_integer() -> None:
    tl.make_graph(lambda x: {"y": x, "loss": 2**40})(X)


def test_what_only_types_decide_may_be_branched_on() -> None:
    """Shapes, ranks, dtypes, `is`, and Python arguments are known while tracing."""

    def f(x: Any, flag: bool) -> Any:
        assert x is not None
        assert len(x) == 3
        if x.ndim == 1 and x.shape[0] == 3 and x.dtype is tl.DType.F32 and flag:
            return ops.sum(x)
        return x

    assert str(tl.make_graph(f, static_argnums=1)(X, True).output_types[0]) == "f32[]"


def test_eager_arrays_may_be_branched_on_inside_a_trace() -> None:
    """A concrete array has a number, which `float` reads; comparing it would be an op of the trace."""
    threshold = ops.sum(X)

    def f(x: Any) -> Any:
        return x * 2.0 if float(threshold) > 2.5 else x

    np.testing.assert_array_equal(np.asarray(tl.jit(f)(X)), 2 * X)


# -- values that outlive their trace -----------------------------------------------------------------------------------
KEPT: list[Any] = []


class Model:
    """Something with attributes to leak into."""

    last: Any = None
    cache: dict[str, Any] | None = None


MODEL = Model()


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    KEPT.clear()
    MODEL.last = MODEL.cache = None
    globals().pop("LEAKED", None)
    gc.collect()


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by sin at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by a list of 1
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_in_a_list() -> None:
    def loss(x: Any) -> Any:
        y = ops.sin(x)  # made here
        KEPT.append(y)
        return ops.sum(y)

    tl.grad(loss)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by mul at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the attribute 'last' of a Model
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_in_an_attribute() -> None:
    def loss(x: Any) -> Any:
        MODEL.last = x * 2.0  # made here
        return ops.sum(x)

    tl.make_graph(loss)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by tanh at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the entry 'hidden' of a dict
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_in_a_dict_of_an_object() -> None:
    def loss(x: Any) -> Any:
        MODEL.cache = {"hidden": ops.tanh(x)}  # made here
        return ops.sum(x)

    tl.vjp(loss, X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by exp at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the closure variable 'seen' of loss
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_in_a_closure() -> None:
    seen = None

    def loss(x: Any) -> Any:
        nonlocal seen
        seen = ops.exp(x)  # made here
        return ops.sum(seen)

    tl.jvp(loss, (X,), (X,))
    assert seen is not None


@refused(
    LeakedTracerError,
    f"""
a traced f32[3] made by cos at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the global 'LEAKED' of {__name__}
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_in_a_global() -> None:
    def loss(x: Any) -> Any:
        global LEAKED
        LEAKED = ops.cos(x)  # made here
        return ops.sum(LEAKED)

    tl.hessian(loss)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] which is argument 1 of loss leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by a list of 1
  fix:      return the value from the function instead of storing it
""",
)
def test_an_argument_itself_kept() -> None:
    def loss(x: Any, y: Any) -> Any:
        KEPT.append(y)
        return ops.sum(x)

    tl.vmap(loss, in_axes=(0, None))(np.ones((2, 3), np.float32), X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by sin at ~ leaked out of f (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the closure variable 'y' of <lambda>
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_by_a_function_that_is_returned_as_a_leaf() -> None:
    def f(x: Any) -> Any:
        y = ops.sin(x)  # made here
        return {"y": y, "later": lambda: y}

    tl.vmap(f)(np.ones((2, 3), np.float32))


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by mul at ~ leaked out of inner (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by a list of 1
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_of_an_inner_trace_kept_in_a_list() -> None:
    """The inner trace ends first and reports; the outer one is told."""

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            KEPT.append(y * x)  # made here
            return ops.sum(y)

        return ops.sum(tl.grad(inner)(x))

    tl.make_graph(outer)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] which is argument 0 of <lambda> leaked out of <lambda> (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by a list of 1
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_by_a_jitted_function() -> None:
    tl.jit(lambda x: KEPT.append(x) or ops.sum(x))(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] which is argument 0 of f leaked out of f (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by a list of 1
  fix:      return the value from the function instead of storing it
""",
)
def test_a_value_kept_by_a_custom_rule() -> None:
    @tl.custom_jvp
    def f(x: Any) -> Any:
        KEPT.append(x)
        return x

    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    tl.grad(lambda x: ops.sum(f(x)))(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by sin at ~ belongs to a trace that has ended (@)
  expected: a value of the running trace, or an array
  got:      a traced value that leaked out of the function that made it
  fix:      return it from the traced function instead of storing it
""",
)
def test_a_value_of_an_inner_trace_used_in_the_outer_one() -> None:
    """Used before the leak is reported: the use is refused, by the op that met it."""
    inner = Builder(name="inner")
    token = CURRENT.set(inner)
    value = inner.apply(SIN, NO_PARAMS, (inner.add_input(tl.TensorType((3,), tl.DType.F32)),))  # made here
    CURRENT.reset(token)
    inner.finish((value.id,))
    tl.make_graph(lambda x: x + value)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[3] made by sin at ~ belongs to a trace that has ended (@)
  expected: a value of the running trace, or an array
  got:      a traced value that leaked out of the function that made it
  fix:      return it from the traced function instead of storing it
""",
)
def test_a_value_that_escaped_used_outside_any_trace() -> None:
    with pytest.raises(LeakedTracerError):
        tl.make_graph(lambda x: KEPT.append(ops.sin(x)) or x)(X)  # made here
    ops.cos(KEPT[-1])


@refused(
    TraceError,
    """
sin of f32[3] in a trace that has ended (@)
  expected: a running trace
  got:      the one of done, whose graph is finished
  fix:      return the value from the traced function, and apply the op to the result
""",
)
def test_an_op_applied_to_a_builder_that_has_finished() -> None:
    builder = Builder(name="done")
    value = builder.add_input(tl.TensorType((3,), tl.DType.F32))
    builder.finish((value.id,))
    token = CURRENT.set(builder)
    try:
        ops.sin(value)
    finally:
        CURRENT.reset(token)


def test_values_in_reference_cycles_are_collected_not_reported() -> None:
    """A cycle that nothing else holds is garbage, not a leak."""

    class Node:
        def __init__(self, value: Any) -> None:
            self.value = value
            self.me = self

    def f(x: Any) -> Any:
        Node(ops.sin(x))
        return ops.sum(x)

    np.testing.assert_array_equal(np.asarray(tl.grad(f)(X)), np.ones(3))


def test_an_exception_that_holds_a_frame_of_a_finished_trace_is_not_a_leak() -> None:
    """A trace that failed keeps its values in the traceback; the next traces work and report nothing."""
    kept: list[BaseException] = []

    def failing(x: Any) -> Any:
        y = ops.sin(x)
        raise ValueError(str(y.shape))

    try:
        tl.make_graph(failing)(X)
    except ValueError as error:
        kept.append(error)
    np.testing.assert_array_equal(np.asarray(tl.grad(ops.sum)(X)), np.ones(3))
    assert len(kept) == 1


def test_results_of_a_trace_may_be_kept() -> None:
    results = [tl.grad(ops.sum)(X), tl.vmap(ops.sin)(X), tl.make_graph(ops.sin)(X)]
    KEPT.extend(results)
    assert len(KEPT) == 3
