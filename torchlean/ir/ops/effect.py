"""Ops run for what they do: printing, checking a condition, noting that a key is used. `torchlean.debug` and
`torchlean.random` have the functions users call.

All are identities on the program: their one result, a token, is read by nothing. Dead code elimination keeps them and
equal ones are not shared (see `EffectOp`), so that they act once each, in the order of the program. Under vmap they act
once for the whole batch.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.errors import CheckFailed, message
from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.op import EffectOp, TypeFault
from torchlean.ir.rules import NoTangent, Rule
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record

_SHOWN = 20  # entries of an array that a message shows in full


@record
class Message:
    """What to say, and the tree of values it names; tensors are operands, other leaves are kept in `fixed`.

    `levels`: sizes of the mapped axes, outermost first, one per vmap that reached the node; `mapped[k]`: at which of
    them operand k has an axis. `where`: the user's line. `to`: who gets the line of a print; None for sys.stdout.
    """

    text: str
    treedef: Any
    fixed: tuple[tuple[int, Any, str], ...]  # position, leaf, and its repr: True is not 1
    where: str
    to: Callable[[str], None] | None
    levels: Shape
    mapped: tuple[tuple[bool, ...], ...]

    @property
    def attributes(self) -> tuple[tuple[str, Any], ...]:
        """What the printer shows."""
        return (("text", self.text), ("vmap", self.levels)) if self.levels else (("text", self.text),)

    def batched(self, size: int, mapped: Sequence[bool]) -> Message:
        """The message of a node that one more vmap reached."""
        marks = tuple([(bool(flag), *held) for flag, held in zip(mapped, self.mapped, strict=True)])
        return Message(self.text, self.treedef, self.fixed, self.where, self.to, (size, *self.levels), marks)

    def filled(self, arrays: Sequence[Any]) -> str:
        """The text with its values; arrays take the format of a number entry by entry."""
        leaves: list[Any] = list(arrays)
        for position, leaf, _ in self.fixed:
            leaves.insert(position, leaf)
        given, named = pytree.unflatten(self.treedef, leaves)
        return _Formatter().vformat(self.text, given, named)


class _Formatter(string.Formatter):
    """`str.format` that knows arrays, and trees of them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if pytree.is_leaf(value):
            return shown(value, format_spec)
        texts = [shown(leaf, format_spec) for leaf in pytree.leaves(value)]
        return str(pytree.unflatten(pytree.structure(value), [_Bare(text) for text in texts]))


class _Bare(str):
    """Text without quotes in the `repr` of its container."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def shown(value: Any, spec: str = "") -> str:
    """A number or array as text on one line, in few digits unless `spec` asks for others; long arrays are abridged."""
    if not isinstance(value, np.ndarray | np.generic):
        return format(value, spec)
    array = np.asarray(value)

    def entry(x: Any) -> str:
        return format(x.item(), spec) if spec else str(x)

    if array.ndim == 0:
        return entry(array[()])
    formatter: Any = {"all": entry} if spec else None
    text = np.array2string(array, separator=" ", threshold=_SHOWN, max_line_width=10**6, formatter=formatter)
    return " ".join(text.split()).replace("[ ", "[")


# -- what both share ---------------------------------------------------------------------------------------------------
def _token(params: Message) -> TensorType:
    return TensorType(params.levels, DType.BOOL)


def _concrete(operands: Sequence[Any]) -> bool:
    """Whether the operands are NumPy's: in another algebra there is nothing to print or to decide."""
    return all([isinstance(operand, np.ndarray | np.generic) for operand in operands])


# -- printing ----------------------------------------------------------------------------------------------------------
def _print_value(algebra: Any, params: Message, *operands: Any) -> tuple[Any, ...]:
    if _concrete(operands):
        line = params.filled(operands)
        if params.levels:
            line += f"  [vmap {'×'.join(map(str, params.levels))}]"
        if params.to is None:
            sys.stdout.write(line + "\n")
        else:
            params.to(line)
    return (algebra.constant(np.zeros(params.levels, dtype=np.bool_)),)


