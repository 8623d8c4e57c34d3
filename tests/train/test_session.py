"""Training sessions: modes, counters, frozen results, resuming, and stopping before a bad number is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import nn, ops, optim, profiles
from torchlean.errors import BackendMissing, ConfigError, DataError, SerializationError
from torchlean.runtime.config import RunConfig
from torchlean.train import CROSS_ENTROPY, Finished, Loader, Objective, Progressed, Started, Trainer, TrainingStopped
from torchlean.train import dataset as make
from torchlean.train.examples import heldout, quickstart_data, quickstart_model
from torchlean.train.objective import objective

DATA, HELDOUT = quickstart_data(), heldout()
EXECUTIONS = ("eager", "lowered")
both = pytest.mark.parametrize("execution", EXECUTIONS)


def trainer(optimizer: Any = None, dropout: float | None = 0.5) -> Trainer:
    return Trainer(quickstart_model(dropout), "mse", optimizer or optim.Adam(0.03), seed=2026)


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in tl.pytree.leaves(tree)]


# -- modes and reading -------------------------------------------------------------------------------------------------
@both
def test_a_finished_model_does_not_move_with_its_session(execution: str) -> None:
    session = trainer().open(execution=execution)
    session.steps(DATA, 3)
    frozen = session.finish()
    before, loss = bits(frozen.params), frozen.loss(DATA)
    session.steps(DATA, 3)
    assert bits(frozen.params) == before
    assert frozen.loss(DATA) == loss
    assert frozen.steps == 3
    assert session.steps_done == 6
    assert session.loss(DATA) != loss


@both
def test_evaluation_changes_nothing(execution: str) -> None:
    session = trainer().open(execution=execution)
    before = bits(session.params)
    values = {float(np.asarray(session.predict(HELDOUT))[0]) for _ in range(3)}
    session.evaluate(DATA)
    assert len(values) == 1
    assert bits(session.params) == before
    assert session.step(*DATA.sample(0)) is None
    assert isinstance(session.step(*DATA.sample(1), loss=True), float)


@both
def test_batch_statistics_move_in_steps_only_and_are_not_trained(execution: str) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm(4), nn.relu, nn.Linear(4, 1))
    session = Trainer(model, "mse", optim.SGD(0.0), seed=1).open(execution=execution, batched=True)
    first = bits(session.params)
    session.predict(DATA.inputs)
    session.loss(DATA)
    assert bits(session.params) == first
    session.steps(Loader(data=DATA, batch_size=5), 1)
    x = DATA.inputs[:5]
    hidden = x @ np.asarray(session.params[0].weight).T
    np.testing.assert_allclose(np.asarray(session.params[1].mean), 0.1 * hidden.mean(0), rtol=1e-5)
    np.testing.assert_allclose(
        np.asarray(session.params[1].variance), 0.9 + 0.1 * hidden.var(0, ddof=1), rtol=1e-5
    )  # one update of a running average, in binary32
    changed = [old != new for old, new in zip(first, bits(session.params), strict=True)]
    assert changed == [False, False, False, False, True, True, False, False]


def test_batch_norm_trains_alike_in_both_executions() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm(4), nn.relu, nn.Linear(4, 1))
    found = []
    for execution in EXECUTIONS:
        session = Trainer(model, "mse", optim.Adam(0.03), seed=1).open(execution=execution, batched=True)
        session.steps(Loader(data=DATA, batch_size=5, shuffle_seed=2), 12)
        found.append((bits(session.params), session.loss(DATA)))
    assert found[0] == found[1]


def test_accuracy_needs_a_classification() -> None:
    session = trainer().open()
    assert session.evaluate(DATA).accuracy is None
    with pytest.raises(ConfigError, match="objective mse has no accuracy"):
        session.finish().accuracy(DATA)


@both
@pytest.mark.parametrize("batched", [False, True])
def test_accuracy_counts_the_samples_whose_label_scores_highest(execution: str, batched: bool) -> None:
    labels = (DATA.inputs[:, 0] > 0).astype(np.int32)
    data = make(DATA.inputs, labels)
    session = Trainer(nn.Linear(2, 3), "cross_entropy", optim.Adam(0.1), seed=3).open(
        execution=execution, batched=batched
    )
    scores = np.array([np.asarray(session.predict(x)) for x in DATA.inputs])
    found = session.evaluate(data)
    assert found.accuracy == np.mean(scores.argmax(1) == labels)
    shifted = scores - scores.max(1, keepdims=True)
    expected = np.mean(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(25), labels])
    assert found.loss == pytest.approx(expected, rel=1e-5)


# -- resuming ----------------------------------------------------------------------------------------------------------
OPTIMIZERS = (
    optim.SGD(0.01),
    optim.Momentum(0.01),
    optim.AdaGrad(0.05),
    optim.Adam(0.03),
    optim.AdamW(0.03),
    optim.Adadelta(),
)
RUNS: tuple[dict[str, Any], ...] = ({}, {"samples_per_step": 3}, {"batch_size": 4, "shuffle_seed": 5})


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda optimizer: type(optimizer).__name__)
@pytest.mark.parametrize("options", RUNS, ids=["samples", "accumulated", "batches"])
def test_resuming_equals_never_having_stopped(optimizer: Any, options: dict[str, Any], tmp_path: Path) -> None:
    rates = optim.schedules.warmup_cosine(0.02, 3, 30)
    shared = {"schedule": rates, "execution": "lowered", "measure": False, **options}
    whole = trainer(optimizer).train(DATA, steps=17, **shared)
    first = trainer(optimizer).train(DATA, steps=8, save_to=tmp_path / "c", **shared)
    other = Trainer(quickstart_model(0.5), "mse", optimizer, seed=1)
    second = other.train(DATA, steps=9, resume_from=tmp_path / "c", **shared)
    assert first.losses + second.losses == whole.losses
    assert bits(second.model.params) == bits(whole.model.params)
    assert second.record["steps"] == 17
    assert second.record["seed"] == 2026
    assert len(whole.losses) == 17


def test_single_steps_move_the_masks_but_not_the_place_in_the_data(tmp_path: Path) -> None:
    losses: list[list[float]] = [[], []]
    session = trainer().open()
    session.steps(DATA, 2)
    session.step(*DATA.sample(9))
    session.save(tmp_path / "c")
    resumed = trainer().open()
    resumed.load(tmp_path / "c")
    for held, kept in ((session, losses[0]), (resumed, losses[1])):
        held.steps(DATA, 5, told=lambda step, loss, kept=kept: kept.append(loss))
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5
    assert bits(session.params) == bits(resumed.params)
    assert session.steps_done == resumed.steps_done == 8


def test_resuming_may_change_the_execution(tmp_path: Path) -> None:
    whole = trainer().train(DATA, steps=12, execution="eager")
    trainer().train(DATA, steps=5, execution="lowered", save_to=tmp_path / "c")
    second = trainer().train(DATA, steps=7, execution="eager", resume_from=tmp_path / "c")
    assert bits(second.model.params) == bits(whole.model.params)


def test_a_checkpoint_of_something_else_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "c"
    trainer().train(DATA, steps=2, save_to=path)
    wider = Trainer(nn.Sequential(nn.Linear(2, 9), nn.relu, nn.Linear(9, 1)), "mse", optim.Adam(0.03)).open()
    before = bits(wider.params)
    with pytest.raises(SerializationError, match="does not fit this model: 20 differences"):
        wider.load(path)
    assert bits(wider.params) == before
    with pytest.raises(SerializationError, match="was saved with another optimizer") as error:
        trainer(optim.Adam(0.01)).open().load(path)
    assert "learning_rate=0.03" in str(error.value)
    other = tl.train.checkpoint.read(path)
    path.write_bytes(tl.train.checkpoint.pack(other.arrays, {**other.metadata, "steps": "-1"}))
    with pytest.raises(SerializationError, match="a whole number as steps"):
        trainer().open().load(path)


# -- numbers that are not finite ---------------------------------------------------------------------------------------
@both
def test_an_infinite_loss_stops_before_it_is_kept(execution: str) -> None:
    x = DATA.inputs.copy()
    x[4] = 3e38
    data = make(x, DATA.targets, name="grid")
    session = trainer(dropout=None).open(execution=execution)
    with pytest.raises(TrainingStopped) as error:
        session.steps(data, 10)
    lines = str(error.value).splitlines()
    assert lines[0] == "training stopped at step 4: the loss is inf, sample 4 of grid"
    assert lines[2].startswith("  got:      ")
    assert "at " in lines[2]
    assert session.steps_done == 4
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in tl.pytree.leaves(session.params))
    reference = trainer(dropout=None).open(execution=execution)
    reference.steps(DATA, 4)
    assert bits(session.params) == bits(reference.params)


@both
def test_the_first_op_that_overflows_is_named(execution: str) -> None:
    def loss(prediction: Any, target: Any) -> Any:
        return ops.sum(ops.exp(prediction * 1e4)) + ops.sum(target)

    session = Trainer(quickstart_model(), loss, optim.SGD(0.01), seed=2026).open(execution=execution)
    with pytest.raises(TrainingStopped, match=r"exp at test_session.py:\d+ in loss gave inf"):
        session.steps(make(-DATA.inputs, DATA.targets), 25)


def test_an_update_that_overflows_is_not_kept() -> None:
    def loss(prediction: Any, target: Any) -> Any:
        return nn.mse(prediction, target) * 1e3

    session = Trainer(quickstart_model(), loss, optim.SGD(3e38), seed=2026).open()
    with pytest.raises(
        TrainingStopped, match=r"training stopped at step \d+: params\[\d\].* would not be finite"
    ) as error:
        session.steps(DATA, 5)
    assert "samples" not in str(error.value)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in tl.pytree.leaves(session.params))


def test_a_run_cut_short_saves_its_last_good_state(tmp_path: Path) -> None:
    targets = DATA.targets.copy()
    targets[7] = 3e38
    with pytest.raises(TrainingStopped):
        trainer().train(make(DATA.inputs, targets), steps=20, measure=False, save_to=tmp_path / "c")
    session = trainer().open()
    session.load(tmp_path / "c")
    good = trainer().open()
    good.steps(DATA, 7)
    assert session.steps_done == 7
    assert bits(session.params) == bits(good.params)


def test_batches_and_accumulated_samples_are_named_too() -> None:
    targets = DATA.targets.copy()
    targets[7] = 3e38
    data = make(DATA.inputs, targets, name="grid")
    with pytest.raises(TrainingStopped, match="samples 4 to 7 of grid"):
        trainer().open().steps(data, 9, samples_per_step=4)
    with pytest.raises(TrainingStopped, match="batch 1 of grid"):
        trainer().open(batched=True).steps(Loader(data=data, batch_size=5), 9)


# -- settings ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"steps": 0}, "steps is not positive"),
        ({"steps": -3}, "steps is not positive"),
        ({"steps": 2.5}, "steps is not positive"),
        ({"samples_per_step": 0}, "samples_per_step is not positive"),
        ({"samples_per_step": 26}, "samples_per_step is larger than data set quickstart grid"),
        ({"batch_size": 0}, "batch_size is not positive"),
        ({"batch_size": 26}, "batch_size is larger than data set quickstart grid"),
        ({"batch_size": 5, "samples_per_step": 2}, "samples_per_step and batch_size exclude one another"),
        ({"shuffle_seed": 1}, "shuffle_seed needs batch_size"),
        ({"batch_size": 5, "shuffle_seed": -1}, "shuffle_seed is out of range"),
        ({"log_every": -1}, "log_every is negative"),
        ({"execution": "fast"}, "unknown execution 'fast'"),
        ({"schedule": lambda step: float("nan")}, "schedule gave the learning rate nan at step 0"),
        ({"schedule": lambda step: -1.0}, "schedule gave the learning rate -1.0 at step 0"),
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        trainer().train(DATA, **{"steps": 1, **options})


@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf")])
def test_learning_rates_are_checked_by_the_optimizer(rate: float) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        optim.Adam(rate)


def test_arithmetics_and_seeds_that_cannot_run() -> None:
    with pytest.raises(ConfigError, match="supervised training supports real arithmetic"):
        Trainer(quickstart_model(), "mse", optim.SGD(0.1), RunConfig(arithmetic="complex")).open()
    with pytest.raises(BackendMissing, match="arithmetic `ieee` cannot run"):
        Trainer(quickstart_model(), "mse", optim.SGD(0.1), RunConfig(arithmetic="ieee")).open()
    with pytest.raises(ConfigError, match="seed"):
        Trainer(quickstart_model(), "mse", optim.SGD(0.1), seed=-1)


def test_objectives() -> None:
    assert objective("cross_entropy") is CROSS_ENTROPY
    own = objective(nn.mse_sum)
    assert own == Objective("mse_sum", nn.mse_sum)
    assert objective(own) is own
    assert str(own) == "mse_sum"
    for unknown in ("accuracy", 3):
        with pytest.raises(ConfigError, match="unknown objective"):
            objective(unknown)  # type: ignore[arg-type]


def test_step_batch_needs_samples() -> None:
    session = trainer().open()
    for x, y in ((DATA.inputs[:0], DATA.targets[:0]), (DATA.inputs, DATA.targets[:3])):
        with pytest.raises(DataError, match="step_batch needs samples"):
            session.step_batch(x, y)


# -- what a run tells --------------------------------------------------------------------------------------------------
def test_events_and_the_record() -> None:
    events: list[Any] = []
    result = trainer().train(DATA, steps=6, log_every=3, listener=events.append)
    assert isinstance(events[0], Started)
    assert (events[0].dataset_size, events[0].loss, events[0].steps) == (25, result.loss_before, 6)
    steps = [event for event in events if isinstance(event, Progressed)]
    assert [event.logged for event in steps] == [True, False, False, True, False, False]
    assert tuple(event.loss for event in steps) == result.losses
    assert isinstance(events[-1], Finished)
    assert events[-1].loss == result.loss_after
    assert len(events) == 8


@both
def test_the_record_has_every_fact_of_the_run(execution: str, tmp_path: Path) -> None:
    import json

    result = trainer(dropout=None).train(DATA, steps=2, execution=execution)
    record = json.loads(result.save_record(tmp_path / "record.json").read_text())
    assert record["model"] == "Sequential(Linear(inputs=2, outputs=8), relu, Linear(inputs=8, outputs=1))"
    assert record["parameter_count"] == 33
    assert record["parameter_shapes"] == [[8, 2], [8], [1, 8], [1]]
    assert record["data"] == {"name": "quickstart grid", "samples": 25, "sha256": DATA.sha256}
    assert record["optimizer"] == "Adam(learning_rate=0.03, beta1=0.9, beta2=0.999, epsilon=1e-08)"
    assert (record["seed"], record["steps"], record["execution"]) == (2026, 2, execution)
    assert (record["arithmetic"], record["scalar"]) == ("native", "Float32")
    assert (record["device"], record["profile"]) == ("cpu", "checked_cpu")
    assert record["mode"] == {"updates": "train", "losses and predictions": "eval"}
    used = {capsule["op"] for phase in ("forward", "derivative") for capsule in record["capsules"][phase]}
    assert {"reshape", "permute", "matmul", "broadcast", "add", "relu", "mse_loss"} <= used
    assert record["result"]["loss_after"] == result.loss_after
    assert {"date", "code", "libraries"} <= set(record)


def test_the_eager_forward_uses_the_seven_capsules_of_the_quickstart() -> None:
    result = trainer(dropout=None).train(DATA, steps=2, execution="eager")
    forward = [str(capsule.name) for capsule in result.model.execution.report.forward]
    names = ("reshape", "permute", "matmul", "broadcast", "add", "relu", "mse_loss")
    assert forward == [f"reference.{name}" for name in names]


def test_training_also_runs_on_the_fast_profile() -> None:
    config = RunConfig(profile=profiles.fast_cpu, seed=2026)
    result = Trainer(quickstart_model(), "mse", optim.Adam(0.03), config).train(DATA, steps=20, batch_size=5)
    assert result.record["profile"] == "fast_cpu"
    strict = Trainer(quickstart_model(), "mse", optim.Adam(0.03), seed=2026).train(DATA, steps=20, batch_size=5)
    assert result.loss_after == pytest.approx(strict.loss_after, rel=1e-4)  # other summation orders, 20 steps


def test_a_trainer_predicts_with_untrained_parameters() -> None:
    assert f"{trainer(dropout=None).predict(HELDOUT).tolist()[0]:.6f}" == "-0.088261"
