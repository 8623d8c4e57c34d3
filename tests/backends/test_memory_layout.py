"""Bits do not depend on how an operand lies in memory: Fortran order, strides, reversed views, read-only."""

from __future__ import annotations

import pytest
from backends.toolbox import same_bits
from ops.samples import SAMPLES, Sample

from torchlean.backends import Executable, accept, plan, profiles
from torchlean.conformance.kit.layout import layouts
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.types import type_of_array


def one_node(sample: Sample) -> Graph:
    types = tuple(type_of_array(array) for array in sample.arrays)
    made = sample.op.type_rule(sample.params, *types)
    ins, outs = tuple(range(len(types))), tuple(range(len(types), len(types) + len(made)))
    node = Node(sample.op, ins, outs, sample.params, NOWHERE)
    return Graph(inputs=ins, nodes=(node,), outputs=outs, types=(*types, *made))


@pytest.mark.parametrize("sample", [pytest.param(s, id=repr(s)) for s in SAMPLES if s.arrays])
def test_bits_do_not_depend_on_memory_layout(sample: Sample) -> None:
    made = Executable(accept(plan(one_node(sample), profiles.reference_cpu)))
    want = made.call(*sample.arrays)
    tried = 0
    for arrays in zip(*[[x for _, x in layouts(array)] for array in sample.arrays], strict=True):
        for mine, theirs in zip(made.call(*arrays), want, strict=True):
            assert mine.shape == theirs.shape
            assert same_bits(mine, theirs)
        tried += 1
    assert tried == 4
