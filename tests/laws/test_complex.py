"""Laws of derivatives over complex numbers.

Tangents against central differences along complex directions; reverse mode the adjoint of forward mode for the real
inner product Re Σ conj(x)·y, to second order; the cotangent of a real loss is ∂L/∂re + i·∂L/∂im.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ops.composite_samples import graph_of, randoms
from ops.numeric_samples import COMPLEX_SMOOTH, HOLOMORPHIC, definite, separated
from ops.samples import Sample

from torchlean.ir import ops
from torchlean.ir.check import check
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import grad_graph, vjp_graph

Array = np.ndarray[Any, Any]

STEP = float(np.finfo(np.float64).eps) ** (1 / 3)  # see test_derivatives.py
DIFFERENCE_TOLERANCE = 1e-7
ROUNDINGS = 2.0**9


def params(samples: Sequence[Sample]) -> list[Any]:
    return [pytest.param(sample, id=repr(sample)) for sample in samples]


def is_inexact(array: Array) -> bool:
    return array.dtype.kind in "fc"


def directions(sample: Sample, like: Sequence[Array]) -> list[Array]:
    """Random directions, complex where the operand is."""
    random = randoms(sample)

    def one(array: Array) -> Array:
        made = random.uniform(-1, 1, array.shape)
        return (made + 1j * random.uniform(-1, 1, array.shape) if array.dtype.kind == "c" else made).astype(array.dtype)

    return [one(array) for array in like]


def tangents_of(graph: Graph, wrt: Sequence[int], primals: Sequence[Array], moved: Sequence[Array]) -> list[Array]:
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


def assert_near_differences(graph: Graph, primals: Sequence[Array], wrt: Sequence[int], sample: Sample) -> None:
    moved = directions(sample, [primals[at] for at in wrt])
    values = denote(graph, primals)
    above, below = (denote(graph, shifted(primals, wrt, moved, step)) for step in (STEP, -STEP))
    for tangent, high, low, value in zip(tangents_of(graph, wrt, primals, moved), above, below, values, strict=True):
        assert tangent.dtype == value.dtype
        if is_inexact(value):
            quotient = (high - low) / (2 * STEP)
            scale = 1 + np.abs(quotient) + np.max(np.abs(value), initial=0)
            assert np.all(np.abs(tangent - quotient) <= DIFFERENCE_TOLERANCE * scale), repr(sample)


def inner(xs: Sequence[Array], ys: Sequence[Array]) -> tuple[float, float]:
    """Re Σ conj(x)·y and Σ |x·y|."""
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if is_inexact(x)]
    return (
        float(sum(np.real(np.sum(np.conj(x) * y)) for x, y in pairs)),
        float(sum(np.sum(np.abs(x * y)) for x, y in pairs)),
    )


def assert_adjoint(graph: Graph, primals: Sequence[Array], wrt: Sequence[int], sample: Sample) -> None:
    pulled = vjp_graph(graph, wrt)
    check(pulled)
    outputs = denote(graph, primals)
    vs = directions(sample, [primals[at] for at in wrt])
    ws = directions(sample, outputs)
    moved = tangents_of(graph, wrt, primals, vs)
    back = denote(pulled, [*primals, *ws])
    assert [(b.shape, b.dtype) for b in back] == [(primals[at].shape, primals[at].dtype) for at in wrt]
    left, left_size = inner(moved, ws)
    right, right_size = inner(vs, back)
    sizes = 1 + max(float(np.max(np.abs(a), initial=0)) for a in [*outputs, *primals] if is_inexact(a))
    unit = float(np.finfo(np.float64).eps)
    assert abs(left - right) <= ROUNDINGS * unit * (left_size + right_size + sizes * len(wrt)), repr(sample)


def operands(sample: Sample) -> tuple[int, ...]:
    return tuple([at for at, array in enumerate(sample.arrays) if is_inexact(array)])


def test_the_number_of_samples_is_known() -> None:
    assert len(COMPLEX_SMOOTH) >= 165
    assert len({sample.op for sample in COMPLEX_SMOOTH}) == 66
    assert {op for op, _ in HOLOMORPHIC} <= {sample.op for sample in COMPLEX_SMOOTH}


@pytest.mark.parametrize("sample", params(COMPLEX_SMOOTH))
def test_the_tangent_is_the_limit_of_central_differences(sample: Sample) -> None:
    assert_near_differences(graph_of(sample), sample.arrays, operands(sample), sample)


@pytest.mark.parametrize("sample", params(COMPLEX_SMOOTH))
def test_reverse_mode_is_the_adjoint_of_forward_mode(sample: Sample) -> None:
    graph = graph_of(sample)
    assert_adjoint(graph, sample.arrays, operands(sample), sample)
    for at in operands(sample) if len(operands(sample)) > 1 else ():
        assert_adjoint(graph, sample.arrays, (at,), sample)


@pytest.mark.parametrize("sample", params(COMPLEX_SMOOTH))
def test_the_derivative_of_reverse_mode_obeys_both_laws(sample: Sample) -> None:
    """Forward over reverse against differences, and reverse over reverse its adjoint."""
    graph = graph_of(sample)
    pulled = vjp_graph(graph, operands(sample))
    primals = [*sample.arrays, *directions(sample, denote(graph, sample.arrays))]
    wrt = tuple([at for at, array in enumerate(primals) if is_inexact(array)])
    assert_near_differences(pulled, primals, wrt, sample)
    assert_adjoint(pulled, primals, wrt, sample)


def real_loss(function: Any, *arrays: Array) -> Graph:
    """|f|² summed, a function of the arrays' real and imaginary parts."""

    def flat(*xs: Any) -> list[Any]:
        y = function(*xs)
        return [ops.sum(ops.real(ops.mul(y, ops.conj(y))))]

    return trace_flat(flat, [type_of_array(array) for array in arrays]).graph


