"""Ratios to peers with wide margins: what would make the framework several times slower, or hold twice the memory.

CPU time, so that other processes and threads do not decide; the least of rounds taken in turn, tried three times before
it counts. `benchmarks/` measures the same against the goals.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED
from backends.toolbox import normal

import torchlean as tl
from torchlean import ops, pytree
from torchlean.backends import profiles
from torchlean.backends.compiled import MODULE

FOLDER = Path(__file__).parents[2] / "benchmarks"
TRIES = 3


@pytest.fixture
def compiler() -> None:
    reason = MODULE.probe()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def train_step() -> Iterator[Any]:
    """The benchmark whose steps are written by hand in NumPy."""
    if not FOLDER.is_dir():
        pytest.skip("the benchmarks are not here")
    before = {name: sys.modules.get(name) for name in ("train_step", "_paired")}
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("train_step")
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)


def holds(most: float, ours: Callable[[], Any], theirs: Callable[[], Any], *, calls: int = 1, rounds: int = 7) -> None:
    """Ours takes at most so many times theirs."""

    def seconds(f: Callable[[], Any]) -> float:
        start = time.process_time()
        for _ in range(calls):
            f()
        return time.process_time() - start

    ours(), theirs()
    seen: list[float] = []
    collects = gc.isenabled()
    gc.disable()  # what other tests have left would be looked through for us, who allocate more than others
    try:
        for _ in range(TRIES):
            pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
            seen.append(min([a for a, _ in pairs]) / max(min([b for _, b in pairs]), 1e-9))
            if seen[-1] <= most:
                return
    finally:
        if collects:
            gc.enable()
    pytest.fail(f"{min(seen):.3g} times as long, at most {most} expected (of {TRIES} tries: {seen})")


def test_a_margin_that_is_not_held_is_seen() -> None:
    with pytest.raises(pytest.fail.Exception, match="times as long, at most 2 expected"):
        holds(2, lambda: sum(range(30_000)), lambda: sum(range(3_000)), calls=20)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("classes", [False, True], ids=["quickstart", "digits"])
def test_a_compiled_training_step_is_not_slower_than_numpy_by_hand(classes: bool, train_step: Any) -> None:
    """0.2 and 0.5 where it was measured."""
    sizes, batch = ((64, 128, 10), 64) if classes else ((2, 8, 1), 25)
    params, x, t = train_step.problem(sizes, batch, classes)
    step = tl.lower(train_step.sgd_step(classes), params, x, t, profile=COMPILED)
    by_hand = (train_step.digits_by_hand if classes else train_step.small_by_hand)(batch)
    for a, b in zip(step(params, x, t)[0], by_hand(params, x, t)[0], strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-6)
    holds(2, lambda: step(params, x, t), lambda: by_hand(params, x, t), calls=200)


@pytest.mark.usefixtures("compiler")
def test_a_strict_product_is_near_that_of_blas() -> None:
    """1 where it was measured, with OpenBLAS free to choose its kernel; vectorised NumPy would be at 18."""
    a, b = normal(256, 256, seed=1), normal(256, 256, seed=2)
    run = tl.lower(lambda a, b: a @ b, a, b, profile=COMPILED).executable.call
    holds(4, lambda: run(a, b), lambda: a @ b, calls=5)


@pytest.mark.usefixtures("compiler")
def test_a_chain_of_elementwise_ops_is_one_loop() -> None:
    """0.2 where it was measured: NumPy goes over memory for every op."""

    def f(x: Any, y: Any) -> Any:
        return (((x * y + 1.0) * x - y) * 0.5 + x) * y - 0.25

    x, y = normal(1 << 20, seed=1), normal(1 << 20, seed=2)
    run = tl.lower(f, x, y, profile=COMPILED).executable.call
    holds(1, lambda: run(x, y), lambda: f(x, y), calls=2)


@pytest.mark.usefixtures("compiler")
def test_softmax_is_near_that_of_numpy() -> None:
    """0.3 where it was measured."""

    def by_hand(x: Any) -> Any:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    x = normal(512, 1024)
    run = tl.lower(lambda x: ops.softmax(x, -1), x, profile=COMPILED).executable.call
    (made,) = run(x)
    np.testing.assert_allclose(made, by_hand(x), rtol=1e-5)
    holds(2, lambda: run(x), lambda: by_hand(x), calls=2)


def deep(library: Any, layers: list[Any], x: Any) -> Any:
    for w, b in layers:
        x = library.tanh(x @ w + b)
    return library.sum(x)


def test_trace_and_gradient_cost_a_part_of_what_jax_takes() -> None:
    """0.06 where it was measured."""
    jax = pytest.importorskip("jax")
    f32, count = tl.DType.F32, 200
    ours = [(tl.TensorType((32, 32), f32), tl.TensorType((32,), f32)) for _ in range(count)]
    shape = jax.ShapeDtypeStruct
    theirs = [(shape((32, 32), np.float32), shape((32,), np.float32)) for _ in range(count)]
    traced = tl.make_graph(tl.grad(lambda layers, x: deep(ops, layers, x)))
    made = jax.make_jaxpr
    holds(
        0.2,
        lambda: traced(ours, tl.TensorType((8, 32), f32)),
        lambda: made(jax.grad(lambda layers, x: deep(jax.numpy, layers, x)))(theirs, shape((8, 32), np.float32)),
        rounds=3,
    )


def test_a_gradient_on_arrays_costs_a_part_of_what_jax_takes(train_step: Any) -> None:
    """0.2 where it was measured."""
    jax = pytest.importorskip("jax")
    params, x, t = train_step.problem((2, 8, 1), 25, False)
    held = [tl.array(p) for p in params]

    def ours(p: Any) -> Any:
        return ops.mse_loss(ops.linear(ops.relu(ops.linear(x, p[0], p[1])), p[2], p[3]), t)

    def theirs(p: Any) -> Any:
        return ((jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3] - t) ** 2).mean()

    for got, want in zip(tl.grad(ours)(held), jax.grad(theirs)(params), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-6)
    holds(0.8, lambda: tl.grad(ours)(held), lambda: jax.grad(theirs)(params), calls=5)


def test_an_eager_op_costs_a_few_of_torch() -> None:
    """2 where it was measured."""
    torch = pytest.importorskip("torch")
    x = normal(16)
    a, b, c, d = tl.array(x), tl.array(x), torch.tensor(x), torch.tensor(x)
    holds(6, lambda: a + b, lambda: c + d, calls=2000)


@pytest.mark.usefixtures("compiler")
def test_the_gradient_of_a_deep_mlp_holds_less_than_its_gradients_and_activations() -> None:
    """0.53 where it was measured; the count is the same on every machine."""
    layers, wide = 30, 128
    params = [(normal(wide, wide, seed=at) / 12, np.zeros(wide, np.float32)) for at in range(layers)]
    x = normal(wide, wide)
    for profile in (COMPILED, profiles.numpy_cpu):
        step = tl.lower(tl.grad(lambda p, x: deep(ops, p, x)), params, x, profile=profile)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        made = step(params, x)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        gradients = sum([np.asarray(leaf).nbytes for leaf in pytree.flatten(made)[0]])
        assert peak <= 0.9 * (gradients + layers * x.nbytes), profile.name
