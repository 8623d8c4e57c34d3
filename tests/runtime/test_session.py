"""Eager sessions: results are the definition's bits, selections are cached, operands are lifted or refused by name."""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.toolbox import same_bits, traced
from ops.composite_samples import ALL_CASES, graph_of

from torchlean.backends.policy import CHECKED
from torchlean.backends.profile import Profile
from torchlean.backends.profiles import checked_cpu, fast_cpu
from torchlean.backends.vocabulary import Device
from torchlean.errors import ConfigError, LeakedTracerError, PlanRejected, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.builder import CURRENT
from torchlean.ir.evaluate import denote
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.activation import gelu, logsumexp, relu, softmax
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.ops.loss import cross_entropy, mse_loss
from torchlean.ir.ops.neural import attention, linear
from torchlean.ir.ops.norm import layer_norm
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.runtime import Array, Session, array
from torchlean.runtime import kernels as kernels_module

RNG = np.random.default_rng(2026)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


X, Y, W, V, B = f32(3, 4), f32(3, 4), f32(5, 4), f32(4), f32(5)
KERNEL = f32(2, 1, 2, 2)
EDGES = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1.5, 3e38], dtype=np.float32)
INTEGERS = np.array([[3, -1, 2], [7, 0, 5]], dtype=np.int32)

CASES: tuple[tuple[str, Callable[..., Any], tuple[Any, ...]], ...] = (
    ("add", ops.add, (X, Y)),
    ("add edges", ops.add, (EDGES, EDGES)),
    ("sub broadcast", ops.sub, (X, V)),
    ("mul scalar", lambda x: x * 0.1, (X,)),
    ("div edges", ops.div, (EDGES, EDGES[::-1].copy())),
    ("exp", ops.exp, (EDGES,)),
    ("log", ops.log, (EDGES,)),
    ("tanh", ops.tanh, (X,)),
    ("logistic", ops.logistic, (EDGES,)),
    ("erf", ops.erf, (X,)),
    ("pow", ops.pow, (np.abs(X), Y)),
    ("integer_pow", lambda x: x**3, (X,)),
    ("rsqrt", ops.rsqrt, (np.abs(X),)),
    ("max", ops.max, (EDGES, EDGES[::-1].copy())),
    ("clamp", lambda x: ops.clamp(x, -1.0, 1.0), (EDGES,)),
    ("select", lambda x, y: ops.select(x > y, x, y), (X, Y)),
    ("compare", lambda x, y: x <= y, (EDGES, EDGES[::-1].copy())),
    ("logic", lambda x, y: (x > 0) & ~(y > 0), (X, Y)),
    ("integers", lambda x: x * 3 + 1, (INTEGERS,)),
    ("convert", lambda x: x.astype("i32"), (EDGES,)),
    ("to f64", lambda x: x.astype("f64") + 1.0, (X,)),
    ("matmul", ops.matmul, (X, W.T.copy())),
    ("matmul batched", ops.matmul, (f32(2, 3, 4), f32(4, 5))),
    ("dot scalar", ops.matmul, (V, V)),
    ("sum", lambda x: x.sum(), (X,)),
    ("sum axis", lambda x: x.sum(1, keepdims=True), (X,)),
    ("mean", lambda x: x.mean(0), (X,)),
    ("mean of nothing", lambda x: x.mean(0), (f32(0, 3),)),
    ("amax", lambda x: x.max(1), (X,)),
    ("argmax", lambda x: x.argmax(1), (X,)),
    ("reshape", lambda x: x.reshape(2, 6), (X,)),
    ("transpose", lambda x: x.T, (X,)),
    ("transpose then add", lambda x, y: x.T + y.T, (X, Y)),
    ("reverse", lambda x: ops.reverse(x, (0, 1)), (X,)),
    ("slice", lambda x: x[1:, ::-2], (X,)),
    ("index", lambda x: x[-1], (X,)),
    ("take", lambda x: ops.take(x, np.array([2, 0], np.int32), axis=0), (X,)),
    ("concatenate", lambda x, y: ops.concatenate((x, y), axis=1), (X, Y)),
    ("pad", lambda x: ops.pad(x, 0.5, ((1, 2), (0, 1))), (X,)),
    ("iota", lambda: ops.iota((4, 2), 0), ()),
    ("full", lambda: ops.full((2, 2), -0.0), ()),
    ("relu", relu, (EDGES,)),
    ("gelu", gelu, (X,)),
    ("softmax", lambda x: softmax(x, -1), (X,)),
    ("logsumexp", lambda x: logsumexp(x, -1), (X,)),
    ("layer_norm", lambda x: layer_norm(x, np.ones(4, np.float32), np.zeros(4, np.float32)), (X,)),
    ("linear", linear, (X, W, B)),
    ("linear vector", linear, (V, W, B)),
    ("mse_loss", mse_loss, (X, Y)),
    ("cross_entropy", lambda x: cross_entropy(x, np.array([0, 3, 1], np.int32)), (X,)),
    ("attention", lambda q: attention(q, q, q, causal=True), (f32(2, 3, 4),)),
    ("conv", lambda x: ops.conv(x, KERNEL), (f32(1, 1, 4, 4),)),
)


