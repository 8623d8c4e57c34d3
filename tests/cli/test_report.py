"""`report`: every kind of target, every format, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import torchlean as tl
from torchlean.ir import serialize

MODEL = """\
from torchlean import ops

def loss(w, x):
    return ops.tanh(x @ w).sum()
"""
STARTS = {
    "html": "<!doctype html>",
    "svg": '<svg class="graph"',
    "dot": "digraph ",
    "mermaid": "flowchart TB",
    "text": "== Traced graph as text ==",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_the_quickstart_is_trained_and_written(run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = run("report", "quickstart_mlp", "--steps", 5, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    page = out.read_text(encoding="utf-8")
    assert result.stdout == f"wrote {out} ({len(page.encode()):,} bytes)\n"
    assert "<h1>quickstart_mlp</h1>" in page
    assert 'id="chart0"' in page
    assert "profile checked_cpu" in page


@pytest.mark.parametrize("form", STARTS)
def test_a_function_in_every_format(run, model: Path, form: str) -> None:
    arguments = ("--arg", "f32[4,2]", "--arg", "f32[3,4]", "--grad", "--format", form)
    result = run("report", f"{model}:loss", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(STARTS[form])
    assert "tanh" in result.stdout


def test_a_graph_and_a_record_from_files(run, tmp_path: Path) -> None:
    graph = tl.make_graph(lambda x: tl.ops.exp(x))(np.ones(3, np.float32))
    path = tmp_path / "graph.json"
    path.write_text(serialize.dumps(graph))
    result = run("report", path, "--format", "text")
    assert result.exit_code == 0
    assert "exp(%0)" in result.stdout
    record = tmp_path / "run.json"
    record.write_text('{"format": "torchlean.provenance/1", "model": "a model"}')
    result = run("report", record)
    assert result.exit_code == 0
    assert "a model" in result.stdout


def test_what_is_refused(run, model: Path, tmp_path: Path) -> None:
    result = run("report", "quickstart_mlp", "--grad")
    assert (result.exit_code, "--arg and --grad go with FILE:FUNCTION" in result.stderr) == (2, True)
    result = run("report", tmp_path / "missing.json")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: report: cannot read ")
    record = tmp_path / "run.json"
    record.write_text('{"format": "torchlean.provenance/1"}')
    result = run("report", record, "--format", "dot")
    assert result.exit_code == 3
    assert "there is no graph to draw" in result.stderr
    result = run("report", f"{model}:loss", "--arg", "f32[4,2]", "--arg", "f32[3,4]", "--out", tmp_path / "no" / "x")
    assert result.exit_code == 3
    assert "cannot write" in result.stderr
