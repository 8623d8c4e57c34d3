"""The value contract: results within the claimed bound of the definition, over samples and random operands.

Random operands keep a sample's shapes: normal numbers over nine decades, and numbers that cancel. Ops of single entries
get every kind of float there is, over sizes no power of two divides. The numerical policy is looked at in `policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule, Unstated
from torchlean.conformance.kit.bounds import Verdict, within
from torchlean.conformance.kit.calls import Arrays, Trial, defined, run_kernel, said
from torchlean.conformance.kit.factorised import FACTORED, PROMISED, broken_promises
from torchlean.conformance.kit.policy import try_policy
from torchlean.conformance.kit.subject import Subject
from torchlean.conformance.kit.tally import Tally
from torchlean.conformance.samples.draw import Array
from torchlean.ir.dtypes import dtype_of_carrier
from torchlean.ir.op import EffectOp
from torchlean.ir.rules import Pointwise

SIZES: tuple[tuple[int, ...], ...] = ((1009,), (33, 31), (3, 5, 7))
QUICK_SIZES: tuple[tuple[int, ...], ...] = ((1009,),)


def try_value(subject: Subject, tally: Tally) -> None:
    """Every check of the value contract. Samples it raises on are the shape contract's business."""
    served = [_try_bound(subject, trial, subject.defined(trial), tally) for trial in subject.served]
    for trial in random_trials(subject):
        error = _try_bound(subject, trial, defined(trial.op, trial.params, trial.arrays), tally)
        if error is not None and not any(served):
            tally.failed("raises", trial=trial, expected="results", got=said(error), fix="serve these operands")
    try_policy(subject, tally, pointwise=random_entries(subject))


def _try_bound(subject: Subject, trial: Trial, want: Arrays, tally: Tally) -> Exception | None:
    """Compare one call; what the kernel raised, if it did."""
    capsule = subject.capsule
    try:
        got = run_kernel(capsule, trial.params, trial.arrays)
    except Exception as error:
        return error
    tally.tried()
    if [(x.shape, x.dtype) for x in got] != [(x.shape, x.dtype) for x in want]:
        return None  # the shape contract's business
    verdict = verdict_of(capsule, trial, got, want)
    if isinstance(verdict, str):
        tally.failed(
            verdict, trial=trial, expected="backward stability", got="what is said above", fix="correct the kernel"
        )
        return None
    tally.deviated(verdict.deviation, verdict.ulps)
    if not verdict.ok:
        expected, seen = verdict.first(got, want)
        tally.failed(
            "lies outside the claimed bound",
            trial=trial,
            expected=expected,
            got=seen,
            fix="correct the kernel, or claim the bound it keeps",
        )
    return None


def verdict_of(capsule: Capsule, trial: Trial, got: Arrays, want: Arrays) -> Verdict | str:
    """How the results compare with the claimed bound; for factorisations, which promise is broken."""
    if isinstance(capsule.bound, Unstated) and trial.op in PROMISED:
        finite = all([array.size and np.isfinite(array).all() for array in trial.arrays])
        for fault in broken_promises(trial.op, trial.arrays[0], got, want) if finite else ():
            return f"returns {fault}"
    return within(capsule, trial.params, trial.arrays, got, want)


# -- random operands ---------------------------------------------------------------------------------------------------
def is_float(array: Array) -> bool:
    """Whether entries are real or complex floats that arithmetic is done with."""
    return dtype_of_carrier(array.dtype).is_inexact


def random_trials(subject: Subject) -> Iterator[Trial]:
    """The served calls on other operands."""
    yield from random_entries(subject)
    if subject.capsule.op in FACTORED:
        return  # random numbers make no positive definite matrix
    first = {trial.types: trial for trial in reversed(subject.served)}
    for number, trial in enumerate(first.values()):
        if any([is_float(array) and array.size for array in trial.arrays]):
            random = np.random.default_rng([subject.seed, number])
            yield trial.on([_spread_out(array, random) for array in trial.arrays], "random")
            yield trial.on([_cancelling(array, random) for array in trial.arrays], "cancelling")


def _spread_out(array: Array, random: np.random.Generator) -> Array:
    """Normal numbers times powers of ten from 1e-4 to 1e4."""
    if not is_float(array):
        return array
    made = random.normal(size=array.shape) * 10.0 ** random.integers(-4, 5, array.shape)
    if array.dtype.kind == "c":
        made = made + 1j * random.normal(size=array.shape)
    return np.asarray(made).astype(array.dtype)


def _cancelling(array: Array, random: np.random.Generator) -> Array:
    """Numbers most of which occur with either sign, large beside small."""
    if not is_float(array) or array.dtype.kind == "c":
        return array
    half = np.abs(_spread_out(np.zeros(array.size // 2 + 1, array.dtype), random))
    both = np.concatenate([half, -half])[: array.size]
    return random.permutation(both).reshape(array.shape)


def random_entries(subject: Subject) -> list[Trial]:
    """For ops of single entries: larger operands of all kinds of numbers, one trial per dtypes and params."""
    if isinstance(subject.capsule.op, EffectOp):
        return []
    chosen: dict[Any, Trial] = {}
    for trial in subject.served:
        if is_pointwise(trial):
            chosen.setdefault((trial.params, tuple([type.dtype for type in trial.types])), trial)
    made: list[Trial] = []
    for number, trial in enumerate(chosen.values()):
        for shape in QUICK_SIZES if subject.quick else SIZES:
            random = np.random.default_rng([subject.seed, number, *shape])
            larger = trial.on([_any_number(array.dtype, shape, random) for array in trial.arrays], f"{list(shape)}")
            if subject.capsule.refuses(larger.params, larger.types) is None:
                made.append(larger)
    return made


def is_pointwise(trial: Trial) -> bool:
    """Whether every entry of the results comes from the entries in its place alone."""
    if not trial.arrays or not isinstance(trial.op.batch, Pointwise):
        return False
    for shape in ((), (7,)):
        try:
            made = trial.op.type_rule(trial.params, *[type.with_shape(shape) for type in trial.types])
        except Exception:
            return False  # of matrices, say
        if any([type.shape != shape for type in made]):
            return False
    return True


def _any_number(carrier: np.dtype[Any], shape: Sequence[int], random: np.random.Generator) -> Array:
    """Random bits: every float there is, subnormals and NaN among them; half of them of ordinary size."""
    size = tuple(shape)
    if carrier.kind == "b":
        return random.integers(0, 2, size).astype(carrier)
    if carrier.kind == "c":
        made = random.normal(size=size) + 1j * random.normal(size=size)
        return made.astype(carrier)
    bits = np.frombuffer(random.bytes(int(np.prod(size)) * carrier.itemsize), np.dtype(f"u{carrier.itemsize}"))
    drawn = bits.reshape(size).view(carrier)
    if not dtype_of_carrier(carrier).is_float:
        return drawn.copy()
    ordinary = (random.normal(size=size) * 3).astype(carrier)
    return np.where(random.integers(0, 2, size) == 0, drawn, ordinary)
