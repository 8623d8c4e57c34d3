"""Composites: linear, dropout, attention. A body is the definition, every rule derived; nothing is promoted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir.dtypes import Kind
from torchlean.ir.location import caller_location
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.activation import peak, softmax
from torchlean.ir.ops.composite import call, composite
from torchlean.ir.ops.create import iota
from torchlean.ir.ops.dot import dot_general
from torchlean.ir.ops.elementwise import convert, stop_gradient
from torchlean.ir.ops.norm import require_shape
from torchlean.ir.ops.promote import tensor
from torchlean.ir.types import broadcast_shapes


# -- linear ------------------------------------------------------------------------------------------------------------
def _linear(x: Any, w: Any, *bias: Any) -> Any:
    lead, out = x.type.shape[:-1], w.type.shape[0]
    rows = x if x.type.rank == 2 else shaping.reshape(x, (math.prod(lead), x.type.shape[-1]))
    y = dot_general(rows, shaping.transpose(w), contract=((1,), (0,)))
    for b in bias:
        y = y + shaping.broadcast(b, y.type.shape, (1,))
    return shaping.reshape(y, (*lead, out))


LINEAR = composite(
    "linear",
    _linear,
    reduces=True,
    reduces_in_gradient=True,
    doc="x·wᵀ + b: each entry a left fold over the inputs from 0, then the bias.",
)


def linear(x: Any, w: Any, b: Any = None) -> Any:
    """x·wᵀ + b. Shapes: x f[…, in], w f[out, in], b f[out] or None → f[…, out].

    Raises TypeRuleError naming both types when sizes or dtypes differ (nothing is promoted).
    """
    x, w = tensor(x), tensor(w)
    if x.type.rank == 0 or w.type.rank != 2 or x.type.shape[-1] != w.type.shape[1] or x.type.dtype is not w.type.dtype:
        raise TypeRuleError(
            message(
                f"linear of {x.type} with the weight {w.type}: the types do not fit",
                expected=f"a weight {x.type.dtype.short}[out,{x.type.shape[-1] if x.type.rank else 'in'}]",
                got=str(w.type),
                fix="check the layer's input size (the weight is [out, in]), or convert one dtype",
                where=str(caller_location()),
            )
        )
    if b is None:
        return call(LINEAR, x, w)
    b = tensor(b)
    require_shape("linear", "one bias per output", b.type, (w.type.shape[0],), x.type)
    return call(LINEAR, x, w, b)


# -- dropout -----------------------------------------------------------------------------------------------------------
def _dropout(x: Any, kept: Any, *, rate: float) -> Any:
    mask = convert(kept, x.type.dtype)
    return (x * mask) * (1.0 / (1.0 - rate * mask))


DROPOUT = composite(
    "dropout",
    _dropout,
    reduces=False,
    reduces_in_gradient=False,
    doc="(x·mask)·(1/(1 - rate·mask)): kept entries are scaled by 1/(1 - rate) [Srivastava et al. 2014].",
)


def dropout(x: Any, kept: Any, rate: float) -> Any:
    """`x` with the entries where `kept` is False set to 0 and the others divided by 1 − rate, by its reciprocal.

    `kept`: a boolean tensor of the shape of `x`, drawn by the caller. ConfigError for a rate outside [0, 1).
    """
    x, kept = tensor(x), tensor(kept)
    if not 0 <= rate < 1:
        raise ConfigError(
            message(
                f"dropout of {x.type} with rate {rate!r}",
                expected="a number in [0, 1); nothing is kept at 1",
                got=repr(rate),
                fix="use zeros instead of a rate of 1",
                where=str(caller_location()),
            )
        )
    require_shape("dropout", "one boolean per entry", kept.type, x.type.shape, x.type)
    return call(DROPOUT, x, kept, rate=float(rate))


# -- attention ---------------------------------------------------------------------------------------------------------
def _attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    last = q.type.rank - 1
    lead = tuple(range(last - 1))
    scores = dot_general(q, k, contract=((last,), (last,)), batch=(lead, lead)) * scale
    allowed = mask[0] if mask else None
    if causal:
        shape = scores.type.shape
        visible = f.ge(iota(shape, last - 1), iota(shape, last))
        allowed = visible if allowed is None else f.logical_and(visible, allowed)
    weights = softmax(scores, last) if allowed is None else _hard_masked_softmax(scores, allowed, last)
    return dot_general(weights, v, contract=((last,), (last - 1,)), batch=(lead, lead))


def _hard_masked_softmax(x: Any, mask: Any, axis: int) -> Any:
    """Softmax over the entries where `mask` holds; the others, and rows without any, are exactly 0.

    No infinity is subtracted and nothing is divided by 0, so cotangents are finite and masked entries get 0.
    """
    mask = shaping.broadcast_to(mask, x.type.shape)
    top = stop_gradient(peak(f.select(mask, x, -math.inf), axis, keepdims=True))
    top = f.select(f.eq(top, -math.inf), 0, top)
    raised = f.select(mask, f.exp(f.select(mask, x - top, 0)), 0)
    total = shaping.sum(raised, axis, keepdims=True)
    return raised / f.select(f.eq(total, 0), 1, total)


ATTENTION = composite(
    "attention",
    _attention,
    reduces=True,
    reduces_in_gradient=True,
    doc="softmax(q·kᵀ·scale)·v [Vaswani et al. 2017, §3.2.1], with a hard mask: a fully masked row is exactly 0.",
)


def attention(q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None, causal: bool = False) -> Any:
    """Scaled dot-product attention. Shapes: q f[B…, L, D], k f[B…, S, D], v f[B…, S, E] → f[B…, L, E].

    `mask`: boolean, broadcast to [B…, L, S]; True lets query i see key j. `causal`: i sees j ≤ i (axes aligned at 0).
    `scale` defaults to 1/√D. Masked keys weigh exactly 0; a row that sees nothing (or only scores of -∞, when there is
    a mask) gives exactly zeros, and sends zero, finite gradients. Raises TypeRuleError for types that do not fit.
    """
    q, k, v = tensor(q), tensor(k), tensor(v)
    a, b, c = q.type, k.type, v.type
    fits = a.rank >= 2 and a.rank == b.rank == c.rank and a.dtype is b.dtype is c.dtype and a.dtype.is_float
    if not fits or a.shape[:-2] != b.shape[:-2] or b.shape[:-1] != c.shape[:-1] or a.shape[-1] != b.shape[-1]:
        raise TypeRuleError(
            message(
                f"attention of {a}, {b}, {c}: the types do not fit",
                expected="q f[B…,L,D], k f[B…,S,D], v f[B…,S,E] of one float dtype",
                got=f"{a}, {b}, {c}",
                fix="transpose heads in front of positions, and repeat shared heads",
                where=str(caller_location()),
            )
        )
    factor = 1 / math.sqrt(a.shape[-1]) if scale is None else float(scale)
    if mask is None:
        return call(ATTENTION, q, k, v, scale=factor, causal=bool(causal))
    mask = tensor(np.asarray(mask) if isinstance(mask, list | tuple) else mask)
    scores = (*a.shape[:-1], b.shape[-2])
    if mask.type.dtype.kind is not Kind.BOOL or broadcast_shapes(mask.type.shape, scores) != scores:
        raise TypeRuleError(
            message(
                f"attention of {a}, {b}, {c} with the mask {mask.type}",
                expected=f"a bool mask that broadcasts to {list(scores)}",
                got=str(mask.type),
                fix="make it boolean, True where a key may be seen (an additive mask m means ops.gt(m, -1))",
                where=str(caller_location()),
            )
        )
    return call(ATTENTION, q, k, v, mask, scale=factor, causal=bool(causal))


COMPOSITES = (LINEAR, DROPOUT, ATTENTION)
