"""Reductions as left folds in row-major order of the reduced axes, several of them side by side.

Where the last axis is kept, a block of neighbouring results is folded at once, row after row. Where it is reduced,
several rows are folded at once, each in its own order. A fold never changes with how many run beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torchlean.backends.compiled.across import Across, is_worth, lanes_of
from torchlean.backends.compiled.complexes import times
from torchlean.backends.compiled.expressions import largest
from torchlean.backends.compiled.halves import local_type, rounded, stored, wide
from torchlean.backends.compiled.loops import Body, index_text
from torchlean.backends.compiled.operand import Called, loops
from torchlean.backends.compiled.text import number, one, zero
from torchlean.backends.compiled.views import collapsed
from torchlean.backends.strides import Strides, contiguous
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Node
from torchlean.ir.op import Op
from torchlean.ir.ops.fold import REDUCE_AND, REDUCE_OR, REDUCE_PROD, REDUCE_XOR
from torchlean.ir.ops.reduce import REDUCE_MAX, REDUCE_MIN
from torchlean.ir.ops.spread import REDUCE_SUM
from torchlean.ir.types import TensorType

ROWS = 8  # folded side by side along rows
LANES = 64  # an extreme along a row is folded in so many interleaved parts, whose extremes are then folded
BLOCK_BYTES = 256  # of neighbouring results folded side by side
_SIGNS = MappingProxyType({REDUCE_AND: "&", REDUCE_OR: "|", REDUCE_XOR: "^"})


def neutral(op: Op, dtype: DType) -> str | None:
    """What a fold begins with; None where it begins with the first entry."""
    if op is REDUCE_SUM or op is REDUCE_OR or op is REDUCE_XOR:
        return zero(wide(dtype))
    if op is REDUCE_PROD:
        return one(wide(dtype))
    if op is REDUCE_AND:
        return one(dtype) if dtype.is_bool else number(dtype, -1)
    return None


def folded(op: Op, dtype: DType, total: str, term: str) -> str:
    if op is REDUCE_MAX:
        return largest(wide(dtype), total, term)
    if op is REDUCE_MIN:
        return largest(wide(dtype), total, term, "<=")
    if op is REDUCE_PROD and dtype.is_complex:
        return times(dtype, total, term)
    return rounded(dtype, f"({local_type(dtype)})({total} {sign_of_fold(op)} {term})")


def sign_of_fold(op: Op) -> str:
    return "+" if op is REDUCE_SUM else "*" if op is REDUCE_PROD else _SIGNS[op]


class _Nest:
    """The iteration of a fold: kept axes, then reduced axes, each joined where possible."""

    def __init__(self, body: Body, node: Node, operand: TensorType) -> None:
        axes = node.params.axes
        rank = operand.rank
        kept = tuple([axis for axis in range(rank) if axis not in axes])
        accesses = body.accesses()
        out = contiguous(tuple([operand.shape[axis] for axis in kept]))
        given = [access.strides for access in accesses]
        sizes = tuple([operand.shape[axis] for axis in kept])
        self.kept, steps = collapsed(sizes, [*[tuple([each[a] for a in kept]) for each in given], out])
        self.out: Strides = steps.pop()
        self.outer = steps
        self.folded, self.inner = collapsed(
            tuple([operand.shape[axis] for axis in axes]), [tuple([each[a] for a in axes]) for each in given]
        )
        self.accesses = accesses

    def is_along_rows(self) -> bool:
        """Whether the last folded axis runs along memory."""
        return all([inner[-1] in (0, 1) for inner in self.inner])

    def fits(self, lanes: int) -> bool:
        """Whether rows lie in the lanes of a vector."""
        return bool(self.kept) and self.is_along_rows() and is_worth(self.kept[-1], self.folded, lanes)

    def strides(self) -> dict[int, Strides]:
        return {
            id(access): outer + inner
            for access, outer, inner in zip(self.accesses, self.outer, self.inner, strict=True)
        }


def fold_body(
    body: Body, node: Node, term: str, operand: TensorType, types: Mapping[int, TensorType], register: int
) -> Called:
    """The text of the function that folds `term`; `register` is the bytes of a vector register."""
    out = node.outputs[0]
    dtype = types[out].dtype
    target = body.target(out)
    nest = _Nest(body, node, operand)
    if body.rows:
        body.steps[out] = types[out].size // body.rows
    start = neutral(node.op, dtype)
    if operand.size == 0:
        assert start is not None
        return Called(f"    for (int64_t i = 0; i < {types[out].size}; i++) {target}[i] = {stored(dtype, start)};")
    is_long = len(nest.folded) == 1 and nest.folded[0] >= 2 * LANES and nest.is_along_rows()
    if node.op in (REDUCE_MAX, REDUCE_MIN) and is_long:
        return Called(_extreme(body, nest, node.op, dtype, term, target))
    last_is_kept = operand.rank - 1 not in node.params.axes or not nest.folded
    lanes = lanes_of(dtype, register)
    if start is not None and not last_is_kept and nest.fits(lanes):
        return _across(body, nest, node.op, dtype, term, target, start, lanes)
    wide = max(1, BLOCK_BYTES // dtype.carrier.itemsize)
    block = min(wide, nest.kept[-1] if nest.kept else 1) if last_is_kept else ROWS
    return Called(_Text(body, nest, node.op, dtype, term, target, start, block, last_is_kept).text())


def _across(body: Body, nest: _Nest, op: Op, dtype: DType, term: str, target: str, start: str, lanes: int) -> Called:
    """Rows in the lanes of a vector, inside loops over the other kept axes."""
    names = [f"i{axis}" for axis in range(len(nest.kept))]
    fold = Across(dtype, lanes, sign_of_fold(op), start, body, nest.strides(), nest.folded, term, names)
    made = fold.called(
        body.bound(nest.kept, len(nest.kept) - 1),
        lambda row: f"{target}[{index_text(0, nest.out, [*names[:-1], row])}]",
    )
    bounds = [body.bound(nest.kept, axis) for axis in range(len(nest.kept) - 1)]
    return Called("\n".join(loops(bounds, names[:-1], made.text.split("\n"))), 0, made.helpers)


def _extreme(body: Body, nest: _Nest, op: Op, dtype: DType, term: str, target: str) -> str:
    """An extreme along rows: which order its entries are compared in shows only where it is a zero of either sign.

    Then the first zero is looked for. NaN is kept by every part and by the fold of the parts.
    """
    c, size = local_type(dtype), nest.folded[0]
    full = size // LANES * LANES
    names = [f"i{axis}" for axis in range(len(nest.kept))]

    def lines(k: str) -> list[str]:
        return body.lines(nest.strides(), [*names, k])

    joined = folded(op, dtype, "best[b]", term)
    inner = [
        f"{c} best[{LANES}];",
        f"for (int64_t b = 0; b < {LANES}; b++) {{ {' '.join(lines('b'))} best[b] = {term}; }}",
        f"for (int64_t k = {LANES}; k < {full}; k += {LANES}) {{",
        f"    for (int64_t b = 0; b < {LANES}; b++) {{ {' '.join(lines('(k + b)'))} best[b] = {joined}; }}",
        "}",
        *[
            f"for (int64_t b = 0; b < {half}; b++) best[b] = {folded(op, dtype, 'best[b]', f'best[b + {half}]')};"
            for half in [LANES >> shift for shift in range(1, LANES.bit_length())]
        ],
        f"{c} total = best[0];",
    ]
    step = f"total = {folded(op, dtype, 'total', term)};"
    if full < size:
        inner.append(f"for (int64_t k = {full}; k < {size}; k++) {{ IN_ORDER; {' '.join(lines('k'))} {step} }}")
    if dtype.is_float:
        inner.append("if (total == 0) {")
        found = f"if ({term} == 0) {{ total = {term}; break; }}"
        inner.append(f"    for (int64_t k = 0; k < {size}; k++) {{ {' '.join(lines('k'))} {found} }}")
        inner.append("}")
    inner.append(f"{target}[{index_text(0, nest.out, names)}] = {stored(dtype, 'total')};")
    bounds = [body.bound(nest.kept, axis) for axis in range(len(nest.kept))]
    return "\n".join(loops(bounds, names, inner))


class _Text:
    """Writes the loops: over kept axes, the last of them in blocks; then over folded axes; then over the block."""

    def __init__(
        self,
        body: Body,
        nest: _Nest,
        op: Op,
        dtype: DType,
        term: str,
        target: str,
        start: str | None,
        block: int,
        columns: bool,
    ) -> None:
        self.body, self.nest, self.op, self.dtype = body, nest, op, dtype
        self.term, self.target, self.start, self.block, self.columns = term, target, start, block, columns

    def text(self) -> str:
        kept = self.nest.kept
        lines, indent = [], "    "
        for axis in range(len(kept) - 1):
            bound = self.body.bound(kept, axis)
            lines.append(f"{indent}for (int64_t i{axis} = 0; i{axis} < {bound}; i{axis}++) {{")
            indent += "    "
        if len(kept) == 1 and self.body.rows:
            lines += self._some(indent)
        elif kept:
            size, name = kept[-1], f"i{len(kept) - 1}"
            full = size // self.block * self.block
            if self.block > 1 and full:
                lines.append(f"{indent}for (int64_t {name} = 0; {name} < {full}; {name} += {self.block}) {{")
                lines += self._block(indent + "    ", self.block)
                lines.append(f"{indent}}}")
            else:
                full = 0
            if full < size:
                rest = size - full
                if self.columns and rest > 1:
                    lines.append(f"{indent}{{")
                    lines.append(f"{indent}    const int64_t {name} = {full};")
                    lines += self._block(indent + "    ", rest)
                    lines.append(f"{indent}}}")
                else:
                    lines.append(f"{indent}for (int64_t {name} = {full}; {name} < {size}; {name}++) {{")
                    lines += self._block(indent + "    ", 1)
                    lines.append(f"{indent}}}")
        else:
            lines += self._block(indent, 1)
        for _ in kept[:-1]:
            indent = indent[4:]
            lines.append(f"{indent}}}")
        return "\n".join(lines)

    def _some(self, indent: str) -> list[str]:
        """Blocks of results, then the rest one by one, where their number is known at the call only."""
        size = self.body.bound(self.nest.kept, 0)
        return [
            f"{indent}int64_t i0 = 0;",
            f"{indent}for (; i0 + {self.block} <= {size}; i0 += {self.block}) {{",
            *self._block(indent + "    ", self.block),
            f"{indent}}}",
            f"{indent}for (; i0 < {size}; i0++) {{",
            *self._block(indent + "    ", 1),
            f"{indent}}}",
        ]

    def _block(self, indent: str, count: int) -> list[str]:
        """Fold `count` results side by side, from the last kept variable on."""
        unrolled = not self.columns and count > 1
        return self._unrolled(indent, count) if unrolled else self._looped(indent, count)

    def _variables(self, last: str | None) -> list[str]:
        kept = [f"i{axis}" for axis in range(len(self.nest.kept))]
        if last is not None and kept:
            kept[-1] = last
        return kept

    def _lines(self, last: str | None, first: bool) -> list[str]:
        inner = ["0" if first else f"k{axis}" for axis in range(len(self.nest.folded))]
        return self.body.lines(self.nest.strides(), [*self._variables(last), *inner])

    def _out(self, last: str | None) -> str:
        return f"{self.target}[{index_text(0, self.nest.out, self._variables(last))}]"

    def _looped(self, indent: str, count: int) -> list[str]:
        c = local_type(self.dtype)
        single = count == 1
        name = f"i{len(self.nest.kept) - 1}"
        last = None if single else f"({name} + b)"
        total = "total" if single else "total[b]"
        each = "" if single else f"for (int64_t b = 0; b < {count}; b++) "
        lines = [f"{indent}{c} {'total' if single else f'total[{count}]'};"]
        if self.start is None:
            lines.append(f"{indent}{each}{{ {' '.join(self._lines(last, True))} {total} = {self.term}; }}")
        else:
            lines.append(f"{indent}{each}{total} = {self.start};")
        lines += self._folded_loops(indent)
        deep = indent + "    " * len(self.nest.folded)
        lines += [f"{deep}IN_ORDER;"] if single else []
        lines.append(f"{deep}{each}{{")
        lines += [f"{deep}    {line}" for line in self._lines(last, False)]
        lines.append(f"{deep}    {total} = {folded(self.op, self.dtype, total, self.term)};")
        lines.append(f"{deep}}}")
        lines += self._closing(indent)
        lines.append(f"{indent}{each}{self._out(last)} = {stored(self.dtype, total)};")
        return lines

    def _unrolled(self, indent: str, count: int) -> list[str]:
        c = local_type(self.dtype)
        name = f"i{len(self.nest.kept) - 1}"
        lasts = [f"({name} + {b})" for b in range(count)]
        if self.start is None:
            lines = [f"{indent}{c} {', '.join([f'total{b}' for b in range(count)])};"]
            lines += [
                f"{indent}{{ {' '.join(self._lines(last, True))} total{b} = {self.term}; }}"
                for b, last in enumerate(lasts)
            ]
        else:
            lines = [f"{indent}{c} {', '.join([f'total{b} = {self.start}' for b in range(count)])};"]
        lines += self._folded_loops(indent)
        deep = indent + "    " * len(self.nest.folded)
        lines.append(f"{deep}IN_ORDER;")
        for b, last in enumerate(lasts):
            statement = f"total{b} = {folded(self.op, self.dtype, f'total{b}', self.term)};"
            lines.append(f"{deep}{{ {' '.join(self._lines(last, False))} {statement} }}")
        lines += self._closing(indent)
        lines += [f"{indent}{self._out(last)} = {stored(self.dtype, f'total{b}')};" for b, last in enumerate(lasts)]
        return lines

    def _folded_loops(self, indent: str) -> list[str]:
        """Loops over the folded axes; a fold that begins with the first entry meets it once more, which changes
        nothing: an extreme of an entry with itself is that entry.
        """
        lines: list[str] = []
        for axis, size in enumerate(self.nest.folded):
            lines.append(f"{indent}for (int64_t k{axis} = 0; k{axis} < {size}; k{axis}++) {{")
            indent += "    "
        return lines

    def _closing(self, indent: str) -> list[str]:
        depth = len(self.nest.folded)
        return [indent + "    " * (depth - 1 - at) + "}" for at in range(depth)]
