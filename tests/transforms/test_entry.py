"""The generated way into a lowered function: containers it takes apart itself, and what it refuses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import torchlean as tl
from torchlean.errors import StructureError


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
    assert "general" not in lowered._entry.__qualname__


def test_another_class_with_the_same_fields_is_refused() -> None:
    lowered = tl.lower(swapped, Pair(np.float32(1), np.float32(2)))
    for wrong in (Other(np.float32(1), np.float32(2)), (np.float32(1), np.float32(2))):
        with pytest.raises(StructureError, match="swapped was lowered for other arguments"):
            lowered(wrong)
