"""Reading and writing along one axis at run-time positions: gather, and the five scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule
from torchlean.ir.op import Op
from torchlean.ir.ops import gather, scattering
from torchlean.ir.ops.gather import Along, Mode
from torchlean.ir.types import Shape


def _positions(params: Along, indices: Any, size: int) -> Any:
    """The indices as int64 with a last axis of 1; -1 and `size` stand for everything outside."""
    wide = indices
    if wide.dtype == np.uint64:
        wide = lax.min(wide, np.uint64(size))
    wide = lax.clamp(np.int64(-1), wide.astype(np.int64), np.int64(size))
    return lax.expand_dims(wide, (wide.ndim,))


def _window(params: Along, shape: Shape, index_rank: int) -> tuple[int, ...]:
    """The axes of a gathered array that are not axes of the indices."""
    axis, batch = params.axis, params.batch
    return (*range(batch, axis), *range(axis + index_rank, len(shape) - 1 + index_rank))


def _mode(params: Along) -> lax.GatherScatterMode:
    return lax.GatherScatterMode.CLIP if params.mode is Mode.CLIP else lax.GatherScatterMode.FILL_OR_DROP


def _gather(params: Along, made: Made, x: Any, indices: Any) -> Any:
    axis, batch, size = params.axis, params.batch, x.shape[params.axis]
    shape = made[0].shape
    if 0 in x.shape or 0 in shape:
        return lax.full(shape, 0, x.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=_window(params, x.shape, indices.ndim - batch),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )
    sizes = tuple([1 if a < batch or a == axis else n for a, n in enumerate(x.shape)])
    positions = _positions(params, indices, size)
    return lax.gather(x, positions, numbers, sizes, mode=_mode(params), fill_value=0)


def _scatter(write: Callable[..., Any]) -> Rule:
    def rule(params: Along, made: Made, x: Any, indices: Any, updates: Any) -> Any:
        axis, batch = params.axis, params.batch
        if 0 in x.shape or 0 in updates.shape:
            return x
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=_window(params, x.shape, indices.ndim - batch),
            inserted_window_dims=(axis,),
            scatter_dims_to_operand_dims=(axis,),
            operand_batching_dims=tuple(range(batch)),
            scatter_indices_batching_dims=tuple(range(batch)),
        )
        return write(x, _positions(params, indices, x.shape[axis]), updates, numbers, mode=_mode(params))

    return rule


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    return {
        gather.GATHER: _gather,
        gather.SCATTER_ADD: _scatter(lax.scatter_add),
        scattering.SCATTER: _scatter(lax.scatter),
        scattering.SCATTER_MUL: _scatter(lax.scatter_mul),
        scattering.SCATTER_MIN: _scatter(lax.scatter_min),
        scattering.SCATTER_MAX: _scatter(lax.scatter_max),
    }
