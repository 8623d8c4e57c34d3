"""A straight-line program as a Python function of NumPy arrays: one ufunc per step, over reused buffers.

The function takes contiguous arrays of one dimension and one length, which should fit the cache: `function` cuts long
arrays into blocks. It writes to no operand. A buffer is made by the first step that needs it and written over when
nothing needs what it holds. What is rare is left out where no entry of the block needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.ir.strict.words import Program, Step, reached

CARRIER: MappingProxyType[str, np.dtype[Any]] = MappingProxyType(
    {
        "f32": np.dtype("f4"),
        "f64": np.dtype("f8"),
        "i32": np.dtype("i4"),
        "i64": np.dtype("i8"),
        "u32": np.dtype("u4"),
        "u64": np.dtype("u8"),
        "mask": np.dtype("?"),
    }
)
_SIZE = MappingProxyType({"f32": 4, "i32": 4, "u32": 4, "f64": 8, "i64": 8, "u64": 8, "mask": 1})

_UFUNCS: MappingProxyType[str, np.ufunc] = MappingProxyType(
    {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "abs": np.absolute,
        "sqrt": np.sqrt,
        "lt": np.less,
        "le": np.less_equal,
        "eq": np.equal,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.logical_not,
        "shl": np.left_shift,
        "sar": np.right_shift,
        "shr": np.right_shift,
        "min": np.minimum,
        "max": np.maximum,
    }
)
_ALIASES = frozenset({"bits", "float"})  # the same memory, seen as another kind
_NAMED_OUT = frozenset({"min", "max"})  # NumPy wants `out` of these by name


def source(program: Program) -> str:
    """The text of the function, whose constants are named `c<number>`."""
    return _Writer(program).text()


def compiled(program: Program) -> Callable[..., np.ndarray[Any, Any]]:
    """The function itself."""
    names: dict[str, Any] = {f"f_{op}": ufunc for op, ufunc in _UFUNCS.items()}
    names |= {"copyto": np.copyto, "putmask": np.putmask, "where": np.where, "some": np.count_nonzero}
    names |= {f"d_{kind}": carrier for kind, carrier in CARRIER.items()}
    for number, table in enumerate(program.tables):
        names[f"t{number}"] = np.array(table, dtype=np.int64)
    for number, step in enumerate(program.steps):
        if step.op == "constant":
            value = np.array(step.value, dtype=CARRIER[step.kind])
            names[f"c{number}"] = value
            if step.kind in ("i32", "i64"):
                names[f"c{number}_u"] = value.view(CARRIER["u" + step.kind[1:]])
    exec(source(program), names)
    return names["block"]


class _Writer:
    """Emits the lines in order, knowing which buffer holds what and when it is free."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.steps
        self.lines: list[str] = []
        self.indent = "    "
        self.order = self._ordered()
        self.last_use = self._last_uses()
        self.buffer: dict[int, str] = {}  # root step → the name of its buffer, in the kind it was made
        self.made_as: dict[str, str] = {}  # buffer → kind
        self.views: dict[str, set[str]] = {}
        self.free: dict[int, list[str]] = {1: [], 4: [], 8: []}
        self.count = 0
        self.local: set[str] | None = None  # buffers that exist inside a rare part only

    def text(self) -> str:
        inputs = ", ".join(f"x{position}" for position in range(self.program.inputs))
        place = 0
        while place < len(self.order):
            place = self._emit(place)
        self.lines.append(f"    return {self._name(self.program.result)}")
        return f"def block({inputs}):\n" + "\n".join(self.lines) + "\n"

    # -- what runs when ------------------------------------------------------------------------------------------------
    def _ordered(self) -> list[int]:
        """Steps that run, the exclusive needs of rare selects moved to just before the first of them."""
        usual = self._usual()
        order: list[int] = []
        placed: set[int] = set()
        self.inside: dict[int, list[int]] = {}  # first rare select of a mask → the steps that only its kind needs
        self.group: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            if number in placed or step.op in ("constant", "input"):
                continue
            if step.op == "rare" and number in usual:
                same = [
                    i for i in usual if self.steps[i].op == "rare" and self.steps[i].operands[0] == step.operands[0]
                ]
                group = sorted(same)
                needs = reached(self.steps, *(self.steps[i].operands[1] for i in group)) - usual
                inside = [i for i in sorted(needs) if self.steps[i].op not in ("constant", "input")]
                before = [i for i in sorted(reached(self.steps, *group)) if i in usual and i not in group]
                for i in before:
                    if i not in placed and self.steps[i].op not in ("constant", "input"):
                        order.append(i)
                        placed.add(i)
                order += [*inside, *group]
                placed |= {*inside, *group}
                self.inside[(inside + group)[0]] = inside
                self.group[(inside + group)[0]] = group
            elif number in usual:
                order.append(number)
                placed.add(number)
        return order

    def _usual(self) -> set[int]:
        found: set[int] = set()
        waiting = [self.program.result]
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            operands = self.steps[number].operands
            waiting.extend((operands[0], operands[2]) if self.steps[number].op == "rare" else operands)
        return found

    def _root(self, number: int) -> int:
        while self.steps[number].op in _ALIASES:
            number = self.steps[number].operands[0]
        return number

    def _last_uses(self) -> dict[int, int]:
        last: dict[int, int] = {}
        for place, number in enumerate(self.order):
            last[self._root(number)] = place
            for operand in self.steps[number].operands:
                last[self._root(operand)] = place
        last[self._root(self.program.result)] = len(self.order)
        return last

    # -- names ---------------------------------------------------------------------------------------------------------
    def _name(self, number: int, kind: str | None = None) -> str:
        """The array of a step, seen as `kind`."""
        step = self.steps[number]
        wanted = kind or step.kind
        if step.op == "constant":
            return f"c{number}_u" if wanted[0] == "u" else f"c{number}"
        root = self._root(number)
        buffer = f"x{self.steps[root].value}" if self.steps[root].op == "input" else self.buffer[root]
        made = self.steps[root].kind if self.steps[root].op == "input" else self.made_as[buffer]
        return self._view(buffer, made, wanted)

    def _view(self, buffer: str, made: str, wanted: str) -> str:
        if made == wanted:
            return buffer
        name = f"{buffer}_{wanted}"
        known = self.views.setdefault(buffer, set())
        if wanted not in known:
            self.lines.append(f"{self.indent}{name} = {buffer}.view(d_{wanted})")
            if self.local is None or buffer in self.local:
                known.add(wanted)
        return name

    def _release(self, numbers: tuple[int, ...], place: int) -> None:
        for root in sorted({self._root(number) for number in numbers}):
            if self.steps[root].op in ("constant", "input") or self.last_use[root] > place:
                continue
            buffer = self.buffer.get(root)
            if buffer is not None and buffer not in self.buffers_in_use(place):
                pool = self.free[_SIZE[self.made_as[buffer]]]
                if buffer not in pool:
                    pool.append(buffer)

    def buffers_in_use(self, place: int) -> set[str]:
        return {buffer for root, buffer in self.buffer.items() if self.last_use[root] > place}

    def _take(self, kind: str) -> str | None:
        pool = self.free[_SIZE[kind]]
        return pool.pop() if pool else None

    def _new(self, kind: str) -> str:
        name = f"r{self.count}"
        self.count += 1
        self.made_as[name] = kind
        if self.local is not None:
            self.local.add(name)
        return name

    # -- lines ---------------------------------------------------------------------------------------------------------
    def _emit(self, place: int) -> int:
        number = self.order[place]
        if number in self.group:
            return self._emit_rare(place)
        self._emit_step(place)
        return place + 1

    def _emit_step(self, place: int) -> None:
        number = self.order[place]
        step = self.steps[number]
        if step.op in _ALIASES:
            return
        if step.op == "select":
            self._emit_select(number, place)
            return
        unsigned = step.op == "shr"
        kind = "u" + step.kind[1:] if unsigned else step.kind
        operands = [self._name(i, kind if unsigned else None) for i in step.operands]
        self._release(step.operands, place)
        if step.op in ("widen", "narrow", "lookup", "spread"):
            self._emit_conversion(number, step, operands[0])
            return
        into = self._take(kind)
        call = f"f_{step.op}({', '.join(operands)}"
        if into is None:
            into = self._new(kind)
            self.lines.append(f"{self.indent}{into} = {call})")
        else:
            target = self._view(into, self.made_as[into], kind)
            self.lines.append(f"{self.indent}{call}, {'out=' if step.op in _NAMED_OUT else ''}{target})")
        self.buffer[number] = into

    def _emit_conversion(self, number: int, step: Step, operand: str) -> None:
        into = self._new(step.kind)
        made = f"t{step.value}.take({operand})" if step.op == "lookup" else f"{operand}.astype(d_{step.kind})"
        self.lines.append(f"{self.indent}{into} = {made}")
        if step.op == "spread":  # a mask as all ones or zero
            self.lines.append(f"{self.indent}f_neg({into}, {into})")
        self.buffer[number] = into

    def _emit_select(self, number: int, place: int) -> None:
        mask, chosen, otherwise = self.steps[number].operands
        kind = self.steps[number].kind
        root = self._root(otherwise)
        at_hand = self.steps[root].op not in ("constant", "input")
        chosen_name, mask_name = self._name(chosen), self._name(mask)
        otherwise_name = self._name(otherwise)
        if at_hand and self.last_use[root] <= place and self._root(chosen) != root:
            self.lines.append(f"{self.indent}putmask({otherwise_name}, {mask_name}, {chosen_name})")
            self.buffer[number] = self.buffer[root]
            self._release((mask, chosen), place)
            return
        into = self._new(kind)
        self.lines.append(f"{self.indent}{into} = where({mask_name}, {chosen_name}, {otherwise_name})")
        self.buffer[number] = into
        self._release((mask, chosen, otherwise), place)

    def _emit_rare(self, place: int) -> int:
        first = self.order[place]
        inside, group = self.inside[first], self.group[first]
        end = place + len(inside) + len(group)
        mask = self.steps[group[0]].operands[0]
        for number in group:
            usual = self.steps[number].operands[2]
            root = self._root(usual)
            if self.steps[root].op in ("constant", "input") or self.last_use[root] >= end:
                into = self._new(self.steps[number].kind)
                self.lines.append(f"{self.indent}{into} = {self._name(usual)}.copy()")
                self.buffer[number] = into
            else:
                self._name(usual)  # the view, if one is needed, before the branch
                self.buffer[number] = self.buffer[root]
        self.lines.append(f"{self.indent}if some({self._name(mask)}):")
        self.indent += "    "
        self.local = set()
        for offset in range(len(inside)):
            self._emit_step(place + offset)
        for number in group:
            target = self._view(self.buffer[number], self.made_as[self.buffer[number]], self.steps[number].kind)
            needed = self._name(self.steps[number].operands[1])
            self.lines.append(f"{self.indent}putmask({target}, {self._name(mask)}, {needed})")
        self.indent = self.indent[4:]
        for pool in self.free.values():
            pool[:] = [buffer for buffer in pool if buffer not in self.local]
        for root, buffer in list(self.buffer.items()):
            if buffer in self.local:
                del self.buffer[root]  # it does not exist where the branch is not taken
        self.local = None
        self._release((mask, *inside, *(self.steps[number].operands[2] for number in group)), end - 1)
        return end
