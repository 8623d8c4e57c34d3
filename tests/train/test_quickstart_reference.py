"""Every published number of the quickstart, matched as printed text through the public API, in both executions.

The values are TorchLean's; a reference script of the shared folder recreates them independently of this package, and
the last test checks that the texts here are the ones it expects.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import nn, optim
from torchlean.train import Loader, Trainer, TrainSession
from torchlean.train.examples import heldout, quickstart_data, quickstart_model

HELDOUT = heldout()
EXECUTIONS = ("eager", "lowered")

FORWARD = "-0.088261"
INPUT_GRADIENT = "[0.263189, 0.205411]"
FIRST_ROW = "-0.337801,0.526946"
LOSSES = {0: "0.495227", 2: "0.392821", 6: "0.465379", 20: "0.401184", 40: "0.125425", 50: "0.335392", 200: "0.002402"}
HELD = {0: "-0.088261", 2: "0.019031", 20: "0.365380", 40: "0.189974", 200: "0.228325"}
FIRST_STEPS = "0.250488 0.031549 0.001341 0.031191 0.021362 0.003199"
EVERY_25 = "0.250488 0.586318 0.847444 0.003933 0.023397 0.069799 0.000061 0.029500"
BIAS_AFTER_40 = "0.279321"
FOUR_SAMPLES = "0.008248"
BATCHED = "0.495227 0.013059"
DROPOUT = {0.0: "0.495227 0.495227 -29.355288", 0.5: "0.761530 0.307745 -453785276.710987"}


def trainer(dropout: float | None = None) -> Trainer:
    return Trainer(quickstart_model(dropout), "mse", optim.Adam(0.03), seed=2026)


def opened(execution: str, **options: Any) -> TrainSession:
    return trainer(options.pop("dropout", None)).open(execution=execution, **options)


def held(session: TrainSession) -> str:
    return f"{float(np.asarray(session.predict(HELDOUT))[0]):.6f}"


def numbers(values: Any) -> str:
    return "[" + ", ".join(f"{value:.6f}" for value in np.asarray(values).ravel()) + "]"


# -- the fresh model ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_forward_and_parameter_shapes(dtype: str) -> None:
    model = quickstart_model()
    params = model.init(tl.random.SeedStream(2026), dtype)
    assert numbers(model(params, HELDOUT.astype(params[0].weight.type.dtype.carrier))) == f"[{FORWARD}]"
    assert [list(leaf.type.shape) for leaf in tl.pytree.leaves(params)] == [[8, 2], [8], [1, 8], [1]]
    assert "{:.6f},{:.6f}".format(*np.asarray(params[0].weight)[0]) == FIRST_ROW
    assert nn.parameter_count(model, params) == 33


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_reverse_and_forward_mode_at_the_held_out_point(dtype: str) -> None:
    model = quickstart_model()
    params = model.init(tl.random.SeedStream(2026), dtype)
    carrier = params[0].weight.type.dtype.carrier
    x = HELDOUT.astype(carrier)
    _, pullback = tl.vjp(lambda point: model(params, point), x)
    assert numbers(pullback(np.ones(1, carrier))[0]) == INPUT_GRADIENT
    zeros = tl.pytree.map(lambda leaf: np.zeros(leaf.type.shape, carrier), params)
    for axis, text in enumerate(INPUT_GRADIENT.strip("[]").split(", ")):
        direction = np.eye(2, dtype=carrier)[axis]
        value, tangent = tl.jvp(model, (params, x), (zeros, direction))
        assert numbers(value) == f"[{FORWARD}]"
        assert numbers(tangent) == f"[{text}]"


def test_the_lowered_graph_gives_the_same_derivatives() -> None:
    model = quickstart_model()
    params = model.init(tl.random.SeedStream(2026))
    slope = tl.lower(tl.grad(lambda point: model(params, point).sum()), HELDOUT)
    assert numbers(slope(HELDOUT)) == INPUT_GRADIENT
    moved = tl.lower(lambda point, along: tl.jvp(lambda p: model(params, p), (point,), (along,))[1], HELDOUT, HELDOUT)
    assert numbers(moved(HELDOUT, np.float32([1, 0]))) == "[0.263189]"
    assert numbers(moved(HELDOUT, np.float32([0, 1]))) == "[0.205411]"


# -- training ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_two_hundred_steps(execution: str) -> None:
    data, session = quickstart_data(), opened(execution)
    losses: list[float] = []
    for done, text in LOSSES.items():
        if done:
            session.steps(data, done - session.steps_done, told=lambda step, loss: losses.append(loss))
        assert f"{session.loss(data):.6f}" == text
        if done in HELD:
            assert held(session) == HELD[done]
        if done == 40:
            assert f"{float(np.asarray(session.params[2].bias)[0]):.6f}" == BIAS_AFTER_40
    assert " ".join(f"{loss:.6f}" for loss in losses[:6]) == FIRST_STEPS
    assert " ".join(f"{loss:.6f}" for loss in losses[::25]) == EVERY_25
    assert len(losses) == 200


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_fifty_updates_of_four_samples(execution: str) -> None:
    result = trainer().train(quickstart_data(), steps=50, samples_per_step=4, execution=execution)
    assert f"{result.loss_after:.6f}" == FOUR_SAMPLES


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_batches_of_five_in_the_published_order(execution: str) -> None:
    data = quickstart_data().shuffled(2026, "lcg")
    session = opened(execution, batched=True)

    def mean_of_batches() -> float:
        losses = [session.loss(tl.train.dataset(*data.rows(batch.indices))) for batch in loader.epoch()]
        return sum(losses) / len(losses)

    loader = Loader(data=data, batch_size=5)
    before = mean_of_batches()
    session.steps(loader, 40)
    assert f"{before:.6f} {mean_of_batches():.6f}" == BATCHED


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("rate", DROPOUT)
def test_dropout_in_evaluation_and_training_mode(rate: float, execution: str) -> None:
    data, session = quickstart_data(), opened(execution, dropout=rate)
    evaluated = session.loss(data)
    trained = session.step_batch(data.inputs, data.targets, loss=True)
    assert trained is not None
    assert f"{evaluated:.6f} {trained:.6f} {(trained - evaluated) * 1e9:.6f}" == DROPOUT[rate]


def test_a_fresh_session_draws_the_same_masks_and_another_step_draws_others() -> None:
    data = quickstart_data()
    first = [opened("eager", dropout=0.5).step_batch(data.inputs, data.targets, loss=True) for _ in range(2)]
    assert first[0] == first[1]
    frozen = Trainer(quickstart_model(0.5), "mse", optim.SGD(0.0), seed=2026).open(execution="eager")
    losses = [frozen.step_batch(data.inputs, data.targets, loss=True) for _ in range(2)]
    assert losses[0] != losses[1]


# -- the two executions ------------------------------------------------------------------------------------------------
def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in tl.pytree.leaves(tree)]


@pytest.mark.parametrize("dropout", [None, 0.5])
@pytest.mark.parametrize("options", [{}, {"samples_per_step": 4}, {"batch_size": 5, "shuffle_seed": 1}])
def test_eager_and_lowered_training_agree_bit_for_bit(options: dict[str, Any], dropout: float | None) -> None:
    data = quickstart_data()
    results = [
        trainer(dropout).train(
            data, steps=25, execution=execution, schedule=optim.schedules.cosine(0.03, 20), **options
        )
        for execution in EXECUTIONS
    ]
    assert results[0].losses == results[1].losses
    assert bits(results[0].model.params) == bits(results[1].model.params)
    assert results[0].loss_before == results[1].loss_before
    assert results[0].loss_after == results[1].loss_after
    assert len(results[0].losses) == 25


def test_summary() -> None:
    result = trainer().train(quickstart_data(), steps=20)
    assert result.summary == "steps=20 arithmetic=native scalar=Float32 loss=0.495227 -> 0.401184"


# -- the oracle --------------------------------------------------------------------------------------------------------
def test_the_texts_are_those_of_the_independent_recreation(shared_data: Path) -> None:
    import importlib.util

    source = shared_data / "reference" / "quickstart_reference.py"
    text = source.read_text()
    quoted = [FORWARD, INPUT_GRADIENT, FIRST_ROW, FIRST_STEPS, EVERY_25, BIAS_AFTER_40, FOUR_SAMPLES, BATCHED]
    quoted += [*LOSSES.values(), *HELD.values(), *DROPOUT.values()]
    assert [value for value in quoted if f'"{value}"' not in text] == []
    spec = importlib.util.spec_from_file_location("quickstart_reference", source)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    params, loss, prediction, losses = reference.train(40)
    session = opened("eager")
    told: list[float] = []
    session.steps(quickstart_data(), 40, told=lambda step, value: told.append(value))
    assert told == losses
    assert session.loss(quickstart_data()) == loss
    assert float(np.asarray(session.predict(HELDOUT))[0]) == prediction
    for ours, theirs in zip(tl.pytree.leaves(session.params), params, strict=True):
        assert np.asarray(ours).tobytes() == theirs.tobytes()
    assert math.isfinite(loss)
