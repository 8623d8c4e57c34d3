"""`debug.show`: a function's graph as text, each node with the user's line."""

from __future__ import annotations

from typing import Any

from torchlean.ir.graph import Graph
from torchlean.ir.printer import graph_text
from torchlean.transforms.api import make_graph
from torchlean.transforms.lower import Lowered


class Text(str):
    """A text of several lines that a REPL shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def graph_of(shown: Any, *arguments: Any, **keywords: Any) -> Graph:
    """The graph itself, a lowered function's, or that of a function at these arguments (arrays or types)."""
    if isinstance(shown, Graph):
        return shown
    if isinstance(shown, Lowered):
        return shown.graph
    return make_graph(shown)(*arguments, **keywords)


def show(shown: Any, *arguments: Any, locations: bool = True, max_nodes: int | None = None, **keywords: Any) -> Text:
    """The graph of a function at these arguments (or a graph, or a lowered function) as text, a line per node.

    With `locations` each line ends with the user's `file:line in function`, and with the op a node is a derivative of.
    """
    return Text(graph_text(graph_of(shown, *arguments, **keywords), max_nodes=max_nodes, locations=locations))
