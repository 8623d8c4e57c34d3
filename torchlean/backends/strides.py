"""Strides of views, as NumPy computes them: which reshapes copy nothing."""

from __future__ import annotations

from torchlean.ir.types import Shape

Strides = tuple[int, ...]  # in entries


def contiguous(shape: Shape) -> Strides:
    """Row-major strides."""
    made: list[int] = []
    step = 1
    for size in reversed(shape):
        made.append(step)
        step *= size
    return tuple(reversed(made))


def reshaped(shape: Shape, strides: Strides, wanted: Shape) -> Strides | None:
    """The strides of a reshape that copies nothing, or None: axes that are joined must lie one inside the other."""
    if 0 in shape:
        return contiguous(wanted)
    old = [(size, step) for size, step in zip(shape, strides, strict=True) if size != 1]
    new = [axis for axis, size in enumerate(wanted) if size != 1]
    made = [0] * len(wanted)
    first = start = 0
    while first < len(old):  # groups of old and new axes with equal products
        last, stop = first + 1, start + 1
        left, right = old[first][0], wanted[new[start]]
        while left != right:
            if left < right:
                left *= old[last][0]
                last += 1
            else:
                right *= wanted[new[stop]]
                stop += 1
        for outer, inner in zip(old[first : last - 1], old[first + 1 : last], strict=True):
            if outer[1] != inner[0] * inner[1]:
                return None
        step = old[last - 1][1]
        for axis in reversed(new[start:stop]):
            made[axis] = step
            step *= wanted[axis]
        first, start = last, stop
    return tuple(made)
