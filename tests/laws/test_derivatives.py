"""Laws of derivatives, over every op and sample.

Tangents against central differences in float64; reverse mode the adjoint of forward mode, to second order; what has no
tangent says why. The oracle for values is the difference quotient, never another derivative of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse, is_float, randoms
from ops.samples import Sample

from torchlean.ir.builder import bind
from torchlean.ir.check import check
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.ops import ALL_OPS, COMPOSITES, CONTROL, PRIMITIVES
from torchlean.ir.ops.elementwise import CONVERT, Target
from torchlean.ir.rules import NoTangent
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import vjp_graph

Array = np.ndarray[Any, Any]

# The step of a central difference that balances its truncation, h²·|f‴|/6, with its rounding, u·|f|/h: h = ∛u.
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)
# At that step both errors are near 4e-11 times |f| and |f‴|; |f‴| reaches 3360 among the samples (x⁷ at 2).
DIFFERENCE_TOLERANCE = 1e-7
# Two ways to add the same products: each sum is off by at most its length times u of Σ|terms| [Higham 2002, §4.2].
# No sample adds more than 2⁹ products in a row.
ROUNDINGS = 2.0**9

NO_TANGENT = (
    "constant",
    "full",
    "iota",
    "sign",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "stop_gradient",
    "argmax",
    "argmin",
    "random_bits",
    "shift_right",
    "threefry2x32",
    "splitmix64",
    "floor",
    "ceil",
    "trunc",
    "round",
    "is_finite",
    "is_nan",
    "signbit",
    "floor_divide",
    "and",
    "or",
    "xor",
    "not",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
    "population_count",
    "clz",
    "bitcast_convert",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
)

SMOOTH = [case for case in ALL_CASES if case.smooth]
REVERSIBLE = [case for case in SMOOTH if has_reverse(case.op)]
ONE_PER_OP = [next(c for c in REVERSIBLE if c.op is op) for op in {c.op: 0 for c in REVERSIBLE}]
# Complex numbers have conventions of their own, and their own laws.
COMPLEX = ("real", "imag", "conj", "complex", "fft", "rfft", "irfft")


def is_real(case: Case) -> bool:
    """Whether no operand is complex or an 8-bit storage format, nor any result."""
    types = [type_of_array(array) for array in case.arrays]
    return case.op.name not in COMPLEX and all(
        type.dtype.is_float or type.dtype.is_integer or type.dtype.is_bool
        for type in (*types, *graph_of(case).output_types)
    )


# Words in the names of samples at which a value or a slope is infinite or NaN.
INFINITE = ("specials", "negative base", "label outside", "exp-far", "expm1-far", "out of", "degenerate")


# Reverse mode must be the adjoint at kinks and ties too: every case with floats, all finite, that has a tangent.
FINITE = [
    case
    for case in ALL_CASES
    if not isinstance(case.op.diff, NoTangent)
    and float_operands(case)
    and has_reverse(case.op)
    and is_real(case)
    and all(np.isfinite(array).all() for array in case.arrays if is_float(array))
    and not any(word in repr(case) for word in INFINITE)
]


def params(cases: Sequence[Case]) -> list[Any]:
    return [pytest.param(case, id=repr(case)) for case in cases]


def directions(case: Case, like: Sequence[Array]) -> list[Array]:
    """Random directions of the types of `like`."""
    random = randoms(case)
    return [random.uniform(-1, 1, array.shape).astype(array.dtype) for array in like]


def forward(graph: Graph, wrt: Sequence[int]) -> Graph:
    """The checked JVP graph with respect to the inputs at `wrt`; tangents of inactive float outputs are left out."""
    made, _ = jvp_graph(graph, [at in wrt for at in range(len(graph.inputs))])
    check(made)
    return made


def tangents_of(graph: Graph, wrt: Sequence[int], primals: Sequence[Array], moved: Sequence[Array]) -> list[Array]:
    """One tangent per output; zeros where it is structurally zero."""
    made, active = jvp_graph(graph, [at in wrt for at in range(len(graph.inputs))])
    check(made)
    found = list(denote(made, [*primals, *moved])[len(graph.outputs) :])
    zeros = [np.zeros(type.shape, type.dtype.carrier) for type in graph.output_types]
    return [found.pop(0) if is_active else zero for is_active, zero in zip(active, zeros, strict=True)]


def shifted(primals: Sequence[Array], wrt: Sequence[int], moved: Sequence[Array], step: float) -> list[Array]:
    arrays = list(primals)
    for at, tangent in zip(wrt, moved, strict=True):
        arrays[at] = arrays[at] + step * tangent
    return arrays


def differences(graph: Graph, primals: Sequence[Array], wrt: Sequence[int], moved: Sequence[Array]) -> list[Array]:
    """Central differences of the float outputs along a direction; zeros for the others."""
    above = denote(graph, shifted(primals, wrt, moved, STEP))
    below = denote(graph, shifted(primals, wrt, moved, -STEP))
    return [(a - b) / (2 * STEP) if is_float(a) else np.zeros_like(a) for a, b in zip(above, below, strict=True)]


def assert_near_differences(got: Sequence[Array], want: Sequence[Array], values: Sequence[Array], case: Case) -> None:
    assert len(got) == len(want) > 0
    for tangent, quotient, value in zip(got, want, values, strict=True):
        assert tangent.shape == quotient.shape
        assert tangent.dtype == value.dtype
        scale = 1 + np.abs(quotient) + np.max(np.abs(value), initial=0)
        assert np.all(np.abs(tangent - quotient) <= DIFFERENCE_TOLERANCE * scale), repr(case)


def inner(xs: Sequence[Array], ys: Sequence[Array]) -> tuple[float, float]:
    """Σ x·y and Σ |x·y| over all entries, in float64."""
    products = [
        (x.astype(np.float64) * y.astype(np.float64)).reshape(-1) for x, y in zip(xs, ys, strict=True) if is_float(x)
    ]
    flat = np.concatenate([*products, np.zeros(1)])
    return float(flat.sum()), float(np.abs(flat).sum())


def unit_of(array: Array) -> float:
    """Twice the unit roundoff of a float array: the spacing of its format above 1."""
    one = np.ones((), array.dtype)
    step = 1.0
    while float((one + one.dtype.type(step / 2)).astype(np.float64)) > 1.0:
        step /= 2
    return step


def assert_adjoint(graph: Graph, primals: Sequence[Array], wrt: Sequence[int], case: Case) -> None:
    """⟨J v, w⟩ = ⟨v, Jᵀ w⟩ for random v and w."""
    pulled = vjp_graph(graph, wrt)
    check(pulled)
    outputs = denote(graph, primals)
    vs = directions(case, [primals[at] for at in wrt])
    ws = directions(case, outputs)
    moved = tangents_of(graph, wrt, primals, vs)
    back = denote(pulled, [*primals, *ws])
    assert [(b.shape, b.dtype) for b in back] == [(primals[at].shape, primals[at].dtype) for at in wrt]
    left, left_size = inner(moved, ws)
    right, right_size = inner(vs, back)
    unit = max([unit_of(primals[at]) for at in wrt] + [unit_of(w) for w in ws if is_float(w)])
    # Values inside the two maps (not only their sums) are rounded relative to the sizes of the operands.
    largest = [float(np.max(np.abs(a.astype(np.float64)), initial=0)) for a in [*outputs, *primals] if is_float(a)]
    sizes = 1 + max(largest)
    assert abs(left - right) <= ROUNDINGS * unit * (left_size + right_size + sizes * len(wrt)), repr(case)


# -- what has a tangent ------------------------------------------------------------------------------------------------
def test_the_ops_without_a_tangent_are_these_and_say_why() -> None:
    without = [op for op in ALL_OPS if isinstance(op.diff, NoTangent)]
    assert sorted(op.name for op in without) == sorted(NO_TANGENT)
    assert [op.name for op in without if not op.diff.reason.strip()] == []
    differentiable = {op.name for op in ALL_OPS} - {op.name for op in without}
    for law, found, elsewhere in (
        ("differences", SMOOTH, set(COMPLEX)),
        ("adjoints", REVERSIBLE, {*COMPLEX, "while"}),
        ("second order", ONE_PER_OP, {*COMPLEX, "while"}),
        ("adjoints at kinks", FINITE, {*COMPLEX, "while"}),
    ):
        assert differentiable - {case.op.name for case in found} == elsewhere, f"{law}: ops without a sample"


def test_the_number_of_cases_is_known() -> None:
    assert (len(PRIMITIVES), len(COMPOSITES), len(CONTROL)) == (136, 26, 5)
    assert (*PRIMITIVES, *COMPOSITES, *CONTROL) == ALL_OPS
    assert {op.name for op in ALL_OPS} - {case.op.name for case in ALL_CASES} == set(), "ops without a sample"
    assert min(Counter([case.op for case in ALL_CASES]).values()) >= 3
    assert len(ALL_CASES) >= 3000
    assert len(SMOOTH) >= 615
    assert len(FINITE) >= 1500


@pytest.mark.parametrize("case", params([case for case in ALL_CASES if case.op.name in NO_TANGENT]))
def test_what_has_no_tangent_passes_none_on(case: Case) -> None:
    graph = graph_of(case)
    wrt = float_operands(case)
    made, active = jvp_graph(graph, [at in wrt for at in range(len(graph.inputs))])
    check(made)
    assert active == (False,) * len(graph.outputs)
    pulled = vjp_graph(graph, wrt)
    check(pulled)
    cotangents = [np.ones(type.shape, type.dtype.carrier) for type in graph.output_types]
    for back, at in zip(denote(pulled, [*case.arrays, *cotangents]), wrt, strict=True):
        assert not back.any(), f"operand {at} got a cotangent"


# -- first order -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", params(SMOOTH))
def test_the_tangent_is_the_limit_of_central_differences(case: Case) -> None:
    graph, wrt = graph_of(case), float_operands(case)
    check(graph)
    moved = directions(case, [case.arrays[at] for at in wrt])
    got = tangents_of(graph, wrt, case.arrays, moved)
    assert_near_differences(got, differences(graph, case.arrays, wrt, moved), denote(graph, case.arrays), case)


@pytest.mark.parametrize("case", params(SMOOTH))
def test_each_operand_alone_has_its_own_tangent(case: Case) -> None:
    """A single active operand: the rules must cope with absent tangents, and the parts must add up."""
    graph, wrt = graph_of(case), float_operands(case)
    moved = directions(case, [case.arrays[at] for at in wrt])
    total = tangents_of(graph, wrt, case.arrays, moved)
    parts = [tangents_of(graph, (at,), case.arrays, (v,)) for at, v in zip(wrt, moved, strict=True)]
    for at, whole in enumerate(total):
        together = sum(part[at] for part in parts)
        np.testing.assert_allclose(together, whole, rtol=1e-12, atol=1e-12 * (1 + np.max(np.abs(whole), initial=0)))


@pytest.mark.parametrize("case", params(FINITE))
def test_reverse_mode_is_the_adjoint_of_forward_mode(case: Case) -> None:
    graph, wrt = graph_of(case), float_operands(case)
    assert_adjoint(graph, case.arrays, wrt, case)
    for at in wrt if len(wrt) > 1 else ():
        assert_adjoint(graph, case.arrays, (at,), case)


# -- second order ------------------------------------------------------------------------------------------------------
def seeded(graph: Graph, case: Case) -> list[Array]:
    random = randoms(case)
    return [random.uniform(-1, 1, t.shape).astype(t.dtype.carrier) for t in graph.output_types]


@pytest.mark.parametrize("case", params(REVERSIBLE))
def test_the_tangent_of_reverse_mode_is_the_limit_of_its_differences(case: Case) -> None:
    """Forward over reverse."""
    graph, wrt = graph_of(case), float_operands(case)
    pulled = vjp_graph(graph, wrt)
    primals = [*case.arrays, *seeded(graph, case)]
    active = tuple([at for at, array in enumerate(primals) if is_float(array)])
    moved = directions(case, [primals[at] for at in active])
    got = tangents_of(pulled, active, primals, moved)
    assert_near_differences(got, differences(pulled, primals, active, moved), denote(pulled, primals), case)


@pytest.mark.parametrize("case", params(SMOOTH))
def test_the_tangent_of_forward_mode_is_the_limit_of_its_differences(case: Case) -> None:
    """Forward over forward."""
    graph, wrt = graph_of(case), float_operands(case)
    pushed = forward(graph, wrt)
    primals = [*case.arrays, *directions(case, [case.arrays[at] for at in wrt])]
    active = tuple([at for at, array in enumerate(primals) if is_float(array)])
    moved = directions(case, [primals[at] for at in active])
    got = tangents_of(pushed, active, primals, moved)
    assert_near_differences(got, differences(pushed, primals, active, moved), denote(pushed, primals), case)


@pytest.mark.parametrize("case", params(REVERSIBLE))
def test_reverse_mode_of_either_mode_is_the_adjoint_of_its_forward_mode(case: Case) -> None:
    """Reverse over reverse and reverse over forward, by the adjoint law on the first derivative's own graph."""
    graph, wrt = graph_of(case), float_operands(case)
    pulled = vjp_graph(graph, wrt)
    primals = [*case.arrays, *seeded(graph, case)]
    floats = tuple([at for at, array in enumerate(primals) if is_float(array)])
    assert_adjoint(pulled, primals, floats, case)
    pushed = forward(graph, wrt)
    primals = [*case.arrays, *directions(case, [case.arrays[at] for at in wrt])]
    floats = tuple([at for at, array in enumerate(primals) if is_float(array)])
    assert_adjoint(pushed, primals, floats, case)


