"""custom_jvp and custom_vjp in every composition: their rules are used, at every order, in every mode, under vmap.

The rules here are wrong on purpose by a factor, so that a derivative that came from the body instead would show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compose.twins import direction, near

import torchlean as tl
from torchlean import ops

A, B = direction(0, 3), direction(1, 3)


@tl.custom_jvp
def tripled(x: Any) -> Any:
    """sin x, whose rule says its slope is 3·cos x."""
    return ops.sin(x)


@tripled.defjvp
def _tripled_rule(primals: Any, tangents: Any) -> Any:
    return tripled(*primals), 3.0 * ops.cos(primals[0]) * tangents[0]


@tl.custom_vjp
def quintupled(x: Any) -> Any:
    """sin x, whose rule says its slope is 5·cos x."""
    return ops.sin(x)


quintupled.defvjp(lambda x: (ops.sin(x), ops.cos(x)), lambda cosine, ct: (5.0 * cosine * ct,))

BOTH = pytest.mark.parametrize(("f", "factor"), [(tripled, 3.0), (quintupled, 5.0)], ids=["custom_jvp", "custom_vjp"])


# -- one argument ------------------------------------------------------------------------------------------------------
@BOTH
def test_the_value_is_the_functions_and_reverse_mode_uses_the_rule(f: Any, factor: float) -> None:
    near(f(A), np.sin(A))
    near(tl.jit(f)(A), np.sin(A))
    near(tl.grad(lambda x: ops.sum(f(x)))(A), factor * np.cos(A))
    near(tl.jacrev(f)(A), np.diag(factor * np.cos(A)))
    near(tl.vjp(f, A)[1](B)[0], factor * np.cos(A) * B)
    near(tl.grad(lambda x: ops.sum(f(x * x) * x))(A), factor * np.cos(A * A) * 2 * A * A + np.sin(A * A))


def test_forward_mode_uses_the_jvp_rule() -> None:
    near(tl.jvp(tripled, (A,), (B,))[1], 3 * np.cos(A) * B)
    near(tl.linearize(tripled, A)[1](B), 3 * np.cos(A) * B)
    near(tl.jacfwd(tripled)(A), np.diag(3 * np.cos(A)))


@BOTH
def test_vmap_keeps_the_rule_inside_and_outside_a_gradient(f: Any, factor: float) -> None:
    xs = np.stack([A, B])
    near(tl.vmap(f)(xs), np.sin(xs))
    near(tl.vmap(tl.grad(lambda x: ops.sum(f(x))))(xs), factor * np.cos(xs))
    near(tl.grad(lambda xs: ops.sum(tl.vmap(f)(xs)))(xs), factor * np.cos(xs))
    near(tl.grad(lambda xs: ops.sum(tl.vmap(tl.vmap(f))(xs)))(xs), factor * np.cos(xs))
    near(tl.vmap(tl.vmap(tl.grad(f)))(xs), factor * np.cos(xs))


def test_forward_mode_of_vmap_and_vmap_of_forward_mode() -> None:
    xs, vs = np.stack([A, B]), np.stack([B, A])
    near(tl.jvp(tl.vmap(tripled), (xs,), (vs,))[1], 3 * np.cos(xs) * vs)
    near(tl.vmap(lambda x, v: tl.jvp(tripled, (x,), (v,))[1])(xs, vs), 3 * np.cos(xs) * vs)
    near(tl.jvp(tl.vmap(tl.vmap(tripled)), (xs,), (vs,))[1], 3 * np.cos(xs) * vs)


def test_higher_orders_differentiate_the_rule_itself() -> None:
    """d/dx [3·cos x] is an ordinary derivative: −3·sin x; the rule of the inner call is not used for it."""
    near(tl.hessian(lambda x: ops.sum(tripled(x)))(A), np.diag(-3 * np.sin(A)))
    near(tl.jvp(lambda x: tl.jvp(tripled, (x,), (np.ones(3),))[1], (A,), (B,))[1], -3 * np.sin(A) * B)
    near(tl.grad(lambda x: ops.sum(tl.grad(lambda x: ops.sum(tripled(x)))(x)))(A), -3 * np.sin(A))
    near(tl.grad(lambda x: ops.sum(tl.grad(lambda x: ops.sum(quintupled(x)))(x)))(A), -5 * np.sin(A))
    near(tl.jacfwd(tl.jacrev(lambda x: ops.sum(quintupled(x))))(A), np.diag(-5 * np.sin(A)))
    third = tl.grad(tl.grad(tl.grad(lambda x: tripled(x))))(np.float64(0.4))
    near(third, np.asarray(-3 * np.cos(0.4)))


def test_a_rule_that_calls_its_own_function_is_applied_again_at_the_next_order() -> None:
    """exp with the rule y·t·2, y = f(x): orders 1, 2, 3 are 2, 4, 8 times exp x."""

    @tl.custom_jvp
    def f(x: Any) -> Any:
        return ops.exp(x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        y = f(primals[0])
        return y, 2.0 * y * tangents[0]

    made: Any = f
    for order in (1, 2, 3):
        made = tl.grad(made)
        near(made(np.float64(0.3)), np.asarray(2.0**order * np.exp(0.3)))
    near(tl.vmap(tl.grad(tl.grad(f)))(A), 4 * np.exp(A))
    near(tl.grad(lambda x: ops.sum(tl.vmap(tl.grad(f))(x)))(A), 4 * np.exp(A))


# -- several arguments -------------------------------------------------------------------------------------------------
@tl.custom_jvp
def product(x: Any, y: Any) -> Any:
    return x * y


@product.defjvp
def _product_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return x * y, 2.0 * dx * y + 7.0 * x * dy


@tl.custom_vjp
def reverse_product(x: Any, y: Any) -> Any:
    return x * y


reverse_product.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (2.0 * kept[1] * ct, 7.0 * kept[0] * ct))

PRODUCTS = pytest.mark.parametrize("f", [product, reverse_product], ids=["custom_jvp", "custom_vjp"])


@PRODUCTS
def test_each_argument_has_its_own_slope(f: Any) -> None:
    to_x, to_y = tl.grad(lambda x, y: ops.sum(f(x, y)), argnums=(0, 1))(A, B)
    near(to_x, 2 * B)
    near(to_y, 7 * A)
    near(tl.grad(lambda x: ops.sum(f(x, B)))(A), 2 * B)
    near(tl.grad(lambda y: ops.sum(f(A, y)))(B), 7 * A)
    near(tl.grad(lambda x: ops.sum(f(x, x)))(A), 9 * A)


@PRODUCTS
def test_an_unmapped_argument_gets_the_sum_over_the_batch(f: Any) -> None:
    xs = np.stack([A, 2 * A, 3 * A, 4 * A])
    mapped = tl.vmap(f, in_axes=(0, None))
    near(mapped(xs, B), xs * B)
    to_xs, to_y = tl.grad(lambda xs, y: ops.sum(mapped(xs, y)), argnums=(0, 1))(xs, B)
    near(to_xs, np.tile(2 * B, (4, 1)))
    near(to_y, 7 * xs.sum(0))
    other = tl.vmap(f, in_axes=(None, 0))
    to_x, to_ys = tl.grad(lambda x, ys: ops.sum(other(x, ys)), argnums=(0, 1))(A, xs)
    near(to_x, 2 * xs.sum(0))
    near(to_ys, np.tile(7 * A, (4, 1)))
    near(tl.vmap(tl.grad(lambda x, y: ops.sum(f(x, y)), argnums=1), in_axes=(0, None))(xs, B), 7 * xs)
    nested = tl.vmap(tl.vmap(f, in_axes=(0, None)), in_axes=(None, 0))
    to_x, to_y = tl.grad(lambda x, y: ops.sum(nested(x, y)), argnums=(0, 1))(A, B)
    near(to_x, np.full(3, 2 * B.sum()))
    near(to_y, np.full(3, 7 * A.sum()))


def test_forward_mode_through_an_unmapped_argument() -> None:
    xs, dxs, dy = np.stack([A, B]), np.stack([B, A]), direction(3, 3)
    mapped = tl.vmap(product, in_axes=(0, None))
    near(tl.jvp(mapped, (xs, B), (dxs, dy))[1], 2 * dxs * B + 7 * xs * dy)
    near(tl.jvp(lambda y: mapped(xs, y), (B,), (dy,))[1], 7 * xs * dy)


@PRODUCTS
def test_a_python_number_is_an_argument_without_a_slope(f: Any) -> None:
    """Its tangent is 0, not the number."""
    near(tl.grad(lambda x: ops.sum(f(x, 4.0)))(A), np.full(3, 8.0))
    near(tl.grad(lambda y: ops.sum(f(4.0, y)))(A), np.full(3, 28.0))
    near(tl.vmap(tl.grad(lambda x: f(x, 4.0)))(A), np.full(3, 8.0))
    near(tl.grad(lambda xs: ops.sum(tl.vmap(lambda x: f(x, 4.0))(xs)))(A), np.full(3, 8.0))


def test_a_python_numbers_tangent_is_zero_in_forward_mode() -> None:
    near(tl.jvp(lambda x: product(x, 4.0), (A,), (B,))[1], 8 * B)


# -- trees -------------------------------------------------------------------------------------------------------------
@tl.custom_jvp
def tree_jvp(p: Any) -> Any:
    return {"y": p["w"] * p["b"][0], "s": (ops.sum(p["w"]),)}


@tree_jvp.defjvp
def _tree_rule(primals: Any, tangents: Any) -> Any:
    (p,), (t,) = primals, tangents
    return tree_jvp(p), {"y": 2.0 * t["w"] * p["b"][0] + 7.0 * p["w"] * t["b"][0], "s": (3.0 * ops.sum(t["w"]),)}


@tl.custom_vjp
def tree_vjp(p: Any) -> Any:
    return {"y": p["w"] * p["b"][0], "s": (ops.sum(p["w"]),)}


def _tree_back(p: Any, ct: Any) -> Any:
    spread = ops.broadcast_to(ct["s"][0], p["w"].shape)
    return ({"w": 2.0 * ct["y"] * p["b"][0] + 3.0 * spread, "b": [7.0 * ct["y"] * p["w"], None]},)


tree_vjp.defvjp(lambda p: (tree_vjp(p), p), _tree_back)

TREE_RULES = pytest.mark.parametrize("f", [tree_jvp, tree_vjp], ids=["custom_jvp", "custom_vjp"])


@TREE_RULES
def test_rules_over_trees(f: Any) -> None:
    p = {"w": A, "b": [B, None]}

    def loss(p: Any) -> Any:
        out = f(p)
        return ops.sum(out["y"]) + out["s"][0] * 10.0

    made = tl.grad(loss)(p)
    near(made["w"], 2 * B + 30)
    near(made["b"][0], 7 * A)
    assert made["b"][1] is None
    batch = {"w": np.stack([A, B]), "b": [np.stack([B, A]), None]}
    made = tl.vmap(tl.grad(loss))(batch)
    near(made["w"], 2 * batch["b"][0] + 30)
    made = tl.grad(lambda p: ops.sum(tl.vmap(loss)(p)))(batch)
    near(made["w"], 2 * batch["b"][0] + 30)
    near(made["b"][0], 7 * batch["w"])
    axes = ({"w": 0, "b": None},)
    shared = {"w": batch["w"], "b": [B, None]}
    made = tl.grad(lambda p: ops.sum(tl.vmap(loss, in_axes=axes)(p)))(shared)
    near(made["w"], np.tile(2 * B + 30, (2, 1)))
    near(made["b"][0], 7 * (A + B))


def test_none_stands_for_a_zero_cotangent() -> None:
    @tl.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
    to_x, to_y = tl.grad(lambda x, y: ops.sum(f(x, y)), argnums=(0, 1))(A, B)
    near(to_x, B)
    near(to_y, np.zeros(3))
    made = tl.grad(lambda x, y: ops.sum(tl.vmap(f, in_axes=(0, None))(x, y)), argnums=(0, 1))(np.stack([A, B]), B)
    near(made[0], np.stack([B, B]))
    near(made[1], np.zeros(3))


def test_integer_arguments_pass_through_a_rule() -> None:
    @tl.custom_vjp
    def pick(x: Any, i: Any) -> Any:
        return ops.take(x, i)

    pick.defvjp(
        lambda x, i: (ops.take(x, i), (x, i)),
        lambda kept, ct: (2.0 * ops.scatter_add(kept[0] * 0.0, kept[1], ct), None),
    )
    index = np.array([2, 0], dtype=np.int32)
    near(tl.grad(lambda x: ops.sum(pick(x, index)))(A), np.array([2.0, 0.0, 2.0]))
    rows = np.stack([A, B])
    made = tl.grad(lambda x: ops.sum(tl.vmap(pick, in_axes=(0, None))(x, index)))(rows)
    near(made, np.tile([2.0, 0.0, 2.0], (2, 1)))


# -- arguments without a derivative ------------------------------------------------------------------------------------
def test_nondiff_argnums_reach_the_jvp_rule_first() -> None:
    seen: list[Any] = []

    def raised(n: int, x: Any, name: str) -> Any:
        return x**n

    f = tl.custom_jvp(raised, nondiff_argnums=(0, 2))

    @f.defjvp
    def rule(n: int, name: str, primals: Any, tangents: Any) -> Any:
        seen.append((n, name))
        return f(n, primals[0], name), 10.0 * n * primals[0] ** (n - 1) * tangents[0]

    near(f(3, A, "cube"), A**3)
    near(tl.grad(lambda x: ops.sum(f(3, x, "cube")))(A), 30 * A**2)
    near(tl.jvp(lambda x: f(3, x, "cube"), (A,), (B,))[1], 30 * A**2 * B)
    near(tl.vmap(tl.grad(lambda x: f(3, x, "cube")))(A), 30 * A**2)
    near(tl.grad(lambda xs: ops.sum(tl.vmap(lambda x: f(3, x, "cube"))(xs)))(A), 30 * A**2)
    assert set(seen) == {(3, "cube")}


def test_nondiff_argnums_reach_both_vjp_rules() -> None:
    def clipped(x: Any, low: float, high: float) -> Any:
        return x

    f = tl.custom_vjp(clipped, nondiff_argnums=(1, 2))
    f.defvjp(lambda x, low, high: (x, None), lambda low, high, _, ct: (ops.clamp(ct, low, high),))
    near(tl.grad(lambda x: ops.sum(f(x, -1.0, 1.0) * np.array([5.0, -0.5, -9.0])))(A), np.array([1.0, -0.5, -1.0]))
    xs = np.stack([A, B])
    made = tl.grad(lambda x: ops.sum(tl.vmap(lambda x: f(x, -1.0, 1.0))(x) * 5.0))(xs)
    near(made, np.ones((2, 3)))


def test_keywords_and_defaults_are_resolved_by_the_signature() -> None:
    def raised(x: Any, n: int = 2) -> Any:
        return x**n

    f = tl.custom_jvp(raised, nondiff_argnums=(1,))
    f.defjvp(lambda n, primals, tangents: (primals[0] ** n, 10.0 * n * tangents[0]))
    near(f(A), A**2)
    near(f(x=A, n=3), A**3)
    near(tl.grad(lambda x: ops.sum(f(x)))(A), np.full(3, 20.0))
    near(tl.grad(lambda x: ops.sum(f(x, n=3)))(A), np.full(3, 30.0))
    g = tl.custom_jvp(raised, nondiff_argnums=(-1,))
    g.defjvp(lambda n, primals, tangents: (primals[0] ** n, 10.0 * n * tangents[0]))
    near(tl.grad(lambda x: ops.sum(g(x, 3)))(A), np.full(3, 30.0))


def test_a_captured_value_that_is_not_differentiated_is_allowed() -> None:
    """The function (not its rule) closes over a value of the enclosing trace."""

    def outer(x: Any, shift: Any) -> Any:
        @tl.custom_jvp
        def f(y: Any) -> Any:
            return y * y + shift

        f.defjvp(lambda primals, tangents: (primals[0] ** 2, 6.0 * primals[0] * tangents[0]))
        return ops.sum(f(x))

    near(tl.grad(outer)(A, np.float64(2.0)), 6 * A)
    near(tl.vmap(tl.grad(outer), in_axes=(0, None))(np.stack([A, B]), np.float64(2.0)), 6 * np.stack([A, B]))
    near(outer(A, np.float64(2.0)), np.asarray((A * A + 2).sum()))


def test_a_custom_function_inside_a_composite_function_and_a_conv() -> None:
    def f(x: Any) -> Any:
        y = ops.softmax(tripled(x))
        return ops.sum(ops.conv(y.reshape(1, 1, 3), np.ones((1, 1, 2)))[0, 0] * np.array([1.0, -2.0]))

    def plain(x: Any) -> Any:
        y = ops.softmax(ops.sin(x))
        return ops.sum(ops.conv(y.reshape(1, 1, 3), np.ones((1, 1, 2)))[0, 0] * np.array([1.0, -2.0]))

    near(f(A), np.asarray(plain(A)))
    near(tl.grad(f)(A), 3 * np.asarray(tl.grad(plain)(A)))


def test_log1pexp_with_its_stable_rule_is_jaxs_example() -> None:
    """The example of JAX's custom_jvp documentation: exact where e^x overflows."""

    @tl.custom_jvp
    def log1pexp(x: Any) -> Any:
        return ops.log(1.0 + ops.exp(x))

    @log1pexp.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return log1pexp(x), (1.0 - 1.0 / (1.0 + ops.exp(x))) * t

    assert float(tl.grad(log1pexp)(np.float64(1000.0))) == 1.0
    near(tl.grad(log1pexp)(np.float64(0.0)), np.asarray(0.5))
    near(tl.vmap(tl.grad(log1pexp))(np.array([1000.0, 0.0])), np.array([1.0, 0.5]))


@BOTH
def test_the_eager_tape_uses_the_rule(f: Any, factor: float) -> None:
    """A custom call is one node of the tape, not the nodes of its body."""
    with tl.Session(track_gradients=True) as session:
        x = session.parameter(A)
        gradient = session.backward(ops.sum(f(x) * B))[x]
    near(gradient, factor * np.cos(A) * B)


def test_jit_of_a_transformed_custom_function_runs_the_transform() -> None:
    """`functools.wraps` copies attributes; the function a wrapper holds must not be among them."""

    @tl.custom_jvp
    def f(x: Any) -> Any:
        return ops.sum(x * x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return f(*primals), ops.sum(3.0 * primals[0] * tangents[0])

    x = np.array([1.0, 2.0], dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(tl.jit(tl.grad(f))(x)), 3 * x)
