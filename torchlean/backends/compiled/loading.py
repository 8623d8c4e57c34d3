"""From C source to a Python callable: compiled once, loaded, and wrapped by the stub, or by ctypes without Python.h.

`Builds` is what one process knows: which compiler there is, and what it has loaded. A library is loaded once and stays.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from torchlean.backends.compiled import toolchain as tools
from torchlean.backends.compiled.cache import Cache, key_of
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.errors import BackendMissing, ConfigError, message
from torchlean.ir.types import TensorType
from torchlean.record import record

ENTRY = "torchlean_run"
MOST_THREADS = 256
_STUB = Path(__file__).with_name("stub.c")
_TEAM = Path(__file__).with_name("team.c")
THREADS = "TORCHLEAN_NUM_THREADS"
_PYTHON = ("-Wl,-undefined,dynamic_lookup",) if os.uname().sysname == "Darwin" else ()


@record(eq=False)
class Signature:
    """What the callable takes and gives. `releases`: other threads may run meanwhile; `packs`: a tuple always;
    `shared`: threads share parts of it out.
    """

    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    arena: int
    releases: bool
    packs: bool
    shared: bool

    def packing(self, packs: bool) -> Signature:
        return Signature(self.operands, self.results, self.arena, self.releases, packs, self.shared)


def threads(environ: Mapping[str, str]) -> int:
    """How many threads share out large parts: TORCHLEAN_NUM_THREADS, else the cores this process may use."""
    named = environ.get(THREADS, "")
    if not named:
        allowed = getattr(os, "sched_getaffinity", None)
        return len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    if not named.isascii() or not named.isdigit() or not 1 <= int(named) <= MOST_THREADS:
        raise ConfigError(
            message(
                f"{THREADS} is no number of threads",
                expected=f"a whole number from 1 to {MOST_THREADS}",
                got=named,
                fix=f"correct it, or unset {THREADS} to use the cores of this process",
            )
        )
    return int(named)


class Builds:
    """The compiler of this process and the libraries it loaded. Safe for threads."""

    def __init__(self, environ: Mapping[str, str] = os.environ, chosen: Toolchain | None = None) -> None:
        self._environ = environ
        self._cache = Cache()
        self._lock = RLock()
        self._chosen = chosen
        self._looked: tuple[tuple[str, str], tools.Command | str] | None = None
        self._toolchains: dict[tools.Command, Toolchain] = {}
        self._loaded: dict[str, ctypes.CDLL] = {}
        self._stub: tuple[Any, Any] | None = None
        self._plain = False
        self._team: Any = None

    # -- the compiler ----------------------------------------------------------------------------------------------
    def missing(self) -> str | None:
        """Why nothing can be compiled here, or None. Looked up again when CC or PATH has changed."""
        if self._chosen is not None:
            return None
        now = (self._environ.get("CC", ""), self._environ.get("PATH", ""))
        if self._looked is None or self._looked[0] != now:
            self._looked = (now, tools.find(self._environ))
        found = self._looked[1]
        return found if isinstance(found, str) else None

    def toolchain(self) -> Toolchain:
        """The compiler; BackendMissing with the reason and the fix when there is none."""
        if self._chosen is not None:
            return self._chosen
        reason = self.missing()
        if reason is not None:
            raise BackendMissing(reason)
        command = tools.find(self._environ) if self._looked is None else self._looked[1]
        assert not isinstance(command, str)
        with self._lock:
            if command not in self._toolchains:
                self._toolchains[command] = tools.toolchain(command, tools.features_here())
            return self._toolchains[command]

    # -- libraries -------------------------------------------------------------------------------------------------
    def library(self, source: str) -> ctypes.CDLL:
        """The loaded library of a source that knows nothing of Python."""
        return self._library(source, (), ctypes.CDLL)

    def _library(self, source: str, extra: tuple[str, ...], load: Callable[[str], Any]) -> Any:
        chain = self.toolchain()
        key = key_of(source, extra, *chain.identity())
        with self._lock:
            known = self._loaded.get(key)
        if known is not None:
            return known
        path = self._cache.library(key, lambda target: _compile(chain, source, target, extra), self._environ)
        try:
            made = load(str(path))
        except OSError as fault:
            raise BackendMissing(
                message(
                    "a compiled library cannot be loaded",
                    expected="a library for this machine",
                    got=str(fault),
                    fix="check that CC makes programs for this machine, not for another one",
                )
            ) from None
        with self._lock:
            return self._loaded.setdefault(key, made)

    # -- callables -------------------------------------------------------------------------------------------------
    def kernel(self, source: str, signature: Signature) -> Callable[..., Any]:
        """The generated function of a source as a callable of arrays."""
        library = self.library(source)
        stub = self.stub()
        team = self.team().torchlean_team(threads(self._environ)) if signature.shared else None
        if stub is None:
            return PlainKernel(library, signature, team)
        make, type = stub
        address = ctypes.cast(getattr(library, ENTRY), ctypes.c_void_p).value
        return make(
            (
                type,
                address,
                tuple([each.nbytes for each in signature.operands]),
                tuple([each.dtype.carrier for each in signature.results]),
                tuple([each.shape for each in signature.results]),
                signature.arena,
                signature.releases,
                signature.packs,
                team or 0,
                library,
            )
        )

    def team(self) -> Any:
        """The library of the threads, which are started when a program first shares out a part."""
        with self._lock:
            if self._team is None:
                library = self._library(_TEAM.read_text(), ("-pthread",), ctypes.CDLL)
                library.torchlean_team.restype = ctypes.c_void_p
                self._team = library
            return self._team

    def stub(self) -> tuple[Any, Any] | None:
        """The stub's maker and type; None where the headers of Python or NumPy are missing or do not compile."""
        with self._lock:
            if self._stub is None and not self._plain:
                try:
                    self._stub = self._load_stub()
                except BackendMissing:
                    self._plain = True
            return self._stub

    def _load_stub(self) -> tuple[Any, Any]:
        python, numpy = sysconfig.get_paths()["include"], np.get_include()
        if not (Path(python) / "Python.h").is_file() or not (Path(numpy) / "numpy" / "arrayobject.h").is_file():
            raise BackendMissing("the headers of Python and NumPy are not installed")
        versions = f"/* Python {sysconfig.get_python_version()}, NumPy {np.__version__}, {python} */\n"
        extra = (f"-I{python}", f"-I{numpy}", *_PYTHON)
        library = self._library(versions + _STUB.read_text(), extra, ctypes.PyDLL)
        type_maker, maker = library.torchlean_kernel_type, library.torchlean_kernel
        type_maker.restype = maker.restype = ctypes.py_object
        maker.argtypes = [ctypes.py_object]
        return maker, type_maker()


