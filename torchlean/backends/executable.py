"""Executables: an accepted plan compiled to a Python function over NumPy arrays. Made from an `AcceptedPlan` only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.backends.accept import AcceptedPlan
from torchlean.backends.audit import PlanAudit
from torchlean.backends.codegen import generate
from torchlean.backends.handler import Session, wrong_result
from torchlean.backends.plan import Plan
from torchlean.errors import BindError, InternalError, message
from torchlean.ir.types import show_types, type_of_array

Array = np.ndarray[Any, Any]


class Executable:
    """`call(*arrays)` is the generated function itself: it trusts types. `checked` tests those of what goes in and out.

    `source` is what runs; `plan` and `audit` are what was accepted. Results share no memory with arguments, constants
    or one another; but an array at a position in `plan.donated`, if it is a result of XLA as it was given, is written
    over, whoever sees it. `lower` looks after that.
    """

    __slots__ = ("accepted", "call", "source")

    call: Callable[..., tuple[Array, ...]]

    def __init__(self, accepted: AcceptedPlan, session: Session | None = None) -> None:
        if not isinstance(accepted, AcceptedPlan):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InternalError(f"an Executable is made from an AcceptedPlan, got a {type(accepted).__name__}")
        generated = generate(accepted, session)
        scope = dict(generated.names)
        exec(compile(generated.source, f"<torchlean {accepted.plan.graph.name}>".replace("\0", "␀"), "exec"), scope)
        self.accepted = accepted
        self.source = generated.source
        self.call = scope["run"]

    @property
    def plan(self) -> Plan:
        return self.accepted.plan

    @property
    def audit(self) -> PlanAudit:
        return self.accepted.audit

    def checked(self, *arrays: Array) -> tuple[Array, ...]:
        """`call`, comparing the types of arguments and results with the graph's: BindError when the arguments differ,
        InternalError naming the capsule whose result does.
        """
        graph = self.plan.graph
        wanted = graph.input_types
        given = tuple([type_of_array(array) for array in arrays])
        if given != wanted:
            raise BindError(
                message(
                    f"the arguments of {graph.name} have other types than it was planned for",
                    expected=show_types(wanted),
                    got=show_types(given),
                    fix="lower the function again for these types",
                )
            )
        results = self.call(*arrays)
        for id, type, result in zip(graph.outputs, graph.output_types, results, strict=True):
            if result.shape != type.shape or result.dtype != type.dtype.carrier:
                makers = [step.capsule.name for step in self.plan.steps if id in step.node.outputs]
                raise wrong_result(makers[0] if makers else "an argument", type, result)
        return results

    def __repr__(self) -> str:
        return f"<Executable {self.plan!r}>"
