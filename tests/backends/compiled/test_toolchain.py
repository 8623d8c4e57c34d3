"""The compiler: found, missing, failing, making libraries for another machine; vector widths change no bit."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.compiled.test_bits import kernel_agrees
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops
from torchlean.backends import Device, Executable, accept, plan
from torchlean.backends.compiled import MODULE, module
from torchlean.backends.compiled.loading import Builds
from torchlean.backends.compiled.toolchain import Toolchain, features_here, find, toolchain
from torchlean.errors import BackendMissing, PlanRejected


def program(path: Path, name: str, text: str) -> Path:
    made = path / name
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


# -- finding -----------------------------------------------------------------------------------------------------------
def test_the_compiler_is_looked_for_in_order(tmp_path: Path) -> None:
    clang = program(tmp_path, "clang", "true")
    assert find({"PATH": str(tmp_path)}) == (str(clang),)
    cc = program(tmp_path, "cc", "true")
    assert find({"PATH": str(tmp_path)}) == (str(cc),)
    assert find({"PATH": str(tmp_path), "CC": "clang -m64"}) == ("clang", "-m64")


def test_no_compiler_is_a_reason_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.compiled.toolchain.find_spec", lambda name: None)
    assert find({"PATH": str(tmp_path)}) == (
        "no C compiler was found (CC is not set; looked for cc, gcc, clang and ziglang); install one (gcc or clang), "
        "name one in CC, or install torchlean[compiled], which brings one as a wheel"
    )
    assert find({"PATH": str(tmp_path), "CC": "nothing -x"}) == (
        "CC is 'nothing -x', which is no program on PATH; install one (gcc or clang), name one in CC, or install "
        "torchlean[compiled], which brings one as a wheel"
    )


def test_the_ziglang_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.compiled.toolchain.find_spec", lambda name: object())
    assert find({"PATH": str(tmp_path)}) == (sys.executable, "-m", "ziglang", "cc")


def test_without_a_compiler_plans_use_the_next_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.compiled.toolchain.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    x = normal(3, 4)
    lowered = tl.lower(lambda x: ops.exp(x) * 2, x, profile=COMPILED)
    assert {step.capsule.provider for step in lowered.plan.steps} == {"reference"}
    assert "passed over: compiled.exp is unavailable here: no C compiler was found" in str(lowered.plan)
    with pytest.raises(PlanRejected, match=r"compiled\.exp is unavailable here: no C compiler was found"):
        tl.lower(ops.exp, x, profile=replace(COMPILED, modules=(MODULE,)))
    with pytest.raises(BackendMissing, match="no C compiler was found"):
        Builds().toolchain()


# -- failing -----------------------------------------------------------------------------------------------------------
def builds_with(command: Path, tmp_path: Path) -> Builds:
    return Builds({"CC": str(command), "PATH": "/usr/bin:/bin", "TORCHLEAN_CACHE_DIR": str(tmp_path / "cache")})


def lowered_with(builds: Builds) -> Any:
    return Executable(accept(plan(traced(lambda x: x + 1, normal(3)), COMPILED.with_modules(module(builds)))))


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    broken = program(tmp_path, "broken", "echo out of order >&2; exit 3")
    with pytest.raises(BackendMissing, match="does not run") as said:
        lowered_with(builds_with(broken, tmp_path))
    assert "got:      out of order" in str(said.value)


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    broken = program(
        tmp_path, "broken", 'case "$1" in --version) echo broken 1.0;; *) echo no space >&2; exit 1;; esac'
    )
    with pytest.raises(BackendMissing, match="the C compiler did not compile what was generated") as said:
        lowered_with(builds_with(broken, tmp_path))
    assert "got:      no space" in str(said.value)
    assert "use a profile without the provider compiled" in str(said.value)


@pytest.mark.usefixtures("compiler")
def test_a_compiler_that_breaks_down_when_it_vectorises(tmp_path: Path) -> None:
    real = shutil.which("cc") or shutil.which("gcc")
    if real is None:
        pytest.skip("there is neither cc nor gcc on PATH")
    count = tmp_path / "count"
    fragile = program(
        tmp_path,
        "fragile",
        f'case "$*" in --version) exec {real} --version;; *-fno-tree-loop-vectorize*) exec {real} "$@";; '
        f"*) echo tried >> {count}; echo internal compiler error >&2; exit 1;; esac",
    )
    (value,) = lowered_with(builds_with(fragile, tmp_path)).checked(normal(3))
    assert same_bits(value, normal(3) + np.float32(1))
    assert count.read_text().startswith("tried")


def test_a_library_for_another_machine(tmp_path: Path) -> None:
    """The compiler says it succeeded, and what it made cannot be loaded."""
    text = 'case "$1" in --version) echo cross 1.0; exit;; esac; while [ "$1" != -o ]; do shift; done; echo elf > "$2"'
    with pytest.raises(BackendMissing, match="a compiled library cannot be loaded") as said:
        lowered_with(builds_with(program(tmp_path, "cross", text), tmp_path))
    assert "check that CC makes programs for this machine" in str(said.value)


# -- flags -------------------------------------------------------------------------------------------------------------
def a_program(x: Any, w: Any, b: Any) -> Any:
    hidden = ops.tanh(ops.linear(x, w, b))
    return ops.softmax(hidden, -1), ops.sum(hidden * hidden), ops.cumsum(hidden, 1), ops.transpose(hidden) @ x


LEVELS = (
    ("-march=x86-64", 16, 16, frozenset[str]()),
    ("-march=x86-64-v3", 32, 16, frozenset({"AVX2"})),
    ("-march=x86-64-v4 -mprefer-vector-width=512", 64, 32, frozenset({"AVX2", "AVX512F"})),
)


def level(flags: str, lanes: int, registers: int, needs: frozenset[str], folder: Path) -> Builds:
    """The compiler here with the flags of another processor; skips where this one could not run the result."""
    found = Builds().toolchain()
    if "x86_64" not in found.machine or not needs <= features_here():
        pytest.skip(f"this machine has no {', '.join(sorted(needs)) or 'x86-64'}")
    kept = tuple([flag for flag in found.flags if not flag.startswith("-m")])
    if "zig" in found.version:  # it spells processors its own way
        flags = flags.replace("x86-64", "x86_64").replace("64-v", "64_v")
    chain = replace(found, flags=(*kept, *flags.split()), lanes=lanes, registers=registers)
    return Builds({"TORCHLEAN_CACHE_DIR": str(folder)}, chain)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("made_for", LEVELS, ids=["128 bits", "256 bits", "512 bits"])
def test_the_vector_width_changes_no_bit(made_for: Any, tmp_path: Path) -> None:
    builds = level(*made_for, tmp_path)
    x, w, b = normal(37, 70, seed=1), normal(53, 70, seed=2), normal(53, seed=3)
    graph = traced(a_program, x, w, b)
    got = run(graph, [x, w, b], COMPILED.with_modules(module(builds)))
    assert [same_bits(g, w) for g, w in zip(got, run(graph, [x, w, b], REFERENCE), strict=True)] == [True] * 4


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("made_for", LEVELS, ids=["128 bits", "256 bits", "512 bits"])
def test_every_kernel_has_the_same_bits_at_every_width(made_for: Any, tmp_path: Path) -> None:
    """Every op, sample and dtype that is served, as in test_bits."""
    for capsule in module(level(*made_for, tmp_path)).capsules:
        kernel_agrees(capsule)


def test_no_flag_changes_values() -> None:
    chain = toolchain(("cc",), frozenset({"AVX512F"})) if shutil.which("cc") else None
    flags = chain.flags if chain is not None else Toolchain.__doc__ or ""
    assert "-ffp-contract=off" in flags or chain is None
    assert not {"-ffast-math", "-funsafe-math-optimizations", "-Ofast", "-fassociative-math"} & set(flags)


def test_what_makes_a_library_is_in_its_key() -> None:
    chain = Toolchain(command=("cc",), version="1", flags=("-O3",), machine="m", lanes=16, registers=16)
    others = [replace(chain, version="2"), replace(chain, flags=("-O2",)), replace(chain, machine="n")]
    assert len({each.identity() for each in (chain, *others)}) == 4


def test_the_module_is_for_lowered_programs() -> None:
    assert not MODULE.eager
    with tl.Session(COMPILED) as session:
        made = ops.exp(np.float32(1))
    assert "reference.exp" in str(session.report)
    assert same_bits(np.asarray(made), run(traced(ops.exp, np.float32(1)), [np.float32(1)])[0])
    assert COMPILED.for_sessions().modules[0].name == "reference"
    assert REFERENCE.for_sessions() is REFERENCE
    assert COMPILED.device is Device.CPU
