"""DOT and Mermaid: each text is read by a small reader of the language, and DOT by Graphviz where it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from report.programs import NASTY, control, hostile, large, small

import torchlean as tl
from torchlean import report
from torchlean.errors import DataError
from torchlean.report.escape import visible

PROGRAMS = {"small": small, "control": control, "hostile": hostile, "large": lambda: large(12)}

DOT_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_]\w*)|(?P<mark>->|[{}\[\];,=])|(?P<end>\Z))', re.DOTALL
)


def dot_tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = DOT_TOKEN.match(text, at)
        assert match is not None, f"no DOT token at {text[at : at + 40]!r}"
        assert match.lastgroup is not None
        if match.lastgroup != "end":
            found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end() if match.end() > at else len(text)
    return found


class DotReader:
    """A recursive reader of the part of the grammar we write: digraph, subgraph, nodes, edges, attributes."""

    def __init__(self, text: str) -> None:
        self.tokens = dot_tokens(text)
        self.at = 0
        self.nodes: dict[str, str] = {}
        self.edges: list[tuple[str, str]] = []
        self.clusters = 0
        self.take("digraph")
        self.id()
        self.block()
        assert self.at == len(self.tokens)

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, wanted: str) -> None:
        assert self.peek() == wanted, f"{wanted!r} expected, got {self.tokens[self.at : self.at + 4]}"
        self.at += 1

    def id(self) -> str:
        kind, text = self.tokens[self.at]
        assert kind in ("string", "name"), text
        self.at += 1
        return text

    def block(self) -> None:
        self.take("{")
        while self.peek() != "}":
            self.statement()
        self.take("}")

    def statement(self) -> None:
        if self.peek() == "subgraph":
            self.at += 1
            assert self.id().startswith('"cluster_')
            self.clusters += 1
            self.block()
            return
        name = self.id()
        if self.peek() == "=":
            self.at += 1
            self.id()
        elif self.peek() == "->":
            self.at += 1
            self.edges.append((name, self.id()))
            self.attributes()
        else:
            found = self.attributes()
            if name != "node":
                assert name not in self.nodes
                self.nodes[name] = found["label"]
        self.take(";")

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self.take("[")
        while self.peek() != "]":
            name = self.id()
            self.take("=")
            found[name] = self.id()
            if self.peek() == ",":
                self.at += 1
        self.take("]")
        return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_dot_is_dot(name: str) -> None:
    read = DotReader(report.dot(PROGRAMS[name]()))
    assert len(read.nodes) > 4
    assert all([source in read.nodes and target in read.nodes for source, target in read.edges])
    assert len(read.edges) >= len(read.nodes) // 2


def test_dot_shows_nodes_types_capsules_and_the_graphs_of_control_flow() -> None:
    read = DotReader(report.dot(control()))
    assert read.clusters >= 4
    labels = list(read.nodes.values())
    assert any(["scan" in label and "reference.scan" in label for label in labels])
    plain = DotReader(report.dot(tl.make_graph(lambda x: tl.ops.exp(x))(np.ones(3, np.float32))))
    assert list(plain.nodes.values()) == ['"%0 input\\nf32[3]"', '"%1 exp\\nf32[3]"', '"result\\nf32[3]"']
    assert plain.edges == [("n0", "n1"), ("n1", "n2")]


def test_a_composite_is_one_node_in_dot() -> None:
    graph = tl.make_graph(lambda x: tl.ops.softmax(x))(np.ones(3, np.float32))
    assert DotReader(report.dot(graph)).clusters == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphviz_reads_it(name: str, tmp_path: Path) -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("no Graphviz here: `dot` is not on the path")
    done = subprocess.run(
        [dot, "-Tplain"], input=report.dot(PROGRAMS[name]()), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("graph ")


LABEL = r'"(?:[\w .,:()+*/%=|?!-]|#\d+;|<br/>)*"'
MERMAID = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"flowchart TB",
        rf" +n\w+\[{LABEL}\]",
        rf" +n\w+\(\[{LABEL}\]\)",
        rf" +n\w+ -->\|{LABEL}\| n\w+",
        rf" +subgraph n\w+\[{LABEL}\]",
        r" +end",
        r" +classDef g\d+ fill:#[0-9a-f]{6},stroke:#555,color:#111",
        r" +class n\w+(,n\w+)* g\d+",
    )
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_mermaid_is_mermaid(name: str) -> None:
    lines = report.mermaid(PROGRAMS[name]()).splitlines()
    for line in lines:
        assert any([pattern.fullmatch(line) for pattern in MERMAID]), line
    assert lines[0] == "flowchart TB"
    opened = len([line for line in lines if line.strip().startswith("subgraph")])
    assert opened == len([line for line in lines if line.strip() == "end"])
    assert (opened >= 4) == (name == "control")


def test_hostile_names_are_whole_in_mermaid() -> None:
    made = report.mermaid(hostile())
    decoded = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), made)
    assert visible(NASTY)[:40] in decoded


def test_text_has_the_graph_the_plan_and_the_source() -> None:
    made = report.text(small())
    for title in ("== Traced graph as text ==", "== Plan as text ==", "== Generated source =="):
        assert title in made
    assert "graph mlp(%0: f32[8]" in made


def test_what_has_no_graph_cannot_be_drawn() -> None:
    record = {"format": "torchlean.provenance/1", "model": "m"}
    with pytest.raises(DataError) as caught:
        report.dot(record)
    assert str(caught.value) == (
        "there is no graph to draw: the run was eager, or only its record is known\n"
        '  fix:      train with execution="lowered", or draw a graph, a plan or a lowered function'
    )


def test_a_drawing_is_a_file_of_its_own() -> None:
    made = report.svg(small())
    assert made.startswith('<svg class="graph" xmlns="http://www.w3.org/2000/svg"')
    assert "<script" not in made
    assert made.count("<rect") == 24 + 5 + 1  # steps, inputs, the result
