"""What a graph means: its nodes evaluated one by one in an algebra. Every provider is compared with this definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir.algebra import Algebra, NumpyAlgebra
from torchlean.ir.graph import Graph


def denote(graph: Graph, arguments: Sequence[Any], algebra: Algebra | None = None) -> tuple[Any, ...]:
    """The outputs of `graph` on `arguments` (carriers of `algebra`; NumPy arrays when it is None)."""
    meaning: Algebra = NumpyAlgebra() if algebra is None else algebra
    values: list[Any] = [None] * len(graph.types)
    for id, argument in zip(graph.inputs, arguments, strict=True):
        values[id] = argument
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            results = node.op.denote(meaning, node.params, *[values[i] for i in node.inputs])
            for id, result in zip(node.outputs, results, strict=True):
                values[id] = result
    if algebra is None:
        return tuple(np.asarray(values[id]) for id in graph.outputs)
    return tuple(values[id] for id in graph.outputs)
