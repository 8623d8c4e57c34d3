"""Buffers: checked lengths, one release, typed errors afterwards, and honest byte counts."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from torchlean.errors import HandleError, InternalError
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType
from torchlean.runtime import Allocator, Buffer, Session

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