@pytest.mark.parametrize("case", params(ONE_PER_OP))
def test_third_order_follows_from_the_same_rules(case: Case) -> None:
    """Forward over forward over reverse, one sample per op."""
    graph, wrt = graph_of(case), float_operands(case)
    pulled = vjp_graph(graph, wrt)
    primals = [*case.arrays, *seeded(graph, case)]
    active = tuple([at for at, array in enumerate(primals) if is_float(array)])
    pushed = forward(pulled, active)
    primals += directions(case, [primals[at] for at in active])
    again = tuple([at for at, array in enumerate(primals) if is_float(array)])
    moved = directions(case, [primals[at] for at in again])
    got = tangents_of(pushed, again, primals, moved)
    assert_near_differences(got, differences(pushed, primals, again, moved), denote(pushed, primals), case)


# -- conversion between precisions -------------------------------------------------------------------------------------
@pytest.mark.parametrize("source", [DType.F16, DType.F32, DType.F64])
@pytest.mark.parametrize("target", [dtype for dtype in DType if dtype.is_float or dtype.is_integer or dtype.is_bool])
def test_a_conversion_moves_tangents_forward_and_cotangents_back(source: DType, target: DType) -> None:
    """Between float dtypes the tangent is converted, and the cotangent converted back; other targets pass nothing."""
    graph = trace_flat(lambda x: bind(CONVERT, Target(target), x), [TensorType((3,), source)]).graph
    made, active = jvp_graph(graph, [True])
    pulled = vjp_graph(graph, (0,))
    check(made)
    check(pulled)
    x, v = np.array([1.5, 2.0, 0.25], source.carrier), np.array([0.5, -1.0, 2.0], source.carrier)
    ct = np.array([1, 0, 1], target.carrier)
    (back,) = denote(pulled, (x, ct))
    assert type_of_array(back) == TensorType((3,), source)
    if target.is_float:
        assert active == (True,)
        np.testing.assert_array_equal(denote(made, (x, v))[1], v.astype(target.carrier), strict=True)
        np.testing.assert_array_equal(back, ct.astype(source.carrier), strict=True)
    else:
        assert active == (False,)
        assert not back.any()


def test_every_sample_was_drawn_from_the_op_it_names() -> None:
    """The one-node graphs of the laws hold the op the case is about."""
    for case in ALL_CASES:
        found = [node.op for node in graph_of(case).nodes]
        assert case.op in found
        assert len(found) == 1 or not isinstance(case, Sample)
