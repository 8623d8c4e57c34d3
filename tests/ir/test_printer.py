"""The printed form of graphs: golden files, and properties of every text."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
from golden_text import require_golden
from ir.programs import FEATURES, MLP, f32, programs

from torchlean.ir import ops
from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph
from torchlean.ir.location import SourceLocation
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.printer import graph_text
from torchlean.ir.tracing import trace_flat
from torchlean.transforms.api import make_graph
from torchlean.transforms.custom import custom_jvp

PROGRAMS = programs()
GOLDEN = ("mlp loss", "mlp gradient", "features", "grad of softmax", "grad of layer_norm", "jvp of softmax", "bits")


def long_graph(length: int) -> Graph:
    """A chain of `length` nodes."""

    def chain(x: Any) -> Any:
        for step in range(length):
            x = ops.tanh(x) if step % 2 else ops.sin(x)
        return x

    return make_graph(chain)(f32(2))


@pytest.mark.parametrize("name", GOLDEN)
def test_programs_print_as_reviewed(name: str) -> None:
    require_golden("graph_" + name.replace(" ", "_"), str(PROGRAMS[name]))


def test_the_golden_programs_are_the_reviewed_size() -> None:
    assert len(MLP) == 6
    assert len(FEATURES) == 5


def test_a_long_graph_loses_its_middle() -> None:
    require_golden("graph_truncated", graph_text(long_graph(1000), max_nodes=8))


def constants() -> list[Any]:
    values = [0.1, -0.0, np.nan, np.inf, 1e-45, 3.4028235e38]
    made = [bind1(FULL, Fill.of((2,), DType.F32, value)) for value in values]
    made += [bind1(FULL, Fill.of((), DType.F64, 0.1)), bind1(FULL, Fill.of((3,), DType.BOOL, True))]
    arrays = (
        np.array([[1.5, -0.0], [np.nan, np.inf]], dtype=np.float32),
        np.array(7, dtype=np.int8),
        np.zeros((0, 3), dtype=np.float32),
        np.zeros((2, 0), dtype=np.float32),
        np.array([True, False]),
        np.arange(9, dtype=np.uint64),
    )
    return [*made, *[ops.constant(array) for array in arrays]]


def test_constants_show_few_entries() -> None:
    require_golden("graph_constants", str(trace_flat(constants, [], name="constants").graph))


def test_constants_do_not_depend_on_print_options() -> None:
    graph = trace_flat(constants, []).graph
    before = str(graph)
    with np.printoptions(precision=2, threshold=1, formatter={"all": lambda entry: "?"}):
        assert str(graph) == before


def test_locations_are_shown_on_request() -> None:
    text = graph_text(make_graph(lambda x: ops.tanh(x))(f32(3)), locations=True)
    assert re.search(r"^  %1: f32\[3\] = tanh\(%0\)  # test_printer.py:\d+ in <lambda>$", text, re.MULTILINE)


def test_a_custom_call_shows_its_function() -> None:
    @custom_jvp
    def clipped(x: Any) -> Any:
        return ops.tanh(x)

    clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0]))
    assert "custom_call(%0, function='clipped')" in str(make_graph(lambda x: clipped(x))(f32(3)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_is_printed_once_and_the_text_is_stable(name: str) -> None:
    graph = PROGRAMS[name]
    lines = graph_text(graph, max_nodes=None).splitlines()
    assert len(lines) == len(graph.nodes) + 3
    defined = [id for line in lines for id in re.findall(r"%(\d+): ", line)]
    assert sorted(map(int, defined)) == sorted([*graph.inputs, *[id for node in graph.nodes for id in node.outputs]])
    assert graph_text(graph, max_nodes=None).splitlines() == lines
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize(("length", "limit"), [(10, 10), (11, 10), (1000, 4), (1000, 1), (5, 4), (1000, 200)])
def test_truncation_counts_what_it_leaves_out(length: int, limit: int) -> None:
    lines = graph_text(long_graph(length), max_nodes=limit).splitlines()
    left_out = [int(count) for line in lines for count in re.findall(r"… (\d+) more nodes …", line)]
    shown = sum(" = " in line for line in lines)
    assert shown + sum(left_out) == length
    assert shown == min(length, max(4, limit))


def test_a_hundred_thousand_nodes_print_at_once() -> None:
    graph = long_graph(100_000)
    started = time.perf_counter()
    text = str(graph)
    assert time.perf_counter() - started < 0.5
    assert "… 99800 more nodes …" in text
    assert len(text.splitlines()) == 204
    assert len(graph_text(graph, max_nodes=None).splitlines()) == 100_003


def test_a_file_name_that_is_no_text_prints() -> None:
    assert str(SourceLocation("/tmp/\udcff.py", 3, "f")).encode() == b"\\udcff.py:3 in f"


def test_repr_is_one_line() -> None:
    assert repr(PROGRAMS["mlp loss"]) == (
        "<Graph mlp_loss: (f32[8,2], f32[8], f32[1,8], f32[1], f32[5,2], f32[5,1]) -> (f32[]), 4 nodes>"
    )
