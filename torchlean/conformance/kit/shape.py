"""The shape contract: results have the declared types, and the guard refuses everything the op's type rule refuses.

What a capsule says it serves is part of it: `refuses` gives one answer, what it refuses does not bind, what it accepts
runs; and a handler made for another op, provider or device does not bind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule
from torchlean.backends.handler import Handler, Kernel, Session, Traits, Types, bind_capsule
from torchlean.backends.vocabulary import Device
from torchlean.conformance.kit.calls import Trial, kernel_for, lone_node, refused, said
from torchlean.conformance.kit.subject import Subject
from torchlean.conformance.kit.tally import Tally
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Node
from torchlean.ir.op import Op
from torchlean.ir.ops.elementwise import ADD, MUL
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record

GUARD = "derive the types again in `bind` and raise BindError, as torchlean.backends.handler.guard_types does"


def try_shape(subject: Subject, tally: Tally) -> None:
    """Every check of the shape contract."""
    _try_identity(subject, tally)
    _try_refusals(subject, tally)
    for trial in subject.served:
        _try_results(subject.capsule, trial, tally)
    for trial in _one_per_type(subject.served):
        _try_guard(subject.capsule, trial, tally)


# -- results -----------------------------------------------------------------------------------------------------------
def _try_results(capsule: Capsule, trial: Trial, tally: Tally) -> None:
    tally.tried()
    node, types = lone_node(capsule.op, trial.params, trial.types)
    declared = tuple([types[id] for id in node.outputs])
    try:
        made = kernel_for(capsule, trial.params, trial.types)(*[array.copy() for array in trial.arrays])
    except Exception as error:
        tally.failed(
            "raises on operands that `refuses` accepts",
            trial=trial,
            expected=f"{show_types(declared)}, or a reason from `refuses`",
            got=said(error),
            fix="serve these operands, or let `refuses` say why not",
        )
        return
    shown = _shown(made)
    if shown != [f"{type.dtype.carrier}{list(type.shape)}" for type in declared]:
        tally.failed(
            "returns other types than the op declares",
            trial=trial,
            expected=show_types(declared),
            got=", ".join(shown) or "nothing",
            fix="return one array per result, of exactly the declared shape and dtype",
        )


def _shown(results: Sequence[Any]) -> list[str]:
    return [
        f"{made.dtype}{list(made.shape)}" if isinstance(made, np.ndarray | np.generic) else type(made).__name__
        for made in results
    ]


# -- the guard ---------------------------------------------------------------------------------------------------------
def _one_per_type(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each different list of operand types."""
    return list({trial.types: trial for trial in reversed(trials)}.values())


def _try_guard(capsule: Capsule, trial: Trial, tally: Tally) -> None:
    node, types = lone_node(capsule.op, trial.params, trial.types)
    declared = tuple([types[id] for id in node.outputs])
    for operands in _wrong_operands(capsule.op, trial):
        count = len(operands)
        given = node._replace(inputs=tuple(range(count)), outputs=tuple(range(count, count + len(declared))))
        _must_refuse(capsule, given, operands + declared, trial, tally, f"operands {show_types(operands) or 'none'}")
    for results in _wrong_results(declared):
        count = len(trial.types)
        given = node._replace(outputs=tuple(range(count, count + len(results))))
        _must_refuse(capsule, given, trial.types + results, trial, tally, f"results declared {show_types(results)}")


def _must_refuse(
    capsule: Capsule, node: Node, types: tuple[TensorType, ...], trial: Trial, tally: Tally, what: str
) -> None:
    tally.tried()
    got = _unrefused(capsule, node, types)
    if got is not None:
        tally.failed(f"the guard lets through {what}", trial=trial, expected="BindError", got=got, fix=GUARD)


def _unrefused(capsule: Capsule, node: Node, types: tuple[TensorType, ...]) -> str | None:
    """What binding the node gives instead of a refusal, or None."""
    try:
        bind_capsule(capsule, node, types, None)
    except Exception as error:
        return None if refused(error) else said(error)
    return "a kernel"