def ident(case: Any) -> str:
    return case[0] if isinstance(case, tuple) else repr(case)


@pytest.mark.parametrize("case", CASES, ids=ident)
def test_functions_give_the_bits_of_their_traced_definition(case: tuple[str, Callable[..., Any], Any]) -> None:
    _, f, operands = case
    with Session() as session:
        eager = f(*[session.array(x) for x in operands])
    graph = traced(f, *operands)
    (expected,) = denote(graph, operands)
    assert isinstance(eager, Array)
    assert eager.type == graph.output_types[0]
    assert same_bits(eager, expected)


@pytest.fixture(scope="module")
def shared() -> Session:
    """One session for all samples, so that planning happens once per op, params and types."""
    return Session()


@pytest.mark.parametrize("case", ALL_CASES, ids=ident)
def test_every_op_runs_eagerly_with_the_bits_of_its_definition(case: Any, shared: Session) -> None:
    graph = graph_of(case)
    values: dict[int, Any] = dict(zip(graph.inputs, [shared.array(x) for x in case.arrays], strict=True))
    for node in graph.nodes:
        made = shared.bind(node.op, node.params, tuple([values[id] for id in node.inputs]))
        values |= dict(zip(node.outputs, made, strict=True))
    expected = denote(graph, case.arrays)
    assert [same_bits(values[id], want) for id, want in zip(graph.outputs, expected, strict=True)] == [True] * len(
        expected
    )
    assert [values[id].type for id in graph.outputs] == list(graph.output_types)


def test_there_are_many_samples() -> None:
    assert len(ALL_CASES) >= 900


def test_a_graph_evaluates_to_the_bits_of_the_definition() -> None:
    operands = (X, W, B)
    graph = traced(lambda x, w, b: (softmax(linear(x, w, b), -1), x), *operands)
    with Session() as session:
        made = session.evaluate(graph, operands)
    assert all(same_bits(got, want) for got, want in zip(made, denote(graph, operands), strict=True))
    assert [x.type for x in made] == list(graph.output_types)


def test_a_long_graph_runs_in_linear_time_without_recursion() -> None:
    def chain(x: Any) -> list[Any]:
        for _ in range(50_000):
            x = ops.neg(x) + x
        return [x]

    graph = trace_flat(chain, [type_of_array(V)]).graph
    assert len(graph.nodes) == 100_000
    with Session() as session:
        (made,) = session.evaluate(graph, (V,))
    assert same_bits(made, denote(graph, (V,))[0])
    assert session.selections == 2


def test_a_graph_drops_each_value_at_its_last_use() -> None:
    def chain(x: Any) -> list[Any]:
        for _ in range(100):
            x = ops.neg(x)
        return [x]

    big = np.zeros(250_000, dtype=np.float32)
    graph = traced(lambda x: chain(x), big)
    with Session() as session:
        x = session.array(big)
        session.evaluate(graph, (x,))
        tracemalloc.start()
        session.evaluate(graph, (x,))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert big.nbytes <= peak <= 4 * big.nbytes


def test_dead_nodes_do_not_run() -> None:
    graph = trace_flat(lambda x: [ops.exp(x), ops.sin(x)], [type_of_array(V)]).graph
    graph.outputs = graph.outputs[:1]
    with Session() as session:
        session.evaluate(graph, (V,))
    assert [capsule.name for capsule in session.report.forward] == ["reference.exp"]


# -- selection ---------------------------------------------------------------------------------------------------------
def test_selections_are_cached_by_op_params_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    plan = kernels_module.plan

    def counted(graph: Any, profile: Any) -> Any:
        planned.append(graph.name)
        return plan(graph, profile)

    monkeypatch.setattr(kernels_module, "plan", counted)
    with Session() as session:
        x, y = session.array(X), session.array(Y)
        for _ in range(5):
            x + y
        assert planned == ["add"]
        x.sum(0), x.sum(1), x.sum(0)
        assert planned == ["add", "reduce_sum", "reduce_sum"]
        session.array(V) + session.array(V)
        assert planned == ["add", "reduce_sum", "reduce_sum", "add"]
        session.reset_tape()
        x + y
    assert len(planned) == 4
    assert session.selections == 4


def test_changing_scalars_neither_plan_again_nor_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels_module, "MOST_ENTRIES", 64)
    with Session() as session:
        x = session.array(X)
        for step in range(200):
            x = x * (1.0 + step * 1e-6)
    assert session.selections <= 64


