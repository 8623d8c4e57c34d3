"""Law: what an op's type rule declares is what its definition returns, and no operand changes."""

from __future__ import annotations

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES
from ops.samples import SAMPLED, SAMPLES, Sample, cases

from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.builder import bind
from torchlean.ir.evaluate import denote
from torchlean.ir.ops import PRIMITIVES
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array

EVERY = tuple([case for case in ALL_CASES if isinstance(case, Sample)])


def test_every_op_has_samples_and_their_number_is_known() -> None:
    assert {sample.op for sample in SAMPLES} == set(SAMPLED)
    assert {sample.op for sample in EVERY} == set(PRIMITIVES)
    assert len(cases(EVERY, PRIMITIVES)) == len(EVERY) >= 2640


@pytest.mark.parametrize("sample", cases(EVERY, PRIMITIVES))
def test_the_definition_returns_the_declared_types(sample: Sample) -> None:
    operands = [np.array(array) for array in sample.arrays]
    before = [(array.shape, array.dtype, array.tobytes()) for array in operands]
    for array in operands:
        array.flags.writeable = False
    types = tuple([type_of_array(array) for array in operands])
    graph = trace_flat(lambda *xs: bind(sample.op, sample.params, *xs), types).graph
    assert graph.output_types == sample.op.type_rule(sample.params, *types)
    results = denote(graph, operands, NumpyAlgebra())
    assert [type_of_array(np.asarray(result)) for result in results] == list(graph.output_types)
    assert [(array.shape, array.dtype, array.tobytes()) for array in operands] == before


@pytest.mark.parametrize("sample", cases(EVERY, PRIMITIVES))
def test_the_definition_is_a_function(sample: Sample) -> None:
    """The same bits again, and whatever the memory layout of the operands."""
    with np.errstate(all="ignore"):
        first = sample.op.denote(NumpyAlgebra(), sample.params, *sample.arrays)
        fortran = [np.asfortranarray(array) if array.ndim else array for array in sample.arrays]
        second = sample.op.denote(NumpyAlgebra(), sample.params, *fortran)
    assert [np.asarray(x).tobytes() for x in first] == [np.asarray(x).tobytes() for x in second]
