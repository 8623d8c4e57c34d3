"""What a convolution's window is: params, shapes, and which positions meet.

Shared by the convolution and its two adjoints (`window.py`), which agree on layouts: input [N, C, spatial…], kernel
[O, C / groups, spatial…], output [N, O, spatial…].
"""

from __future__ import annotations

from torchlean.ir.op import TypeFault
from torchlean.ir.ops.families import FIELDS, kind_fault
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


@record
class Window:
    """Output `o` reads input `o·stride + k·dilation - low` with kernel entry `k`, per spatial axis.

    `padding`: (low, high) per axis, negative to crop; `groups`: channel blocks that do not mix.
    """

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


@record
class AdjointWindow:
    """The `Window` of the convolution whose adjoint this is, and the spatial sizes of the adjoint's result."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    spatial: Shape


Params = Window | AdjointWindow


def window_of(params: Params, groups: int | None = None) -> Window:
    """The convolution's own params, with another number of groups if one is given."""
    return Window(params.strides, params.padding, params.dilation, params.groups if groups is None else groups)


def adjoint_window(params: Params, spatial: Shape, groups: int | None = None) -> AdjointWindow:
    """Params of an adjoint of the convolution with result sizes `spatial`."""
    return AdjointWindow(
        params.strides, params.padding, params.dilation, params.groups if groups is None else groups, spatial
    )


# -- types -------------------------------------------------------------------------------------------------------------
def kernel_extent(size: int, dilation: int) -> int:
    """How many input positions a kernel axis spans."""
    return (size - 1) * dilation + 1


def check_operands(params: Params, names: tuple[str, str], lhs: TensorType, rhs: TensorType) -> None:
    if lhs.dtype.kind not in FIELDS:
        raise kind_fault(lhs.dtype, FIELDS)
    if lhs.dtype is not rhs.dtype:
        raise TypeFault(
            "operand dtypes differ",
            expected=f"two {lhs.dtype.short} operands",
            got=f"{lhs} and {rhs}",
            fix="convert one operand (ops.convert); nothing is promoted here",
        )
    rank = len(params.strides)
    if lhs.rank != rank + 2 or rhs.rank != rank + 2:
        raise TypeFault(
            f"operands do not have {rank} spatial axes",
            expected=f"rank {rank + 2}: {names[0]} and {names[1]}",
            got=f"{lhs} and {rhs}",
            fix="add a batch axis of size 1, or use the convolution of the operands' rank",
        )
    lengths = {len(params.padding), len(params.dilation), rank}
    if lengths != {rank} or min((*params.strides, *params.dilation, params.groups)) < 1:
        raise TypeFault(
            "the window is malformed",
            expected=f"{rank} strides, paddings and dilations; strides, dilations and groups of at least 1",
            got=str(params),
            fix="give one entry per spatial axis",
        )


