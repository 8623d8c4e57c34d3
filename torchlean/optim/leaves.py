"""How an optimizer walks a tree: which leaves it updates, and numbers in the dtype of a leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType

Tree = Any


def chosen(params: Tree, trainable: Tree | None, *, complex_too: bool = False) -> list[bool]:
    """For each leaf of `params`, whether it is updated: it holds floats, and its flag (if there are flags) is True.

    A complex leaf whose flag is True is refused (TypeRuleError) unless the rule is one for complex numbers too.
    """
    types = [type_of(leaf) for leaf in pytree.leaves(params)]
    flags = [True] * len(types) if trainable is None else pytree.leaves(trainable)
    if len(flags) != len(types):
        raise StructureError(
            message(
                "the trainable flags do not fit the parameters",
                expected=f"{len(types)} flags",
                got=str(len(flags)),
                fix="use model.trainable(params)",
                where=str(caller_location()),
            )
        )
    for position, (flag, type) in enumerate(zip(flags, types, strict=True)):
        if flag and type.dtype.is_complex and not complex_too:
            raise TypeRuleError(
                message(
                    f"{pytree.paths(params, 'params')[position]} is {type}: this rule is one for real parameters",
                    expected="floating point parameters",
                    got=str(type),
                    fix="use SGD, whose rule p - lr·g descends along complex_grad; or keep the two parts as parameters",
                    where=str(caller_location()),
                )
            )
    return [bool(flag) and type.dtype.is_inexact for flag, type in zip(flags, types, strict=True)]


def slots(params: Tree, trainable: Tree | None) -> Tree:
    """Zeros of each leaf that is updated, None in place of the others."""
    leaves, treedef = pytree.flatten(params)
    zeros = [
        ops.full_like(leaf, 0.0) if on else None for leaf, on in zip(leaves, chosen(params, trainable), strict=True)
    ]
    return pytree.unflatten(treedef, zeros)


def run_dtype(params: Tree) -> DType:
    """The dtype of the scalars an optimizer keeps: the widest float among the leaves, float32 if there is none."""
    dtypes = [type_of(leaf).dtype for leaf in pytree.leaves(params)]
    return max([dtype for dtype in dtypes if dtype.is_float], key=lambda dtype: dtype.width, default=DType.F32)


def spread(scalar: Any, like: TensorType) -> Any:
    """A number or scalar tensor as a tensor of the type `like`."""
    if isinstance(scalar, int | float):
        return ops.full(like.shape, float(scalar), like.dtype)
    return ops.broadcast(ops.convert(scalar, like.dtype), like.shape, ())


def each(
    step: Callable[..., Sequence[Any]],
    gradients: Tree,
    params: Tree,
    states: Sequence[Tree],
    trainable: Tree | None,
    *,
    complex_too: bool = False,
) -> tuple[Tree, list[Tree]]:
    """New params and new per-leaf states: `step(p, g, *state) -> (p, *state)` at each updated leaf.

    `gradients` and states have the tree of `params`, or None in place of leaves that are not updated. Raises
    StructureError if they do not, TypeRuleError if a gradient has not the type of its parameter (nothing is promoted).
    """
    leaves, treedef = pytree.flatten(params)
    on = chosen(params, trainable, complex_too=complex_too)
    columns = [_aligned(params, tree) for tree in (gradients, *states)]
    made: list[Sequence[Any]] = []
    for position, (leaf, is_on) in enumerate(zip(leaves, on, strict=True)):
        held = [column[position] for column in columns]
        if not is_on:
            made.append((leaf, *held[1:]))
            continue
        if any(entry is None for entry in held):
            raise _missing(params, position, "gradient" if held[0] is None else "optimizer state")
        if type_of(held[0]) != type_of(leaf):
            raise _differs(params, position, type_of(held[0]), type_of(leaf))
        made.append(step(leaf, *held))
    trees = [pytree.unflatten(treedef, [entry[column] for entry in made]) for column in range(1 + len(states))]
    return trees[0], trees[1:]


def _aligned(params: Tree, tree: Tree) -> list[Any]:
    """What `tree` holds at each leaf of `params`; StructureError naming the first place where they differ."""
    found: list[Any] = []

    def note(leaf: Any, part: Any) -> None:
        found.append(part)

    pytree.map(note, params, tree)
    return found


def _missing(params: Tree, position: int, what: str) -> StructureError:
    path = pytree.paths(params, "params")[position]
    return StructureError(
        message(
            f"{path} is trained but has no {what}",
            expected=f"a {what} for every trained leaf",
            got="None",
            fix="flag it as not trainable, or pass the same flags to init and update",
            where=str(caller_location()),
        )
    )


def _differs(params: Tree, position: int, got: TensorType, wanted: TensorType) -> TypeRuleError:
    path = pytree.paths(params, "params")[position]
    return TypeRuleError(
        message(
            f"the gradient of {path} is {got}",
            expected=str(wanted),
            got=str(got),
            fix="pass the gradient with respect to these parameters, unconverted",
            where=str(caller_location()),
        )
    )
