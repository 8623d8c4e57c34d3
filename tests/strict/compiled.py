"""The strict functions as a shared library: emitted, compiled by the machine's C compiler, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from torchlean.ir.strict.c_code import PRELUDE
from torchlean.ir.strict.functions import FUNCTIONS, emit_c

Array = np.ndarray[Any, Any]
C_TYPE = MappingProxyType({"f32": "float", "f64": "double"})
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) is installed")
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Werror")


def loop(name: str, dtype: str, suffix: str = "", result: str | None = None) -> str:
    """A function over arrays, which the compiler may vectorise."""
    type = C_TYPE[dtype]
    letters = "xy"[: FUNCTIONS[name].inputs]
    taken = ", ".join(f"const {type}* {letter}" for letter in letters)
    called = ", ".join(f"{letter}[i]" for letter in letters)
    return (
        f"void {name}_{dtype}{suffix}(long n, {taken}, {result or type}* restrict out) {{\n"
        f"    for (long i = 0; i < n; i++) out[i] = tl_{name}_{dtype}{suffix}({called});\n}}\n"
    )


def source(names: tuple[str, ...]) -> str:
    parts = [PRELUDE]
    for name in names:
        for dtype in C_TYPE:
            text = emit_c(name, dtype)
            parts += [text, loop(name, dtype)]
            if "_is_rare(" in text:
                parts += [loop(name, dtype, "_common"), loop(name, dtype, "_is_rare", "int")]
    return "\n".join(parts)


def library(folder: Path, names: tuple[str, ...], *flags: str) -> ctypes.CDLL:
    assert COMPILER is not None
    written, made = folder / "strict.c", folder / "strict.so"
    written.write_text(source(names))
    command = [COMPILER, *FLAGS, *flags, "-shared", "-fPIC", str(written), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return ctypes.CDLL(str(made))


def call(held: ctypes.CDLL, name: str, *xs: Array, suffix: str = "") -> Array:
    """The C function of whole arrays."""
    dtype = "f32" if xs[0].dtype.itemsize == 4 else "f64"
    kept = [np.ascontiguousarray(x) for x in xs]
    out = np.empty(kept[0].size, np.intc if suffix == "_is_rare" else kept[0].dtype)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*kept, out)]
    getattr(held, f"{name}_{dtype}{suffix}")(ctypes.c_long(out.size), *pointers)
    return out
