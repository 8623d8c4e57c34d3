"""Ranges of hyperparameters, checked as given and again as rounded to float32."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchlean.errors import ConfigError, message
from torchlean.ir.location import caller_location


def _require(optimizer: str, name: str, value: object, wanted: str, holds: Callable[[float], bool]) -> None:
    as_f32 = ""
    if isinstance(value, int | float | np.floating) and not isinstance(value, bool) and holds(float(value)):
        rounded = _rounded(float(value))
        if holds(rounded):
            return
        as_f32 = f", {rounded!r} as float32"
    raise ConfigError(
        message(
            f"{optimizer}: {name} = {value!r}{as_f32} is out of range",
            expected=f"{wanted}, also after rounding to float32",
            got=f"{value!r}{as_f32}",
            fix=f"give a {name} within the range",
            where=str(caller_location()),
        )
    )


def _rounded(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def fraction(optimizer: str, name: str, value: float) -> None:
    """A decay, momentum, β or ρ: in [0, 1). Note that 1 − 2⁻³⁰ rounds to 1 in float32, and is refused."""
    _require(optimizer, name, value, "a number in [0, 1)", lambda x: 0 <= x < 1)


def positive(optimizer: str, name: str, value: float) -> None:
    """An ε or a bound: finite and > 0."""
    _require(optimizer, name, value, "a finite number > 0", lambda x: 0 < x < math.inf)


def non_negative(optimizer: str, name: str, value: float) -> None:
    """A learning rate or weight decay: finite and ≥ 0."""
    _require(optimizer, name, value, "a finite number ≥ 0", lambda x: 0 <= x < math.inf)
