"""Gradients of arrays find the program of an equal traced graph: what differs between calls is seen, and kept apart."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backends.toolbox import same_bits

import torchlean as tl
from torchlean import debug, ops
from torchlean.backends.profiles import checked_cpu, fast_cpu, numpy_cpu, reference_cpu
from torchlean.errors import GradError, TorchLeanError, TypeRuleError
from torchlean.ir.literal import CONSTANT
from torchlean.runtime import Session, array, kernels, remembered
from torchlean.transforms.api import complex_grad, grad, value_and_grad
from torchlean.transforms.custom import custom_vjp

A = np.array([1.5, -2.0, 0.25], np.float32)
FACTOR = 1.0  # a global that a test changes


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(reference_cpu) as made:
        yield made


def kept(session: Session) -> list[Any]:
    return list(session.remembered._known.values())


def capsules(found: Any) -> list[str]:
    return [step.capsule.name for step in found.executable.plan.steps]


# -- what an equal graph computes with ---------------------------------------------------------------------------------
def test_an_equal_graph_is_derived_and_planned_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    plan = remembered.plan
    monkeypatch.setattr(remembered, "plan", lambda *given: plans.append(given) or plan(*given))
    x = array(A)
    for call in range(5):
        np.testing.assert_array_equal(grad(lambda x: (x * x).sum())(x), 2 * A)
        assert (len(session.remembered), len(plans)) == (1, min(call, 1))
    assert kept(session)[0].calls == 4


def test_an_array_closed_over_is_read_at_each_call(session: Session) -> None:
    x = array(A)
    for scale in (1.0, 2.0, -3.0, 2.0):
        weights = array(np.full(3, scale, np.float32))
        np.testing.assert_array_equal(grad(lambda x, w=weights: (x * w).sum())(x), np.full(3, scale))
    assert len(session.remembered) == 1


def test_a_numpy_array_changed_in_place_is_read_at_each_call(session: Session) -> None:
    x, weights = array(A), np.ones(3, np.float32)
    for scale in (1.0, 2.0, -3.0):
        weights[:] = scale
        np.testing.assert_array_equal(grad(lambda x: (x * weights).sum())(x), np.full(3, scale))
    assert len(session.remembered) == 1


def test_a_numpy_array_changed_within_the_function_counts_as_it_was_when_used(session: Session) -> None:
    x, weights = array(A), np.zeros(3, np.float32)

    def f(x: Any) -> Any:
        weights[:] = 5
        used = (x * weights).sum()
        weights[:] = 7
        return used + (x * weights).sum()

    for _ in range(3):
        np.testing.assert_array_equal(grad(f)(x), np.full(3, 12))


def test_a_numpy_scalar_is_an_operand_too(session: Session) -> None:
    x = array(A)
    for rate in (0.5, 0.25, -0.0):
        made = grad(lambda x, r=rate: (x * ops.broadcast_to(ops.constant(np.float32(r)), (3,))).sum())(x)
        same_bits(np.asarray(made), np.full(3, rate, np.float32))
    assert len(session.remembered) == 1


def test_another_number_is_another_graph(session: Session) -> None:
    x = array(A)
    for scale in (0.0, -0.0, 2, 2.0, 3.5, 0.0):
        same_bits(np.asarray(grad(lambda x, k=scale: (x * k).sum())(x)), np.full(3, scale, np.float32))
    assert len(session.remembered) == 4  # 2 and 2.0 are one number of a float tensor


def test_a_branch_on_a_global_is_taken_at_each_call(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    x = array(A)

    def f(x: Any) -> Any:
        return (x * x).sum() if FACTOR > 0 else (x * x * x).sum()

    for factor in (1.0, -1.0, 1.0, -1.0):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        np.testing.assert_array_equal(grad(f)(x), 2 * A if factor > 0 else 3 * A * A)
    assert len(session.remembered) == 2


def test_other_shapes_and_dtypes_are_other_graphs(session: Session) -> None:
    for dtype in (np.float32, np.float64):
        for size in (1, 2, 1):
            x = np.arange(size, dtype=dtype)
            made = grad(lambda x: (x * x).sum())(x)
            assert (made.type.shape, made.type.dtype.carrier) == ((size,), dtype)
            np.testing.assert_array_equal(made, 2 * x)
    assert len(session.remembered) == 4


def test_arguments_of_numpy_need_not_be_plain(session: Session) -> None:
    grad(lambda x: (x * x).sum())(A)
    for x in (A[::-1], A.astype(">f4"), np.broadcast_to(A, (3,)), A.view(np.recarray)):
        np.testing.assert_array_equal(grad(lambda x: (x * x).sum())(x), 2 * np.asarray(x))


def test_kernels_are_given_contiguous_native_arrays() -> None:
    for x in (A[::-1], A.astype(">f4"), np.broadcast_to(A[0], (3,)), A.view(np.recarray), np.float32(2), A):
        host = remembered._host(x)
        assert (host.__class__, host.dtype.isnative, host.flags.c_contiguous) == (np.ndarray, True, True)
        np.testing.assert_array_equal(host, np.asarray(x))
    assert remembered._host(A) is A


def test_results_share_no_memory_with_arguments(session: Session) -> None:
    x, w = A.copy(), A.copy()
    for _ in range(3):
        made = np.asarray(grad(lambda x, w=w: (x * w).sum())(x))
        w += 1
        np.testing.assert_array_equal(made, w - 1)


# -- what decides the derivative ---------------------------------------------------------------------------------------
def test_the_derivative_policy_is_part_of_what_is_looked_up(session: Session) -> None:
    x = array(np.zeros(1, np.float32))

    def f(x: Any) -> Any:
        return (ops.sqrt(x) * 0.0).sum()

    for _ in range(3):
        assert float(grad(f)(x)) == 0
        assert np.isnan(float(grad(f, ieee_derivatives=True)(x)))
    assert len(session.remembered) == 2


def test_the_arguments_differentiated_are_part_of_what_is_looked_up(session: Session) -> None:
    x, y = array(A), array(A + 1)

    def f(x: Any, y: Any) -> Any:
        return (x * y).sum()

    for _ in range(3):
        np.testing.assert_array_equal(grad(f, 0)(x, y), A + 1)
        np.testing.assert_array_equal(grad(f, 1)(x, y), A)
        for got, want in zip(grad(f, (1, 0))(x, y), (A, A + 1), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(session.remembered) == 3


def test_the_field_is_part_of_what_is_looked_up(session: Session) -> None:
    z = array(np.array([1 + 2j], np.complex64))

    def f(z: Any) -> Any:
        return (ops.real(z) ** 2).sum()

    for _ in range(2):
        assert complex(complex_grad(f)(z)) == 2
        with pytest.raises(GradError, match="holomorphic"):
            grad(lambda z: ops.convert(f(z), "c64"), holomorphic=True)(z)
    for _ in range(2):
        assert complex(grad(lambda z: (z * z).sum(), holomorphic=True)(z)) == 2 + 4j
        with pytest.raises(GradError, match="complex"):
            complex_grad(lambda z: (z * z).sum())(z)


def test_values_and_auxiliary_results_are_of_this_call(session: Session) -> None:
    x = array(A)
    for call in range(3):
        (value, aux), made = value_and_grad(lambda x, c=call: ((x * x).sum(), {"call": c, "x": x + 1}), has_aux=True)(x)
        assert (float(value), aux["call"]) == (float((A * A).sum()), call)
        np.testing.assert_array_equal(aux["x"], A + 1)
        np.testing.assert_array_equal(made, 2 * A)
    assert len(session.remembered) == 1


def test_a_refusal_is_made_at_each_call(session: Session) -> None:
    for _ in range(3):
        with pytest.raises(GradError, match=r"grad of f, which returns f32\[3\]"):
            grad(named_f)(A)
        with pytest.raises(TypeRuleError, match="broadcast"):
            grad(lambda x: (x + np.ones(2, np.float32)).sum())(A)
    assert len(session.remembered) == 0


def named_f(x: Any) -> Any:
    return x * 2


named_f.__name__ = "f"


# -- what is not remembered --------------------------------------------------------------------------------------------
def test_effects_happen_at_each_call_and_are_not_remembered(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    def f(x: Any) -> Any:
        debug.print("x is {x}", x=x)
        return (x * x).sum()

    for _ in range(3):
        grad(f)(array(A))
    assert capsys.readouterr().out.count("x is") == 3
    assert len(session.remembered) == 0


def test_rules_of_the_user_are_asked_at_each_call(session: Session) -> None:
    asked: list[float] = []

    def backward(factor: float) -> Any:
        rule = custom_vjp(lambda x: (x * x).sum())
        rule.defvjp(lambda x: ((x * x).sum(), x), lambda x, ct: (asked.append(factor) or x * (ct * factor),))
        return rule

    for factor in (1.0, 2.0, 1.0):
        np.testing.assert_array_equal(grad(backward(factor))(array(A)), factor * A)
    assert asked == [1.0, 2.0, 1.0]
    assert len(session.remembered) == 0


def test_large_constants_within_control_flow_are_not_kept(session: Session) -> None:
    large = np.ones(remembered.MOST_BYTES // 4 + 1, np.float32)

    def f(x: Any) -> Any:
        return ops.scan(lambda c, y: (c + (y * large).sum(), None), x.sum(), x)[0]

    for _ in range(2):
        np.testing.assert_array_equal(grad(f)(array(A)), np.full(3, 1 + large.size, np.float32))
    assert all(remembered.repeatable(key[0]) for key in session.remembered._known)


def test_the_reuse_of_keys_is_watched_for_all_the_same(session: Session) -> None:
    key = tl.random.key(0)

    def f(x: Any) -> Any:
        return (x * tl.random.normal(key, (3,))).sum()

    for _ in range(2):
        grad(f)(array(A))
    with tl.random.check_key_reuse():
        grad(f)(array(A))
        with pytest.raises(TorchLeanError, match="key"):
            grad(f)(array(A))
    calls = [found.calls for found in kept(session)]
    with tl.random.check_key_reuse():
        grad(lambda x: (x * ops.constant(A)).sum())(array(A))
        grad(lambda x: (x * ops.constant(A)).sum())(array(A))
    assert [found.calls for found in kept(session)] == calls


def test_nan_checks_run_node_by_node(session: Session) -> None:
    def f(x: Any) -> Any:
        return ops.log(x).sum()

    for _ in range(3):
        grad(f)(array(-A))
    with debug.nan_checks(), pytest.raises(TorchLeanError, match="log"):
        grad(f)(array(-A))


def test_handles_are_recorded_and_those_closed_over_are_constants() -> None:
    with Session(reference_cpu, track_gradients=True) as session:
        for _ in range(3):
            x, w = session.parameter(A, "x"), session.parameter(A, "w")
            loss = (grad(lambda x, w=w: (x * x * w).sum())(x) * 1.0).sum()
            gradients = session.backward(loss)
            np.testing.assert_array_equal(gradients[x], 2 * A)
            np.testing.assert_array_equal(gradients[w], 0 * A)
            session.reset_tape()


# -- whose it is -------------------------------------------------------------------------------------------------------
def test_sessions_remember_apart_and_run_their_own_kernels() -> None:
    x = array(A)
    for profile in (reference_cpu, numpy_cpu):
        with Session(profile) as session:
            for _ in range(3):
                made = grad(lambda x: ops.exp(x).sum())(x)
                assert made.session is session
            assert len(session.remembered) == 1
            assert {name.split(".")[0] for name in capsules(kept(session)[0])} <= {
                module.name for module in profile.modules
            }
            assert any(name.startswith(profile.modules[0].name) for name in capsules(kept(session)[0]))


def test_threads_that_share_a_session_each_compute_with_their_own_arrays() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    results: list[tuple[int, Any]] = []
    session = Session(reference_cpu)

    def work(number: int) -> None:
        with session:
            x = array(A)
            for step in range(40):
                weights = np.full(3, 100 * number + step, np.float32)
                made = grad(lambda x, w=weights, k=step % 3: (x * w * k).sum())(x)
                results.append((number, np.array_equal(made, weights * (step % 3))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(results) == 240
    assert all(right for _, right in results)
    assert len(session.remembered) == 3


# -- how much ----------------------------------------------------------------------------------------------------------
def test_there_is_a_bound_and_what_is_used_stays(session: Session) -> None:
    x = array(A)

    def hot() -> Any:
        return grad(lambda x: (x * x).sum())(x)

    hot()
    first = kept(session)[0]
    for number in range(3 * remembered.MOST_GRAPHS):
        grad(lambda x, k=float(number): (x * k).sum())(x)
        if number % 50 == 0:
            hot()
        assert len(session.remembered) <= remembered.MOST_GRAPHS
    assert kept(session)[0] is first


def test_all_being_used_the_older_half_goes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_GRAPHS", 4)
    x = array(A)
    for number in range(4):
        for _ in range(2):
            grad(lambda x, k=float(number): (x * k).sum())(x)
    held = kept(session)
    grad(lambda x: (x * 9.0).sum())(x)
    assert [found for found in kept(session) if found in held] == held[2:]


def test_bodies_of_composites_are_bounded_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MOST_ENTRIES", 8)
    for number in range(30):
        made = grad(lambda x, n=number: ops.softmax(x * float(n), axis=0)[0].sum())(array(A[: number + 1]))
        assert made.type.shape == A[: number + 1].shape
        grad(lambda x: ops.softmax(x, axis=0)[0].sum())(array(np.ones(number + 1, np.float32)))
        assert len(session.bodies) < 8 + 4


def test_arrays_are_let_go(session: Session) -> None:
    x, closed, host = array(A), array(A + 1), np.ones(1000, np.float32)
    references = sys.getrefcount(host)
    alive = [weakref.ref(x), weakref.ref(closed)]
    for _ in range(3):
        grad(lambda x, c=closed: (x * c).sum() + (ops.constant(host).sum() * x).sum())(x)
    del x, closed
    gc.collect()
    assert [ref() for ref in alive] == [None, None]
    assert sys.getrefcount(host) == references
    graphs = [key[0] for key in session.remembered._known] + [found.graph for found in kept(session)]
    assert len(graphs) == 2
    assert not [node for graph in graphs for node in graph.nodes if node.op is CONSTANT]


# -- which kernels -----------------------------------------------------------------------------------------------------
def loss(p: Any, x: Any) -> Any:
    return ops.mse_loss(ops.linear(ops.relu(ops.linear(x, p[0])), p[1]), np.ones((4, 1), np.float32))


def test_what_comes_often_runs_as_the_profile_lowers_it_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "COMPILED_AFTER", 3)
    rng = np.random.default_rng(5)
    p, x = [rng.normal(size=s).astype(np.float32) for s in ((5, 3), (1, 5))], rng.normal(size=(4, 3)).astype(np.float32)
    with Session(checked_cpu) as session:
        made = [grad(loss)(p, x) for _ in range(6)]
        (found,) = kept(session)
        program = tl.lower(grad(loss), p, x, profile=checked_cpu)
        assert capsules(found) == [step.capsule.name for step in program.plan.steps if step.node.op is not CONSTANT]
        assert {capsule.name for capsule in session.report.forward} >= set(capsules(found))
    for later in made[1:]:
        for got, want in zip(later, made[0], strict=True):
            same_bits(np.asarray(got), np.asarray(want))


def test_what_has_no_definite_bits_stays_on_the_kernels_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "COMPILED_AFTER", 3)
    x = array(A)
    with Session(fast_cpu) as session:
        for _ in range(6):
            grad(lambda x: ops.exp(x @ x) * 1.0)(x)
        (found,) = kept(session)
        assert found.settled
        assert not [name for name in capsules(found) if name.startswith("compiled")]


def test_a_switch_of_the_profile_plans_again(session: Session) -> None:
    x = array(A)
    for _ in range(3):
        grad(lambda x: (x * x).sum())(x)
    (found,) = kept(session)
    first, kernels = found.executable, session._kernels
    kernels.profile = reference_cpu.under(reference_cpu.policy, name="switched")  # as `current_profile` sets it
    np.testing.assert_array_equal(grad(lambda x: (x * x).sum())(x), 2 * A)
    assert found.executable is not first
    assert found.executable.plan.profile.name == "switched"


def test_what_updates_run_is_reported_as_theirs(session: Session) -> None:
    x = array(A)

    def run() -> None:
        for _ in range(3):
            grad(lambda x: ops.relu(x).sum())(x)

    with session.updates():
        run()
    derivative = {capsule.name for capsule in session.report.derivative}
    assert "reference.select" in derivative
    assert "relu" in {op.removesuffix(".vjp") for op, _, _ in session.report.vjps}
    run()
    assert "reference.select" in {capsule.name for capsule in session.report.forward}
