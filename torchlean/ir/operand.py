"""What an op may be applied to, and its type: traced values, eager arrays, NumPy arrays and Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message, shown
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.types import TensorType, type_of_array

# Not `A | B` in `isinstance`, which makes the union at every call.
HOST = (np.ndarray, np.generic)
NUMBER = (bool, int, float, complex)


def scalar_array(scalar: Any) -> np.ndarray[Any, Any]:
    """A Python number on its own: bool, int32, float32 or complex64. An int that does not fit is refused."""
    if isinstance(scalar, bool):
        return np.asarray(scalar, dtype=np.bool_)
    if isinstance(scalar, int):
        if not -(2**31) <= scalar < 2**31:
            raise TypeRuleError(
                message(
                    f"the Python integer {scalar} does not fit i32[]",
                    expected="an integer in [-2**31, 2**31)",
                    got=str(scalar),
                    fix="say the dtype: numpy.int64(...)",
                    where=str(caller_location()),
                )
            )
        return np.asarray(scalar, dtype=np.int32)
    return np.asarray(scalar, dtype=np.complex64 if isinstance(scalar, complex) else np.float32)


def no_operand(operand: Any) -> TypeRuleError:
    """The error for what holds no numbers with a dtype."""
    return TypeRuleError(
        message(
            f"a {type(operand).__name__} is not a tensor operand",
            expected="a torchlean array, a NumPy array or a Python number",
            got=shown(operand),
            fix="convert it first, e.g. numpy.asarray(...)",
            where=str(caller_location()),
        )
    )


def is_python_number(operand: Any) -> bool:
    """Whether an operand is a plain Python number, whose dtype is weak; a `numpy.float64`, though a float, is not."""
    return isinstance(operand, NUMBER) and not isinstance(operand, np.generic)


def type_of(operand: Any) -> TensorType:
    """The type of a traced value, an eager array, a NumPy array or a Python number."""
    if isinstance(operand, Operators):
        return operand.type
    if isinstance(operand, HOST):
        return type_of_array(np.asarray(operand))
    if isinstance(operand, NUMBER):
        return type_of_array(scalar_array(operand))
    raise no_operand(operand)
