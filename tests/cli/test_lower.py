"""`lower`: graph, plan and source of a user's function, and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MODEL = """\
from torchlean import nn, ops

number = 3

def predict(x):
    return ops.tanh(x).sum()

def loss(params, x):
    return nn.mse(x @ params["w"] + params["b"], ops.full_like(x[:, :1], 0.0))

def wrong(x):
    return x @ x

def branches(x):
    return x if x.sum() > 0 else -x

def fails(x):
    return {}["y"]
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "my model.py"
    path.write_text(MODEL)
    return path


def test_graph_plan_and_source_are_printed(run, model: Path) -> None:
    result = run("lower", f"{model}:predict", "--arg", "f32[32,4]")
    assert result.exit_code == 0
    assert result.stdout.startswith("== graph ==\ngraph predict(%0: f32[32,4]) {\n")
    assert "\n== plan ==\nplan: 2 kernels, profile checked_cpu, device cpu\n" in result.stdout
    assert "\n== source ==\n" in result.stdout
    assert "def run(" in result.stdout


def test_gradients_of_trees_on_the_fast_profile(run, model: Path) -> None:
    result = run(
        "lower", f"{model}:loss", "--arg", "{w: f32[4,1], b: f32[1]}", "--arg", "f32[8,4]", "--grad",
        "--profile", "fast_cpu", "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["profile"] == "fast_cpu"
    assert found["graph"].startswith("graph loss(%0: f32[1], %1: f32[4,1], %2: f32[8,4])")
    assert "profile fast_cpu" in found["plan"]
    assert "def run(" in found["source"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("none.py", None, "cannot read '{path}'; got: no such file"),
        ("bad.py", "def f(:\n", "{path}:1 cannot be imported: SyntaxError"),
        ("fails.py", "x = 1\nraise ValueError('no')\n", "{path}:2 cannot be imported: ValueError: no"),
        ("exits.py", "import sys\nsys.exit(4)\n", "{path}:2 cannot be imported: SystemExit: 4"),
        ("other.py", "def g(): pass\n", "{path} has no function 'f'; expected: g"),
        ("text.txt", "hello", "'{path}' is not a Python file; expected: a name that ends in .py"),
    ],
)
def test_files_that_cannot_be_used_are_refused_in_one_line(run, tmp_path, name, content, text) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    result = run("lower", f"{path}:f")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: lower: " + text.format(path=path))
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("target", ["model.py", "model.py:", ":f", "model.py:3"])
def test_a_target_that_names_no_function_is_a_usage_error(run, target: str) -> None:
    result = run("lower", target)
    assert result.exit_code == 2
    assert "write FILE:FUNCTION" in result.stderr


def test_types_and_user_errors_keep_their_text(run, model: Path) -> None:
    typo = run("lower", f"{model}:predict", "--arg", "f32[2")
    assert typo.exit_code == 3
    assert typo.stderr.startswith("error: lower: cannot read the type 'f32[2'")
    wrong = run("lower", f"{model}:wrong", "--arg", "f32[2,3]")
    assert wrong.exit_code == 3
    assert "f32[2,3]" in wrong.stderr.splitlines()[0]
    assert f"{model.name}:12" in wrong.stderr.splitlines()[0]
    branch = run("lower", f"{model}:branches", "--arg", "f32[2,3]")
    assert branch.exit_code == 3
    assert "bool()" in branch.stderr
    assert len(branch.stderr.splitlines()) <= 6
    integer = run("lower", f"{model}:predict", "--arg", "i32[2]", "--grad")
    assert integer.exit_code == 3
    few = run("lower", f"{model}:predict")
    assert few.exit_code == 3
    assert few.stderr == (
        f"error: lower: {model}:predict does not take 0 arguments: missing a required argument: 'x'; "
        "fix: give one --arg for each argument\n"
    )
    fails = run("lower", f"{model}:fails", "--arg", "f32[2]")
    assert fails.exit_code == 3
    assert fails.stderr == f"error: lower: {model}:18 fails while it is traced: KeyError: 'y'\n"
