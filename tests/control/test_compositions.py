"""Loops with the rest of the package inside: custom rules, composites, optimizers, random keys, jit, deep nests."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchlean as tl
from torchlean import nn, ops, optim

# Two slopes near π/2 meet in the looped programs: cos there turns the rounding of its operand into 2⁻¹⁴ of itself.
XS = np.linspace(0.5, 1, 4, dtype=np.float32)
X = np.float32(0.3)


@tl.custom_vjp
def doubled(x: Any) -> Any:
    """Its stated derivative is twice the true one."""
    return ops.sin(x)


doubled.defvjp(lambda x: (ops.sin(x), x), lambda x, ct: (ct * 2.0 * ops.cos(x),))


@tl.custom_jvp
def doubled_forward(x: Any) -> Any:
    """As `doubled`, for both modes."""
    return ops.sin(x)


@doubled_forward.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return ops.sin(primals[0]), 2.0 * ops.cos(primals[0]) * tangents[0]


@jax.custom_jvp
def theirs(x: Any) -> Any:
    """As `doubled_forward`, in JAX."""
    return jnp.sin(x)


@theirs.defjvp
def _theirs_rule(primals: Any, tangents: Any) -> Any:
    return jnp.sin(primals[0]), 2.0 * jnp.cos(primals[0]) * tangents[0]


def looped(f: Any, scan: Any) -> Any:
    return lambda x: scan(lambda c, y: (f(c) * y + y, None), x, XS)[0]


@pytest.mark.parametrize("save", ["carries", "residuals"])
@pytest.mark.parametrize("f", [doubled, doubled_forward], ids=["custom_vjp", "custom_jvp"])
def test_a_custom_rule_inside_a_loop_is_followed(f: Any, save: str) -> None:
    want = jax.grad(looped(theirs, jax.lax.scan))(X)
    got = tl.grad(looped(f, lambda *xs: tl.scan(*xs, save=save)))(X)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4)


def test_a_custom_rule_inside_a_branch_a_checkpoint_and_a_while_loop_is_followed() -> None:
    slope = 2 * np.cos(X)
    for f in (doubled, doubled_forward):
        np.testing.assert_allclose(
            np.asarray(tl.grad(lambda x, f=f: tl.cond(x > 0, f, ops.exp, x))(X)), slope, rtol=1e-6
        )
        np.testing.assert_allclose(np.asarray(tl.grad(tl.checkpoint(f))(X)), slope, rtol=1e-6)

    def once(x: Any) -> Any:
        return tl.while_loop(lambda c: c[1] < 1, lambda c: (doubled_forward(c[0]), c[1] + 1), (x, 0))[0]

    np.testing.assert_allclose(np.asarray(tl.jvp(once, (X,), (np.float32(1),))[1]), slope, rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(tl.jvp(looped(doubled_forward, tl.scan), (X,), (np.float32(1),))[1]),
        np.asarray(jax.grad(looped(theirs, jax.lax.scan))(X)),
        rtol=1e-4,
    )


def test_a_training_loop_is_one_node_with_the_bits_of_its_steps() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.tanh, nn.Linear(8, 3))
    params = model.init(tl.random.key(0))
    adam = optim.Adam(1e-2)
    random = np.random.default_rng(0)
    xs, ys = random.normal(size=(6, 16, 4)).astype(np.float32), random.integers(0, 3, (6, 16)).astype(np.int32)

    def step(state: Any, batch: Any) -> Any:
        weights, moments = state
        x, y = batch
        loss, gradients = tl.value_and_grad(lambda p: nn.cross_entropy(model(p, x), y))(weights)
        return adam.update(gradients, moments, weights), loss

    start = (params, adam.init(params))
    whole = tl.lower(lambda state, xs, ys: tl.scan(step, state, (xs, ys)), start, xs, ys)
    assert [node.op.name for node in whole.graph.nodes] == ["scan"]
    (weights, _), losses = whole(start, xs, ys)
    state = start
    single = tl.lower(lambda state, x, y: step(state, (x, y)), start, xs[0], ys[0])
    for at in range(6):
        state, loss = single(state, xs[at], ys[at])
        assert np.asarray(loss).tobytes() == np.asarray(losses)[at].tobytes()
    pairs = zip(tl.pytree.leaves(weights), tl.pytree.leaves(state[0]), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def test_random_keys_are_scanned_over() -> None:
    keys = tl.random.split(tl.random.key(0), 3)
    walked, _ = tl.scan(lambda c, k: (c + tl.random.normal(k, (2,)), None), np.zeros(2, np.float32), keys)
    want = sum([np.asarray(tl.random.normal(keys[at], (2,))) for at in range(3)])
    np.testing.assert_array_equal(np.asarray(walked), want)


def test_jit_and_vmap_inside_a_loop() -> None:
    rows = np.ones((3, 2), np.float32)
    got, _ = tl.scan(lambda c, x: (tl.jit(ops.sin)(c) + tl.vmap(ops.cos)(x).sum(), None), np.float32(0), rows)
    want, _ = jax.lax.scan(lambda c, x: (jnp.sin(c) + jnp.cos(x).sum(), None), jnp.float32(0), rows)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_a_deep_nest_of_loops_is_differentiated() -> None:
    def nest(depth: int, x: Any) -> Any:
        return ops.sin(x) if not depth else tl.scan(lambda c, _: (nest(depth - 1, c), None), x, None, 1)[0]

    np.testing.assert_allclose(np.asarray(tl.grad(lambda x: nest(12, x))(X)), np.cos(X), rtol=1e-6)


def test_shapes_are_known_without_running() -> None:
    out = tl.eval_shape(lambda x: tl.scan(lambda c, y: (c, (y, c)), x, XS), X)
    assert str(out) == "(f32[], (f32[4], f32[4]))"
