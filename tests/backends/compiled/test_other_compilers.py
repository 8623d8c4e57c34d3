"""Whichever compilers this machine has give the same bits: GCC, Clang, and the one that the ziglang package brings.

A modest set of programs for each; `CC=clang pytest tests/backends/compiled` tries everything with one of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.compiled.test_bits import kernel_agrees
from backends.compiled.test_toolchain import a_program, program
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops, optim, pytree
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds
from torchlean.backends.compiled.toolchain import CACHES, Family, toolchain, version_of
from torchlean.ir.dtypes import DType
from torchlean.train.examples import quickstart_data, quickstart_model

ZIG = f"{sys.executable} -m ziglang cc"
COMMANDS = {"gcc": "gcc", "clang": "clang", "zig": ZIG}


def builds(name: str, folder: Path, **more: str) -> Builds:
    """What compiles with one of them; skips where it is not installed."""
    there = find_spec("ziglang") is not None if name == "zig" else shutil.which(name) is not None
    if not there:
        pytest.skip(f"{'the package ziglang' if name == 'zig' else name} is not installed here")
    path = "/usr/bin:/bin:/usr/local/bin"
    return Builds({"CC": COMMANDS[name], "PATH": path, "TORCHLEAN_CACHE_DIR": str(folder), **more})


@pytest.fixture(params=COMMANDS)
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return COMPILED.with_modules(module(builds(request.param, tmp_path)))


def agrees(profile: Any, f: Any, *arrays: Any) -> None:
    graph = traced(f, *arrays)
    with np.errstate(all="ignore"):
        for got, want in zip(run(graph, arrays, profile), run(graph, arrays, REFERENCE), strict=True):
            assert same_bits(got, want)


def gradient(f: Any) -> Any:
    """The results and what their squares send back."""
    return lambda *given: (f(*given), *tl.vjp(f, *given)[1](f(*given)))


def test_functions_folds_and_products(profile: Any) -> None:
    agrees(profile, a_program, normal(37, 70, seed=1), normal(53, 70, seed=2), normal(53, seed=3))
    agrees(profile, lambda a, b: a @ b, normal(70, 300, seed=4), normal(300, 90, seed=5))


def test_convolutions_and_attention(profile: Any) -> None:
    x, w = normal(2, 3, 12, 11, seed=1), normal(5, 3, 3, 3, seed=2)
    agrees(profile, gradient(lambda x, w: ops.conv(x, w, padding="same")), x, w)
    agrees(profile, gradient(lambda q: ops.attention(q, q * 2, q - 1)), normal(2, 2, 17, 8, seed=3))


def test_other_numbers(profile: Any) -> None:
    """16-bit floats, complex numbers, integers and words."""
    for carrier in (DType.F16.carrier, DType.BF16.carrier):
        a, b = normal(7, 40, seed=1).astype(carrier), normal(40, 33, seed=2).astype(carrier)
        agrees(profile, lambda a, b: (a @ b, ops.sum(b, 0), ops.exp(a), ops.integer_pow(a, 3)), a, b)
    z = (normal(5, 9, seed=3) + 1j * normal(5, 9, seed=4)).astype(np.complex64)
    agrees(profile, lambda z: (z * z, z / (z + 1), z @ ops.transpose(z), ops.sum(z, 1), ops.integer_pow(z, -3)), z)
    n = np.random.default_rng(5).integers(-(2**31), 2**31, (6, 11)).astype(np.int32)
    agrees(profile, lambda n: (n * n, n // 7, n % 5, ops.sum(n, 0), ops.cumsum(n, 1), ops.sort(n)), n)


def test_training(profile: Any) -> None:
    data, model, optimizer = quickstart_data(), quickstart_model(), optim.Adam(0.03)
    with tl.Session(REFERENCE):
        first = model.init(tl.random.key(0))
        begun = optimizer.init(first)

    def step(params: Any, state: Any, x: Any, t: Any) -> Any:
        value, gradient = tl.value_and_grad(lambda p: ops.mse_loss(model(p, x), t))(params)
        new, state = optimizer.update(gradient, state, params)
        return new, state, value

    results = []
    for each in (profile, REFERENCE):
        params, state = first, begun
        lowered = tl.lower(step, params, state, data.inputs, data.targets, profile=each)
        for _ in range(200):
            params, state, value = lowered(params, state, data.inputs, data.targets)
        results.append([np.asarray(leaf) for leaf in pytree.flatten((params, state, value))[0]])
    assert [same_bits(a, b) for a, b in zip(*results, strict=True)] == [True] * len(results[0])


@pytest.mark.slow
def test_every_kernel(profile: Any) -> None:
    """Every op, sample and dtype that is served, as in test_bits."""
    for capsule in profile.modules[0].capsules:
        kernel_agrees(capsule)


def test_nothing_is_fused(tmp_path: Path) -> None:
    """The hardware has fused products and sums, and no library uses them."""
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed here")
    tried = 0
    for name in COMMANDS:
        try:
            made = builds(name, tmp_path / name)
        except pytest.skip.Exception:
            continue
        agrees(COMPILED.with_modules(module(made)), lambda a, b, c: (a * b + c, a @ b), *[normal(64, 64)] * 3)
        for library in tmp_path.joinpath(name, "compiled").glob("*/*.so"):
            shown = subprocess.run(["objdump", "-d", str(library)], capture_output=True, text=True, check=True).stdout
            assert "fmadd" not in shown
            assert "fmla" not in shown
            tried += "torchlean_run" in shown
    assert tried or all([shutil.which(name) is None for name in ("gcc", "clang")])


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_one_that_breaks_down_when_it_vectorises_is_asked_not_to(name: str, tmp_path: Path) -> None:
    real = builds(name, tmp_path).toolchain().command[0]
    text = (
        f'case "$*" in --version) exec {real} --version;; *-fno-*slp-vectorize*) exec {real} "$@";; '
        "*) echo internal compiler error >&2; exit 1;; esac"
    )
    fragile = program(tmp_path, "fragile", text)
    made = Builds({"CC": str(fragile), "PATH": "/usr/bin:/bin", "TORCHLEAN_CACHE_DIR": str(tmp_path / "cache")})
    agrees(COMPILED.with_modules(module(made)), lambda x: x * 2 + 1, normal(40))


# -- what they are called, and what they are told ----------------------------------------------------------------------
SAID = {
    Family.GCC: "cc (Debian 12) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.",
    Family.CLANG: "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu",
    Family.OTHER: "icx 1.0",
}


@pytest.mark.parametrize("family", SAID, ids=str)
def test_a_compiler_is_known_by_what_it_says(family: Family, tmp_path: Path) -> None:
    made = program(tmp_path, "cc", f"cat <<'END'\n{SAID[family]}\nEND")
    version, found = version_of((str(made),))
    assert found is family
    assert version == ("GCC (Debian 12) 12.2.0" if family is Family.GCC else SAID[family].splitlines()[0])
    flags = toolchain((str(made),), frozenset()).flags
    assert ("-O1" in flags) == (family is Family.GCC)
    assert ("-nostdlib" in flags) == (family is not Family.OTHER and sys.platform == "linux")


@pytest.fixture
def zig(tmp_path: Path) -> Path:
    """A program that answers as Zig does."""
    text = """case "$*" in
        version) echo 0.17.1;;
        "cc --version") echo "clang version 22.1.8";;
        *) env | grep ^ZIG_ > {folder}/seen; while [ "$1" != -o ]; do shift; done; echo made > "$2";;
    esac"""
    return program(tmp_path, "zig", text.format(folder=tmp_path))


def test_zig_is_named_by_its_own_version_and_its_clang(zig: Path) -> None:
    assert version_of((str(zig), "cc")) == ("zig 0.17.1, clang version 22.1.8", Family.ZIG)


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are bare on Linux alone")
def test_zig_writes_nothing_but_the_library(zig: Path, tmp_path: Path) -> None:
    """It fills the folder of the user otherwise, and where it cannot write there it never ends."""
    chain = toolchain((str(zig), "cc"), frozenset())
    assert chain.caches == CACHES
    assert chain.libraries == ()
    source, target = tmp_path / "kernel.c", tmp_path / "kernel.so"
    source.write_text("")
    chain.compile(str(source), str(target))
    seen = dict([line.split("=") for line in (tmp_path / "seen").read_text().splitlines()])
    assert {seen[name] for name in CACHES} == {str(tmp_path / "kernel.cache")}


def test_flags_that_are_named_in_cc_are_part_of_the_version(tmp_path: Path) -> None:
    """They make other code, so records and libraries are told apart by them; what starts a package is no flag."""
    made = str(program(tmp_path, "cc", "echo clang version 1"))
    plain, told = toolchain((made,), frozenset()), toolchain((made, "-m64"), frozenset())
    assert (plain.version, told.version) == ("clang version 1", "clang version 1 with -m64")
    assert plain.identity() != told.identity()
    assert toolchain((made, "-m", "somewhere", "cc"), frozenset()).version == "clang version 1"
