"""One training problem as pure functions of trees: what both executions compute.

`calls` numbers the forward passes of training, from 0: dropout masks are functions of it and of the layer's seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torchlean import nn, pytree
from torchlean.backends.profile import Profile
from torchlean.errors import TorchLeanError
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.optim import Optimizer
from torchlean.train.objective import Objective
from torchlean.transforms.api import value_and_grad
from torchlean.transforms.batching import vmap

Tree = Any


class TrainingStopped(TorchLeanError):
    """Training cannot go on: a loss or an updated parameter is not finite. The session keeps its last good state."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A model, what it minimises, how it is updated, and where it runs. `flags`: which parameters are trained.

    `batched`: the model takes samples stacked along a leading axis; otherwise it takes one sample.
    """

    model: nn.Layer
    objective: Objective
    optimizer: Optimizer
    profile: Profile
    flags: Tree
    batched: bool


class Slope(NamedTuple):
    """Result of one differentiated forward pass; `fixed` are the untrained parameters to go on with."""

    loss: Any
    gradients: Tree
    fixed: Tree


class Stepped(NamedTuple):
    """Result of one update."""

    loss: Any
    params: Tree
    state: Tree


def training_loss(task: Task, active: Tree, fixed: Tree, x: Any, y: Any, calls: Any) -> tuple[Any, Tree]:
    """(loss, untrained parameters to go on with) in train mode, of trained parameters `active` and the others."""
    prediction, updated = task.model.apply(nn.merge(active, fixed), x, mode="train", rng=calls)
    return task.objective.loss(prediction, y), nn.partition(updated, task.flags)[1]


def slope(task: Task, params: Tree, x: Any, y: Any, calls: Any) -> Slope:
    """Loss and gradient by transform: what the lowered execution traces."""
    active, fixed = nn.partition(params, task.flags)
    (loss, moved), gradients = value_and_grad(
        lambda trained: training_loss(task, trained, fixed, x, y, calls), has_aux=True
    )(active)
    return Slope(loss, gradients, moved)


def update(task: Task, params: Tree, state: Tree, found: Slope, rate: Any) -> Stepped:
    """One optimizer step; `rate` None means the optimizer's own."""
    active, _ = nn.partition(params, task.flags)
    made, state = task.optimizer.update(
        found.gradients, state, nn.merge(active, found.fixed), learning_rate=rate, trainable=task.flags
    )
    return Stepped(found.loss, made, state)


def step(task: Task, params: Tree, state: Tree, x: Any, y: Any, calls: Any, rate: Any) -> Stepped:
    """`slope`, then `update`: the one function a lowered training step is."""
    return update(task, params, state, slope(task, params, x, y, calls), rate)


def plus(task: Task, one: Slope, other: Slope) -> Slope:
    """Losses and gradients added, in this order; untrained parameters of `other`."""
    return Slope(ops.add(one.loss, other.loss), pytree.map(ops.add, one.gradients, other.gradients), other.fixed)


def averaged(task: Task, total: Slope, count: int) -> Slope:
    """Losses and gradients times the reciprocal of `count`, rounded to the dtype of each."""

    def scale(value: Any) -> Any:
        carrier = type_of(value).dtype.carrier.type
        return ops.mul(value, float(carrier(1) / carrier(count)))

    return Slope(scale(total.loss), pytree.map(scale, total.gradients), total.fixed)


# -- evaluation --------------------------------------------------------------------------------------------------------
def predict(task: Task, params: Tree, x: Any) -> Any:
    """The model in eval mode."""
    return task.model(params, x)


def sample_losses(task: Task, params: Tree, x: Any, y: Any) -> Any:
    """The loss of each sample of x[n, …], y[n, …] in eval mode: f[n]."""
    if not task.batched:
        return vmap(lambda one, target: task.objective.loss(task.model(params, one), target))(x, y)
    prediction = task.model(params, x)
    return vmap(lambda one, target: task.objective.loss(one, target))(_singly(prediction), _singly(y))


def _singly(rows: Any) -> Any:
    """Rows as batches of one."""
    shape = type_of(rows).shape
    return ops.reshape(rows, (shape[0], 1, *shape[1:]))


def classes(task: Task, params: Tree, x: Any) -> Any:
    """The class with the highest score for each sample of x[n, …]: integers[n]."""
    scores = task.model(params, x) if task.batched else vmap(lambda one: task.model(params, one))(x)
    return ops.argmax(scores, axis=-1)
