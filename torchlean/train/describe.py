"""A model, an optimizer or any record of settings as one line of text that is the same in every process.

`repr` prints the address of a function; a checkpoint or provenance record that held it could never be compared.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torchlean import nn


def described(value: Any) -> str:
    """`Sequential(Linear(inputs=2, outputs=8), relu, Linear(inputs=8, outputs=1))`: settings that are not defaults."""
    if isinstance(value, nn.Sequential):
        return f"Sequential({', '.join(described(layer) for layer in value.layers)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__qualname__}({', '.join(_settings(value))})"
    if isinstance(value, tuple | list):
        return f"({', '.join(described(part) for part in value)})"
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)


def _settings(value: Any) -> list[str]:
    """`name=value` for each field, without defaults; real numbers are always said, since they change bits."""
    shown: list[str] = []
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if held != field.default or isinstance(held, float):
            shown.append(f"{field.name}={described(held)}")
    return shown
