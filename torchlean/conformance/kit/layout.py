"""The layout contract: how operands lie in memory decides nothing, and memory that is not the kernel's stays untouched.

Operands come in Fortran order, with gaps, reversed, and read-only. A capsule of `canonical-tensor` layout takes them
all: with the same bits, or within its bound when its reduction order is implementation-defined. A capsule of another
layout may refuse them by raising a TorchLeanError, and may not give wrong results instead. The handler's traits are
claims of memory too: views, operands before broadcasting, and writing in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule, Ulp
from torchlean.backends.handler import Traits, bind_capsule
from torchlean.backends.vocabulary import Reduction
from torchlean.conformance.kit.bounds import same_bits, within
from torchlean.conformance.kit.calls import Arrays, Trial, kernel_for, lone_node, refused, said
from torchlean.conformance.kit.subject import Subject
from torchlean.conformance.kit.tally import Tally
from torchlean.conformance.samples.draw import Array
from torchlean.ir.dtypes import dtype_of_carrier

CANONICAL = "canonical-tensor"
MOST = 150  # calls tried; those of each operand types come first
QUICK_MOST = 6

Run = Callable[..., tuple[Any, ...]]


def try_layout(subject: Subject, tally: Tally) -> None:
    """Every check of the layout contract."""
    trials = _varied(subject.served, QUICK_MOST if subject.quick else MOST)
    traits: Traits = subject.capsule.handler.traits
    for trial in trials:
        try:
            run = kernel_for(subject.capsule, trial.params, trial.types)
            straight = tuple([np.asarray(made) for made in run(*[array.copy() for array in trial.arrays])])
        except Exception:
            continue  # the shape contract's business
        _try_memory(subject, trial, run, straight, tally)
        _try_aliasing(subject.capsule, traits, trial, run, tally)
        if traits.accepts_unspread:
            _try_unspread(subject, trial, run, tally)
        if traits.inplace:
            _try_inplace(subject.capsule, trial, straight, tally)


def _varied(trials: Sequence[Trial], most: int) -> list[Trial]:
    """First one trial of each different operand types, then the rest, up to so many."""
    firsts = {trial.types: trial for trial in reversed(trials)}
    chosen = [trial for trial in trials if firsts[trial.types] is trial]
    return [*chosen, *[trial for trial in trials if firsts[trial.types] is not trial]][:most]


# -- operands ----------------------------------------------------------------------------------------------------------
def layouts(array: Array) -> Iterator[tuple[str, Array]]:
    """The same entries read-only, in Fortran order, with gaps, and as a reversed view."""
    frozen = np.array(array, order="C")
    frozen.flags.writeable = False
    yield "read-only", frozen
    if array.ndim == 0:
        yield from [(how, frozen) for how in ("in Fortran order", "with gaps", "reversed")]
        return
    yield "in Fortran order", np.array(array, order="F")
    wide = np.zeros([2 * size for size in array.shape], array.dtype)
    gaps = wide[tuple([slice(None, None, 2)] * array.ndim)]
    gaps[...] = array
    yield "with gaps", gaps
    back = tuple([slice(None, None, -1)] * array.ndim)
    yield "reversed", np.array(array[back], order="C")[back]


def _try_memory(subject: Subject, trial: Trial, run: Run, straight: Arrays, tally: Tally) -> None:
    """Other layouts give the same; operands are not written to."""
    capsule = subject.capsule
    for pairs in zip(*[layouts(array) for array in trial.arrays], strict=True):
        how = pairs[0][0]
        given = [array for _, array in pairs]
        tally.tried()
        try:
            made = tuple([np.asarray(result) for result in run(*given)])
        except Exception as error:
            if capsule.layout_kind != CANONICAL and how != "read-only" and refused(error):
                continue
            tally.failed(
                f"raises on operands {how}",
                trial=trial,
                expected="the results for row-major operands"
                if capsule.layout_kind == CANONICAL
                else f"results, or a TorchLeanError, since the capsule says {capsule.layout_kind}",
                got=said(error),
                fix="copy such operands first (np.ascontiguousarray), or never write to them",
            )
            continue
        _compare(subject, trial, how, made, straight, tally)
        _require_unwritten(given, trial, tally, lambda at, how=how: f"operand {at} {how} changed")
    _try_writing(trial, run, tally)


def _try_writing(trial: Trial, run: Run, tally: Tally) -> None:
    """Writable operands stay as they were."""
    given = [array.copy() for array in trial.arrays]
    tally.tried()
    try:
        run(*given)
    except Exception:
        return  # reported above
    _require_unwritten(given, trial, tally, lambda at: "other entries after the call")


def _require_unwritten(given: Sequence[Array], trial: Trial, tally: Tally, got: Callable[[int], str]) -> None:
    for at, (array, original) in enumerate(zip(given, trial.arrays, strict=True)):
        if not same_bits(array, original):
            tally.failed(
                f"writes to operand {at}",
                trial=trial,
                expected="operands left as they were",
                got=got(at),
                fix="write to an array of the kernel's own",
            )


def _compare(subject: Subject, trial: Trial, how: str, made: Arrays, straight: Arrays, tally: Tally) -> None:
    capsule = subject.capsule
    if [x.shape for x in made] != [x.shape for x in straight] or [x.dtype for x in made] != [x.dtype for x in straight]:
        same, got = False, "results of other types"
    elif capsule.numerics.reduction is Reduction.IMPLEMENTATION_DEFINED:
        verdict = within(capsule, trial.params, trial.arrays, made, subject.defined(trial))
        same, got = verdict.ok, "results outside the bound"
    else:
        different = [not _equal(capsule, mine, theirs) for mine, theirs in zip(made, straight, strict=True)]
        same, got = not any(different), "other bits"
    if not same:
        tally.failed(
            f"gives something else for operands {how}",
            trial=trial,
            expected="the bits of row-major operands"
            if capsule.layout_kind == CANONICAL
            else f"those bits, or a TorchLeanError, since the capsule says {capsule.layout_kind}",
            got=got,
            fix="copy such operands first (np.ascontiguousarray), or raise a BindError for them",
        )


def _equal(capsule: Capsule, mine: Array, theirs: Array) -> bool:
    """The same bits; where the bound is `Ulp(0)`, which leaves the sign of zero open, the same numbers."""
    if capsule.bound == Ulp(0):
        return bool(np.array_equal(mine, theirs, equal_nan=dtype_of_carrier(mine.dtype).is_inexact))
    return same_bits(mine, theirs)


# -- results -----------------------------------------------------------------------------------------------------------
def _try_aliasing(capsule: Capsule, traits: Traits, trial: Trial, run: Run, tally: Tally) -> None:
    """Results are new memory unless the handler says `view`, and a second call leaves those of the first alone."""
    given = [array.copy() for array in trial.arrays]
    tally.tried()
    try:
        made = [np.asarray(result) for result in run(*given)]
        kept = [result.copy() for result in made]
        if not traits.view:
            for number, result in enumerate(made):
                for at, operand in enumerate(given):
                    if np.shares_memory(result, operand):
                        tally.failed(
                            f"result {number} is memory of operand {at}",
                            trial=trial,
                            expected="new memory: the handler's traits do not say `view`",
                            got="shared memory",
                            fix="return a copy, or give the handler the trait `view=True`",
                        )
        run(*[_moved(array) for array in trial.arrays])
    except Exception as error:
        tally.failed(
            "raises on a second call",
            trial=trial,
            expected="results",
            got=said(error),
            fix="keep no state between calls",
        )
        return
    if not all([same_bits(mine, theirs) for mine, theirs in zip(made, kept, strict=True)]):
        tally.failed(
            "a second call changes the results of the first",
            trial=trial,
            expected="results that stay",
            got="other entries",
            fix="return new arrays: a buffer of the kernel's own may not be handed out",
        )


def _moved(array: Array) -> Array:
    """Other entries of the same type, still valid as positions: each axis reversed."""
    if array.ndim == 0:
        return array.copy()
    return np.array(array[tuple([slice(None, None, -1)] * array.ndim)], order="C")


# -- traits ------------------------------------------------------------------------------------------------------------
def _try_unspread(subject: Subject, trial: Trial, run: Run, tally: Tally) -> None:
    """Operands before broadcasting give what broadcast ones give."""
    capsule = subject.capsule
    shapes = {array.shape for array in trial.arrays}
    if len(shapes) != 1 or not trial.arrays[0].size or trial.arrays[0].ndim == 0:
        return
    for spread_at in range(len(trial.arrays)):
        if len(trial.arrays) == 1:
            return
        narrow = trial.arrays[spread_at][..., :1]
        if narrow.shape == trial.arrays[spread_at].shape:
            return
        wide = np.ascontiguousarray(np.broadcast_to(narrow, trial.arrays[spread_at].shape))
        others = list(trial.arrays)
        others[spread_at] = wide
        given = list(others)
        given[spread_at] = narrow.copy()
        tally.tried()
        try:
            want = tuple([np.asarray(x) for x in run(*others)])
            made = tuple([np.asarray(x) for x in run(*given)])
        except Exception as error:
            made, want, got = (), (np.zeros(0),), said(error)
        else:
            got = "something else"
        if len(made) != len(want) or not all([_equal(capsule, a, b) for a, b in zip(made, want, strict=True)]):
            tally.failed(
                f"operand {spread_at} before broadcasting gives something else",
                trial=trial,
                expected="the bits of the broadcast operand, as the trait `accepts_unspread` says",
                got=got,
                fix="broadcast in the kernel, or drop the trait",
            )


def _try_inplace(capsule: Capsule, trial: Trial, straight: Arrays, tally: Tally) -> None:
    """A ufunc kernel told to write over an operand gives the same bits."""
    node, types = lone_node(capsule.op, trial.params, trial.types)
    kernel = bind_capsule(capsule, node, types, None)
    if not isinstance(kernel, np.ufunc):
        return
    result = types[node.outputs[0]]
    for at, type in enumerate(trial.types):
        if type != result:
            continue
        given = [array.copy() for array in trial.arrays]
        tally.tried()
        with np.errstate(all="ignore"):
            kernel(*given, out=given[at])
        if not _equal(capsule, given[at], straight[0]):
            tally.failed(
                f"writing over operand {at} gives something else",
                trial=trial,
                expected="the bits of a new result, as the trait `inplace` says",
                got="something else",
                fix="drop the trait `inplace`",
            )