def convolved_shape(params: Params, x: Shape, w: Shape) -> Shape:
    """The output shape of a convolution. Raises TypeFault if channels, groups or sizes do not fit."""
    channels, groups = x[1], params.groups
    if w[1] * groups != channels or w[0] % groups:
        raise TypeFault(
            f"channels do not fit {groups} group{'s' if groups > 1 else ''}",
            expected=f"input channels = {groups} · {w[1]} (kernel axis 1), output channels a multiple of {groups}",
            got=f"{channels} input channels, {w[0]} output channels",
            fix="check the kernel's layout [out, in / groups, spatial…] and the groups",
        )
    sizes: list[int] = []
    for axis, (size, kernel) in enumerate(zip(x[2:], w[2:], strict=True)):
        low, high = params.padding[axis]
        room = size + low + high - kernel_extent(kernel, params.dilation[axis])
        if kernel < 1 or room < 0:
            raise TypeFault(
                f"the kernel does not fit spatial axis {axis}",
                expected="a kernel of at least 1 entry that spans at most the padded input",
                got=f"kernel {kernel} (spans {kernel_extent(kernel, params.dilation[axis])}), "
                f"input {size} padded to {size + low + high}",
                fix="pad the input, or use a smaller kernel or dilation",
            )
        sizes.append(room // params.strides[axis] + 1)
    return (x[0], w[0], *sizes)


def check_cotangent(params: Params, x: Shape, w: Shape, ct: TensorType) -> None:
    if min((*x[2:], *w[2:]), default=0) < 0:
        raise TypeFault(
            "a spatial size of the result is negative",
            expected="sizes of at least 0",
            got=f"input {list(x[2:])}, kernel {list(w[2:])}",
            fix="check the padding and the sizes asked for",
        )
    wanted = convolved_shape(params, x, w)
    if ct.shape != wanted:
        raise TypeFault(
            "the cotangent is not of the convolution's shape",
            expected=str(ct.with_shape(wanted)),
            got=str(ct),
            fix=f"check the result's spatial sizes: an input {list(x)} with a kernel {list(w)} was asked for",
        )


def conv_type(params: Window, x: TensorType, w: TensorType) -> tuple[TensorType, ...]:
    check_operands(params, ("input [N, C, …]", "kernel [O, C / groups, …]"), x, w)
    return (x.with_shape(convolved_shape(params, x.shape, w.shape)),)


def input_adjoint_type(params: AdjointWindow, ct: TensorType, w: TensorType) -> tuple[TensorType, ...]:
    check_operands(params, ("cotangent [N, O, …]", "kernel [O, C / groups, …]"), ct, w)
    shape = (ct.shape[0], w.shape[1] * params.groups, *params.spatial)
    check_cotangent(params, shape, w.shape, ct)
    return (ct.with_shape(shape),)


def kernel_adjoint_type(params: AdjointWindow, x: TensorType, ct: TensorType) -> tuple[TensorType, ...]:
    check_operands(params, ("input [N, C, …]", "cotangent [N, O, …]"), x, ct)
    if x.shape[1] % params.groups:
        raise TypeFault(
            f"channels do not fit {params.groups} groups",
            expected=f"input channels a multiple of {params.groups}",
            got=str(x),
            fix="check the groups",
        )
    shape = (ct.shape[1], x.shape[1] // params.groups, *params.spatial)
    check_cotangent(params, x.shape, shape, ct)
    return (x.with_shape(shape),)


# -- which positions meet ----------------------------------------------------------------------------------------------
Region = tuple[slice, ...]


def _meeting(count: int, stride: int, start: int, size: int) -> tuple[slice, slice]:
    """The `j` in [0, count) for which `j·stride + start` lies in [0, size), and those positions."""
    first = max(0, -(start // stride))
    stop = max(first, min(count, -((start - size) // stride)))
    begin = first * stride + start
    end = begin + (stop - first - 1) * stride + 1 if stop > first else begin
    return slice(first, stop), slice(begin, end, stride)


def offset_regions(params: Params, offset: Shape, outputs: Shape, inputs: Shape) -> tuple[Region, Region]:
    """For one kernel offset: the outputs that read inside the input, and the inputs they read."""
    pairs = [
        _meeting(outputs[a], params.strides[a], k * params.dilation[a] - params.padding[a][0], inputs[a])
        for a, k in enumerate(offset)
    ]
    return tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs])


def output_regions(params: Params, output: Shape, kernel: Shape, inputs: Shape) -> tuple[Region, Region]:
    """For one output position: the kernel offsets that read inside the input, and the inputs they read."""
    pairs = [
        _meeting(kernel[a], params.dilation[a], o * params.strides[a] - params.padding[a][0], inputs[a])
        for a, o in enumerate(output)
    ]
    return tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs])


def lengths(region: Region) -> Shape:
    """The sizes of a region."""
    return tuple([len(range(s.start, s.stop, s.step or 1)) for s in region])
