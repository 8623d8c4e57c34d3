"""Evidence of the strict provider: every kernel and every gradient has the bits of the definition.

The oracle is `denote` over `NumpyAlgebra`: Python loops that add one row after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.toolbox import calls, defined, normal, run_kernel, same_bits
from ops.composite_samples import ALL_CASES, Call, Case, float_operands, graph_of, has_reverse
from ops.samples import Sample

from torchlean.backends import Capsule, Executable, accept, plan, profiles
from torchlean.backends.reference import MODULE
from torchlean.backends.reference.fold import fold_products, fold_rows
from torchlean.conformance.kit.calls import Trial, calls_of
from torchlean.conformance.kit.layout import layouts
from torchlean.conformance.samples.larger import LARGER
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.dtypes import as_dtype
from torchlean.ir.evaluate import denote
from torchlean.ir.ops import PRIMITIVES, window
from torchlean.ir.ops.activation import RELU
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.loss import MSE_LOSS
from torchlean.ir.ops.neural import LINEAR
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.window_types import Window, adjoint_window
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
    want = defined(sample.op, sample.params, sample.arrays)
    got = run_kernel(STRICT[sample.op], sample.params, sample.arrays)
    assert [same_bits(g, w) for g, w in zip(got, want, strict=True)] == [True] * len(want)


@pytest.mark.parametrize("sample", strict_samples())
def test_the_memory_layout_of_operands_does_not_matter(sample: Sample) -> None:
    """Fortran order, gaps, reversed views, and memory that cannot be written."""
    straight = run_kernel(STRICT[sample.op], sample.params, sample.arrays)
    for operands in zip(*[[x for _, x in layouts(array)] for array in sample.arrays], strict=True):
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


@pytest.mark.parametrize(("made", "trial"), calls([STRICT[op] for op in STRICT if any(calls_of(op, LARGER))], LARGER))
def test_larger_calls_have_the_bits_of_the_definition(made: Capsule, trial: Trial) -> None:
    """Products of every arrangement, convolutions with infinite factors, fused composites, long sums."""
    want = defined(trial.op, trial.params, trial.arrays)
    got = run_kernel(made, trial.params, trial.arrays)
    assert [same_bits(g, w) for g, w in zip(got, want, strict=True)] == [True] * len(want)


def test_the_number_of_larger_calls_is_known() -> None:
    found = {op: len(list(calls_of(op, LARGER))) for op in STRICT}
    assert sum(count for count in found.values()) >= 150
    assert {op.name: found[op] for op in (RELU, MSE_LOSS, DOT_GENERAL, window.CONV)} == {
        "relu": 8,
        "mse_loss": 5,
        "dot_general": 28,
        "conv": 12,
    }


def test_calls_of_composites_are_among_the_cases() -> None:
    assert sum(isinstance(case, Call) for case in ALL_CASES) >= 100


@pytest.mark.parametrize("factor", [np.inf, np.nan])
@pytest.mark.parametrize("short", ["f32", "f16", "bf16", "c64"])
def test_what_a_convolution_skips_is_no_product_with_what_is_not_finite(short: str, factor: float) -> None:
    """0 · ∞ is NaN; the definition has no such term where the kernel reaches beyond the input."""
    carrier = as_dtype(short).carrier
    x, w = normal(2, 2, 5, 4, seed=1).astype(carrier), normal(3, 2, 3, 2, seed=2).astype(carrier)
    w[0, 0, 0, 0] = factor
    ct = normal(2, 3, 5, 4, seed=3).astype(carrier)
    ct[1, 2, 3, 3] = factor
    given = Window(strides=(1, 1), padding=((1, 1), (0, 1)), dilation=(1, 1), groups=1)
    calls = (
        (window.CONV, given, (x, w)),
        (window.CONV_INPUT_ADJOINT, adjoint_window(given, (5, 4)), (ct, w)),
        (window.CONV_KERNEL_ADJOINT, adjoint_window(given, (3, 2)), (x, ct)),
    )
    with np.errstate(all="ignore"):
        for op, params, arrays in calls:
            (want,), (got,) = defined(op, params, arrays), run_kernel(STRICT[op], params, arrays)
            assert same_bits(got, want), op
