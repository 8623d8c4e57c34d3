"""A lowered program as one JSON document: graph, plan, audit, cost, source and provenance, under a content hash.

    {"format": "torchlean-lowered", "version": 1, "hash": "<sha256 of the rest>", "name": …, "graph": {…} or null, …}

The same program lowered on the same machine gives the same document: there is no date in it. "graph" is the document
of `ir/serialize.py`, which `read_graph` reads back; it is null, with the reason beside it, for a graph that cannot be
written. The rest is for reading: nothing is planned from it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from typing import Any

from torchlean.backends.audit import evidence_record
from torchlean.backends.cost import cost
from torchlean.backends.executable import Executable
from torchlean.backends.grouping import collectives
from torchlean.backends.plan import all_steps
from torchlean.backends.target import this_machine
from torchlean.errors import SerializationError
from torchlean.ir.graph import Graph
from torchlean.ir.serialize import dumps, loads
from torchlean.ir.strict_json import canonical, read_json, read_text, refuse, shown

FORMAT = "torchlean-lowered"
VERSION = 1
_LIBRARIES = ("torchlean", "numpy", "ml_dtypes")


def document(name: str, graph: Graph, executable: Executable) -> dict[str, Any]:
    """The document of a program: plain data, whose canonical text `canonical_text` gives."""
    plan = executable.plan
    used = {id(step.capsule): step.capsule for step in all_steps(plan)}
    profile = plan.profile
    content: dict[str, Any] = {
        "name": name,
        "graph": None,
        "graph_refused": None,
        "plan": plan.as_json(),
        "audit": executable.audit.as_json(),
        "cost": cost(executable.accepted).as_json(),
        "source": executable.source,
        "provenance": {
            "libraries": {library: _version(library) for library in _LIBRARIES},
            "target": str(this_machine()),
            "profile": str(profile),
            "environment": dict((*profile.settings(), *(profile.switched_by or ()))),
            "evidence": evidence_record(profile, used.values()),
        },
    }
    exchanged = collectives(plan)
    if exchanged is not None and plan.partitioning is not None:
        content["collectives"] = exchanged.as_json()
        content["provenance"]["partitioning"] = plan.partitioning.as_json()
    try:
        content["graph"] = read_json(dumps(graph))
    except SerializationError as refused:
        content["graph_refused"] = str(refused)
    return {"format": FORMAT, "version": VERSION, "hash": content_hash(content), **content}


def canonical_text(made: dict[str, Any]) -> str:
    """The one text of a document."""
    return canonical(made)


def content_hash(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical text of everything but format, version and hash."""
    rest = {key: held for key, held in content.items() if key not in ("format", "version", "hash")}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def read_graph(text: str | bytes) -> Graph:
    """The graph in a document's text; SerializationError for another format, a hash that differs, or no graph."""
    made = read_json(text)
    if not isinstance(made, dict) or made.get("format") != FORMAT:
        refuse("not a lowered program", expected=f'an object whose "format" is "{FORMAT}"', got=shown(made))
    if made.get("version") != VERSION or isinstance(made.get("version"), bool):
        refuse(
            f"version {shown(made.get('version'))} of the format is unknown",
            expected=str(VERSION),
            got=shown(made.get("version")),
            fix="read it with the torchlean that wrote it",
        )
    claimed, found = read_text(made.get("hash"), "the hash"), content_hash(made)
    if found != claimed:
        refuse("the content does not have the hash it claims", expected=shown(claimed), got=shown(found))
    if made.get("graph") is None:
        refuse("the document holds no graph", got=shown(made.get("graph_refused")))
    return loads(canonical(made["graph"]))


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None