def _wrong_operands(op: Op, trial: Trial) -> Iterator[tuple[TensorType, ...]]:
    """Operand types close to the trial's that the op's type rule refuses."""
    types = trial.types
    near: list[tuple[TensorType, ...]] = [types[:-1]] if types else []
    near.append((*types, TensorType((3,), DType.F32)))
    for at, type in enumerate(types):
        other = DType.F64 if type.dtype is not DType.F64 else DType.F32
        changed = [type.with_shape((*type.shape, 2)), type.with_dtype(other), type.with_dtype(DType.BOOL)]
        if type.rank:
            changed.append(type.with_shape((type.shape[0] + 1, *type.shape[1:])))
            changed.append(type.with_shape(type.shape[1:]))
        near += [(*types[:at], made, *types[at + 1 :]) for made in changed if made != type]
    for candidate in near:
        try:
            made = op.type_rule(trial.params, *candidate)
        except Exception:
            yield candidate
        else:
            if made != op.type_rule(trial.params, *types):
                yield candidate  # another call, whose results are not those declared


def _wrong_results(declared: tuple[TensorType, ...]) -> Iterator[tuple[TensorType, ...]]:
    first = declared[0]
    other = DType.F64 if first.dtype is not DType.F64 else DType.F32
    yield (first.with_shape((*first.shape, 2)), *declared[1:])
    yield (first.with_dtype(other), *declared[1:])
    yield (*declared, first)


# -- refusals ----------------------------------------------------------------------------------------------------------
def _try_refusals(subject: Subject, tally: Tally) -> None:
    capsule = subject.capsule
    refusing = 0
    for trial in subject.trials:
        try:
            answers: list[Any] = [capsule.refuses(trial.params, trial.types) for _ in range(2)]
        except Exception as error:
            tally.tried()
            tally.failed(
                "`refuses` raises",
                trial=trial,
                expected="None, or a reason",
                got=said(error),
                fix="return the reason instead",
            )
            continue
        if answers[0] != answers[1]:
            tally.tried()
            tally.failed(
                "`refuses` changes its answer",
                trial=trial,
                expected="one answer for one call: plans remember it",
                got=f"{answers[0]!r}, then {answers[1]!r}",
                fix="let `refuses` depend on params and operand types only",
            )
        elif answers[0] is not None:
            refusing += 1
            tally.tried()
            if not isinstance(answers[0], str) or not answers[0].strip():
                tally.failed(
                    "`refuses` gives no reason",
                    trial=trial,
                    expected="a sentence that plans can print",
                    got=repr(answers[0]),
                    fix="return the reason as a string",
                )
            _refused_does_not_bind(capsule, trial, tally)
    if refusing == len(subject.trials):
        tally.failed(
            "refuses every call that is known of its op",
            expected=f"at least one of {refusing} samples served",
            got=f"reasons such as {capsule.refuses(subject.trials[0].params, subject.trials[0].types)!r}",
            fix="serve something, drop the capsule, or name samples that it serves: `SAMPLES` beside the module",
        )


def _refused_does_not_bind(capsule: Capsule, trial: Trial, tally: Tally) -> None:
    node, types = lone_node(capsule.op, trial.params, trial.types)
    got = _unrefused(capsule, node, types)
    if got is not None:
        tally.failed(
            "binds what `refuses` refuses",
            trial=trial,
            expected="BindError with the reason",
            got=got,
            fix="bind through torchlean.backends.bind_capsule",
        )


# -- identity ----------------------------------------------------------------------------------------------------------
@record(eq=False)
class _Disguised:
    """A handler that says it is for another op, provider or device."""

    inner: Handler
    op: Op
    provider: str
    device: Device

    @property
    def traits(self) -> Traits:
        return self.inner.traits

    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        return self.inner.bind(node, types, session)


def _try_identity(subject: Subject, tally: Tally) -> None:
    """The capsule binds its own node, no other op's, and no handler made for another op, provider or device."""
    capsule = subject.capsule
    trial = (subject.served or subject.trials)[0]
    handler: Handler = capsule.handler
    node, types = lone_node(capsule.op, trial.params, trial.types)
    another = MUL if capsule.op is ADD else ADD
    elsewhere = Device.METAL if capsule.device is not Device.METAL else Device.TPU
    op, provider, device = capsule.op, capsule.provider, capsule.device
    for what, other in (
        ("a handler of another op", _Disguised(handler, another, provider, device)),
        ("a handler of another provider", _Disguised(handler, op, f"not_{provider}", device)),
        ("a handler of another device", _Disguised(handler, op, provider, elsewhere)),
    ):
        _must_refuse(replace(capsule, handler=other), node, types, trial, tally, what)
    _must_refuse(capsule, node._replace(op=another), types, trial, tally, f"a node of {another.name}")