def test_constants_are_not_kept_alive_by_the_cache() -> None:
    with Session() as session:
        x = session.array(X)
        for _ in range(3):
            x = x + f32(3, 4)
        del x
    assert session.allocator.live == 0
    assert session.selections == 1


def test_an_op_without_capsule_is_refused_with_every_reason() -> None:
    empty = Profile(name="bare", device=Device.CPU, modules=(), policy=CHECKED)
    with Session(empty) as session:
        x = session.array(X)
        with pytest.raises(PlanRejected) as caught:
            x + x
    text = str(caught.value)
    assert text.startswith("no admissible kernel capsule for op add on device cpu (test_session.py:")
    assert "no capsule implements add" in text


def test_the_profile_decides_which_kernel_runs() -> None:
    with Session(fast_cpu) as session:
        linear(session.array(X), session.array(W), None)
    assert {capsule.provider for capsule in session.report.forward} >= {"numpy"}
    with Session(checked_cpu) as session:
        linear(session.array(X), session.array(W), None)
    assert {capsule.provider for capsule in session.report.forward} == {"reference"}


def test_warnings_of_numpy_stay_silent_and_its_settings_stay_as_they_were() -> None:
    before = np.geterr()
    with Session() as session, np.errstate(all="raise"):
        x = session.array(EDGES)
        x / x, ops.log(x), x.sum(), session.evaluate(trace_flat(lambda v: [v / v], [x.type]).graph, (x,))
    assert np.geterr() == before


# -- operands ----------------------------------------------------------------------------------------------------------
def test_numpy_operands_and_python_numbers_are_lifted_by_copy() -> None:
    host = X.copy()
    with Session() as session:
        x = session.bind(ADD, NO_PARAMS, (host, host))[0]
        y = session.array(host)
    host[:] = 0
    assert same_bits(x, X + X)
    assert same_bits(y, X)
    with Session() as session:
        assert (session.array(X) + 1).type == y.type
        assert ops.add(2, 3).item() == 5


def test_arrays_of_another_session_are_plain_operands() -> None:
    with Session() as first:
        x = first.array(X)
    with Session() as second:
        z = x + second.array(Y)
    assert z.session is second
    assert same_bits(z, X + Y)


def test_a_leaked_traced_value_is_refused() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> list[Any]:
        kept.append(x)
        return [x]

    trace_flat(leaky, [type_of_array(V)], check_leaks=False)
    with Session() as session, pytest.raises(LeakedTracerError, match=r"belongs to a trace that has ended"):
        session.array(V) + kept[0]


def test_an_operand_that_is_no_tensor_is_refused() -> None:
    with Session() as session, pytest.raises(TypeRuleError, match=r"a str is not a tensor operand") as caught:
        session.bind(ADD, NO_PARAMS, (session.array(V), "four"))
    assert "expected: a torchlean array, a NumPy array or a Python number" in str(caught.value)


def test_a_type_fault_names_op_types_and_line() -> None:
    with Session() as session, pytest.raises(TypeRuleError) as caught:
        session.bind(ADD, NO_PARAMS, (session.array(V), session.array(X)))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("add of f32[4], f32[3,4]: ")
    assert "test_session.py:" in first
    assert len(rest) <= 5


# -- which session answers ---------------------------------------------------------------------------------------------
def test_a_session_answers_while_entered_and_the_outer_one_afterwards() -> None:
    with Session() as outer:
        with Session() as inner:
            assert (array(V) + array(V)).session is inner
        assert (array(V) + array(V)).session is outer
        with pytest.raises(ZeroDivisionError), Session():
            raise ZeroDivisionError
        assert CURRENT.get() is outer
        with outer:
            assert CURRENT.get() is outer
        assert CURRENT.get() is outer


@pytest.mark.slow
def test_an_eager_op_costs_at_most_3_microseconds_over_numpys_call() -> None:
    """Paired rounds, so that a busy machine slows both; the fastest round of each counts."""
    a, b = f32(16), f32(16)
    with Session() as session:
        x, y = session.array(a), session.array(b)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(60):
            ours.append(timeit.timeit(lambda: x + y, number=1000) / 1000)
            theirs.append(timeit.timeit(lambda: np.add(a, b), number=1000) / 1000)
    assert min(ours) - min(theirs) <= 3e-6, f"{(min(ours) - min(theirs)) * 1e6:.2f} µs"


def test_a_session_needs_a_provider_that_runs_op_by_op() -> None:
    compiling = replace(checked_cpu, name="only_c", modules=checked_cpu.modules[:1])
    with pytest.raises(ConfigError) as caught:
        Session(compiling)
    assert str(caught.value) == (
        "a session on only_c has no kernels: its providers compile, and run lowered programs only\n"
        "  expected: a provider that runs op by op\n  got:      compiled\n"
        "  fix:      lower the function with this profile, or add a module such as backends.reference.MODULE"
    )
