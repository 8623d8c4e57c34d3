"""Folds along rows with a row in each lane of a vector: blocks of terms are turned, so that one addition of vectors
takes a term of every row. Each row is folded in its own order.

What a block lacks in rows or columns is filled with what a fold begins with. That changes no bit: such a fold is
never −0, and one or all bits are neutral to products and to bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from torchlean.backends.compiled.loops import Body
from torchlean.backends.compiled.operand import Called, loops
from torchlean.backends.compiled.text import C_TYPE, vector_type
from torchlean.backends.strides import Strides
from torchlean.ir.dtypes import DType
from torchlean.ir.types import Shape

COLUMNS = 64  # of terms computed together before they are turned
_SHUFFLE = """#ifdef __clang__
#define TL_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TL_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif"""


def lanes_of(dtype: DType, register: int) -> int:
    """How many rows are folded at once, given the bytes of a vector register; 0 where that is not worth it."""
    return register // dtype.carrier.itemsize if dtype.carrier.itemsize >= 4 and not dtype.is_complex else 0


def _turned(dtype: DType, lanes: int, sign: str) -> tuple[str, tuple[str, ...]]:
    """The function that folds `lanes` terms of `lanes` rows each; its name, and what has to be written.

    Interleaving the halves of the rows, as often as halves can be made, turns the block.
    """
    vector, declared = vector_type(dtype, lanes)
    word = f"int{8 * dtype.carrier.itemsize}_t"
    mask = f"mask_{dtype.carrier.itemsize}_{lanes}"
    masks = f"typedef {word} {mask} __attribute__((vector_size({lanes * dtype.carrier.itemsize})));"
    name = f"turned_{dtype.short}_{lanes}_{ {'+': 'sum', '*': 'product', '&': 'and', '|': 'or', '^': 'xor'}[sign] }"
    low = ", ".join([str(at // 2 + (at % 2) * lanes) for at in range(lanes)])
    high = ", ".join([str(at // 2 + lanes // 2 + (at % 2) * lanes) for at in range(lanes)])
    lines = [
        f"static inline __attribute__((always_inline)) {vector} {name}(const {C_TYPE[dtype]} *terms, int64_t step, "
        f"{vector} total) {{",
        *[f"    const {vector} a0_{r} = *(const {vector} *)(terms + {r} * step);" for r in range(lanes)],
    ]
    stages, half = lanes.bit_length() - 1, lanes // 2
    for stage in range(stages):
        for r in range(half):
            pair = f"a{stage}_{r}, a{stage}_{r + half}"
            for to, order in ((2 * r, low), (2 * r + 1, high)):
                lines.append(f"    const {vector} a{stage + 1}_{to} = TL_SHUFFLE({mask}, {pair}, {order});")
    lines += [f"    total = total {sign} a{stages}_{r};" for r in range(lanes)]
    return name, (_SHUFFLE, declared, masks, "\n".join([*lines, "    return total;", "}"]))


class Across:
    """Writes one fold. `lines(variables)` are the statements that make `term`, `row` is the last kept variable."""

    def __init__(
        self,
        dtype: DType,
        lanes: int,
        sign: str,
        start: str,
        body: Body,
        strides: Mapping[int, Strides],
        folded: Shape,
        term: str,
        kept: list[str],
    ) -> None:
        self.dtype, self.c, self.lanes, self.start = dtype, C_TYPE[dtype], lanes, start
        self.body, self.strides, self.folded, self.term, self.kept = body, strides, folded, term, kept
        self.vector = vector_type(dtype, lanes)[0]
        self.turned, self.helpers = _turned(dtype, lanes, sign)

    def called(self, size: str, place: Callable[[str], str]) -> Called:
        """The loop over blocks of `size` rows; `place` is where the result of a row is put."""
        lanes, row = self.lanes, self.kept[-1]
        begin = ", ".join([self.start] * lanes)
        outer = self.folded[:-1]
        names = [f"k{axis}" for axis in range(len(outer))]
        fold = self._folded("count", None)
        direct = self._direct()
        if direct is not None:
            fold = ["if (count == " + str(lanes) + ") {", *_deeper(self._folded(str(lanes), direct)), "} else {"]
            fold += [*_deeper(self._folded("count", None)), "}"]
        lines = [
            f"for (int64_t {row} = 0; {row} < {size}; {row} += {lanes}) {{",
            f"    const int64_t count = {size} - {row} < {lanes} ? {size} - {row} : {lanes};",
            f"    {self.vector} total = {{{begin}}};",
            f"    {self.c} terms[{lanes * self._width()}] __attribute__((aligned(64)));",
            *loops(outer, names, fold),
            f"    for (int64_t r = 0; r < count; r++) {place(f'({row} + r)')} = total[r];",
            "}",
        ]
        return Called("\n".join(lines), 0, self.helpers)

    def _width(self) -> int:
        return min(COLUMNS, -(-self.folded[-1] // self.lanes) * self.lanes)

    def _direct(self) -> tuple[str, int] | None:
        """Where the terms of rows and columns from here on are, and how far apart rows are, if they are in memory."""
        statements = self.body.statements
        if len(statements) != 1 or self.body.stores or not statements[0].declaration.endswith(f" {self.term}"):
            return None
        access = statements[0].access
        if access is None or not access.form.endswith("[{index}]"):
            return None
        strides = self.strides[id(access)]
        if strides[-1] != 1:
            return None
        names = [f"k{axis}" for axis in range(len(self.folded) - 1)]
        return f"&{access.text(strides, [*self.kept, *names, '(k + c)'])}", strides[len(self.kept) - 1]

    def _folded(self, count: str, direct: tuple[str, int] | None) -> list[str]:
        """The blocks of columns: whole ones, then a last one that is filled up."""
        size, width = self.folded[-1], self._width()
        full = size // width * width
        lines: list[str] = []
        if full:
            lines.append(f"for (int64_t k = 0; k < {full}; k += {width}) {{")
            lines += _deeper(self._block(count, width, direct))
            lines.append("}")
        if full < size:
            lines += ["{", f"    const int64_t k = {full};", *_deeper(self._block(count, size - full, None)), "}"]
        return lines

    def _block(self, count: str, used: int, direct: tuple[str, int] | None) -> list[str]:
        lanes = self.lanes
        if direct is not None:
            source, step = direct
            return [
                f"for (int64_t c = 0; c < {used}; c += {lanes}) total = {self.turned}({source}, {step}, total);",
            ]
        width = -(-used // lanes) * lanes
        names = [f"k{axis}" for axis in range(len(self.folded) - 1)]
        kept = [*self.kept[:-1], f"({self.kept[-1]} + r)"]
        lines = self.body.lines(self.strides, [*kept, *names, "(k + c)"])
        made = [f"for (int64_t r = 0; r < {count}; r++) {{", f"    for (int64_t c = 0; c < {used}; c++) {{"]
        made += [f"        {line}" for line in lines]
        made += [f"        terms[r * {width} + c] = {self.term};", "    }"]
        if used < width:
            made.append(f"    for (int64_t c = {used}; c < {width}; c++) terms[r * {width} + c] = {self.start};")
        made.append("}")
        if count != str(lanes):
            made.append(f"for (int64_t at = count * {width}; at < {lanes * width}; at++) terms[at] = {self.start};")
        made.append(f"for (int64_t c = 0; c < {width}; c += {lanes}) total = {self.turned}(terms + c, {width}, total);")
        return made


def is_worth(rows: int, folded: Shape, lanes: int) -> bool:
    """Whether rows are many and long enough."""
    return lanes > 1 and rows >= lanes and folded[-1] >= lanes and prod(folded) >= 2 * lanes


def _deeper(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
