"""Jacobians and Hessians: every way to compute them agrees, with JAX and with each other, over trees too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, near

import torchlean as tl
from torchlean import ops


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_both_jacobians_are_jaxs(twin: Twin) -> None:
    want = jax_derivatives(twin).first
    near(tl.jacfwd(twin.ours)(twin.point), want)
    near(tl.jacrev(twin.ours)(twin.point), want)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_every_order_of_jacobians_is_jaxs_second_derivative(twin: Twin) -> None:
    want = jax_derivatives(twin).second
    for outer in (tl.jacfwd, tl.jacrev):
        for inner in (tl.jacfwd, tl.jacrev):
            near(outer(inner(twin.ours))(twin.point), want)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_hessian_of_a_weighted_sum_is_jaxs_and_symmetric(twin: Twin) -> None:
    want = jax_derivatives(twin)
    ct = direction(5, len(want.value))
    made = np.asarray(tl.hessian(lambda x: ops.sum(twin.ours(x) * ct))(twin.point))
    near(made, np.einsum("m,mij->ij", ct, want.second))
    near(made, made.T)


def test_a_jacobian_over_trees_has_the_output_tree_of_input_trees() -> None:
    x = {"a": direction(0, 2), "b": (direction(1, 3),)}

    def f(x: Any) -> Any:
        return {"p": ops.sum(x["a"]) * x["b"][0], "q": x["a"] * x["a"]}

    total = x["a"].sum()
    for jacobian in (tl.jacfwd, tl.jacrev):
        made = jacobian(f)(x)
        assert sorted(made) == ["p", "q"]
        assert sorted(made["p"]) == ["a", "b"]
        near(made["p"]["a"], np.outer(x["b"][0], np.ones(2)))
        near(made["p"]["b"][0], total * np.eye(3))
        near(made["q"]["a"], np.diag(2 * x["a"]))
        near(made["q"]["b"][0], np.zeros((2, 3)))


def test_a_hessian_over_trees_has_every_block() -> None:
    x = {"a": direction(0, 2), "b": direction(1, 3)}

    def f(x: Any) -> Any:
        return ops.sum(x["a"] ** 3) + ops.sum(x["a"]) * ops.sum(x["b"] ** 2)

    made = tl.hessian(f)(x)
    near(made["a"]["a"], np.diag(6 * x["a"]))
    near(made["a"]["b"], np.tile(2 * x["b"], (2, 1)))
    near(made["b"]["a"], np.tile(2 * x["b"], (2, 1)).T)
    near(made["b"]["b"], 2 * x["a"].sum() * np.eye(3))


def test_argnums_of_jacobians_select_and_order_the_blocks() -> None:
    x, y = direction(0, 2), direction(1, 3)

    def f(x: Any, y: Any) -> Any:
        return ops.broadcast(x, (2, 3), (0,)) * y

    want_x = np.einsum("ik,j->ijk", np.eye(2), y)
    want_y = np.einsum("jk,i->ijk", np.eye(3), x)
    for jacobian in (tl.jacfwd, tl.jacrev):
        near(jacobian(f)(x, y), want_x)
        near(jacobian(f, argnums=-1)(x, y), want_y)
        by_y, by_x = jacobian(f, argnums=(1, 0))(x, y)
        near(by_x, want_x)
        near(by_y, want_y)
    blocks = tl.hessian(lambda x, y: ops.sum(f(x, y) ** 2), argnums=(0, 1))(x, y)
    near(blocks[0][0], 2 * (y @ y) * np.eye(2))
    near(blocks[1][1], 2 * (x @ x) * np.eye(3))
    near(blocks[0][1], 4 * np.outer(x, y))
    near(blocks[1][0], 4 * np.outer(y, x))


def test_has_aux_of_jacobians_and_hessian_is_passed_through() -> None:
    x = direction(0, 3)

    def f(x: Any) -> Any:
        return ops.sum(x**3), {"cube": x**3, "name": "third power"}

    for jacobian, want in ((tl.jacfwd, 3 * x**2), (tl.jacrev, 3 * x**2), (tl.hessian, np.diag(6 * x))):
        made, aux = jacobian(f, has_aux=True)(x)
        near(made, want)
        near(aux["cube"], x**3)
        assert aux["name"] == "third power"


def test_the_jacobian_of_a_function_of_no_entries_is_empty() -> None:
    for jacobian in (tl.jacfwd, tl.jacrev):
        assert np.asarray(jacobian(ops.sin)(np.zeros((0,)))).shape == (0, 0)
        assert np.asarray(jacobian(ops.sum)(np.zeros((0, 2)))).shape == (0, 2)


def test_the_hessian_of_a_mapped_loss_is_block_diagonal() -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (3, 2))
    per_row = np.asarray(tl.vmap(tl.hessian(lambda row: ops.sum(ops.tanh(row)) ** 2))(x))
    whole = np.asarray(tl.hessian(lambda x: ops.sum(tl.vmap(lambda row: ops.sum(ops.tanh(row)) ** 2)(x)))(x))
    for i in range(3):
        for j in range(3):
            near(whole[i, :, j, :], per_row[i] if i == j else np.zeros((2, 2)))
