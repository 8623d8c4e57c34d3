"""The tape: gradients equal the graph transform's, unreached VJPs never run, handles are checked, all is data."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backends.toolbox import same_bits
from ops.composite_samples import ALL_CASES, float_operands, graph_of, has_reverse

from torchlean.errors import GradError, HandleError, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.builder import answerer
from torchlean.ir.graph import Graph
from torchlean.ir.ops.activation import relu, softmax
from torchlean.ir.ops.loss import mse_loss
from torchlean.ir.ops.neural import linear
from torchlean.ir.ops.norm import batch_norm_train, layer_norm
from torchlean.runtime import Session
from torchlean.transforms.api import grad, vjp

RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


def mlp(params: Any, x: Any, y: Any) -> Any:
    (w1, b1), (w2, b2) = params
    return mse_loss(linear(relu(linear(x, w1, b1)), w2, b2), y)


PARAMS = ((f32(8, 2), f32(8)), (f32(1, 8), f32(1)))
X, Y = f32(25, 2), f32(25, 1)


def tracked() -> Session:
    return Session(track_gradients=True)


def test_mlp_gradients_have_the_bits_of_the_graph_transform() -> None:
    with tracked() as session:
        params = tuple([tuple([session.parameter(p) for p in layer]) for layer in PARAMS])
        loss = mlp(params, session.input(X), session.input(Y))
        found = list(session.backward(loss))
    expected = grad(mlp)(PARAMS, X, Y)
    flat = [g for layer in expected for g in layer]
    assert len(found) == len(flat) == 4
    assert [same_bits(got, want) for got, want in zip(found, flat, strict=True)] == [True] * 4


FUNCTIONS: tuple[tuple[str, Callable[..., Any], tuple[Any, ...]], ...] = (
    ("shared operand", lambda x: (x * x).sum(), (f32(3),)),
    ("fan out", lambda x: (ops.exp(x) * ops.sin(x) + x).sum(), (f32(3),)),
    ("saved result", lambda x: ops.tanh(ops.exp(x)).sum(), (f32(4),)),
    ("broadcast", lambda x, b: ((x + b) * b).mean(), (f32(3, 4), f32(4))),
    ("matmul", lambda x, w: (x @ w).sum(), (f32(3, 4), f32(4, 2))),
    ("softmax", lambda x, y: (softmax(x, -1) * y).sum(), (f32(3, 4), f32(3, 4))),
    ("layer_norm", lambda x, s, b: (layer_norm(x, s, b) ** 2).sum(), (f32(3, 4), f32(4), f32(4))),
    ("indexing", lambda x: (x[1:, ::2] * 3.0).sum() + x[0, 0], (f32(3, 4),)),
    ("select", lambda x: ops.select(x > 0, x * 2.0, ops.exp(x)).sum(), (f32(5),)),
    ("max ties", lambda x: ops.max(x, ops.full((3,), 1.0)).sum(), (np.array([1, 0, 2], np.float32),)),
)


@pytest.mark.parametrize(("name", "f", "operands"), FUNCTIONS, ids=[case[0] for case in FUNCTIONS])
def test_gradients_equal_the_graph_transforms(name: str, f: Callable[..., Any], operands: Any) -> None:
    expected = grad(f, argnums=tuple(range(len(operands))))(*operands)
    with tracked() as session:
        handles = [session.parameter(x) for x in operands]
        found = session.backward(f(*handles))
    for handle, want in zip(handles, expected, strict=True):
        np.testing.assert_allclose(found[handle], want, rtol=2e-6, atol=1e-7)


DIFFERENTIABLE = [case for case in ALL_CASES if float_operands(case) and case.smooth and has_reverse(case.op)]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=repr)
def test_every_op_pulls_back_as_its_vjp_graph_does(case: Any) -> None:
    assert len(DIFFERENTIABLE) >= 100
    graph = graph_of(case)
    wrt = float_operands(case)
    with tracked() as session:
        handles = [session.parameter(x) if at in wrt else session.input(x) for at, x in enumerate(case.arrays)]
        out = session.evaluate(graph, tuple(handles))[0]
        if out.node < 0 or not session.tape.nodes[out.node].requires_grad:
            return  # the first result has no derivative: nothing to compare
        seed = np.random.default_rng(3).normal(size=out.shape).astype(out.dtype.carrier)
        found = session.backward(out, seed)

        _, pull = vjp(_replay(graph), *case.arrays)
        expected = pull(seed)
    for at in wrt:
        assert same_bits(found[handles[at]], expected[at])


def _replay(graph: Graph) -> Callable[..., Any]:
    """The first result of a graph, as a function of operands."""
    return lambda *arrays: answerer().evaluate(graph, arrays)[0]


def test_python_branches_on_concrete_values() -> None:
    def f(x: Any) -> Any:
        return (x * 2.0).sum() if float(x.sum()) > 0 else (ops.exp(x) - 100.0).sum()

    for sign in (1.0, -1.0):
        with tracked() as session:
            x = session.parameter(np.full(2, sign, np.float32))
            y = f(x)
            assert session.backward(y)[x].tolist() == pytest.approx([2.0, 2.0] if sign > 0 else [np.exp(-1.0)] * 2)


def test_unreached_nodes_get_zeros_and_their_vjp_never_runs() -> None:
    """d/dx of log at 0 is inf: were its VJP run on a zero cotangent, 0 · inf would be NaN."""
    with tracked() as session:
        x = session.parameter(np.zeros(3, np.float32), "x")
        side = ops.log(x)
        session.backward((x * 3.0).sum())
        assert session.gradient(x).tolist() == [3.0, 3.0, 3.0]
        out = (x + 1.0).sum()
        grads = session.tape.backward_dense(session.node_of(out))
        assert len(grads) == len(session.tape)
        assert np.asarray(grads[side.node]).tolist() == [0.0, 0.0, 0.0]
        assert np.asarray(grads[x.node]).tolist() == [1.0, 1.0, 1.0]
    used = [capsule.name for capsule in session.report.derivative]
    assert "reference.log" not in used
    assert "reference.div" not in used  # what the VJP of log runs


def test_sparse_keeps_the_chosen_nodes_and_agrees_with_dense() -> None:
    with tracked() as session:
        handles = [session.parameter(p) for layer in PARAMS for p in layer]
        loss = mlp((handles[:2], handles[2:]), session.input(X), session.input(Y))
        tape = session.tape
        dense = tape.backward_dense(loss.node)
        kept = [0, 2, loss.node - 1, loss.node]
        sparse = tape.backward_sparse(loss.node, retain=kept)
        assert list(sparse) == kept
        assert [same_bits(sparse[id], dense[id]) for id in kept] == [True] * 4
        assert np.asarray(sparse[loss.node]) == 1.0
        assert tape.backward_sparse(loss.node) == {}


def test_explicit_initial_gradients_are_added_up() -> None:
    with tracked() as session:
        x = session.parameter([1.0, 2.0])
        y = x * x
        z = ops.exp(x)
        initial: list[Any] = [None] * len(session.tape)
        initial[y.node] = np.ones(2, np.float32)
        initial[z.node] = np.full(2, 10.0, np.float32)
        initial[x.node] = np.full(2, 100.0, np.float32)
        grads = session.tape.backward_dense_from(initial)
    np.testing.assert_allclose(grads[x.node], 100 + 2 * np.array([1, 2]) + 10 * np.exp([1.0, 2.0]), rtol=1e-6)


def test_an_op_with_several_results() -> None:
    def f(x: Any, s: Any, b: Any) -> Any:
        y, mean, var = batch_norm_train(x, s, b)
        return (y * y).sum() + mean.sum() * 2.0 + var.sum()

    operands = (f32(5, 3), f32(3), f32(3))
    expected = grad(f, argnums=(0, 1, 2))(*operands)
    with tracked() as session:
        handles = [session.parameter(x) for x in operands]
        found = session.backward(f(*handles))
    for handle, want in zip(handles, expected, strict=True):
        np.testing.assert_allclose(found[handle], want, rtol=1e-5, atol=1e-6)


def test_gradients_of_inputs_and_intermediates_on_request() -> None:
    with tracked() as session:
        w, x = session.parameter([2.0], "w"), session.input([3.0], "x")
        y = w * x
        loss = (y * y).sum()
        found = session.backward(loss, retain=(y,))
        assert found[y].tolist() == [12.0]
        assert found["w"].tolist() == [36.0]
        assert [g.tolist() for g in found] == [[36.0], [12.0]]
        assert len(found) == 2
        session.reset_tape()
        assert found["w"].tolist() == [36.0]  # results outlive the tape


def test_the_second_derivative_by_taping_the_vjp() -> None:
    """A gradient is ops too: record `grad` of a function inside the session and sweep it again."""
    with tracked() as session:
        x = session.parameter(np.float32(0.5))
        slope = grad(lambda v: ops.sin(v) * v)(x)
        found = session.backward(slope)[x]
    assert float(found) == pytest.approx(2 * np.cos(0.5) - 0.5 * np.sin(0.5), rel=1e-6)


# -- handles -----------------------------------------------------------------------------------------------------------
def test_stale_handles_are_refused_by_name() -> None:
    with tracked() as session:
        w = session.parameter([1.0], "w")
        y = w * w
        session.reset_tape()
        for use in (lambda: w + w, lambda: session.backward(w), lambda: session.node_of(w)):
            with pytest.raises(HandleError) as caught:
                use()
            lines = str(caught.value).splitlines()
            assert lines[0].startswith(
                "stale 'w' f32[1] from generation 0; current generation is 1 "
                "(reset_tape invalidates recorded references) (test_tape.py:"
            )
            assert lines[1:] == [
                "  expected: a handle made after the last reset_tape",
                "  got:      one of generation 0",
                "  fix:      make it again: session.parameter(x) and session.input(x) accept the old one for its value",
            ]
        with pytest.raises(HandleError, match=r"stale a result f32\[1\] from generation 0"):
            y + y
        assert w.tolist() == [1.0]  # its value is still there
        again = session.parameter(w, "w")
        assert (again * 2.0).tolist() == [2.0]


def test_foreign_handles_are_refused_by_name() -> None:
    with tracked() as first:
        w = first.parameter([1.0], "w")
    with tracked() as second:
        for use in (lambda: w + w, lambda: second.backward(w), lambda: second.gradient(w)):
            with pytest.raises(HandleError) as caught:
                use()
            lines = str(caught.value).splitlines()
            assert lines[0].startswith("'w' f32[1] belongs to a different session (test_tape.py:")
            assert lines[1:] == [
                f"  expected: a handle of session {second.name}",
                f"  got:      one of session {first.name}",
                "  fix:      use it inside `with` its own session, or pass its value: numpy.asarray(x)",
            ]
    with pytest.raises(HandleError, match="belongs to a different session"):  # nor does a default session take it
        w + w


def test_what_is_not_recorded_has_no_gradient() -> None:
    with tracked() as session:
        plain = session.array([1.0])
        with pytest.raises(HandleError) as caught:
            session.backward(plain)
        assert str(caught.value).startswith(f"f32[1] is not recorded on the tape of session {session.name} (test_tape")
        assert "fix:      make it a parameter first" in str(caught.value)
        assert (plain + plain).node == -1
        assert len(session.tape) == 0
    with Session() as untracked:
        w = untracked.parameter([1.0])
        assert w.node == -1
        with pytest.raises(HandleError, match=r"open Session\(track_gradients=True\)"):
            untracked.backward(w.sum())


def test_backward_refuses_what_is_no_scalar_and_parameters_that_are_no_floats() -> None:
    with tracked() as session:
        w = session.parameter([1.0, 2.0], "w")
        with pytest.raises(GradError) as caught:
            session.backward(w * w)
        assert str(caught.value).startswith("backward of f32[2] (test_tape.py:")
        assert session.backward(w * w, seed=np.ones(2, np.float32))[w].tolist() == [2.0, 4.0]
        with pytest.raises(GradError, match=r"parameter steps i32\[\] cannot have a gradient"):
            session.parameter(3, "steps")
        with pytest.raises(GradError, match=r"parameter of type i32\[\] cannot have a gradient"):
            session.parameter(3)


def test_gradients_that_were_not_kept_are_refused() -> None:
    with tracked() as session:
        w = session.parameter([1.0], "w")
        y = w * w
        found = session.backward(y.sum())
        with pytest.raises(HandleError, match=r"the gradient of node 1 f32\[1\] was not kept") as caught:
            found[y]
        assert "pass backward(loss, retain=(x,))" in str(caught.value)
        with pytest.raises(HandleError, match=r"0 handles with a gradient are named 'v'") as caught:
            found["v"]
        assert "expected: one of: w" in str(caught.value)


def test_tape_level_errors() -> None:
    with tracked() as session:
        w = session.parameter([1.0, 2.0], "w")
        y = w * w
    tape = session.tape
    with pytest.raises(HandleError) as missing:
        tape.backward_dense(9)
    assert str(missing.value).startswith("invalid node id 9 (test_tape.py:")
    assert "expected: an id in [0, 2)" in str(missing.value)
    with pytest.raises(HandleError, match="invalid node id -1"):
        tape.backward_sparse(y.node, retain=[-1])
    with pytest.raises(TypeRuleError) as seed:
        tape.backward_dense(y.node, np.ones(3, np.float32))
    assert str(seed.value).startswith(
        "upstream gradient of node 1 (a result of mul) does not have the node's type (test_"
    )
    assert "expected: f32[2]" in str(seed.value)
    assert "got:      float32[3]" in str(seed.value)
    with pytest.raises(TypeRuleError, match=r"got:      float64\[2\]"):
        tape.backward_dense(y.node, np.ones(2))
    with pytest.raises(TypeRuleError, match="initial gradients: one entry per node is needed"):
        tape.backward_dense_from([None])


# -- data --------------------------------------------------------------------------------------------------------------
def test_the_tape_prints_and_serialises() -> None:
    with tracked() as session:
        w, x = session.parameter([[1.0, 2.0]], "w"), session.input([[1.0, 1.0]])
        ops.gt((w * x + np.float32(1)).sum(1), 0.0)
    assert str(session.tape).splitlines() == [
        f"tape of session {session.name}, generation 0: 6 nodes",
        "  %0: f32[1,2] = parameter 'w'",
        "  %1: f32[1,2] = input  # no gradient",
        "  %2: f32[1,2] = mul(%0, %1)",
        "  %3: f32[1,2] = add(%2, ·)",
        "  %4: f32[1] = reduce_sum(%3, axes=(1,))",
        "  %5: bool[1] = gt(%4, ·)  # no gradient",
    ]
    data = session.tape.as_json()
    assert json.loads(json.dumps(data)) == data
    assert data["nodes"][4] == {
        "id": 4,
        "op": "reduce_sum",
        "name": "",
        "params": ["axes=(1,)"],
        "parents": [3],
        "type": "f32[1]",
        "output": 0,
        "requires_grad": True,
    }
    assert [node["op"] for node in data["nodes"]] == ["leaf", "leaf", "mul", "add", "reduce_sum", "gt"]


def test_nodes_hold_data_only() -> None:
    with tracked() as session:
        mlp(
            tuple([tuple([session.parameter(p) for p in layer]) for layer in PARAMS]),
            session.input(X),
            session.input(Y),
        )
    for node in session.tape.nodes:
        assert node.owner == session.name
        assert node.generation == 0
        for field in (node.params, node.parents, node.saved, node.name):
            assert not callable(field)


def test_only_what_the_vjp_reads_is_saved() -> None:
    with tracked() as session:
        x, y = session.parameter(f32(4)), session.parameter(f32(4))
        total, product, raised = x + y, x * y, ops.exp(x)
        nodes = session.tape.nodes
        assert nodes[total.node].saved == ()
        assert nodes[product.node].saved == (x.buffer, y.buffer)
        assert nodes[raised.node].saved == (raised.buffer,)  # the result: exp is not computed again


def test_reset_gives_the_memory_back() -> None:
    with tracked() as session:
        w = session.parameter(np.ones(1000))
        y = w
        for _ in range(10):
            y = ops.exp(y * 1e-3)
        loss = y.sum()
        held = session.allocator.live
        assert held >= 11 * 8000
        session.backward(loss)
        session.reset_tape()
        del y, loss
        assert session.allocator.live == 8000  # the parameter's own value
        del w
        assert session.allocator.live == 0
        assert session.selections > 0
    assert gc.collect() >= 0


def test_a_released_saved_buffer_is_noticed() -> None:
    with tracked() as session:
        x = session.parameter([1.0, 2.0])
        loss = (x * x).sum()
        x.buffer.release()
        with pytest.raises(HandleError, match="used after its release"):
            session.backward(loss)


def test_a_session_is_freed_without_the_garbage_collector() -> None:
    """No cycle: array → session → tape → buffers."""
    gc.collect()
    gc.disable()
    try:
        session = tracked()
        allocator = session.allocator
        with session:
            x = session.parameter(np.ones(1000))
            session.backward((x * x).sum())
        del session, x
        assert allocator.live == 0
    finally:
        gc.enable()
