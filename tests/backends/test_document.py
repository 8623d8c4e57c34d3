"""A lowered program as text and as a JSON document: canonical, hashed, its graph read back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from backends.plan_programs import V, W, X, loss, still

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends import read_graph
from torchlean.backends.document import canonical_text, content_hash
from torchlean.errors import ConfigError, SerializationError
from torchlean.ir.printer import graph_text

FAST = still(profiles.fast_cpu)


def made() -> tl.Lowered:
    return tl.lower(tl.value_and_grad(loss), W, X, profile=FAST)


def test_the_document_is_plain_canonical_and_the_same_each_time() -> None:
    first, second = made().as_json(), made().as_json()
    text = canonical_text(first)
    assert text == canonical_text(second)
    assert json.loads(text) == first
    assert first["hash"] == content_hash(first)
    assert list(first)[:3] == ["format", "version", "hash"]
    assert {"graph", "plan", "audit", "cost", "source", "provenance"} < set(first)
    lowered = made()
    assert first["plan"] == lowered.plan.as_json()
    assert first["audit"] == lowered.audit.as_json()
    assert first["cost"] == lowered.cost().as_json()
    assert first["source"] == lowered.source
    assert first["provenance"]["libraries"]["numpy"] == np.__version__


def test_the_graph_is_read_back() -> None:
    lowered = made()
    again = read_graph(canonical_text(lowered.as_json()))
    assert graph_text(again) == lowered.as_text()
    assert str(again.nodes[0].where).startswith("plan_programs.py:")
    args = [np.ones(type.shape, np.float32) for type in (W, X)]
    from torchlean.ir.evaluate import denote

    for mine, theirs in zip(denote(again, args), denote(lowered.graph, args), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def edited(**changes: Any) -> str:
    return canonical_text({**made().as_json(), **changes})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (lambda: edited(source="def run(): pass"), "the content does not have the hash it claims"),
        (lambda: edited(version=2), "version 2 of the format is unknown"),
        (lambda: edited(version=True), "version True of the format is unknown"),
        (lambda: edited(format="x"), "not a lowered program"),
        (lambda: "[1, 2]", "not a lowered program"),
        (lambda: "{", "not JSON"),
    ],
)
def test_what_was_edited_is_refused(text: Any, what: str) -> None:
    with pytest.raises(SerializationError, match=what):
        read_graph(text())


def test_a_graph_that_cannot_be_written_is_left_out_with_the_reason() -> None:
    @tl.custom_vjp
    def f(x: Any) -> Any:
        return ops.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct,))
    document = tl.lower(f, V, profile=FAST).as_json()
    assert document["graph"] is None
    assert "holds Python functions and cannot be written" in document["graph_refused"]
    with pytest.raises(SerializationError, match="the document holds no graph"):
        read_graph(canonical_text(document))


def test_dialects() -> None:
    lowered = made()
    assert lowered.as_text() == lowered.as_text("torchlean") == graph_text(lowered.graph, max_nodes=None)
    assert lowered.as_text(dialect="python") == lowered.source
    assert lowered.as_text("planned") == graph_text(lowered.plan.graph, max_nodes=None)
    with pytest.raises(ConfigError) as refused:
        lowered.as_text("hlo")
    assert str(refused.value).splitlines() == [
        "unknown dialect 'hlo' for the text of loss",
        "  expected: torchlean, planned, python, stablehlo",
        "  got:      'hlo'",
        "  fix:      use one of these; .as_json() has the graph, the plan and more as data",
    ]
