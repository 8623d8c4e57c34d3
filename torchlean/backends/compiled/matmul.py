"""dot_general as register-tiled left folds: k ascending, every product rounded before it is added.

A tile of results stays in registers while k runs over a block; the next block goes on from what is stored, so the fold
of each entry is one sequence whatever the blocks. Tiles lie over results only, never over k. Vectors run along the
right operand's free axis, packed so that it is contiguous; where that axis is short and the left's is not, the
operands change places, since a product of two numbers does not care.
"""

from __future__ import annotations

from math import prod
from typing import Any

from torchlean.backends.compiled.complexes import times
from torchlean.backends.compiled.halves import loaded, local_type, rounded, stored, wide
from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.operand import Called, Operand, loops, positions
from torchlean.backends.compiled.served import HALVES
from torchlean.backends.compiled.text import C_TYPE, vector_type, zero
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.compiled.views import collapsed
from torchlean.backends.strides import Strides, contiguous
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.types import TensorType
from torchlean.record import record

FOLDED_BLOCK = 256  # k of one pass: a packed panel of it stays in the first-level cache
COLUMNS = 1 << 10  # of a row of an untiled product, folded side by side
SMALL = 1 << 10  # multiplications below which nothing is packed
PACKED_ROWS = 1 << 16  # entries of the left operand's block beyond which it is packed too
SHARED = 1 << 21  # multiplications from which on threads share a product out
MANY = 8  # matrices of a batch from which on threads share these out, not their rows


@record
class Side:
    """One operand of a product as [batch…, free, folded]: offset and strides."""

    offset: int
    batch: Strides
    free: int
    folded: int


