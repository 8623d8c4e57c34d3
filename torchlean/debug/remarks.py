"""`debug.print` and `debug.check`: remarks inside a function, made when it runs.

Under `jit` and `lower` they are steps of the plan, in program order. Under `vmap` a remark acts once, for the whole
batch: a print shows it, followed by `[vmap 3]`; a check names the example. Under `grad` and `vjp` it acts once, with
the forward pass. It changes no value, and no content hash: files hold graphs without remarks.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.errors import ConfigError, message
from torchlean.ir.builder import Value, bind1
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.effect import CHECK, DEBUG_PRINT, Message, check_failed


def print(text: str, *values: Any, to: Callable[[str], None] | None = None, **named: Any) -> None:
    """Print `text` with the values it names when the program runs: `debug.print("x = {x}", x=x)`.

    Fields are `{}`, `{name}` and `{name:format}`; arrays take the format of a number entry by entry, trees leaf by
    leaf. The line goes to `to(line)`, or to `sys.stdout` as it then is. Values that are no arrays are
    fixed when the function is traced. Lines come in program order.
    """
    params, operands = _stated("debug.print", text, values, named, to=to, where="")
    bind1(DEBUG_PRINT, params, *operands)


def check(condition: Any, text: str, *values: Any, **named: Any) -> None:
    """Raise CheckFailed when the program runs unless `condition` holds everywhere; the text is filled as in `print`.

    A Python bool is checked at once. Under `debug.checkify` the fault is returned instead of raised.
    """
    where = str(caller_location())
    params, operands = _stated("debug.check", text, values, named, to=None, where=where)
    marked = Message(params.text, params.treedef, params.fixed, where, None, (), ((), *params.mapped))
    if isinstance(condition, bool | np.bool_):
        if not condition:
            known = [np.asarray(f"a traced {v.type}") if isinstance(v, Value) else np.asarray(v) for v in operands]
            raise check_failed(marked, 0, (), known)
        return
    bind1(CHECK, marked, condition, *operands)


def _stated(
    what: str,
    text: str,
    values: tuple[Any, ...],
    named: dict[str, Any],
    *,
    to: Callable[[str], None] | None,
    where: str,
) -> tuple[Message, list[Any]]:
    """The params of a remark and its operands."""
    _require_fields(what, text, len(values), named)
    leaves, treedef = pytree.flatten((values, named))
    fixed: list[tuple[int, Any, str]] = []
    operands: list[Any] = []
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Operators | np.ndarray | np.generic):
            operands.append(leaf)
        else:
            kept = leaf if isinstance(leaf, bool | int | float | complex | str) else str(leaf)
            fixed.append((position, kept, repr(kept)))
    return Message(text, treedef, tuple(fixed), where, to, (), ((),) * len(operands)), operands


def _require_fields(what: str, text: str, count: int, named: dict[str, Any]) -> None:
    """Refuse a text whose fields are not exactly the values given."""
    fields: list[str] = []
    fault = None
    count_of_plain = 0
    try:
        for _, field, spec, _ in string.Formatter().parse(text):
            if field is None:
                continue
            fields.append(field or str(count_of_plain))
            count_of_plain += not field
            if not _is_format(spec or ""):
                fault = f"{spec!r} is no format of a number or text"
        if count_of_plain and any([field.isdigit() for field in fields[count_of_plain:]]):
            fault = "fields with and without numbers"
    except ValueError as error:
        fault = str(error)
    wanted = {str(at) for at in range(count)} | set(named)
    if fault is None and set(fields) != wanted:
        missing, unused = sorted(set(fields) - wanted), sorted(wanted - set(fields))
        fault = "; ".join(
            [f"no value for {{{name}}}" for name in missing] + [f"{name!r} is in no field" for name in unused]
        )
    if fault is not None:
        raise ConfigError(
            message(
                f"{what} cannot fill {text[:60]!r}: {fault}",
                expected="a field {name} for each value, and a value for each field",
                got=f"fields {', '.join(fields) or 'none'}; values {', '.join(sorted(wanted)) or 'none'}",
                fix="name each value once, as in debug.print('x = {x}', x=x); double a brace that is meant as text",
                where=str(caller_location()),
            )
        )


def _is_format(spec: str) -> bool:
    """Whether a format is one of integers, floats or text; which it is for is not known yet."""
    for sample in (1, 1.0, "text", 1j):
        try:
            format(sample, spec)
        except ValueError:
            continue
        return True
    return False
