"""Convolution and its two adjoints as matrix products over gathered patches, in the definition's order of folding.

A block of patches is gathered at a time, with 0 where a kernel offset meets nothing. The definition skips such terms:
a product with 0 adds ±0, which changes no fold that began at +0, unless the other factor is infinite or NaN. Those
factors are looked at first, and if one is not finite the fold is done term by term.
"""

from __future__ import annotations

from math import prod
from typing import Any

from torchlean.backends.compiled.complexes import times
from torchlean.backends.compiled.halves import loaded, local_type, rounded, stored
from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.matmul import SMALL, Product, Side
from torchlean.backends.compiled.operand import Called, Operand, loops
from torchlean.backends.compiled.text import C_TYPE, zero
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.strides import contiguous
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import window
from torchlean.ir.ops.window_types import AdjointWindow, Params, Window
from torchlean.ir.types import Shape, TensorType

SHARED = 1 << 21  # multiplications from which on threads share a convolution out
PATCH_BYTES = 1 << 18  # of a gathered block: it should stay in the second-level cache


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{axis}" for axis in range(count)]


def _meets(params: Params, rank: int, sizes: Shape) -> tuple[list[str], str]:
    """Where outputs `o` and offsets `k` read the input: positions `a`, and whether all lie inside."""
    lines = [
        f"const int64_t a{axis} = o{axis} * {params.strides[axis]} + k{axis} * {params.dilation[axis]} - "
        f"({params.padding[axis][0]});"
        for axis in range(rank)
    ]
    inside = [f"a{axis} >= 0 && a{axis} < {sizes[axis]}" for axis in range(rank)]
    return lines, " && ".join(inside) or "1"


def _reaches(params: Params, rank: int, sizes: Shape) -> tuple[list[str], str]:
    """Which output `a` reads the input at `o` through the offset `k`, and whether there is one."""
    lines: list[str] = []
    inside: list[str] = []
    for axis in range(rank):
        step = params.strides[axis]
        lines.append(
            f"const int64_t d{axis} = o{axis} + ({params.padding[axis][0]}) - k{axis} * {params.dilation[axis]};"
        )
        lines.append(f"const int64_t a{axis} = d{axis} / {step};")
        whole = "" if step == 1 else f" && d{axis} % {step} == 0"
        inside.append(f"d{axis} >= 0{whole} && a{axis} < {sizes[axis]}")
    return lines, " && ".join(inside) or "1"


def _finite(name: str, operand: Operand, dtype: DType) -> list[str]:
    """`finite`: whether no entry of an operand is infinite or NaN."""
    if not dtype.is_float and not dtype.is_complex:
        return ["const int finite = 1;"]
    names = _names("i", len(operand.shape))
    entry = loaded(dtype, operand.entry(name, names))
    test = f"finite &= ({entry} - {entry}) == 0;"
    return ["int finite = 1;", *loops(operand.shape, names, [test], "")]


def _term(dtype: DType, x: str, y: str) -> str:
    """`total` goes on by a product of two entries in memory, which is rounded, and so is the sum."""
    c, x, y = local_type(dtype), loaded(dtype, x), loaded(dtype, y)
    product = times(dtype, x, y) if dtype.is_complex else rounded(dtype, f"({c})({x} * {y})")
    return f"total = {rounded(dtype, f'({c})(total + {product})')};"


