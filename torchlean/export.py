"""Lowered XLA programs as files: StableHLO under a header that says what it is, and back.

    torchlean-export\\n
    {"version": 1, "graph": "<hash>", "arguments": …, "results": …, …}\\n
    the artefact of jax.export

The header has the types of arguments and results as trees of tuples, lists and dicts, the hash of the graph that was
planned, and that of the artefact. Reading needs jax, and neither the function nor the graph.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import torchlean
from torchlean import pytree
from torchlean.backends.plan import all_steps
from torchlean.backends.vocabulary import label
from torchlean.backends.xla.exporting import PLATFORM, artefact, restored, version
from torchlean.errors import ConfigError, StructureError, TypeRuleError, message
from torchlean.ir.builder import answerer, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.serialize import content_hash
from torchlean.ir.strict_json import (
    canonical,
    read_fields,
    read_integers,
    read_json,
    read_list,
    read_text,
    refuse,
    shown,
)
from torchlean.ir.types import TensorType
from torchlean.transforms.lower import Lowered

MAGIC = b"torchlean-export\n"
VERSION = 1
_FIELDS = ("arguments", "artefact", "graph", "jax", "name", "platform", "results", "torchlean", "version")
_MOST_NAMED = 6
_FIX = "use tuples, lists, and dicts with text keys"


class Exported:
    """A program read from a file: call it on trees of `in_types`.

    `graph_hash` is that of the planned graph; `versions` those of torchlean and jax that wrote it.
    """

    def __init__(self, header: dict[str, Any], payload: bytes) -> None:
        self.name: str = read_text(header["name"], "the name")
        self.graph_hash: str = read_text(header["graph"], "the graph's hash")
        self.versions = {key: read_text(header[key], f"the version of {key}") for key in ("torchlean", "jax")}
        self.in_types = _decoded(header["arguments"])
        self.out_types = _decoded(header["results"])
        self._types, self._tree = pytree.flatten(self.in_types)
        self._results, self._out = pytree.flatten(self.out_types)
        self._run = restored(payload, self._types, self._results)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it; StructureError or TypeRuleError names an argument that differs."""
        leaves, tree = pytree.flatten((arguments, keywords))
        if tree != self._tree:
            fault = pytree.differs(self.in_types, (arguments, keywords), "arguments")
            raise StructureError(
                message(f"{self.name} was exported for other arguments", expected=str(self._tree), got=str(fault))
            )
        hosts = [self._host(at, leaf, arguments, keywords) for at, leaf in enumerate(leaves)]
        session: Any = answerer()
        size = sum([held.nbytes for held in self._results])
        return pytree.unflatten(self._out, session.adopt(self._run(*hosts), self._results, size))

    def _host(self, at: int, leaf: Any, arguments: Any, keywords: Any) -> Any:
        try:
            found: Any = type_of(leaf)
        except TypeRuleError:
            found = type(leaf).__name__
        if found != self._types[at]:
            paths = pytree.paths(arguments, "args") + pytree.paths(keywords, "kwargs")
            raise TypeRuleError(
                message(
                    f"{self.name} was exported for {self._types[at]} at {paths[at]} and got {found}",
                    expected=self._types[at],
                    got=found,
                    fix="convert the argument",
                )
            )
        held = leaf.buffer.array if hasattr(leaf, "buffer") else leaf
        return np.asarray(held, dtype=self._types[at].dtype.carrier)

    def __repr__(self) -> str:
        return f"<Exported {self.name}: {len(self._types)} arguments, {len(self._results)} results>"