def _print_batch(params: Message, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    return (bind1(DEBUG_PRINT, params.batched(size, mapped), *operands),)


DEBUG_PRINT = EffectOp(
    name="debug_print",
    params=Message,
    type_rule=lambda params, *values: (_token(params),),
    denote=_print_value,
    diff=NoTangent("a printed line has no derivative"),
    batch=Rule(_print_batch),
    reduces=False,
    doc="Print a line when the program runs.",
)


# -- checking ----------------------------------------------------------------------------------------------------------
def failure(params: Message, position: int, shape: Shape, values: Sequence[Any], outer: Sequence[int] = ()) -> str:
    """The text of a check whose condition, of `shape`, fails at the row-major `position`, with the values there.

    `outer`: the example of vmaps around `debug.checkify`, whose values these are already.
    """
    rest = [int(i) for i in np.unravel_index(position, shape)]
    inner = [rest.pop(0) if is_mapped else None for is_mapped in params.mapped[0]]
    chosen: list[Any] = []
    for value, marks in zip(values, params.mapped[1:], strict=True):
        key = [at for at, mark in zip(inner, marks, strict=True) if mark]
        chosen.append(np.asarray(value)[tuple([slice(None) if at is None else at for at in key])])
    example = [*outer, *[at for at in inner if at is not None]]
    return params.filled(chosen) + place_text(rest, example)


def place_text(index: Sequence[int], example: Sequence[int]) -> str:
    """` at [2] of example [0]`: an index in an array, and the example of a batch; each may be empty."""
    if index:
        return f" at {list(index)}" + (f" of example {list(example)}" if example else "")
    return f" in example {list(example)}" if example else ""


def check_failed(params: Message, position: int, shape: Shape, values: Sequence[Any]) -> CheckFailed:
    """The exception for a check that does not hold."""
    text = failure(params, position, shape, values)
    return CheckFailed(
        message(
            f"check failed: {text}",
            expected=f"the condition to hold for all of {TensorType(shape, DType.BOOL)}" if shape else "it to hold",
            got=f"False first at {[int(i) for i in np.unravel_index(position, shape)]}" if shape else "False",
            fix="look at the values named above; debug.checkify(f) returns the fault instead of raising it",
            where=params.where,
        )
    )


def _check_type(params: Message, condition: TensorType, *values: TensorType) -> tuple[TensorType, ...]:
    if condition.dtype is not DType.BOOL:
        raise TypeFault(
            "the condition holds no truth values",
            expected="a bool array",
            got=str(condition),
            fix="compare: debug.check(x > 0, …)",
        )
    return (_token(params),)


def _check_value(algebra: Any, params: Message, condition: Any, *values: Any) -> tuple[Any, ...]:
    if _concrete((condition, *values)):
        holds = np.asarray(condition)
        if not holds.all():
            raise check_failed(params, int(np.argmin(holds)), holds.shape, values)
    return (algebra.constant(np.zeros(params.levels, dtype=np.bool_)),)


def _check_batch(params: Message, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    return (bind1(CHECK, params.batched(size, mapped), *operands),)


CHECK = EffectOp(
    name="check",
    params=Message,
    type_rule=_check_type,
    denote=_check_value,
    diff=NoTangent("a check has no derivative"),
    batch=Rule(_check_batch),
    reduces=False,
    doc="Raise when the program runs unless a condition holds everywhere.",
)


# -- keys --------------------------------------------------------------------------------------------------------------
@record
class KeyUse:
    """A draw named `draw`, on the user's line `where`, uses keys up. `vmaps`: how many leading axes vmaps added.

    `seen`: who is told when the program runs, given the keys and these params.
    """

    draw: str
    where: str
    vmaps: int
    seen: Callable[[np.ndarray[Any, Any], KeyUse], None]

    @property
    def attributes(self) -> tuple[tuple[str, Any], ...]:
        """What the printer shows."""
        return (("draw", self.draw), ("vmaps", self.vmaps)) if self.vmaps else (("draw", self.draw),)


def _use_value(algebra: Any, params: KeyUse, keys: Any) -> tuple[Any, ...]:
    if _concrete((keys,)):
        params.seen(np.asarray(keys), params)
    return (algebra.constant(np.zeros(keys.shape[:-1], dtype=np.bool_)),)


def _use_batch(params: KeyUse, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    return (bind1(USE_KEY, KeyUse(params.draw, params.where, params.vmaps + 1, params.seen), *operands),)


USE_KEY = EffectOp(
    name="use_key",
    params=KeyUse,
    type_rule=lambda params, keys: (TensorType(keys.shape[:-1], DType.BOOL),),
    denote=_use_value,
    diff=NoTangent("a key has no derivative"),
    batch=Rule(_use_batch),
    reduces=False,
    doc="Tell what watches for reuse, if anything does, that keys u32[…, 2] are used up when the program runs.",
)


EFFECTS = (DEBUG_PRINT, CHECK, USE_KEY)
