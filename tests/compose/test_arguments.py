"""What the transforms accept and return: argnums, keywords, has_aux, and trees of every kind of node."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from compose.twins import direction, near

import torchlean as tl
from torchlean import ops, pytree

Point = namedtuple("Point", ["x", "y"])


@dataclass(frozen=True)
class Layer:
    """Two arrays and a static field."""

    weight: Any
    bias: Any
    kind: str


pytree.register_dataclass(Layer, ["weight", "bias"], ["kind"])

A, B = direction(0, 3), direction(1, 3)


# -- argnums -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("argnums", [0, 1, 2, -1, -2, -3])
def test_one_argnum_gives_that_arguments_gradient_as_it_is(argnums: int) -> None:
    want = (B * 2.0, A * 2.0, ops.sum(A * B))[argnums]
    near(tl.grad(lambda a, b, s: ops.sum(a * b) * s, argnums)(A, B, np.float64(2.0)), np.asarray(want))


@pytest.mark.parametrize("argnums", [(0,), (1, 0), (0, -1), [2, 1], (0, 1, 2)])
def test_several_argnums_give_a_tuple_in_their_order(argnums: Any) -> None:
    want = (B * 2.0, A * 2.0, np.asarray(np.sum(A * B)))
    made = tl.grad(lambda a, b, s: ops.sum(a * b) * s, argnums)(A, B, np.float64(2.0))
    assert isinstance(made, tuple)
    assert len(made) == len(argnums)
    for gradient, position in zip(made, argnums, strict=True):
        near(gradient, want[position])


def test_the_same_argument_twice_gets_its_gradient_twice() -> None:
    first, second = tl.grad(lambda a, b: ops.sum(a * b), argnums=(0, 0))(A, B)
    near(first, B)
    near(second, B)


def test_one_array_passed_twice_is_two_arguments() -> None:
    near(tl.grad(lambda a, b: ops.sum(a * a * b))(A, A), 2 * A * A)
    both = tl.grad(lambda a, b: ops.sum(a * a * b), argnums=(0, 1))(A, A)
    near(both[0], 2 * A * A)
    near(both[1], A * A)


# -- keywords ----------------------------------------------------------------------------------------------------------
def test_keywords_reach_the_function_and_are_not_differentiated() -> None:
    def f(a: Any, *, scale: Any, power: int = 2) -> Any:
        return ops.sum(a**power) * scale

    near(tl.grad(f)(A, scale=np.float64(3.0)), 6 * A)
    near(tl.grad(f)(A, scale=np.float64(3.0), power=3), 9 * A**2)
    value, gradient = tl.value_and_grad(f)(A, scale=2.0, power=1)
    near(value, np.asarray(2 * A.sum()))
    near(gradient, np.full(3, 2.0))
    near(tl.jacrev(lambda a, *, s: a * s)(A, s=2.0), 2 * np.eye(3))
    near(tl.hessian(f)(A, scale=1.0), 2 * np.eye(3))
    assert tl.eval_shape(f, A, scale=1.0).dtype is tl.DType.F64


def test_static_arguments_reach_the_function_as_they_are() -> None:
    def f(a: Any, mode: str, options: dict[str, Any]) -> Any:
        assert mode == "cube"
        assert options["name"] == "x"
        return ops.sum(a**3)

    near(tl.grad(f)(A, "cube", {"name": "x"}), 3 * A**2)


# -- has_aux -----------------------------------------------------------------------------------------------------------
def test_aux_is_returned_beside_the_result_by_every_transform() -> None:
    def f(x: Any) -> Any:
        return ops.sum(x * x), {"twice": 2.0 * x, "label": "text", "count": 3, "nothing": None}

    def checked(aux: Any) -> None:
        near(aux["twice"], 2 * A)
        assert aux["label"] == "text"
        assert int(np.asarray(aux["count"])) == 3
        assert aux["nothing"] is None

    gradient, aux = tl.grad(f, has_aux=True)(A)
    near(gradient, 2 * A)
    checked(aux)
    (value, aux), gradient = tl.value_and_grad(f, has_aux=True)(A)
    near(value, np.asarray(A @ A))
    near(gradient, 2 * A)
    checked(aux)
    value, pullback, aux = tl.vjp(f, A, has_aux=True)
    near(pullback(np.float64(1.0))[0], 2 * A)
    checked(aux)
    value, tangent, aux = tl.jvp(f, (A,), (B,), has_aux=True)
    near(value, np.asarray(A @ A))
    near(tangent, np.asarray(2 * A @ B))
    checked(aux)
    for jacobian in (tl.jacfwd, tl.jacrev):
        made, aux = jacobian(f, has_aux=True)(A)
        near(made, 2 * A)
        checked(aux)
    made, aux = tl.hessian(f, has_aux=True)(A)
    near(made, 2 * np.eye(3))
    checked(aux)


def test_aux_of_a_nested_transform_may_hold_an_outer_value() -> None:
    def outer(x: Any) -> Any:
        gradient, aux = tl.grad(lambda y: (ops.sum(y**3), x * y), has_aux=True)(x)
        return ops.sum(gradient * aux)

    near(tl.grad(outer)(A), 12 * A**3)  # Σ 3x²·x²


# -- trees -------------------------------------------------------------------------------------------------------------
TREES: dict[str, Any] = {
    "dict": {"w": A, "b": B},
    "nested dict": {"layer": {"w": A}, "out": {"w": B, "extra": {}}},
    "list": [A, B],
    "tuple": (A, (B,)),
    "named tuple": Point(A, Point(B, A)),
    "dataclass": Layer(A, Layer(B, None, "inner"), "outer"),
    "ordered dict": OrderedDict(z=A, a=B),
    "None beside arrays": (None, A, {"b": None, "c": B}),
    "one array": A,
    "empty and one array": ((), A, []),
}


def total(tree: Any) -> Any:
    """Σ over leaves i of (i + 1)·Σ x³: every leaf has another gradient."""
    return sum([(i + 1.0) * ops.sum(x**3) for i, x in enumerate(pytree.leaves(tree))])


@pytest.mark.parametrize("name", sorted(TREES))
def test_a_gradient_has_the_tree_of_its_argument(name: str) -> None:
    tree = TREES[name]
    leaves, treedef = pytree.flatten(tree)
    value, gradient = tl.value_and_grad(total)(tree)
    found, structure = pytree.flatten(gradient)
    assert structure == treedef
    for i, (x, made) in enumerate(zip(leaves, found, strict=True)):
        near(made, 3 * (i + 1) * x**2)
    near(value, np.asarray(sum((i + 1) * (x**3).sum() for i, x in enumerate(leaves))))


@pytest.mark.parametrize("name", sorted(TREES))
def test_forward_mode_takes_tangents_of_the_same_tree(name: str) -> None:
    tree = TREES[name]
    tangents = pytree.map(np.ones_like, tree)
    _, moved = tl.jvp(total, (tree,), (tangents,))
    near(moved, np.asarray(sum((i + 1) * (3 * x**2).sum() for i, x in enumerate(pytree.leaves(tree)))))


@pytest.mark.parametrize("name", sorted(TREES))
def test_mapping_over_a_tree_maps_every_leaf(name: str) -> None:
    tree = TREES[name]
    made = tl.vmap(lambda t: pytree.map(lambda x: x * x, t))(tree)
    found, structure = pytree.flatten(made)
    leaves, treedef = pytree.flatten(tree)
    assert structure == treedef
    for x, y in zip(leaves, found, strict=True):
        near(y, x * x)


def test_static_fields_of_a_dataclass_survive_and_choose_the_branch() -> None:
    def f(layer: Any) -> Any:
        return ops.sum(layer.weight * 2.0) if layer.kind == "double" else ops.sum(layer.weight)

    assert tl.grad(f)(Layer(A, B, "double")).kind == "double"
    near(tl.grad(f)(Layer(A, B, "double")).weight, np.full(3, 2.0))
    near(tl.grad(f)(Layer(A, B, "single")).weight, np.ones(3))
    near(tl.grad(f)(Layer(A, B, "single")).bias, np.zeros(3))


def test_python_numbers_are_differentiated_as_float32() -> None:
    gradient = tl.grad(lambda x: x * x * 3.0)(2.0)
    assert np.asarray(gradient).dtype == np.float32
    assert float(gradient) == 12.0
    made = tl.grad(lambda p: p["a"] * p["b"])({"a": 2.0, "b": 5.0})
    assert (float(made["a"]), float(made["b"])) == (5.0, 2.0)
    assert float(tl.jvp(lambda x: x**3, (2.0,), (1.0,))[1]) == 12.0


def test_a_numpy_float64_scalar_is_float64_everywhere() -> None:
    """`numpy.float64` is a subclass of Python's float, but says its dtype: nothing is narrowed."""
    x = np.float64(1.0) + 1e-12
    for made in (
        tl.grad(lambda x: x * x)(x),
        tl.value_and_grad(lambda x: x * x)(x)[0],
        tl.jvp(lambda x: x * x, (x,), (np.float64(1),))[1],
        tl.vjp(lambda x: x * x, x)[1](np.float64(1))[0],
        tl.linearize(lambda x: x * x, x)[1](np.float64(1)),
        tl.jacfwd(lambda x: x * x)(x),
        tl.hessian(lambda x: x * x * x)(x),
        ops.add(np.float32(1), x),
        ops.constant(x),
        tl.jit(lambda x: x * x)(x),
    ):
        assert np.asarray(made).dtype == np.float64
    assert float(tl.grad(lambda y: y * x)(np.float64(2))) == x


def test_a_results_tree_comes_back_with_its_other_leaves() -> None:
    value, tangent = tl.jvp(lambda x: {"y": Point(x * x, "label"), "none": None}, (A,), (np.ones(3),))
    near(value["y"].x, A * A)
    assert value["y"].y == "label"
    near(tangent["y"].x, 2 * A)
    assert value["none"] is None


def test_make_graph_and_eval_shape_take_types_instead_of_values() -> None:
    kind = tl.TensorType((3,), tl.DType.F64)
    graph = tl.make_graph(tl.grad(total))({"w": kind, "b": kind})
    assert [str(type) for type in graph.output_types] == ["f64[3]", "f64[3]"]
    shapes = tl.eval_shape(lambda p: {"s": total(p), "w": p["w"]}, {"w": kind, "b": kind})
    assert {name: str(type) for name, type in shapes.items()} == {"s": "f64[]", "w": "f64[3]"}
