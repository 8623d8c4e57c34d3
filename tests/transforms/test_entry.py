"""The generated way into a lowered function: containers it takes apart itself, and what it refuses."""

from __future__ import annotations

import inspect
from contextvars import Context
from typing import Any, NamedTuple

import numpy as np
import pytest

import torchlean as tl
from torchlean.errors import HandleError, NonFiniteError, StructureError, TraceError, TypeRuleError


class Pair(NamedTuple):
    left: Any
    right: Any


class Other(NamedTuple):
    left: Any
    right: Any


def swapped(pair: Pair) -> Pair:
    return Pair(pair.right + 1, (pair.left, [pair.right]))


def test_named_tuples_are_taken_apart_and_made_by_generated_code() -> None:
    one, two = np.float32(1), np.float32(2)
    lowered = tl.lower(swapped, Pair(one, two))
    made = lowered(Pair(one, two))
    assert type(made) is Pair
    assert float(made.left) == 3
    assert float(made.right[0]) == 1
    assert type(made.right[1]) is list
    again = tl.lower(lambda pair: Pair(pair.left * 2, pair.right), made)
    assert float(again(made).left) == 6
    assert "general" not in lowered.__call__.__qualname__


def test_another_class_with_the_same_fields_is_refused() -> None:
    lowered = tl.lower(swapped, Pair(np.float32(1), np.float32(2)))
    for wrong in (Other(np.float32(1), np.float32(2)), (np.float32(1), np.float32(2))):
        with pytest.raises(StructureError, match="swapped was lowered for other arguments"):
            lowered(wrong)


class Halved(NamedTuple("Halved", [("left", Any), ("right", Any)])):
    """A named tuple that makes itself."""

    __slots__ = ()
    made = 0

    def __new__(cls, left: Any, right: Any) -> Halved:
        Halved.made += 1
        return super().__new__(cls, left, right)


def test_a_named_tuple_with_a_new_of_its_own_is_made_by_it() -> None:
    lowered = tl.lower(lambda x: Halved(x + 1, x), np.float32(1))
    before = Halved.made
    made = lowered(np.float32(1))
    assert type(made) is Halved
    assert Halved.made == before + 1


@pytest.mark.parametrize(
    "wrong", [(), (1.0,), (1.0, [1.0], (1.0,), 1.0), (1.0, [], ()), (1.0, [1.0, 2.0], ()), (1.0, [1.0], (2.0,))]
)
def test_containers_of_another_length_are_refused(wrong: tuple[Any, ...]) -> None:
    lowered = tl.lower(lambda x, pair, nothing: x + pair[0], 1.0, [1.0], ())
    assert float(lowered(1.0, [2.0], ())) == 3
    with pytest.raises(StructureError, match="was lowered for other arguments"):
        lowered(*wrong)


@pytest.mark.parametrize("count", [1, 100, 200])
def test_results_are_counted_together_and_freed_with_the_last(count: int) -> None:
    """Results by the hundred are wrapped in a loop, fewer by lines of their own."""
    x = np.arange(4, dtype=np.float32)
    lowered = tl.lower(lambda *xs: tuple([each + 1 for each in xs]), *([x] * count))
    with tl.Session() as session:
        made = list(lowered(*([x] * count)))
        counts = session.allocator
        assert (counts.made, counts.live, counts.peak) == (1, 16 * count, 16 * count)
        assert all([each.session is session and each.node == -1 and each.tolist() == [1, 2, 3, 4] for each in made])
        again = lowered(*made)
        assert again[-1].tolist() == [2, 3, 4, 5]
        assert made[0].tolist() == [1, 2, 3, 4]
        assert (counts.made, counts.live) == (2, 32 * count)
        del again
        assert (counts.freed, counts.live) == (1, 16 * count)
        last = made.pop()
        made.clear()
        assert counts.live == 16 * count
        del last
        assert (counts.freed, counts.live) == (2, 0)


@pytest.mark.parametrize("count", [3, 200])
def test_a_leaf_of_another_type_is_refused_with_its_path(count: int) -> None:
    x = tl.array(np.ones(4, np.float32))
    lowered = tl.lower(lambda xs: [each + 1 for each in xs], [x] * count)
    for wrong, got in ((tl.array(np.ones(5, np.float32)), r"f32\[5\]"), (np.ones(4), r"f64\[4\]")):
        with pytest.raises(TypeRuleError, match=rf"lowered for f32\[4\] at args\[0\]\[2\] and got {got}"):
            lowered([x, x, wrong] + [x] * (count - 3))


@pytest.mark.parametrize("count", [3, 200])
def test_a_released_operand_is_noticed(count: int) -> None:
    x = tl.array(np.ones(4, np.float32))
    lowered = tl.lower(lambda xs: [each + 1 for each in xs], [x] * count)
    gone = tl.array(np.ones(4, np.float32))
    gone.buffer.release()
    with pytest.raises(HandleError, match="a buffer was used after its release"):
        lowered([gone] + [x] * (count - 1))


@pytest.mark.parametrize("count", [3, 200])
def test_a_call_inside_a_trace_is_refused(count: int) -> None:
    x = np.ones(4, np.float32)
    lowered = tl.lower(lambda xs: [each + 1 for each in xs], [x] * count)
    with pytest.raises(TraceError, match="is lowered and was called inside a trace"):
        tl.make_graph(lambda y: y + lowered([x] * count)[0])(x)


def test_results_are_watched_where_they_are_to_be() -> None:
    lowered = tl.lower(lambda x, y: (x + y, x / y), np.float32(1), np.float32(1))
    with tl.Session(), tl.debug.nan_checks(infinities=True):
        assert float(lowered(np.float32(1), np.float32(2))[1]) == 0.5
        with pytest.raises(NonFiniteError, match="a lowered function returned inf in result 1"):
            lowered(np.float32(1), np.float32(0))


def test_a_call_in_a_fresh_context_makes_a_session_for_its_results() -> None:
    lowered = tl.lower(lambda x: x + 1, np.float32(1))
    made = Context().run(lowered, np.float32(1))
    assert float(made) == 2
    assert made.session.profile.name == "checked_cpu"


def test_a_lowered_function_has_a_signature() -> None:
    lowered = tl.lower(lambda x: x + 1, np.float32(1))
    assert str(inspect.signature(lowered)) == "(*args, **kwargs)"
    assert callable(lowered)


@pytest.mark.parametrize("wrong", [None, [1.0, 2.0], {"a": None}])
def test_a_container_where_an_array_belongs_is_refused_with_its_path(wrong: Any) -> None:
    for argument, path in ((wrong, r"args\[0\]"), ({"a": wrong}, r"args\[0\]\['a'\]")):
        sample: Any = np.ones(2, np.float32) if path.endswith(r"\[0\]") else {"a": np.ones(2, np.float32)}
        made = tl.lower(lambda t: tl.pytree.map(lambda x: x * 2, t), sample)
        with pytest.raises(StructureError, match=rf"was lowered for other arguments: at {path}: expected"):
            made(argument)
