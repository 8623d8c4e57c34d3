"""Real libraries in a real cache: damaged ones are built again, processes may race for them, and it may be missing."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced

from torchlean import ops
from torchlean.backends.compiled import module
from torchlean.backends.compiled.cache import LIBRARY, VARIABLE
from torchlean.backends.compiled.loading import Builds

pytestmark = pytest.mark.usefixtures("compiler")


def results(cache: Path) -> list[Any]:
    """What a process that knows nothing of earlier ones computes with this cache."""
    environ = {**os.environ, VARIABLE: str(cache)}
    x = normal(6, 5)
    graph = traced(lambda x: (ops.softmax(x @ ops.transpose(x), -1), ops.sum(x)), x)
    profile = COMPILED.with_modules(module(Builds(environ)))
    got = run(graph, [x], profile)
    assert [same_bits(a, b) for a, b in zip(got, run(graph, [x], REFERENCE), strict=True)] == [True, True]
    return list(got)


def libraries(cache: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in cache.glob(f"compiled/*/{LIBRARY}")}


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def swap(path: Path) -> None:
    """Replaced by a valid library of another program, as a poisoned cache would be."""
    others = [other for other in path.parent.parent.glob(f"*/{LIBRARY}") if other != path]
    path.write_bytes(others[0].read_bytes())


def garble(path: Path) -> None:
    made = bytearray(path.read_bytes())
    made[len(made) // 2 :] = bytes(len(made) - len(made) // 2)
    path.write_bytes(bytes(made))


@pytest.mark.parametrize("damage", [cut, swap, garble, Path.unlink])
def test_damaged_libraries_are_built_again(damage: Any, tmp_path: Path) -> None:
    results(tmp_path)
    before = libraries(tmp_path)
    assert len(before) >= 2  # the program and the stub
    for path in sorted(tmp_path.glob(f"compiled/*/{LIBRARY}")):
        copy = path.with_name("copy")  # the process that loaded it keeps its own
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o700)
        copy.replace(path)
    for path in sorted(tmp_path.glob(f"compiled/*/{LIBRARY}")):
        damage(path)
    results(tmp_path)
    assert {name: len(text) for name, text in libraries(tmp_path).items()} == {
        name: len(text) for name, text in before.items()
    }


def test_a_library_is_loaded_and_not_compiled_where_it_is(tmp_path: Path) -> None:
    results(tmp_path)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"compiled/*/{LIBRARY}")}
    results(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"compiled/*/{LIBRARY}")} == made


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        results(blocked)
    said = [str(each.message) for each in seen if issubclass(each.category, RuntimeWarning)]
    assert len(said) == 1
    assert "compiled kernels are not kept" in said[0]
    assert VARIABLE in said[0]


PROCESS = """
import sys
import numpy as np
import torchlean as tl
from torchlean import ops
from torchlean.backends import compiled, profiles, reference
strict = profiles.named("reference_cpu")
profile = strict.with_modules(compiled.MODULE, reference.MODULE).under(strict.policy.allowing_stale())
x = np.arange(30, dtype=np.float32).reshape(5, 6) / 7
lowered = tl.lower(lambda x: ops.softmax(x @ ops.transpose(x), -1), x, profile=profile)
assert {step.capsule.provider for step in lowered.plan.steps} == {"compiled"}
print(np.asarray(lowered(x)).tobytes().hex())
"""


def test_processes_that_compile_the_same_program_at_once(tmp_path: Path) -> None:
    environ = {**os.environ, VARIABLE: str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        )
        for _ in range(3)
    ]
    said = [process.communicate() for process in started]
    assert [error for _, error in said] == [""] * 3
    assert len({text for text, _ in said}) == 1
    x = np.arange(30, dtype=np.float32).reshape(5, 6) / 7
    (want,) = run(traced(lambda x: ops.softmax(x @ ops.transpose(x), -1), x), [x], REFERENCE)
    assert said[0][0].strip() == want.tobytes().hex()
    assert [path.name for path in (tmp_path / "compiled").iterdir() if path.name.startswith(".")] == []
