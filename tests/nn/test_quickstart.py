"""The published quickstart, from layers, losses and Adam, against its NumPy re-creation, bit for bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from torchlean import nn, optim, pytree
from torchlean.random import SeedStream
from torchlean.transforms.api import value_and_grad

F = np.float32


@pytest.fixture(scope="module")
def reference(shared_data: Path) -> ModuleType:
    file = shared_data / "reference" / "quickstart_reference.py"
    if not file.is_file():
        pytest.skip(f"{file.name} is not among the shared data")
    spec = importlib.util.spec_from_file_location("quickstart_reference", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_of(*between: Any) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 8), nn.relu, *between, nn.Linear(8, 1))


def bits(params: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in pytree.leaves(params)]


def trained(batches: list[tuple[Any, Any]]) -> tuple[Any, list[float]]:
    """Parameters and losses after one Adam update per batch."""
    model, adam = model_of(), optim.Adam(0.03)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return nn.mse(model(params, x), y)

    params = model.init(SeedStream(2026))
    state = adam.init(params)
    losses: list[float] = []
    for x, y in batches:
        value, gradients = value_and_grad(loss)(params, x, y)
        params, state = adam.update(gradients, state, params)
        losses.append(float(value))
    return params, losses


def test_initial_weights_and_their_order(reference: ModuleType) -> None:
    model = model_of()
    params = model.init(SeedStream(2026))
    shapes = [np.asarray(leaf).shape for leaf in pytree.leaves(params)]
    assert shapes == [(8, 2), (8,), (1, 8), (1,)]
    assert bits(params) == [p.astype(F).tobytes() for p in reference.build(2026)[0]]
    assert [f"{w:.6f}" for w in np.asarray(params[0].weight)[0]] == ["-0.337801", "0.526946"]


def test_forty_steps_one_sample_each(reference: ModuleType) -> None:
    xs, ys = reference.grid()
    params, losses = trained([(xs[t % 25], ys[t % 25]) for t in range(40)])
    expected, _, _, log = reference.train(40)
    assert bits(params) == [p.tobytes() for p in expected]
    assert losses == log


def test_forty_batches_of_five(reference: ModuleType) -> None:
    xs, ys = map(np.array, reference.grid())
    order = reference.lcg_shuffle(25, 2026)
    batches = [order[5 * i : 5 * i + 5] for i in range(5)]
    params, _ = trained([(xs[batches[s % 5]], ys[batches[s % 5]]) for s in range(40)])
    model = model_of()
    after = sum(float(nn.mse(model(params, xs[b]), ys[b])) for b in batches) / 5
    assert after == reference.train_batched()[1]


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.25])
def test_dropout_masks(reference: ModuleType, rate: float) -> None:
    """Call k of the layer drops the published mask k: the sum of 25 training losses, bit for bit."""
    xs, ys = reference.grid()
    model = model_of(nn.Dropout(rate))
    total: Any = None
    params = model.init(SeedStream(2026))
    for step, (x, y) in enumerate(zip(xs, ys, strict=True)):
        loss = np.asarray(nn.mse(model.apply(params, x, mode="train", rng=step)[0], y))
        total = loss if total is None else F(total + loss)
    evaluated = sum(float(nn.mse(model(params, x), y)) for x, y in zip(xs, ys, strict=True)) / 25
    in_eval, in_train, _ = reference.dropout_case(rate)
    assert float(total * F(F(1) / F(25))) == in_train
    assert evaluated == in_eval
