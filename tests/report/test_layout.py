"""Layered drawings: nothing overlaps, data flows down, the same graph is drawn alike, and work grows with the graph."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlean.report.layout import GAP_X, WIDEST_ROW, Layout, layout

HEIGHT = 54


def edges_of(count: int, operands: int, reach: int, seed: int) -> list[tuple[int, int]]:
    """A random graph in topological order whose operands lie at most `reach` back."""
    draw = random.Random(seed)
    made = {
        (draw.randrange(max(0, target - reach), target), target)
        for target in range(1, count)
        for _ in range(draw.randint(0, operands))
    }
    return sorted(made)


def widths_of(count: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    return [2 * draw.randint(40, 120) for _ in range(count)]


def require_sound(made: Layout, widths: list[int], edges: list[tuple[int, int]]) -> None:
    """Rows hold each box once without overlap, edges go down, and everything lies inside the picture."""
    assert sorted([box for row in made.rows for box in row]) == list(range(len(widths)))
    for row in made.rows:
        assert len({made.y[box] for box in row}) == 1
        for left, right in itertools.pairwise(row):
            assert made.x[left] + widths[left] + GAP_X <= made.x[right], (left, right)
    tops = [made.y[row[0]] for row in made.rows]
    assert all([above + HEIGHT < below for above, below in itertools.pairwise(tops)])
    assert [(route.source, route.target) for route in made.routes] == edges
    for route in made.routes:
        source, target = route.source, route.target
        assert made.y[source] + HEIGHT == route.start[1] < route.end[1] == made.y[target]
        heights = [route.start[1], *[y for _, top, bottom in route.via for y in (top, bottom)], route.end[1]]
        assert heights == sorted(heights)
        assert made.x[source] <= route.start[0] <= made.x[source] + widths[source]
        assert made.x[target] <= route.end[0] <= made.x[target] + widths[target]
        assert not (route.is_reference and route.via)
    assert all([x >= 0 and x + width <= made.width for x, width in zip(made.x, widths, strict=True)])
    assert all([y >= 0 and y + HEIGHT <= made.height for y in made.y])


@given(
    st.integers(1, 60).flatmap(
        lambda count: st.tuples(st.just(count), st.integers(0, 4), st.integers(1, 60), st.integers(0, 2**16))
    )
)
def test_a_drawing_is_sound(shape: tuple[int, int, int, int]) -> None:
    count, operands, reach, seed = shape
    widths, edges = widths_of(count, seed), edges_of(count, operands, reach, seed)
    require_sound(layout(widths, HEIGHT, edges), widths, edges)


@pytest.mark.parametrize("count", [0, 1])
def test_a_graph_of_no_edges(count: int) -> None:
    made = layout([100] * count, HEIGHT, [])
    assert (len(made.x), made.routes) == (count, ())
    assert made.width >= 100 * count


def test_a_chain_is_straight() -> None:
    made = layout([100] * 30, HEIGHT, [(at, at + 1) for at in range(29)])
    assert len(set(made.x)) == 1
    assert all([not route.via and not route.is_reference for route in made.routes])


def test_a_row_that_is_too_wide_goes_on_below() -> None:
    count = 400
    widths = [120] * count + [120]
    edges = [(at, count) for at in range(count)]
    made = layout(widths, HEIGHT, edges)
    require_sound(made, widths, edges)
    assert made.width < 2 * WIDEST_ROW
    assert len(made.rows) > 10


def test_an_edge_that_would_pass_many_rows_is_a_reference() -> None:
    chain = [(at, at + 1) for at in range(39)]
    edges = sorted([*chain, (0, 39), (20, 23)])
    made = layout([100] * 40, HEIGHT, edges)
    referred = [(route.source, route.target) for route in made.routes if route.is_reference]
    assert referred == [(0, 39)]
    passing = next(route for route in made.routes if (route.source, route.target) == (20, 23))
    assert len(passing.via) == 2


def test_inputs_are_just_above_their_first_user() -> None:
    """Box 1 is an input that only the last box of a chain takes."""
    edges = [(0, 2), (2, 3), (3, 4), (1, 4)]
    made = layout([100] * 5, HEIGHT, edges)
    assert made.y[1] == made.y[3]


def test_a_fan_has_no_crossing() -> None:
    """Two trees given in an interleaved order are pulled apart."""
    edges = [(0, 2), (1, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 6), (5, 7)]
    made = layout([100] * 8, HEIGHT, edges)
    lines = [(route.start, route.end) for route in made.routes]
    crossed = [
        (one, other)
        for one in lines
        for other in lines
        if one[0][1] == other[0][1] and one[0][0] < other[0][0] and one[1][0] > other[1][0]
    ]
    assert crossed == []


def test_the_same_graph_is_drawn_alike() -> None:
    widths, edges = widths_of(300, 5), edges_of(300, 3, 40, 5)
    assert layout(widths, HEIGHT, edges) == layout(list(widths), HEIGHT, list(edges))


def test_the_work_grows_with_the_graph() -> None:
    """Four times the nodes take about four times as long, whatever the reach of the edges; a square law takes 16."""

    def seconds(count: int) -> float:
        widths, edges = widths_of(count, 1), edges_of(count, 3, count, 1)
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            made = layout(widths, HEIGHT, edges)
            best = min(best, time.process_time() - start)
        passed = sum([len(route.via) for route in made.routes])
        assert passed <= 9 * len(edges)
        return best

    ratio = seconds(4000) / seconds(1000)
    print(f"four times the boxes take {ratio:.1f} times as long")
    assert ratio < 9
