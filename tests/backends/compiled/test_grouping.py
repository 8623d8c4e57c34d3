"""Which steps run together, in which order, and what a reader of the source sees."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import CAPSULES, COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced, tried
from golden_text import require_golden

import torchlean as tl
from torchlean import ops
from torchlean.backends import CapsuleModule, Executable, accept, always_available, plan
from torchlean.backends.cost import cost
from torchlean.backends.grouping import units
from torchlean.errors import BindError, LimitExceeded
from torchlean.ir.ops.elementwise import MUL

pytestmark = pytest.mark.usefixtures("compiler")


def groups_of(graph: Any, profile: Any = COMPILED) -> list[list[str]]:
    return [[graph.nodes[at].op.name for at in unit.positions] for unit in units(plan(graph, profile))]


def test_a_program_that_is_all_c_is_one_call() -> None:
    x = normal(5, 7)
    graph = traced(lambda x: ops.sum(ops.exp(ops.transpose(x)) * 2, 0), x)
    assert groups_of(graph) == [["transpose", "exp", "full", "mul", "reduce_sum"]]
    made = Executable(accept(plan(graph, COMPILED)))
    assert "    return k0(v0)" in made.source
    assert "errstate" not in made.source


def test_other_providers_split_what_depends_on_them_and_nothing_else() -> None:
    x = normal(6)
    graph = traced(lambda x: (ops.tan(x * 2) + x * 3, ops.exp(x) - 1), x)
    made = groups_of(graph)
    assert made == [["full", "mul", "full", "mul", "exp", "full", "sub"], ["tan"], ["add"]]
    for got, want in zip(run(graph, [x]), run(graph, [x], REFERENCE), strict=True):
        assert same_bits(got, want)


def test_views_for_others_are_numpys_and_constants_are_made_once() -> None:
    x = normal(2, 3)
    graph = traced(lambda x: ops.tan(ops.transpose(x)) + ops.full((3, 2), 2.0), x)
    source = Executable(accept(plan(graph, COMPILED))).source
    assert re.search(r"v1 = v0\.transpose\(\(1, 0\)\)  # %1 compiled\.permute", source)
    assert same_bits(run(graph, [x])[0], run(graph, [x], REFERENCE)[0])


def test_effects_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        tl.debug.print("first {}", y)
        z = ops.exp(y)
        tl.debug.print("second {}", x)
        return z + 1

    tl.lower(f, np.float32(1), profile=COMPILED)(np.float32(1))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["first", "second"]


def test_control_flow_runs_bodies_in_c() -> None:
    x = normal(4, 3)

    def f(x: Any) -> Any:
        return ops.scan(lambda c, row: (c * 0.5 + row, ops.sum(c * row)), x[0], x)

    lowered, strict = tl.lower(f, x, profile=COMPILED), tl.lower(f, x, profile=REFERENCE)
    assert "def f0(v0, v1):  # " in lowered.source
    for got, want in zip(lowered(x), strict(x), strict=True):
        assert same_bits(np.asarray(got), np.asarray(want))


def test_the_cost_of_a_group_counts_results_and_arena() -> None:
    x = normal(64, 64)
    accepted = accept(plan(traced(lambda x: ops.exp(x @ x) @ x, x), COMPILED))
    made = cost(accepted)
    assert made.peak_bytes >= 2 * x.nbytes
    assert made.undeclared == ()


def test_the_nodes_of_a_group_are_guarded_like_others() -> None:
    wrong = replace(CAPSULES[MUL], provider="theirs")
    module = tried(CapsuleModule(name="theirs", capsules=(wrong,), probe=always_available))
    graph = traced(lambda x: x * x + x, normal(3))
    accepted = accept(plan(graph, COMPILED.with_modules(module)))
    with pytest.raises(BindError, match="handler uses provider `compiled`, but capsule"):
        Executable(accepted)
    huge = traced(lambda x: ops.sum(ops.broadcast_to(x, (2**61, 8)) * 2.0), normal(8))
    with pytest.raises(LimitExceeded, match="broadcast would make"):
        Executable(accept(plan(huge, COMPILED)))


def test_a_long_chain_is_grouped_in_linear_time() -> None:
    x = normal(3)

    def f(x: Any) -> Any:
        for _ in range(300):
            x = ops.tan(x * 0.5)
        return x

    graph = traced(f, x)
    assert len(units(plan(graph, COMPILED))) == 600


def small_step(w: Any, x: Any, t: Any) -> Any:
    def loss(w: Any) -> Any:
        return ops.mse_loss(ops.relu(x @ w), t)

    value, gradient = tl.value_and_grad(loss)(w)
    return w - gradient * 0.1, value


def test_the_source_reads_as_intended() -> None:
    w, x, t = normal(2, 3, seed=1), normal(5, 2, seed=2), normal(5, 3, seed=3)
    source = tl.lower(small_step, w, x, t, profile=COMPILED).source
    require_golden("compiled_step", source)


def test_user_text_cannot_leave_a_comment() -> None:
    from torchlean.backends.compiled.text import comment

    assert comment("a\nb \\") == "// a?b ?"


def test_a_long_program_is_written_in_pieces_and_equal_parts_once() -> None:
    weights = [normal(8, 8, seed=seed) for seed in range(60)]
    x = normal(4, 8)

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = ops.tanh(x @ w)
        return ops.sum(x)

    lowered, strict = (tl.lower(tl.grad(loss), weights, x, profile=each) for each in (COMPILED, REFERENCE))
    assert "void piece_2(" in lowered.source
    assert lowered.source.count("void dot_general_") == 3
    for got, want in zip(lowered(weights, x), strict(weights, x), strict=True):
        assert same_bits(np.asarray(got), np.asarray(want))
