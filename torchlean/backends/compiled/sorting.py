"""Sorting in C: the order of each row by merging, stable, then every operand in that order."""

from __future__ import annotations

from typing import Any

from torchlean.backends.compiled.halves import loaded, local_type
from torchlean.backends.compiled.loops import index_text
from torchlean.backends.compiled.operand import Called, Operand, loops, positions
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.strides import contiguous
from torchlean.ir.op import Op
from torchlean.ir.ops.sorting import SORT, Sorting
from torchlean.ir.types import TensorType


def _before(keys: list[Operand], axis: int, names: list[str], descending: bool) -> list[str]:
    """Whether position `q` comes before `p` strictly: by the first key that tells them apart. NaN is the largest."""
    sign = ">" if descending else "<"
    lines = ["int before = 0;"]
    for number, key in enumerate(keys):
        c = local_type(key.dtype)
        p, q = (key.entry(f"x{number}", [at if a == axis else name for a, name in enumerate(names)]) for at in "pq")
        lines += [f"const {c} p{number} = {loaded(key.dtype, p)}, q{number} = {loaded(key.dtype, q)};"]

        def comes(x: str, y: str, is_float: bool = key.dtype.is_float) -> str:
            if not is_float:
                return f"{x} {sign} {y}"
            last, first = (x, y) if descending else (y, x)
            return f"({x} {sign} {y} || ({last} != {last} && {first} == {first}))"

        lines.append(f"if ({comes(f'q{number}', f'p{number}')}) before = 1;")
        if number + 1 < len(keys):
            lines.append(f"else if (!({comes(f'p{number}', f'q{number}')})) {{")
    return lines + ["}"] * (len(keys) - 1)


def sort(params: Sorting, operands: list[Operand], types: list[TensorType], chain: Toolchain) -> Called:
    """Runs of doubled length are merged from one list of positions to another; of equal keys the left one is taken."""
    shape, axis = types[0].shape, params.axis
    size, names = shape[axis], positions(len(shape))
    others = [a for a in range(len(shape)) if a != axis]
    merge = [
        "if (right >= end) { to[k] = from[left++]; continue; }",
        "if (left >= middle) { to[k] = from[right++]; continue; }",
        "const int64_t p = from[left], q = from[right];",
        *_before(operands[: params.keys], axis, names, params.descending),
        "to[k] = before ? from[right++] : from[left++];",
    ]
    out = contiguous(shape)
    moves: list[str] = []
    for number, operand in enumerate(operands):
        source = operand.entry(f"x{number}", ["from[k]" if a == axis else name for a, name in enumerate(names)])
        place = index_text(0, out, ["k" if a == axis else name for a, name in enumerate(names)])
        moves.append(f"for (int64_t k = 0; k < {size}; k++) y{number}[{place}] = {source};")
    inner = [
        f"int64_t *from = (int64_t *)workspace, *to = from + {size};",
        f"for (int64_t k = 0; k < {size}; k++) from[k] = k;",
        f"for (int64_t width = 1; width < {size}; width *= 2) {{",
        f"    for (int64_t start = 0; start < {size}; start += 2 * width) {{",
        f"        const int64_t middle = start + width < {size} ? start + width : {size};",
        f"        const int64_t end = middle + width < {size} ? middle + width : {size};",
        "        int64_t left = start, right = middle;",
        "        for (int64_t k = start; k < end; k++) {",
        *[f"            {line}" for line in merge],
        "        }",
        "    }",
        "    int64_t *const other = from;",
        "    from = to;",
        "    to = other;",
        "}",
        *moves,
    ]
    lines = loops([shape[a] for a in others], [names[a] for a in others], inner)
    return Called("\n".join(lines), 16 * max(1, size))


def table() -> dict[Op, Any]:
    """The op."""
    return {SORT: sort}
