"""The text of every refusal of custom_jvp and custom_vjp: rules missing, of the wrong tree, or closed over values."""

# ruff: noqa: E501 — messages are kept as they are printed
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import GradError, LeakedTracerError, StructureError, TraceError, TypeRuleError

X = np.ones(3, np.float32)
ROWS = np.ones((2, 3), np.float32)


def with_jvp(rule: Callable[..., Any]) -> Any:
    """A function scaled(x) → {"y": 2x} with a JVP rule."""

    @tl.custom_jvp
    def scaled(x: Any) -> Any:
        return {"y": x * 2.0}

    scaled.defjvp(rule)
    return lambda x: ops.sum(scaled(x)["y"])


def with_vjp(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A function product(p, n) → p["w"]·p["b"]·n with VJP rules."""

    @tl.custom_vjp
    def product(p: Any, n: Any) -> Any:
        return p["w"] * p["b"] * n

    product.defvjp(forward, backward)
    return lambda p: ops.sum(product(p, 1.0))


P = {"w": X, "b": X}
PS = {"w": ROWS, "b": ROWS}


@refused(
    TraceError,
    """
f is a custom_jvp without a rule (@)
  expected: a call of f.defjvp(…)
  got:      none
  fix:      define the rule with @f.defjvp
""",
)
def test_a_custom_jvp_without_a_rule() -> None:
    @tl.custom_jvp
    def f(x: Any) -> Any:
        return x

    f(X)


@refused(
    TraceError,
    """
f is a custom_vjp without a rule (@)
  expected: a call of f.defvjp(…)
  got:      none
  fix:      define the rule with @f.defvjp
""",
)
def test_a_custom_vjp_without_rules() -> None:
    @tl.custom_vjp
    def f(x: Any) -> Any:
        return x

    f(X)


# -- JVP rules ---------------------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
the rule of scaled must return (output, tangent) (@)
  expected: a pair
  got:      {'y': f32[3]}
  fix:      return both from the function given to defjvp
""",
)
def test_a_jvp_rule_that_returns_no_pair() -> None:
    tl.grad(with_jvp(lambda primals, tangents: {"y": primals[0]}))(X)


@refused(
    StructureError,
    """
the rule of scaled returned a tangent unlike the function's output: at tangent: expected dict with keys ['y'], got a leaf (Value) (@)
  expected: {'y': f32[3]}
  got:      f32[3]
  fix:      correct the rule given to scaled
""",
)
def test_a_jvp_rule_whose_tangent_has_another_tree() -> None:
    tl.grad(with_jvp(lambda primals, tangents: ({"y": primals[0]}, tangents[0])))(X)


@refused(
    StructureError,
    """
the rule of scaled returned a tangent unlike the function's output: f32[] for f32[3] (@)
  expected: {'y': f32[3]}
  got:      {'y': f32[]}
  fix:      correct the rule given to scaled
""",
)
def test_a_jvp_rule_whose_tangent_has_another_shape() -> None:
    f = with_jvp(lambda primals, tangents: ({"y": primals[0]}, {"y": ops.sum(tangents[0])}))
    tl.jvp(f, (X,), (X,))


@refused(
    StructureError,
    """
the rule of scaled returned a tangent unlike the function's output: f64[3] for f32[3] (@)
  expected: {'y': f32[3]}
  got:      {'y': f64[3]}
  fix:      correct the rule given to scaled
""",
)
def test_a_jvp_rule_whose_tangent_has_another_dtype() -> None:
    f = with_jvp(lambda primals, tangents: ({"y": primals[0]}, {"y": ops.convert(tangents[0], "f64")}))
    tl.grad(f)(X)


@refused(
    StructureError,
    """
the rule of scaled returned a tangent unlike the function's output: at tangent: expected dict with keys ['y'], got tuple of 1 (@)
  expected: {'y': f32[2,3]}
  got:      (f32[2,3],)
  fix:      correct the rule given to scaled
""",
)
def test_a_jvp_rule_of_the_wrong_tree_under_vmap() -> None:
    f = with_jvp(lambda primals, tangents: ({"y": primals[0]}, (tangents[0],)))
    tl.grad(lambda xs: ops.sum(tl.vmap(f)(xs)))(ROWS)


