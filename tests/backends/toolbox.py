"""What the backend tests share: running a kernel on arrays, comparing bits, tracing a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchlean.backends import Capsule, bind_kernel
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import Op
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array

Array = np.ndarray[Any, Any]


def lone_node(op: Op, params: Any, operands: tuple[TensorType, ...]) -> tuple[Node, tuple[TensorType, ...]]:
    """A node applied to values 0, 1, …, and the types of all values."""
    made = op.type_rule(params, *operands)
    count = len(operands)
    node = Node(op, tuple(range(count)), tuple(range(count, count + len(made))), params, NOWHERE)
    return node, operands + made


def run_kernel(capsule: Capsule, params: Any, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a capsule's kernel on arrays."""
    node, types = lone_node(capsule.op, params, tuple([type_of_array(array) for array in arrays]))
    with np.errstate(all="ignore"):
        made = bind_kernel(capsule, node, types)(*arrays)
    results = made if len(node.outputs) > 1 else (made,)
    assert len(results) == len(node.outputs)
    return tuple([np.asarray(result) for result in results])


def same_bits(got: Any, want: Any) -> bool:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    got, want = np.array(got, order="C"), np.array(want, order="C")
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind == "c":
        return same_bits(got.real, want.real) and same_bits(got.imag, want.imag)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return bool(((got.view(bits) == want.view(bits)) | ((got != got) & (want != want))).all())  # NaN alone differs


def traced(function: Callable[..., Any], *arrays: Array, name: str = "graph") -> Graph:
    """The graph of a function of arrays of these types."""

    def flat(*values: Any) -> tuple[Any, ...]:
        made = function(*values)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    return trace_flat(flat, [type_of_array(array) for array in arrays], name=name).graph


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Seeded normal numbers."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)
