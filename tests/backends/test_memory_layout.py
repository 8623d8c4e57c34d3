"""Bits do not depend on how an operand lies in memory: Fortran order, strides, reversed views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backends.toolbox import same_bits
from ops.samples import SAMPLES, Sample

from torchlean.backends import Executable, accept, plan, profiles
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.types import type_of_array


def layouts(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """The same entries in Fortran order, with gaps, and as a reversed view."""
    if array.ndim == 0:
        yield from (array, array, array)
        return
    yield np.asfortranarray(array)
    wide = np.zeros([2 * size for size in array.shape], array.dtype)
    gaps = wide[tuple([slice(None, None, 2)] * array.ndim)]
    gaps[...] = array
    yield gaps
    back = tuple([slice(None, None, -1)] * array.ndim)
    yield np.ascontiguousarray(array[back])[back]


def one_node(sample: Sample) -> Graph:
    types = tuple(type_of_array(array) for array in sample.arrays)
    made = sample.op.type_rule(sample.params, *types)
    ins, outs = tuple(range(len(types))), tuple(range(len(types), len(types) + len(made)))
    node = Node(sample.op, ins, outs, sample.params, NOWHERE)
    return Graph(inputs=ins, nodes=(node,), outputs=outs, types=(*types, *made))


@pytest.mark.parametrize("sample", [pytest.param(s, id=repr(s)) for s in SAMPLES if s.arrays])
def test_bits_do_not_depend_on_memory_layout(sample: Sample) -> None:
    made = Executable(accept(plan(one_node(sample), profiles.checked_cpu)))
    want = made.call(*sample.arrays)
    tried = 0
    for arrays in zip(*[layouts(array) for array in sample.arrays], strict=True):
        for mine, theirs in zip(made.call(*arrays), want, strict=True):
            assert mine.shape == theirs.shape
            assert same_bits(mine, theirs)
        tried += 1
    assert tried == 3
