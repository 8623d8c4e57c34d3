"""Evidence of the fast provider: each kernel lies within the bound its capsule states, on every sample of its op.

`Relative(eps)` is checked as |result - definition| ≤ eps · ε · n · Σ|terms|. Σ|terms| is the definition evaluated in
float64 on absolute values, and n the definition on ones. Where a partial sum may overflow the bound says nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.toolbox import normal, run_kernel, same_bits, traced
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of
from ops.samples import Sample

from torchlean.backends import Bitwise, Capsule, Executable, Normwise, Relative, Ulp, Unstated, accept, plan, profiles
from torchlean.backends.numpy import MODULE
from torchlean.ir import ops
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op
from torchlean.ir.ops import window
from torchlean.ir.ops.activation import RELU
from torchlean.ir.ops.determinant import DET
from torchlean.ir.ops.factor import QR
from torchlean.ir.ops.loss import CROSS_ENTROPY, MSE_LOSS
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.ops.triangular import CHOLESKY
from torchlean.ir.ops.window_types import AdjointWindow, Window, convolved_shape
from torchlean.ir.types import type_of_array
from torchlean.transforms.api import make_graph
from torchlean.transforms.vjp import vjp_graph

FAST = {capsule.op: capsule for capsule in MODULE.capsules}
POSITIVE = (MSE_LOSS,)  # every term is a square, so the value is its own Σ|terms|


def nodes_of(case: Case) -> list[tuple[Op, Any, tuple[Any, ...]]]:
    """The calls of fast capsules in a case: its op, and the op's gradient."""
    if isinstance(case, Sample):
        return [(case.op, case.params, case.arrays)]
    graph = graph_of(case)
    found = [
        (node.op, node.params, case.arrays) for node in graph.nodes if node.op is case.op and not made_inside(graph)
    ]
    if case.op in (RELU, MSE_LOSS, CROSS_ENTROPY) and not made_inside(graph):
        wrts = [(0,), (1,), (0, 1)] if case.op is MSE_LOSS else [(0,)]
        for wrt in wrts:
            pulled = vjp_graph(graph, wrt)
            (node,) = [node for node in pulled.nodes if node.op is case.op.gradient]
            ct = normal(*graph.output_types[0].shape, seed=4).astype(graph.output_types[0].dtype.carrier)
            found.append((node.op, node.params, (*case.arrays, ct)))
    return found


def made_inside(graph: Graph) -> bool:
    """Whether the call's operands are not the arguments themselves."""
    return len(graph.nodes) != 1


def calls() -> list[Any]:
    found = []
    seen = set()
    for case in ALL_CASES:
        if case.op in FAST:
            for number, (op, params, arrays) in enumerate(nodes_of(case)):
                seen.add(op)
                found.append(pytest.param(op, params, arrays, id=f"{case!r} {number}"))
    assert seen == set(FAST), [op.name for op in set(FAST) - seen]
    assert len(found) >= 150
    return found


@pytest.mark.parametrize(("op", "params", "arrays"), calls())
def test_the_kernel_is_within_its_bound(op: Op, params: Any, arrays: Any) -> None:
    capsule = FAST[op]
    if capsule.refuses(params, tuple([type_of_array(array) for array in arrays])) is not None:
        return
    assert_within(capsule, params, arrays)


