"""Provenance records: canonical text, and facts about where the code runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from torchlean.errors import DataError
from torchlean.train import provenance


def test_the_text_is_canonical() -> None:
    first = {"b": (1, np.float32(0.5)), "a": {"y": None, "x": True}, "n": np.int64(3)}
    second = {"n": 3, "a": {"x": True, "y": None}, "b": [1, 0.5]}
    assert provenance.canonical_json(first) == provenance.canonical_json(second)
    assert provenance.canonical_json({"a": 1}) == '{\n  "a": 1\n}\n'


def test_numbers_that_json_lacks_are_text() -> None:
    text = provenance.canonical_json({"loss": float("nan"), "worst": [float("-inf")]})
    assert json.loads(text) == {"loss": "nan", "worst": ["-inf"]}


def test_the_environment_names_code_libraries_and_date() -> None:
    found = provenance.environment()
    assert found["code"]["package"] == "0.1.0"
    assert found["libraries"]["numpy"] == np.__version__
    assert found["date"].endswith("+00:00")
    commit = found["code"]["commit"]
    assert commit is None or len(commit) == 40


def test_records_are_files(tmp_path: Path) -> None:
    path = provenance.write({"a": 1}, tmp_path / "record.json")
    assert json.loads(path.read_text()) == {"a": 1}
    with pytest.raises(DataError, match="cannot write"):
        provenance.write({}, tmp_path)
