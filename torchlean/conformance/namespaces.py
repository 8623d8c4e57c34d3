"""One spelling for the checks: torchlean, and the libraries it is compared with, under the same few names.

`where`, `sum`, `sqrt`… are NumPy's; those NumPy lacks (logsumexp, softmax, xlogy, take_rows, put_rows…) are named here.
A name a library lacks raises `Absent`.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from torchlean.ir.ops.create import constant


class Absent(Exception):
    """A library has no function of that name."""


class Torchlean:
    """torchlean.numpy first, then torchlean.ops."""

    name = "torchlean"

    def __getattr__(self, name: str) -> Any:
        for module in ("torchlean.numpy", "torchlean.numpy.linalg", "torchlean.ir.ops"):
            try:
                found = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                continue
            if not isinstance(found, ModuleType):
                return found
        raise Absent(name)

    def array(self, data: Any) -> Any:
        """A constant."""
        return constant(data)

    def put_rows(self, shape: tuple[int, ...], indices: Any, values: Any) -> Any:
        """Zeros with entries written in order, the last of equal positions kept."""
        return self.zeros(shape, dtype=values.type.dtype).at[np.asarray(indices)].set(values)


class Jax:
    """jax.numpy, jax.nn and jax.scipy.special."""

    name = "jax"

    def __getattr__(self, name: str) -> Any:
        spelled = _JAX.get(name, name)
        for module in ("jax.numpy", "jax.numpy.linalg", "jax.nn", "jax.scipy.special"):
            held = importlib.import_module(module)
            if hasattr(held, spelled):
                return getattr(held, spelled)
        raise Absent(name)

    def array(self, data: Any) -> Any:
        """A constant."""
        return importlib.import_module("jax.numpy").asarray(data)

    def put_rows(self, shape: tuple[int, ...], indices: Any, values: Any) -> Any:
        """Zeros with entries written in order."""
        return self.zeros(shape, dtype=values.dtype).at[np.asarray(indices)].set(values)


_JAX = MappingProxyType({"atan2": "arctan2", "asinh": "arcsinh", "lgamma": "gammaln", "cumulative_prod": "cumprod"})