def _compile(chain: Toolchain, source: str, target: Path, extra: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="torchlean-") as folder:
        text = Path(folder) / "kernel.c"
        text.write_text(source)
        chain.compile(str(text), str(target), *extra)


class PlainKernel:
    """The callable by way of ctypes, a few microseconds dearer a call."""

    __slots__ = ("_arena", "_library", "_run", "_signature", "_team")

    def __init__(self, library: ctypes.CDLL, signature: Signature, team: int | None) -> None:
        self._library = library
        self._team = ctypes.c_void_p(team)
        self._signature = signature
        self._run = getattr(library, ENTRY)
        self._run.restype = None
        self._arena = max(64, signature.arena)

    def __call__(self, *given: Any) -> Any:
        signature = self._signature
        if len(given) != len(signature.operands):
            raise TypeError(f"a compiled kernel of {len(signature.operands)} operands was given {len(given)}")
        operands: list[np.ndarray[Any, Any]] = []
        for position, (array, type) in enumerate(zip(given, signature.operands, strict=True)):
            made = np.require(array, type.dtype.carrier, ["C", "A"])
            if made.nbytes != type.nbytes:
                raise ValueError(
                    f"operand {position} of a compiled kernel has {made.nbytes} bytes, "
                    f"and it was made for {type.nbytes}"
                )
            operands.append(made)
        results = [np.empty(type.shape, type.dtype.carrier) for type in signature.results]
        arena = np.empty(self._arena + 64, np.uint8)
        start = arena.ctypes.data + (-arena.ctypes.data) % 64
        self._run(_pointers(operands), _pointers(results), ctypes.c_void_p(start), self._team)
        return results[0] if len(results) == 1 and not signature.packs else tuple(results)


def _pointers(arrays: list[np.ndarray[Any, Any]]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*[array.ctypes.data for array in arrays])
