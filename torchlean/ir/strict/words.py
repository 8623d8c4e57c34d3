"""Words: what a strict definition may be made of.

A definition is a Python function of a `Recorder` and of words. What it does with them is recorded as a straight-line
program, and nothing else is done: no loop depends on a value, a choice is a `select`. Every operation is exact or
rounds once to nearest even, so a program has one meaning, whatever runs it: NumPy (`numpy_code`) or C (`c_code`).

Floats have + - * /, comparisons and a square root; there is no fused multiply-add. Integers have the width of the
float they belong to, wrap, and shift; booleans are masks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Literal

from torchlean.errors import InternalError
from torchlean.record import record

Kind = Literal["f32", "f64", "i32", "i64", "mask"]

INTEGER_OF: MappingProxyType[str, Kind] = MappingProxyType({"f32": "i32", "f64": "i64"})
FLOAT_OF: MappingProxyType[str, Kind] = MappingProxyType({"i32": "f32", "i64": "f64"})


@record
class Step:
    """One operation: its operands are numbers of earlier steps. `value` is the number of a constant or input."""

    op: str
    kind: Kind
    operands: tuple[int, ...]
    value: float | int | None = None


@record
class Program:
    """A straight-line program: the steps, the tables it looks up, and the step that is the result."""

    steps: tuple[Step, ...]
    tables: tuple[tuple[int, ...], ...]
    inputs: int
    result: int


class Word:
    """One number of a program being recorded; operators record a step."""

    __slots__ = ("kind", "number", "recorder")

    def __init__(self, recorder: Recorder, kind: Kind, number: int) -> None:
        self.recorder = recorder
        self.kind: Kind = kind
        self.number = number

    def _with(self, op: str, other: Operand, kind: Kind | None = None) -> Word:
        return self.recorder.record(op, kind or self.kind, self, self._lift(other))

    def _lift(self, other: Operand) -> Word:
        return other if isinstance(other, Word) else self.recorder.constant(self.kind, other)

    def __add__(self, other: Operand) -> Word:
        return self._with("add", other)

    def __radd__(self, other: float) -> Word:
        return self._lift(other)._with("add", self)

    def __sub__(self, other: Operand) -> Word:
        return self._with("sub", other)

    def __rsub__(self, other: float) -> Word:
        return self._lift(other)._with("sub", self)

    def __mul__(self, other: Operand) -> Word:
        return self._with("mul", other)

    def __rmul__(self, other: float) -> Word:
        return self._lift(other)._with("mul", self)

    def __truediv__(self, other: Operand) -> Word:
        return self._with("div", other)

    def __rtruediv__(self, other: float) -> Word:
        return self._lift(other)._with("div", self)

    def __neg__(self) -> Word:
        return self.recorder.record("neg", self.kind, self)

    def __lt__(self, other: Operand) -> Word:
        return self._with("lt", other, "mask")

    def __le__(self, other: Operand) -> Word:
        return self._with("le", other, "mask")

    def __gt__(self, other: Operand) -> Word:
        return self._lift(other)._with("lt", self, "mask")

    def __ge__(self, other: Operand) -> Word:
        return self._lift(other)._with("le", self, "mask")

    def same(self, other: Operand) -> Word:
        """Whether the numbers are equal: +0 is -0, and NaN is nothing."""
        return self._with("eq", other, "mask")

    def __and__(self, other: Operand) -> Word:
        return self._with("and", other)

    def __or__(self, other: Operand) -> Word:
        return self._with("or", other)

    def __xor__(self, other: Operand) -> Word:
        return self._with("xor", other)

    def __lshift__(self, other: Operand) -> Word:
        return self._with("shl", other)

    def __rshift__(self, other: Operand) -> Word:
        """Arithmetic: the sign is copied."""
        return self._with("sar", other)

    def opposite(self) -> Word:
        """A mask that holds where this one does not."""
        return self.recorder.record("not", "mask", self)

    def unsigned_shift(self, other: Operand) -> Word:
        """To the right, zeros entering."""
        return self._with("shr", other)

    def bits(self) -> Word:
        """The integer with the bits of this float."""
        return self.recorder.record("bits", INTEGER_OF[self.kind], self)

    def as_float(self) -> Word:
        """The float with the bits of this integer."""
        return self.recorder.record("float", FLOAT_OF[self.kind], self)

    def magnitude(self) -> Word:
        return self.recorder.record("abs", self.kind, self)

    def root(self) -> Word:
        return self.recorder.record("sqrt", self.kind, self)

    def at_most(self, bound: float) -> Word:
        """The smaller; NaN stays. A float bound is not zero."""
        return self._with("min", bound)

    def at_least(self, bound: float) -> Word:
        """The larger; NaN stays. A float bound is not zero."""
        return self._with("max", bound)

    def widen(self) -> Word:
        """f32 as f64, or i32 as i64: exact."""
        return self.recorder.record("widen", "f64" if self.kind == "f32" else "i64", self)

    def narrow(self) -> Word:
        """f64 as f32, rounding once, or the low half of an i64."""
        return self.recorder.record("narrow", "f32" if self.kind == "f64" else "i32", self)


Operand = Word | float | int


class Recorder:
    """Records steps; equal steps are one."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.tables: list[tuple[int, ...]] = []
        self._known: dict[object, int] = {}

    def _append(self, step: Step) -> Word:
        exact = step.value.hex() if isinstance(step.value, float) else step.value  # -0.0 is not 0.0
        key = (step.op, step.kind, step.operands, exact)
        number = self._known.setdefault(key, len(self.steps))
        if number == len(self.steps):
            self.steps.append(step)
        return Word(self, step.kind, number)

    def record(self, op: str, kind: Kind, *operands: Word) -> Word:
        if all(self.steps[word.number].op == "constant" for word in operands):
            raise InternalError(f"a strict definition computes {op} of constants; compute it before recording")
        return self._append(Step(op=op, kind=kind, operands=tuple(word.number for word in operands)))

    def input(self, kind: Kind, position: int) -> Word:
        return self._append(Step(op="input", kind=kind, operands=(), value=position))

    def constant(self, kind: Kind, value: float) -> Word:
        number = float(value) if kind in ("f32", "f64") else int(value)
        return self._append(Step(op="constant", kind=kind, operands=(), value=number))

    def select(self, mask: Word, chosen: Word, otherwise: Word) -> Word:
        return self.record("select", chosen.kind, mask, chosen, otherwise)

    def lookup(self, table: tuple[int, ...], position: Word) -> Word:
        """An entry of a table of i64; the position is within it."""
        if table not in self.tables:
            self.tables.append(table)
        number = self.tables.index(table)
        return self._append(Step(op="lookup", kind="i64", operands=(position.number,), value=number))

    def repeat(self, step: Step, operands: list[Word]) -> Word:
        """A step of another program, of these operands."""
        numbers = tuple([word.number for word in operands])
        return self._append(Step(op=step.op, kind=step.kind, operands=numbers, value=step.value))

    def finished(self, result: Word, inputs: int) -> Program:
        """The program of a result, without the steps that it does not need."""
        return _pruned(self.steps, tuple(self.tables), inputs, result.number)

    def rarely(self, mask: Word, rare: Callable[[], tuple[Word, ...]], common: tuple[Word, ...]) -> tuple[Word, ...]:
        """Selects of what few numbers need: whoever sees that no entry of a block does may leave it out."""
        return tuple(
            self.record("rare", usual.kind, mask, needed, usual) for needed, usual in zip(rare(), common, strict=True)
        )


