"""A trained model, frozen, and how well it does on data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, message
from torchlean.train.data import Dataset
from torchlean.train.execution import Execution
from torchlean.train.task import Task, Tree


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Mean loss and, for a classifier, the fraction of samples whose highest score is at their label."""

    loss: float
    accuracy: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The parameters after `steps` updates. Steps that its session makes later do not change it."""

    task: Task
    execution: Execution
    params: Tree
    steps: int

    def predict(self, x: Any) -> Any:
        """The model's output in eval mode."""
        return self.execution.predict(self.params, x)

    def loss(self, data: Dataset) -> float:
        """Mean over a data set: one loss per sample, averaged in binary64."""
        return mean_loss(self.execution, self.params, data)

    def evaluate(self, data: Dataset) -> Evaluation:
        """`loss`, and the accuracy of a classifier."""
        return evaluation(self.task, self.execution, self.params, data)

    def accuracy(self, data: Dataset) -> float:
        """The fraction of samples classified as labelled; ConfigError unless the objective is a classification."""
        return accuracy(self.task, self.execution, self.params, data)


def mean_loss(execution: Execution, params: Tree, data: Dataset) -> float:
    """Per-sample losses in the model's arithmetic, averaged in binary64 in data set order."""
    total = 0.0
    for value in execution.losses(params, data.inputs, data.targets):
        total += value
    return total / len(data)


def accuracy(task: Task, execution: Execution, params: Tree, data: Dataset) -> float:
    if not task.objective.is_classification:
        raise ConfigError(
            message(f"objective {task.objective} has no accuracy", expected="a classification, such as cross_entropy")
        )
    return float(np.mean(execution.classes(params, data.inputs) == data.targets))


def evaluation(task: Task, execution: Execution, params: Tree, data: Dataset) -> Evaluation:
    found = accuracy(task, execution, params, data) if task.objective.is_classification else None
    return Evaluation(mean_loss(execution, params, data), found)
