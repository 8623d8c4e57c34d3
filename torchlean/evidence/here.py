"""This process: the versions of the libraries a provider calls, and the machine's instruction sets. Imports neither."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NOT_INSTALLED = "not installed"


def versions(libraries: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(library, version) for each; with Python's minor version, and the C library's where it has a name."""
    made = {name: version_of(name) for name in libraries}
    made["python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
    library = _c_library()
    if library is not None:
        made["c library"] = library
    return tuple(sorted(made.items()))


def version_of(library: str) -> str:
    """The version of a library, read from the module when it is imported, else from its metadata beside it."""
    known = getattr(sys.modules.get(library), "__version__", None)
    if isinstance(known, str):
        return known
    try:
        spec = find_spec(library)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return NOT_INSTALLED
    if spec.origin is not None:
        try:
            beside = os.listdir(Path(spec.origin).parent.parent)
        except OSError:
            beside = []
        found = [name for name in beside if name.startswith(f"{library}-") and name.endswith(".dist-info")]
        if len(found) == 1:
            return found[0].removesuffix(".dist-info").partition("-")[2]
    import importlib.metadata  # slow to import, and rarely reached

    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _c_library() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def machine() -> str:
    """The architecture, then the instruction sets NumPy found and may use; `x86_64: AVX2 FMA3`."""
    core: Any = sys.modules.get("numpy._core._multiarray_umath")
    features: dict[str, bool] = getattr(core, "__cpu_features__", {})
    wanted: list[str] = [*getattr(core, "__cpu_baseline__", []), *getattr(core, "__cpu_dispatch__", [])]
    found = [name for name in wanted if features.get(name)]
    return f"{platform.machine()}: {' '.join(found)}" if found else platform.machine()


def differences(recorded: Iterable[tuple[str, str]], here: Iterable[tuple[str, str]]) -> list[str]:
    """`numpy 2.3.1 here, 2.4.0 when it was tried`, for each library that differs."""
    mine, theirs = dict(here), dict(recorded)
    return [
        f"{name} {mine.get(name, NOT_INSTALLED)} here, {theirs.get(name, NOT_INSTALLED)} when it was tried"
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    ]