def program(definition: Callable[..., Word], kind: Kind, inputs: int) -> Program:
    """Record the definition for a format."""
    recorder = Recorder()
    result = definition(recorder, *[recorder.input(kind, position) for position in range(inputs)])
    return recorder.finished(result, inputs)


def reached(steps: list[Step] | tuple[Step, ...], *results: int) -> set[int]:
    """The steps that some result needs."""
    found: set[int] = set()
    waiting = list(results)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting.extend(steps[number].operands)
    return found


def without_rare(whole: Program) -> Program:
    """The program for numbers that need nothing rare: its selects replaced by what is usual."""
    stands_for = list(range(len(whole.steps)))
    for number, step in enumerate(whole.steps):
        if step.op == "rare":
            stands_for[number] = stands_for[step.operands[2]]
    steps = [
        Step(op=step.op, kind=step.kind, operands=tuple(stands_for[i] for i in step.operands), value=step.value)
        for step in whole.steps
    ]
    return _pruned(steps, whole.tables, whole.inputs, stands_for[whole.result])


def rare_condition(whole: Program) -> Program | None:
    """The program of the mask that says whether a number needs what is rare; None where nothing is."""
    masks = sorted({step.operands[0] for step in whole.steps if step.op == "rare"})
    if not masks:
        return None
    steps = list(whole.steps)
    while len(masks) > 1:
        last, other = masks.pop(), masks.pop()
        steps.append(Step(op="or", kind="mask", operands=(other, last)))
        masks.append(len(steps) - 1)
    return _pruned(steps, whole.tables, whole.inputs, masks[0])


def _pruned(steps: list[Step], tables: tuple[tuple[int, ...], ...], inputs: int, result: int) -> Program:
    order = sorted(reached(steps, result))
    renumbered = {number: position for position, number in enumerate(order)}
    kept = tuple(
        Step(op=step.op, kind=step.kind, operands=tuple(renumbered[i] for i in step.operands), value=step.value)
        for step in (steps[number] for number in order)
    )
    return Program(steps=kept, tables=tables, inputs=inputs, result=renumbered[result])
