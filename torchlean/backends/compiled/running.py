"""Running folds along an axis, and the linear recurrence: sequential there, side by side along the other axes."""

from __future__ import annotations

from typing import Any

from torchlean.backends.compiled.complexes import times
from torchlean.backends.compiled.expressions import largest
from torchlean.backends.compiled.halves import loaded, local_type, rounded, stored, wide
from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.operand import Called, Operand, loops, positions
from torchlean.backends.compiled.text import SUFFIX, number
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.strides import contiguous
from torchlean.ir.op import Op
from torchlean.ir.ops import cumulative
from torchlean.ir.types import TensorType


def _along(params: Any, shape: tuple[int, ...], first: str, step: str, shift: str | None) -> Called:
    """`first` and `step` make `total` from the entry at `names`, `step` from the total before it.

    `shift`: results are put one place on, and this begins.
    """
    axis, rank = params.axis, len(shape)
    size = shape[axis]
    names = positions(rank)
    here = f"({size - 1} - k)" if params.reverse else "k"
    inner_axes = [a for a in range(rank) if a > axis]
    outer_axes = [a for a in range(rank) if a < axis]
    strides = contiguous(shape)

    def at(k: str) -> str:
        return index_text(0, strides, [k if a == axis else name for a, name in enumerate(names)])

    following = here if shift is None else f"({here} {'-' if params.reverse else '+'} 1)"
    last = size if shift is None else size - 1
    end = f"({size - 1})" if params.reverse else "0"
    inner = [names[a] for a in inner_axes]
    sizes = [shape[a] for a in inner_axes]
    lines: list[str] = []
    if size == 0:
        return Called("")
    if shift is not None:
        lines += loops(sizes, inner, [f"y0[{at(end)}] = {shift};"], "")
    position = f"const int64_t i{axis} = {here};"
    begin = f"const int64_t i{axis} = {end}; y0[{at(following.replace('k', '0'))}] = {first};"
    if last > 0:
        lines += loops(sizes, inner, [begin], "")
    before = f"y0[{at(f'({following} {chr(43) if params.reverse else chr(45)} 1)')}]"
    text = step.format(total=before)
    lines.append(f"for (int64_t k = 1; k < {last}; k++) {{{'' if sizes else ' IN_ORDER;'}")
    lines += loops(sizes, inner, [position, f"y0[{at(following)}] = {text};"])
    lines.append("}")
    return Called("\n".join(loops([shape[a] for a in outer_axes], [names[a] for a in outer_axes], lines)))


def running(sign: str, neutral: int) -> Any:
    """A running sum or product."""

    def emit(
        params: cumulative.PartialRun, operands: list[Operand], types: list[TensorType], chain: Toolchain
    ) -> Called:
        (x,) = operands
        dtype = types[0].dtype
        entry = x.entry("x0", positions(len(x.shape)))
        shift = stored(dtype, number(wide(dtype), neutral)) if params.exclusive else None
        step = f"({local_type(dtype)})({loaded(dtype, '{total}')} {sign} {loaded(dtype, entry)})"
        if sign == "*" and dtype.is_complex:
            step = times(dtype, "{total}", entry)
        return _along(params, x.shape, entry, stored(dtype, rounded(dtype, step)), shift)

    return emit


def extreme(sign: str) -> Any:
    """A running extreme."""

    def emit(params: cumulative.Run, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
        (x,) = operands
        entry = x.entry("x0", positions(len(x.shape)))
        dtype = types[0].dtype
        step = largest(wide(dtype), loaded(dtype, "{total}"), loaded(dtype, entry), sign)
        return _along(params, x.shape, entry, stored(dtype, step), None)

    return emit


def log_sums(params: cumulative.Run, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """max + log1p(e^-|y - x|), every operation rounded; an infinite maximum is the result."""
    (x,) = operands
    dtype, c = types[0].dtype, local_type(types[0].dtype)
    entry, short, suffix = x.entry("x0", positions(len(x.shape))), wide(dtype).short, SUFFIX[wide(dtype)]
    apart = rounded(dtype, f"tl_exp_{short}(-__builtin_fabs{suffix}({rounded(dtype, 'y - x')}))")
    added = rounded(dtype, f"top + {rounded(dtype, f'tl_log1p_{short}({apart})')}")
    step = (
        f"({{{{ const {c} y = {loaded(dtype, '{total}')}, x = {loaded(dtype, entry)}; "
        f"const {c} top = {largest(wide(dtype), 'y', 'x')}; "
        f"__builtin_isinf(top) ? top : {added}; }}}})"
    )
    return _along(params, x.shape, entry, stored(dtype, step), None)


def recurrence(params: cumulative.Run, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """The product, rounded, then the sum."""
    a, b = operands
    names = positions(len(b.shape))
    dtype, c = b.dtype, local_type(b.dtype)
    factor, term = a.entry("x0", names), b.entry("x1", names)
    product = rounded(dtype, f"({c})({loaded(dtype, factor)} * {loaded(dtype, '{total}')})")
    if dtype.is_complex:
        product = times(dtype, factor, "{total}")
    step = rounded(dtype, f"({c})({product} + {loaded(dtype, term)})")
    return _along(params, b.shape, term, stored(dtype, step), None)


def table() -> dict[Op, Any]:
    """Every op of this file."""
    return {
        cumulative.CUMSUM: running("+", 0),
        cumulative.CUMPROD: running("*", 1),
        cumulative.CUMMAX: extreme(">="),
        cumulative.CUMMIN: extreme("<="),
        cumulative.CUMLOGSUMEXP: log_sums,
        cumulative.RECURRENCE: recurrence,
    }
