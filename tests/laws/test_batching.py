"""Law of batching: a mapped op is the loop over the mapped axis, for every op, sample and pattern of mapped operands.

Bit for bit, reductions too: each entry of a batched definition keeps its own left fold, so mapping changes no bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse, randoms

from torchlean.conformance.kit.bounds import same_bits
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.ops import ALL_OPS
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import vjp_graph
from torchlean.transforms.vmap import vmap_graph, vmap_graph_partial

Array = np.ndarray[Any, Any]
SIZES = (3, 1, 0)

# One sample per op with a tangent, and every sample of these, whose rules move axes about.
SELECTED_OPS = ("gather", "scatter_add", "dot_general", "conv", "pad", "reduce_max", "select", "attention", "max_pool")


def _selection() -> list[Case]:
    chosen: list[Case] = []
    for op in ALL_OPS:
        if not isinstance(op.diff, NoTangent):
            smooth = [case for case in ALL_CASES if case.op is op and case.smooth]
            chosen += smooth if op.name in SELECTED_OPS else smooth[:1]
    return chosen


SELECTION = _selection()
REVERSIBLE = [case for case in SELECTION if has_reverse(case.op)]


def params(cases: Sequence[Case]) -> list[Any]:
    return [pytest.param(case, id=repr(case)) for case in cases]


def patterns(count: int) -> Iterator[tuple[bool, ...]]:
    """Every choice of at least one mapped operand."""
    return (flags for flags in product((True, False), repeat=count) if any(flags))


def varied(array: Array, size: int) -> Array:
    """`size` arrays like this one: its entries in another order each time, or another value where it has one entry."""
    if array.size > 1:
        examples = [np.roll(array.reshape(-1), 2 * turn + 1).reshape(array.shape) for turn in range(size)]
    elif array.dtype.kind == "b":
        examples = [array ^ bool(turn % 2) for turn in range(size)]
    else:
        with np.errstate(over="ignore"):
            examples = [(array + array.dtype.type(turn)).astype(array.dtype) for turn in range(size)]
    return np.stack(examples) if examples else np.zeros((0, *array.shape), array.dtype)


def assert_is_the_loop(graph: Graph, operands: Sequence[Array], flags: Sequence[bool], size: int) -> None:
    """vmap_graph over the mapped operands equals evaluating once per example and stacking."""
    mapped = vmap_graph(graph, size, flags)
    check(mapped)
    assert mapped.output_types == tuple([t.with_shape((size, *t.shape)) for t in graph.output_types])
    got = denote(mapped, operands)
    for at in range(size):
        example = [x[at] if flag else x for x, flag in zip(operands, flags, strict=True)]
        for made, want in zip(got, denote(graph, example), strict=True):
            assert same_bits(made[at], want), f"example {at} of {size}, mapped {flags}"
    assert [type_of_array(made) for made in got] == list(mapped.output_types)


def test_the_number_of_cases_is_known() -> None:
    assert {op.name for op in ALL_OPS} - {case.op.name for case in ALL_CASES} == set(), "ops without a sample"
    tried = Counter({size: sum(2 ** len(case.arrays) - 1 for case in ALL_CASES) for size in SIZES})
    assert tried.total() >= 19000
    differentiable = {op.name for op in ALL_OPS if not isinstance(op.diff, NoTangent)}
    complex_only = {"real", "imag", "conj", "complex", "fft", "rfft", "irfft"}  # in test_complex.py
    assert differentiable - {case.op.name for case in SELECTION} == complex_only
    assert differentiable - {case.op.name for case in REVERSIBLE} == complex_only | {"while"}
    assert len(SELECTION) >= 195


@pytest.mark.parametrize("case", params(ALL_CASES))
def test_a_mapped_op_is_the_loop(case: Case) -> None:
    graph = graph_of(case)
    for flags in patterns(len(case.arrays)):
        for size in SIZES:
            operands = [varied(x, size) if flag else x for x, flag in zip(case.arrays, flags, strict=True)]
            assert_is_the_loop(graph, operands, flags, size)


@pytest.mark.parametrize("case", params([case for case in ALL_CASES if not case.arrays]))
def test_an_op_without_operands_is_repeated(case: Case) -> None:
    graph = graph_of(case)
    _, flags = vmap_graph_partial(graph, 3, ())
    assert flags == (False,) * len(graph.outputs)
    assert_is_the_loop(graph, (), (), 3)


@pytest.mark.parametrize("case", params(SELECTION))
def test_mapping_twice_is_the_double_loop(case: Case) -> None:
    """An inner axis on every operand, an outer one on each operand alone and on all of them."""
    graph = graph_of(case)
    count = len(case.arrays)
    inner = [varied(x, 2) for x in case.arrays]
    once = vmap_graph(graph, 2, (True,) * count)
    singles = [tuple([at == chosen for at in range(count)]) for chosen in range(count)]
    for flags in {(True,) * count, *singles}:
        operands = [varied(x, 3) if flag else x for x, flag in zip(inner, flags, strict=True)]
        assert_is_the_loop(once, operands, flags, 3)


def derivative_patterns(primals: int, others: int) -> Iterator[tuple[bool, ...]]:
    """All mapped, only the primals, only the (co)tangents, and each operand alone."""
    count = primals + others
    yield (True,) * count
    yield (True,) * primals + (False,) * others
    yield (False,) * primals + (True,) * others
    for chosen in range(count):
        yield tuple([at == chosen for at in range(count)])


def drawn(case: Case, types: Sequence[TensorType]) -> list[Array]:
    random = randoms(case)
    return [random.uniform(-1, 1, type.shape).astype(type.dtype.carrier) for type in types]


@pytest.mark.parametrize("case", params(SELECTION))
def test_mapped_forward_mode_is_the_loop(case: Case) -> None:
    graph, wrt = graph_of(case), float_operands(case)
    pushed, _ = jvp_graph(graph, [at in wrt for at in range(len(case.arrays))])
    operands = [*case.arrays, *drawn(case, [graph.input_types[at] for at in wrt])]
    for flags in derivative_patterns(len(case.arrays), len(wrt)):
        for size in (3, 0):
            full = [varied(x, size) if flag else x for x, flag in zip(operands, flags, strict=True)]
            assert_is_the_loop(pushed, full, flags, size)


@pytest.mark.parametrize("case", params(REVERSIBLE))
def test_mapped_reverse_mode_is_the_loop(case: Case) -> None:
    graph, wrt = graph_of(case), float_operands(case)
    pulled = vjp_graph(graph, wrt)
    operands = [*case.arrays, *drawn(case, graph.output_types)]
    for flags in derivative_patterns(len(case.arrays), len(graph.outputs)):
        for size in (3, 0):
            full = [varied(x, size) if flag else x for x, flag in zip(operands, flags, strict=True)]
            assert_is_the_loop(pulled, full, flags, size)


@pytest.mark.parametrize("case", params(REVERSIBLE))
def test_derivatives_of_a_mapped_op_are_mapped_derivatives(case: Case) -> None:
    """jvp and vjp of vmap equal vmap of jvp and vjp. Sums over the batch are not involved when everything is mapped.

    Tolerance: the two graphs may add the same products in another order; no sum here is longer than 2⁹ terms, so each
    differs by at most 2⁹·u of the sum of magnitudes, which these samples keep below 2⁷.
    """
    graph, wrt = graph_of(case), float_operands(case)
    count = len(case.arrays)
    batch = [varied(x, 3) for x in case.arrays]
    mapped = vmap_graph(graph, 3, (True,) * count)
    active = [at in wrt for at in range(count)]
    tangents = drawn(case, [mapped.input_types[at] for at in wrt])
    cotangents = drawn(case, mapped.output_types)
    pairs = (
        (
            jvp_graph(mapped, active)[0],
            vmap_graph(jvp_graph(graph, active)[0], 3, (True,) * (count + len(wrt))),
            tangents,
        ),
        (vjp_graph(mapped, wrt), vmap_graph(vjp_graph(graph, wrt), 3, (True,) * (count + len(cotangents))), cotangents),
    )
    for outside, inside, others in pairs:
        check(outside)
        check(inside)
        for got, want in zip(denote(outside, [*batch, *others]), denote(inside, [*batch, *others]), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=2.0**16 * np.finfo(np.float64).eps, strict=True)
