"""checkpoint: equal values, less memory, nothing shared with what it computes again; measured."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from golden_text import require_golden

import torchlean as tl
from torchlean import ops
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, sub_graphs
from torchlean.ir.printer import graph_text
from torchlean.ir.serialize import content_hash, dumps, loads

DEPTH, SEGMENT, WIDTH, ROWS = 200, 14, 16, 256
GOAL = 0.35  # of the plain program's peak

POLICIES = (None, "nothing", "dots", "everything", tl.save_names("h"), tl.save_names("absent"))


def layer(x: Any, w: Any) -> Any:
    return ops.tanh(ops.matmul(x, w))


def segment(x: Any, ws: Any) -> Any:
    for w in ws:
        x = layer(x, w)
    return x


def mlp(part: Callable[..., Any]) -> Callable[..., Any]:
    """A deep net of segments; `part` is `segment`, or a checkpointed one."""

    def loss(ws: Any, x: Any) -> Any:
        for start in range(0, len(ws), SEGMENT):
            x = part(x, ws[start : start + SEGMENT])
        return ops.sum(x * x)

    return loss


def operands(depth: int = DEPTH) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    ws = [(random.normal(size=(WIDTH, WIDTH)) / 4).astype(np.float32) for _ in range(depth)]
    return ws, random.normal(size=(ROWS, WIDTH)).astype(np.float32)


def peak_bytes(f: Callable[..., Any], ws: Any, x: Any) -> tuple[int, tuple[Any, ...]]:
    """Peak of what the generated program allocates, arguments apart (NumPy reports to tracemalloc), and its results."""
    run = tl.lower(tl.grad(f), ws, x).executable.call
    results = run(*ws, x)
    tracemalloc.start()
    try:
        run(*ws, x)
        return tracemalloc.get_traced_memory()[1], results
    finally:
        tracemalloc.stop()


def test_a_rematerialised_deep_net_needs_a_third_of_the_memory_and_has_the_same_gradient() -> None:
    ws, x = operands()
    plain, want = peak_bytes(mlp(segment), ws, x)
    assert plain > (DEPTH - 1) * ROWS * WIDTH * 4  # every layer's result is kept
    ratios: dict[str, float] = {}
    for policy in (None, "everything"):
        peak, got = peak_bytes(mlp(tl.checkpoint(segment, policy)), ws, x)
        ratios[str(policy)] = peak / plain
        assert [a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True)] == [True] * DEPTH
    print(f"peak of {DEPTH} layers: {plain} bytes plain, × {ratios['None']:.2f} checkpointed every {SEGMENT}")
    assert ratios["None"] <= GOAL
    assert 0.9 <= ratios["everything"] <= 1.2


def block(x: Any, w: Any) -> Any:
    h = ops.checkpoint_name(ops.tanh(ops.matmul(w, x)), "h")
    return ops.sin(h) * x + ops.matmul(w, h)


def jax_block(x: Any, w: Any) -> Any:
    h = jax.numpy.tanh(w @ x)
    return jax.numpy.sin(h) * x + w @ h


def saved_by(policy: Any) -> int:
    """How many values besides its results the forward node gives out."""
    x, w = np.ones(3, np.float32), np.ones((3, 3), np.float32)
    graph = tl.make_graph(tl.grad(lambda x, w: tl.checkpoint(block, policy)(x, w).sum()))(x, w)
    forward = next(node for node in graph.nodes if node.op.name == "checkpoint")
    return len(forward.outputs) - 1


def inside(graph: Graph, name: str) -> int:
    """Nodes of an op, at any depth."""
    here = [node.op.name == name for node in graph.nodes]
    return sum(here) + sum([inside(held, name) for node in graph.nodes for _, held in sub_graphs(node.params)])


def test_a_policy_says_what_is_kept() -> None:
    kept = {str(policy): saved_by(policy) for policy in POLICIES}
    assert kept == {
        "None": 0,
        "nothing": 0,
        "dots": 1,  # the first product; nothing reads the second
        "everything": 2,  # tanh and sin
        "SaveNames(names=('h',))": 1,
        "SaveNames(names=('absent',))": 0,
    }


def test_what_is_kept_is_not_computed_again_and_what_is_not_is() -> None:
    x, w = np.ones(3, np.float32), np.ones((3, 3), np.float32)
    products = {}
    for policy in (None, "dots", "everything"):
        graph = tl.make_graph(tl.grad(lambda x, w, p=policy: tl.checkpoint(block, p)(x, w).sum(), argnums=(0, 1)))(x, w)
        check(graph)
        products[str(policy)] = inside(graph, "dot_general"), inside(graph, "tanh")
    assert products["None"] == (2 + 1 + 4, 2)  # forward, again, and two per product in reverse
    assert products["dots"] == (2 + 0 + 4, 2)
    assert products["everything"] == (2 + 0 + 4, 1)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_values_and_derivatives_are_those_without_it(policy: Any) -> None:
    random = np.random.default_rng(1)
    x, w = random.normal(size=3).astype(np.float32), random.normal(size=(3, 3)).astype(np.float32)
    part = tl.checkpoint(block, policy)

    def chain(f: Any) -> Callable[..., Any]:
        return lambda x, w: (f(f(x, w), w) ** 2).sum()

    mine, want = chain(part), chain(jax_block)
    close = {"rtol": 2e-4, "atol": 2e-4}
    assert np.asarray(mine(x, w)).tobytes() == np.asarray(chain(block)(x, w)).tobytes()
    # The cotangent of w is added up within each part first, so only that of x has the bits of the plain program.
    assert np.asarray(tl.grad(mine)(x, w)).tobytes() == np.asarray(tl.grad(chain(block))(x, w)).tobytes()
    for got, theirs in zip(tl.grad(mine, argnums=(0, 1))(x, w), jax.grad(want, argnums=(0, 1))(x, w), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(theirs), **close)
    second = np.asarray(tl.hessian(mine)(x, w)), np.asarray(jax.hessian(want)(x, w))
    np.testing.assert_allclose(*second, rtol=2e-3, atol=2e-3)
    xs = np.stack([x, -x, x * 2])
    got = tl.vmap(tl.grad(mine), in_axes=(0, None))(xs, w)
    np.testing.assert_allclose(np.asarray(got), np.asarray(jax.vmap(jax.grad(want), in_axes=(0, None))(xs, w)), **close)
    got = tl.jvp(mine, (x, w), (w[0], w))
    np.testing.assert_allclose(np.asarray(got[1]), np.asarray(jax.jvp(want, (x, w), (w[0], w))[1]), **close)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_under_grad_of_vmap_of_scan(policy: Any) -> None:
    random = np.random.default_rng(2)
    xs, w = random.normal(size=(4, 3)).astype(np.float32), (random.normal(size=(3, 3)) / 2).astype(np.float32)

    def f(part: Any, scan: Any) -> Callable[..., Any]:
        def one(x: Any, w: Any) -> Any:
            return scan(lambda c, _: (part(c, w), None), x, None, 5)[0]

        return one

    def total(lib: Any, one: Any) -> Callable[..., Any]:
        return lambda xs, w: (lib.vmap(one, in_axes=(0, None))(xs, w) ** 2).sum()

    for save in ("carries", "residuals"):

        def scan(*given: Any, save: str = save) -> Any:
            return tl.scan(*given, save=save)

        got = tl.grad(total(tl, f(tl.checkpoint(block, policy), scan)), argnums=(0, 1))(xs, w)
        want = jax.grad(total(jax, f(jax_block, jax.lax.scan)), argnums=(0, 1))(xs, w)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-3 * float(np.abs(b).max()))


def test_it_takes_trees_static_arguments_and_what_it_closes_over() -> None:
    (w, x) = np.full((3, 3), 0.5, np.float32), np.ones(3, np.float32)

    @tl.checkpoint
    def f(tree: Any, power: int, *, name: str) -> Any:
        assert isinstance(power, int)
        assert name == "n"
        return {"y": tree["x"] ** power, "z": None}

    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: f({"x": x}, 3, name="n")["y"].sum())(x)), 3 * x)
    closed = tl.grad(lambda w: tl.checkpoint(lambda x: ops.matmul(w, x).sum())(x))(w)
    np.testing.assert_array_equal(np.asarray(closed), np.ones((3, 3), np.float32))
    assert tl.remat is tl.checkpoint


def test_the_recomputation_is_printed_written_and_read() -> None:
    x = np.ones(3, np.float32)
    graph = tl.make_graph(tl.grad(lambda x: tl.checkpoint(lambda x: ops.sin(ops.sin(x)).sum())(x)))(x)
    require_golden("graph_checkpoint", graph_text(graph))
    again = loads(dumps(graph))
    assert content_hash(again) == content_hash(graph)
    assert denote(again, (x,))[0].tobytes() == denote(graph, (x,))[0].tobytes()
    f = tl.value_and_grad(lambda x: tl.checkpoint(lambda x: ops.sin(ops.sin(x)).sum())(x))
    assert inside(tl.lower(f, x).plan.graph, "sin") == 3  # two forward, one again: planning shares nothing across
