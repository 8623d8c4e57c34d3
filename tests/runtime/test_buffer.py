"""Buffers: checked lengths, one release, typed errors afterwards, and honest byte counts."""

from __future__ import annotations

import gc
import sys
from threading import Barrier, Thread

import numpy as np
import pytest

import torchlean as tl
from torchlean.errors import HandleError, InternalError
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType
from torchlean.runtime import Allocator, Array, Buffer, Session

FOUR = TensorType((4,), DType.F32)


def test_bytes_are_counted_until_nobody_holds_them() -> None:
    allocator = Allocator()
    first = Buffer.of(np.ones(4, np.float32), FOUR, allocator)
    second = Buffer.of(np.ones(4, np.float32), FOUR, allocator)
    assert (allocator.live, allocator.peak, allocator.made) == (32, 32, 2)
    first.release()
    assert (allocator.live, allocator.peak, allocator.freed) == (16, 32, 1)
    del second
    assert allocator.live == 0
    allocator.reset_peak()
    assert allocator.peak == 0
    assert repr(allocator) == "<Allocator: 0 bytes live, peak 0, 2 made, 2 freed>"


def test_release_twice_and_use_after_release_are_typed_errors() -> None:
    buffer = Buffer.of(np.ones(4, np.float32), FOUR, Allocator())
    assert repr(buffer) == "<Buffer of 4 × float32>"
    assert len(buffer) == 4
    assert buffer.nbytes == 16
    buffer.release()
    assert buffer.is_released
    assert repr(buffer) == "<Buffer, released>"
    with pytest.raises(HandleError, match=r"a buffer was released twice \(test_buffer.py:"):
        buffer.release()
    uses = (lambda: np.asarray(buffer), lambda: len(buffer), lambda: buffer.array, lambda: buffer.nbytes, buffer.export)
    for use in uses:
        with pytest.raises(HandleError, match=r"a buffer was used after its release \(test_buffer.py:"):
            use()
    with pytest.raises(AttributeError, match="a Buffer has no 'data'"):
        getattr(buffer, "data")  # noqa: B009


def test_the_length_is_checked_against_the_type() -> None:
    with pytest.raises(InternalError) as caught:
        Buffer.of(np.ones(3, np.float32), FOUR, Allocator())
    assert str(caught.value).startswith("buffer size mismatch: f32[4] has 4 elements, the storage reports 3")


def test_buffers_are_contiguous() -> None:
    strided = np.ones((4, 4), np.float32)[:, 0]
    assert Buffer.of(strided, FOUR, Allocator()).array.flags.c_contiguous
    with Session() as session:
        x = session.array(np.arange(6.0).reshape(2, 3))
        for view in (x.T, x[:, 1], x.reshape(3, 2), x[1]):
            assert view.buffer.array.flags.c_contiguous


def test_views_share_storage_and_keep_it_alive() -> None:
    with Session() as session:
        x = session.array(np.arange(6.0))
        y = x.reshape(2, 3)
        assert np.shares_memory(x.numpy(), y.numpy())
        assert session.allocator.live == 48
        assert session.allocator.made == 1
        x.buffer.release()
        assert session.allocator.live == 48
        assert y.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        del y
        assert session.allocator.live == 0


def test_eager_results_are_counted_and_freed() -> None:
    with Session() as session:
        x = session.array(np.ones(1000))
        for _ in range(10):
            x = x * x + x
        assert session.allocator.live == 8000
        assert session.allocator.peak == 24000
        del x
    gc.collect()
    assert session.allocator.live == 0
    assert session.allocator.made == session.allocator.freed


def test_a_released_array_cannot_be_an_operand() -> None:
    with Session() as session:
        x = session.array([1.0])
        x.buffer.release()
        with pytest.raises(HandleError, match=r"used after its release \(test_buffer.py:"):
            x + x


# -- arrays whose buffer was not asked for yet -------------------------------------------------------------------------
def test_the_buffer_of_an_array_is_made_once_and_counts_its_memory() -> None:
    with Session() as session:
        x = session.array(np.ones(1000))
        y = x + x
        assert session.allocator.live == 16_000
        buffer = y.buffer
        assert y.buffer is buffer
        assert (session.allocator.made, session.allocator.live) == (2, 16_000)
        assert np.shares_memory(buffer.export(), y.numpy())
        del y
        assert session.allocator.live == 16_000  # whoever has the buffer has the memory
        buffer.release()
        assert (session.allocator.freed, session.allocator.live) == (1, 8_000)


def test_threads_that_ask_for_a_buffer_get_the_same_one() -> None:
    with Session() as session:
        x = session.array([1.0])
        arrays = [x + x for _ in range(200)]
        start, found = Barrier(4), [[None] * len(arrays) for _ in range(4)]

        def ask(mine: list[Buffer | None]) -> None:
            start.wait()
            for position, array in enumerate(arrays):
                mine[position] = array.buffer

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [Thread(target=ask, args=(mine,)) for mine in found]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        for same in zip(*found, strict=True):
            assert len({id(buffer) for buffer in same}) == 1


def test_arrays_over_one_buffer_are_released_together() -> None:
    with Session() as session:
        x = session.array([1.0, 2.0])
        handle = session.parameter(x)
        assert handle.buffer is x.buffer
        x.buffer.release()
        for array in (x, handle):
            assert repr(array) == "Array(released, f32[2])"
            with pytest.raises(HandleError, match="used after its release"):
                array.numpy()


# -- operators between plain arrays of one type ------------------------------------------------------------------------
def test_the_first_and_later_sums_are_counted_alike() -> None:
    with Session() as session:
        x, y = session.array(np.arange(16.0)), session.array(np.ones(16))
        counts = session.allocator
        for _ in range(3):
            made, freed = counts.made, counts.freed
            total = x + y
            assert type(total) is Array
            assert total.tolist() == [each + 1 for each in range(16)]
            assert str(total.type) == "f64[16]"
            assert (counts.made, counts.freed, counts.live) == (made + 1, freed, 3 * 128)
            del total
            assert (counts.freed, counts.live) == (freed + 1, 2 * 128)
        assert counts.peak == 3 * 128
        assert len(session.report.forward) == 1


def test_the_quick_way_is_for_kernels_whose_results_need_no_look() -> None:
    with Session() as session:
        for shape in ((), (0,), (3, 2)):
            x = session.array(np.full(shape, 3.0))
            for _ in range(3):
                for made, entry in ((x + x, 6.0), (x - x, 0.0), (x * x, 9.0), (x / x, 1.0)):
                    assert type(made.buffer.array) is np.ndarray
                    assert np.array_equal(np.asarray(made), np.full(shape, entry))
                    assert not np.shares_memory(np.asarray(made), np.asarray(x)) or not made.size


def test_handles_traced_values_and_other_sessions_take_the_general_way() -> None:
    other = Session()
    with Session(track_gradients=True) as session:
        x = session.array([1.0, 2.0])
        for _ in range(2):
            assert (x + x).node == -1
        w = session.parameter(x)
        for total in (w + x, x + w, w + w):
            assert total.node >= 0
        assert session.backward((w * w + x).sum())[w].tolist() == [2.0, 4.0]
        foreign = other.array([1.0, 2.0])
        assert (x + foreign).session is session
        assert (foreign + foreign).session is session
        with other:
            assert (x + x).session is other
        graph = tl.make_graph(lambda y: y + (x + x) + x)(x)
        assert [node.op.name for node in graph.nodes].count("add") == 3
