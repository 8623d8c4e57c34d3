"""einsum: sums of products, written by naming axes.

The operands are combined from left to right, two at a time, each pair by one `dot_general`; there is no search for a
cheaper order, so that the order of rounding is the one written. An axis is summed as soon as nothing later needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import shown
from torchlean.ir import ops
from torchlean.ir.builder import bind1
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.numpy.diagonals import diagonal
from torchlean.numpy.dtypes import result_type
from torchlean.numpy.operands import operand, refused

__all__ = [
    "einsum",
]

Labels = tuple[Any, ...]
_FIX = "write one letter per axis, e.g. tnp.einsum('ij,jk->ik', a, b)"


def einsum(subscripts: Any, /, *operands: Any) -> Any:
    """The sum of products `subscripts` describes: "ij,jk->ik", with "..." for axes that broadcast.

    Without "->" the result's axes are "..." and the letters that occur once, in alphabetical order. A letter that
    occurs twice in one operand takes its diagonal. NumPy's other form works too:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
    """
    if isinstance(subscripts, str):
        inputs, output = _parsed(subscripts, len(operands))
        arrays: Sequence[Any] = operands
    else:
        arrays, inputs, output = _interleaved((subscripts, *operands))
    xs = [operand("einsum", x) for x in arrays]
    dtype = result_type(*[x.type.dtype for x in xs])
    named = [_labels(x, each, at) for at, (x, each) in enumerate(zip(xs, inputs, strict=True))]
    result = _output(named, output)
    terms = [
        _without_repeats(ops.convert(x, dtype), each, at) for at, (x, each) in enumerate(zip(xs, named, strict=True))
    ]
    terms = _fitted(terms)
    for label in result:
        if all([label not in labels for _, labels in terms]):
            raise refused(
                f"einsum: the result has {label!r}, no operand has",
                expected="letters of the operands",
                got=str(label),
                fix=_FIX,
            )
    total, labels = terms[0]
    for at, (x, other) in enumerate(terms[1:], start=2):
        later = {label for _, each in terms[at:] for label in each} | set(result)
        total, labels = _combined(total, labels, x, other, later)
    total, labels = _summed(total, labels, set(result))
    return ops.transpose(total, [labels.index(label) for label in result])


# -- what the subscripts say -------------------------------------------------------------------------------------------
def _parsed(text: str, count: int) -> tuple[list[list[Any]], list[Any] | None]:
    """Labels of each operand, "..." among them, and of the result if it is written."""
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != count:
        raise refused(
            f"einsum of {text!r}", expected=f"subscripts for {count} operands", got=f"for {len(parts)}", fix=_FIX
        )
    inputs = [_letters(text, part) for part in parts]
    output = _letters(text, right) if arrow else None
    if output is not None and len(set(output)) != len(output):
        raise refused(f"einsum of {text!r}", expected="each letter of the result once", got=right, fix=_FIX)
    return inputs, output


def _letters(text: str, part: str) -> list[Any]:
    before, dots, after = part.partition("...")
    letters = [*before, *(["..."] if dots else []), *after]
    if any([letter != "..." and not letter.isalpha() for letter in letters]):
        raise refused(f"einsum of {text!r}", expected="letters, commas, '...' and '->'", got=repr(part), fix=_FIX)
    return letters


def _interleaved(given: tuple[Any, ...]) -> tuple[list[Any], list[list[Any]], list[Any] | None]:
    """Operands, their labels and the result's, from alternating operands and lists of labels."""

    def labels(part: Any) -> list[Any]:
        if not isinstance(part, tuple | list):
            raise refused(
                "einsum of alternating operands and labels", expected="a list of labels", got=shown(part), fix=_FIX
            )
        return ["..." if each is Ellipsis else each for each in part]

    pairs = len(given) // 2
    output = labels(given[-1]) if len(given) % 2 else None
    return [given[2 * i] for i in range(pairs)], [labels(given[2 * i + 1]) for i in range(pairs)], output


