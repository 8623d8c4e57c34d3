"""Compiled libraries on disk, by the hash of what made them: each is built once and its content is checked on loading.

An entry is a folder `<key>` that holds the library and the hash of its bytes; it appears by one rename, so another
process sees all of it or nothing. An entry that was truncated or altered is thrown away and built again. A folder
that others could write to is never read; where ours cannot be written, a temporary folder of this process is used,
which is said once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from torchlean.errors import BackendMissing, message

LIBRARY = "kernel.so"
DIGEST = "kernel.sha256"
VARIABLE = "TORCHLEAN_CACHE_DIR"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH

Build = Callable[[Path], None]  # writes the library to the path it is given


def key_of(*parts: object) -> str:
    """The hash of everything an entry depends on."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def folder(environ: Mapping[str, str]) -> Path:
    """Where entries are kept: TORCHLEAN_CACHE_DIR, else the user's cache folder."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named).expanduser() / "compiled"
    base = environ.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path("~").expanduser() / ".cache"
    return home / "torchlean" / "compiled"


class Cache:
    """Finds entries or builds them. It remembers the temporary folder it fell back to."""

    def __init__(self) -> None:
        self._temporary: Path | None = None

    def library(self, key: str, build: Build, environ: Mapping[str, str]) -> Path:
        """The checked library of a key, built if there is none."""
        home = folder(environ)
        fault = unusable(home)
        if fault is None:
            found = checked(home / key)
            if found is not None:
                return found
            try:
                return _made(home, key, build)
            except OSError as error:
                fault = str(error)
        elsewhere = self._elsewhere(home, fault)
        return checked(elsewhere / key) or _made(elsewhere, key, build)

    def _elsewhere(self, home: Path, fault: str) -> Path:
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="torchlean-"))  # of mode 0700
            weakref.finalize(self, shutil.rmtree, self._temporary, True)
            warnings.warn(
                f"compiled kernels are not kept: {home} cannot be used ({fault}); "
                f"name a folder of your own in {VARIABLE}",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._temporary


def unusable(home: Path) -> str | None:
    """Why a folder is not to be used, or None. It is made, readable by its owner only, if it is missing."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = home.stat()
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(seen.st_mode):
        return "it is no folder"
    if seen.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    if seen.st_mode & _OTHERS_MAY_WRITE:
        return "others may write to it"
    return None if os.access(home, os.W_OK | os.X_OK) else "it cannot be written"


def checked(entry: Path) -> Path | None:
    """The library of an entry if it is whole and only we could have written it."""
    library = entry / LIBRARY
    try:
        for path in (entry, library):
            seen = path.lstat()
            if stat.S_ISLNK(seen.st_mode) or seen.st_mode & _OTHERS_MAY_WRITE or seen.st_uid not in (os.geteuid(), 0):
                return None
        recorded = (entry / DIGEST).read_text()
        return library if digest(library) == recorded else None
    except (OSError, UnicodeDecodeError):
        return None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _made(home: Path, key: str, build: Build) -> Path:
    """Build an entry beside its place and move it there; one that somebody else has put there first is as good."""
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=home))  # of mode 0700
    try:
        library = making / LIBRARY
        build(library)
        if not library.is_file():
            raise BackendMissing(
                message("the C compiler made no library", expected=str(library), got="no such file", fix="check CC")
            )
        library.chmod(0o700)
        (making / DIGEST).write_text(digest(library))
        entry = home / key
        for _ in range(2):
            try:
                making.rename(entry)
            except OSError:
                found = checked(entry)
                if found is not None:
                    return found
                _remove(entry, home)  # it is there and it is not whole
            else:
                return entry / LIBRARY
        return _kept(making, home)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _remove(entry: Path, home: Path) -> None:
    """Take a bad entry away by one rename, so that nobody sees half of it."""
    aside = Path(tempfile.mkdtemp(prefix=".bad-", dir=home))
    try:
        entry.rename(aside / "entry")
    except OSError:
        if not entry.is_dir():
            entry.unlink(missing_ok=True)
    shutil.rmtree(aside, ignore_errors=True)


def _kept(making: Path, home: Path) -> Path:
    """The library under a name of its own: others keep replacing the entry."""
    own = Path(tempfile.mkdtemp(prefix=".own-", dir=home))
    shutil.copy2(making / LIBRARY, own / LIBRARY)
    return own / LIBRARY