def assert_within(capsule: Capsule, params: Any, arrays: Any) -> None:
    with np.errstate(all="ignore"):
        want = capsule.op.denote(NumpyAlgebra(), params, *arrays)
    got = run_kernel(capsule, params, arrays)
    for mine, theirs in zip(got, map(np.asarray, want), strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        match capsule.bound:
            case Bitwise():
                assert same_bits(mine, theirs)
            case Ulp(n):
                assert_ulps(mine, theirs, n)
            case Relative(eps):
                assert_relative(capsule.op, params, arrays, mine, theirs, eps)
            case Normwise(eps):
                assert_normwise(arrays, mine, theirs, eps)
            case Unstated():
                assert capsule.op in FACTORISED  # what they promise is tested as a whole, below
            case _:
                raise AssertionError(capsule.bound)
    if capsule.op in FACTORISED and all(array.size and np.isfinite(array).all() for array in arrays):
        assert_factorised(capsule.op, arrays[0], got, [np.asarray(x) for x in want])


FACTORISED = (CHOLESKY, QR, EIGH, SVD, DET)


def assert_factorised(op: Op, x: Any, got: Any, want: Any) -> None:
    """Backward stability with the usual constant: residuals, orthogonality and (Weyl) values within 16·ε·n·|A|."""
    turn = lambda m: np.conj(np.swapaxes(m, -1, -2))  # noqa: E731
    n = max(x.shape[-2:])
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    near = 16 * np.finfo(x.dtype).eps * n
    if not all(np.isfinite(part).all() for part in want):
        assert all(np.array_equal(np.isnan(mine), np.isnan(theirs)) for mine, theirs in zip(got, want, strict=True))
        return
    if op is DET:
        assert np.all(np.abs(got[0] - want[0]) <= (near * size**n)[..., 0, 0])
        return
    lower = np.tril(x, -1) + turn(np.tril(x, -1)) + np.eye(n) * np.real(x) if op in (CHOLESKY, EIGH) else x
    if op is CHOLESKY:
        made, bases = got[0] @ turn(got[0]), ()
    elif op is QR:
        made, bases = got[0] @ got[1], (got[0],)
    elif op is EIGH:
        made, bases = (got[1] * got[0][..., None, :]) @ turn(got[1]), (got[1],)
        assert np.all(np.abs(got[0] - want[0]) <= near * size[..., 0])
    else:
        made, bases = (got[0] * got[1][..., None, :]) @ got[2], (got[0], turn(got[2]))
        assert np.all(np.abs(got[1] - want[1]) <= near * size[..., 0])
    assert np.all(np.abs(made - lower) <= near * size)
    for basis in bases:
        assert np.all(np.abs(turn(basis) @ basis - np.eye(basis.shape[-1])) <= near)


def assert_ulps(got: Any, want: Any, n: int) -> None:
    if n == 0 or got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    ordinary = np.isfinite(want) & (np.abs(want) > np.finfo(want.dtype).tiny * 8)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    assert (error[ordinary] <= n * np.spacing(np.abs(want[ordinary])).astype(np.float64)).all()


def assert_normwise(arrays: Any, got: Any, want: Any, eps: float) -> None:
    floats = [np.abs(array[np.isfinite(array)]) for array in arrays if array.dtype.kind in "fc"]
    largest = max([float(array.max(initial=0)) for array in floats])
    count = max([array.size for array in arrays])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    allowed = eps * np.finfo(want.dtype).eps * count * (1 + largest)
    known = np.isfinite(want)
    assert (np.abs(got[known] - want[known]) <= allowed).all()


def assert_relative(op: Op, params: Any, arrays: Any, got: Any, want: Any, eps: float) -> None:
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(all="ignore"):
        if op in POSITIVE:
            terms = np.asarray(op.denote(NumpyAlgebra(), params, *[array.astype(np.float64) for array in arrays])[0])
            count = np.full(want.shape, arrays[0].size + 3)
        else:
            whole = [np.abs(array.astype(np.float64)) for array in arrays]
            terms = np.asarray(op.denote(NumpyAlgebra(), params, *whole)[0])
            count = np.asarray(op.denote(NumpyAlgebra(), params, *[np.ones_like(array) for array in whole])[0])
        limits = np.finfo(got.dtype)
        allowed = eps * limits.eps * count * terms + count * limits.smallest_subnormal
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    tame = terms < limits.max / 2
    assert (error[tame] <= allowed[tame]).all(), (error[tame], allowed[tame])
    if all(np.isfinite(array).all() for array in arrays):
        return
    wild = ~np.isfinite(terms)  # an infinity or NaN among the terms decides the result whatever the order
    np.testing.assert_array_equal(got[wild], want[wild])


@pytest.mark.parametrize("shape", [(17, 33), (1, 1000), (1000, 1), (3, 5, 7), (64, 10), (33, 2)])
def test_larger_sums_and_products(shape: tuple[int, ...]) -> None:
    x = normal(*shape, seed=1)
    graph = traced(lambda v: (ops.sum(v), ops.sum(v, 0), ops.sum(v, -1), ops.amax(v, -1), ops.amin(v, -1)), x)
    for node in graph.nodes:
        assert_within(FAST[node.op], node.params, (x,))
    y = normal(shape[-1], 40, seed=2)
    (node,) = traced(ops.matmul, x, y).nodes
    assert_within(FAST[node.op], node.params, (x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_entropy_of_many_rows(dtype: Any) -> None:
    """Large logits, ties, an infinite one, and labels outside the classes, forward and gradient."""
    x = (normal(64, 10, seed=1) * 30).astype(dtype)
    x[0, :], x[1, 3] = 2.0, -np.inf
    labels = np.random.default_rng(2).integers(0, 10, 64).astype(np.int32)
    bad = labels.copy()
    bad[5], bad[6] = 10, -1
    seen = 0
    for chosen in (labels, bad):
        graph = vjp_graph(
            make_graph(lambda a, b: ops.cross_entropy(a, b))(type_of_array(x), type_of_array(chosen)),
            (0,),
            with_outputs=True,
        )
        for node in graph.nodes:
            arrays = (x, chosen) if node.op is CROSS_ENTROPY else (x, chosen, np.array(0.7, dtype=dtype))
            if node.op in (CROSS_ENTROPY, CROSS_ENTROPY.gradient):
                assert_within(FAST[node.op], node.params, arrays)
                seen += 1
    assert seen == 4


def test_many_cotangents_pass_relu_with_their_bits() -> None:
    """Beyond the size from which bits are cleared instead of chosen."""
    x, ct = normal(64, 40, seed=1), normal(64, 40, seed=2)
    x.flat[:4], ct.flat[:4] = (np.nan, -0.0, 0.0, -np.inf), (1.0, np.inf, np.nan, np.inf)
    ct.flat[4:8] = (np.inf, -np.inf, -0.0, np.nan)
    for dtype in (np.float16, np.float32, np.float64):
        here, there = x.astype(dtype), ct.astype(dtype)
        (node,) = vjp_graph(traced(ops.relu, here), (0,)).nodes
        assert_within(FAST[node.op], node.params, (here, there))
        assert_within(FAST[node.op], node.params, (here, np.asfortranarray(there)))


def test_products_of_every_arrangement() -> None:
    """Each choice of contracted axis, with and without batch axes, and more than one contracted axis."""
    checked = 0
    x, y = normal(4, 4, 4, seed=1), normal(4, 4, 4, seed=2)
    for contract in (((2,), (0,)), ((0,), (2,)), ((1,), (1,)), ((1, 2), (0, 1)), ((2, 0), (1, 0)), ((), ())):
        for batch in (((), ()), ((0,), (0,)), ((1,), (2,)), ((2, 1), (1, 2))):
            if set(contract[0]) & set(batch[0]) or set(contract[1]) & set(batch[1]):
                continue
            graph = traced(lambda a, b, c=contract, d=batch: ops.dot_general(a, b, contract=c, batch=d), x, y)
            assert_within(FAST[graph.nodes[0].op], graph.nodes[0].params, (x, y))
            checked += 1
    for left, right in (((5,), (5,)), ((5,), (5, 3)), ((3, 5), (5,)), ((), (3,))):
        a, b = normal(*left, seed=1), normal(*right, seed=2)
        contract = ((len(left) - 1,), (0,)) if left else ((), ())
        graph = traced(lambda v, w, c=contract: ops.dot_general(v, w, contract=c), a, b)
        assert_within(FAST[graph.nodes[0].op], graph.nodes[0].params, (a, b))
        checked += 1
    assert checked == 16


WINDOWS = [
    (Window((1, 1), ((0, 0), (0, 0)), (1, 1), 1), (5, 4, 7, 6), (6, 4, 3, 3)),
    (Window((2, 1), ((1, 1), (2, 0)), (1, 2), 2), (3, 4, 7, 9), (6, 2, 3, 2)),
    (Window((2,), ((-1, 0),), (1,), 1), (2, 3, 9), (5, 3, 3)),
    (Window((3,), ((0, 0),), (1,), 1), (2, 3, 12), (5, 3, 2)),
]


@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize(("params", "x_shape", "w_shape"), WINDOWS)
def test_larger_convolutions(params: Window, x_shape: Any, w_shape: Any, spoiled: bool) -> None:
    """Infinite and NaN factors included: they do not touch results whose windows skip them."""
    x, w = normal(*x_shape, seed=1), normal(*w_shape, seed=2)
    ct = normal(*convolved_shape(params, x_shape, w_shape), seed=3)
    if spoiled:
        for array in (x, w, ct):
            array.flat[0] = np.inf
    back = AdjointWindow(params.strides, params.padding, params.dilation, params.groups, x_shape[2:])
    to_kernel = AdjointWindow(params.strides, params.padding, params.dilation, params.groups, w_shape[2:])
    assert_within(FAST[window.CONV], params, (x, w))
    assert_within(FAST[window.CONV_INPUT_ADJOINT], back, (ct, w))
    assert_within(FAST[window.CONV_KERNEL_ADJOINT], to_kernel, (x, ct))


# Gradients add at most 2⁹ products in a row in these samples; both sides err by at most that many roundings of each.
ROUNDINGS = 2.0**9


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=repr(case))
        for case in ALL_CASES
        if case.smooth and float_operands(case) and any(node.op in FAST for node in graph_of(case).nodes)
    ],
)
def test_the_gradient_is_within_its_bound(case: Case) -> None:
    graph = graph_of(case)
    pulled = vjp_graph(graph, float_operands(case))
    arrays = (*case.arrays, *[normal(*type.shape, seed=9).astype(type.dtype.carrier) for type in graph.output_types])
    want = denote(pulled, arrays)
    got = Executable(accept(plan(pulled, profiles.fast_cpu))).checked(*arrays)
    for mine, theirs in zip(got, want, strict=True):
        scale = max(1.0, float(np.abs(theirs).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=ROUNDINGS * np.finfo(theirs.dtype).eps * scale)
