"""NumPy's own exp, log, … on row-major memory, since their last bits depend on strides.

NumPy states up to 4 ulp for them; the definitions are within 1 of the exact value, powers too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Kernel
from torchlean.backends.numpy.reductions import read_only
from torchlean.ir.algebra import row_major
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.types import TensorType

UFUNCS = MappingProxyType(
    {
        ew.EXP: np.exp,
        ew.EXPM1: np.expm1,
        ew.LOG: np.log,
        ew.LOG1P: np.log1p,
        ew.SIN: np.sin,
        ew.COS: np.cos,
        ew.TANH: np.tanh,
        ew.POW: np.power,
    }
)


def applied(ufunc: np.ufunc) -> Kernel:
    """The ufunc of its operands, each moved to row-major memory where it is not."""
    operands = ", ".join([f"row_major({{{position}}})" for position in range(ufunc.nin)])
    return Expression(f"f({operands})", {"f": ufunc, "row_major": row_major})


def logistic(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """1 / (1 + e^-x), and e^x / (1 + e^x) below 0."""
    exp, negative, absolute, add, where = np.exp, np.negative, np.absolute, np.add, np.where
    divide, less = np.divide, np.less
    one, zero = (read_only(np.array(value, dtype=types[0].dtype.carrier)) for value in (1, 0))

    def kernel(x: Any) -> Any:
        x = row_major(x)
        decayed = exp(negative(absolute(x)))
        return divide(where(less(x, zero), decayed, one), add(decayed, one))

    return kernel
