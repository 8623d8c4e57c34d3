"""Matrix products, convolutions and their adjoints, Fourier transforms. Products are of full precision: no shorter
format is substituted, whatever the settings of jax say.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule
from torchlean.ir.op import Op
from torchlean.ir.ops import dot, fft, window
from torchlean.ir.ops.window_types import AdjointWindow, Window, kernel_extent


def _dot_general(params: Any, made: Made, lhs: Any, rhs: Any) -> Any:
    numbers = ((params.lhs_contract, params.rhs_contract), (params.lhs_batch, params.rhs_batch))
    return lax.dot_general(
        lhs, rhs, numbers, precision=lax.Precision.HIGHEST, preferred_element_type=made[0].dtype.carrier
    )


# -- convolution: [N, C, spatial…], [O, C / groups, spatial…] → [N, O, spatial…] ---------------------------------------
def _convolved(
    x: Any,
    w: Any,
    made: Made,
    *,
    strides: tuple[int, ...],
    padding: list[tuple[int, int]],
    spread: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
) -> Any:
    """A convolution whose input has `spread - 1` zeros between neighbours."""
    return lax.conv_general_dilated(
        x,
        w,
        strides,
        padding,
        lhs_dilation=spread,
        rhs_dilation=dilation,
        feature_group_count=groups,
        precision=lax.Precision.HIGHEST,
        preferred_element_type=made[0].dtype.carrier,
    )


def _conv(params: Window, made: Made, x: Any, w: Any) -> Any:
    ones = (1,) * len(params.strides)
    return _convolved(
        x,
        w,
        made,
        strides=params.strides,
        padding=list(params.padding),
        spread=ones,
        dilation=params.dilation,
        groups=params.groups,
    )


def _spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _input_adjoint(params: AdjointWindow, made: Made, ct: Any, w: Any) -> Any:
    """The cotangent with the strides' zeros put in, convolved with the flipped kernel, its channels exchanged."""
    groups, kernel, inputs, outputs = params.groups, w.shape[2:], params.spatial, ct.shape[2:]
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    turned = lax.rev(w, _spatial(w)).reshape((groups, per_out, per_in, *kernel))
    turned = jnp.swapaxes(turned, 1, 2).reshape((groups * per_in, per_out, *kernel))
    padding: list[tuple[int, int]] = []
    for axis, size in enumerate(inputs):
        extent = kernel_extent(kernel[axis], params.dilation[axis])
        low = extent - 1 - params.padding[axis][0]
        spread = (outputs[axis] - 1) * params.strides[axis] + 1
        padding.append((low, size + extent - 1 - spread - low))
    ones = (1,) * len(inputs)
    return _convolved(
        ct,
        turned,
        made,
        strides=ones,
        padding=padding,
        spread=params.strides,
        dilation=params.dilation,
        groups=groups,
    )


def _kernel_adjoint(params: AdjointWindow, made: Made, x: Any, ct: Any) -> Any:
    """The input's channels as a batch, the batch as channels: convolved with the cotangent, group by group."""
    groups, kernel, inputs, outputs = params.groups, params.spatial, x.shape[2:], ct.shape[2:]
    n, per_in, per_out = x.shape[0], x.shape[1] // groups, ct.shape[1] // groups
    left = x.reshape((n, groups, per_in, *inputs))
    left = jnp.moveaxis(left, (2, 1, 0), (0, 1, 2)).reshape((per_in, groups * n, *inputs))
    right = jnp.swapaxes(ct, 0, 1)
    padding: list[tuple[int, int]] = []
    for axis, size in enumerate(kernel):
        low = params.padding[axis][0]
        extent = (outputs[axis] - 1) * params.strides[axis] + 1
        wanted = (size - 1) * params.dilation[axis] + extent
        padding.append((low, wanted - inputs[axis] - low))
    ones = (1,) * len(kernel)
    result = _convolved(
        left,
        right,
        made,
        strides=params.dilation,
        padding=padding,
        spread=ones,
        dilation=params.strides,
        groups=groups,
    )
    return jnp.swapaxes(result, 0, 1).reshape((groups * per_out, per_in, *kernel))


def _unless_empty(rule: Rule) -> Rule:
    """Sums over nothing are 0."""

    def checked(params: Any, made: Made, lhs: Any, rhs: Any) -> Any:
        if 0 in lhs.shape or 0 in rhs.shape or 0 in made[0].shape:
            return lax.full(made[0].shape, 0, made[0].dtype.carrier)
        return rule(params, made, lhs, rhs)

    return checked


# -- Fourier transforms ------------------------------------------------------------------------------------------------
def _along(axis: int, x: Any, transform: Any) -> Any:
    return jnp.moveaxis(transform(jnp.moveaxis(x, axis, -1)), -1, axis)


def _unless_flat(params: Any, made: Made, x: Any, transform: Any) -> Any:
    if 0 in x.shape:
        return lax.full(made[0].shape, 0, made[0].dtype.carrier)
    return _along(params.axis, x, transform)


def _fft(params: Any, made: Made, x: Any) -> Any:
    kind = lax.FftType.IFFT if params.inverse else lax.FftType.FFT
    return _unless_flat(params, made, x, lambda v: lax.fft(v, kind, (v.shape[-1],)))


def _rfft(params: Any, made: Made, x: Any) -> Any:
    return _unless_flat(params, made, x, lambda v: lax.fft(v, lax.FftType.RFFT, (v.shape[-1],)))


def _irfft(params: Any, made: Made, x: Any) -> Any:
    return _unless_flat(params, made, x, lambda v: lax.fft(v, lax.FftType.IRFFT, (params.length,)))


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    return {
        dot.DOT_GENERAL: _dot_general,
        window.CONV: _unless_empty(_conv),
        window.CONV_INPUT_ADJOINT: _unless_empty(_input_adjoint),
        window.CONV_KERNEL_ADJOINT: _unless_empty(_kernel_adjoint),
        fft.FFT: _fft,
        fft.RFFT: _rfft,
        fft.IRFFT: _irfft,
    }
