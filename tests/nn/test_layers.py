"""Each layer: parameters, both modes, flags, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from torchlean import nn, pytree, random
from torchlean.errors import ConfigError, OutOfRangeError, StructureError, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.tracing import trace_flat
from torchlean.random import SeedStream
from torchlean.transforms.api import grad

F = np.float32
Array = np.ndarray[Any, Any]


def draws(*shape: int, seed: int = 0, dtype: Any = F) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays(tree: Any) -> list[Array]:
    return [np.asarray(leaf) for leaf in pytree.leaves(tree)]


def same(x: Any, y: Any) -> bool:
    return [a.tobytes() for a in arrays(x)] == [b.tobytes() for b in arrays(y)]


# (layer, input, shapes of the parameters, shape of the output)
LAYERS: tuple[tuple[Any, Array, list[tuple[int, ...]], tuple[int, ...]], ...] = (
    (nn.Linear(3, 5), draws(2, 3), [(5, 3), (5,)], (2, 5)),
    (nn.Linear(3, 5, bias=False), draws(3), [(5, 3)], (5,)),
    (nn.Conv(2, 6, (3, 2), padding="same"), draws(1, 2, 5, 4), [(6, 2, 3, 2), (6,)], (1, 6, 5, 4)),
    (
        nn.Conv(4, 6, (3,), strides=2, padding=1, dilation=1, groups=2, bias=False),
        draws(2, 4, 9),
        [(6, 2, 3)],
        (2, 6, 5),
    ),
    (nn.BatchNorm(3), draws(4, 3, 2), [(3,)] * 4, (4, 3, 2)),
    (nn.LayerNorm(3), draws(4, 3), [(3,)] * 2, (4, 3)),
    (nn.Embedding(7, 4), np.array([[0, 6], [3, 3]]), [(7, 4)], (2, 2, 4)),
    (nn.Dropout(0.5), draws(4, 3), [()], (4, 3)),
    (nn.Flatten(), draws(2, 3, 4), [], (2, 12)),
    (nn.MaxPool(2), draws(1, 2, 4, 6), [], (1, 2, 2, 3)),
    (nn.AvgPool((2, 3), 1), draws(1, 2, 4, 6), [], (1, 2, 3, 4)),
    (nn.MultiHeadAttention(6, 2, causal=True), draws(2, 5, 6), [(6, 6), (6,)] * 4, (2, 5, 6)),
    (nn.Sequential(nn.Linear(3, 4), nn.relu, nn.Linear(4, 1)), draws(2, 3), [(4, 3), (4,), (1, 4), (1,)], (2, 1)),
)


@pytest.mark.parametrize("case", LAYERS, ids=[repr(case[0])[:40] for case in LAYERS])
@pytest.mark.parametrize("kind", ["key", "stream"])
def test_shapes_purity_and_flags(case: Any, kind: str) -> None:
    """The same source gives the same parameters; a call is the eval output; eval and train keep the tree."""
    layer, x, shapes, out = case
    source = lambda: random.key(3) if kind == "key" else SeedStream(3)  # noqa: E731
    params = layer.init(source())
    assert isinstance(layer, nn.Layer)
    if not (isinstance(layer, nn.Dropout) and kind == "key"):
        assert [a.shape for a in arrays(params)] == shapes
    assert same(params, layer.init(source()))
    assert all(a.dtype == F for a in arrays(layer.init(source())) if a.dtype.kind == "f")
    y = layer(params, x)
    assert np.asarray(y).shape == out
    again, kept = layer.apply(params, x)
    assert same(y, again)
    assert same(params, kept)
    _, after = layer.apply(params, x, mode="train", rng=0)
    assert pytree.structure(after) == pytree.structure(params) == pytree.structure(layer.trainable(params))
    assert all(isinstance(flag, bool) for flag in pytree.leaves(layer.trainable(params)))
    with pytest.raises(ConfigError, match="'training' is not a mode"):
        layer.apply(params, x, mode="training")


def test_every_layer_is_sampled() -> None:
    sampled = {type(case[0]).__name__ for case in LAYERS}
    named = {name for name in nn.__all__ if isinstance(getattr(nn, name), type) and hasattr(getattr(nn, name), "apply")}
    assert sampled == named - {"Layer"}


def test_layers_trace_and_float64_stays_float64() -> None:
    layer = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Dropout(0.3), nn.Linear(4, 2))
    params = layer.init(random.key(0), "f64")
    y, after = layer.apply(params, draws(5, 3, dtype=np.float64), mode="train", rng=2)
    assert np.asarray(y).dtype == np.float64
    assert all(a.dtype == np.float64 for a in arrays(after) if a.dtype.kind == "f")
    traced = trace_flat(lambda: pytree.leaves(layer.init(random.key(0))), [])
    assert len(traced.graph.outputs) == len(pytree.leaves(params))


# -- initialisation ----------------------------------------------------------------------------------------------------
def test_defaults_are_torchleans_bounds() -> None:
    for source in (random.key(1), SeedStream(1)):
        weight = np.asarray(nn.Linear(30, 50).init(source).weight)
        limit = math.sqrt(6 / 80)
        assert 0.9 * limit < np.abs(weight).max() <= limit
        kernel = np.asarray(nn.Conv(4, 8, (3, 3)).init(source).weight)
        assert 0.09 < np.abs(kernel).max() <= 0.1
        table = np.asarray(nn.Embedding(20, 30).init(source).table)
        assert 0.018 < np.abs(table).max() <= 0.02
    assert not np.asarray(nn.Linear(3, 5).init(random.key(0)).bias).any()


def test_only_stochastic_initialisation_takes_a_seed() -> None:
    def taken(layer: Any) -> int:
        stream = SeedStream(9)
        layer.init(stream)
        return stream.taken

    assert taken(nn.Linear(3, 5)) == taken(nn.Conv(1, 2, (3,))) == taken(nn.Embedding(3, 2)) == 1
    assert taken(nn.Dropout(0.5)) == 1
    assert taken(nn.Dropout(0.0)) == taken(nn.Dropout(1.0)) == taken(nn.BatchNorm(3)) == taken(nn.LayerNorm(3)) == 0
    assert taken(nn.MultiHeadAttention(4, 2)) == 4


def test_other_initialisers() -> None:
    kaiming = nn.Linear(24, 500, weight_init=nn.init.kaiming_uniform).init(SeedStream(1)).weight
    assert 0.49 < np.abs(np.asarray(kaiming)).max() <= 0.5
    for source in (random.key(1), SeedStream(1)):
        drawn = np.asarray(nn.Linear(100, 100, weight_init=nn.init.normal(0.02)).init(source).weight)
        assert abs(drawn.std() / 0.02 - 1) < 5 / math.sqrt(2 * drawn.size)
        assert abs(drawn.mean()) < 5 * 0.02 / math.sqrt(drawn.size)
    assert np.asarray(nn.Linear(2, 2, weight_init=nn.init.ones).init(random.key(0)).weight).tolist() == [[1, 1]] * 2
    assert np.asarray(nn.Linear(2, 2, weight_init=nn.init.zeros).init(random.key(0)).weight).tolist() == [[0, 0]] * 2


# -- batch norm --------------------------------------------------------------------------------------------------------
def test_batch_norm_moves_running_statistics_with_the_unbiased_variance() -> None:
    layer, x = nn.BatchNorm(3, momentum=0.25), draws(4, 3, 5, dtype=np.float64)
    params = layer.init(random.key(0), "f64")
    _, after = layer.apply(params, x, mode="train")
    np.testing.assert_allclose(np.asarray(after.mean), 0.25 * x.mean((0, 2)), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(after.variance), 0.75 + 0.25 * x.var((0, 2), ddof=1), rtol=1e-13)
    assert layer.trainable(params) == nn.BatchNormParams(True, True, False, False)
    # the statistics follow the batch, and no gradient flows to them
    slopes = grad(lambda p: ops.sum(ops.integer_pow(layer.apply(p, x, mode="train")[0], 3)))(params)
    assert not np.asarray(slopes.mean).any()
    assert not np.asarray(slopes.variance).any()


def test_batch_norm_refuses_to_train_on_one_value() -> None:
    layer = nn.BatchNorm(3)
    params = layer.init(random.key(0))
    with pytest.raises(TypeRuleError, match=r"BatchNorm in train mode of f32\[1,3\]: 1 value per channel"):
        layer.apply(params, draws(1, 3), mode="train")
    assert np.asarray(layer(params, draws(1, 3))).shape == (1, 3)


# -- attention ---------------------------------------------------------------------------------------------------------
def test_multi_head_attention_is_attention_per_head() -> None:
    layer, x = nn.MultiHeadAttention(6, 2), draws(5, 6, dtype=np.float64)
    params = layer.init(random.key(0), "f64")
    q, k, v = (x @ np.asarray(part.weight).T for part in params[:3])
    heads = []
    for h in range(2):
        mine = slice(3 * h, 3 * h + 3)
        scores = q[:, mine] @ k[:, mine].T / math.sqrt(3)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, mine])
    expected = np.concatenate(heads, -1) @ np.asarray(params.output.weight).T
    np.testing.assert_allclose(np.asarray(layer(params, x)), expected, rtol=1e-12, atol=1e-14)
    weights = [np.asarray(part.weight) for part in params]
    assert not any(same(a, b) for i, a in enumerate(weights) for b in weights[:i])
    only_first = np.zeros((5, 5), bool)
    only_first[:, 0] = True
    masked = np.asarray(layer(params, x, only_first))
    np.testing.assert_allclose(masked, np.broadcast_to(v[0] @ np.asarray(params.output.weight).T, (5, 6)), atol=1e-14)


# -- dropout -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("source", ["key", "stream"])
def test_dropout_is_a_function_of_seed_and_step(source: str) -> None:
    layer, x = nn.Dropout(0.25), np.ones((100, 100), F)
    params = layer.init(random.key(5) if source == "key" else SeedStream(5))
    run = lambda step: np.asarray(layer.apply(params, x, mode="train", rng=step)[0])  # noqa: E731
    assert same(run(3), run(3))
    assert same(run(3), run(np.int32(3)))
    assert not same(run(3), run(4))
    assert set(run(3).ravel().tolist()) == {0.0, float(F(1) / F(0.75))}
    assert abs((run(3) == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / x.size)
    assert same(layer(params, x), x)
    assert layer.trainable(params) == nn.DropoutParams(False)


def test_a_draw_equal_to_the_kept_fraction_is_dropped() -> None:
    """keep iff 1 − rate > u, strictly: a rate of 1 − u for the first draw u drops the first entry."""
    key, x = random.key(5), np.ones(3, F)
    first = np.asarray(random.uniform(random.fold_in(key, 0), (3,)))[0]
    layer = nn.Dropout(float(F(1) - first))
    assert not np.asarray(layer.kept(layer.init(key), x, 0))[0]
    barely = nn.Dropout(float(F(1) - first) - 2.0**-20)
    assert np.asarray(barely.kept(barely.init(key), x, 0))[0]


def test_dropout_of_nothing_and_of_everything_hold_no_seed() -> None:
    for rate, expected in ((0.0, np.ones((2, 2), F)), (1.0, np.zeros((2, 2), F))):
        layer = nn.Dropout(rate)
        params = layer.init(random.key(0))
        assert params == ()
        assert same(layer.apply(params, np.ones((2, 2), F), mode="train")[0], expected)
        assert same(layer(params, np.ones((2, 2), F)), np.ones((2, 2), F))


def test_dropout_needs_a_rate_in_the_unit_interval_and_a_step() -> None:
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ConfigError, match=r"Dropout: rate = .*"):
            nn.Dropout(rate)
    layer = nn.Dropout(0.5)
    with pytest.raises(ConfigError, match=r"Dropout\(0.5\) in train mode needs the number of the step"):
        layer.apply(layer.init(random.key(0)), np.ones(3, F), mode="train")


def test_a_new_layer_shifts_no_other_mask() -> None:
    """Masks are keyed by (seed, place in the model, step), not by a global counter of calls."""
    x = np.ones((50, 4), F)
    plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    changed = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    key = random.key(0)
    one, two = plain.init(key), changed.init(key)
    assert same(one[1], two[1])
    assert not same(two[0], two[1])
    masks = [layer.layers[1].kept(params[1], x, 7) for layer, params in ((plain, one), (changed, two))]  # type: ignore[union-attr]
    assert same(*masks)


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_hyperparameters_out_of_range_are_refused() -> None:
    for make, text in (
        (lambda: nn.Linear(0, 3), "Linear: inputs = 0"),
        (lambda: nn.Linear(3, 2.5), "Linear: outputs = 2.5"),  # type: ignore[arg-type]
        (lambda: nn.Conv(3, 4, 3), r"Conv\(3, 4, kernel=3, groups=1\)"),  # type: ignore[arg-type]
        (lambda: nn.Conv(3, 4, (3,), groups=2), r"Conv\(3, 4, kernel=\(3,\), groups=2\)"),
        (lambda: nn.Conv(3, 4, (0,)), r"Conv: kernel\[0\] = 0"),
        (lambda: nn.Embedding(0, 4), "Embedding: count = 0"),
        (lambda: nn.BatchNorm(3, momentum=2), "BatchNorm: momentum = 2"),
        (lambda: nn.LayerNorm(True), "LayerNorm: features = True"),
        (lambda: nn.MultiHeadAttention(6, 4), "MultiHeadAttention: 4 heads do not divide 6 features"),
        (lambda: nn.Sequential(nn.Linear), "part 0 of Sequential is"),  # type: ignore[arg-type]
        (lambda: nn.Sequential(nn.relu, 3), "part 1 of Sequential is 3"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=text):
            make()


def test_a_known_index_beyond_the_table_is_refused() -> None:
    layer = nn.Embedding(3, 2)
    with pytest.raises(OutOfRangeError):
        layer(layer.init(random.key(0)), np.array([0, 3]))


def test_foreign_parameters_are_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.relu)
    with pytest.raises(StructureError, match="these are not the parameters of a Sequential of 2 parts"):
        model(draws(2, 3), model.init(random.key(0)))
