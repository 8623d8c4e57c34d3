"""Sizes past 2³¹: every index and every bound in the generated C is 64 bits wide, whatever op it is for."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, run
from backends.toolbox import traced

from torchlean import ops
from torchlean.backends import Executable, accept, plan

pytestmark = pytest.mark.usefixtures("compiler")

LARGE = 2**31 + 8
HALF = 2**20
NEEDED = 10 << 30  # bytes


def spread(value: Any, *shape: int) -> Any:
    """An array of any size that takes no memory."""
    return np.broadcast_to(value, shape)


U8, F32, I64 = np.uint8(1), np.float32(1), np.int64(1)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elementwise": (lambda x: x + 1, (spread(U8, LARGE),)),
    "two axes": (lambda x: ops.transpose(x) + 1, (spread(U8, HALF, 2**12),)),
    "a view": (lambda x: ops.reverse(x[5:], (0,)) * 2, (spread(U8, LARGE),)),
    "counter": (lambda x: ops.iota((LARGE,), dtype="i64") + x, (spread(I64, LARGE),)),
    "sum": (lambda x: (ops.sum(x), ops.sum(x, 0), ops.sum(x, 1)), (spread(F32, HALF, 2**12),)),
    "extreme": (lambda x: (ops.amax(x, 1), ops.argmax(x, 0, dtype="i64")), (spread(F32, HALF, 2**12),)),
    "softmax": (lambda x: ops.softmax(x, -1), (spread(F32, HALF, 2**12),)),
    "product": (lambda x, y: x @ y, (spread(F32, HALF, 2**12), spread(F32, 2**12, 2**11))),
    "running": (lambda x: ops.cumsum(x, 0), (spread(F32, HALF, 2**12),)),
    "padded": (lambda x: ops.pad(x, 0, ((3, 4),)), (spread(U8, LARGE),)),
    "joined": (lambda x: ops.concatenate([x, x]), (spread(U8, LARGE // 2),)),
    "gathered": (lambda x, at: ops.take(x, at, 0), (spread(U8, LARGE), spread(I64, LARGE))),
    "added": (lambda x, at, u: ops.scatter_add(x, at, u), (spread(U8, LARGE), spread(I64, 9), spread(U8, 9))),
    "sorted": (lambda x: ops.sort(x, axis=0), (spread(U8, LARGE),)),
    "convolved": (lambda x, w: ops.conv(x, w), (spread(F32, 2**11, 4, 2**10, 2**10), spread(F32, 2, 4, 3, 3))),
    "16 bits": (lambda x: ops.sum(x + 1, 1), (spread(np.float16(1), HALF, 2**12),)),
}
NARROW = re.compile(r"for \((?:int|unsigned|int32_t|uint32_t|long|size_t) \w+ = [^;]*; \w+ < (\w+)")
BETWEEN = re.compile(r"\b(?:int|unsigned|int32_t) (?:at|start|stop|first|rows|depth|count|from|to|begin|end)\b")


@pytest.mark.parametrize("name", PROGRAMS)
def test_indices_are_wide(name: str) -> None:
    f, arrays = PROGRAMS[name]
    source = Executable(accept(plan(traced(f, *arrays), COMPILED))).source
    assert "for (int64_t" in source
    assert [bound for bound in NARROW.findall(source) if not (bound.isdigit() and int(bound) < 2**16)] == []
    assert BETWEEN.findall(source) == []


def available() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


@pytest.mark.slow
def test_more_than_two_billion_entries() -> None:
    if available() < NEEDED:
        pytest.skip(f"this machine has less than {NEEDED >> 30} GB to spare")
    x = np.zeros(LARGE, np.uint8)
    marks = np.array([0, 1, 2**31 - 1, 2**31, LARGE - 2, LARGE - 1])
    x[marks] = [3, 5, 7, 11, 13, 17]
    graph = traced(lambda x, at: (ops.reverse(x, (0,)) + x * 2, ops.take(x, at, 0), ops.sum(x)), x, marks)
    assert {step.capsule.provider for step in plan(graph, COMPILED).steps} == {"compiled"}
    made, taken, total = run(graph, [x, marks])
    assert taken.tolist() == [3, 5, 7, 11, 13, 17]
    assert int(total) == 56
    turned = LARGE - 1 - marks
    assert made[marks].tolist() == (x[turned] + 2 * x[marks]).tolist()
    assert np.count_nonzero(made) == len({*marks.tolist(), *turned.tolist()})