LOSSES: tuple[tuple[str, Any, tuple[Array, ...]], ...] = (
    ("product", lambda z, w: z * w + z, (np.array([1 + 2j, -0.5j]), np.array([0.3 - 1j, 2 + 0j]))),
    ("matmul", lambda a, b: a @ b, (np.array([[1 + 2j, 0.5], [1j, -1]]), np.array([[1j, 2], [0.1, 1 - 1j]]))),
    ("absolute value", lambda z: ops.complex(abs(z), 0 * abs(z)), (np.array([1 + 2j, -0.5j]),)),
    ("transform", ops.fftn, (np.array([1 + 2j, -0.5j, 3.0]),)),
)


@pytest.mark.parametrize(("name", "function", "arrays"), [pytest.param(*loss, id=loss[0]) for loss in LOSSES])
def test_the_gradient_of_a_real_loss_is_the_derivative_in_re_plus_i_times_that_in_im(
    name: str, function: Any, arrays: tuple[Array, ...]
) -> None:
    graph = real_loss(function, *arrays)
    wrt = tuple(range(len(arrays)))
    gradients = denote(grad_graph(graph, wrt), arrays)[1:]
    for at, gradient in zip(wrt, gradients, strict=True):
        for index in np.ndindex(arrays[at].shape):
            for way, part in ((1.0, np.real), (1j, np.imag)):
                bump = np.zeros_like(arrays[at])
                bump[index] = way
                high, low = (denote(graph, shifted(arrays, (at,), (bump,), step))[0] for step in (STEP, -STEP))
                assert abs((high - low) / (2 * STEP) - part(gradient[index])) <= 1e-7, name


def test_functions_that_the_phase_of_the_vectors_does_not_change_have_derivatives() -> None:
    """A matrix function by eigh, and a product by svd, of complex matrices."""

    def square_root(x: Any) -> list[Any]:
        values, vectors = ops.eigh(x)
        wide = ops.complex(ops.sqrt(values), 0 * values)
        return [(vectors * wide) @ ops.conj(vectors.T)]

    def polar(x: Any) -> list[Any]:
        u, _, vh = ops.svd(x)
        return [u @ vh]

    for function, array in ((square_root, definite(3, (), np.complex128)), (polar, separated((4, 3), np.complex128))):
        graph = trace_flat(function, [type_of_array(array)]).graph
        moved = np.random.default_rng(0).uniform(-1, 1, (2, *array.shape))
        direction = moved[0] + 1j * moved[1]
        (tangent,) = tangents_of(graph, (0,), (array,), (direction,))
        high, low = (denote(graph, (array + step * direction,))[0] for step in (STEP, -STEP))
        assert np.all(np.abs(tangent - (high - low) / (2 * STEP)) <= 1e-7)
        w = moved[1] - 1j * moved[0]
        (back,) = denote(vjp_graph(graph, (0,)), (array, w[: tangent.shape[0], : tangent.shape[1]]))
        left, _ = inner([tangent], [w[: tangent.shape[0], : tangent.shape[1]]])
        right, _ = inner([direction], [back])
        assert abs(left - right) <= 1e-12


def test_conversion_to_complex_takes_back_the_real_part() -> None:
    graph = trace_flat(lambda x: [ops.convert(x, "c128")], [type_of_array(np.zeros(2, np.float32))]).graph
    x = np.array([1.0, 2.0], np.float32)
    (back,) = denote(vjp_graph(graph, (0,)), (x, np.array([1 + 5j, -2 + 7j])))
    np.testing.assert_array_equal(back, np.array([1.0, -2.0], np.float32), strict=True)
