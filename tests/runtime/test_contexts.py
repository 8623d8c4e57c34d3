"""Sessions in threads and asyncio tasks: no cross-talk, and every result is counted."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextvars import Context, copy_context
from typing import Any

import numpy as np
import pytest

from torchlean.ir import ops
from torchlean.ir.builder import CURRENT
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import ADD, DIV
from torchlean.runtime import Session, array, default_session
from torchlean.runtime.kernels import MOST_ENTRIES, make_room
from torchlean.runtime.report import Phase
from torchlean.transforms.api import grad

THREADS, ROUNDS = 8, 25


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Any) -> list[Any]:
    """`work(number)` in each of THREADS threads; the results that arrived."""
    results: list[Any] = []

    def run(number: int) -> None:
        for _ in range(ROUNDS):
            results.append((number, work(number)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_each_thread_has_its_own_default_session() -> None:
    sessions: dict[int, set[Session]] = {}

    def work(number: int) -> float:
        x = array(np.full(3, number, np.float32))
        made = (x * x + 1.0).sum()
        sessions.setdefault(number, set()).add(made.session)
        return float(made)

    results = in_threads(work)
    assert len(results) == THREADS * ROUNDS
    assert all(value == 3 * (number**2 + 1) for number, value in results)
    assert all(len(found) == 1 for found in sessions.values())
    assert len(set.union(*sessions.values())) == THREADS


def test_threads_may_share_one_session() -> None:
    """Its quiet context can be entered by one thread at a time; the others set their own NumPy flags."""
    shared = Session()
    big = np.zeros(20_000, np.float32)

    def work(number: int) -> float:
        with shared:
            x = array(big) + float(number)
            return float((x / array(big)).max()) if number else float((x + 1.0).max())

    results = in_threads(work)
    assert len(results) == THREADS * ROUNDS
    assert all(value == (np.inf if number else 1.0) for number, value in results)


def test_leaving_a_session_skips_the_token_another_thread_has_just_used() -> None:
    """Between the two steps of a thread that leaves, its used token is still listed, and may be the newest."""
    session = Session()

    def half_of_leaving() -> None:
        session._tokens.append(CURRENT.set(session))
        CURRENT.reset(session._tokens[-1])

    with session:
        Context().run(half_of_leaving)
    assert CURRENT.get() is not session
    assert len(session._tokens) == 1, "the other thread's own, which that thread removes"


def test_threads_may_share_one_tape() -> None:
    """Each records, sweeps and reads its gradients; none gets the ids or the gradients of another."""
    shared = Session(track_gradients=True)

    def work(number: int) -> bool:
        with shared:
            x = shared.parameter(np.full(2, number, np.float32))
            found = shared.backward(ops.sum(x * x * x))[x]
            return bool((np.asarray(found) == 3 * number**2).all())

    results = in_threads(work)
    assert len(results) == THREADS * ROUNDS
    assert all(right for _, right in results)
    assert shared._kernels.phase is Phase.FORWARD


def test_derivatives_that_overlap_end_in_the_order_they_began() -> None:
    """Of two threads the first may leave first; the report must not stay with derivatives for good."""
    session = Session()
    first, second = session.updates(), session.updates()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    session.bind(DIV, NO_PARAMS, (session.array(1.0), session.array(1.0)))
    assert [capsule.op for capsule in session.report.derivative] == [DIV]
    second.__exit__(None, None, None)
    session.bind(ADD, NO_PARAMS, (session.array(1.0), session.array(1.0)))
    assert [capsule.op for capsule in session.report.forward] == [ADD]


def test_two_threads_may_make_room_in_one_table() -> None:
    class Contended(dict[int, int]):
        """A table of which another thread drops the first key after this one has listed them."""

        def __iter__(self) -> Iterator[int]:
            keys = list(super().__iter__())
            super().pop(0)
            return iter(keys)

    table = Contended({key: key for key in range(MOST_ENTRIES)})
    make_room(table)
    assert sorted(table.keys() - {0}) == list(range(MOST_ENTRIES // 2, MOST_ENTRIES))


def test_an_op_runs_quietly_while_the_quiet_context_is_taken() -> None:
    session = Session()
    x, zero = session.array([1.0, 0.0]), session.array([0.0, 0.0])
    made = session._quietly(session.bind, DIV, NO_PARAMS, (x, zero))[0]  # the context is taken: by this very call
    assert np.isposinf(np.asarray(made)[0])
    assert np.isnan(np.asarray(made)[1])


def test_threads_differentiate_at_once() -> None:
    def work(number: int) -> float:
        with Session(track_gradients=True) as session:
            x = session.parameter(np.float32(number))
            found = session.backward(x * x * x)[x]
            traced = grad(lambda v: v * v * v)(np.float32(number))
            assert float(found) == float(traced)
            return float(found)

    results = in_threads(work)
    assert len(results) == THREADS * ROUNDS
    assert all(value == 3 * number**2 for number, value in results)


def test_interleaved_tasks_keep_their_sessions() -> None:
    async def work(number: int) -> bool:
        mine = Session()
        for _ in range(ROUNDS):
            with mine:
                await asyncio.sleep(0)
                made = array(float(number)) * 2.0
                await asyncio.sleep(0)
                if CURRENT.get() is not mine or made.session is not mine or float(made) != 2 * number:
                    return False
            await asyncio.sleep(0)
            if CURRENT.get() is mine:
                return False
        return True

    async def main() -> list[bool]:
        return await asyncio.gather(*[work(number) for number in range(20)])

    assert asyncio.run(main()) == [True] * 20


def test_tasks_may_enter_one_session_at_once() -> None:
    shared = Session()

    async def work(number: int) -> float:
        with shared:
            await asyncio.sleep(0.001 * (number % 3))  # leave in another order than entered
            made = float(ops.add(array(float(number)), 1.0))
        assert CURRENT.get() is not shared
        return made

    async def main() -> list[float]:
        return await asyncio.gather(*[work(number) for number in range(20)])

    assert asyncio.run(main()) == [number + 1.0 for number in range(20)]
    assert shared._tokens == []


def test_a_default_session_is_made_once_per_context() -> None:
    def twice() -> tuple[Session, Session]:
        return array(1.0).session, array(2.0).session

    first, second = Context().run(twice), Context().run(twice)
    assert first[0] is first[1]
    assert second[0] is second[1]
    assert first[0] is not second[0]
    assert copy_context().run(CURRENT.get) is CURRENT.get()
    assert default_session() is not default_session()
    assert default_session().profile.name == "checked_cpu"
