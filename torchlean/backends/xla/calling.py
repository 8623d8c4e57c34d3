"""The callable of an executable: NumPy arrays in, NumPy arrays out.

Arrays whose memory begins at a multiple of 64 bytes go in without a copy; others are copied by jax. Small results are
copied out; large ones are the executable's own memory, writable, as nobody else refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.backends.xla.building import Built
from torchlean.backends.xla.library import library
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType

WIDE = frozenset({DType.I64, DType.U64, DType.F64, DType.C128})
LARGE = 1 << 15  # bytes of a result from which on its memory is taken over
Array = np.ndarray[Any, Any]


class Taken:
    """Memory of a jax array as NumPy sees it; the array lives as long as this."""

    __slots__ = ("__array_interface__", "held")

    def __init__(self, held: Any) -> None:
        self.held = held
        self.__array_interface__ = {
            "shape": (held.nbytes,),
            "typestr": "|u1",
            "data": (held.unsafe_buffer_pointer(), False),
            "version": 3,
        }


def _copied(result: Any) -> Array:
    return np.array(result)


def _taken(type: TensorType) -> Callable[[Any], Array]:
    carrier, shape = type.dtype.carrier, type.shape

    def take(result: Any) -> Array:
        result.block_until_ready()
        return np.asarray(Taken(result)).view(carrier).reshape(shape)

    return take


def kernel(built: Built, *, packs: bool) -> Callable[..., Any]:
    """The callable: an array for one result, unless `packs` asks for a tuple always."""
    run = _direct(built.compiled())
    held, graph = built.held(), built.graph
    outs = [_taken(type) if type.nbytes >= LARGE else _copied for type in graph.output_types]
    if any([type.dtype in WIDE for type in graph.input_types]):
        run = _keeping_64_bits(run)
    if len(outs) == 1 and not packs:
        (out,) = outs
        if not held:
            return lambda *operands: out(run(*operands)[0])
        return lambda *operands: out(run(*operands, *held)[0])
    if all([out is _copied for out in outs]) and not held:
        array = np.array
        return lambda *operands: tuple([array(result) for result in run(*operands)])
    return lambda *operands: tuple([out(result) for out, result in zip(outs, run(*operands, *held), strict=True)])


def _direct(compiled: Any) -> Callable[..., Any]:
    """What a `jax.stages.Compiled` calls at last, where this jax has it: two Python frames less a call."""
    try:
        call = compiled._executable.create_cpp_call(compiled._params)
    except (AttributeError, TypeError):  # another jax keeps it elsewhere
        return compiled
    return compiled if call is None else call


def _keeping_64_bits(run: Callable[..., Any]) -> Callable[..., Any]:
    """jax narrows 64-bit operands unless the calling thread says otherwise, for the time of the call. Its setting is
    swapped as its own context manager does, where this jax has it so.
    """
    enabled = library().enable_x64
    if getattr(enabled, "_update_thread_local_hook", False) is not None:
        return _in_context(run, enabled)
    swap, put = enabled.swap_local, enabled.set_local

    def kept(*operands: Any) -> Any:
        before = swap(True)
        try:
            return run(*operands)
        finally:
            put(before)

    return kept


def _in_context(run: Callable[..., Any], enabled: Callable[[bool], Any]) -> Callable[..., Any]:
    def kept(*operands: Any) -> Any:
        with enabled(True):
            return run(*operands)

    return kept
