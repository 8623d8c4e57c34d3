"""Long graphs in linear time without recursion; threads, tasks and failed traces that leave nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.errors import TorchLeanError, TraceError
from torchlean.ir.builder import CURRENT, Builder
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.printer import graph_text
from torchlean.ir.tracing import trace_flat
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.vjp import vjp_graph
from torchlean.transforms.vmap import vmap_graph

SCALAR = tl.TensorType((), tl.DType.F64)
DEPTH = 100_000
QUARTER = DEPTH // 4
# Time linear in the nodes: four times the nodes in about four times the time. The margin is for a busy machine; a
# quadratic step would be at 16.
RATIO = 6.0


def chain(count: int) -> Callable[[Any], Any]:
    """x ↦ x after `count` nodes: x ← ½·x + ½, whose fixed point is 1."""

    def f(x: Any) -> Any:
        half = ops.full((), 0.5, "f64")
        for _ in range(count // 2):
            x = x * half + half
        return x

    return f


def traced(count: int) -> Graph:
    return trace_flat(lambda x: (chain(count)(x),), [SCALAR], name="chain").graph


def fastest(run: Callable[[], Any], repeats: int = 2) -> float:
    """The least CPU time of a few runs, without the collector."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
        finally:
            gc.enable()
    return best


@pytest.fixture(scope="module")
def graphs() -> dict[int, Graph]:
    return {count: traced(count) for count in (QUARTER, DEPTH)}


def _steps() -> dict[str, Callable[[Graph], Any]]:
    return {
        "trace": lambda graph: traced(len(graph) - 1),
        "check": check,
        "print": str,
        "print whole": lambda graph: graph_text(graph, max_nodes=None),
        "dce": dead_code_eliminated,
        "denote": lambda graph: denote(graph, (np.float64(3.0),)),
        "jvp": lambda graph: jvp_graph(graph, [True]),
        "vjp": lambda graph: vjp_graph(graph, (0,)),
        "vmap": lambda graph: vmap_graph(graph, 2, [True]),
    }


@pytest.mark.parametrize("step", sorted(_steps()))
def test_a_long_graph_takes_time_linear_in_its_nodes(step: str, graphs: dict[int, Graph]) -> None:
    run = _steps()[step]
    assert len(graphs[DEPTH]) == DEPTH + 1
    for _ in range(3):
        small, large = fastest(lambda: run(graphs[QUARTER])), fastest(lambda: run(graphs[DEPTH]), 1)
        if large <= RATIO * small + 0.01:
            return
    pytest.fail(f"{step}: {large:.3f} s for {DEPTH} nodes, {small:.3f} s for {QUARTER}")


def test_a_long_graph_is_differentiated_and_evaluated_right(graphs: dict[int, Graph]) -> None:
    """After n/2 halvings the slope is 2^(−n/2): 0 here; the value is 1. Of a short chain both are exact."""
    pulled = vjp_graph(graphs[DEPTH], (0,))
    check(pulled)
    (slope,) = denote(pulled, (np.float64(3.0), np.float64(1.0)))
    assert slope == 0.0
    assert denote(graphs[DEPTH], (np.float64(3.0),))[0] == 1.0
    short = traced(40)
    assert denote(vjp_graph(short, (0,)), (np.float64(3.0), np.float64(1.0)))[0] == 2.0**-20
    assert denote(short, (np.float64(3.0),))[0] == 1.0 + 2.0 * 2.0**-20


def test_a_long_graph_prints_its_ends_and_counts_the_middle(graphs: dict[int, Graph]) -> None:
    lines = str(graphs[DEPTH]).splitlines()
    assert len(lines) == 204
    assert lines[0] == "graph chain(%0: f64[]) {"
    assert lines[1].startswith("  %1: f64[] = full(")
    assert lines[151] == f"  … {DEPTH + 1 - 200} more nodes …"
    assert lines[-2] == f"  return %{DEPTH + 1}"
    assert len(graph_text(graphs[DEPTH], max_nodes=None).splitlines()) == DEPTH + 4


def test_the_public_gradient_of_a_long_program(graphs: dict[int, Graph]) -> None:
    """Trace, differentiate, plan and run eagerly, well beyond Python's recursion limit."""
    count = 20_000
    assert count > 10 * sys.getrecursionlimit()
    value, gradient = tl.value_and_grad(chain(count))(np.float64(3.0))
    assert (float(value), float(gradient)) == (1.0, 0.0)
    value, tangent = tl.jvp(chain(count), (np.float64(3.0),), (np.float64(1.0),))
    assert (float(value), float(tangent)) == (1.0, 0.0)
    np.testing.assert_array_equal(np.asarray(tl.vmap(chain(count))(np.array([3.0, 5.0]))), [1.0, 1.0])


def test_a_wide_graph_of_one_value_used_everywhere() -> None:
    """20 000 uses of one value: its cotangents are added in one pass."""

    def f(x: Any) -> Any:
        total = x
        for i in range(20_000):
            total = total + x * float(i % 3)
        return total

    assert float(tl.grad(f)(np.float64(2.0))) == 1.0 + sum(i % 3 for i in range(20_000))


