"""An audit says what a plan relies on; one that was edited by hand is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean.backends import AcceptedPlan, accept, audit, profiles
from torchlean.backends.document import canonical_text, read_graph
from torchlean.errors import InternalError, SerializationError
from torchlean.ir import ops


def lowered() -> Any:
    x = np.ones((3, 5), np.float32)
    return tl.lower(lambda x: ops.sum(ops.exp(x)), x, profile=profiles.checked_cpu)


def edits(kernel: dict[str, Any]) -> Iterator[str]:
    """Each text of a kernel's audit, changed in place."""
    for field, held in kernel.items():
        if isinstance(held, str):
            kernel[field] = f"{held}!"
            yield field
            kernel[field] = held
        elif isinstance(held, dict):
            yield from edits(held)


def test_each_edit_of_an_audit_is_refused() -> None:
    made = lowered().as_json()
    read_graph(canonical_text(made))
    tried = 0
    for kernel in made["audit"]["kernels"]:
        for _ in edits(kernel):
            with pytest.raises(SerializationError, match="the content does not have the hash it claims"):
                read_graph(canonical_text(made))
            tried += 1
    assert tried >= 20
    read_graph(canonical_text(made))


def test_an_audit_cannot_be_exchanged() -> None:
    plan = lowered().plan
    accepted = accept(plan)
    with pytest.raises(AttributeError, match="an AcceptedPlan cannot be changed"):
        accepted.audit = audit(plan)  # type: ignore[misc]
    with pytest.raises(InternalError, match=r"an AcceptedPlan is made by accept\(plan\) only"):
        AcceptedPlan(plan, audit(plan), object())


def test_an_edited_audit_differs_from_the_one_the_plan_gives() -> None:
    """Whoever keeps an audit beside a result can tell: audits compare by content."""
    program = lowered()
    again = audit(program.plan)
    assert again == program.audit
    kept = program.audit.as_json()
    kept["kernels"][0]["trust"] = "trusted-external"
    assert kept != again.as_json()
