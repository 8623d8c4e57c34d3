"""Softmax and log_softmax with their gradients, in a form that XLA:CPU's library fusions take.

A body guards rows of -∞ by selects, which those fusions refuse. Here a maximum and a sum do the same: the shift is at
least the lowest finite number, and the total is the smallest normal number larger, which is lost beside the 1 of any
other row. What settles 0 · ∞ stays: the derivative policy's product, twice instead of three times. A NaN cotangent of
a row of -∞ reaches the whole row, as of any other.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule, chain_mul, constant, widened
from torchlean.ir.op import Op
from torchlean.ir.ops.activation import LOG_SOFTMAX, SOFTMAX


def _along(row: Any, like: Any, axis: int) -> Any:
    """One value for each row along `axis`, given to all its entries."""
    return lax.broadcast_in_dim(row, like.shape, [each for each in range(like.ndim) if each != axis])


def _sum(x: Any, axis: int) -> Any:
    return lax.reduce_sum(x, (axis,))


def _parts(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """x - max x; its exponential; Σ of that along `axis`, which is 0 for a row of -∞ alone."""
    top = lax.stop_gradient(lax.reduce_max(x, (axis,)))
    shifted = lax.sub(x, _along(lax.max(top, constant(top, jnp.finfo(x.dtype).min)), x, axis))
    raised = widened(lax.exp)(shifted)
    return shifted, raised, _sum(raised, axis)


def _divisor(total: Any) -> Any:
    """A total, and not 0."""
    return lax.add(total, constant(total, jnp.finfo(total.dtype).tiny))


def _weights(raised: Any, total: Any, axis: int) -> Any:
    return lax.div(raised, _along(_divisor(total), raised, axis))


def _times(params: Any) -> Any:
    """The product a body of these attributes was derived with."""
    return lax.mul if ("derivatives", "ieee") in params.attributes else chain_mul


def _softmax(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return x
    axis = params.attribute("axis")
    _, raised, total = _parts(x, axis)
    return _weights(raised, total, axis)


def _softmax_vjp(params: Any, made: Made, x: Any, ct: Any) -> Any:
    """y · (ct - Σ ct·y)."""
    if 0 in x.shape:
        return ct
    axis, times = params.attribute("axis"), _times(params)
    _, raised, total = _parts(x, axis)
    y = _weights(raised, total, axis)
    return times(lax.sub(ct, _along(_sum(times(ct, y), axis), x, axis)), y)


def _log_softmax(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return x
    axis = params.attribute("axis")
    shifted, _, total = _parts(x, axis)
    return lax.sub(shifted, _along(widened(lax.log)(_divisor(total)), x, axis))


def _log_softmax_vjp(params: Any, made: Made, x: Any, ct: Any) -> Any:
    """ct - y · Σ ct."""
    if 0 in x.shape:
        return ct
    axis, times = params.attribute("axis"), _times(params)
    _, raised, total = _parts(x, axis)
    return lax.sub(ct, times(_along(_sum(ct, axis), x, axis), _weights(raised, total, axis)))


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    made: dict[Op, Rule] = {SOFTMAX: _softmax, LOG_SOFTMAX: _log_softmax}
    for op, rule in ((SOFTMAX, _softmax_vjp), (LOG_SOFTMAX, _log_softmax_vjp)):
        assert op.gradient is not None
        made[op.gradient] = rule
    return made
