"""What a result is the result of: one record, written as canonical JSON beside the result.

Gathers facts; decides nothing. Facts that cannot be known here (no git, no such library) are recorded as null.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torchlean
from torchlean.train.files import write_atomically

FORMAT = "torchlean.provenance/1"
_LIBRARIES = ("numpy", "optree", "safetensors")


def environment() -> dict[str, Any]:
    """Code revision, library versions, machine and date (UTC)."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "code": {"package": torchlean.__version__, **_revision()},
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _revision() -> dict[str, Any]:
    """The commit of the checkout this package runs from, and whether it was edited; nulls when it is installed."""
    root = Path(__file__).resolve().parents[2]
    commit = _git(root, "rev-parse", "HEAD") if (root / ".git").exists() else None
    edited = _git(root, "status", "--porcelain", "--", "torchlean") if commit else None
    return {"commit": commit, "edited": None if edited is None else bool(edited)}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def canonical_json(record: Any) -> str:
    """`record` as JSON text: keys sorted, two spaces, one final newline; NaN and infinities become strings."""
    return json.dumps(_plain(record), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, Sequence):
        return [_plain(held) for held in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return _plain(value.tolist())
    return str(value)


def write(record: Mapping[str, Any], path: Path | str) -> Path:
    """Write the record atomically; DataError when the place cannot be written."""
    target = Path(path)
    write_atomically(target, canonical_json(record).encode())
    return target
