"""Where records are: those shipped in a package, and the user's own, which `torchlean evidence run` writes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from torchlean.evidence.closure import file_here

VARIABLE = "TORCHLEAN_EVIDENCE_DIR"


def users_folder() -> Path | None:
    """The user's data folder of this platform, or what TORCHLEAN_EVIDENCE_DIR names; None for a user without a home."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        held = os.environ.get("XDG_DATA_HOME", "")
        base = Path(held) if os.path.isabs(held) else home / ".local" / "share"
    return base / "torchlean" / "evidence"


def users_file(provider: str) -> Path | None:
    """The user's record file of a provider, there or not."""
    folder = users_folder()
    return None if folder is None else folder / f"{provider}.json"


def shipped_file(package: str, path: str) -> Path | None:
    """The record file a package carries, there or not; None when the package is not installed as files."""
    return file_here(f"{package}/{path}")


def read(file: Path | None) -> bytes | None:
    """The bytes of a file; None when there is none, or none this user may read."""
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError:
        return None


def write(file: Path, text: str) -> None:
    """Write a file whole or not at all; OSError when it cannot be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
