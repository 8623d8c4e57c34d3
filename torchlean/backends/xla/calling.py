"""The callable of an executable: NumPy arrays in, NumPy arrays out.

Results of the CPU are the executable's own memory, writable, as nobody else refers to it; those of other devices are
copied. Small operands are copied into memory of jax that is kept from call to call, which costs less than having jax
make an array of each. An operand that is a result, as it was given, goes in as the jax array it was. Large ones are
left to jax, which takes those whose memory begins at a multiple of 64 bytes, as that of results does, without a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchlean.backends.xla.building import Built
from torchlean.backends.xla.library import cpu, library, settings
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType

WIDE = frozenset({DType.I64, DType.U64, DType.F64, DType.C128})
SMALL = 1 << 16  # bytes up to which an operand is copied into memory that is kept
Array = np.ndarray[Any, Any]


# -- memory ------------------------------------------------------------------------------------------------------------
def memory_class(type: TensorType, device: Any = None) -> Any:
    """The class of the memory of results of a type on a device (None: the one of all who name none). `from_address`
    says where it is; `held` is the jax array it belongs to.
    """
    names: dict[str, Any] = {"_type_": ctypes.c_char, "_length_": max(type.nbytes, 1), "__slots__": ("held",)}
    names |= {"shape": type.shape, "carrier": type.dtype.carrier, "device": device, "lends": True}
    array: Any = ctypes.Array
    return array.__class__("Memory", (array,), names)


def lent(x: Array) -> Any:
    """The jax array whose memory is that of `x`, all of it and as it lies there, on the device of all; or None."""
    memory: Any = x.base
    if getattr(memory, "lends", None) is None or memory.device is not None:
        return None
    same = x.shape == memory.shape and x.dtype is memory.carrier and x.flags.c_contiguous
    return memory.held if same else None


def _handed(memory: Any) -> Callable[[Any], Array]:
    """How a result becomes a NumPy array, once it is there."""
    at, shape, carrier, array = memory.from_address, memory.shape, memory.carrier, np.ndarray

    def hand(result: Any) -> Array:
        own = at(result.unsafe_buffer_pointer())
        own.held = result
        return array(shape, carrier, own)

    return hand


class Place(NamedTuple):
    """Where an operand of a type is copied to: a jax array, and its memory. None of a large one, which is not."""

    shape: tuple[int, ...]
    carrier: np.dtype[Any]
    memory: Array | None
    array: Any


class Places:
    """Sets of places for the operands of an executable, one for each call that is under way. Safe for threads."""

    def __init__(self, types: Sequence[TensorType], device: Any) -> None:
        self._types = types
        self._device = device
        self.spare: list[tuple[Place, ...]] = []  # of calls that have ended; `pop` and `append` are atomic

    def made(self) -> tuple[Place, ...]:
        """A new set."""
        jax = library()
        device = cpu(jax) if self._device is None else self._device
        small = [type for type in self._types if 0 < type.nbytes <= SMALL]
        hands = {type: _handed(memory_class(type, device)) for type in small}
        with settings(jax, device):
            zeros = [np.zeros(type.shape, type.dtype.carrier) for type in small]
            arrays = iter(jax.block_until_ready(jax.device_put(zeros, device, may_alias=False)))
        found: list[Place] = []
        for type in self._types:
            array = next(arrays) if type in hands else None
            memory = None if array is None else hands[type](array)
            found.append(Place(type.shape, type.dtype.carrier, memory, array))
        return tuple(found)


# -- calls -------------------------------------------------------------------------------------------------------------
def kernel(built: Built, *, packs: bool) -> Callable[..., Any]:
    """The callable: an array for one result, unless `packs` asks for a tuple always."""
    run = _direct(built.compiled())
    held, graph = built.held(), built.graph
    if any([type.dtype in WIDE for type in graph.input_types]):
        run = _keeping_64_bits(run)
    one = len(graph.outputs) == 1 and not packs
    if not built.on_host:
        array = np.array
        if one:
            return lambda *operands: array(run(*operands, *held)[0])
        return lambda *operands: tuple([array(result) for result in run(*operands, *held)])
    hands = {type: _handed(memory_class(type, built.device)) for type in graph.output_types}
    places = Places(graph.input_types, built.device)
    if len(graph.inputs) == len(graph.outputs) == 1 and not held and built.device is None:
        return _one_to_one(run, hands[graph.output_types[0]], places, packs=packs)
    call = _many(run, held, tuple([hands[type] for type in graph.output_types]), places, built.device)
    return (lambda *operands: call(*operands)[0]) if one else call


def _many(
    run: Callable[..., Any],
    held: tuple[Any, ...],
    hands: tuple[Callable[[Any], Array], ...],
    places: Places,
    device: Any,
) -> Callable[..., Any]:
    wait, spare, make = _waiting(), places.spare, places.made
    find = lent if device is None else lambda x: None

    def call(*operands: Any) -> Any:
        try:
            kept = spare.pop()
        except IndexError:
            kept = make()
        given: list[Any] = []
        for x, (shape, carrier, memory, array) in zip(operands, kept, strict=True):
            if x.base is not None and (own := find(x)) is not None:
                given.append(own)
            elif memory is not None and x.dtype is carrier and x.shape == shape:
                memory[...] = x
                given.append(array)
            else:
                given.append(x)
        results = run(*given, *held)
        wait(results)  # before their addresses are asked for, which waits as well
        spare.append(kept)
        return tuple([hand(result) for hand, result in zip(hands, results)])  # noqa: B905

    return call


def _one_to_one(
    run: Callable[..., Any], hand: Callable[[Any], Array], places: Places, *, packs: bool
) -> Callable[..., Any]:
    """The shortest way, for one operand and one result."""
    find, spare, make = lent, places.spare, places.made

    def call(x: Any) -> Any:
        try:
            kept = spare.pop()
        except IndexError:
            kept = make()
        ((shape, carrier, memory, array),) = kept
        if x.base is not None and (own := find(x)) is not None:
            array = own
        elif memory is not None and x.dtype is carrier and x.shape == shape:
            memory[...] = x
        else:
            array = x
        (result,) = run(array)
        result.block_until_ready()
        spare.append(kept)
        return (hand(result),) if packs else hand(result)

    return call


def _waiting() -> Callable[[Any], Any]:
    """Waits for all arrays of a list, without a call for each where this jax has that."""
    try:
        from jaxlib._jax import batched_block_until_ready
    except ImportError:
        return library().block_until_ready
    return batched_block_until_ready


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
