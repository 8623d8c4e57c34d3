"""The errors about handles: of another session, of an earlier generation, on no tape, or without a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlean.errors import GradError, HandleError, message
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType
from torchlean.runtime.array import Array

if TYPE_CHECKING:
    from torchlean.runtime.session import Session


def foreign(handle: Array, session: Session) -> HandleError:
    """A handle on the tape of another session."""
    return HandleError(
        message(
            f"{_described(handle)} belongs to a different session",
            expected=f"a handle of session {session.name}",
            got=f"one of session {handle.session.name}",
            fix="use it inside `with` its own session, or pass its value: numpy.asarray(x)",
            where=str(caller_location()),
        )
    )


def stale(handle: Array, session: Session) -> HandleError:
    """A handle from before a `reset_tape`."""
    return HandleError(
        message(
            f"stale {_described(handle)} from generation {handle.generation}; current generation is "
            f"{session.tape.generation} (reset_tape invalidates recorded references)",
            expected="a handle made after the last reset_tape",
            got=f"one of generation {handle.generation}",
            fix="make it again: session.parameter(x) and session.input(x) accept the old one for its value",
            where=str(caller_location()),
        )
    )


def unrecorded(handle: Array, session: Session) -> HandleError:
    """A plain array where a handle is needed."""
    tracks = session.track_gradients
    return HandleError(
        message(
            f"{handle.type} is not recorded on the tape of session {session.name}",
            expected="session.parameter(…), session.input(…), or a result computed from one",
            got="a plain array" if tracks else "a session that does not track gradients",
            fix="make it a parameter first" if tracks else "open Session(track_gradients=True)",
            where=str(caller_location()),
        )
    )


def not_float(name: str, type: TensorType) -> GradError:
    """A parameter that can have no gradient."""
    return GradError(
        message(
            f"parameter {name or 'of type'} {type} cannot have a gradient",
            expected="a floating point array",
            got=str(type),
            fix="pass it as session.input, or convert it",
            where=str(caller_location()),
        )
    )


def not_scalar(type: TensorType) -> GradError:
    """A backward from something that is no loss."""
    return GradError(
        message(
            f"backward of {type}",
            expected="one floating point scalar, or a seed",
            got=str(type),
            fix="reduce it (x.sum(), x.mean()), or pass seed=…",
            where=str(caller_location()),
        )
    )


def _described(handle: Array) -> str:
    """`'w' f32[8,2]`, `a result of relu f32[25,8]`: which handle a message is about."""
    return f"{handle.session.tape.name_of(handle.node, handle.generation)} {handle.type}"
