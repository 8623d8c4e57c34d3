"""The text of every refusal of a derivative: results, arguments, tangents, cotangents, and lowering."""

# ruff: noqa: E501 — messages are kept as they are printed
from __future__ import annotations

from typing import Any

import numpy as np
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import ConfigError, GradError, StructureError, TraceError, TypeRuleError

X = np.ones(3, np.float32)
D = np.ones(3, np.float64)
S = np.float32(2)
I3 = np.zeros(3, np.int32)


class Opaque:
    """Not an array, nor a container."""

    def __repr__(self) -> str:
        return "Opaque()"


# -- grad: the result --------------------------------------------------------------------------------------------------
@refused(
    GradError,
    """
grad of loss, which returns f32[3] (@)
  expected: one floating point scalar
  got:      f32[3]
  fix:      reduce it (x.sum(), x.mean()), or use vjp or jacrev
""",
)
def test_grad_of_a_result_with_axes() -> None:
    def loss(x: Any) -> Any:
        return x * 2.0

    tl.grad(loss)(X)


@refused(
    GradError,
    """
grad of count, which returns i32[] (@)
  expected: one floating point scalar
  got:      i32[]
  fix:      reduce it (x.sum(), x.mean()), or use vjp or jacrev
""",
)
def test_grad_of_an_integer_result() -> None:
    def count(x: Any) -> Any:
        return ops.argmax(x)

    tl.grad(count)(X)


@refused(
    GradError,
    """
grad of <lambda>, which returns bool[] (@)
  expected: one floating point scalar
  got:      bool[]
  fix:      reduce it (x.sum(), x.mean()), or use vjp or jacrev
""",
)
def test_grad_of_a_boolean_result() -> None:
    tl.grad(lambda x: ops.sum(x) > 0.0)(X)


@refused(
    GradError,
    """
grad of <lambda>, which returns f32[], f32[] (@)
  expected: one floating point scalar
  got:      f32[], f32[]
  fix:      reduce it (x.sum(), x.mean()), or use vjp or jacrev
""",
)
def test_grad_of_several_results() -> None:
    tl.value_and_grad(lambda x: (ops.sum(x), ops.sum(x * x)))(X)


@refused(
    GradError,
    """
grad of <lambda>, which returns no tensor (@)
  expected: one floating point scalar
  got:      no tensor
  fix:      return the scalar
""",
)
def test_grad_of_a_function_that_returns_nothing() -> None:
    tl.grad(lambda x: None)(X)


@refused(
    GradError,
    """
grad of <lambda>, which returns no tensor (@)
  expected: one floating point scalar
  got:      no tensor
  fix:      return the scalar
""",
)
def test_grad_of_a_function_that_returns_text() -> None:
    tl.grad(lambda x: "loss")(X)


@refused(
    GradError,
    """
grad of loss: the result depends on the argument only through convert of f32[3] (@)
  expected: a differentiable path from the argument to the result
  got:      convert: its result is no float
  fix:      use a differentiable op there, or stop_gradient if zero is meant
""",
)
def test_grad_of_a_result_cut_off_by_a_conversion() -> None:
    def loss(x: Any) -> Any:
        k = ops.convert(x, "i32")  # the cause
        return ops.sum(ops.convert(k, "f32"))

    tl.grad(loss)(X)


@refused(
    GradError,
    """
grad of accuracy: the result depends on the argument only through gt of f32[3] (@)
  expected: a differentiable path from the argument to the result
  got:      gt: a comparison is locally constant
  fix:      use a differentiable op there, or stop_gradient if zero is meant
""",
)
def test_grad_of_a_result_cut_off_by_a_comparison() -> None:
    def accuracy(x: Any) -> Any:
        hit = x > 0.5  # the cause
        return ops.mean(ops.convert(hit, "f32"))

    tl.grad(accuracy)(X)


@refused(
    GradError,
    """
grad of loss: the result depends on the argument only through argmax of f32[3] (@)
  expected: a differentiable path from the argument to the result
  got:      argmax: a position is locally constant
  fix:      use a differentiable op there, or stop_gradient if zero is meant
""",
)
def test_grad_of_a_result_cut_off_by_argmax() -> None:
    def loss(x: Any) -> Any:
        best = ops.argmax(x)  # the cause
        return ops.sum(ops.convert(ops.one_hot(best, 3), "f32"))

    tl.grad(loss)(X)