def dot_general(params: DotDims, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """The body of one dot_general."""
    lhs, rhs = operands
    dtype = types[0].dtype
    batch = tuple([lhs.shape[axis] for axis in params.lhs_batch])
    lefts, rights = params.lhs_free(len(lhs.shape)), params.rhs_free(len(rhs.shape))
    rows, columns = prod([lhs.shape[a] for a in lefts]), prod([rhs.shape[a] for a in rights])
    folded = prod([lhs.shape[a] for a in params.lhs_contract])
    if folded == 0:
        return Called(f"    for (int64_t i = 0; i < {types[0].size}; i++) y0[i] = {zero(dtype)};")
    left, before, more = _side("x0", lhs, params.lhs_batch, lefts, params.lhs_contract, 0, dtype)
    right, after, space = _side("x1", rhs, params.rhs_batch, rights, params.rhs_contract, more, dtype)
    count = prod(batch)
    shared = count * rows * columns * folded >= SHARED and not before and not after
    product = Product(dtype, rows, columns, folded, left, right, more + space, chain, columns)
    product.split = shared and count < MANY and product.is_tiled()
    names = [f"b{axis}" for axis in range(len(batch))]
    place = index_text(0, tuple([step * rows * columns for step in contiguous(batch)]), names)
    inner = [
        f"const {C_TYPE[dtype]} *restrict left = {_start('x0', left, names, before)};",
        f"const {C_TYPE[dtype]} *restrict right = {_start('x1', right, names, after)};",
        f"{C_TYPE[dtype]} *restrict made = y0 + {place};",
        "const int more = 0;",
        *product.lines(),
    ]
    if product.split:
        lines = [*product.range(), *loops(batch, names, inner)]
        return Called("\n".join(lines), product.workspace, tuple(product.helpers), product.units(), 2)
    if shared and count >= MANY:
        each = [
            f"const int64_t b{axis} = b / {step} % {size};"
            for axis, (size, step) in enumerate(zip(batch, contiguous(batch), strict=True))
        ]
        lines = [
            "    for (int64_t b = start; b < stop; b++) {",
            *[f"        {line}" for line in [*each, *inner]],
            "    }",
        ]
        return Called("\n".join(lines), product.workspace, tuple(product.helpers), count)
    lines = [*before, *after, *loops(batch, names, inner)]
    return Called("\n".join(lines), product.workspace, tuple(product.helpers))


def _start(name: str, side: Side, names: list[str], copied: list[str]) -> str:
    base = f"{name}c" if copied else name
    return f"{base} + {index_text(side.offset, side.batch, names)}"


def _side(
    name: str,
    operand: Operand,
    batch: tuple[int, ...],
    free: tuple[int, ...],
    folded: tuple[int, ...],
    workspace: int,
    dtype: DType,
) -> tuple[Side, list[str], int]:
    """How an operand is read; where its free or folded axes do not join, it is first copied to the workspace."""
    shape, strides = operand.shape, operand.view.strides
    frees = collapsed(tuple([shape[a] for a in free]), [tuple([strides[a] for a in free])])[1][0]
    folds = collapsed(tuple([shape[a] for a in folded]), [tuple([strides[a] for a in folded])])[1][0]
    steps = tuple([strides[a] for a in batch])
    if len(frees) <= 1 and len(folds) <= 1:
        one, other = (frees or (0,))[0], (folds or (0,))[0]
        return Side(operand.view.offset, steps, one, other), [], 0
    order = batch + free + folded
    sizes = tuple([shape[a] for a in order])
    names = positions(len(order))
    where = [""] * len(order)
    for position, axis in enumerate(order):
        where[axis] = names[position]
    copy = f"{name}c[{index_text(0, contiguous(sizes), names)}] = {operand.entry(name, where)};"
    c = C_TYPE[dtype]
    lines = [f"    {c} *restrict {name}c = ({c} *)(workspace + {workspace});", *loops(sizes, names, [copy])]
    depth = prod([shape[a] for a in folded])
    inner = contiguous((*[shape[a] for a in batch], prod([shape[a] for a in free]), depth))
    return Side(0, inner[:-2], depth, 1), lines, -(-prod(sizes) * dtype.carrier.itemsize // 64) * 64


class Product:
    """One matrix product `made[m, n] = Σ_k left[m, k] · right[n, k]`, with the strides of its sides.

    `more` in the text says whether the fold goes on from what is in `made`.
    """

    def __init__(
        self,
        dtype: DType,
        rows: int,
        columns: int,
        folded: int,
        left: Side,
        right: Side,
        workspace: int,
        chain: Toolchain,
        down: int,
    ) -> None:
        """`down`: how far apart rows of `made` lie."""
        self.dtype, self.c, self.folded = dtype, C_TYPE[dtype], folded
        self.workspace, self.helpers = workspace, list[str]()
        self.lanes = max(1, chain.lanes // dtype.carrier.itemsize)
        self.names = ("left", "right")
        self.rows, self.columns = rows, columns
        self.left, self.right = left, right
        self.made = (down, 1)
        if self.is_tiled() and columns < self.lanes and rows > columns:
            self.names = ("right", "left")
            self.rows, self.columns = columns, rows
            self.left, self.right = right, left
            self.made = (1, down)
        self.needs_cells = False
        self.split = False  # whether the text does the rows [from, to) only
        self.tall, self.wide = (8, 3) if chain.registers >= 32 else (4, 2)

    def is_tiled(self) -> bool:
        return self.dtype not in HALVES and not self.dtype.is_complex and self.rows * self.columns * self.folded > SMALL

    def units(self) -> int:
        """How many tiles of rows there are to share out."""
        return -(-self.rows // self.tall)

    def range(self) -> list[str]:
        """The rows of the tiles [start, stop)."""
        last = f"stop * {self.tall} < {self.rows} ? stop * {self.tall} : {self.rows}"
        return [f"    const int64_t from = start * {self.tall}, to = {last};"]

    def _rows(self, first: int, stop: int, count: int) -> str:
        """The loop over tiles of `count` rows between two bounds, of those that are to be done."""
        if not self.split:
            return f"for (int64_t m = {first}; m < {stop}; m += {count})"
        if count == self.tall:
            return f"for (int64_t m = from; m < (to < {stop} ? to : {stop}); m += {count})"
        return f"for (int64_t m = {first}; m < to; m += {count})"

    def lines(self) -> list[str]:
        return self._tiled() if self.is_tiled() else self._plain()

    def _plain(self) -> list[str]:
        """A fold for each row, side by side over the columns."""
        a, b, dtype, c = self.left, self.right, self.dtype, local_type(self.dtype)
        n, down = self.columns, self.made[0]
        if n > COLUMNS:
            each = f"for (int64_t n = first; n < (first + {COLUMNS} < {n} ? first + {COLUMNS} : {n}); n++)"
            at, block = "n - first", f"for (int64_t first = 0; first < {n}; first += {COLUMNS}) "
        else:
            each, at, block = f"for (int64_t n = 0; n < {n}; n++)", "n", ""
        place = f"made[m * {down} + n]"
        right = loaded(dtype, f"right[n * {b.free} + k * {b.folded}]")
        product = times(dtype, "a", right) if dtype.is_complex else f"({c})(a * {right})"
        total = f"({c})(total[{at}] + product)"
        return [
            f"for (int64_t m = 0; m < {self.rows}; m++) {block}{{",
            f"    {c} total[{min(n, COLUMNS)}];",
            f"    {each} total[{at}] = more ? {loaded(dtype, place)} : {zero(wide(dtype))};",
            f"    for (int64_t k = 0; k < {self.folded}; k++) {{{' IN_ORDER;' if n == 1 else ''}",
            f"        const {c} a = {loaded(dtype, f'left[m * {a.free} + k * {a.folded}]')};",
            f"        {each} {{",
            f"            const {c} product = {rounded(dtype, product)};",
            f"            total[{at}] = {rounded(dtype, total)};",
            "        }",
            "    }",
            f"    {each} {place} = {stored(dtype, f'total[{at}]')};",
            "}",
        ]

    # -- tiles -----------------------------------------------------------------------------------------------------
    def _tiled(self) -> list[str]:
        lanes, deep = self.lanes, min(self.folded, FOLDED_BLOCK)
        panel = self.wide * lanes
        panels = self._panels()
        needs_packing = self.right.free != 1 or self.columns % lanes != 0 or self.folded * self.columns > PACKED_ROWS
        packs_rows = self.rows * deep > PACKED_ROWS or (self.left.folded != 1 and self.rows * deep > 4096)
        size = self.dtype.carrier.itemsize
        lines: list[str] = []
        if needs_packing:
            lines.append(f"{self.c} *restrict packed = ({self.c} *)(workspace + {self.workspace});")
            self.workspace += deep * panel * size
        if packs_rows:
            lines.append(f"{self.c} *restrict rows = ({self.c} *)(workspace + {self.workspace});")
            self.workspace += -(-self.rows // self.tall) * self.tall * deep * size
        blocks = self._blocks(deep)
        for first, count, repeats in blocks:
            inner = [f"    const int64_t depth = {count};"]
            if packs_rows:
                inner += [f"    {line}" for line in self._pack_rows()]
            for start, end, vectors, used in panels:
                inner += [f"    {line}" for line in self._panel(start, end, vectors, used, needs_packing, packs_rows)]
            if repeats == 1:
                lines += [f"{{   const int64_t k0 = {first};", *inner, "}"]
            else:
                lines.append(f"for (int64_t k0 = {first}; k0 < {first + repeats * count}; k0 += {count}) {{")
                lines += [*inner, "}"]
        if self.needs_cells:
            lines.insert(0, f"{self.c} cells[{self.tall * panel}] __attribute__((aligned(64)));")
        return lines

    def _blocks(self, deep: int) -> list[tuple[int, int, int]]:
        """(first k, length, how many): equal blocks, then the rest."""
        whole, rest = divmod(self.folded, deep)
        return [(0, deep, whole)] + ([(whole * deep, rest, 1)] if rest else [])

    def _panels(self) -> list[tuple[int, int, int, int]]:
        """(first column, end, vectors, columns of one): full panels together, then the last."""
        panel = self.wide * self.lanes
        full = self.columns // panel * panel
        made = [(0, full, self.wide, panel)] if full else []
        rest = self.columns - full
        return made + ([(full, self.columns, -(-rest // self.lanes), rest)] if rest else [])

    def _pack_rows(self) -> list[str]:
        a, name, tall = self.left, self.names[0], self.tall
        full = self.rows // tall * tall
        lines = []
        for start, end, count in ((0, full, tall), (full, self.rows, self.rows - full)):
            if end > start:
                inner = f"rows[m * depth + k * {count} + r] = {name}[(m + r) * {a.free} + (k0 + k) * {a.folded}];"
                lines.append(
                    f"{self._rows(start, end, count)} for (int64_t k = 0; k < depth; k++) "
                    f"for (int64_t r = 0; r < {count}; r++) {inner}"
                )
        return lines

    def _panel(self, start: int, end: int, vectors: int, used: int, packed: bool, packs_rows: bool) -> list[str]:
        b, name, width = self.right, self.names[1], vectors * self.lanes
        lines = [f"for (int64_t n = {start}; n < {end}; n += {used}) {{"]
        if packed:
            fill = f"c < {used} ? {name}[(n + c) * {b.free} + (k0 + k) * {b.folded}] : 0"
            if used == width:
                fill = f"{name}[(n + c) * {b.free} + (k0 + k) * {b.folded}]"
            if b.free == 1 or b.folded != 1 or used != width:
                order = f"for (int64_t k = 0; k < depth; k++) for (int64_t c = 0; c < {width}; c++)"
                lines.append(f"    {order} packed[k * {width} + c] = {fill};")
            else:
                lines.append(f"    {self._turn()}(packed, {width}, {name} + n * {b.free} + k0, {b.free}, depth);")
            source, step = "packed", width
        else:
            source, step = f"{name} + n + k0 * {b.folded}", b.folded
        full = self.rows // self.tall * self.tall
        rest = self.rows - full
        for first, stop, count in ((0, full, self.tall), (full, self.rows, rest)):
            if stop > first:
                tile = self._tile(count, vectors)
                if packs_rows:
                    rows, free, fold = "rows + m * depth", 1, count
                else:
                    rows = f"{self.names[0]} + m * {self.left.free} + k0 * {self.left.folded}"
                    free, fold = self.left.free, self.left.folded
                given = f"{rows}, {free}, {fold}, {source}, {step}"
                lines += [f"    {line}" for line in self._tiles(first, stop, count, tile, given, used, width)]
        return [*lines, "}"]

    def _tiles(self, first: int, stop: int, count: int, tile: str, given: str, used: int, width: int) -> list[str]:
        """A column of tiles. One that is no block of whole vectors in the result goes by way of `cells`."""
        loop = self._rows(first, stop, count)
        down, along = self.made
        place = f"made + m * {down} + n * {along}"
        if used == width and along == 1:
            return [f"{loop} {tile}({given}, {place}, {down}, depth, k0 != 0 || more);"]
        self.needs_cells = True
        cell, entry = f"cells[r * {width} + c]", f"made[(m + r) * {down} + (n + c) * {along}]"
        order = (f"for (int r = 0; r < {count}; r++)", f"for (int c = 0; c < {used}; c++)")
        each = " ".join(order if along == 1 else order[::-1])
        return [
            f"{loop} {{",
            f"    if (k0 != 0 || more) {each} {cell} = {entry};",
            f"    {tile}({given}, cells, {width}, depth, k0 != 0 || more);",
            f"    {each} {entry} = {cell};",
            "}",
        ]

    def _tile(self, rows: int, vectors: int) -> str:
        """The name of the function that folds one tile; its text goes to the helpers."""
        lanes, c = self.lanes, self.c
        name = f"tile_{self.dtype.short}_{rows}x{vectors}x{lanes}"
        vector, declared = vector_type(self.dtype, lanes)
        self._help(declared)
        cells = [(r, v) for r in range(rows) for v in range(vectors)]
        place = [f"*({vector} *)(made + {r} * down + {v * lanes})" for r, v in cells]
        lines = [
            f"static inline __attribute__((always_inline)) void {name}(const {c} *a, int64_t free, int64_t fold, "
            f"const {c} *b, int64_t step, {c} *made, int64_t down, int64_t depth, int again) {{",
            f"    {vector} {', '.join([f's{r}_{v} = {{0}}' for r, v in cells])};",
            "    if (again) {",
            *[f"        s{r}_{v} = {where};" for (r, v), where in zip(cells, place, strict=True)],
            "    }",
            "    for (int64_t k = 0; k < depth; k++) {",
            *[
                f"        const {vector} b{v} = *(const {vector} *)(b + k * step + {v * lanes});"
                for v in range(vectors)
            ],
        ]
        for r in range(rows):
            lines.append(f"        {{ const {c} one = a[{r} * free + k * fold];")
            lines.append(f"          const {vector} e = ({vector}){{{', '.join(['one'] * lanes)}}};")
            lines += [f"          s{r}_{v} = s{r}_{v} + e * b{v};" for v in range(vectors)]
            lines.append("        }")
        lines.append("    }")
        lines += [f"    {where} = s{r}_{v};" for (r, v), where in zip(cells, place, strict=True)]
        lines.append("}")
        self._help("\n".join(lines))
        return name

    def _turn(self) -> str:
        """The name of the function that packs columns which lie apart; compiled once, since it is dear to compile."""
        name = f"turn_{self.dtype.short}"
        self._help(
            f"static __attribute__((noinline)) void {name}({self.c} *restrict packed, int64_t width, "
            f"const {self.c} *restrict from, int64_t apart, int64_t depth) {{\n"
            "    for (int64_t c = 0; c < width; c++)\n"
            "        for (int64_t k = 0; k < depth; k++) packed[k * width + c] = from[c * apart + k];\n}"
        )
        return name

    def _help(self, text: str) -> None:
        if text not in self.helpers:
            self.helpers.append(text)


def table() -> dict[Op, Any]:
    """The product."""
    return {DOT_GENERAL: dot_general}
