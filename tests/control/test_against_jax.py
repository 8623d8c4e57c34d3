"""Values and derivatives of loops and branches against JAX, to second order, under vmap, in every way of running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control.programs import JAX, OURS, PROGRAMS, arguments, drawn

import torchlean as tl
from torchlean import ops

# Each program makes at most 15 float32 matrix-vector products in a row, with entries below 2⁴: both sides are rounded
# within a few hundred units of that.
TOLERANCE = 2.0**9 * float(np.finfo(np.float32).eps)

SAVES = ("carries", "residuals")
CASES = [pytest.param(name, save, id=f"{name}-{save}") for name in PROGRAMS for save in SAVES]


def assert_close(got: Any, want: Any, scale: float = 1.0) -> None:
    mine, theirs = tl.pytree.leaves(got), jax.tree_util.tree_leaves(want)
    assert len(mine) == len(theirs) > 0
    for a, b in zip(mine, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        bound = TOLERANCE * scale * max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)


def both(name: str, save: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return PROGRAMS[name](OURS, save=save), PROGRAMS[name](JAX)


@pytest.mark.parametrize(("name", "save"), CASES)
def test_values_and_gradients(name: str, save: str) -> None:
    ours, theirs = both(name, save)
    operands = arguments()
    want = jax.value_and_grad(theirs, argnums=(0, 1, 2))(*operands)
    assert_close(tl.value_and_grad(ours, argnums=(0, 1, 2))(*operands), want)
    assert_close(tl.lower(tl.value_and_grad(ours, argnums=(0, 1, 2)), *operands)(*operands), want)
    fast = tl.lower(tl.value_and_grad(ours, argnums=(0, 1, 2)), *operands, profile=tl.profiles.fast_cpu)
    assert_close(fast(*operands), want)
    for argnum in range(3):  # one operand alone: other carries start without a derivative
        assert_close(tl.grad(ours, argnum)(*operands), want[1][argnum])


@pytest.mark.parametrize(("name", "save"), CASES)
def test_forward_mode(name: str, save: str) -> None:
    ours, theirs = both(name, save)
    operands, directions = arguments(), arguments(seed=1)
    assert_close(tl.jvp(ours, operands, directions), jax.jvp(theirs, operands, directions))
    for argnum in range(3):
        x, v = operands[argnum], directions[argnum]

        def alone(f: Any, argnum: int = argnum) -> Any:
            return lambda own: f(*operands[:argnum], own, *operands[argnum + 1 :])

        assert_close(tl.jvp(alone(ours), (x,), (v,)), jax.jvp(alone(theirs), (x,), (v,)))
        value, push = tl.linearize(alone(ours), x)
        assert_close((value, push(v)), jax.jvp(alone(theirs), (x,), (v,)))
        assert_close(tl.jacfwd(alone(ours))(x), jax.jacfwd(alone(theirs))(x))


@pytest.mark.parametrize(("name", "save"), CASES)
def test_second_order(name: str, save: str) -> None:
    ours, theirs = both(name, save)
    operands, directions = arguments(), arguments(seed=1)
    assert_close(tl.hessian(ours, argnums=1)(*operands), jax.hessian(theirs, argnums=1)(*operands), 8)
    mine = tl.jvp(lambda *xs: tl.grad(ours, argnums=(0, 1, 2))(*xs), operands, directions)
    want = jax.jvp(lambda *xs: jax.grad(theirs, argnums=(0, 1, 2))(*xs), operands, directions)
    assert_close(mine, want, 8)

    def slope(lib: Any, f: Any) -> Any:
        return lambda *xs: sum([(g * g).sum() for g in lib.grad(f, argnums=(0, 1, 2))(*xs)])

    assert_close(
        tl.grad(slope(tl, ours), argnums=(0, 1, 2))(*operands),
        jax.grad(slope(jax, theirs), argnums=(0, 1, 2))(*operands),
        64,
    )


@pytest.mark.parametrize(("name", "save"), CASES)
@pytest.mark.parametrize("axes", [(None, 0, None), (0, None, None), (None, None, 1), (0, 0, 0)], ids=str)
def test_vmap_and_its_gradient(name: str, save: str, axes: Sequence[int | None]) -> None:
    ours, theirs = both(name, save)
    operands = [
        np.stack([x, -x, x + 0.5, x * 0.0], axis) if axis is not None else x
        for x, axis in zip(arguments(), axes, strict=True)
    ]
    assert_close(tl.vmap(ours, in_axes=axes)(*operands), jax.vmap(theirs, in_axes=axes)(*operands))
    mine = tl.vmap(tl.grad(ours, argnums=(0, 1, 2)), in_axes=axes)(*operands)
    assert_close(mine, jax.vmap(jax.grad(theirs, argnums=(0, 1, 2)), in_axes=axes)(*operands))
    total = tl.grad(lambda *xs: tl.vmap(ours, in_axes=axes)(*xs).sum(), argnums=(0, 1, 2))(*operands)
    assert_close(total, jax.grad(lambda *xs: jax.vmap(theirs, in_axes=axes)(*xs).sum(), argnums=(0, 1, 2))(*operands))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("save", SAVES)
def test_reversed_scans(save: str, reverse: bool) -> None:
    from control.programs import rnn

    operands = arguments()
    mine = tl.value_and_grad(rnn(OURS, save, reverse), argnums=(0, 1, 2))(*operands)
    assert_close(mine, jax.value_and_grad(rnn(JAX, reverse=reverse), argnums=(0, 1, 2))(*operands))


# -- while -------------------------------------------------------------------------------------------------------------
def doubling(lib: Any) -> Callable[..., Any]:
    """Multiplies until the sum is large: how often depends on the operands."""

    def f(x: Any, rate: Any) -> Any:
        def goes_on(carry: Any) -> Any:
            return (carry["x"] * carry["x"]).sum() < 50.0

        def body(carry: Any) -> Any:
            return {"x": carry["x"] * rate + np.float32(0.01), "n": carry["n"] + 1}

        last = lib.while_loop(goes_on, body, {"x": x, "n": np.int32(0)})
        return last["x"], last["n"]

    return f


@pytest.mark.parametrize("axes", [None, (0, None), (None, 0), (0, 0)], ids=str)
def test_while_loops_in_forward_mode_and_under_vmap(axes: Any) -> None:
    ours, theirs = doubling(OURS), doubling(JAX)
    (x,) = drawn((3,))
    rate = np.float32(1.7)
    if axes is not None:
        x = np.stack([x, 3 * x, x + 9, 0 * x]) if axes[0] == 0 else x
        rate = np.array([1.7, -2.0, 1.2, 3.0], np.float32) if axes[1] == 0 else rate
        ours, theirs = tl.vmap(ours, in_axes=axes), jax.vmap(theirs, in_axes=axes)
    assert_close(ours(x, rate), theirs(x, rate))
    assert_close(tl.lower(ours, x, rate)(x, rate), theirs(x, rate))
    (v,) = drawn(x.shape, seed=2)
    moved = np.full_like(rate, 0.5)
    mine = tl.jvp(lambda x, r: ours(x, r)[0], (x, rate), (v, moved))
    # The slope of a product of n factors is n times as large as its rounding.
    assert_close(mine, jax.jvp(lambda x, r: theirs(x, r)[0], (x, rate), (v, moved)), 64)


def test_a_traced_bound_makes_a_while_loop_and_a_static_one_a_scan() -> None:
    (x,) = drawn((3,))

    def f(lib: Any) -> Any:
        return lambda n, x: lib.fori_loop(0, n, lambda i, c: c * 0.5 + i.astype("float32"), x)

    assert_close(tl.lower(f(OURS), np.int32(4), x)(np.int32(4), x), f(JAX)(4, x))
    assert [node.op.name for node in tl.make_graph(f(OURS))(np.int32(4), x).nodes if node.params is not None][
        -1
    ] == "while"
    static = tl.make_graph(lambda x: f(OURS)(4, x))(x)
    assert "scan" in [node.op.name for node in static.nodes]
    assert_close(tl.grad(lambda x: f(OURS)(4, x).sum())(x), jax.grad(lambda x: f(JAX)(4, x).sum())(x))


# -- associative scans -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 13])
def test_associative_scans(count: int, axis: int, reverse: bool) -> None:
    a, b = drawn((count, 2) if axis == 0 else (2, count), (count, 2) if axis == 0 else (2, count))

    def combine(left: Any, right: Any) -> Any:  # (a, b) stands for x ↦ a·x + b
        return left["a"] * right["a"], left["b"] * right["a"] + right["b"]

    def pairs(left: Any, right: Any) -> Any:
        made = combine(left, right)
        return {"a": made[0], "b": made[1]}

    mine = tl.associative_scan(pairs, {"a": a, "b": b}, reverse=reverse, axis=axis)
    axis %= 2  # JAX reverses along non-negative axes only
    want = jax.lax.associative_scan(pairs, {"a": jnp.asarray(a), "b": jnp.asarray(b)}, reverse=reverse, axis=axis)
    assert_close(mine, want)

    def total(lib: Any) -> Any:
        return lambda a, b: (lib({"a": a, "b": b})["b"] ** 2).sum()

    if count:
        mine = tl.grad(total(lambda t: tl.associative_scan(pairs, t, reverse, axis)), argnums=(0, 1))(a, b)
        want = jax.grad(total(lambda t: jax.lax.associative_scan(pairs, t, reverse, axis)), argnums=(0, 1))(a, b)
        assert_close(mine, want)


def test_an_associative_scan_calls_its_function_a_logarithmic_number_of_times() -> None:
    calls = []

    def add(a: Any, b: Any) -> Any:
        calls.append(a.shape)
        return ops.add(a, b)

    (x,) = drawn((1000,))
    got = np.asarray(tl.associative_scan(add, x))
    assert len(calls) <= 2 * 10
    np.testing.assert_allclose(got, np.cumsum(x, dtype=np.float64), rtol=0, atol=1e-4)


def test_the_number_of_cases_is_known() -> None:
    assert len(CASES) == len(PROGRAMS) * 2 == 8
