"""Training op by op on a tape: each sample's operations are recorded afresh, differentiated, and forgotten.

Two sessions: one that tracks gradients, for updates, and one that does not, for predictions and evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchlean import nn, pytree
from torchlean.runtime.array import Array
from torchlean.runtime.report import BackendReport
from torchlean.runtime.session import Session
from torchlean.train import task as tasks
from torchlean.train.task import Slope, Stepped, Task, Tree


class Eager:
    """One training problem, run eagerly. `tell` receives the lines of the backend report as capsules are selected."""

    name = "eager"

    def __init__(self, task: Task, tell: Callable[[str], None] | None) -> None:
        shown = tell is not None
        self._task = task
        self._training = Session(task.profile, track_gradients=True, show_backend=shown, report=tell)
        self._evaluation = Session(task.profile, show_backend=shown, report=tell)

    @property
    def report(self) -> BackendReport:
        """The capsules that training selected."""
        return self._training.report

    def slope(self, params: Tree, x: Any, y: Any, calls: Any) -> Slope:
        """Reset the tape, record parameters, then inputs, run forward and loss, and sweep back."""
        session = self._training
        session.reset_tape()
        with session:
            active, fixed = nn.partition(params, self._task.flags)
            leaves, treedef = pytree.flatten_with_path(active, "params")
            handles = pytree.unflatten(treedef, [session.parameter(leaf, path) for path, leaf in leaves])
            inputs, target = session.input(x, "x"), session.input(y, "y")
            loss, moved = tasks.training_loss(self._task, handles, fixed, inputs, target, calls)
            gradients = pytree.unflatten(treedef, list(session.backward(loss)))
            return Slope(_off_tape(loss), gradients, pytree.map(_off_tape, moved))

    def step(self, params: Tree, state: Tree, x: Any, y: Any, calls: Any, rate: Any) -> Stepped:
        return self.update(params, state, self.slope(params, x, y, calls), rate)

    def update(self, params: Tree, state: Tree, found: Slope, rate: Any) -> Stepped:
        with self._training, self._training.updates():
            return tasks.update(self._task, params, state, found, rate)

    def plus(self, one: Slope, other: Slope) -> Slope:
        with self._training, self._training.updates():
            return tasks.plus(self._task, one, other)

    def averaged(self, total: Slope, count: int) -> Slope:
        with self._training, self._training.updates():
            return tasks.averaged(self._task, total, count)

    def predict(self, params: Tree, x: Any) -> Any:
        with self._evaluation:
            return tasks.predict(self._task, params, x)

    def losses(self, params: Tree, x: NDArray[Any], y: NDArray[Any]) -> list[float]:
        """The loss of each sample, one model call each."""
        found: list[float] = []
        with self._evaluation:
            for at in range(len(x)):
                rows = slice(at, at + 1) if self._task.batched else at
                prediction = self._task.model(params, x[rows])
                found.append(float(self._task.objective.loss(prediction, y[rows])))
        return found

    def classes(self, params: Tree, x: NDArray[Any]) -> NDArray[Any]:
        with self._evaluation:
            return np.asarray(tasks.classes(self._task, params, x))


def _off_tape(value: Any) -> Any:
    """The same array as a plain value, usable after the tape is reset."""
    return Array.over(value.type, value.buffer, value.session) if isinstance(value, Array) else value
