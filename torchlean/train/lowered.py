"""Training through generated programs: each function of a task is planned and accepted once per batch shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchlean.ir.builder import type_of
from torchlean.ir.graph import Graph
from torchlean.runtime.report import BackendReport, Phase
from torchlean.train import task as tasks
from torchlean.train.task import Slope, Stepped, Task, Tree
from torchlean.transforms.lower import Lowered, lower

MOST_ROWS = 256  # rows of one evaluation call, which bounds its memory

_FORWARD = frozenset({tasks.predict, tasks.sample_losses, tasks.classes})
_LOSS_FIRST = frozenset({tasks.slope, tasks.step})


class Lowering:
    """One training problem, lowered. `tell` receives the lines of the backend report as programs are accepted."""

    name = "lowered"

    def __init__(self, task: Task, tell: Callable[[str], None] | None) -> None:
        self._task = task
        self._programs: dict[tuple[Any, ...], Lowered] = {}
        self.report = BackendReport(task.profile.name, tell)

    @property
    def lowered(self) -> tuple[Lowered, ...]:
        """The programs made so far, in order of first use."""
        return tuple(self._programs.values())

    def program(self, f: Callable[..., Any], *arguments: Any, key: tuple[Any, ...] = (), **fixed: Any) -> Lowered:
        """The accepted program of `f(task, *arguments, **fixed)`, made on first use. `key`: the argument types."""
        name = (f, key, tuple(fixed.items()))
        found = self._programs.get(name)
        if found is None:

            @wraps(f)  # its name is what errors, graphs and plans show
            def bound(*given: Any) -> Any:
                return f(self._task, *given, **fixed)

            found = lower(bound, *arguments, profile=self._task.profile)
            self._programs[name] = found
            forward = _forward(found.plan.graph, f)
            for step in found.plan.steps:
                is_forward = not forward.isdisjoint(step.node.outputs)
                self.report.used(step.capsule, Phase.FORWARD if is_forward else Phase.DERIVATIVE)
        return found

    def step(self, params: Tree, state: Tree, x: Any, y: Any, calls: Any, rate: Any) -> Stepped:
        key = (type_of(x), type_of(y), rate is None)
        return self.program(tasks.step, params, state, x, y, calls, rate, key=key)(params, state, x, y, calls, rate)

    def slope(self, params: Tree, x: Any, y: Any, calls: Any) -> Slope:
        return self.program(tasks.slope, params, x, y, calls, key=(type_of(x), type_of(y)))(params, x, y, calls)

    def update(self, params: Tree, state: Tree, found: Slope, rate: Any) -> Stepped:
        program = self.program(tasks.update, params, state, found, rate, key=(rate is None,))
        return program(params, state, found, rate)

    def plus(self, one: Slope, other: Slope) -> Slope:
        return self.program(tasks.plus, one, other)(one, other)

    def averaged(self, total: Slope, count: int) -> Slope:
        return self.program(tasks.averaged, total, count=count)(total)

    def predict(self, params: Tree, x: Any) -> Any:
        return self.program(tasks.predict, params, x, key=(type_of(x),))(params, x)

    def losses(self, params: Tree, x: NDArray[Any], y: NDArray[Any]) -> list[float]:
        """The loss of each sample, many samples a call."""
        found: list[float] = []
        for at in range(0, len(x), MOST_ROWS):
            rows, targets = x[at : at + MOST_ROWS], y[at : at + MOST_ROWS]
            key = (type_of(rows), type_of(targets))
            program = self.program(tasks.sample_losses, params, rows, targets, key=key)
            found += np.asarray(program(params, rows, targets)).tolist()
        return found

    def classes(self, params: Tree, x: NDArray[Any]) -> NDArray[Any]:
        """The class of each sample, many samples a call."""
        parts: list[NDArray[Any]] = []
        for at in range(0, len(x), MOST_ROWS):
            rows = x[at : at + MOST_ROWS]
            parts.append(np.asarray(self.program(tasks.classes, params, rows, key=(type_of(rows),))(params, rows)))
        return np.concatenate(parts)


def _forward(graph: Graph, f: Callable[..., Any]) -> frozenset[int]:
    """The values of a program that the model and its loss compute; the others are of VJPs and updates."""
    if f in _FORWARD:
        return frozenset(range(len(graph.types)))
    wanted = set(graph.outputs[:1]) if f in _LOSS_FIRST else set[int]()
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
    return frozenset(wanted)
