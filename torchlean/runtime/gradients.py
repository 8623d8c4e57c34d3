"""What `session.backward` returns: the gradient of each retained handle. It outlives `reset_tape`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from torchlean.errors import HandleError, message
from torchlean.ir.location import caller_location
from torchlean.runtime.array import Array
from torchlean.runtime.buffer import Buffer

if TYPE_CHECKING:
    from torchlean.runtime.session import Session


class Gradients:
    """Gradients by handle, `gradients[w]`, or by name, `gradients["w"]`; iterates in the order of the handles."""

    __slots__ = ("_buffers", "_names", "_session")

    def __init__(self, session: Session, buffers: Mapping[int, Buffer], names: Mapping[int, str]) -> None:
        self._session = session
        self._buffers = buffers
        self._names = names

    def __getitem__(self, which: Array | str) -> Array:
        return self._session.borrow(self._by_name(which) if isinstance(which, str) else self._by_handle(which))

    def _by_handle(self, handle: Array) -> Buffer:
        node = self._session.node_of(handle)
        found = self._buffers.get(node)
        if found is None:
            raise HandleError(
                message(
                    f"the gradient of node {node} {handle.type} was not kept",
                    expected="a parameter, or a handle named in retain",
                    got=f"node {node}",
                    fix="pass backward(loss, retain=(x,))",
                    where=str(caller_location()),
                )
            )
        return found

    def _by_name(self, name: str) -> Buffer:
        found = [id for id, known in self._names.items() if known == name]
        if len(found) != 1:
            known = ", ".join(sorted(set(self._names.values()) - {""})) or "none"
            raise HandleError(
                message(
                    f"{len(found)} handles with a gradient are named {name!r}",
                    expected=f"one of: {known}",
                    got=repr(name),
                    fix="give session.parameter(x, name) unique names, or index with the handle",
                    where=str(caller_location()),
                )
            )
        return self._buffers[found[0]]

    def __iter__(self) -> Iterator[Array]:
        return (self._session.borrow(self._buffers[id]) for id in sorted(self._buffers))

    def __len__(self) -> int:
        return len(self._buffers)
