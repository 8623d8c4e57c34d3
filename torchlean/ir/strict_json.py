"""JSON read strictly: what other readers accept or alter in silence is refused here.

Refused: duplicate keys, NaN and Infinity, decimal numbers (1e400 is inf elsewhere), integers beyond 128 bits, text with
lone surrogates, and nesting too deep to walk. Floats travel as hexadecimal text. Every refusal is a SerializationError.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any, NoReturn

from torchlean.errors import SerializationError, message

MAX_INTEGER = 2**128  # the bits of a complex128; also bounds what int() is asked to read
_MAX_DIGITS = len(str(-MAX_INTEGER))
_SHOWN = 80


def refuse(what: str, *, expected: str | None = None, got: str | None = None, fix: str | None = None) -> NoReturn:
    """Raise SerializationError."""
    raise SerializationError(message(what, expected=expected, got=got, fix=fix))


def shown(data: Any) -> str:
    """A few characters of anything, printable whatever it holds."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = _SHOWN
    return short.repr(data).encode("ascii", "backslashreplace").decode()


# -- text to data ------------------------------------------------------------------------------------------------------
def read_json(text: str | bytes) -> Any:
    """The data of a JSON text (bytes are UTF-8)."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_number,
            parse_float=_no_number,
            parse_int=_bounded_integer,
        )
    except UnicodeDecodeError as error:
        refuse(f"not UTF-8 at byte {error.start}", expected="UTF-8 text", got=error.reason)
    except json.JSONDecodeError as error:
        refuse(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}")
    except RecursionError:
        refuse("the JSON is nested too deeply")


def canonical(data: Any) -> str:
    """The one text of the data: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            refuse(f"the key {shown(key)} appears twice in one object", expected="each key once")
        made[key] = value
    return made


def _no_number(text: str) -> NoReturn:
    refuse(f"the number {shown(text)} is not allowed", expected="integers; floats are hexadecimal text")


def _bounded_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS or not -MAX_INTEGER < int(text) < MAX_INTEGER:
        refuse("an integer is too large", expected="integers of at most 128 bits", got=f"{len(text)} digits")
    return int(text)


# -- data to values ----------------------------------------------------------------------------------------------------
def read_fields(data: Any, wanted: tuple[str, ...], what: str) -> Mapping[str, Any]:
    """An object with exactly the fields `wanted`."""
    if not isinstance(data, dict):
        refuse(
            f"{what} is not an object", expected=f"an object with {', '.join(wanted) or 'no fields'}", got=shown(data)
        )
    unknown = [shown(key) for key in data if key not in wanted]
    missing = [key for key in wanted if key not in data]
    if unknown or missing:
        refuse(
            f"{what} has unknown or missing fields",
            expected=", ".join(wanted) or "no fields",
            got=f"unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}",
        )
    return data


def read_list(data: Any, what: str) -> list[Any]:
    """A list."""
    if not isinstance(data, list):
        refuse(f"{what}: not a list", expected="a list", got=shown(data))
    return data


def read_integer(data: Any, what: str) -> int:
    """An integer; `true` is none."""
    if isinstance(data, bool) or not isinstance(data, int):
        refuse(f"{what}: not an integer", expected="an integer", got=shown(data))
    return data


def read_integers(data: Any, what: str) -> tuple[int, ...]:
    """A list of integers."""
    return tuple([read_integer(entry, what) for entry in read_list(data, what)])


def read_text(data: Any, what: str) -> str:
    """Text that can be encoded: no lone surrogate."""
    if not isinstance(data, str):
        refuse(f"{what}: not text", expected="text", got=shown(data))
    if not encodes(data):
        refuse(f"{what}: text with a lone surrogate", expected="text that UTF-8 can encode", got=shown(data))
    return data


def encodes(text: str) -> bool:
    """Whether UTF-8 can encode the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_hex_float(data: Any, what: str) -> float:
    """A float from the text `float.hex` makes of it; no other spelling is accepted."""
    text = read_text(data, what)
    try:
        value = float.fromhex(text)
    except (ValueError, OverflowError):
        value = None
    if value is None or value.hex() != text:
        refuse(f"{what}: not a float", expected="the text float.hex() makes", got=shown(data))
    return value
