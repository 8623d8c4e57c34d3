"""Neural composites: exact bits where they are promised, kinks and edges, refusals. PyTorch: `test_neural_torch.py`."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from torchlean.errors import ConfigError, OutOfRangeError, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.evaluate import denote
from torchlean.ir.ops import ALL_OPS, COMPOSITES, CONTROL, PRIMITIVES
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import HigherOrder
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.transforms.api import grad, vjp

F = np.float32
Array = np.ndarray[Any, Any]


def draws(*shape: int, seed: int = 0, dtype: Any = F) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same_bits(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def body_of(f: Any, *arrays: Array) -> Any:
    """The body of the composite that `f` binds."""
    (node,) = trace_flat(lambda *xs: (f(*xs),), [type_of_array(x) for x in arrays]).graph.nodes
    return node.params.body


def test_every_composite_is_listed_once_and_named_once() -> None:
    assert len(COMPOSITES) == 26
    assert ALL_OPS == PRIMITIVES + COMPOSITES + CONTROL
    assert len({op.name for op in ALL_OPS}) == len(ALL_OPS)
    assert all(isinstance(op, Composite) for op in COMPOSITES)
    stated = [op.name for op in COMPOSITES if not isinstance(op.diff, HigherOrder)]  # these need no node of their own
    assert stated == [op.name for op in COMPOSITES if op.gradient is None]
    assert stated == ["logaddexp", "log1mexp", "xlogy", "entr", "sinc", "euclidean_norm"]


# -- activations -------------------------------------------------------------------------------------------------------
def test_relu_passes_nan_and_has_slope_0_at_0() -> None:
    x = np.array([-1.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf, 1e-45], F)
    y = np.asarray(ops.relu(x))
    assert same_bits(y, np.array([0, 0, 0, 2, np.nan, np.inf, 0, 1e-45], F))
    slope = np.asarray(grad(lambda v: ops.sum(ops.relu(v)))(x))
    assert slope.tolist() == [0, 0, 0, 1, 1, 1, 0, 1]


def test_softplus_and_its_first_two_derivatives_are_right_far_out_and_at_0() -> None:
    x = np.array([-np.inf, -200.0, -20.0, 0.0, 20.0, 200.0, np.inf])
    first = grad(lambda v: ops.sum(ops.softplus(v)))
    second = grad(lambda v: ops.sum(first(v)))
    finite = x[1:-1]
    expected = np.where(finite > 0, finite + np.log1p(np.exp(-np.abs(finite))), np.log1p(np.exp(-np.abs(finite))))
    np.testing.assert_allclose(np.asarray(ops.softplus(x))[1:-1], expected, rtol=1e-15)
    assert np.asarray(ops.softplus(x))[[0, -1]].tolist() == [0.0, np.inf]
    sigmoid = 1 / (1 + np.exp(-finite))
    np.testing.assert_allclose(np.asarray(first(x))[1:-1], sigmoid, rtol=1e-14)
    assert np.asarray(first(x))[[0, -1]].tolist() == [0.0, 1.0]
    curvature = np.exp(-np.abs(finite)) / (1 + np.exp(-np.abs(finite))) ** 2
    np.testing.assert_allclose(np.asarray(second(finite)), curvature, rtol=1e-13)
    assert float(np.asarray(second(np.zeros(1)))[0]) == 0.25
    assert np.isnan(np.asarray(ops.softplus(np.array([np.nan], F)))).all()


def test_softmax_does_not_overflow_and_log_softmax_does_not_underflow() -> None:
    x = np.array([1000.0, 0.0, -1000.0], F)
    assert np.asarray(ops.softmax(x)).tolist() == [1, 0, 0]
    assert np.asarray(ops.log_softmax(x)).tolist() == [0, -1000, -2000]
    assert np.asarray(ops.logsumexp(np.array([-np.inf, -np.inf]))) == -np.inf
    assert np.asarray(ops.logsumexp(np.array([0.0, np.inf]))) == np.inf
    assert np.asarray(ops.logsumexp(np.array([1000.0, 1000.0]))) == 1000 + math.log(2)


def test_axis_out_of_range_names_the_op() -> None:
    with pytest.raises(OutOfRangeError, match=r"softmax of f32\[2,3\]: axis 2 is out of range"):
        ops.softmax(draws(2, 3), axis=2)


# -- linear ------------------------------------------------------------------------------------------------------------
def folded_affine(x: Array, w: Array, b: Array) -> Array:
    """The published runs' affine map, one rounding per operation (`quickstart_reference.affine`)."""
    out = np.zeros(w.shape[0], F)
    for o in range(w.shape[0]):
        total = F(0)
        for i in range(w.shape[1]):
            total = F(total + F(x[i] * w[o, i]))
        out[o] = F(total + b[o])
    return out