@refused(
    GradError,
    """
grad of <lambda>: the result depends on the argument only through sign of f32[3] (@)
  expected: a differentiable path from the argument to the result
  got:      sign: sign is locally constant
  fix:      use a differentiable op there, or stop_gradient if zero is meant
""",
)
def test_grad_of_a_result_cut_off_by_sign() -> None:
    tl.grad(lambda x: ops.sum(ops.sign(x)))(X)  # the cause


# -- grad: the arguments -----------------------------------------------------------------------------------------------
@refused(
    GradError,
    """
grad with respect to args[0]['steps'][0]: i32[3] (@)
  expected: a floating point array
  got:      i32[3]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_grad_with_respect_to_an_integer() -> None:
    tl.grad(lambda p: ops.sum(p["w"]))({"w": X, "steps": [I3]})


@refused(
    GradError,
    """
grad with respect to args[1]: i32[] (@)
  expected: a floating point array
  got:      i32[]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_grad_with_respect_to_a_python_integer() -> None:
    tl.grad(lambda x, n: x * 2.0, argnums=(0, 1))(S, 3)


@refused(
    GradError,
    """
grad with respect to args[0][1]: str (@)
  expected: a floating point array
  got:      str
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_grad_with_respect_to_text() -> None:
    tl.grad(lambda p: ops.sum(p[0]))((X, "name"))


@refused(
    GradError,
    """
grad with respect to args[0]: bool[3] (@)
  expected: a floating point array
  got:      bool[3]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_grad_with_respect_to_a_boolean_array() -> None:
    tl.grad(lambda x: ops.sum(ops.convert(x, "f32")))(np.ones(3, bool))


@refused(
    TypeRuleError,
    """
grad: argnums 2 is no position of a positional argument (@)
  expected: an integer in [-2, 2)
  got:      2, and 2 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_that_the_call_does_not_have() -> None:
    tl.grad(lambda x, y: ops.sum(x * y), argnums=2)(X, X)


@refused(
    TypeRuleError,
    """
grad: argnums -2 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      -2, and 1 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_negative_argnums_that_the_call_does_not_have() -> None:
    tl.value_and_grad(lambda x: ops.sum(x), argnums=(0, -2))(X)


@refused(
    TypeRuleError,
    """
grad: argnums 0 is no position of a positional argument (@)
  expected: a call with positional arguments
  got:      0, and 0 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_of_an_argument_given_by_keyword() -> None:
    tl.grad(lambda x: ops.sum(x))(x=X)


@refused(
    TypeRuleError,
    """
jacfwd: argnums 1 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      1, and 1 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_of_jacfwd() -> None:
    tl.jacfwd(lambda x: x, argnums=1)(X)


@refused(
    TypeRuleError,
    """
jacrev: argnums -2 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      -2, and 1 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_of_jacrev() -> None:
    tl.jacrev(lambda x: x, argnums=-2)(X)


@refused(
    TypeRuleError,
    """
hessian: argnums 3 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      3, and 1 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_of_hessian() -> None:
    tl.hessian(lambda x: ops.sum(x), argnums=3)(X)


@refused(
    TypeRuleError,
    """
grad: argnums 'x' is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      'x', and 1 positional arguments
  fix:      pass the argument by position, or change argnums
""",
)
def test_argnums_that_are_no_integers() -> None:
    tl.grad(lambda x: ops.sum(x), argnums="x")(X)


@refused(
    GradError,
    """
jacfwd of <lambda> with respect to args[0]['n']: i32[3] (@)
  expected: a floating point array
  got:      i32[3]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_jacfwd_with_respect_to_an_integer() -> None:
    tl.jacfwd(lambda p: p["x"] * 2.0)({"x": X, "n": I3})


@refused(
    GradError,
    """
jacrev of <lambda> with respect to args[0]: i32[3] (@)
  expected: a floating point array
  got:      i32[3]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_jacrev_with_respect_to_an_integer() -> None:
    tl.jacrev(lambda n: ops.convert(n, "f32"))(I3)


@refused(
    GradError,
    """
hessian of <lambda> with respect to args[0]: i32[3] (@)
  expected: a floating point array
  got:      i32[3]
  fix:      convert it to a float dtype, or leave the argument out of argnums
""",
)
def test_hessian_of_a_result_with_axes_is_allowed_but_not_of_an_integer_argument() -> None:
    tl.hessian(lambda n: ops.sum(ops.convert(n, "f32")))(I3)


# -- has_aux -----------------------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
grad: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      f32[]
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_without_a_pair() -> None:
    tl.grad(lambda x: ops.sum(x), has_aux=True)(X)


@refused(
    TypeRuleError,
    """
grad: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      a tuple of 3
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_with_three_results() -> None:
    tl.value_and_grad(lambda x: (ops.sum(x), x, x), has_aux=True)(X)


@refused(
    TypeRuleError,
    """
vjp: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      list
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_with_a_list() -> None:
    tl.vjp(lambda x: [ops.sum(x), x], X, has_aux=True)


@refused(
    TypeRuleError,
    """
jvp: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      f32[]
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_of_jvp_without_a_pair() -> None:
    tl.jvp(lambda x: ops.sum(x), (X,), (X,), has_aux=True)


@refused(
    TypeRuleError,
    """
jacfwd: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      f32[3]
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_of_jacfwd_without_a_pair() -> None:
    tl.jacfwd(lambda x: x * 2.0, has_aux=True)(X)


@refused(
    TypeRuleError,
    """
jacrev: with has_aux=True the function must return a pair (output, aux) (@)
  expected: a tuple of two
  got:      f32[3]
  fix:      return (output, aux), or drop has_aux
""",
)
def test_has_aux_of_jacrev_without_a_pair() -> None:
    tl.jacrev(lambda x: x * 2.0, has_aux=True)(X)


# -- tangents ----------------------------------------------------------------------------------------------------------
@refused(
    StructureError,
    """
jvp: the tangents have another tree structure, at tangents[0]: expected dict with keys ['w'], got dict with keys ['v'] (@)
  expected: ({'w': f32[3]},)
  got:      ({'v': f32[3]},)
  fix:      build them with the same containers, keys and lengths
""",
)
def test_tangents_of_another_tree() -> None:
    tl.jvp(lambda p: ops.sum(p["w"]), ({"w": X},), ({"v": X},))


@refused(
    StructureError,
    """
jvp: the tangents have another tree structure, at tangents: expected tuple of 2, got tuple of 1 (@)
  expected: (f32[3], f32[3])
  got:      (f32[3],)
  fix:      build them with the same containers, keys and lengths
""",
)
def test_fewer_tangents_than_primals() -> None:
    tl.jvp(lambda x, y: x * y, (X, X), (X,))


@refused(
    StructureError,
    """
jvp: the tangents have another tree structure, at tangents[0]: expected a leaf (ndarray), got tuple of 2 (@)
  expected: (f32[3],)
  got:      ((f32[3], f32[3]),)
  fix:      build them with the same containers, keys and lengths
""",
)
def test_a_tangent_tree_that_is_deeper() -> None:
    tl.jvp(lambda x: x, (X,), ((X, X),))


@refused(
    TypeRuleError,
    """
jvp: the tangent of primals[0]['w'][0] is f32[4], its primal f32[3] (@)
  expected: f32[3]
  got:      f32[4]
  fix:      give the tangent the primal's shape and dtype
""",
)
def test_a_tangent_of_another_shape() -> None:
    tl.jvp(lambda p: ops.sum(p["w"][0]), ({"w": [X]},), ({"w": [np.ones(4, np.float32)]},))


@refused(
    TypeRuleError,
    """
jvp: the tangent of primals[0] is f64[3], its primal f32[3] (@)
  expected: f32[3]
  got:      f64[3]
  fix:      give the tangent the primal's shape and dtype
""",
)
def test_a_tangent_of_another_dtype_is_not_narrowed() -> None:
    tl.jvp(lambda x: x * x, (X,), (D,))


@refused(
    TypeRuleError,
    """
jvp: the tangent of primals[0] is str, its primal f32[3] (@)
  expected: f32[3]
  got:      str
  fix:      give the tangent the primal's shape and dtype
""",
)
def test_a_tangent_that_is_no_array() -> None:
    tl.jvp(lambda x: x * x, (X,), ("up",))


@refused(
    TypeRuleError,
    """
jvp takes primals as a tuple, one entry per argument of <lambda> (@)
  expected: a tuple
  got:      f32[3]
  fix:      write jvp(f, (x,), (t,))
""",
)
def test_primals_that_are_no_tuple() -> None:
    tl.jvp(lambda x: x * x, X, X)


@refused(
    TypeRuleError,
    """
jvp takes tangents as a tuple, one entry per argument of <lambda> (@)
  expected: a tuple
  got:      f32[3]
  fix:      write jvp(f, (x,), (t,))
""",
)
def test_tangents_that_are_no_tuple() -> None:
    tl.jvp(lambda x: x * x, (X,), X)


@refused(
    TypeRuleError,
    """
linearize: the tangent of primals[0] is f32[2], its primal f32[3] (@)
  expected: f32[3]
  got:      f32[2]
  fix:      give the tangent the primal's shape and dtype
""",
)
def test_a_tangent_of_linearize_of_another_shape() -> None:
    _, pushforward = tl.linearize(lambda x: x * x, X)
    pushforward(np.ones(2, np.float32))


@refused(
    StructureError,
    """
linearize: the tangents have another tree structure, at tangents: expected tuple of 1, got tuple of 2 (@)
  expected: (f32[3],)
  got:      (f32[3], f32[3])
  fix:      build them with the same containers, keys and lengths
""",
)
def test_too_many_tangents_of_linearize() -> None:
    _, pushforward = tl.linearize(lambda x: x * x, X)
    pushforward(X, X)


# -- cotangents --------------------------------------------------------------------------------------------------------
@refused(
    StructureError,
    """
vjp: the cotangents have another tree structure, at cotangents: expected dict with keys ['y', 'z'], got dict with keys ['y'] (@)
  expected: {'y': f32[3], 'z': f32[3]}
  got:      {'y': f32[3]}
  fix:      build them with the same containers, keys and lengths
""",
)
def test_cotangents_of_another_tree() -> None:
    _, pullback = tl.vjp(lambda x: {"y": x, "z": x * x}, X)
    pullback({"y": X})


@refused(
    StructureError,
    """
vjp: the cotangent of output[1] is f32[3], the output f32[] (@)
  expected: f32[]
  got:      f32[3]
  fix:      give the cotangent the output's shape and dtype
""",
)
def test_a_cotangent_of_another_shape() -> None:
    _, pullback = tl.vjp(lambda x: (x, ops.sum(x)), X)
    pullback((X, X))


@refused(
    StructureError,
    """
vjp: the cotangent of output is f64[3], the output f32[3] (@)
  expected: f32[3]
  got:      f64[3]
  fix:      give the cotangent the output's shape and dtype
""",
)
def test_a_cotangent_of_another_dtype_is_not_narrowed() -> None:
    _, pullback = tl.vjp(lambda x: x * x, X)
    pullback(D)


@refused(
    StructureError,
    """
vjp: the cotangent of output is str, the output f32[3] (@)
  expected: f32[3]
  got:      str
  fix:      give the cotangent the output's shape and dtype
""",
)
def test_a_cotangent_that_is_no_array() -> None:
    _, pullback = tl.vjp(lambda x: x * x, X)
    pullback("down")


# -- tracing abstractly, lowering --------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
<lambda>: the argument leaf args[0]['name'][0] has the type str (@)
  expected: an array, a Python number or a TensorType
  got:      'text'
  fix:      pass it as a static argument (static_argnums)
""",
)
def test_make_graph_of_an_argument_that_is_no_array() -> None:
    tl.make_graph(lambda p: p["x"])({"x": X, "name": ["text"]})


@refused(
    TypeRuleError,
    """
<lambda>: static_argnums 1 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      1, and 1 positional arguments
  fix:      pass the argument by position, or change static_argnums
""",
)
def test_static_argnums_that_the_call_does_not_have() -> None:
    tl.make_graph(lambda x: x, static_argnums=1)(X)


@refused(
    TypeRuleError,
    """
<lambda>: the argument leaf args[0] has the type Opaque (@)
  expected: an array, a Python number or a TensorType
  got:      Opaque()
  fix:      pass it as a static argument (static_argnums)
""",
)
def test_eval_shape_of_an_argument_that_is_no_array() -> None:
    tl.eval_shape(lambda x: x, Opaque())


@refused(
    StructureError,
    """
<lambda> was lowered for other arguments: at args[0]: expected dict with keys ['w'], got dict with keys ['v'] (@)
  expected: the tree structure it was lowered with
  got:      at args[0]: expected dict with keys ['w'], got dict with keys ['v']
  fix:      lower it again for these arguments, or use tl.jit
""",
)
def test_a_lowered_function_called_on_another_tree() -> None:
    lowered = tl.lower(lambda p: p["w"] * 2.0, {"w": X})
    lowered({"v": X})


@refused(
    TypeRuleError,
    """
<lambda> was lowered for f32[3] at args[0]['w'] and got f64[3] (@)
  expected: f32[3]
  got:      f64[3]
  fix:      convert the argument, lower it again, or use tl.jit
""",
)
def test_a_lowered_function_called_on_another_type() -> None:
    lowered = tl.lower(lambda p: p["w"] * 2.0, {"w": X})
    lowered({"w": D})


@refused(
    TypeRuleError,
    """
<lambda> was lowered for f32[] at args[0] and got str (@)
  expected: f32[]
  got:      str
  fix:      convert the argument, lower it again, or use tl.jit
""",
)
def test_a_lowered_function_called_on_text() -> None:
    lowered = tl.lower(lambda x: x * 2.0, S)
    lowered("two")


@refused(
    TraceError,
    """
<lambda> is lowered and was called on a traced f32[3] (args[0]) (@)
  expected: arrays: a lowered function cannot be transformed
  got:      a traced value
  fix:      transform the original function, then lower the result
""",
)
def test_a_lowered_function_called_inside_a_trace() -> None:
    lowered = tl.lower(lambda x: x * 2.0, X)
    tl.grad(lambda x: ops.sum(lowered(x)))(X)


@refused(
    TraceError,
    """
<lambda> is lowered and was called inside a trace (@)
  expected: a call outside any trace: its result is an array, not a node
  got:      a call while <lambda> is traced
  fix:      call it before the trace, or use the original function
""",
)
def test_a_lowered_function_called_on_arrays_inside_a_trace() -> None:
    lowered = tl.lower(lambda x: x * 2.0, X)
    tl.grad(lambda x: ops.sum(x * lowered(X)))(X)


@refused(
    TraceError,
    """
lower of <lambda>, which uses a traced f32[3] of an enclosing trace (@)
  expected: a function of its arguments and of arrays
  got:      a captured traced value
  fix:      lower outside the trace, or pass the value as an argument
""",
)
def test_lower_of_a_function_that_captures_a_traced_value() -> None:
    def outer(x: Any) -> Any:
        return ops.sum(x * tl.lower(lambda y: y * x, X)(X))

    tl.grad(outer)(X)


@refused(
    TypeRuleError,
    """
jit of <lambda>: a static argument cannot be hashed (@)
  expected: hashable static arguments
  got:      list
  fix:      pass a tuple instead of a list, or make the argument dynamic
""",
)
def test_jit_with_a_static_argument_that_cannot_be_hashed() -> None:
    tl.jit(lambda x, n: x * 2.0, static_argnums=1)(X, [1, 2])


@refused(
    TypeRuleError,
    """
<lambda>: the argument leaf args[1] has the type str (@)
  expected: an array, a Python number or a TensorType
  got:      'text'
  fix:      pass it as a static argument (static_argnums)
""",
)
def test_jit_of_an_argument_that_is_no_array() -> None:
    tl.jit(lambda x, name: x * 2.0)(X, "text")


@refused(
    ConfigError,
    """
dropout of f32[3] with rate 1.0 (@)
  expected: a number in [0, 1); nothing is kept at 1
  got:      1.0
  fix:      use zeros instead of a rate of 1
""",
)
def test_a_rate_of_dropout_that_keeps_nothing() -> None:
    ops.dropout(X, np.ones(3, bool), 1.0)


def test_jit_inside_a_trace_is_the_function_itself() -> None:
    """On captured values and on plain arrays too: one graph, planned as a whole."""
    scale = np.arange(3, dtype=np.float32)
    made = tl.grad(lambda x: ops.sum(tl.jit(lambda y: y * x * x)(scale)))(X)
    np.testing.assert_array_equal(np.asarray(made), 2 * scale)
    graph = tl.make_graph(lambda x: x + tl.jit(ops.exp)(scale))(X)
    assert [node.op.name for node in graph.nodes] == ["constant", "exp", "add"]