def test_gradients_of_many_leaves_take_time_linear_in_them() -> None:
    """Also where not every leaf is differentiated, so that traced inputs and wanted leaves are not the same."""

    def run(count: int) -> None:
        gradient = tl.grad(lambda x, leaves: leaves[-1] * x, 1)
        tl.make_graph(gradient)(SCALAR, [SCALAR] * count)

    for _ in range(3):
        small, large = fastest(lambda: run(4_000)), fastest(lambda: run(16_000))
        if large <= RATIO * small + 0.01:
            return
    pytest.fail(f"{large:.3f} s for 16 000 leaves, {small:.3f} s for 4 000")


def test_deeply_nested_transforms_do_not_recurse_far() -> None:
    f: Callable[[Any], Any] = lambda x: x * x * x  # noqa: E731
    for _ in range(30):
        f = tl.vmap(f)
    made = f(np.full((1,) * 30, 2.0))
    assert np.asarray(made).shape == (1,) * 30
    assert float(np.asarray(made).reshape(())) == 8.0


# -- threads and tasks -------------------------------------------------------------------------------------------------
THREADS, ROUNDS = 8, 12


@pytest.fixture
def forced_switching() -> Iterator[None]:
    """Let another thread run after every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def job(seed: int) -> tuple[float, ...]:
    """A trace, a gradient, a tangent, a mapped gradient and a nested derivative, all of which capture outer values."""
    x = np.random.default_rng(seed).uniform(-1, 1, 4)
    scale = float(seed + 1)

    def f(x: Any) -> Any:
        inner = tl.grad(lambda y: ops.sum(ops.sin(y * x)) * scale)(x)
        return ops.sum(inner * x)

    gradient = np.asarray(tl.grad(f)(x))
    tangent = float(np.asarray(tl.jvp(f, (x,), (x,))[1]))
    mapped = np.asarray(tl.vmap(tl.grad(lambda a: a * a * scale))(x))
    nodes = len(tl.make_graph(tl.grad(f))(x))
    return (*gradient.tolist(), tangent, *mapped.tolist(), float(nodes))


def expected(seed: int) -> tuple[float, ...]:
    """The same numbers by the textbook: f = s·Σ x²·cos x²."""
    x = np.random.default_rng(seed).uniform(-1, 1, 4)
    s = seed + 1.0
    gradient = s * (2 * x * np.cos(x * x) - 2 * x**3 * np.sin(x * x))
    return (*gradient.tolist(), float(gradient @ x), *(2 * x * s).tolist())


def test_the_job_itself_is_right() -> None:
    for seed in range(THREADS):
        np.testing.assert_allclose(job(seed)[:-1], expected(seed), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("forced_switching")
def test_threads_trace_and_differentiate_at_once_without_cross_talk() -> None:
    """Every result of every round of every thread is there, and is bit for bit the one computed alone."""
    alone = [job(seed) for seed in range(THREADS)]
    start = threading.Barrier(THREADS)
    results: list[tuple[int, int, tuple[float, ...]]] = []
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            start.wait(timeout=60)
            for turn in range(ROUNDS):
                results.append((seed, turn, job(seed)))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert faults == []
    assert not any(thread.is_alive() for thread in threads)
    assert len(results) == THREADS * ROUNDS
    assert {(seed, turn) for seed, turn, _ in results} == {(s, t) for s in range(THREADS) for t in range(ROUNDS)}
    assert [made for seed, _, made in results if made != alone[seed]] == []


@pytest.mark.usefixtures("forced_switching")
def test_threads_may_share_one_function_and_its_graph() -> None:
    """One gradient function, one graph and one pullback used by all threads at once."""
    gradient = tl.grad(lambda x: ops.sum(ops.tanh(x) * x))
    graph = tl.make_graph(gradient)(np.ones(3))
    x = np.array([0.3, -0.7, 1.1])
    _, pullback = tl.vjp(lambda x: ops.tanh(x) * x, x)
    want = (np.asarray(gradient(x)).tobytes(), denote(graph, (x,))[0].tobytes(), np.asarray(pullback(x)[0]).tobytes())
    results: list[bool] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(ROUNDS):
                made = (
                    np.asarray(gradient(x)).tobytes(),
                    denote(graph, (x,))[0].tobytes(),
                    np.asarray(pullback(x)[0]).tobytes(),
                )
                results.append(made == want)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert faults == []
    assert results == [True] * (THREADS * ROUNDS)


def test_tasks_interleave_in_the_middle_of_their_traces() -> None:
    """Twenty tasks yield to one another between the ops of a trace; each still builds its own graph.

    The trace runs in the task's own context, one op per turn of the event loop.
    """
    count, length = 20, 15
    order: list[int] = []

    async def task(seed: int) -> tuple[int, str, float]:
        builder = Builder(name=f"task{seed}")
        token = CURRENT.set(builder)
        try:
            x = builder.add_input(SCALAR)
            for _ in range(length):
                order.append(seed)
                x = ops.sin(x) if seed % 2 else x * float(seed)
                await asyncio.sleep(0)
                assert CURRENT.get() is builder
            graph = builder.finish((x.id,))
        finally:
            CURRENT.reset(token)
        check(graph)
        return seed, str(graph), float(denote(graph, (np.float64(0.5),))[0])

    async def everything() -> list[tuple[int, str, float]]:
        return await asyncio.gather(*[task(seed) for seed in range(count)])

    results = asyncio.run(everything())
    assert [seed for seed, _, _ in results] == list(range(count))
    assert order[: 2 * count] == list(range(count)) * 2, "the tasks did not interleave"
    for seed, text, value in results:
        assert text.startswith(f"graph task{seed}(%0: f64[]) {{")
        want = 0.5
        for _ in range(length):
            want = float(np.sin(want)) if seed % 2 else want * seed
        assert value == want
        assert text.count(" = sin(") == (length if seed % 2 else 0)


def test_tasks_that_differentiate_between_awaits_count_and_compare() -> None:
    async def task(seed: int) -> list[tuple[float, ...]]:
        made: list[tuple[float, ...]] = []
        for _ in range(3):
            await asyncio.sleep(0)
            made.append(job(seed))
        return made

    async def everything() -> list[list[tuple[float, ...]]]:
        return await asyncio.gather(*[task(seed) for seed in range(20)])

    results = asyncio.run(everything())
    assert [len(made) for made in results] == [3] * 20
    for seed, made in enumerate(results):
        assert made == [job(seed)] * 3


# -- failures leave nothing behind -------------------------------------------------------------------------------------
def _fail(x: Any) -> Any:
    ops.sin(x)
    raise ZeroDivisionError("in the middle of a trace")


def _branch(x: Any) -> Any:
    return x if x > 0 else -x


X = np.ones(3)
FAILING: dict[str, Callable[[], Any]] = {
    "make_graph": lambda: tl.make_graph(_fail)(X),
    "grad": lambda: tl.grad(_fail)(X),
    "jvp": lambda: tl.jvp(_fail, (X,), (X,)),
    "vjp": lambda: tl.vjp(_fail, X),
    "linearize": lambda: tl.linearize(_fail, X),
    "vmap": lambda: tl.vmap(_fail)(X),
    "jacfwd": lambda: tl.jacfwd(_fail)(X),
    "jacrev": lambda: tl.jacrev(_fail)(X),
    "hessian": lambda: tl.hessian(_fail)(X),
    "jit": lambda: tl.jit(_fail)(X),
    "eval_shape": lambda: tl.eval_shape(_fail, X),
    "nested": lambda: tl.vmap(tl.grad(lambda x: tl.jvp(_fail, (x,), (x,))[1]))(X),
    "branch": lambda: tl.grad(_branch)(np.float64(1.0)),
    "type rule": lambda: tl.grad(lambda x: ops.sum(x @ np.ones((5, 5))))(X),
    "not a scalar": lambda: tl.grad(lambda x: x)(X),
    "derivative rule": lambda: tl.grad(lambda x: ops.sum(_broken(x)))(X),
}


@tl.custom_jvp
def _broken(x: Any) -> Any:
    return x


_broken.defjvp(lambda primals, tangents: _fail(primals[0]))


@pytest.mark.parametrize("name", sorted(FAILING))
def test_a_failing_trace_restores_what_answers_ops(name: str) -> None:
    """Inside a trace the enclosing builder answers again, outside it the session; and the next trace works."""
    np.asarray(ops.sin(X))  # a session, if the context had none
    before = CURRENT.get()
    with pytest.raises((ZeroDivisionError, TorchLeanError)):
        FAILING[name]()
    assert CURRENT.get() is before

    def outer(x: Any) -> Any:
        builder = CURRENT.get()
        assert isinstance(builder, Builder)
        with pytest.raises((ZeroDivisionError, TorchLeanError)):
            FAILING[name]()
        assert CURRENT.get() is builder
        return ops.sum(x * x)

    np.testing.assert_array_equal(np.asarray(tl.grad(outer)(X)), 2 * X)
    assert CURRENT.get() is before


def test_a_new_thread_has_a_session_of_its_own() -> None:
    seen: list[Any] = []

    def work() -> None:
        seen.append(CURRENT.get())
        np.asarray(ops.sin(X))
        seen.append(CURRENT.get())

    thread = threading.Thread(target=work, name="fresh")
    thread.start()
    thread.join()
    np.asarray(ops.sin(X))
    assert seen[0] is None
    assert seen[1] is not None
    assert seen[1] is not CURRENT.get()


def test_a_trace_in_another_context_does_not_see_this_one() -> None:
    """A value of this trace used in a context that never entered it is refused, not silently read."""

    def outer(x: Any) -> Any:
        with pytest.raises(TorchLeanError, match=r"belongs to a trace that has ended|another context"):
            contextvars.Context().run(lambda: ops.sin(x))
        return ops.sum(x)

    tl.make_graph(outer)(X)
    with pytest.raises(TraceError):
        tl.make_graph(_branch)(np.float64(1.0))