@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3)])
def test_linear_is_a_left_fold_then_the_bias(lead: tuple[int, ...]) -> None:
    x, w, b = draws(*lead, 7, seed=1), draws(3, 7, seed=2), draws(3, seed=3)
    expected = np.stack([folded_affine(row, w, b) for row in x.reshape(-1, 7)]).reshape(*lead, 3)
    assert same_bits(ops.linear(x, w, b), expected)


def test_linear_expands_to_the_five_published_kernels() -> None:
    body = body_of(ops.linear, draws(2), draws(8, 2), draws(8))
    names = [node.op.name for node in body.nodes]
    assert names == ["reshape", "transpose", "dot_general", "broadcast", "add", "reshape"]
    assert [node.op.name for node in body_of(ops.linear, draws(5, 2), draws(8, 2)).nodes] == [
        "transpose",
        "dot_general",
    ]


def test_linear_refuses_sizes_and_dtypes_that_differ() -> None:
    with pytest.raises(
        TypeRuleError, match=r"linear of f32\[3\] with the weight f32\[8,2\]: the types do not fit"
    ) as e:
        ops.linear(draws(3), draws(8, 2))
    assert "expected: a weight f32[out,3]" in str(e.value)
    assert "test_neural.py" in str(e.value)
    with pytest.raises(TypeRuleError, match=r"linear of f32\[2\] with the weight f64\[8,2\]"):
        ops.linear(draws(2), draws(8, 2, dtype=np.float64))
    with pytest.raises(TypeRuleError, match=r"linear of f32\[2\] with f32\[7\]: the shapes do not fit"):
        ops.linear(draws(2), draws(8, 2), draws(7))


# -- norms -------------------------------------------------------------------------------------------------------------
def test_norms_refuse_shapes_and_epsilons_that_do_not_fit() -> None:
    with pytest.raises(TypeRuleError, match=r"layer_norm of f32\[2,3\] with f32\[2\]: the shapes do not fit"):
        ops.layer_norm(draws(2, 3), draws(2))
    with pytest.raises(TypeRuleError, match=r"batch_norm of f32\[2,3\] with f32\[2\]"):
        ops.batch_norm(draws(2, 3), draws(2), draws(2), draws(2), draws(2))
    with pytest.raises(ConfigError, match="layer_norm: epsilon -1 cannot keep a variance away from 0"):
        ops.layer_norm(draws(2, 3), epsilon=-1)


def test_layer_norm_of_one_entry_is_the_shift_with_a_finite_gradient() -> None:
    x, scale, shift = draws(4, 1), np.array([3.0], F), np.array([0.5], F)
    assert np.asarray(ops.layer_norm(x, scale, shift)).tolist() == [[0.5]] * 4
    assert np.asarray(grad(lambda v: ops.sum(ops.layer_norm(v, scale, shift)))(x)).tolist() == [[0.0]] * 4


# -- attention ---------------------------------------------------------------------------------------------------------
def test_a_fully_masked_row_is_exactly_0_and_sends_0_gradients() -> None:
    q, k, v = draws(2, 4, 3, seed=1), draws(2, 5, 3, seed=2), draws(2, 5, 6, seed=3)
    mask = np.random.default_rng(4).random((2, 4, 5)) > 0.4
    mask[0, 1] = False
    y, pull = vjp(lambda *x: ops.attention(*x, mask=mask), q, k, v)
    assert same_bits(np.asarray(y)[0, 1], np.zeros(6, F))
    ct = np.zeros((2, 4, 6), F)
    ct[0, 1] = 1e30
    assert all(np.asarray(g).tolist() == np.zeros(g.shape).tolist() for g in pull(ct))
    everything = pull(np.ones((2, 4, 6), F))
    assert all(np.isfinite(np.asarray(g)).all() for g in everything)
    assert (np.asarray(everything[0])[0, 1] == 0).all()


