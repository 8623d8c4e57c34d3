"""The backend report: the seven capsules of the quickstart, two lists, the text as golden lines, and plain data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from torchlean.backends.vocabulary import label
from torchlean.ir import ops
from torchlean.ir.ops.activation import relu
from torchlean.ir.ops.loss import mse_loss
from torchlean.ir.ops.neural import linear
from torchlean.runtime import Phase, Session

FORWARD = "[TorchLean] backend capsules used:"
DERIVATIVE = "[TorchLean] capsules used by torchlean-tape VJPs and updates:"
SEVEN = ["reshape", "permute", "matmul", "broadcast", "add", "relu", "mse_loss"]


def quickstart_step(session: Session) -> list[Any]:
    """One sample of the 2-8-1 MLP: forward, loss, backward, and a plain gradient step."""
    with session:
        session.reset_tape()
        params = [session.parameter(np.ones(shape, np.float32)) for shape in ((8, 2), (8,), (1, 8), (1,))]
        w1, b1, w2, b2 = params
        x, y = session.input(np.ones(2, np.float32)), session.input(np.ones(1, np.float32))
        loss = mse_loss(linear(relu(linear(x, w1, b1)), w2, b2), y)
        found = session.backward(loss)
        with session.updates():
            values = [session.array(p) for p in params]
            return [ops.sub(p, ops.mul(g, 0.1)) for p, g in zip(values, found, strict=True)]


def test_the_first_list_is_what_the_forward_and_the_loss_selected() -> None:
    session = Session(track_gradients=True)
    for _ in range(3):
        quickstart_step(session)
    assert [label(capsule.op) for capsule in session.report.forward] == SEVEN
    assert {str(capsule.provider) for capsule in session.report.forward} == {"reference"}
    assert [str(capsule.numerics.reduction) for capsule in session.report.forward] == [
        "n/a", "n/a", "fixed-left", "n/a", "n/a", "n/a", "fixed-left",
    ]  # fmt: skip
    derivative = [label(capsule.op) for capsule in session.report.derivative]
    assert {"sub", "mul", "full"} <= set(derivative)
    assert not set(derivative) & set(SEVEN)


def test_lines_are_told_as_they_happen_and_only_when_asked() -> None:
    told: list[str] = []
    session = Session(track_gradients=True, show_backend=True, report=told.append)
    assert told == [FORWARD]
    with session:
        ops.exp(session.input([1.0]))
    assert told[1].startswith("  exp: reference.exp provider=reference trust=checked vjp=torchlean-tape reduction=n/a")
    assert len(told) == 6
    with session:
        ops.exp(session.input([1.0]))
    assert len(told) == 6
    quickstart_step(session)
    assert told.count(FORWARD) == told.count(DERIVATIVE) == 1
    assert told.index(DERIVATIVE) == 6 + 5 * len(SEVEN)
    assert told == session.report.lines()
    silent: list[str] = []
    quickstart_step(Session(track_gradients=True, report=silent.append))
    assert silent == []


def test_a_capsule_moves_to_the_first_list_when_the_forward_uses_it() -> None:
    told: list[str] = []
    session = Session(show_backend=True, report=told.append)
    with session:
        with session.updates():
            session.array([1.0]) * session.array([2.0])
        assert [capsule.name for capsule in session.report.derivative] == ["reference.mul"]
        session.array([1.0]) * session.array([2.0])
    assert session.report.derivative == ()
    assert [capsule.name for capsule in session.report.forward] == ["reference.mul"]
    headers = [line for line in told if line.startswith("[")]
    assert headers == [FORWARD, DERIVATIVE, FORWARD]
    assert session.report.capsules(Phase.FORWARD) == session.report.forward


def test_a_body_that_is_selected_again_is_reported_again() -> None:
    """`linear` has no capsule: what its body selected during an update must appear when the forward calls it."""
    session = Session()
    with session:
        x, w = session.array(np.ones((2, 3), np.float32)), session.array(np.ones((4, 3), np.float32))
        with session.updates():
            linear(x, w)
        linear(x, w)
    assert [label(capsule.op) for capsule in session.report.forward] == ["permute", "matmul"]


def test_holding_data_is_no_line_of_the_report() -> None:
    session = Session()
    with session:
        session.array([1.0]) + np.array([2.0], np.float32)
    assert [label(capsule.op) for capsule in session.report.forward] == ["add"]


def test_the_text_of_the_report() -> None:
    session = Session()
    with session:
        session.array([1.0]) + session.array([2.0])
        with session.updates():
            session.array([1.0]) < session.array([2.0])  # noqa: B015
    test = "tests/backends/test_reference_bitwise.py::test_the_kernel_has_the_bits_of_the_definition"
    pulled = "tests/backends/test_reference_bitwise.py::test_the_gradient_has_the_bits_of_its_definition"
    assert str(session.report).splitlines() == [
        FORWARD,
        "  add: reference.add provider=reference trust=checked vjp=torchlean-tape reduction=n/a",
        "    shape: shape safety for add; guarded at runtime by portable runtime shape checks",
        "    layout: canonical-tensor layout compatibility for add; guarded at runtime by typed tensor layout",
        f"    value: add forward refines its TorchLean semantics; covered by test suite {test}",
        f"    vjp: add torchlean-tape VJP refines its TorchLean semantics; covered by test suite {pulled}",
        DERIVATIVE,
        "  lt: reference.lt provider=reference trust=checked vjp=none reduction=n/a",
        "    shape: shape safety for lt; guarded at runtime by portable runtime shape checks",
        "    layout: canonical-tensor layout compatibility for lt; guarded at runtime by typed tensor layout",
        f"    value: lt forward refines its TorchLean semantics; covered by test suite {test}",
        "    vjp: lt has no VJP in this capsule; not applicable",
    ]


def test_the_report_as_data() -> None:
    session = Session(track_gradients=True)
    quickstart_step(session)
    data = session.report.as_json()
    assert json.loads(json.dumps(data)) == data
    assert data["profile"] == "checked_cpu"
    assert [entry["op"] for entry in data["forward"]] == SEVEN
    matmul = data["forward"][2]
    assert {key: matmul[key] for key in ("capsule", "provider", "device", "trust", "vjp", "reduction")} == {
        "capsule": "reference.matmul",
        "provider": "reference",
        "device": "cpu",
        "trust": "checked",
        "vjp": "torchlean-tape",
        "reduction": "fixed-left",
    }
    assert list(matmul["contracts"]) == ["shape", "layout", "value", "vjp"]
    assert (
        matmul["contracts"]["shape"] == "shape safety for matmul; guarded at runtime by portable runtime shape checks"
    )
    assert len(data["derivative"]) == len(session.report.derivative) > 0
    empty = Session().report
    assert empty.lines() == [FORWARD]
    assert empty.as_json() == {"profile": "checked_cpu", "forward": [], "derivative": [], "composite_vjps": []}