@refused(
    TypeRuleError,
    """
the rule of scaled must return (output, tangent) (@)
  expected: a pair
  got:      (f32[2,3],)
  fix:      return both from the function given to defjvp
""",
)
def test_a_jvp_rule_that_returns_no_pair_under_vmap() -> None:
    tl.jvp(tl.vmap(with_jvp(lambda primals, tangents: tangents)), (ROWS,), (ROWS,))


# -- VJP rules ---------------------------------------------------------------------------------------------------------
def forward(p: Any, n: Any) -> Any:
    return p["w"] * p["b"] * n, p


@refused(
    GradError,
    """
forward-mode derivative of product, which has a custom_vjp (@)
  expected: reverse mode (grad, vjp, jacrev)
  got:      jvp, linearize or jacfwd
  fix:      use custom_jvp, which serves both modes
""",
)
def test_forward_mode_of_a_custom_vjp() -> None:
    f = with_vjp(forward, lambda p, ct: (p, None))
    tl.jvp(f, (P,), (P,))


@refused(
    GradError,
    """
forward-mode derivative of product, which has a custom_vjp (@)
  expected: reverse mode (grad, vjp, jacrev)
  got:      jvp, linearize or jacfwd
  fix:      use custom_jvp, which serves both modes
""",
)
def test_jacfwd_of_a_mapped_custom_vjp() -> None:
    f = with_vjp(forward, lambda p, ct: (p, None))
    tl.jacfwd(tl.vmap(f))(PS)


@refused(
    TypeRuleError,
    """
the forward rule of product must return (output, residuals) (@)
  expected: a pair
  got:      f32[3]
  fix:      return both from the first function given to defvjp
""",
)
def test_a_forward_rule_that_returns_no_pair() -> None:
    tl.grad(with_vjp(lambda p, n: p["w"], lambda p, ct: (p, None)))(P)


@refused(
    StructureError,
    """
the backward rule of product must return one cotangent tree per argument (@)
  expected: a tuple of 2
  got:      {'w': f32[3], 'b': f32[3]}
  fix:      return a tuple; None stands for zero
""",
)
def test_a_backward_rule_that_returns_no_tuple() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: {"w": ct, "b": ct}))(P)


@refused(
    StructureError,
    """
the backward rule of product must return one cotangent tree per argument (@)
  expected: a tuple of 2
  got:      ({'w': f32[3], 'b': f32[3]},)
  fix:      return a tuple; None stands for zero
""",
)
def test_a_backward_rule_with_too_few_cotangents() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: (p,)))(P)


@refused(
    StructureError,
    """
the backward rule of product returned a cotangent unlike its argument: at cotangent: expected dict with keys ['w', 'b'], got dict with keys ['w'] (@)
  expected: {'w': f32[3], 'b': f32[3]}
  got:      {'w': f32[3]}
  fix:      correct the second function given to defvjp
""",
)
def test_a_backward_rule_whose_cotangent_has_another_tree() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: ({"w": ct}, None)))(P)


@refused(
    StructureError,
    """
the backward rule of product returned a cotangent unlike its argument: f32[] for f32[3] (@)
  expected: {'w': f32[3], 'b': f32[3]}
  got:      {'w': f32[3], 'b': f32[]}
  fix:      correct the second function given to defvjp
""",
)
def test_a_backward_rule_whose_cotangent_has_another_shape() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: ({"w": ct, "b": ops.sum(ct)}, None)))(P)


@refused(
    StructureError,
    """
the backward rule of product returned a cotangent unlike its argument: f64[3] for f32[3] (@)
  expected: {'w': f32[3], 'b': f32[3]}
  got:      {'w': f32[3], 'b': f64[3]}
  fix:      correct the second function given to defvjp
""",
)
def test_a_backward_rule_whose_cotangent_has_another_dtype() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: ({"w": ct, "b": ops.convert(ct, "f64")}, None)))(P)


@refused(
    StructureError,
    """
the backward rule of product returned a cotangent unlike its argument: str for f32[3] (@)
  expected: {'w': f32[3], 'b': f32[3]}
  got:      {'w': f32[3], 'b': str}
  fix:      correct the second function given to defvjp
""",
)
def test_a_backward_rule_whose_cotangent_is_no_array() -> None:
    tl.grad(with_vjp(forward, lambda p, ct: ({"w": ct, "b": "zero"}, None)))(P)


