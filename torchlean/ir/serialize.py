"""Graph ⇄ canonical JSON with a content hash.

    {"format": "torchlean-graph", "version": 1, "hash": "<sha256>", "graph": {…}, "locations": [[file, line, name], …]}

The hash is the SHA-256 of the canonical text of "graph"; source locations lie outside it. What was read is type-checked
and must have the hash it claims when it is written again, so that one hash names one graph. The body of a composite
node must be the one its op traces here, since a provider may run a kernel of its own for the op.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable
from typing import Any

from torchlean.ir.check import check
from torchlean.ir.graph import Graph, Node, without_effects
from torchlean.ir.graph_data import graph_data, read_graph
from torchlean.ir.location import SourceLocation
from torchlean.ir.op import Op
from torchlean.ir.strict_json import (
    canonical,
    read_fields,
    read_integer,
    read_json,
    read_list,
    read_text,
    refuse,
    shown,
)

FORMAT = "torchlean-graph"
VERSION = 1

_FIELDS = ("format", "version", "hash", "graph", "locations")


def dumps(graph: Graph) -> str:
    """The graph as canonical JSON text; SerializationError for params that hold Python functions (custom rules).

    What `debug.print` and `debug.check` put into a graph is left out: it is no part of what the graph computes.
    """
    graph = without_effects(graph, in_bodies=False)
    data = graph_data(graph)
    places = [[_escaped(n.where.filename), n.where.line, _escaped(n.where.function)] for n in graph.nodes]
    return canonical({"format": FORMAT, "version": VERSION, "hash": _hash_of(data), "graph": data, "locations": places})


def content_hash(graph: Graph) -> str:
    """SHA-256 of the graph's canonical text, source locations and `debug` remarks left out; ids do not matter."""
    return _hash_of(graph_data(graph))


def loads(text: str | bytes, *, extra_ops: Iterable[Op] = ()) -> Graph:
    """The graph in a JSON text (bytes are UTF-8); `extra_ops` are ops of the caller's that it may use.

    SerializationError says what is wrong with a text that is not a graph of a version understood here, GraphError which
    node of a graph is ill-typed, or is a composite with a body that is not its op's.
    """
    extra_ops = tuple(extra_ops)
    document = read_json(text)
    _require_known_version(document)
    document = read_fields(document, _FIELDS, "the document")
    claimed = read_text(document["hash"], "the hash")
    try:
        found = _hash_of(document["graph"])
        if found != claimed:
            refuse("the content does not have the hash it claims", expected=shown(claimed), got=shown(found))
        graph = read_graph(document["graph"], extra_ops)
    except RecursionError:
        refuse("the JSON is nested too deeply")
    check(graph)
    if content_hash(graph) != claimed:
        refuse("the document is not in canonical form", fix="write it again with torchlean.ir.serialize.dumps")
    graph = _located(graph, document["locations"])
    # The derived bodies of gradients need the transforms, which lie above this package: reached by name.
    importlib.import_module("torchlean.transforms.bodies").check_bodies(graph, extra_ops)
    return graph


def _hash_of(data: Any) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def _require_known_version(document: Any) -> None:
    """Before the fields: another version may have others."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        refuse("not a torchlean graph", expected=f'an object whose "format" is "{FORMAT}"', got=shown(document))
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        refuse(
            f"version {shown(version)} of the graph format is unknown",
            expected=f"1 to {VERSION}" if VERSION > 1 else str(VERSION),
            got=shown(version),
            fix="upgrade torchlean" if newer else "write the file again with this torchlean",
        )


def _escaped(text: str) -> str:
    """A file name may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _located(graph: Graph, data: Any) -> Graph:
    places = read_list(data, "the locations")
    if len(places) != len(graph.nodes):
        refuse("not one location per node", expected=str(len(graph.nodes)), got=str(len(places)))
    nodes: list[Node] = []
    for node, place in zip(graph.nodes, places, strict=True):
        if len(read_list(place, "a location")) != 3:
            refuse("a location is malformed", expected="[file, line, function]", got=shown(place))
        filename, function = read_text(place[0], "a file name"), read_text(place[2], "a function name")
        nodes.append(node._replace(where=SourceLocation(filename, read_integer(place[1], "a line"), function)))
    return Graph(inputs=graph.inputs, nodes=tuple(nodes), outputs=graph.outputs, types=graph.types, name=graph.name)