class _Window:
    """The sizes of one convolution: groups, channels in and out of each, kernel, inputs, outputs."""

    def __init__(self, params: Params, x: Shape, w: Shape, out: Shape, dtype: DType, chain: Toolchain) -> None:
        self.params, self.dtype, self.c, self.chain = params, dtype, C_TYPE[dtype], chain
        self.batch, self.groups = x[0], params.groups
        self.per_in, self.per_out = w[1], w[0] // params.groups
        self.kernel, self.inputs, self.outputs = w[2:], x[2:], out[2:]
        self.rank = len(self.kernel)
        self.offsets = prod(self.kernel)

    def blocks(self, sizes: Shape, depth: int) -> tuple[int, int, int]:
        """How many rows of the first axis a block has, how many blocks, and the rows of a last, shorter one."""
        row = depth * prod(sizes[1:]) * self.dtype.carrier.itemsize
        rows = max(1, min(sizes[0], PATCH_BYTES // max(1, row))) if sizes else 1
        first = sizes[0] if sizes else 1
        return rows, first // rows, first % rows


def _over_blocks(sizes: Shape, blocks: tuple[int, int, int], make: Any) -> list[str]:
    """`make(rows)` for every block of rows; `first` is where it begins."""
    rows, count, rest = blocks
    lines = [f"for (int64_t first = 0; first < {rows * count}; first += {rows}) {{"]
    lines += [*[f"    {line}" for line in make(rows)], "}"]
    if rest:
        lines += ["{", f"    const int64_t first = {rows * count};", *[f"    {line}" for line in make(rest)], "}"]
    return lines


def _gathered(
    win: _Window, source: Operand, name: str, channels: int, sizes: Shape, rows: int, meets: Any, *, columns: bool
) -> list[str]:
    """Patches of image `n`, group `g`: `patches[channel and offset][position]`, or the other way round."""
    outs, offs = _names("o", win.rank), _names("k", win.rank)
    lines, inside = meets
    block = (rows, *sizes[1:]) if sizes else ()
    count = prod(block)
    place = index_text(0, contiguous(block), [f"({outs[0]} - first)", *outs[1:]] if sizes else [])
    unit = index_text(0, (win.offsets, *contiguous(win.kernel)), ["c", *offs])
    where = f"({unit}) * {count} + ({place})" if columns else f"({place}) * {channels * win.offsets} + ({unit})"
    entry = source.entry(name, ["n", f"(g * {channels} + c)", *_names("a", win.rank)])
    inner = [*lines, f"patches[{where}] = ({inside}) ? {entry} : {zero(win.dtype)};"]
    first = f"for (int64_t o0 = first; o0 < first + {rows}; o0++) {{" if sizes else "{"
    positions = [first, *loops(sizes[1:], outs[1:], inner), "}"]
    around = [channels, *win.kernel], ["c", *offs]
    if columns:
        return loops(*around, positions, "")
    units = loops(*around, inner)
    return [first, *loops(sizes[1:], outs[1:], units), "}"]


def conv(params: Window, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """Fold over input channel, then kernel offset."""
    x, w = operands
    dtype = types[0].dtype
    win = _Window(params, x.shape, w.shape, types[0].shape, dtype, chain)
    meets = _meets(params, win.rank, win.inputs)
    return _towards(win, x, "x0", w, "x1", win.per_in, win.per_out, win.outputs, meets, False, types[0])


def conv_input_adjoint(
    params: AdjointWindow, operands: list[Operand], types: list[TensorType], chain: Toolchain
) -> Called:
    """Fold over output channel in its group, then kernel offset."""
    ct, w = operands
    dtype = types[0].dtype
    win = _Window(params, types[0].shape, w.shape, ct.shape, dtype, chain)
    meets = _reaches(params, win.rank, win.outputs)
    return _towards(win, ct, "x0", w, "x1", win.per_out, win.per_in, win.inputs, meets, True, types[0])


def _towards(
    win: _Window,
    source: Operand,
    name: str,
    w: Operand,
    weights: str,
    given: int,
    made: int,
    sizes: Shape,
    meets: Any,
    turned: bool,
    result: TensorType,
) -> Called:
    """Results [image, group · channel, position] from `given` channels of each group, `made` of them per group."""
    c, depth = win.c, given * win.offsets
    if depth == 0 or result.size == 0:
        return Called(f"    for (int64_t i = 0; i < {result.size}; i++) y0[i] = {zero(win.dtype)};")
    blocks = win.blocks(sizes, depth)
    positions = prod(sizes)
    size = win.dtype.carrier.itemsize
    space = -(-blocks[0] * prod(sizes[1:]) * depth * size // 64) * 64
    kept = -(-made * depth * size // 64) * 64
    helpers: list[str] = []
    most = 0
    tasks = win.batch if result.size * depth >= SHARED else 1
    images = (
        "for (int64_t n = start; n < stop; n++) {" if tasks > 1 else f"for (int64_t n = 0; n < {win.batch}; n++) {{"
    )
    offs = _names("k", win.rank)
    channel = ["(g * {0} + c)", "m"] if turned else ["(g * {1} + m)", "c"]
    weight = w.entry(weights, [*[text.format(given, made) for text in channel], *offs])
    unit = index_text(0, (win.offsets, *contiguous(win.kernel)), ["c", *offs])

    def block(rows: int) -> list[str]:
        nonlocal most
        count = rows * prod(sizes[1:])
        left, right = Side(0, (), depth, 1), Side(0, (), 1, count)
        product = Product(win.dtype, made, count, depth, left, right, space + kept, win.chain, positions)
        lines = product.lines()
        most = max(most, product.workspace)
        helpers.extend([text for text in product.helpers if text not in helpers])
        return [
            *_gathered(win, source, name, given, sizes, rows, meets, columns=True),
            f"{c} *restrict made = y0 + (n * {win.groups} + g) * {made * positions} + first * {prod(sizes[1:])};",
            *lines,
        ]

    fast = [
        f"{c} *restrict patches = ({c} *)workspace;",
        f"{c} *restrict left = ({c} *)(workspace + {space});",
        f"const {c} *restrict right = patches;",
        "const int more = 0;",
        *loops([made, given, *win.kernel], ["m", "c", *offs], [f"left[m * {depth} + {unit}] = {weight};"], ""),
        images,
        *[f"    {line}" for line in _over_blocks(sizes, blocks, block)],
        "}",
    ]
    lines, inside = meets
    outs = _names("o", win.rank)
    entry = source.entry(name, ["n", f"(g * {given} + c)", *_names("a", win.rank)])
    term = [*lines, f"if ({inside}) {_term(win.dtype, entry, weight)}"]
    to = index_text(0, (positions, *contiguous(sizes)), [f"((n * {win.groups} + g) * {made} + m)", *outs])
    one = [
        f"{local_type(win.dtype)} total = 0;",
        *loops([given, *win.kernel], ["c", *offs], ["IN_ORDER;", *term], ""),
        f"y0[{to}] = {stored(win.dtype, 'total')};",
    ]
    slow = [images, *loops([made, *sizes], ["m", *outs], one), "}"]
    return _both(win, _finite(weights, w, win.dtype), fast, slow, most, helpers, tasks, 2)


def _both(
    win: _Window,
    finite: list[str],
    fast: list[str],
    slow: list[str],
    workspace: int,
    helpers: list[str],
    tasks: int,
    pieces: int,
) -> Called:
    lines = [f"    {line}" for line in finite]
    lines.append(f"    for (int64_t g = 0; g < {win.groups}; g++) {{")
    lines.append("        if (finite) {")
    lines += [f"            {line}" for line in fast]
    lines.append("        } else {")
    lines += [f"            {line}" for line in slow]
    lines += ["        }", "    }"]
    return Called("\n".join(lines), workspace, tuple(helpers), tasks, pieces)


def conv_kernel_adjoint(
    params: AdjointWindow, operands: list[Operand], types: list[TensorType], chain: Toolchain
) -> Called:
    """Fold over batch, then output position."""
    x, ct = operands
    dtype = types[0].dtype
    win = _Window(params, x.shape, types[0].shape, ct.shape, dtype, chain)
    c, width = win.c, win.per_in * win.offsets
    if win.batch == 0 or prod(win.outputs) == 0 or types[0].size == 0:
        return Called(f"    for (int64_t i = 0; i < {types[0].size}; i++) y0[i] = {zero(dtype)};")
    meets = _meets(params, win.rank, win.inputs)
    blocks = win.blocks(win.outputs, width)
    size = dtype.carrier.itemsize
    rest = prod(win.outputs[1:])
    space = -(-blocks[0] * rest * width * size // 64) * 64
    kept = -(-blocks[0] * rest * win.per_out * size // 64) * 64
    outs, offs = _names("o", win.rank), _names("k", win.rank)
    helpers: list[str] = []
    most = 0
    cotangent = ct.entry("x1", ["n", f"(g * {win.per_out} + m)", *outs])
    least = (blocks[2] or blocks[0]) * rest * win.per_out * width  # the multiplications of the smallest block
    is_shared = types[0].size * win.batch * prod(win.outputs) >= SHARED and least > SMALL
    units = 1

    def block(rows: int) -> list[str]:
        nonlocal most, units
        count = rows * rest
        left, right = Side(0, (), count, 1), Side(0, (), 1, width)
        product = Product(dtype, win.per_out, width, count, left, right, space + kept, win.chain, width)
        if is_shared and product.is_tiled() and product.units() > 1:
            product.split, units = True, product.units()
        lines = [*(product.range() if product.split else []), *product.lines()]
        most = max(most, product.workspace)
        helpers.extend([text for text in product.helpers if text not in helpers])
        shape = (rows, *win.outputs[1:]) if win.outputs else ()
        place = index_text(0, contiguous(shape), [f"({outs[0]} - first)", *outs[1:]] if outs else [])
        first = f"for (int64_t o0 = first; o0 < first + {rows}; o0++) {{" if outs else "{"
        copy = [first, *loops(win.outputs[1:], outs[1:], [f"left[m * {count} + {place}] = {cotangent};"]), "}"]
        return [
            *_gathered(win, x, "x0", win.per_in, win.outputs, rows, meets, columns=False),
            *loops([win.per_out], ["m"], copy, ""),
            "const int more = n > 0 || first > 0;",
            *lines,
        ]

    fast = [
        f"{c} *restrict patches = ({c} *)workspace;",
        f"{c} *restrict left = ({c} *)(workspace + {space});",
        f"const {c} *restrict right = patches;",
        f"{c} *restrict made = y0 + g * {win.per_out * width};",
        f"for (int64_t n = 0; n < {win.batch}; n++) {{",
        *[f"    {line}" for line in _over_blocks(win.outputs, blocks, block)],
        "}",
    ]
    lines, inside = meets
    entry = x.entry("x0", ["n", f"(g * {win.per_in} + c)", *_names("a", win.rank)])
    term = [*lines, f"if ({inside}) {_term(dtype, entry, cotangent)}"]
    to = index_text(0, (width, win.offsets, *contiguous(win.kernel)), [f"(g * {win.per_out} + m)", "c", *offs])
    one = [
        f"{local_type(dtype)} total = 0;",
        *loops([win.batch, *win.outputs], ["n", *outs], ["IN_ORDER;", *term], ""),
        f"y0[{to}] = {stored(dtype, 'total')};",
    ]
    slow = loops([win.per_out, win.per_in, *win.kernel], ["m", "c", *offs], one, "")
    if units > 1:
        slow = ["if (start == 0) {", *slow, "}"]
    return _both(win, _finite("x1", ct, dtype), fast, slow, most, helpers, units, 1)


def table() -> dict[Op, Any]:
    """The three ops."""
    return {
        window.CONV: conv,
        window.CONV_INPUT_ADJOINT: conv_input_adjoint,
        window.CONV_KERNEL_ADJOINT: conv_kernel_adjoint,
    }