@refused(
    StructureError,
    """
the backward rule of product returned a cotangent unlike its argument: at cotangent: expected dict with keys ['w', 'b'], got dict with keys ['w'] (@)
  expected: {'w': f32[3], 'b': f32[3]}
  got:      {'w': f32[2,3]}
  fix:      correct the second function given to defvjp
""",
)
def test_a_backward_rule_of_the_wrong_tree_under_vmap() -> None:
    f = with_vjp(forward, lambda p, ct: ({"w": ct}, None))
    tl.grad(lambda ps: ops.sum(tl.vmap(f)(ps)))(PS)


@refused(
    StructureError,
    """
the backward rule of product must return one cotangent tree per argument (@)
  expected: a tuple of 2
  got:      ({'w': f32[2,3], 'b': f32[2,3]},)
  fix:      return a tuple; None stands for zero
""",
)
def test_a_backward_rule_with_too_few_cotangents_under_vmap() -> None:
    f = with_vjp(forward, lambda p, ct: (p,))
    tl.grad(lambda ps: ops.sum(tl.vmap(f)(ps)))(PS)


@refused(
    TypeRuleError,
    """
the forward rule of product must return (output, residuals) (@)
  expected: a pair
  got:      f32[2,3]
  fix:      return both from the first function given to defvjp
""",
)
def test_a_forward_rule_that_returns_no_pair_under_vmap() -> None:
    f = with_vjp(lambda p, n: p["w"], lambda p, ct: (p, None))
    tl.grad(lambda ps: ops.sum(tl.vmap(f)(ps)))(PS)


# -- arguments and captures --------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
<lambda>: nondiff_argnums 1 is no position of a positional argument (@)
  expected: an integer in [-1, 1)
  got:      1, and 1 positional arguments
  fix:      pass the argument by position, or change nondiff_argnums
""",
)
def test_nondiff_argnums_that_the_call_does_not_have() -> None:
    f = tl.custom_jvp(lambda x: x, nondiff_argnums=(1,))
    f.defjvp(lambda n, primals, tangents: (primals[0], tangents[0]))
    f(X)


@refused(
    TraceError,
    """
argument 0 of <lambda> is a traced f32[3], but nondiff_argnums names it (@)
  expected: a value known while tracing: a number, a string, a function
  got:      a traced value
  fix:      drop it from nondiff_argnums; let the rule give it a zero tangent (or a None cotangent)
""",
)
def test_a_traced_value_at_nondiff_argnums() -> None:
    f = tl.custom_jvp(lambda scale, x: scale * x, nondiff_argnums=(0,))
    f.defjvp(lambda scale, primals, tangents: (primals[0], tangents[0]))
    tl.grad(lambda x: ops.sum(f(x, x)))(X)


@refused(
    TypeRuleError,
    """
scaled is a custom_jvp: its rules take arguments by position (@)
  expected: arguments that can be given by position
  got:      keyword-only by
  fix:      make them ordinary arguments, and name those without a derivative in nondiff_argnums
""",
)
def test_keyword_only_arguments() -> None:
    def scaled(x: Any, *, by: Any) -> Any:
        return x * by

    f = tl.custom_jvp(scaled)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    f(X, by=2.0)


@refused(
    GradError,
    """
f closes over a value that is being differentiated (@)
  expected: its custom derivative to see every differentiated value as an argument
  got:      a captured traced value
  fix:      pass the value to f as an argument
""",
)
def test_a_captured_value_that_is_differentiated() -> None:
    def loss(x: Any) -> Any:
        scale = ops.sum(x)

        @tl.custom_jvp
        def f(y: Any) -> Any:
            return y * scale

        f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
        return ops.sum(f(x))

    tl.grad(loss)(X)


@refused(
    LeakedTracerError,
    """
a traced f32[] made by reduce_sum at ~ leaked out of loss (@)
  expected: every traced value to be gone, or returned, when the traced function returns
  got:      1 still alive; the first is held by the closure variable 'scale' of <lambda>
  fix:      return the value from the function instead of storing it
""",
)
def test_a_rule_that_closes_over_a_traced_value() -> None:
    def loss(x: Any) -> Any:
        scale = ops.sum(x)  # made here

        @tl.custom_jvp
        def f(y: Any) -> Any:
            return y * 2.0

        f.defjvp(lambda primals, tangents: (primals[0], tangents[0] * scale))
        return ops.sum(f(x))

    tl.grad(loss)(X)
