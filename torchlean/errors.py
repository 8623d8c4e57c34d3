"""The exceptions torchlean raises and the one formatter of their text.

Every class takes a finished string, usually from `message`. Each derives from `TorchLeanError` and, where Python has
a word for the fault (TypeError, ValueError, IndexError), from that too, so callers may catch either.
"""

from __future__ import annotations

import sys

_OURS = (__file__.removesuffix("errors.py"), "<torchlean")  # files of this package, and code it generated


class TorchLeanError(Exception):
    """Base of every error torchlean raises on purpose. A note under the traceback shows the user's own line."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)
        line = _users_line()
        if line:
            self.add_note(line)


class TypeRuleError(TorchLeanError, TypeError):
    """An op was given shapes or dtypes its type rule does not accept."""


class TraceError(TorchLeanError, TypeError):
    """A function cannot be traced: its Python control flow depends on a traced value."""


class LeakedTracerError(TraceError):
    """A traced value outlived the trace that made it."""


class GradError(TorchLeanError, TypeError):
    """A derivative was asked for that does not exist: of a non-scalar, of an integer, through a cut."""


class StructureError(TorchLeanError, ValueError):
    """Pytrees, or the sizes of mapped axes, do not fit together."""


class OutOfRangeError(TorchLeanError, IndexError):
    """A constant index lies outside its axis."""


class GraphError(TorchLeanError, ValueError):
    """A graph breaks one of its invariants."""


class SerializationError(TorchLeanError, ValueError):
    """A file or text is not a graph, checkpoint or certificate of a version understood here."""


class PlanRejected(TorchLeanError):
    """No plan, or a plan whose obligations fail; the text lists every reason."""


class BackendMissing(TorchLeanError):
    """A backend that was asked for is not available on this machine."""


class BindError(TorchLeanError):
    """A capsule and its handler do not belong together, or the handler cannot serve the node."""


class HandleError(TorchLeanError):
    """A handle is stale or foreign, or its buffer was released."""


class KeyReuseError(TorchLeanError, ValueError):
    """A random key that had been used was used again, inside `random.check_key_reuse`."""


class DataError(TorchLeanError, ValueError):
    """A data set is missing, altered or malformed."""


class ConfigError(TorchLeanError, ValueError):
    """A setting is out of its range or contradicts another."""


class LimitExceeded(TorchLeanError):
    """A stated limit (size, depth, time) was reached."""


class CheckFailed(TorchLeanError, ValueError):
    """A condition stated with `debug.check` does not hold, or `debug.checkify` found a fault."""


class NonFiniteError(TorchLeanError, FloatingPointError):
    """An op made a NaN or an infinity; the text names the first one that did."""


class InternalError(TorchLeanError, RuntimeError):
    """A torchlean invariant is broken: our fault, not the caller's. The text always asks for a report."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text}\n  this is a bug in torchlean: please report it with this message")


def message(
    what: object,
    *,
    expected: object = None,
    got: object = None,
    fix: object = None,
    where: object = None,
) -> str:
    """Format an error as at most four lines: what (where), expected, got, fix.

    Each part may be any object with a `str`; one that spans lines is joined by "; ". `where` is the user's location,
    such as `train.py:42 in loss`, and ends the first line.
    """
    first = _one_line(what)
    if where is not None:
        first = f"{first} ({_one_line(where)})"
    parts = (("expected:", expected), ("got:", got), ("fix:", fix))
    return "\n".join([first, *(f"  {label:<9} {_one_line(part)}" for label, part in parts if part is not None)])


def shown(value: object) -> str:
    """The start of a value's `repr`, for `got`; a few words where that is too deep for Python, or fails."""
    try:
        return repr(value)[:60]
    except Exception:  # RecursionError, and whatever a class of the user's raises
        return f"a {type(value).__name__} that cannot be shown"


def _users_line() -> str:
    """The innermost frame outside this package with its source line, as tracebacks show it; or nothing."""
    import linecache  # only when something is wrong

    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OURS):
        back = frame.f_back
        if back is None:
            return ""
        frame = back
    name, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, number, frame.f_globals).strip()
    text = f'your line: File "{name}", line {number}, in {frame.f_code.co_name}'
    return f"{text}\n  {source}" if source else text


def _one_line(part: object) -> str:
    lines = (line.strip() for line in str(part).splitlines())
    return "; ".join(line for line in lines if line)
