"""The record that defines an op: type, meaning, derivative, batching, in one place and with no defaulted rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlean.ir.rules import BatchRule, DiffRule
from torchlean.ir.types import TensorType
from torchlean.record import record


@record
class NoParams:
    """Parameters of an op that has none."""


NO_PARAMS = NoParams()


class TypeFault(Exception):
    """Raised by a type rule. Whoever called the rule adds the op, the operand types and the user's line."""

    def __init__(self, what: str, *, expected: str, got: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.got = got
        self.fix = fix


TypeRule = Callable[..., tuple[TensorType, ...]]
Denotation = Callable[..., tuple[Any, ...]]


@record(eq=False)
class Op:
    """One operation. Compared by identity, so a record can key a table.

    `type_rule(params, *types) -> types out`, raises `TypeFault`.
    `denote(algebra, params, *arrays) -> arrays out`: the definition, written over an `Algebra`.
    `diff`, `batch`: see `ir/rules.py`. `reduces`: does the value depend on a summation order.
    """

    name: str
    params: type
    type_rule: TypeRule
    denote: Denotation
    diff: DiffRule
    batch: BatchRule
    reduces: bool
    doc: str

    def __repr__(self) -> str:
        return f"<op {self.name}>"


@record(eq=False)
class EffectOp(Op):
    """An op that is run for what it does, such as printing; its results mean nothing.

    Its nodes run once each, in graph order: none is shared with an equal one, and none is dead code.
    """