def _labels(x: Any, given: list[Any], at: int) -> list[Any]:
    """One label per axis of an operand: those "..." stands for are numbered from the last axis."""
    named = len(given) - given.count("...")
    spare = x.type.rank - named
    if spare < 0 or (spare and "..." not in given):
        raise refused(
            f"einsum: operand {at} is {x.type}, its subscripts name {named} axes",
            expected=f"{x.type.rank} letters, or '...'",
            got="".join(map(str, given)),
            fix=_FIX,
        )
    labels: list[Any] = []
    for each in given:
        labels += [("...", n) for n in range(spare, 0, -1)] if each == "..." else [each]
    return labels


def _without_repeats(x: Any, labels: list[Any], at: int) -> tuple[Any, Labels]:
    """Diagonals taken until no label occurs twice."""
    for label in list(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.type.shape[first] != x.type.shape[second]:
                raise refused(
                    f"einsum: {label!r} names axes of {x.type.shape[first]} and {x.type.shape[second]} of operand {at}",
                    expected="axes of one size",
                    got=str(x.type),
                    fix=_FIX,
                )
            x = diagonal(x, axis1=first, axis2=second)
            labels = [each for place, each in enumerate(labels) if place not in (first, second)] + [label]
    return x, tuple(labels)


def _output(named: list[list[Any]], output: list[Any] | None) -> Labels:
    """The result's labels, with "..." written out."""
    every = [label for labels in named for label in labels]
    dots = tuple(sorted({each for each in every if isinstance(each, tuple)}, reverse=True))
    if output is None:
        once = sorted([each for each in set(every) if not isinstance(each, tuple) and every.count(each) == 1])
        return (*dots, *once)
    if dots and "..." not in output:
        raise refused(
            "einsum: '...' is missing from the result", expected="'...' after '->'", got=str(output), fix=_FIX
        )
    made: list[Any] = []
    for each in output:
        made += dots if each == "..." else [each]
    return tuple(made)


def _fitted(terms: list[tuple[Any, Labels]]) -> list[tuple[Any, Labels]]:
    """Sizes compared; an axis of size 1 is dropped where another operand has more entries there."""
    sizes: dict[Any, int] = {}
    for x, labels in terms:
        for label, n in zip(labels, x.type.shape, strict=True):
            have = sizes.setdefault(label, n)
            if have != n and 1 not in (have, n):
                raise refused(
                    f"einsum: {label!r} is an axis of {have} entries and of {n}",
                    expected="equal sizes for one letter",
                    got=", ".join([str(each.type) for each, _ in terms]),
                    fix=_FIX,
                )
            if have == 1:
                sizes[label] = n
    made: list[tuple[Any, Labels]] = []
    for x, labels in terms:
        kept = [(label, n) for label, n in zip(labels, x.type.shape, strict=True) if n == sizes[label]]
        made.append((ops.reshape(x, tuple([n for _, n in kept])), tuple([label for label, _ in kept])))
    return made


# -- sums of products --------------------------------------------------------------------------------------------------
def _summed(x: Any, labels: Labels, needed: set[Any]) -> tuple[Any, Labels]:
    """The axes nothing needs, summed."""
    gone = tuple([axis for axis, label in enumerate(labels) if label not in needed])
    if not gone:
        return x, labels
    return ops.reduce_sum(x, gone), tuple([label for label in labels if label in needed])


def _combined(x: Any, left: Labels, y: Any, right: Labels, later: set[Any]) -> tuple[Any, Labels]:
    """The product of two operands, summed over what is needed no longer."""
    x, left = _summed(x, left, later | set(right))
    y, right = _summed(y, right, later | set(left))
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in later]
    contract = [label for label in shared if label not in later]
    dims = DotDims(
        tuple([left.index(label) for label in contract]),
        tuple([right.index(label) for label in contract]),
        tuple([left.index(label) for label in batch]),
        tuple([right.index(label) for label in batch]),
    )
    free = [label for label in (*left, *right) if label not in shared]
    return bind1(DOT_GENERAL, dims, x, y), (*batch, *free)
