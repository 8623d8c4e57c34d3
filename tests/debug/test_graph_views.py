"""show, diff, stats and what notebooks show."""

from __future__ import annotations

import html.parser
from typing import Any

import numpy as np
import pytest
from debug import programs
from golden_text import require_golden

import torchlean as tl
from torchlean import debug, ops

F32 = tl.DType.F32
W, X = tl.TensorType((4, 2), F32), tl.TensorType((3, 4), F32)
V = tl.TensorType((3,), F32)


def test_show_has_the_users_lines_and_the_op_a_node_is_a_derivative_of() -> None:
    text = debug.show(tl.grad(programs.loss), W, X)
    require_golden("debug_show_gradient", text)
    assert repr(text) == str(text)
    assert debug.show(tl.make_graph(programs.remarked)(V), locations=False) == str(tl.make_graph(programs.remarked)(V))
    assert debug.show(tl.lower(programs.remarked, V)) == debug.show(programs.remarked, V)


def test_a_diff_reads_well() -> None:
    before, after = tl.make_graph(programs.loss)(W, X), tl.make_graph(programs.other_loss)(W, X)
    require_golden("debug_diff", str(debug.diff(before, after)))


def test_a_diff_of_equal_structures_is_false_whatever_ids_names_and_lines() -> None:
    def renamed(w: Any, x: Any) -> Any:
        y = ops.tanh(x @ w)
        return (ops.softmax(y) * ops.log(y)).sum()

    again = debug.diff(tl.make_graph(programs.loss)(W, X), tl.make_graph(renamed)(W, X))
    assert not again
    assert str(again) == "loss → renamed: 6 same"
    remarks = debug.diff(tl.make_graph(programs.remarked)(V), tl.make_graph(programs.remarked)(V))
    assert not remarks


def test_a_diff_tells_moved_nodes_and_changed_types() -> None:
    moved = debug.diff(tl.make_graph(programs.in_order)(V, V), tl.make_graph(programs.in_other_order)(V, V))
    assert moved
    assert len(moved.moved) == 1
    assert (moved.added, moved.removed, moved.changed) == ((), (), ())
    require_golden("debug_diff_moved", str(moved))
    wide = tl.TensorType((5,), F32)
    other = debug.diff(tl.make_graph(programs.in_order)(V, V), tl.make_graph(programs.in_order)(wide, wide))
    assert {what for _, _, what in other.changed} == {"types"}
    assert other.boundary == (
        "~ input 0: f32[3] → f32[5]",
        "~ input 1: f32[3] → f32[5]",
    )


def test_a_diff_looks_into_loops() -> None:
    before, after = tl.make_graph(programs.sine_loop)(V), tl.make_graph(programs.cosine_loop)(V)
    require_golden("debug_diff_loop", str(debug.diff(before, after)))


def test_a_diff_of_large_graphs_is_quick_and_exact() -> None:
    def chain(count: int, special: int) -> Any:
        def f(x: Any) -> Any:
            for at in range(count):
                x = ops.cos(x) if at == special else ops.sin(x)
            return x

        return tl.make_graph(f)(V)

    found = debug.diff(chain(3000, -1), chain(3000, 10))
    assert (len(found.added), len(found.removed), len(found.changed)) == (1, 1, 1)
    assert len(found.same) == 2998


def test_counts_are_those_of_the_formulas() -> None:
    found = debug.stats(tl.make_graph(lambda w, x: ops.relu(x @ w).sum())(W, X))
    flops = dict(found.flops_by_op)
    assert flops["dot_general"] == 2 * 3 * 2 * 4
    assert flops["reduce_sum"] == 3 * 2 - 1
    assert (found.input_bytes, found.output_bytes) == (4 * (4 * 2 + 3 * 4), 4)
    assert found.uncounted == ()
    convolution = tl.make_graph(lambda x, w: ops.conv(x, w))(
        tl.TensorType((2, 3, 8, 8), F32), tl.TensorType((5, 3, 3, 3), F32)
    )
    assert debug.stats(convolution).flops == 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)
    loop = tl.make_graph(programs.sine_loop)(V)
    assert dict(debug.stats(loop).flops_by_op) == {"sin": 3, "mul": 3}
    repeated = debug.stats(tl.make_graph(lambda x: tl.while_loop(lambda c: c[0] < 1, lambda c: c * 2, x))(V))
    assert repeated.uncounted == ("while (one step is counted)",)
    power = debug.stats(tl.make_graph(lambda x: ops.integer_pow(x, 7))(V))
    assert power.flops == 3 * 4  # x², x³ = x²·x, x⁴ = (x²)², x⁷ = x⁴·x³


def test_ops_without_a_formula_are_listed() -> None:
    from ops.composite_samples import ALL_CASES, graph_of

    assert len(ALL_CASES) > 800
    missing = {name for case in ALL_CASES for name in debug.stats(graph_of(case)).uncounted}
    assert "sort" in missing
    assert missing.isdisjoint(
        {"dot_general", "conv", "reduce_sum", "tanh", "gather", "scatter_add", "cumsum", "select"}
    )


def test_statistics_read_well() -> None:
    require_golden("debug_stats", str(debug.stats(tl.make_graph(tl.grad(programs.loss))(W, X))))


class Seen(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert [name for name, _ in attrs] in ([], ["open"])

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", ["graph", "plan"])
def test_notebooks_show_the_text_escaped_and_nothing_from_outside(kind: str) -> None:
    def f(x: Any) -> Any:
        debug.print("<script>alert(1)</script> {x}", x=x)
        return x

    f.__name__ = "<b>&f"
    shown = tl.make_graph(f)(V) if kind == "graph" else tl.lower(f, V).plan
    text = shown._repr_html_()
    seen = Seen()
    seen.feed(text)
    assert seen.tags == ["details", "summary", "pre"]
    assert "<b>&f" in seen.text
    assert "<script" not in text
    assert "http" not in text


def test_str_of_a_large_graph_is_still_truncated() -> None:
    def f(x: Any) -> Any:
        for _ in range(300):
            x = ops.sin(x)
        return x

    graph = tl.make_graph(f)(np.ones(3, np.float32))
    assert "… 100 more nodes …" in str(graph)
    assert "more nodes" not in debug.show(graph)
