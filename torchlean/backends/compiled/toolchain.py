"""The machine's C compiler: where it is, which version, and the flags that keep every rounding of the definition.

`-ffp-contract=off` keeps products rounded before they are added; nothing of `-ffast-math` is used. `-fno-math-errno`
and `-fno-trapping-math` give up `errno` and the order of floating-point flags, which nobody here reads; no value
depends on them. So the bits are those of IEEE arithmetic, whatever vector width the machine has.

Programs are compiled when they are first called, so compiling must be quick: GCC is given the passes that make these
loops fast and no others, which takes a third of the time of `-O3` for code that is no slower. Every program is compiled
with the same flags, so that evidence from small programs speaks for large ones.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from torchlean.errors import BackendMissing, message

CANDIDATES = ("cc", "gcc", "clang")
FLAGS = (
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fPIC",
    "-shared",
    "-w",
)
GCC = (
    "-O1",
    "-ftree-loop-vectorize",
    "-fvect-cost-model=dynamic",
    "-fpeel-loops",
    "-funswitch-loops",
    "-fsplit-loops",
    "-floop-interchange",
    "-fversion-loops-for-strides",
    "-ftree-pre",
    "-fgcse",
    "-fexpensive-optimizations",
    "-fschedule-insns2",
    "-fno-asynchronous-unwind-tables",
)
OTHERS = ("-O3",)  # of Clang, which is also what ziglang brings
PLAIN = ("-fno-tree-vectorize", "-fno-tree-loop-vectorize", "-fno-tree-slp-vectorize")
OTHERS_PLAIN = ("-fno-vectorize", "-fno-slp-vectorize")
LIBRARIES = ("-lm",)
BARE = ("-nostdlib",)  # on Linux the process has what generated code calls; libraries that need no start-up link faster
CACHES = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
TIMEOUT_S = 600
_FIX = "install one (gcc or clang), name one in CC, or install torchlean[compiled], which brings one as a wheel"

Command = tuple[str, ...]


class Family(Enum):
    """Whose compiler one is: what it is told besides `FLAGS`."""

    GCC = "GCC"
    CLANG = "Clang"
    ZIG = "Zig"
    OTHER = "another"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler with its flags. `lanes`: bytes of a vector register; `registers`: how many there are.

    `machine` names the instruction sets, since a library made for them runs on no other machine. `plain` keeps loops
    from being vectorised; `caches` are variables that name folders the compiler writes to; these are put beside the
    source, which is removed with them.
    """

    command: Command
    version: str
    flags: tuple[str, ...]
    machine: str
    lanes: int
    registers: int
    libraries: tuple[str, ...] = LIBRARIES
    plain: tuple[str, ...] = PLAIN
    caches: tuple[str, ...] = ()

    def identity(self) -> tuple[object, ...]:
        """What decides the machine code of a source."""
        return (self.version, self.flags, self.machine, self.libraries)

    def compile(self, source: str, target: str, *extra: str) -> None:
        """Compile one C file to a shared library; BackendMissing with the compiler's own words when it fails.

        Compilers that break down mostly do so when they vectorise; they are asked once more not to: no bit changes.
        """
        rest = (*extra, "-o", target, source, *self.libraries)
        folders = dict.fromkeys(self.caches, str(Path(source).with_suffix(".cache")))
        said = _run((*self.command, *self.flags, *rest), folders)
        if said is not None and _run((*self.command, *self.flags, *self.plain, *rest), folders) is not None:
            raise BackendMissing(
                message(
                    "the C compiler did not compile what was generated",
                    expected="a shared library",
                    got=said,
                    fix=f"check `{shlex.join(self.command)}`, name another compiler in CC, or use a profile without "
                    "the provider compiled",
                )
            )


def find(environ: Mapping[str, str]) -> Command | str:
    """The compiler's command, or why there is none: CC, then cc, gcc, clang, then the ziglang package."""
    path = environ.get("PATH", "")
    named = environ.get("CC", "")
    if named:
        words = tuple(shlex.split(named))
        if words and shutil.which(words[0], path=path) is not None:
            return words
        return f"CC is {named!r}, which is no program on PATH; {_FIX}"
    for name in CANDIDATES:
        found = shutil.which(name, path=path)
        if found is not None:
            return (found,)
    if find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    return f"no C compiler was found (CC is not set; looked for {', '.join(CANDIDATES)} and ziglang); {_FIX}"


