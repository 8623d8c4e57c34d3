"""Evidence of the strict provider: every kernel and every gradient has the bits of the definition.

The oracle is `denote` over `NumpyAlgebra`: Python loops that add one row after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.toolbox import normal, run_kernel, same_bits, traced
from ops.composite_samples import ALL_CASES, Call, Case, float_operands, graph_of, has_reverse
from ops.samples import Sample

from torchlean.backends import Capsule, Executable, accept, plan, profiles
from torchlean.backends.reference import MODULE
from torchlean.backends.reference.fold import fold_products, fold_rows
from torchlean.ir import ops
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.evaluate import denote
from torchlean.ir.ops import PRIMITIVES, window
from torchlean.ir.ops.activation import RELU
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.loss import MSE_LOSS
from torchlean.ir.ops.neural import LINEAR
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.window_types import AdjointWindow, Window, convolved_shape
from torchlean.transforms.vjp import vjp_graph

STRICT = {capsule.op: capsule for capsule in MODULE.capsules}
SIZES = (0, 1, 2, 3, 5, 7, 17)


def case_of(case: Case) -> Any:
    return pytest.param(case, id=repr(case))


def executed(graph: Any, arrays: Any) -> tuple[Any, ...]:
    return Executable(accept(plan(graph, profiles.checked_cpu))).checked(*arrays)


def test_every_primitive_has_a_strict_capsule_and_linear_has_none() -> None:
    assert set(PRIMITIVES) <= set(STRICT)
    assert {RELU, MSE_LOSS} <= set(STRICT)
    assert LINEAR not in STRICT


def strict_samples() -> list[Any]:
    found = [case_of(case) for case in ALL_CASES if isinstance(case, Sample) and case.op in STRICT]
    assert len(found) >= 850
    return found


@pytest.mark.parametrize("sample", strict_samples())
def test_the_kernel_has_the_bits_of_the_definition(sample: Sample) -> None:
    with np.errstate(all="ignore"):
        want = sample.op.denote(NumpyAlgebra(), sample.params, *sample.arrays)
    got = run_kernel(STRICT[sample.op], sample.params, sample.arrays)
    assert [same_bits(g, np.asarray(w)) for g, w in zip(got, want, strict=True)] == [True] * len(want)


@pytest.mark.parametrize("sample", strict_samples())
def test_the_memory_layout_of_operands_does_not_matter(sample: Sample) -> None:
    """Fortran order, and every second entry of a larger array."""
    straight = run_kernel(STRICT[sample.op], sample.params, sample.arrays)
    turned = [np.array(array, order="F") for array in sample.arrays]
    sparse = [np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array for array in sample.arrays]
    for operands in (turned, sparse):
        for got, want in zip(run_kernel(STRICT[sample.op], sample.params, operands), straight, strict=True):
            assert same_bits(got, want)


@pytest.mark.parametrize("case", [case_of(case) for case in ALL_CASES])
def test_a_plan_has_the_bits_of_the_definition(case: Case) -> None:
    graph = graph_of(case)
    want = denote(graph, case.arrays)
    got = executed(graph, case.arrays)
    assert [same_bits(g, w) for g, w in zip(got, want, strict=True)] == [True] * len(want)


def differentiable() -> list[Any]:
    found = [case_of(case) for case in ALL_CASES if float_operands(case) and has_reverse(case.op)]
    assert len(found) >= 800
    return found


@pytest.mark.parametrize("case", differentiable())
def test_the_gradient_has_the_bits_of_its_definition(case: Case) -> None:
    graph = graph_of(case)
    pulled = vjp_graph(graph, float_operands(case))
    cotangents = [normal(*type.shape, seed=9).astype(type.dtype.carrier) for type in graph.output_types]
    arrays = (*case.arrays, *cotangents)
    want = denote(pulled, arrays)
    got = executed(pulled, arrays)
    assert [same_bits(g, w) for g, w in zip(got, want, strict=True)] == [True] * len(want)


# -- folds, against loops over single numbers --------------------------------------------------------------------------
def looped_sum(column: Any) -> Any:
    total = column.dtype.type(0)
    for entry in column:
        total = total + entry
    return total


@pytest.mark.parametrize("kept", [*SIZES, 300])
@pytest.mark.parametrize("count", [*SIZES, 100, 1000])
def test_rows_are_added_one_after_another(count: int, kept: int) -> None:
    rows = normal(count, kept, seed=3) * 10.0 ** np.arange(kept, dtype=np.float32).clip(0, 6)
    rows = rows.astype(np.float32)
    want = np.array([looped_sum(rows[:, column]) for column in range(kept)], dtype=np.float32)
    assert same_bits(fold_rows(rows), want)
    assert same_bits(fold_rows(np.asfortranarray(rows)), want)


def test_a_sum_of_negative_zeros_is_zero() -> None:
    for shape in ((4, 1), (4, 3)):
        assert same_bits(fold_rows(np.full(shape, -0.0, dtype=np.float32)), np.zeros(shape[1], dtype=np.float32))


@pytest.mark.parametrize(
    ("folded", "batch", "rows", "columns"),
    [(k, 1, m, n) for k in SIZES for m in (0, 1, 3, 17) for n in (1, 2, 7, 17)]
    + [
        (5, 3, 4, 2),
        (300, 2, 1, 1),
        (300, 1, 40, 50),
        (64, 1, 64, 128),
        (10, 1, 300, 3),
        (700, 1, 9, 20),
        (9, 2, 200, 90),
    ],
)
def test_products_are_added_one_after_another(folded: int, batch: int, rows: int, columns: int) -> None:
    left, right = normal(folded, batch, rows, seed=1), normal(folded, batch, columns, seed=2)
    want = np.zeros((batch, rows, columns), dtype=np.float32)
    for k in range(folded):
        want = want + left[k, :, :, None] * right[k, :, None, :]
    assert same_bits(fold_products(left, right), want)


@pytest.mark.parametrize("size", [1, 7, 40, 100])
def test_skipped_products_count_as_zero_whatever_the_factors(size: int) -> None:
    left, right = normal(17, 1, size, seed=1), normal(17, 1, size, seed=2)
    left[3], left[8] = np.inf, np.nan
    skipped = np.zeros((17, 1, size), dtype=bool)
    skipped[[3, 8]] = True
    keep = [k for k in range(17) if k not in (3, 8)]
    assert same_bits(fold_products(left, right, skipped), fold_products(left[keep], right[keep]))


@pytest.mark.parametrize("shape", [(), (1,), (17,), (3, 5), (1, 7, 1), (7, 1, 17), (2, 3, 5, 7), (4, 0, 3)])
def test_sums_over_every_choice_of_axes(shape: tuple[int, ...]) -> None:
    x = normal(*shape, seed=5)
    checked = 0
    for chosen in range(2 ** len(shape)):
        axes = tuple(axis for axis in range(len(shape)) if chosen >> axis & 1)
        (want,) = REDUCE_SUM.denote(NumpyAlgebra(), Axes(axes), x)
        for operand in (x, np.array(x, order="F")):
            assert same_bits(run_kernel(STRICT[REDUCE_SUM], Axes(axes), [operand])[0], np.asarray(want))
            checked += 1
    assert checked == 2 ** (len(shape) + 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.uint8])
def test_products_of_every_dtype(dtype: Any) -> None:
    a = (normal(17, 33, seed=1, dtype=np.float64) * 50).astype(dtype)
    b = (normal(9, 33, seed=2, dtype=np.float64) * 50).astype(dtype)
    dims = DotDims((1,), (1,), (), ())
    with np.errstate(all="ignore"):
        (want,) = DOT_GENERAL.denote(NumpyAlgebra(), dims, a, b)
    assert same_bits(run_kernel(STRICT[DOT_GENERAL], dims, [a, b])[0], want)


WINDOWS = [
    (Window((1, 1), ((0, 0), (0, 0)), (1, 1), 1), (5, 4, 7, 6), (6, 4, 3, 3)),
    (Window((2, 1), ((1, 1), (2, 0)), (1, 2), 2), (3, 4, 7, 9), (6, 2, 3, 2)),
    (Window((3,), ((2, 1),), (2,), 1), (2, 3, 17), (5, 3, 3)),
    (Window((1, 1), ((1, 1), (1, 1)), (1, 1), 1), (17, 1, 8, 8), (16, 1, 3, 3)),
]


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize(("params", "x_shape", "w_shape"), WINDOWS)
def test_convolutions_larger_than_the_samples(params: Window, x_shape: Any, w_shape: Any, spoiled: bool) -> None:
    """With an infinity and a NaN among the factors too: positions outside are skipped, not multiplied by 0."""
    x, w = normal(*x_shape, seed=1), normal(*w_shape, seed=2)
    y_shape = convolved_shape(params, x_shape, w_shape)
    ct = normal(*y_shape, seed=3)
    if spoiled:
        for array in (x, w, ct):
            array.flat[0], array.flat[-1] = np.inf, np.nan
    back = AdjointWindow(params.strides, params.padding, params.dilation, params.groups, x_shape[2:])
    to_kernel = AdjointWindow(params.strides, params.padding, params.dilation, params.groups, w_shape[2:])
    for op, given, operands in (
        (window.CONV, params, (x, w)),
        (window.CONV_INPUT_ADJOINT, back, (ct, w)),
        (window.CONV_KERNEL_ADJOINT, to_kernel, (x, ct)),
    ):
        with np.errstate(all="ignore"):
            (want,) = op.denote(NumpyAlgebra(), given, *operands)
        assert same_bits(run_kernel(STRICT[op], given, operands)[0], want), op.name


@pytest.mark.parametrize("shape", [(), (0,), (17,), (3, 5), (25, 1)])
def test_fused_composites_have_the_bits_of_their_bodies(shape: tuple[int, ...]) -> None:
    x, y = normal(*shape, seed=1), normal(*shape, seed=2)
    x = np.where(np.abs(x) < 0.3, np.float32(-0.0), x).astype(np.float32)
    for function, arrays in ((ops.relu, (x,)), (ops.mse_loss, (x, y))):
        graph = traced(function, *arrays)
        (node,) = graph.nodes
        capsule: Capsule = STRICT[node.op]
        assert same_bits(run_kernel(capsule, node.params, arrays)[0], denote(graph, arrays)[0])


def test_calls_of_composites_are_among_the_cases() -> None:
    assert sum(isinstance(case, Call) for case in ALL_CASES) >= 100
