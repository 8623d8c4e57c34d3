"""Write a file whole or not at all: a temporary sibling, flushed to disk, then one rename."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

from torchlean.errors import DataError, message


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`. A reader, or a crash at any instant, sees the old file or the new one.

    Temporary siblings that dead processes left are removed. Raises DataError, naming the path and the bytes needed.
    """
    stem = f".torchlean-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}"
    _clean(path.parent, stem)
    temporary = path.parent / f"{stem}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise DataError(
            message(
                f"cannot write {str(path)!r} ({len(content)} bytes)",
                got=getattr(error, "strerror", None) or error,
                fix="choose a writable place with enough space; an older file there is untouched",
            )
        ) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink()


def read(path: Path) -> bytes:
    """The content of a file; DataError when it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(message(f"cannot read {str(path)!r}", got=getattr(error, "strerror", None) or error)) from error


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can flush a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clean(folder: Path, stem: str) -> None:
    """Remove temporary files of this target whose process is gone."""
    with contextlib.suppress(OSError, ValueError):
        for left in folder.glob(f"{stem}-*.tmp"):
            owner = left.name[len(stem) + 1 :].split("-")[0]
            if owner.isdigit() and not _alive(int(owner)):
                with contextlib.suppress(OSError):
                    left.unlink()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
