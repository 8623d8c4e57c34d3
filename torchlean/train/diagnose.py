"""Where a number stops being finite: the first op of a model's forward pass whose result holds NaN or an infinity."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.ir.graph import Graph
from torchlean.runtime.session import Session
from torchlean.train.task import Task, Tree
from torchlean.transforms.api import trace_abstract


def first_not_finite(task: Task, params: Tree, x: Any, y: Any, calls: Any) -> str | None:
    """`exp at train.py:12 gave inf`, or None when every result of the forward pass and loss is finite."""

    def loss(held: Tree, one: Any, target: Any, count: Any) -> Any:
        prediction, _ = task.model.apply(held, one, mode="train", rng=count)
        return task.objective.loss(prediction, target)

    arguments = (params, x, y, calls)
    graph = trace_abstract(loss, arguments, {}, ()).graph
    return _walk(graph, pytree.leaves(arguments), Session(task.profile))


def _walk(graph: Graph, operands: list[Any], session: Session) -> str | None:
    values: dict[int, Any] = dict(zip(graph.inputs, operands, strict=True))
    for op, inputs, outputs, params, where in graph.nodes:
        made = session.bind(op, params, tuple([values[id] for id in inputs]))
        for id, result in zip(outputs, made, strict=True):
            values[id] = result
            array = np.asarray(result)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                bad = array[~np.isfinite(array)].ravel()[0]
                return f"{op.name} at {where} gave {bad}"
    return None
