"""A model, an objective, an optimizer, a run configuration and a seed: all that fixes a training run but data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchlean import nn, pytree
from torchlean.errors import ConfigError, message
from torchlean.optim import Optimizer, Schedule
from torchlean.random import SeedStream
from torchlean.runtime.config import Execution, RunConfig
from torchlean.train import provenance
from torchlean.train.data import Dataset, Loader
from torchlean.train.describe import described
from torchlean.train.eager import Eager
from torchlean.train.events import Finished, Listener, Progressed, Started
from torchlean.train.lowered import Lowering
from torchlean.train.objective import Objective, objective
from torchlean.train.session import TrainSession, require_positive
from torchlean.train.snapshot import Evaluation, Snapshot
from torchlean.train.task import Task, TrainingStopped, Tree


@dataclass(frozen=True, slots=True)
class TrainResult:
    """A finished run. `losses` has the loss of every step; `record` is its provenance, as plain data."""

    model: Snapshot
    steps: int
    loss_before: float | None
    loss_after: float | None
    losses: tuple[float, ...]
    seconds: float
    record: dict[str, Any]

    @property
    def summary(self) -> str:
        """`steps=20 arithmetic=native scalar=Float32 loss=0.495227 -> 0.401184`."""
        arithmetic, scalar = self.record["arithmetic"], self.record["scalar"]
        change = f"{_number(self.loss_before)} -> {_number(self.loss_after)}"
        return f"steps={self.steps} arithmetic={arithmetic} scalar={scalar} loss={change}"

    def predict(self, x: Any) -> Any:
        """The trained model's output in eval mode."""
        return self.model.predict(x)

    def evaluate(self, data: Dataset) -> Evaluation:
        """Loss, and accuracy of a classifier, on a data set."""
        return self.model.evaluate(data)

    def save_record(self, path: Path | str) -> Path:
        """Write the provenance record as canonical JSON."""
        return provenance.write(self.record, path)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6f}"


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trains `model`. `objective` is "mse", "cross_entropy", an `Objective` or a loss function.

    Parameters come from TorchLean's seed stream of `seed` (by default that of `config`), so the published runs are
    reproduced.
    """

    model: nn.Layer
    objective: Objective | str | Callable[[Any, Any], Any]
    optimizer: Optimizer
    config: RunConfig = field(default_factory=RunConfig)
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            object.__setattr__(self, "config", replace(self.config, seed=self.seed))
        object.__setattr__(self, "objective", objective(self.objective))

    def init(self) -> Tree:
        """The initial parameters."""
        return self.model.init(SeedStream(self.config.seed))

    def open(
        self,
        *,
        execution: str | None = None,
        batched: bool = False,
        schedule: Schedule | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> TrainSession:
        """A session at step 0. `batched`: the model takes samples stacked along a leading axis, not single ones.

        `execution` (by default that of `config`): "lowered" plans each function once and runs generated programs,
        "eager" records every sample's operations on a tape. Under a strict profile both give the same bits. `tell`
        receives the backend report as it grows. Raises ConfigError or BackendMissing when the configuration cannot run.
        """
        config = self.config if execution is None else replace(self.config, execution=execution)
        profile = config.validate_for_execution()
        params = self.init()
        task = Task(
            self.model, objective(self.objective), self.optimizer, profile, self.model.trainable(params), batched
        )
        state = self.optimizer.init(params, task.flags)
        made = Eager(task, tell) if config.execution == Execution.EAGER else Lowering(task, tell)
        return TrainSession(task, made, params, state, seed=config.seed, schedule=schedule)

    def predict(self, x: Any) -> Any:
        """The untrained model's output in eval mode."""
        return self.open(execution="eager").predict(x)

    def train(
        self,
        data: Dataset,
        *,
        steps: int,
        samples_per_step: int = 1,
        batch_size: int | None = None,
        shuffle_seed: int | None = None,
        schedule: Schedule | None = None,
        log_every: int = 0,
        execution: str | None = None,
        measure: bool = True,
        resume_from: Path | str | None = None,
        save_to: Path | str | None = None,
        listener: Listener | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> TrainResult:
        """`steps` updates, from the start or from a saved session.

        Without `batch_size`: samples one by one, cyclically, `samples_per_step` of them per update. With it: stacked
        batches; `shuffle_seed` reorders them every epoch. `measure` finds the mean loss over `data` before and after.
        `listener` receives events, of which every `log_every`-th step is marked `logged`. `save_to` gets the last good
        state, also when the run is cut short. Raises ConfigError for a setting out of range, TrainingStopped when a
        number stops being finite.
        """
        require_positive("steps", steps)
        require_positive("samples_per_step", samples_per_step)
        if log_every < 0:
            raise ConfigError(message("log_every is negative", expected="log_every ≥ 0 (0 is never)", got=log_every))
        source = _source(data, samples_per_step, batch_size, shuffle_seed)
        session = self.open(execution=execution, batched=batch_size is not None, schedule=schedule, tell=tell)
        if resume_from is not None:
            session.load(resume_from)
        tells: Listener = listener if listener is not None else _ignore
        before = session.loss(data) if measure else None
        tells(Started(len(data), before, steps))
        losses: list[float] = []

        def told(step: int, loss: float) -> None:
            losses.append(loss)
            tells(Progressed(step, loss, bool(log_every) and step % log_every == 0))

        start = time.perf_counter()
        try:
            session.steps(source, steps, samples_per_step=samples_per_step, told=told)
        except (TrainingStopped, KeyboardInterrupt):
            if save_to is not None:
                session.save(save_to)  # the last good state
            raise
        seconds = time.perf_counter() - start
        after = session.loss(data) if measure else None
        if save_to is not None:
            session.save(save_to)
        tells(Finished(after, seconds))
        record = self.record(session, source, samples_per_step=samples_per_step, loss_before=before, loss_after=after)
        return TrainResult(session.finish(), steps, before, after, tuple(losses), seconds, record)

    def record(self, session: TrainSession, data: Dataset | Loader, **result: Any) -> dict[str, Any]:
        """The provenance of what `session` holds now, trained on `data`; `result` is recorded with it."""
        loader = data if isinstance(data, Loader) else None
        held = data.data if isinstance(data, Loader) else data
        return {
            "format": provenance.FORMAT,
            "model": described(self.model),
            "parameter_count": nn.parameter_count(self.model, session.params),
            "parameter_shapes": [list(leaf.type.shape) for leaf in pytree.leaves(session.params)],
            "objective": str(session.task.objective),
            "data": {"name": held.name, "samples": len(held), "sha256": held.sha256},
            "order": {
                "batch_size": loader.batch_size if loader else None,
                "shuffle_seed": loader.shuffle_seed if loader else None,
                "drop_last": loader.drop_last if loader else None,
            },
            "seed": session.seed,
            "optimizer": described(self.optimizer),
            "scheduled": session.schedule is not None,
            "arithmetic": str(self.config.arithmetic),
            "scalar": _scalar(session.params),
            "device": str(session.task.profile.device),
            "profile": session.task.profile.name,
            "capsules": _capsules(session),
            "evidence": session.evidence(),
            "execution": session.execution.name,
            "mode": {"updates": "train", "losses and predictions": "eval"},
            "steps": session.steps_done,
            "result": result,
            **provenance.environment(),
        }


def _source(data: Dataset, samples_per_step: int, batch_size: int | None, shuffle_seed: int | None) -> Dataset | Loader:
    if batch_size is not None:
        if samples_per_step != 1:
            raise ConfigError(
                message("samples_per_step and batch_size exclude one another", fix="leave samples_per_step at 1")
            )
        return Loader(data=data, batch_size=batch_size, shuffle_seed=shuffle_seed)
    if shuffle_seed is not None:
        raise ConfigError(
            message("shuffle_seed needs batch_size", fix="use data.shuffled(seed) for a fixed order of samples")
        )
    if samples_per_step > len(data):
        raise ConfigError(
            message(
                f"samples_per_step is larger than data set {data.name}",
                expected=f"samples_per_step ≤ {len(data)}",
                got=samples_per_step,
            )
        )
    return data


def _capsules(session: TrainSession) -> dict[str, Any]:
    """The capsules used, without the text of their contracts."""
    report = session.execution.report.as_json()
    return {
        phase: [{key: held for key, held in capsule.items() if key != "contracts"} for capsule in listed]
        for phase, listed in report.items()
        if phase != "profile"
    }


def _scalar(params: Tree) -> str:
    names = {leaf.type.dtype.label for leaf in pytree.leaves(params) if leaf.type.dtype.is_float}
    return ", ".join(sorted(name.capitalize() for name in names)) or "none"


def _ignore(event: object) -> None:
    """Nobody listens."""
