"""Eager sessions: each op runs now, on the kernel its profile admits; selections are remembered, gradients taped.

A session answers ops while it is entered (`with session:`); without any, each context has a default one on
`checked_cpu`. Arrays may be read, and used as plain operands, anywhere; handles on a tape belong to their session.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context, Token
from itertools import repeat
from types import TracebackType
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule
from torchlean.backends.handler import wrong_result
from torchlean.backends.profile import Profile
from torchlean.backends.profiles import checked_cpu
from torchlean.errors import InternalError
from torchlean.ir.builder import CURRENT, Answerer, Value, leaked, scalar_array, type_of
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.rules import HigherOrder
from torchlean.ir.types import TensorType, type_of_array
from torchlean.runtime.array import Array
from torchlean.runtime.buffer import Allocator, Buffer, Owners, Storage, checked
from torchlean.runtime.gradients import Gradients
from torchlean.runtime.handles import foreign, not_float, not_scalar, stale, unrecorded
from torchlean.runtime.host import as_host
from torchlean.runtime.kernels import Entry, Kernels
from torchlean.runtime.remembered import Remembered
from torchlean.runtime.report import BackendReport
from torchlean.runtime.tape import Tape
from torchlean.transforms.custom import CUSTOM_CALL
from torchlean.transforms.rewrite import dead_code_eliminated

_ndarray = np.ndarray
_new: Any = object.__new__  # of a class that has an __init__


class Session:
    """Runs ops eagerly on `profile`. With `track_gradients` it records what depends on its parameters and inputs.

    `show_backend` hands each report line to `report` as it is made; the same lines are in `session.report` in any case.
    Threads may share a session: its tape is recorded and swept by one at a time, and `reset_tape` is for all of them.
    """

    __slots__ = (
        "__weakref__",
        "_gradients",
        "_kernels",
        "_quietly",
        "_tokens",
        "allocator",
        "bodies",
        "name",
        "profile",
        "remembered",
        "report",
        "tape",
        "track_gradients",
        "watch",
    )

    def __init__(
        self,
        profile: Profile = checked_cpu,
        *,
        track_gradients: bool = False,
        show_backend: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.name = uuid.uuid4().hex[:8]
        self.profile = profile
        self.track_gradients = track_gradients
        self.allocator = Allocator()
        self.report = BackendReport(profile.name, report if show_backend else None)
        self.bodies: dict[Any, Any] = {}
        self.watch: Any = None
        self._kernels = Kernels(profile, self.report, self.allocator)
        self.remembered = Remembered(self._kernels)
        self.tape = Tape(self.name, self._kernels)
        self._gradients: dict[int, Buffer] = {}
        # np.errstate costs as much as a small op; its setting is kept in a context of its own, entered for each kernel.
        context = Context()
        context.run(np.seterr, all="ignore")
        self._quietly = context.run
        self._tokens: list[Token[Answerer | None]] = []

    def __repr__(self) -> str:
        tracked = ", tracks gradients" if self.track_gradients else ""
        return f"<Session {self.name} on {self.profile.name}{tracked}>"

    # -- current answerer --------------------------------------------------------------------------------------------
    def __enter__(self) -> Session:
        self._tokens.append(CURRENT.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Tasks and threads may enter one session at once: each leaves with the newest token of its own context.
        for token in reversed(tuple(self._tokens)):
            try:
                CURRENT.reset(token)
            except (ValueError, RuntimeError):  # of another context; used, if that one left after the copy
                continue
            self._tokens.remove(token)
            return
        raise InternalError("a session was left in a context that never entered it")

    # -- making arrays -----------------------------------------------------------------------------------------------
    def array(self, data: Any, dtype: Any = None) -> Array:
        """An array of this session; see `torchlean.array`."""
        return self.hold(as_host(data, dtype))

    def hold(self, host: np.ndarray[Any, Any]) -> Array:
        """Wrap a fresh NumPy array nobody else writes to."""
        type = type_of_array(host)
        own = checked(host, type)
        return Array.of(self._kernels.interned(type), own, Storage(own.nbytes, self.allocator), self)

    def adopt(self, hosts: Sequence[np.ndarray[Any, Any]], types: Sequence[TensorType], nbytes: int) -> list[Array]:
        """Wrap the fresh results of an executable, whose types and total size are known.

        They count as one storage, freed when the last of them is gone. Entries of lowered programs do this themselves
        (transforms/entry.py), result by result.
        """
        storage = Storage(nbytes, self.allocator)
        return list(map(Array.of, types, hosts, repeat(storage), repeat(self)))

    def borrow(self, buffer: Buffer) -> Array:
        """An array over a buffer this session made."""
        type = type_of_array(buffer.array)
        return Array.of(self._kernels.interned(type), buffer.array, buffer.storage, self)

    def parameter(self, x: Any, name: str | None = None) -> Array:
        """A handle gradients flow to. A plain array when the session does not track gradients."""
        return self._leaf(x, name or "", requires_grad=True)

    def input(self, x: Any, name: str | None = None) -> Array:
        """A recorded handle without a gradient."""
        return self._leaf(x, name or "", requires_grad=False)

    def _leaf(self, x: Any, name: str, *, requires_grad: bool) -> Array:
        made = Array.over(self._kernels.interned(x.type), x.buffer, self) if isinstance(x, Array) else self.array(x)
        if requires_grad and not made.type.dtype.is_float:
            raise not_float(name, made.type)
        if self.track_gradients:
            made.node = self.tape.leaf(made.type, requires_grad=requires_grad, name=name)
            made.generation = self.tape.generation
        return made

    # -- the answerer's protocol -------------------------------------------------------------------------------------
    def bind(self, op: Op, params: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run `op` now; one array per result."""
        types: list[TensorType] = []
        arrays: list[Any] = []
        for operand in operands:
            if operand.__class__ is not Array or operand.node >= 0:
                return self._bind_any(op, params, operands)
            types.append(operand.type)
            held: Any = operand.held
            arrays.append(held.array if held.__class__ is Buffer else held)
        entry = self._kernels.entries.get((op, params, tuple(types)))
        if entry is None:
            entry = self._kernels.entry(op, params, tuple(types))
        try:
            made = entry.run(*arrays) if entry.quiet else self._quietly(entry.run, *arrays)
        except RuntimeError:  # another thread is in the quiet context; or the kernel raised, and does so again
            with np.errstate(all="ignore"):
                made = entry.run(*arrays)
        if entry.is_fresh:
            if made.__class__ is not _ndarray:
                made = np.asarray(made)
            if (
                made.shape == entry.shape
                and made.dtype is entry.carrier
                and made.base is None
                and made.flags.c_contiguous
            ):
                return (Array.of(entry.type, made, Storage(entry.nbytes, self.allocator), self),)
        return self._wrapped(entry, made, operands)

    def bind_pair(self, op: Op, x: Array, y: Array) -> Array:
        """`bind` of an op with one result and no params for two arrays of one type, at the least cost."""
        entry = self._kernels.entries.get((op, x.type))
        if entry is None or not entry.is_sure or x.node >= 0 or y.node >= 0:
            (result,) = self.bind(op, NO_PARAMS, (x, y))
            if entry is None:
                self._kernels.note_pair(op, x.type)
            return result
        a: Any = x.held
        b: Any = y.held
        if a.__class__ is Buffer:
            a = a.array
        if b.__class__ is Buffer:
            b = b.array
        try:
            made = entry.run(a, b) if entry.quiet else self._quietly(entry.run, a, b)
        except RuntimeError:  # as in `bind`
            with np.errstate(all="ignore"):
                made = entry.run(a, b)
        # What follows is `Storage(entry.nbytes, allocator)` and `Array.of`, written out.
        allocator, nbytes = self.allocator, entry.nbytes
        storage = _new(Storage)
        storage.nbytes = nbytes
        storage.allocator = allocator
        allocator.made += 1
        live = allocator.live + nbytes
        allocator.live = live
        if live > allocator.peak:
            allocator.peak = live
        result = Array()
        result.type = entry.type
        result.held = made
        result.storage = storage
        result.session = self
        result.node = -1
        result.generation = 0
        return result

    def _bind_any(self, op: Op, params: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """`bind` for operands that must be lifted or are on the tape."""
        lifted = tuple([self._lifted(operand) for operand in operands])
        taped = any(operand.node >= 0 for operand in lifted)
        if not taped:
            return self.bind(op, params, lifted)
        entry = self._kernels.entry(op, params, tuple([operand.type for operand in lifted]))
        # recorded as what it is made of, unless it has a rule of its own
        if entry.body is not None and op is not CUSTOM_CALL and op.diff.__class__ is HigherOrder:
            return self.evaluate(entry.body, lifted)
        with np.errstate(all="ignore"):
            made = entry.run(*[operand.host for operand in lifted])
        results = self._wrapped(entry, made, lifted)
        first = self.tape.record(
            op,
            params,
            tuple([operand.node for operand in lifted]),
            [(operand.type, operand.buffer) for operand in lifted],
            [(result.type, result.buffer) for result in results],
        )
        for offset, result in enumerate(results):
            result.node = first + offset
            result.generation = self.tape.generation
        return results

    def evaluate(self, graph: Graph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run a closed graph node by node; values are dropped at their last use. Recorded when an operand is."""
        lifted = [self._lifted(operand) for operand in operands]
        if any(operand.node >= 0 for operand in lifted):
            return self._evaluate_taped(graph, lifted)
        program = self._kernels.program(graph)
        with np.errstate(all="ignore"):
            made = program(*[operand.host for operand in lifted])
        return self._arrays(made, program.types, lifted, program.capsules)

    def _evaluate_taped(self, graph: Graph, operands: Sequence[Array]) -> tuple[Any, ...]:
        graph = dead_code_eliminated(graph)
        values: list[Any] = [None] * len(graph.types)
        for id, operand in zip(graph.inputs, operands, strict=True):
            values[id] = operand
        for op, ins, outs, params, _ in graph.nodes:
            for id, result in zip(outs, self.bind(op, params, tuple([values[id] for id in ins])), strict=True):
                values[id] = result
        return tuple([values[id] for id in graph.outputs])

    def _wrapped(self, entry: Entry, made: Any, operands: Sequence[Array]) -> tuple[Array, ...]:
        """The results of a kernel as arrays, compared with the types it was bound for."""
        return self._arrays((made,) if entry.single else made, entry.types, operands, entry.capsules)

    def _arrays(
        self, made: Sequence[Any], types: Sequence[TensorType], operands: Sequence[Array], capsules: Sequence[Capsule]
    ) -> tuple[Array, ...]:
        owners = Owners(self.allocator, [operand.counted() for operand in operands])
        results: list[Array] = []
        for result, type in zip(made, types, strict=True):
            array = np.asarray(result)
            if array.shape != type.shape or array.dtype != type.dtype.carrier:
                raise wrong_result(" or ".join([capsule.name for capsule in capsules]), type, array)
            results.append(Array.of(type, *owners.of(array), self))
        return tuple(results)

    def _lifted(self, operand: Any) -> Array:
        """An operand as an array of some session; a handle must be this session's and of this generation."""
        if operand.__class__ is Array:
            if operand.node >= 0:
                self.node_of(operand)
            return operand
        if operand.__class__ is Value:
            raise leaked(operand)
        if isinstance(operand, np.ndarray | np.generic):
            return self.hold(as_host(operand))
        type_of(operand)  # refuses what is no operand
        return self.hold(scalar_array(operand))

    # -- gradients ---------------------------------------------------------------------------------------------------
    def node_of(self, handle: Array) -> int:
        """The tape node of a handle; HandleError when it is foreign, stale or not recorded."""
        if handle.node < 0:
            raise unrecorded(handle, self)
        if handle.session is not self:
            raise foreign(handle, self)
        if handle.generation != self.tape.generation:
            raise stale(handle, self)
        return handle.node

    def backward(self, loss: Array, seed: Any = None, retain: Sequence[Array] = ()) -> Gradients:
        """Gradients of `loss` for every parameter, and for the handles in `retain`; zeros where it does not depend.

        `seed` is the cotangent of `loss`; without one, `loss` must be a floating-point scalar.
        """
        out = self.node_of(loss)
        if seed is None and (loss.type.shape or not loss.type.dtype.is_float):
            raise not_scalar(loss.type)
        leaves = [id for id, node in enumerate(self.tape.nodes) if node.op is None and node.requires_grad]
        kept = self.tape.backward_sparse(out, seed, [*leaves, *[self.node_of(handle) for handle in retain]])
        self._gradients = kept
        return self._found(kept)

    def _found(self, kept: dict[int, Buffer]) -> Gradients:
        return Gradients(self, kept, {id: self.tape.nodes[id].name for id in kept})

    def gradient(self, handle: Array) -> Array:
        """The gradient the last `backward` found for a parameter or retained handle."""
        return self._found(self._gradients)[handle]

    def reset_tape(self) -> None:
        """Forget the tape and its gradients; handles made before are refused from now on. Selections stay."""
        self.tape.reset()
        self._gradients = {}

    @contextmanager
    def updates(self) -> Generator[Session]:
        """While entered, what is selected counts as part of parameter updates in the backend report."""
        with self._kernels.derivatives():
            yield self

    @property
    def selections(self) -> int:
        """How many (op, params, types) have a selected kernel."""
        return len(self._kernels)


def default_session() -> Session:
    """A session on `checked_cpu`: what answers ops in a context that entered none."""
    return Session(checked_cpu)
