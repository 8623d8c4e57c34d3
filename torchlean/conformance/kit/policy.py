"""The numerical policy, probed: order of additions, contraction, accumulator, subnormals, and independence of place.

`fixed-left` on a plain sum means the left fold's bits whatever the bound, unless products are fused, and the order read
off by probes. `n/a` means that no order shows: an entry's bits do not depend on where it stands. Claims of
`implementation-defined` are not probed; nothing could contradict them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.backends.capsule import Bitwise, Capsule, Ulp
from torchlean.backends.vocabulary import Accumulator, Contraction, Reduction, Subnormals
from torchlean.conformance.kit import probes
from torchlean.conformance.kit.bounds import different_bits, same_bits, within, without_subnormals
from torchlean.conformance.kit.calls import Trial, defined, run_kernel, said
from torchlean.conformance.kit.subject import Subject
from torchlean.conformance.kit.tally import Tally
from torchlean.conformance.samples.draw import Array
from torchlean.ir.dtypes import dtype_of_carrier

FOLD_SIZES = (1, 2, 3, 5, 7, 17, 100, 1000)
SMALL = 1 << 10  # of the smallest subnormal: what a bound that is not exact must still keep apart from 0
MOST_TINY = 24


def try_policy(subject: Subject, tally: Tally, *, pointwise: Sequence[Trial]) -> None:
    """Every numerical claim that something could contradict."""
    capsule = subject.capsule
    for sum in probes.sums_of(capsule.op):
        for dtype in probes.float_dtypes():
            if probes.serves(capsule, sum, dtype):
                _try_order(capsule, sum, dtype, tally)
                _try_contraction(capsule, sum, dtype, tally)
                _try_accumulator(capsule, sum, dtype, tally)
                if capsule.numerics.reduction is Reduction.FIXED_LEFT:
                    _try_left_fold(capsule, sum, dtype, subject.seed, tally)
    if capsule.numerics.reduction is Reduction.NOT_APPLICABLE:
        for trial in pointwise:
            _try_independence(capsule, trial, tally)
    _try_subnormals(subject, tally)


# -- order -------------------------------------------------------------------------------------------------------------
def _try_order(capsule: Capsule, sum: probes.Sum, dtype: Any, tally: Tally) -> None:
    claimed = capsule.numerics.reduction
    fixed_tree = claimed is Reduction.FIXED_TREE
    if claimed is not Reduction.FIXED_LEFT and not fixed_tree:
        return
    tally.tried()
    sizes = probes.meeting_sizes(capsule, sum, dtype)
    tree = probes.tree_of(sizes)
    where = f"{sum.name}, {np.dtype(dtype).name}, {probes.TERMS} terms"
    if claimed is Reduction.FIXED_LEFT and not np.array_equal(sizes, probes.left_fold_sizes()):
        tally.failed(
            f"does not add left to right ({where})",
            expected="((0+1)+2)+…, as `fixed-left` says",
            got=probes.tree_text(tree),
            fix="add in index order, or claim implementation-defined",
        )
    if fixed_tree:
        _try_tree(capsule, sum, dtype, tree, where, tally)


def _try_tree(
    capsule: Capsule, sum: probes.Sum, dtype: Any, tree: probes.Tree | None, where: str, tally: Tally
) -> None:
    """The tree read off by probes gives the bits of other sums too: entries have no say in it."""
    terms = np.random.default_rng(probes.TERMS).normal(size=probes.TERMS) * 10.0 ** (np.arange(probes.TERMS) % 5 - 2)
    x = terms.astype(dtype)
    got = probes.summed(capsule, sum, x)
    if tree is None or got != float(probes.added_by(tree, x)):
        tally.failed(
            f"does not add in one tree ({where})",
            expected="one order of additions in the operands' format, whatever the entries, as `fixed-tree` says",
            got=probes.tree_text(tree) if tree is None else f"{got!r}, not {probes.added_by(tree, x)!r}",
            fix="fix the order, or claim implementation-defined",
        )


def _try_left_fold(capsule: Capsule, sum: probes.Sum, dtype: Any, seed: int, tally: Tally) -> None:
    """The bits of the definition on sums of several sizes whose terms cancel."""
    if capsule.numerics.contraction in (Contraction.FUSED, Contraction.IMPLEMENTATION_DEFINED):
        return
    for size in FOLD_SIZES:
        random = np.random.default_rng([seed, size])
        half = random.normal(size=(size + 1) // 2) * 10.0 ** random.integers(-3, 4, (size + 1) // 2)
        terms = random.permutation(np.concatenate([half, -half])[:size]).astype(dtype)
        others = random.normal(size=size).astype(dtype) if sum.has_products else np.ones(size, dtype)
        arrays = sum.operands(terms, others)
        tally.tried()
        got, want = run_kernel(capsule, sum.params, arrays)[0], defined(capsule.op, sum.params, arrays)[0]
        if not same_bits(got, want):
            tally.failed(
                f"is not the left fold ({sum.name}, {np.dtype(dtype).name}, {size} terms, seed {seed})",
                expected=f"{want.reshape(-1)[-1]!r}: the bits of the definition, as `fixed-left` says",
                got=repr(np.asarray(got).reshape(-1)[-1]),
                fix="add rounded products in index order, starting from 0, or claim implementation-defined",
            )
            return


def _try_independence(capsule: Capsule, trial: Trial, tally: Tally) -> None:
    """Entries in another order, and fewer of them, keep their bits."""
    try:
        whole = run_kernel(capsule, trial.params, trial.arrays)
    except Exception:
        return  # reported with the bound
    flat = [array.reshape(-1) for array in trial.arrays]
    order = np.random.default_rng(len(flat[0])).permutation(len(flat[0]))
    shape = trial.arrays[0].shape
    for what, chosen, shaped in (
        ("in another order", order, shape),
        ("alone", order[:1], (1,)),
        ("among other entries", np.arange(3, min(20, len(order))), (min(20, len(order)) - 3,)),
    ):
        arrays = [np.ascontiguousarray(array[chosen].reshape(shaped)) for array in flat]
        tally.tried()
        try:
            moved = run_kernel(capsule, trial.params, arrays)
        except Exception as error:
            tally.failed("raises", trial=trial, expected="results", got=said(error), fix="serve every size")
            return
        for mine, theirs in zip(moved, whole, strict=True):
            want = theirs.reshape(-1)[chosen].reshape(shaped)
            if mine.shape != want.shape or not _same(capsule, mine, want):
                tally.failed(
                    f"gives other bits for entries {what}",
                    trial=trial,
                    expected="bits that depend on the entry alone: the reduction order is n/a",
                    got=f"{_count(mine, want)} of {want.size} entries differ",
                    fix="compute every entry alike, or claim implementation-defined",
                )


def _same(capsule: Capsule, mine: Array, want: Array) -> bool:
    if capsule.bound == Ulp(0):
        return bool(np.array_equal(mine, want, equal_nan=dtype_of_carrier(mine.dtype).is_inexact))
    return same_bits(mine, want)


def _count(mine: Array, want: Array) -> int:
    return int(different_bits(mine, want).sum()) if mine.shape == want.shape and mine.dtype == want.dtype else want.size


# -- products and accumulators -----------------------------------------------------------------------------------------
def _try_contraction(capsule: Capsule, sum: probes.Sum, dtype: Any, tally: Tally) -> None:
    claimed = capsule.numerics.contraction
    if claimed is Contraction.IMPLEMENTATION_DEFINED or not sum.has_products:
        return
    tally.tried()
    found = probes.unrounded_products(capsule, sum, dtype)
    where = f"{sum.name}, {np.dtype(dtype).name}"
    if found and claimed is not Contraction.FUSED:
        tally.failed(
            f"adds products that were not rounded ({where})",
            expected=f"0 from (1+h)² - (1+2h), as contraction `{claimed}` says",
            got=f"h² for the products at {found[0]}, and {len(found) - 1} other pairs",
            fix="round products before adding them (no fused multiply-add), or claim fused",
        )
    if not found and claimed is Contraction.FUSED:
        tally.failed(
            f"rounds every product before adding it ({where})",
            expected="h² from (1+h)² - (1+2h) somewhere, as contraction `fused` says",
            got="0 for every pair of places",
            fix="claim separate",
        )


def _try_accumulator(capsule: Capsule, sum: probes.Sum, dtype: Any, tally: Tally) -> None:
    claimed = capsule.numerics.accumulator
    if claimed not in (Accumulator.OPERAND, Accumulator.WIDER):
        return
    tally.tried()
    wider = probes.keeps_what_is_absorbed(capsule, sum, dtype)
    every, some = "1 in every order", "0 in some order"
    if wider is not (claimed is Accumulator.WIDER):
        tally.failed(
            f"does not accumulate as claimed ({sum.name}, {np.dtype(dtype).name})",
            expected=f"M + 1 - M is {some if wider else every}, as `{claimed}` says",
            got=every if wider else some,
            fix=f"claim {Accumulator.WIDER if wider else Accumulator.OPERAND}",
        )


# -- subnormals --------------------------------------------------------------------------------------------------------
def _try_subnormals(subject: Subject, tally: Tally) -> None:
    """Where the definition gives subnormals, a kernel that keeps them does not give 0, and one that flushes does.

    The first float operand is made of subnormals, or all are.
    """
    claimed = subject.capsule.numerics.subnormals
    if claimed is Subnormals.IMPLEMENTATION_DEFINED:
        return
    tried = 0
    for trial in _of_plain_floats(subject.served):
        if tried >= MOST_TINY:
            return
        random = np.random.default_rng([subject.seed, tried])
        for every in (False, True):
            probe = trial.on(_with_subnormals(trial, random, every), "subnormal operands")
            try:
                want = defined(probe.op, probe.params, probe.arrays)
                got = run_kernel(subject.capsule, probe.params, probe.arrays)
            except Exception:
                continue  # what raises is reported elsewhere
            if claimed is Subnormals.ZERO:
                tried += _subnormals_count(subject.capsule, probe, got, want, tally)
            elif _subnormals_told_apart(subject.capsule, probe, got, want, tally):
                tried += 1


def _of_plain_floats(trials: Sequence[Trial]) -> list[Trial]:
    """The first non-empty trial of each different list of types that holds an IEEE float."""
    first = {trial.types: trial for trial in reversed(trials)}
    return [
        trial
        for trial in first.values()
        if any([_is_plain(array) for array in trial.arrays])
        and all([array.size and np.isfinite(array).all() for array in trial.arrays if _is_plain(array)])
    ]


def _is_plain(array: Array) -> bool:
    return array.dtype.kind == "f" and dtype_of_carrier(array.dtype).is_float


def _with_subnormals(trial: Trial, random: np.random.Generator, every: bool) -> list[Array]:
    made = list(trial.arrays)
    for at, array in enumerate(made):
        if _is_plain(array):
            made[at] = probes.tiny(array.shape, array.dtype, random)
            if not every:
                break
    return made


def _subnormals_count(
    capsule: Capsule, trial: Trial, got: Sequence[Array], want: Sequence[Array], tally: Tally
) -> bool:
    """Compare, with subnormals as themselves or as zeros; whether the definition tells the two apart."""
    flushed = defined(trial.op, trial.params, [without_subnormals(array) for array in trial.arrays])
    if all([same_bits(mine, theirs) for mine, theirs in zip(flushed, want, strict=True)]):
        return False
    tally.tried()
    verdict = within(capsule, trial.params, trial.arrays, tuple(got), tuple(want))
    if not verdict.ok:
        expected, seen = verdict.first(tuple(got), tuple(want))
        tally.failed(
            "takes subnormal numbers neither as they are nor as zeros",
            trial=trial,
            expected=f"{expected}; or what zeros in their place give",
            got=seen,
            fix="let each subnormal count as itself or as 0, or claim implementation-defined",
        )
    return True


def _subnormals_told_apart(
    capsule: Capsule, trial: Trial, got: Sequence[Array], want: Sequence[Array], tally: Tally
) -> bool:
    """Compare, where the definition gives subnormals; whether it gives any."""
    flushes = capsule.numerics.subnormals is Subnormals.FLUSHED
    exact = isinstance(capsule.bound, Bitwise | Ulp)
    told = False
    for mine, theirs in zip(got, want, strict=True):
        if not _is_plain(theirs) or mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            continue
        limits = np.finfo(theirs.dtype)
        least = float(limits.smallest_subnormal) * (1 if exact else SMALL)
        small = (np.abs(theirs) < limits.tiny) & (np.abs(theirs.astype(np.float64)) >= least)
        if not small.any():
            continue
        told = True
        tally.tried()
        wrong = small & ((mine != 0) if flushes else (mine == 0))
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            tally.failed(
                "keeps subnormal results it claims to flush" if flushes else "flushes subnormal results",
                trial=trial,
                expected=f"{'0' if flushes else repr(theirs[at])}, as `{capsule.numerics.subnormals}` says",
                got=repr(mine[at]),
                fix="claim what the kernel does with results below the smallest normal number",
            )
    return told
