"""A program whose instructions carry the user's lines, by which collectives are found. Importing this imports jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from torchlean.backends.xla.program import Program
from torchlean.ir.graph import Graph, Node


class Located(Program):
    """A program that names the line of each node."""

    def _apply(self, graph: Graph, node: Node, operands: list[Any]) -> tuple[Any, ...]:
        with jax.named_scope(f"{Path(node.where.filename or 'unknown').name}:{node.where.line}"):
            return super()._apply(graph, node, operands)
