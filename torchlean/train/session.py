"""One model being trained: its parameters, optimizer state and counters, and the operations that read or move them.

The mode follows from the operation: `step` trains (dropout drops, batch statistics move), `predict`, `loss` and
`evaluate` evaluate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchlean import nn, pytree
from torchlean.backends.audit import evidence_record
from torchlean.errors import ConfigError, DataError, SerializationError, message
from torchlean.ir import ops
from torchlean.ir.strict_json import canonical
from torchlean.optim import Schedule
from torchlean.train import checkpoint
from torchlean.train.data import Dataset, Loader
from torchlean.train.describe import described
from torchlean.train.diagnose import first_not_finite
from torchlean.train.execution import Execution
from torchlean.train.snapshot import Evaluation, Snapshot, evaluation, mean_loss
from torchlean.train.task import Slope, Stepped, Task, TrainingStopped, Tree


@dataclass(slots=True)
class Counters:
    """`steps`: updates done. `calls`: forward passes in train mode. `position`: samples or batches drawn by `steps`."""

    steps: int = 0
    calls: int = 0
    position: int = 0


class TrainSession:
    """Made by `Trainer.open`. An update that fails, or gives a number that is not finite, changes nothing."""

    def __init__(
        self,
        task: Task,
        execution: Execution,
        params: Tree,
        state: Tree,
        *,
        seed: int,
        schedule: Schedule | None = None,
    ) -> None:
        self.task = task
        self.execution = execution
        self.seed = seed
        self.schedule = schedule
        self._params = params
        self._state = state
        self._counters = Counters()

    # -- reading -----------------------------------------------------------------------------------------------------
    @property
    def params(self) -> Tree:
        """The parameters now; later steps make new ones."""
        return self._params

    @property
    def optimizer_state(self) -> Tree:
        return self._state

    @property
    def steps_done(self) -> int:
        """Updates made so far, those before a checkpoint was loaded included."""
        return self._counters.steps

    @property
    def learning_rate(self) -> float:
        """What the next step uses."""
        if self.schedule is not None:
            return float(self.schedule(self._counters.steps))
        return float(self.task.optimizer.learning_rate)

    def predict(self, x: Any) -> Any:
        """The model's output for one sample, or a batch of them, in eval mode."""
        return self.execution.predict(self._params, x)

    def loss(self, data: Dataset) -> float:
        """Mean over a data set in eval mode: one loss per sample, averaged in binary64."""
        return mean_loss(self.execution, self._params, data)

    def evaluate(self, data: Dataset) -> Evaluation:
        """`loss`, and the accuracy of a classifier."""
        return evaluation(self.task, self.execution, self._params, data)

    def finish(self) -> Snapshot:
        """A frozen copy that later steps do not change."""
        return Snapshot(self.task, self.execution, self._params, self._counters.steps)

    # -- training ----------------------------------------------------------------------------------------------------
    def step(self, x: Any, y: Any, *, loss: bool = False) -> float | None:
        """One update from one sample (or from one batch, for a batched model); its loss, if asked for."""
        calls = self._counters.calls
        made = self.execution.step(self._params, self._state, x, y, _count(calls), self._rate())
        value = self._install(made, calls + 1, [(x, y)], f"step {self._counters.steps}")
        return value if loss else None

    def step_batch(self, x: Any, y: Any, *, loss: bool = False) -> float | None:
        """One update from samples x[n, …], y[n, …] taken one by one: their gradients added in order, times 1/n."""
        if not len(x) or len(x) != len(y):
            raise DataError(
                message("step_batch needs samples", expected="equal sizes ≥ 1", got=f"{len(x)} and {len(y)}")
            )
        return self._accumulated([(x[at], y[at]) for at in range(len(x))], loss=loss)

    def _accumulated(self, samples: list[tuple[Any, Any]], *, loss: bool) -> float | None:
        calls = self._counters.calls
        total: Slope | None = None
        params = self._params
        for offset, (x, y) in enumerate(samples):
            found = self.execution.slope(params, x, y, _count(calls + offset))
            params = _with_fixed(self.task, params, found)
            total = found if total is None else self.execution.plus(total, found)
        assert total is not None
        if len(samples) > 1:
            total = self.execution.averaged(total, len(samples))
        made = self.execution.update(params, self._state, total, self._rate())
        value = self._install(made, calls + len(samples), samples, f"step {self._counters.steps}")
        return value if loss else None

    def steps(
        self,
        data: Dataset | Loader,
        count: int,
        *,
        samples_per_step: int = 1,
        told: Callable[[int, float], None] | None = None,
    ) -> None:
        """`count` updates, drawing from where the last call stopped; `told(step, loss)` after each.

        A `Dataset` is drawn `samples_per_step` samples at a time, cyclically; a `Loader` one batch at a time.
        """
        require_positive("steps", count)
        require_positive("samples_per_step", samples_per_step)
        for _ in range(count):
            at = self._counters.steps
            value = self._draw(data, samples_per_step)
            if told is not None:
                told(at, value)

    def _draw(self, data: Dataset | Loader, samples_per_step: int) -> float:
        position = self._counters.position
        if isinstance(data, Loader):
            batch = data.at(position)
            drawn, where = [(batch.inputs, batch.targets)], f"batch {position % len(data)}"
            following = position + 1
        else:
            drawn = [data.sample(position + offset) for offset in range(samples_per_step)]
            first, last = position % len(data), (position + samples_per_step - 1) % len(data)
            where = f"sample {first}" if samples_per_step == 1 else f"samples {first} to {last}"
            following = position + samples_per_step
        try:
            value = self.step(*drawn[0], loss=True) if len(drawn) == 1 else self._accumulated(drawn, loss=True)
        except TrainingStopped as stopped:
            raise TrainingStopped(str(stopped).replace("\n", f", {where} of {_name(data)}\n", 1)) from None
        self._counters.position = following
        assert value is not None
        return value

    def _rate(self) -> Any:
        """None for the optimizer's own rate, else a scalar operand, so that a changing rate needs no new plan."""
        if self.schedule is None:
            return None
        rate = float(self.schedule(self._counters.steps))
        if not math.isfinite(rate) or rate < 0:
            raise ConfigError(
                message(
                    f"schedule gave the learning rate {rate} at step {self._counters.steps}",
                    expected="a finite number ≥ 0",
                    got=rate,
                )
            )
        return np.float64(rate)  # rounded to the dtype of each parameter where it is used

    def _install(self, made: Stepped, calls: int, samples: list[tuple[Any, Any]], where: str) -> float:
        """Take over an update after checking that its numbers are finite; its loss."""
        value = float(made.loss)
        if not math.isfinite(value):
            raise self._stopped(f"training stopped at {where}: the loss is {value}", samples)
        for position, leaf in enumerate(pytree.leaves(made.params)):
            array = np.asarray(leaf)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                path = pytree.paths(made.params, "params")[position]
                raise self._stopped(f"training stopped at {where}: {path} would not be finite", [])
        self._params, self._state = made.params, made.state
        self._counters.steps += 1
        self._counters.calls = calls
        return value

    def _stopped(self, what: str, samples: list[tuple[Any, Any]]) -> TrainingStopped:
        found: str | None = None
        for offset, (x, y) in enumerate(samples):
            found = found or first_not_finite(self.task, self._params, x, y, _count(self._counters.calls + offset))
        return TrainingStopped(
            message(
                what,
                expected="finite numbers",
                got=found or "an overflow in the gradient or update",
                fix="lower the learning rate or check the data; the session keeps its state from before this step",
            )
        )

    # -- files -------------------------------------------------------------------------------------------------------
    def save(self, path: Path | str) -> None:
        """Write everything that resuming needs, atomically; see `load`."""
        held = self._counters
        metadata = {
            "architecture": described(self.task.model),
            "optimizer": described(self.task.optimizer),
            "seed": str(self.seed),
            "steps": str(held.steps),
            "calls": str(held.calls),
            "position": str(held.position),
            "evidence": canonical(self.evidence()),
        }
        checkpoint.save(path, self._trees(), metadata)

    def load(self, path: Path | str) -> None:
        """Go on from a saved session, bit for bit: parameters, optimizer, counters (hence masks and data order).

        Raises SerializationError, changing nothing, if the file is faulty or of another model or optimizer.
        """
        trees, metadata = checkpoint.restore(path, self._trees(), described(self.task.model))
        saved = metadata.get("optimizer")
        mine = described(self.task.optimizer)
        if saved != mine:
            raise SerializationError(
                message(f"{str(path)!r} was saved with another optimizer", expected=mine, got=saved)
            )
        counters = Counters(*[_whole(metadata, key, str(path)) for key in ("steps", "calls", "position")])
        self.seed = _whole(metadata, "seed", str(path))
        held = pytree.map(ops.constant, trees)
        self._params, self._state, self._counters = held["params"], held["optimizer"], counters

    def evidence(self) -> dict[str, Any]:
        """What the capsules used so far were admitted on: the policy, and every tested claim that is not fresh."""
        report = self.execution.report
        return evidence_record(self.task.profile, (*report.forward, *report.derivative))

    def _trees(self) -> dict[str, Tree]:
        return {"params": self._params, "optimizer": self._state}


def require_positive(name: str, value: Any) -> None:
    """Refuse a count that is not an integer ≥ 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(message(f"{name} is not positive", expected=f"{name} ≥ 1", got=repr(value)))


def _count(calls: int) -> Any:
    return np.uint64(calls)


def _with_fixed(task: Task, params: Tree, found: Slope) -> Tree:
    return nn.merge(nn.partition(params, task.flags)[0], found.fixed)


def _name(data: Dataset | Loader) -> str:
    return data.name if isinstance(data, Dataset) else data.data.name


def _whole(metadata: Mapping[str, str], key: str, path: str) -> int:
    text = metadata.get(key, "")
    if not text.isascii() or not text.isdigit():
        raise SerializationError(
            message(f"{path!r} is not a usable checkpoint", expected=f"a whole number as {key}", got=repr(text))
        )
    return int(text)
