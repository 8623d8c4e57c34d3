"""Trees of arrays in safetensors files: exact bits, strict reading, nothing installed before everything is checked.

Uses safetensors' low-level API only: its NumPy front end writes wrong data for arrays that are not contiguous. Its
reader accepts duplicate names although the format forbids them, so the header is read strictly here first.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchlean import pytree
from torchlean.errors import SerializationError, message
from torchlean.train import files

FORMAT = "torchlean.checkpoint"
VERSION = "1"

_CODES = MappingProxyType(
    {
        np.dtype(name): code
        for name, code in (
            ("bool", "BOOL"),
            ("int8", "I8"),
            ("int16", "I16"),
            ("int32", "I32"),
            ("int64", "I64"),
            ("uint8", "U8"),
            ("uint16", "U16"),
            ("uint32", "U32"),
            ("uint64", "U64"),
            ("float16", "F16"),
            ("float32", "F32"),
            ("float64", "F64"),
            ("complex64", "C64"),
        )
    }
)
_CARRIERS = MappingProxyType({code: dtype.newbyteorder("<") for dtype, code in _CODES.items()})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a file holds: arrays by name, and text by name."""

    arrays: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, str]


# -- bytes -------------------------------------------------------------------------------------------------------------
def pack(arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> bytes:
    """The safetensors bytes of arrays of any layout, byte order and rank."""
    from safetensors import TensorSpec, serialize

    kept: dict[str, NDArray[Any]] = {}
    for name, held in arrays.items():
        array = np.asarray(held)
        code = _CODES.get(array.dtype.newbyteorder("="))
        if code is None:
            raise SerializationError(
                message(f"{name} cannot be saved", expected=", ".join(map(str, _CODES)), got=f"dtype {array.dtype}")
            )
        little = array.astype(_CARRIERS[code], order="C", copy=False)
        kept[name] = np.ascontiguousarray(little).reshape(array.shape)
    specs = {
        name: TensorSpec(
            dtype=array.dtype.name, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, array in kept.items()
    }
    return bytes(serialize(specs, metadata=dict(metadata)))


def unpack(content: bytes, source: str) -> Checkpoint:
    """Arrays (writable copies) and metadata of safetensors bytes; SerializationError naming `source` if faulty."""
    from safetensors import SafetensorError, deserialize

    header = _header(content, source)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _faulty(source, "its metadata is not a table of texts")
    unknown = sorted({_code(entry) for entry in header.values()} - set(_CARRIERS))
    if unknown:
        raise _faulty(source, f"it holds dtypes {', '.join(unknown)}", expected=", ".join(_CARRIERS))
    try:
        found = deserialize(content)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise _faulty(source, str(error)) from None
    arrays: dict[str, NDArray[Any]] = {}
    for name, view in found:
        dtype = _CARRIERS[view["dtype"]]
        if dtype.kind == "b" and not set(bytes(view["data"])) <= {0, 1}:
            raise _faulty(source, f"{name} is boolean but holds bytes other than 0 and 1")
        array = np.frombuffer(view["data"], dtype).reshape(view["shape"])
        arrays[name] = array.astype(dtype.newbyteorder("="))
    return Checkpoint(arrays, metadata)


def _code(entry: Any) -> str:
    return str(entry.get("dtype")) if isinstance(entry, dict) else type(entry).__name__


def _header(content: bytes, source: str) -> dict[str, Any]:
    """The JSON header, refused when a name occurs twice or data does not end where the file does."""
    if len(content) < 8:
        raise _faulty(source, f"it has {len(content)} bytes")
    (size,) = struct.unpack("<Q", content[:8])
    if size > len(content) - 8:
        raise _faulty(source, f"its header claims {size} bytes of {len(content) - 8}")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            names = [name for name, _ in pairs]
            raise _faulty(source, f"duplicate name {next(name for name in names if names.count(name) > 1)!r}")
        return table

    try:
        header = json.loads(content[8 : 8 + size].decode("utf-8"), object_pairs_hook=once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _faulty(source, f"its header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise _faulty(source, "its header is not a JSON object")
    return header


def _faulty(source: str, what: str, expected: str = "a safetensors file") -> SerializationError:
    return SerializationError(message(f"{source} is not a usable checkpoint", expected=expected, got=what))


# -- trees -------------------------------------------------------------------------------------------------------------
def named(tree: Any, name: str) -> dict[str, NDArray[Any]]:
    """The leaves of a tree as arrays, by the expression that reaches them: `params[0]['weight']`."""
    leaves, _ = pytree.flatten_with_path(tree, name)
    return {path: np.asarray(leaf) for path, leaf in leaves}


def save(path: Path | str, trees: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write named trees atomically; `metadata` should say which architecture they belong to."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, tree in trees.items():
        arrays.update(named(tree, name))
    content = pack(arrays, {**metadata, "format": FORMAT, "version": VERSION})
    files.write_atomically(Path(path), content)


def read(path: Path | str) -> Checkpoint:
    """Read and check a checkpoint file of this format and version."""
    source = repr(str(path))
    checkpoint = unpack(files.read(Path(path)), source)
    for key, wanted in (("format", FORMAT), ("version", VERSION)):
        found = checkpoint.metadata.get(key)
        if found != wanted:
            raise _faulty(source, f"{key} {found!r}", expected=f"{key} {wanted!r}")
    return checkpoint


def restore(path: Path | str, like: Mapping[str, Any], architecture: str) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Read a file into trees of the structure, shapes and dtypes of `like`; also its metadata.

    Raises one SerializationError listing every missing, extra and mis-shaped array; nothing is changed before that.
    """
    checkpoint = read(path)
    expected: dict[str, NDArray[Any]] = {}
    for name, tree in like.items():
        expected.update(named(tree, name))
    faults = _faults(expected, checkpoint.arrays)
    saved = checkpoint.metadata.get("architecture")
    if saved != architecture:
        faults.insert(0, f"it was saved by the model {saved}")
    if faults:
        raise SerializationError(
            message(
                f"{str(path)!r} does not fit this model: {len(faults)} differences",
                expected=architecture,
                got="; ".join(faults),
            )
        )
    trees: dict[str, Any] = {}
    for name, tree in like.items():
        leaves, treedef = pytree.flatten_with_path(tree, name)
        trees[name] = pytree.unflatten(treedef, [checkpoint.arrays[path] for path, _ in leaves])
    return trees, checkpoint.metadata


def _faults(expected: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]) -> list[str]:
    faults = [f"missing {name} {_type(array)}" for name, array in expected.items() if name not in found]
    faults += [f"extra {name} {_type(array)}" for name, array in sorted(found.items()) if name not in expected]
    faults += [
        f"{name} is {_type(found[name])}, not {_type(array)}"
        for name, array in expected.items()
        if name in found and _type(found[name]) != _type(array)
    ]
    return faults


def _type(array: NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"
