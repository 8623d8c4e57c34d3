"""Entries put elsewhere: pad, concatenate, windows, gather and scatters; and positions, and random words."""

from __future__ import annotations

from math import prod
from typing import Any

from torchlean.backends.compiled.complexes import times
from torchlean.backends.compiled.expressions import largest
from torchlean.backends.compiled.halves import loaded, local_type, rounded, stored, wide
from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.operand import Called, Operand, loops, positions
from torchlean.backends.compiled.text import C_TYPE, zero
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.strides import contiguous
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import bits, cut, dynamic, gather, random, reduce, scattering
from torchlean.ir.types import TensorType


def pad(params: cut.Widths, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """Filled, then the entries that lie inside put in their places."""
    x, value = operands
    shape = types[0].shape
    firsts: list[int] = []
    counts: list[int] = []
    for size, made, low, interior in zip(x.shape, shape, params.low, params.interior, strict=True):
        step = interior + 1
        first = max(0, -(low // step))
        stop = max(first, min(size, -((low - made) // step)))
        firsts.append(first)
        counts.append(stop - first)
    names = positions(len(shape))
    out = contiguous(shape)
    base = sum(
        [
            (low + first * (interior + 1)) * step
            for low, first, interior, step in zip(params.low, firsts, params.interior, out, strict=True)
        ]
    )
    to = index_text(base, tuple([(i + 1) * step for i, step in zip(params.interior, out, strict=True)]), names)
    start = sum([first * step for first, step in zip(firsts, x.view.strides, strict=True)])
    taken = x.constant or f"x0[{index_text(x.view.offset + start, x.view.strides, names)}]"
    lines = [
        f"    const {C_TYPE[x.dtype]} fill = {value.entry('x1', [])};",
        f"    for (int64_t i = 0; i < {types[0].size}; i++) y0[i] = fill;",
        *loops(counts, names, [f"y0[{to}] = {taken};"]),
    ]
    return Called("\n".join(lines))


def concatenate(params: cut.Joined, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """One operand after another."""
    out = contiguous(types[0].shape)
    lines: list[str] = []
    at = 0
    for position, operand in enumerate(operands):
        names = positions(len(operand.shape))
        to = index_text(at * out[params.axis], out, names)
        lines += loops(operand.shape, names, [f"y0[{to}] = {operand.entry(f'x{position}', names)};"])
        at += operand.shape[params.axis]
    return Called("\n".join(lines))


def _position(params: gather.Along, indices: Operand, size: int, names: list[str]) -> list[str]:
    """`at`: where the index at `names` points; `inside`: whether it is read."""
    lines = [f"const {C_TYPE[indices.dtype]} index = {indices.entry('x1', names)};"]
    low = "index < 0" if indices.dtype.kind.name == "SIGNED" else "0"
    high = f"(uint64_t)index >= {size}ULL" if low == "0" else f"(int64_t)index >= {size}"
    if params.mode is gather.Mode.CLIP:
        return [
            *lines,
            f"const int64_t at = {low} ? 0 : {high} ? {size - 1} : (int64_t)index;",
            "const int inside = 1;",
        ]
    return [*lines, f"const int inside = !({low}) && !({high});", "const int64_t at = inside ? (int64_t)index : 0;"]


def _gathered(params: gather.Along, rank: int, indices: int) -> tuple[list[str], list[str], list[str]]:
    """Names of a gathered entry's axes, of the index it comes from, and of the operand's axes ("at" on the axis)."""
    axis, batch = params.axis, params.batch
    before = [f"i{a}" for a in range(axis)]
    middle = [f"j{a}" for a in range(indices - batch)]
    after = [f"l{a}" for a in range(rank - axis - 1)]
    return [*before, *middle, *after], before[:batch] + middle, [*before, "at", *after]


def take(params: gather.Along, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """Entries along one axis at run-time positions; 0 outside, or the nearest."""
    x, indices = operands
    if x.view.shape and prod(x.shape) == 0:
        return Called(f"    for (int64_t i = 0; i < {types[0].size}; i++) y0[i] = {zero(x.dtype)};")
    names, index, source = _gathered(params, len(x.shape), len(indices.shape))
    outer = params.axis + len(indices.shape) - params.batch
    to = index_text(0, contiguous(types[0].shape), names)
    lines = _position(params, indices, x.shape[params.axis], index)
    lines += loops(
        types[0].shape[outer:],
        names[outer:],
        [f"y0[{to}] = inside ? {x.entry('x0', source)} : {zero(x.dtype)};"],
        "",
    )
    return Called("\n".join(loops(types[0].shape[:outer], names[:outer], lines)))


def scattered(combine: Any) -> Any:
    """A copy of the operand, then one update after another in row-major order of the indices.

    `combine(dtype, held, new)` is what an update makes of the entry.
    """

    def emit(params: gather.Along, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
        x, indices, updates = operands
        own = positions(len(x.shape))
        out, c = contiguous(x.shape), C_TYPE[x.dtype]
        names, index, source = _gathered(params, len(x.shape), len(indices.shape))
        count = len(indices.shape) - params.batch
        shape = updates.shape
        first = [*range(params.batch), *range(params.axis, params.axis + count)]
        rest = [axis for axis in range(len(shape)) if axis not in first]
        target = f"y0[{index_text(0, out, source)}]"
        update = [
            f"const {c} held = {target}, new = {updates.entry('x2', names)};",
            f"{target} = {combine(x.dtype, 'held', 'new')};",
        ]
        inner = _position(params, indices, x.shape[params.axis], index)
        inner += [
            "if (inside) {",
            *loops([shape[a] for a in rest], [names[a] for a in rest], update),
            "}",
        ]
        copy = loops(x.shape, own, [f"y0[{index_text(0, out, own)}] = {x.entry('x0', own)};"])
        if prod(shape) == 0 or prod(x.shape) == 0:
            return Called("\n".join(copy))
        return Called("\n".join([*copy, *loops([shape[a] for a in first], [names[a] for a in first], inner)]))

    return emit


def _with(sign: str) -> Any:
    def combine(dtype: DType, held: str, new: str) -> str:
        if sign == "*" and dtype.is_complex:
            return times(dtype, held, new)
        text = f"({local_type(dtype)})({loaded(dtype, held)} {sign} {loaded(dtype, new)})"
        return stored(dtype, rounded(dtype, text))

    return combine


def _extreme(sign: str) -> Any:
    def combine(dtype: DType, held: str, new: str) -> str:
        return stored(dtype, largest(wide(dtype), loaded(dtype, held), loaded(dtype, new), sign))

    return combine


def _starts(starts: Operand, sizes: tuple[int, ...], shape: tuple[int, ...], name: str) -> list[str]:
    """`s0, s1, …`: where a window of these sizes begins, so that it lies inside."""
    lines: list[str] = []
    for axis, (size, have) in enumerate(zip(sizes, shape, strict=True)):
        entry, room = starts.entry(name, [str(axis)]), have - size
        low = f"{entry} < 0 ? 0 : " if starts.dtype.kind.name == "SIGNED" else ""
        kind = "int64_t" if low else "uint64_t"
        lines.append(f"    const int64_t s{axis} = {low}({kind}){entry} > {room} ? {room} : (int64_t){entry};")
    return lines


def dynamic_slice(params: dynamic.Sizes, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """The window from its clamped starts on."""
    x, starts = operands
    names = positions(len(x.shape))
    source = [f"(s{axis} + {name})" for axis, name in enumerate(names)]
    move = f"y0[{index_text(0, contiguous(params.sizes), names)}] = {x.entry('x0', source)};"
    lines = [*_starts(starts, params.sizes, x.shape, "x1"), *loops(params.sizes, names, [move])]
    return Called("\n".join(lines))


def dynamic_update_slice(params: Any, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """A copy, then the window over it."""
    x, update, starts = operands
    names, out = positions(len(x.shape)), contiguous(x.shape)
    place = [f"(s{axis} + {name})" for axis, name in enumerate(names)]
    lines = [
        *_starts(starts, update.shape, x.shape, "x2"),
        *loops(x.shape, names, [f"y0[{index_text(0, out, names)}] = {x.entry('x0', names)};"]),
        *loops(update.shape, names, [f"y0[{index_text(0, out, place)}] = {update.entry('x1', names)};"]),
    ]
    return Called("\n".join(lines))


def position(relation: str) -> Any:
    """The first extreme along an axis, or the first NaN."""

    def emit(params: reduce.ArgAxis, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
        (x,) = operands
        rank = len(x.shape)
        names = positions(rank)
        kept = [axis for axis in range(rank) if axis != params.axis]
        start = [("0" if axis == params.axis else name) for axis, name in enumerate(names)]
        c, better = local_type(x.dtype), f"new {relation} best"
        if x.dtype.is_float:
            better = f"best == best && ({better} || new != new)"
        to = index_text(0, contiguous(types[0].shape), [names[axis] for axis in kept])
        inner = [
            f"{c} best = {loaded(x.dtype, x.entry('x0', start))};",
            f"{C_TYPE[params.dtype]} found = 0;",
            f"for (int64_t i{params.axis} = 1; i{params.axis} < {x.shape[params.axis]}; i{params.axis}++) {{",
            "    IN_ORDER;",
            f"    const {c} new = {loaded(x.dtype, x.entry('x0', names))};",
            f"    if ({better}) {{ best = new; found = ({C_TYPE[params.dtype]})i{params.axis}; }}",
            "}",
            f"y0[{to}] = found;",
        ]
        return Called("\n".join(loops(types[0].shape, [names[axis] for axis in kept], inner)))

    return emit


_THREEFRY = """static inline uint64_t threefry2x32(uint32_t k0, uint32_t k1, uint32_t x0, uint32_t x1) {
    const uint32_t schedule[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    x0 += k0;
    x1 += k1;
    for (int group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            const int turn = turns[group % 2][round];
            x0 += x1;
            x1 = ((x1 << turn) | (x1 >> (32 - turn))) ^ x0;
        }
        x0 += schedule[(group + 1) % 3];
        x1 += schedule[(group + 2) % 3] + (uint32_t)(group + 1);
    }
    return (uint64_t)x1 << 32 | x0;
}"""
_SPLITMIX = """static inline uint32_t splitmix64(uint64_t x) {
    uint64_t z = x + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t)(z ^ (z >> 31));
}"""


def random_bits(params: random.Draw, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """The generator at each row-major index, for each key."""
    (key,) = operands
    is_threefry = params.algorithm is random.Algorithm.THREEFRY2X32
    shape = key.shape[:-1] if is_threefry else key.shape
    names = positions(len(shape))
    count = prod(params.shape)
    to = index_text(0, tuple([step * count for step in contiguous(shape)]), names)
    if is_threefry:
        words = [f"const uint32_t k{word} = {key.entry('x0', [*names, str(word)])};" for word in (0, 1)]
        made = "({ const uint64_t both = threefry2x32(k0, k1, (uint32_t)((uint64_t)i >> 32), (uint32_t)i); "
        made += "(uint32_t)both ^ (uint32_t)(both >> 32); })"
    else:
        words = [f"const uint64_t key = {key.entry('x0', names)};"]
        made = "splitmix64(key + (uint64_t)i)"
    inner = [*words, f"for (int64_t i = 0; i < {count}; i++) y0[{to} + i] = {made};"]
    return Called("\n".join(loops(shape, names, inner)), 0, (_THREEFRY if is_threefry else _SPLITMIX,))


def threefry_pairs(params: Any, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """Both words for each pair of key and counter."""
    shape = types[0].shape[:-1]
    names = positions(len(shape))
    given = ", ".join([each.entry(f"x{at}", [*names, word]) for at, each in enumerate(operands) for word in "01"])
    to = index_text(0, tuple([2 * step for step in contiguous(shape)]), names)
    inner = [
        f"const uint64_t both = threefry2x32({given});",
        f"y0[{to}] = (uint32_t)both;",
        f"y0[{to} + 1] = (uint32_t)(both >> 32);",
    ]
    return Called("\n".join(loops(shape, names, inner)), 0, (_THREEFRY,))


def table() -> dict[Op, Any]:
    """Every op of this file."""
    return {
        cut.PAD: pad,
        cut.CONCATENATE: concatenate,
        gather.GATHER: take,
        gather.SCATTER_ADD: scattered(_with("+")),
        scattering.SCATTER: scattered(lambda dtype, held, new: new),
        scattering.SCATTER_MUL: scattered(_with("*")),
        scattering.SCATTER_MAX: scattered(_extreme(">=")),
        scattering.SCATTER_MIN: scattered(_extreme("<=")),
        dynamic.DYNAMIC_SLICE: dynamic_slice,
        dynamic.DYNAMIC_UPDATE_SLICE: dynamic_update_slice,
        bits.THREEFRY2X32: threefry_pairs,
        reduce.ARGMAX: position(">"),
        reduce.ARGMIN: position("<"),
        random.RANDOM_BITS: random_bits,
    }
