"""The kinds behind the reported cases, generated from the op records: poles, dead branches, ties, positions.

A new op is tried here as soon as it has samples; nobody lists it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES, float_operands, graph_of, has_reverse
from ops.samples import Sample

from torchlean.ir import ops
from torchlean.ir.builder import bind
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import ALL_OPS
from torchlean.ir.ops import functions as f
from torchlean.ir.ops.elementwise import LOG
from torchlean.ir.ops.gather import Along, Mode
from torchlean.ir.rules import Elementwise, NoTangent, Slope
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import vjp_graph

Array = np.ndarray[Any, Any]

# Where slopes of elementary and special functions are infinite or overflow, and ordinary places between.
POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, -3.0, 7.0, 1e-300, -1e-300, 1e4, -1e4, 1e200, -1e200)


def _apply(op: Op, params: Any, xs: Sequence[Any]) -> Any:
    """`params` of a composite are the function users call."""
    return params(*xs) if callable(params) else bind(op, params, *xs)[0]


def _operands(count: int) -> list[Array]:
    """Every combination of points, one array per operand."""
    points = POINTS if count < 3 else (0.0, 1.0, -1.0, 1e200)
    return [np.array(column) for column in zip(*product(points, repeat=count), strict=True)]


def _elementwise() -> Iterator[tuple[Op, Any, int]]:
    """(op, params, number of operands) of every elementwise op on floats, with each kind of params its samples have."""
    seen: set[Any] = set()
    for case in ALL_CASES:
        floats = all(array.dtype.kind == "f" for array in case.arrays)
        if case.op.diff.__class__ is not Elementwise or not floats or not case.arrays:
            continue
        params = case.params if isinstance(case, Sample) else case.function
        key = (case.op, params)
        if key not in seen:
            seen.add(key)
            yield case.op, params, len(case.arrays)


ELEMENTWISE = list(_elementwise())


def ids(cases: Sequence[tuple[Op, Any, int]]) -> list[Any]:
    return [
        pytest.param(*case, id=f"{case[0].name}-{'' if case[1] is NO_PARAMS or callable(case[1]) else case[1]}")
        for case in cases
    ]


def _in_dead_branch(op: Op, params: Any, dress: Callable[[Any, Sequence[Any]], Any]) -> Callable[..., Any]:
    """x₀ where the condition holds, which it always does, else something made of the op."""

    def function(*xs: Any) -> list[Any]:
        taken = f.eq(xs[0], xs[0])
        return [f.select(taken, xs[0], dress(_apply(op, params, xs), xs))]

    return function


DRESSES: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
    "bare": lambda y, xs: y,
    "times": lambda y, xs: y * xs[0],
    "inside": lambda y, xs: f.tanh(f.sin(y) * y) / xs[-1],
}


def _graph(function: Callable[..., Sequence[Any]], arrays: Sequence[Array]) -> Graph:
    types = [TensorType(array.shape, DType.F64) for array in arrays]
    return trace_flat(function, types).graph


@pytest.mark.parametrize(("op", "params", "count"), ids(ELEMENTWISE))
def test_a_zero_cotangent_comes_back_as_zero_whatever_the_slope(op: Op, params: Any, count: int) -> None:
    arrays = _operands(count)
    graph = _graph(lambda *xs: [_apply(op, params, xs)], arrays)
    pulled = vjp_graph(graph, range(count))
    for position, made in enumerate(denote(pulled, [*arrays, np.zeros_like(arrays[0])])):
        wrong = np.flatnonzero(made != 0)
        assert not wrong.size, f"operand {position} at {[array[wrong[0]] for array in arrays]}: {made[wrong[0]]}"


@pytest.mark.parametrize(("op", "params", "count"), ids(ELEMENTWISE))
def test_a_zero_tangent_stays_zero_whatever_the_slope(op: Op, params: Any, count: int) -> None:
    arrays = _operands(count)
    graph = _graph(lambda *xs: [_apply(op, params, xs)], arrays)
    pushed, active = jvp_graph(graph, [True] * count)
    if not active[0]:
        return
    made = denote(pushed, [*arrays, *[np.zeros_like(array) for array in arrays]])[1]
    wrong = np.flatnonzero(made != 0)
    assert not wrong.size, f"at {[array[wrong[0]] for array in arrays]}: {made[wrong[0]]}"


@pytest.mark.parametrize("dress", list(DRESSES))
@pytest.mark.parametrize(("op", "params", "count"), ids(ELEMENTWISE))
def test_a_branch_not_taken_contributes_nothing(op: Op, params: Any, count: int, dress: str) -> None:
    """Slope 1 by the operand that is taken, exactly 0 by the others; forward, reverse, and forward over reverse.

    Plain arithmetic that overflows is no pole: a product of its ∞ is not watched, so those points are left out there.
    """
    arrays = _operands(count)
    if op.diff.slope is Slope.FINITE and dress == "times":
        kept = np.isfinite(denote(_graph(lambda *xs: [_apply(op, params, xs)], arrays), arrays)[0])
        arrays = [array[kept] for array in arrays]
    ones, zeros = np.ones_like(arrays[0]), np.zeros_like(arrays[0])
    graph = _graph(_in_dead_branch(op, params, DRESSES[dress]), arrays)
    pulled = vjp_graph(graph, range(count))
    for position, made in enumerate(denote(pulled, [*arrays, ones])):
        np.testing.assert_array_equal(made, ones if position == 0 else zeros, err_msg=f"reverse, operand {position}")
    pushed, _ = jvp_graph(graph, [True] * count)
    for position in range(count):
        tangents = [ones if at == position else zeros for at in range(count)]
        made = denote(pushed, [*arrays, *tangents])[1]
        np.testing.assert_array_equal(made, ones if position == 0 else zeros, err_msg=f"forward, operand {position}")
    second, active = jvp_graph(pulled, [True] * count + [False])
    made = denote(second, [*arrays, ones, *[ones] * count])[count:]
    assert len(made) == sum(active)
    for entry in made:
        np.testing.assert_array_equal(entry, zeros, err_msg="forward over reverse")


def test_every_elementwise_op_is_tried() -> None:
    wanted = {op for op in ALL_OPS if op.diff.__class__ is Elementwise and op in {case.op for case in ALL_CASES}}
    tried = {op for op, _, _ in ELEMENTWISE}
    assert wanted == tried, {op.name for op in wanted ^ tried}
    assert len(tried) >= 40, len(tried)
    watched = {op.name for op in tried if op.diff.slope is not Slope.FINITE}
    assert {"sqrt", "rsqrt", "log", "log1p", "div", "pow", "integer_pow", "exp", "asin", "atan2", "cbrt"} <= watched
    assert {"add", "mul", "neg", "sin", "tanh", "max"}.isdisjoint(watched)


def test_a_pole_that_is_not_declared_is_found() -> None:
    """The law has teeth: the same op said to be finite everywhere fails it."""
    forgotten = dataclasses.replace(LOG, diff=dataclasses.replace(LOG.diff, slope=Slope.FINITE))
    with pytest.raises(AssertionError, match="operand 0"):
        test_a_zero_cotangent_comes_back_as_zero_whatever_the_slope(forgotten, NO_PARAMS, 1)
    with pytest.raises(AssertionError, match="reverse, operand 0"):
        test_a_branch_not_taken_contributes_nothing(forgotten, NO_PARAMS, 1, "bare")


# -- composites --------------------------------------------------------------------------------------------------------
FAR = np.array([-1e30, -1e4, -90.0, -1.0, -0.0, 0.0, 1.0, 90.0, 1e4, 1e30])
ACTIVATIONS = ("relu", "gelu", "silu", "softplus", "log_sigmoid", "sinc", "logistic", "tanh", "erf")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_a_finite_slope_of_every_order_everywhere(name: str, dtype: Any) -> None:
    """Value aside, which may overflow where the function grows, slopes are bounded by 3, second ones by 4."""
    x = np.clip(FAR, -6e4, 6e4).astype(dtype) if dtype == np.float16 else FAR.astype(dtype)
    type = TensorType(x.shape, type_of_array(x).dtype)
    graph = trace_flat(lambda x: [getattr(ops, name)(x)], [type]).graph
    pulled = vjp_graph(graph, (0,))
    ones = np.ones_like(x)
    (first,) = denote(pulled, [x, ones])
    pushed, active = jvp_graph(pulled, [True, False])
    second = denote(pushed, [x, ones, ones])[1] if active[0] else np.zeros_like(x)
    assert np.all(np.abs(first) <= 3), first
    assert np.all(np.abs(second) <= 4), second
    (forward,) = denote(jvp_graph(graph, [True])[0], [x, ones])[1:]
    np.testing.assert_allclose(forward.astype(np.float64), first.astype(np.float64), rtol=1e-2, atol=1e-3)


# -- ties --------------------------------------------------------------------------------------------------------------
def _moves_with_its_operands(graph: Graph, arrays: Sequence[Array], floats: Sequence[int]) -> bool:
    """f(x + t) = f(x) + t at ties: such an f chooses among its operands (or averages them)."""
    before = denote(graph, arrays)
    if not any(b.dtype == np.float64 and b.size for b in before) or not all(np.isfinite(b).all() for b in before):
        return False
    for shift in (1.0, -2.5, 0.125):
        after = denote(graph, [array + shift if at in floats else array for at, array in enumerate(arrays)])
        if not all(
            np.array_equal(a, b + shift if b.dtype == np.float64 else b) for a, b in zip(after, before, strict=True)
        ):
            return False
    return True


FACTORS = ("lu",)  # of a 1×1 matrix it is the identity, but a singular matrix has no derivative there


def _ties() -> Iterator[tuple[Any, Graph, list[Array], tuple[int, ...]]]:
    """Every case on float64 whose op moves with its operands, all floats replaced by small whole numbers that tie."""
    for case in ALL_CASES:
        floats = float_operands(case)
        if not floats or any(case.arrays[at].dtype != np.float64 or not case.arrays[at].size for at in floats):
            continue
        if case.op.diff.__class__ is NoTangent or not has_reverse(case.op) or case.op.name in FACTORS:
            continue
        random = np.random.default_rng(1)
        arrays = [
            random.integers(0, 2, array.shape).astype(np.float64) if at in floats else array
            for at, array in enumerate(case.arrays)
        ]
        graph = graph_of(case)
        with np.errstate(all="ignore"):
            if _moves_with_its_operands(graph, arrays, floats):
                yield case, graph, arrays, floats


TIES = list(_ties())


@pytest.mark.parametrize(("case", "graph", "arrays", "floats"), [pytest.param(*row, id=repr(row[0])) for row in TIES])
def test_shares_of_ties_add_up_to_one(case: Any, graph: Graph, arrays: list[Array], floats: tuple[int, ...]) -> None:
    """f(x + t) = f(x) + t, so the slopes along ones are ones; the transpose says that cotangents are conserved."""
    pushed, active = jvp_graph(graph, [at in floats for at in range(len(arrays))])
    ones = [np.ones_like(arrays[at]) for at in floats]
    values = denote(graph, arrays)
    tangents = denote(pushed, [*arrays, *ones])[len(values) :]
    for tangent in tangents:
        np.testing.assert_allclose(tangent, np.ones_like(tangent), rtol=1e-12)
    assert any(active)
    random = np.random.default_rng(2)
    cotangents = [random.normal(size=v.shape) if v.dtype.kind == "f" else np.zeros_like(v) for v in values]
    pulled = denote(vjp_graph(graph, floats), [*arrays, *cotangents])
    sent = sum(float(ct.sum()) for ct in cotangents if ct.dtype.kind == "f")
    np.testing.assert_allclose(sum(float(back.sum()) for back in pulled), sent, rtol=1e-9, atol=1e-9)


def test_every_op_that_chooses_is_tried_at_ties() -> None:
    names = {row[0].op.name for row in TIES}
    assert {"max", "min", "clamp", "reduce_max", "reduce_min", "cummax", "cummin", "sort", "max_pool"} <= names, names
    assert {"scatter", "scatter_max", "scatter_min", "gather", "select"} <= names, names


# -- positions: every op whose params are `Along` ----------------------------------------------------------------------
POSITIONED = [op for op in ALL_OPS if op.params is Along]
INDICES = np.array([1, -1, 1, 9, 0, 1], np.int32)  # duplicates, and out of range on both sides


def _positioned(op: Op, mode: Mode) -> tuple[Graph, list[Array], tuple[int, ...]]:
    x = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]])
    updates = np.arange(12.0).reshape(6, 2) * 0.37 - 1.9
    arrays = [x, INDICES, updates][: 2 if op.name == "gather" else 3]
    types = [type_of_array(array) for array in arrays]
    graph = trace_flat(lambda *xs: bind(op, Along(0, 0, mode), *xs), types).graph
    return graph, arrays, (0,) if len(arrays) == 2 else (0, 2)


def _loop(op: Op, mode: Mode, arrays: Sequence[Array]) -> Array:
    """The meaning, one update after another in Python."""
    x = arrays[0]
    kept = [(n, min(max(int(i), 0), 2)) for n, i in enumerate(INDICES) if mode is Mode.CLIP or 0 <= i < 3]
    if op.name == "gather":
        made = np.zeros((6, 2))
        for n, i in kept:
            made[n] = x[i]
        return made
    made = x.copy()
    step = {"scatter_add": np.add, "scatter_mul": np.multiply, "scatter_min": np.minimum, "scatter_max": np.maximum}
    for n, i in kept:
        new = arrays[2][n]
        made[i] = new if op.name == "scatter" else step[op.name](made[i], new)
    return made


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("op", POSITIONED, ids=lambda op: op.name)
def test_duplicate_and_outside_positions(op: Op, mode: Mode) -> None:
    """Value, JVP and VJP against the loop and its difference quotients (it is linear or multilinear between ties)."""
    graph, arrays, floats = _positioned(op, mode)
    np.testing.assert_array_equal(denote(graph, arrays)[0], _loop(op, mode, arrays))
    random = np.random.default_rng(3)
    ct = random.normal(size=graph.output_types[0].shape)
    pulled = denote(vjp_graph(graph, floats), [*arrays, ct])
    pushed, _ = jvp_graph(graph, [at in floats for at in range(len(arrays))])
    step = 1e-6
    for back, at in zip(pulled, floats, strict=True):
        for place in np.ndindex(arrays[at].shape):
            above, below = [[array.copy() for array in arrays] for _ in range(2)]
            above[at][place] += step
            below[at][place] -= step
            slope = (_loop(op, mode, above) - _loop(op, mode, below)) / (2 * step)
            np.testing.assert_allclose(back[place], np.sum(slope * ct), rtol=1e-6, atol=1e-8)
            tangents = [np.zeros_like(arrays[a]) for a in floats]
            tangents[floats.index(at)][place] = 1
            np.testing.assert_allclose(denote(pushed, [*arrays, *tangents])[1], slope, rtol=1e-6, atol=1e-8)


def test_the_ops_that_take_positions_are_these() -> None:
    names = sorted(op.name for op in POSITIONED)
    assert names == ["gather", "scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul"]