def test_a_masked_key_has_no_influence_however_wild() -> None:
    q, k, v = draws(1, 3, 2, seed=1), draws(1, 4, 2, seed=2), draws(1, 4, 2, seed=3)
    wild = k.copy()
    wild[0, 2] = 1e30  # its scores overflow to ±inf
    mask = np.array([True, True, False, True])
    y, pull = vjp(lambda *x: ops.attention(*x, mask=mask), q, wild, v)
    assert same_bits(ops.attention(q, k, v, mask), y)
    slopes = [np.asarray(g) for g in pull(np.ones((1, 3, 2), F))]
    assert all(np.isfinite(g).all() for g in slopes)
    assert not slopes[1][0, 2].any()
    assert not slopes[2][0, 2].any()
    assert same_bits(ops.attention(q, k, v, mask), ops.attention(q, k, v, np.broadcast_to(mask, (1, 3, 4))))


def test_causal_means_no_later_key() -> None:
    q, k, v = draws(1, 4, 2, seed=1), draws(1, 4, 2, seed=2), draws(1, 4, 2, seed=3)
    assert same_bits(ops.attention(q, k, v, causal=True), ops.attention(q, k, v, np.tri(4, dtype=bool)))
    assert same_bits(np.asarray(ops.attention(q, k, v, causal=True))[0, 0], v[0, 0])


def test_attention_refuses_types_that_do_not_fit() -> None:
    with pytest.raises(TypeRuleError, match=r"attention of f32\[2,3\], f32\[4,2\], f32\[4,2\]: the types do not fit"):
        ops.attention(draws(2, 3), draws(4, 2), draws(4, 2))
    with pytest.raises(TypeRuleError, match=r"with the mask f32\[2,4\]"):
        ops.attention(draws(2, 3), draws(4, 3), draws(4, 3), np.ones((2, 4), F))
    with pytest.raises(TypeRuleError, match=r"with the mask bool\[3,4\]"):
        ops.attention(draws(2, 3), draws(4, 3), draws(4, 3), np.ones((3, 4), bool))


# -- losses ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(1,), (5, 1), (3, 7)])
def test_mse_and_its_gradient_have_the_published_bits(shape: tuple[int, ...]) -> None:
    """Value: fold of squares, then one division. Gradient: 2(y − t), then one division (`quickstart_reference.mse`)."""
    y, t = draws(*shape, seed=1), draws(*shape, seed=2)
    n = F(y.size)
    total = F(0)
    for d in (y - t).ravel():
        total = F(total + F(d * d))
    assert same_bits(ops.mse_loss(y, t), F(total / n))
    by_y, by_t = grad(ops.mse_loss, argnums=(0, 1))(y, t)
    slope = ((F(2) * (y - t)) / n).astype(F)
    assert same_bits(by_y, slope)
    assert same_bits(by_t, -slope)


def test_mse_refuses_to_broadcast() -> None:
    with pytest.raises(TypeRuleError, match=r"mse_loss of f32\[5,1\], f32\[5\]: prediction and target differ"):
        ops.mse_loss(draws(5, 1), draws(5))


def test_labels_out_of_range_are_refused_when_known_and_nan_when_traced() -> None:
    logits = draws(3, 4)
    for label in (4, -1):
        with pytest.raises(OutOfRangeError, match=f"cross_entropy: label {label} is not one of 4 classes"):
            ops.cross_entropy(logits, np.array([0, label, 1]))
    graph = trace_flat(
        lambda x, y: (ops.cross_entropy(x, y),), [type_of_array(logits), type_of_array(np.zeros(3, int))]
    )
    (value,) = denote(graph.graph, [logits, np.array([0, 4, 1])])
    assert np.isnan(value)
    with pytest.raises(TypeRuleError, match=r"cross_entropy with labels f32\[3\]"):
        ops.cross_entropy(logits, np.zeros(3, F))
    with pytest.raises(TypeRuleError, match=r"cross_entropy of f32\[3,4\] with labels i64\[4\]: the types do not fit"):
        ops.cross_entropy(logits, np.zeros(4, int))


def test_cross_entropy_agrees_with_its_one_hot_form_on_every_axis() -> None:
    logits = draws(2, 5, 3, dtype=np.float64)
    for axis in (0, 1, -1):
        labels = np.random.default_rng(axis + 5).integers(0, logits.shape[axis], np.delete(logits.shape, axis % 3))
        one_hot = np.moveaxis(np.asarray(ops.one_hot(labels, logits.shape[axis], "f64")), -1, axis)
        by_label, by_row = ops.cross_entropy(logits, labels, axis), ops.cross_entropy_one_hot(logits, one_hot, axis)
        np.testing.assert_allclose(np.asarray(by_label), np.asarray(by_row), rtol=1e-14)
        picked = np.take_along_axis(np.asarray(ops.log_softmax(logits, axis)), np.expand_dims(labels, axis), axis)
        np.testing.assert_allclose(np.asarray(by_label), -picked.mean(), rtol=1e-14)


