"""Functions that jax differentiates: `function.vjp` by jax.vjp, and parts of them that bring pullbacks of their own.

jax's cotangents of complex numbers are the conjugates of ours, so they are conjugated on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from torchlean.backends.xla.rules.control import Higher, Run
from torchlean.backends.xla.rules.elementwise import Made
from torchlean.ir.op import Op
from torchlean.ir.ops.pulling import FUNCTION_VJP, TAPED, Level, Pulled, Taped


def _ours(cotangent: Any) -> Any:
    return lax.conj(cotangent) if jax.numpy.iscomplexobj(cotangent) else cotangent


def _function_vjp(run: Run, params: Pulled, made: Made, *operands: Any) -> Any:
    def results(*given: Any) -> tuple[Any, ...]:
        count = len(params.primal.inputs)
        primals, cotangents = given[:count], given[count:]

        def of_wrt(*moved: Any) -> tuple[list[Any], tuple[Any, ...]]:
            held = list(primals)
            for position, value in zip(params.wrt, moved, strict=True):
                held[position] = value
            outs = run(params.primal, tuple(held))
            return [outs[at] for at in params.seeded], outs

        _, pull, outs = jax.vjp(of_wrt, *[primals[position] for position in params.wrt], has_aux=True)
        return (*outs, *map(_ours, pull([_ours(cotangent) for cotangent in cotangents])))

    call: Callable[..., tuple[Any, ...]] = results
    for level in params.levels:
        call = _at(level, call)
    return call(*operands)


def _at(level: Level, call: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """The function mapped, or pushed forward along further operands."""
    if level.size is not None:
        axes = [0 if flag else None for flag in level.flags]
        return jax.vmap(call, in_axes=axes, out_axes=0, axis_size=level.size)

    def pushed(*given: Any) -> tuple[Any, ...]:
        count = len(level.flags)
        primals, tangents = given[:count], given[count:]
        moving = [position for position, flag in enumerate(level.flags) if flag]

        def of_moving(*values: Any) -> tuple[Any, ...]:
            held = list(primals)
            for position, value in zip(moving, values, strict=True):
                held[position] = value
            return call(*held)

        outs, moved = jax.jvp(of_moving, [primals[position] for position in moving], list(tangents))
        return (*outs, *[tangent for tangent, is_made in zip(moved, level.made, strict=True) if is_made])

    return pushed


def _taped(run: Run, params: Taped, made: Made, *operands: Any) -> Any:
    """The body, with our graph in the place of jax's derivative."""

    def forward(*given: Any) -> tuple[Any, Sequence[Any]]:
        return run(params.body, given), given

    def backward(given: Any, cotangents: Any) -> tuple[Any, ...]:
        seeds = [_ours(cotangents[at]) for at in params.seeded]
        pulled = dict(zip(params.wrt, run(params.pulled, (*given, *seeds)), strict=True))
        return tuple([_ours(pulled[at]) if at in pulled else None for at in range(len(given))])

    part = jax.custom_vjp(lambda *given: run(params.body, given))
    part.defvjp(forward, backward)
    return part(*operands)


def table() -> dict[Op, Higher]:
    """The rules of this file."""
    return {FUNCTION_VJP: _function_vjp, TAPED: _taped}