def dumps(lowered: Lowered) -> bytes:
    """The bytes of a lowered program all of whose steps are planned on XLA."""
    plan = lowered.plan
    if plan.partitioning is not None:
        raise ConfigError(
            message(
                f"{plan.graph.name} is a program for the mesh {plan.partitioning.mesh}, which is not exported",
                expected="a program for one device",
                got="one with shardings",
                fix="lower it without a mesh",
            )
        )
    elsewhere = [step for step in all_steps(plan) if step.capsule.provider != "xla"]
    if elsewhere:
        named = [f"{label(step.node.op)} on {step.capsule.name}" for step in elsewhere[:_MOST_NAMED]]
        raise ConfigError(
            message(
                f"{plan.graph.name} has steps that are not on XLA, and so no StableHLO",
                expected="every step planned on xla",
                got=", ".join(named) + (" …" if len(elsewhere) > _MOST_NAMED else ""),
                fix="lower it with a profile whose first module is torchlean.backends.xla.MODULE",
            )
        )
    payload = artefact(plan.graph)
    header = {
        "version": VERSION,
        "name": plan.graph.name,
        "graph": content_hash(plan.graph),
        "artefact": hashlib.sha256(payload).hexdigest(),
        "platform": PLATFORM,
        "torchlean": torchlean.__version__,
        "jax": version(),
        "arguments": _encoded(lowered.in_types, "the arguments"),
        "results": _encoded(lowered.out_types, "the results"),
    }
    return MAGIC + canonical(header).encode() + b"\n" + payload


def save(lowered: Lowered, path: str | os.PathLike[str]) -> None:
    """Write `dumps(lowered)` to a file."""
    Path(path).write_bytes(dumps(lowered))


def load(source: bytes | str | os.PathLike[str]) -> Exported:
    """The program in these bytes, or in the file of this name; SerializationError for anything else."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    if not data.startswith(MAGIC):
        refuse("not an exported program", expected=f"bytes that begin with {MAGIC!r}", got=shown(data[: len(MAGIC)]))
    head, newline, payload = data[len(MAGIC) :].partition(b"\n")
    if not newline:
        refuse("the export ends inside its header", expected="a line of JSON", got=f"{len(head)} bytes")
    read = read_json(head)
    found: Any = read.get("version") if isinstance(read, dict) else None
    if found.__class__ is not int or found != VERSION:
        refuse(
            f"version {shown(found)} of the export format is unknown",
            expected=str(VERSION),
            got=shown(found),
            fix="read it with the torchlean that wrote it, or export it again",
        )
    header = dict(read_fields(read, _FIELDS, "the header"))
    if header["platform"] != PLATFORM:
        refuse("the export is for another platform", expected=PLATFORM, got=shown(header["platform"]))
    held = hashlib.sha256(payload).hexdigest()
    if held != header["artefact"]:
        refuse("the artefact does not have the hash its header claims", expected=shown(header["artefact"]), got=held)
    return Exported(header, payload)


# -- trees of types ----------------------------------------------------------------------------------------------------
def _encoded(tree: Any, what: str) -> Any:
    if tree is None:
        return None
    if isinstance(tree, TensorType):
        return {"type": [tree.dtype.short, list(tree.shape)]}
    if tree.__class__ in (tuple, list):
        return {tree.__class__.__name__: [_encoded(part, what) for part in tree]}
    if tree.__class__ is dict and all([isinstance(key, str) for key in tree]):
        return {"dict": [[key, _encoded(part, what)] for key, part in tree.items()]}
    raise ConfigError(
        message(
            f"{what} hold a {type(tree).__name__}, which an export cannot describe",
            expected="arrays in tuples, lists and dicts with text keys",
            got=type(tree).__name__,
            fix=_FIX,
        )
    )


def _decoded(data: Any) -> Any:
    if data is None:
        return None
    if isinstance(data, dict) and len(data) == 1:
        ((kind, held),) = data.items()
        if kind in ("tuple", "list"):
            parts = [_decoded(part) for part in read_list(held, f"a {kind}")]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "dict":
            return {read_text(key, "a key"): _decoded(part) for key, part in map(_pair, read_list(held, "a dict"))}
        if kind == "type":
            return _type(*_pair(held))
    _not_a_tree(data)


def _pair(data: Any) -> tuple[Any, Any]:
    held = read_list(data, "a pair")
    if len(held) != 2:
        _not_a_tree(data)
    return held[0], held[1]


def _type(short: Any, shape: Any) -> TensorType:
    found = next((dtype for dtype in DType if dtype.short == short), None)
    sizes = read_integers(shape, "a shape")
    if found is None or min(sizes, default=0) < 0:
        _not_a_tree([short, shape])
    return TensorType(sizes, found)


def _not_a_tree(data: Any) -> NoReturn:
    refuse("the header's types cannot be read", expected='{"type"|"tuple"|"list"|"dict": […]}', got=shown(data))
