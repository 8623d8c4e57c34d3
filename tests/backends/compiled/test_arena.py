"""Where C keeps what is no result: in one arena, and in results that are not written yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops
from torchlean.backends import plan
from torchlean.backends.compiled.arena import LENT, Arena
from torchlean.backends.compiled.expand import expanded
from torchlean.backends.compiled.schedule import Schedule
from torchlean.backends.compiled.stitch import stitched
from torchlean.backends.grouping import units

pytestmark = pytest.mark.usefixtures("compiler")
DEPTH = 24


def deep(weights: list[Any], x: Any) -> Any:
    for weight in weights:
        x = ops.relu(x @ weight)
    return ops.sum(x)


def operands() -> tuple[list[Any], Any]:
    return [normal(64, 64, seed=at) / np.float32(8) for at in range(DEPTH)], normal(64, 64)


def gradient() -> Any:
    return traced(lambda *given: tl.grad(deep)(list(given[:-1]), given[-1]), *operands()[0], operands()[1])


def test_activations_lie_in_gradients_that_are_not_written_yet() -> None:
    weights, x = operands()
    made = tl.lower(tl.grad(deep), weights, x, profile=COMPILED).cost()
    gradients = DEPTH * 64 * 64 * 4
    assert made.output_bytes == gradients
    assert made.peak_bytes < 1.6 * gradients  # and there are as many bytes of activations


def test_the_bits_are_those_of_the_reference() -> None:
    given = [*operands()[0], operands()[1]]
    graph = gradient()
    for got, want in zip(run(graph, given), run(graph, given, REFERENCE), strict=True):
        assert same_bits(got, want)


def test_a_value_in_a_result_is_read_for_the_last_time_before_that_is_written() -> None:
    ((group,),) = [[unit.group for unit in units(plan(gradient(), COMPILED))]]
    assert group is not None
    schedule = Schedule(expanded(group))
    runs = stitched(schedule)
    arena = Arena(schedule, runs)
    writes = {
        schedule.placed[id]: at
        for at, part in enumerate(schedule.parts)
        for id in schedule.made_by(part)
        if id in schedule.placed
    }
    assert len(arena.lent) >= DEPTH - 2
    lives: dict[int, list[tuple[int, int, int, int]]] = {}
    for id, (lender, offset) in arena.lent.items():
        uses = [
            at
            for at, part in enumerate(schedule.parts)
            if id in schedule.made_by(part) or id in schedule.roots_read(part)
        ]
        size = schedule.types[id].nbytes
        assert size >= LENT
        assert offset + size <= lender.nbytes
        assert max(uses) < writes[lender.position]
        lives.setdefault(lender.position, []).append((min(uses), max(uses), offset, offset + size))
    for held in lives.values():
        for at, (start, end, low, high) in enumerate(held):
            for other in held[:at]:
                assert other[1] < start or end < other[0] or other[3] <= low or high <= other[2]
