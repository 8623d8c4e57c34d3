"""User data to NumPy: which dtype numbers get, and what is refused rather than narrowed. Always a fresh copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean.errors import TorchLeanError, TypeRuleError, message, shown
from torchlean.ir.carriers import convert
from torchlean.ir.dtypes import as_dtype, dtype_of_carrier
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators


def as_host(data: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """A fresh contiguous NumPy copy of `data` under the rules of `array`."""
    if isinstance(data, Operators | np.ndarray | np.generic):
        found = np.asarray(data)
    else:
        found = _from_python(data, wants_default=dtype is None)
    if dtype is not None:
        return _converted(found, as_dtype(dtype).carrier)
    carrier = dtype_of_carrier(found.dtype).carrier
    return np.array(found, dtype=carrier, copy=True, order="C")


def _from_python(data: Any, *, wants_default: bool) -> np.ndarray[Any, Any]:
    try:
        found = np.asarray(data)
    except TorchLeanError:  # a traced value inside the data says so itself
        raise
    except (ValueError, TypeError) as fault:
        what = str(fault).split(".")[0]
        fix = "nest at most 64 deep" if "number of dimension" in str(fault) else "pad the rows"
        raise _refused(f"a {type(data).__name__} is not rectangular data", what, fix) from None
    kind = str(found.dtype.kind)
    if kind == "f" and found.size and all(type(leaf) is int for leaf in _leaves(data)):
        found = _unsigned(data)  # NumPy makes floats of integers on both sides of 2**63
        kind = str(found.dtype.kind)
    if kind == "O" and all(isinstance(leaf, int) for leaf in _leaves(data)):
        raise _refused("an integer fits no dtype", "an integer outside [-2**63, 2**64)", "scale the data")
    if kind not in "biufc":
        raise _refused(f"a {type(data).__name__} is not numeric data", shown(data), "pass numbers")
    typed = _typed_leaf_dtypes(data)
    if typed:
        return found.astype(np.result_type(*typed, *_weak(data)))
    if not wants_default or kind == "b":
        return found
    if kind == "f":
        return found.astype(np.float32)
    if kind == "c":
        return found.astype(np.complex64)
    limits = np.iinfo(np.int32)
    if found.min() < limits.min or found.max() > limits.max:
        worst = max((int(found.max()), int(found.min())), key=abs)
        fix = "say the dtype: array(data, dtype='i64')"
        raise _refused(f"the Python integer {worst} does not fit i32", str(worst), fix)
    return found.astype(np.int32)


def _unsigned(data: Any) -> np.ndarray[Any, Any]:
    """Integers some of which are 2**63 or more, exactly: unsigned, or as they are when one is negative."""
    exact = np.asarray(data, dtype=object)
    return exact.astype(np.uint64) if exact.min() >= 0 and exact.max() < 2**64 else exact


def _leaves(data: Any) -> Iterator[Any]:
    pending = [data]
    while pending:
        leaf = pending.pop()
        if isinstance(leaf, list | tuple | range):
            pending.extend(leaf)
        else:
            yield leaf


def _typed_leaf_dtypes(data: Any) -> list[np.dtype[Any]]:
    """The dtypes of leaves that have one; Python numbers are weak and do not count."""
    found = {
        leaf.dtype if isinstance(leaf, np.generic | np.ndarray) else leaf.type.dtype.carrier
        for leaf in _leaves(data)
        if isinstance(leaf, np.generic | np.ndarray | Operators)
    }
    return sorted(found, key=str)


def _weak(data: Any) -> list[Any]:
    """The Python kinds among the leaves, as weak operands of NumPy's promotion."""
    kinds = {type(leaf) for leaf in _leaves(data)} & {bool, int, float, complex}
    return [kind(0) for kind in (bool, int, float, complex) if kind in kinds]


def _converted(found: np.ndarray[Any, Any], carrier: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A copy with another dtype; no fraction is dropped and no integer wraps."""
    kind = str(found.dtype.kind)
    if carrier.kind in "iu" and found.size and kind in "iuf":
        limits = np.iinfo(carrier)
        if kind == "f" and not (np.isfinite(found).all() and (found == np.trunc(found)).all()):
            fix = "round it first, or ask for a float dtype"
            raise _refused(f"fractions do not fit {carrier}", "a float that is no integer", fix)
        low, high = int(found.min()), int(found.max())
        if low < limits.min or high > limits.max:
            worst = max((high, low), key=abs)
            raise _refused(f"the integer {worst} does not fit {carrier}", str(worst), "ask for a wider dtype")
    dtype_of_carrier(found.dtype)  # refuses what is no tensor
    if kind == "c" and carrier.kind not in "bc":
        raise _refused(f"complex numbers do not fit {carrier}", "complex data", "take the real part first")
    return np.array(convert(found, carrier), copy=True, order="C")


def _refused(what: str, got: str, fix: str) -> TypeRuleError:
    return TypeRuleError(
        message(
            f"array: {what}",
            expected="numbers, rectangular nested lists of numbers, or a NumPy array",
            got=got,
            fix=fix,
            where=str(caller_location()),
        )
    )