def test_narrow_labels_count_more_classes_than_their_dtype_holds() -> None:
    logits = draws(2, 300)
    assert same_bits(ops.cross_entropy(logits, np.array([7, 255], np.uint8)), ops.cross_entropy(logits, [7, 255]))


def test_one_hot() -> None:
    assert np.asarray(ops.one_hot([1, 0], 3)).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert np.asarray(ops.one_hot(np.int64(2), 3, "i32")).dtype == np.int32
    with pytest.raises(OutOfRangeError, match="one_hot: label 3 is not one of 3 classes"):
        ops.one_hot([1, 3], 3)


def test_dropout_scales_by_a_reciprocal_and_refuses_other_rates() -> None:
    x, kept = draws(4, 3), np.random.default_rng(1).random((4, 3)) > 0.3
    mask = kept.astype(F)
    inverse = (F(1) / (F(1) - F(0.3) * mask)).astype(F)
    assert same_bits(ops.dropout(x, kept, 0.3), ((x * mask).astype(F) * inverse).astype(F))
    for rate in (1, -0.1, math.nan):
        with pytest.raises(ConfigError, match=r"dropout of f32\[4,3\] with rate"):
            ops.dropout(x, kept, rate)
    with pytest.raises(TypeRuleError, match=r"dropout of f32\[4,3\] with bool\[3\]"):
        ops.dropout(x, kept[0], 0.5)


# -- pooling -----------------------------------------------------------------------------------------------------------
def test_max_pool_gives_its_gradient_to_the_first_largest_and_passes_nan() -> None:
    tied = np.array([[[[1.0, 2.0], [2.0, 2.0]]]], F)
    slope = np.asarray(grad(lambda v: ops.sum(ops.max_pool(v, 2)))(tied))
    assert slope.tolist() == [[[[0, 1], [0, 0]]]]
    for place in range(4):
        holed = tied.copy()
        holed.reshape(-1)[place] = np.nan
        assert np.isnan(np.asarray(ops.max_pool(holed, 2))).all()


def naive_pool(x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: Any, kind: str) -> Array:
    """By the definition, window by window; padding is left out of averages."""
    rank = len(window)
    sizes = x.shape[2:]
    out = [(sizes[a] + sum(padding[a]) - window[a]) // strides[a] + 1 for a in range(rank)]
    made = np.zeros((*x.shape[:2], *out))
    for place in itertools.product(*map(range, out)):
        cut = []
        for a in range(rank):
            start = place[a] * strides[a] - padding[a][0]
            cut.append(slice(max(start, 0), min(start + window[a], sizes[a])))
        entries = x[(..., *cut)].reshape(*x.shape[:2], -1)
        made[(..., *place)] = entries.max(-1) if kind == "max" else entries.mean(-1)
    return made


@pytest.mark.parametrize(
    ("shape", "window", "strides", "padding"),
    [
        ((2, 3, 9), (3,), (2,), ((1, 0),)),
        ((1, 2, 7, 6), (3, 2), (1, 2), ((1, 1), (0, 1))),
        ((1, 1, 5, 4, 6), (2, 2, 3), (2, 1, 3), ((0, 1), (1, 1), (2, 0))),
    ],
)
def test_pools_agree_with_their_definition_in_1_2_and_3_axes(
    shape: Any, window: Any, strides: Any, padding: Any
) -> None:
    x = draws(*shape, dtype=np.float64)
    largest = np.asarray(ops.max_pool(x, window, strides, padding))
    np.testing.assert_array_equal(largest, naive_pool(x, window, strides, padding, "max"))
    means = np.asarray(ops.avg_pool(x, window, strides, padding, count_padding=False))
    np.testing.assert_allclose(means, naive_pool(x, window, strides, padding, "mean"), rtol=1e-14, atol=1e-15)


def test_pools_take_integers_and_refuse_windows_that_do_not_fit() -> None:
    x = np.arange(16, dtype=np.int32).reshape(1, 1, 4, 4) - 20
    assert np.asarray(ops.max_pool(x, 2)).tolist() == [[[[-15, -13], [-7, -5]]]]
    assert np.asarray(ops.max_pool(x, 2, padding=1))[0, 0, 0, 0] == -20
    for window, padding in ((5, 0), (2, 2), (0, 0), ((2,), 0)):
        with pytest.raises(TypeRuleError, match=r"max_pool of i32\[1,1,4,4\] with window"):
            ops.max_pool(x, window, padding=padding)
