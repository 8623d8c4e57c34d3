"""associative_scan: all prefixes under an associative function, in a logarithmic number of calls.

The even-odd recursion of Blelloch, "Prefix sums and their applications" (1990), as JAX's function of that name does it:
neighbours are combined, the halves scanned, and the other prefixes made from those. Nothing here is an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.ir.ops.calling import Given, function_label, given_tree
from torchlean.ir.ops.index import concatenate, slice_
from torchlean.ir.ops.shaping import expand_dims, reshape
from torchlean.ir.ops.shaping import reverse as flip


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Entry k of the result is e₀ ∘ e₁ ∘ … ∘ e_k along `axis`, for `fn(a, b)` = a ∘ b associative.

    `fn` takes and returns trees like `elems`, and is called on stretches of them: it must work entry by entry along
    `axis`. The order of combination is a tree's, so rounding differs from a left-to-right loop (use scan for that).
    `reverse` starts at the last entry: entry k is then e_last ∘ … ∘ e_k. Raises StructureError when the leaves differ
    in length.
    """
    given = given_tree("associative_scan", "elems", elems)
    axes = [_axis(path, type.rank, axis) for path, type in zip(given.paths, given.types, strict=True)]
    lengths = [type.shape[at] for type, at in zip(given.types, axes, strict=True)]
    if len(set(lengths)) > 1:
        listed = [f"{path}: {t} has {n}" for path, t, n in zip(given.paths, given.types, lengths, strict=True)]
        raise StructureError(
            message(
                f"associative_scan: elems have different lengths along axis {axis}",
                expected="one length for every leaf",
                got=", ".join(listed[:10]),
                fix="cut or pad the leaves that differ",
                where=str(caller_location()),
            )
        )
    if not lengths or lengths[0] < 2:
        return elems

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        return _checked(fn, given, left, fn(given.tree_of(left), given.tree_of(right)))

    leaves = [flip(x, (at,)) if reverse else x for x, at in zip(given.leaves, axes, strict=True)]
    made = _prefixes(combine, leaves, axes)
    return given.tree_of([flip(x, (at,)) if reverse else x for x, at in zip(made, axes, strict=True)])


def _axis(path: str, rank: int, axis: int) -> int:
    if not -rank <= axis < rank:
        raise TypeRuleError(
            message(
                f"associative_scan: {path} has no axis {axis}",
                expected=f"an axis in [{-rank}, {rank})" if rank else "at least one axis",
                got=f"{axis} of rank {rank}",
                fix="name an axis that every leaf of elems has",
                where=str(caller_location()),
            )
        )
    return axis % rank


def _checked(fn: Any, given: Given, left: Sequence[Any], made: Any) -> list[Any]:
    """The leaves of what fn returned, which must look like what it was given."""
    fault = pytree.differs(given.tree_of(given.types), made, "elems")
    leaves = [] if fault is not None else pytree.leaves(made)
    for path, before, after in zip(given.paths, left, leaves, strict=False):
        if type_of(before) != type_of(after):
            fault = f"{path} enters as {type_of(before)}, leaves as {type_of(after)}"
            break
    if fault is not None:
        raise StructureError(
            message(
                f"associative_scan: fn `{function_label(fn)}` returns something unlike its operands: {fault}",
                expected="the structure and types of elems",
                got=fault,
                fix="combine two entries into one of the same kind",
                where=str(caller_location()),
            )
        )
    return leaves


def _prefixes(combine: Callable[..., list[Any]], leaves: list[Any], axes: Sequence[int]) -> list[Any]:
    count = type_of(leaves[0]).shape[axes[0]]
    if count < 2:
        return leaves

    def part(xs: Sequence[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        return [_cut(x, at, start, stop, step) for x, at in zip(xs, axes, strict=True)]

    pairs = combine(part(leaves, 0, count - 1, 2), part(leaves, 1, count, 2))
    odd = _prefixes(combine, pairs, axes)
    if count == 2:
        even = part(leaves, 0, 1)
    else:
        rest = part(leaves, 2, count, 2)
        known = odd if count % 2 else part(odd, 0, count // 2 - 1)
        later = combine(known, rest)
        first = part(leaves, 0, 1)
        even = [concatenate([a, b], at) for a, b, at in zip(first, later, axes, strict=True)]
    return [_interleaved(a, b, at) for a, b, at in zip(even, odd, axes, strict=True)]


def _cut(x: Any, axis: int, start: int, stop: int, step: int) -> Any:
    shape = type_of(x).shape
    starts = [start if at == axis else 0 for at in range(len(shape))]
    stops = [stop if at == axis else size for at, size in enumerate(shape)]
    return slice_(x, starts, stops, [step if at == axis else 1 for at in range(len(shape))])


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """even₀, odd₀, even₁, odd₁, …: moved, not added, so that no bit changes."""
    shape = type_of(odd).shape
    count = shape[axis]
    first = even if type_of(even).shape == shape else _cut(even, axis, 0, count, 1)
    both = concatenate([expand_dims(first, axis + 1), expand_dims(odd, axis + 1)], axis + 1)
    woven = reshape(both, (*shape[:axis], 2 * count, *shape[axis + 1 :]))
    if first is even:
        return woven
    return concatenate([woven, _cut(even, axis, count, count + 1, 1)], axis)
