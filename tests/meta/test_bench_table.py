"""The table that `make bench` ends with: every goal of the CPU once, against its best peer, and what is missing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MACHINE = {
    "processor": "a processor",
    "cores": 2,
    "versions": {"numpy": "2", "jax": "1", "torch": "3"},
    "compiler": "C 1",
}


@pytest.fixture(scope="module")
def bench(root: Path) -> Any:
    spec = importlib.util.spec_from_file_location("torchlean_bench_table", root / "benchmarks/table.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def write(folder: Path, file: str, *rows: dict[str, Any]) -> None:
    (folder / f"{file}.json").write_text(json.dumps({"machine": MACHINE, "rows": rows}))


def made_row(what: str, value: float, goal: float | None, against: str = "", unit: str = "ratio") -> dict[str, Any]:
    return {"what": what, "value": value, "goal": goal, "against": against, "unit": unit}


def test_a_goal_is_held_against_the_best_peer(bench: Any, tmp_path: Path) -> None:
    start = "softmax 4096×1024"
    rows = [made_row(f"{start} / {peer}", value, 1.0, peer) for peer, value in (("jax.jit", 1.2), ("torch", 0.8))]
    write(tmp_path, "compiled", *rows, made_row(f"share of {start}", 9.0, None))
    lines = [line for line in bench.table(tmp_path).splitlines() if line.endswith(f"{start} / jax.jit")]
    assert [line.split()[:3] for line in lines] == [["MISSED", "1.2×", "1×"]]


def test_a_goal_that_is_met_says_so_with_its_unit(bench: Any, tmp_path: Path) -> None:
    write(
        tmp_path, "import_time", made_row("import torchlean, CPU time over import numpy (minima)", 41.3, 60, unit="ms")
    )
    (line,) = [
        line for line in bench.table(tmp_path).splitlines() if line.endswith("import torchlean over import numpy")
    ]
    assert line.split()[:5] == ["met", "41.3", "ms", "60", "ms"]


def test_what_was_not_measured_says_how(bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path, "growth", made_row("trace: power of the growth", 1.4, 1.2, unit=""), made_row("call: power", 1.0, 1.2)
    )
    assert bench.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "trace + grad of a 1000-layer MLP: not measured, run `python benchmarks/trace_grad.py`" in said
    assert "growth from 10 to 10⁵ ops, power of (trace)" in said
    assert "a processor, 2 cores; numpy 2, jax 1, torch 3; C 1" in said
    write(tmp_path, "trace_grad", made_row("something else", 1, 1))
    assert "trace_grad.json has no such row, run `python benchmarks/trace_grad.py`" in bench.table(tmp_path)


def test_every_goal_names_a_benchmark(bench: Any, root: Path) -> None:
    assert len(bench.GOALS) == len({what for what, _, _ in bench.GOALS}) == 18
    for what, file, _ in bench.GOALS:
        assert (root / "benchmarks" / f"{file}.py").is_file(), what


def test_each_row_is_measured_once(root: Path) -> None:
    """No benchmark takes the measurements of another, and `make bench` ends with the table."""
    files = sorted((root / "benchmarks").glob("[a-z]*.py"))
    for path in files:
        for other in files:
            assert f"{other.stem}.measured(" not in path.read_text(), (path.name, other.name)
    recipe = (root / "Makefile").read_text().partition("bench:")[2].partition("\n\n")[0]
    assert recipe.splitlines()[-1].endswith("python benchmarks/table.py")
    assert "filter-out benchmarks/table.py" in recipe


def test_a_result_says_what_it_was_measured_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine, versions, threads, and the kernel that BLAS has chosen for this processor."""
    spec = importlib.util.spec_from_file_location("torchlean_bench_paired", root / "benchmarks/_paired.py")
    assert spec is not None
    assert spec.loader is not None
    paired = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(paired)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    told = paired.machine()
    assert told["thread_limits"]["OPENBLAS_NUM_THREADS"] == "3"
    assert 1 <= told["threads"] <= told["cores"]
    assert told["versions"]["numpy"] == np.__version__
    assert told["processor"]
    assert told["compiler"]
    if any((Path(np.__file__).parent.with_name("numpy.libs")).glob("*openblas*")):  # of NumPy's own wheels
        assert told["blas"].startswith("OpenBLAS ")
    assert json.dumps(told)
