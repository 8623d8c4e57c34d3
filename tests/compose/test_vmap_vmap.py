"""vmap of vmap: nested axes, every placement of in_axes and out_axes, captured values, against NumPy loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, near

import torchlean as tl
from torchlean import ops

A = np.random.default_rng(0).uniform(-1, 1, (3, 4, 5))
B = np.random.default_rng(1).uniform(-1, 1, (3, 5))
C = np.random.default_rng(2).uniform(-1, 1, (4, 5))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_two_mapped_axes_are_two_loops(twin: Twin) -> None:
    points = np.stack([np.stack([np.roll(twin.point, i + 3 * j) for i in range(2)]) for j in range(3)])
    made = np.asarray(tl.vmap(tl.vmap(twin.ours))(points))
    for j, i in product(range(3), range(2)):
        near(made[j, i], np.asarray(twin.ours(points[j, i])))


def test_the_inner_axis_may_be_any_axis() -> None:
    """in_axes (outer, inner) over f64[3,4,5]: every pair of axes, against NumPy's transposition."""
    for outer, inner in product(range(-3, 3), range(-2, 2)):
        made = np.asarray(tl.vmap(tl.vmap(lambda x: x * 2.0, inner), outer)(A))
        first = np.moveaxis(A, outer, 0)
        near(made, np.stack([np.moveaxis(row, inner, 0) for row in first]) * 2.0)


def test_out_axes_put_the_mapped_axis_back_anywhere() -> None:
    for axis in range(-3, 3):
        near(tl.vmap(lambda x: x + 1.0, in_axes=axis, out_axes=axis)(A), A + 1.0)
        near(tl.vmap(lambda x: x + 1.0, in_axes=0, out_axes=axis)(A), np.moveaxis(A + 1.0, 0, axis))


def test_each_level_may_map_another_argument() -> None:
    """The outer product of mapped arguments: row i of B with row j of C."""
    made = tl.vmap(lambda b: tl.vmap(lambda c: b * c)(C))(B)
    near(made, B[:, None, :] * C[None, :, :])
    swapped = tl.vmap(tl.vmap(lambda b, c: b @ c, (None, 0)), (0, None))(B, C)
    near(swapped, B @ C.T)
    back = tl.vmap(tl.vmap(lambda b, c: b @ c, (0, None)), (None, 0))(B, C)
    near(back, C @ B.T)


def test_a_value_captured_two_levels_up_is_not_mapped_twice() -> None:
    def outer(b: Any) -> Any:
        scale = ops.sum(b)
        return tl.vmap(lambda c: tl.vmap(lambda entry: entry * scale + b[0])(c))(C)

    near(tl.vmap(outer)(B), C[None] * B.sum(1)[:, None, None] + B[:, 0][:, None, None])


def test_a_result_that_depends_on_no_mapped_argument_is_repeated_or_left_alone() -> None:
    made = tl.vmap(lambda b: (b, ops.sum(ops.constant(C))))(B)
    near(made[1], np.full(3, C.sum()))
    _, alone = tl.vmap(lambda b: (b, ops.sum(ops.constant(C))), out_axes=(0, None))(B)
    near(alone, np.asarray(C.sum()))


def test_trees_and_prefixes_of_axes() -> None:
    """A dict of an axis and a tuple prefix; a Python number and a scalar array that are not mapped; a kept string."""
    tree = {"a": C, "b": (B[:, :4].T, np.float64(2.0))}
    made = tl.vmap(
        lambda t, shift: {"sum": ops.sum(t["a"]) + t["b"][0] * t["b"][1] + shift, "kept": "text"},
        in_axes=({"a": 0, "b": (0, None)}, None),
        out_axes={"sum": 1, "kept": None},
    )(tree, 1.0)
    near(made["sum"], (C.sum(1)[:, None] + B[:, :4].T * 2.0 + 1.0).T)
    assert made["kept"] == "text"


def test_keyword_arguments_are_mapped_over_their_first_axis() -> None:
    near(tl.vmap(lambda b, *, shift: b + shift, in_axes=0)(B, shift=np.arange(3.0)), B + np.arange(3.0)[:, None])


def test_axis_size_maps_a_function_of_nothing() -> None:
    near(tl.vmap(lambda: ops.constant(B[0]), axis_size=4)(), np.tile(B[0], (4, 1)))


def test_a_batch_of_one_and_of_none() -> None:
    assert np.asarray(tl.vmap(tl.vmap(ops.sin))(A[:1])).shape == (1, 4, 5)
    assert np.asarray(tl.vmap(tl.vmap(ops.sum))(A[:0])).shape == (0, 4)
    assert np.asarray(tl.vmap(tl.vmap(ops.sum))(A[:, :0])).shape == (3, 0)
    assert np.asarray(tl.vmap(lambda x: ops.conv(x[None], np.ones((1, 4, 2)))[0])(A[:0])).shape == (0, 1, 4)


def test_three_levels_over_a_contraction() -> None:
    made = tl.vmap(tl.vmap(tl.vmap(lambda x, y: x * y)))(A, A)
    near(made, A * A)
    rows = tl.vmap(tl.vmap(tl.vmap(lambda x, y: x * y, (0, None)), (None, 0)))(A, A)
    near(rows, np.einsum("bik,bjk->bjik", A, A))