def toolchain(command: Command, features: frozenset[str]) -> Toolchain:
    """The toolchain of a command on this machine; `features` are its instruction sets by NumPy's names."""
    machine = platform.machine()
    version, family = version_of(command)
    told = [word for word in command[1:] if word.startswith("-") and word != "-m"]  # in CC: it makes other code
    is_bare = family is not Family.OTHER and sys.platform == "linux"
    flags = (
        *FLAGS,
        *(GCC if family is Family.GCC else OTHERS),
        *(BARE if is_bare else ()),
        *_native(machine, features),
    )
    lanes, registers = _vectors(machine, features)
    return Toolchain(
        command=command,
        version=" ".join([f"{version} with", *told]) if told else version,
        flags=flags,
        machine=f"{platform.system()} {machine}: {' '.join(sorted(features))}",
        lanes=lanes,
        registers=registers,
        libraries=_libraries(family) if is_bare else LIBRARIES,
        plain=PLAIN if family is Family.GCC else OTHERS_PLAIN,
        caches=CACHES if is_bare and family is Family.ZIG else (),
    )


def _libraries(family: Family) -> tuple[str, ...]:
    """What a bare library is linked with. Zig would first build a libm and its run-time library, for ten seconds."""
    if family is Family.ZIG:
        return ()
    return (*LIBRARIES, "-lgcc") if family is Family.GCC else LIBRARIES


def version_of(command: Command) -> tuple[str, Family]:
    """The first line the compiler says about itself, and whose it is; GCC gives the name it was called by, which is
    left out, and Zig the version of the Clang in it, which is not all of it.
    """
    said = _said(command, "--version")
    line = (said.splitlines() or [""])[0].strip()
    if "clang" in said.lower():
        if command[-1] == "cc" and len(command) > 1 and "zig" in Path(command[-2]).name:
            return f"zig {_said(command[:-1], 'version').strip()}, {line}", Family.ZIG
        return line, Family.CLANG
    is_gcc = "Free Software Foundation" in said
    return (f"GCC {line.partition(' ')[2]}", Family.GCC) if is_gcc else (line, Family.OTHER)


def _said(command: Command, question: str) -> str:
    try:
        made = subprocess.run([*command, question], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise _broken(command, str(fault)) from None
    if made.returncode != 0:
        raise _broken(command, (made.stderr or made.stdout).strip()[:200] or f"exit status {made.returncode}")
    return made.stdout


def _broken(command: Command, said: str) -> BackendMissing:
    return BackendMissing(
        message(
            f"the C compiler `{shlex.join(command)}` does not run",
            expected="its version",
            got=said,
            fix=_FIX,
        )
    )


def _run(arguments: tuple[str, ...], folders: Mapping[str, str]) -> str | None:
    """What a failing command said, or None. It runs in English and without the caller's input."""
    environ = {**os.environ, "LC_ALL": "C", **folders}
    try:
        made = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return str(fault)
    if made.returncode == 0:
        return None
    return (made.stderr or made.stdout).strip()[:2000] or f"exit status {made.returncode}"


def _native(machine: str, features: frozenset[str]) -> tuple[str, ...]:
    if machine in ("x86_64", "AMD64", "i686"):
        wide = ("-mprefer-vector-width=512",) if "AVX512F" in features else ()
        return ("-march=native", *wide)
    return ("-mcpu=native",) if machine in ("aarch64", "arm64") else ()


def _vectors(machine: str, features: frozenset[str]) -> tuple[int, int]:
    if "AVX512F" in features:
        return 64, 32
    if "AVX2" in features:
        return 32, 16
    return (16, 32) if machine in ("aarch64", "arm64") else (16, 16)


def features_here() -> frozenset[str]:
    """The instruction sets NumPy found on this machine."""
    core = sys.modules.get("numpy._core._multiarray_umath")
    found: Mapping[str, bool] = getattr(core, "__cpu_features__", {})
    return frozenset([name for name, here in found.items() if here])
