"""Whole programs for the tests of printing, checking and serialisation: every composite, its gradient, a few models."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph
from torchlean.ir.types import TensorType
from torchlean.transforms.api import grad, jvp, make_graph
from torchlean.transforms.batching import vmap


def f32(*shape: int) -> TensorType:
    """The type f32 of this shape."""
    return TensorType(shape, DType.F32)


def i32(*shape: int) -> TensorType:
    """The type i32 of this shape."""
    return TensorType(shape, DType.I32)


def boolean(*shape: int) -> TensorType:
    """The type bool of this shape."""
    return TensorType(shape, DType.BOOL)


def mlp_loss(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
    """Mean squared error of a two-layer tanh network."""
    hidden = ops.tanh(ops.linear(x, w1, b1))
    return ops.mse_loss(ops.linear(hidden, w2, b2), y)


MLP = (f32(8, 2), f32(8), f32(1, 8), f32(1), f32(5, 2), f32(5, 1))


def features(images: Any, kernel: Any, scale: Any, shift: Any, at: Any) -> Any:
    """Convolution, ReLU, pooling, gather, layer norm and softmax."""
    maps = ops.relu(ops.conv(images, kernel, strides=1, padding=1))
    pooled = ops.max_pool(maps, 2)
    chosen = ops.take(pooled, at, axis=1)
    rows = ops.reshape(chosen, (2, -1))
    return ops.softmax(ops.layer_norm(rows, scale, shift))


FEATURES = (f32(2, 1, 4, 4), f32(3, 1, 3, 3), f32(8), f32(8), i32(2))


def _squared(f: Any) -> Any:
    def total(*operands: Any) -> Any:
        made = f(*operands)
        made = made if isinstance(made, tuple) else (made,)
        return sum([ops.sum(part * part) for part in made[1:]], ops.sum(made[0] * made[0]))

    return total


COMPOSITE_CALLS: tuple[tuple[str, Any, tuple[TensorType, ...]], ...] = (
    ("relu", ops.relu, (f32(3, 5),)),
    ("gelu", lambda x: ops.gelu(x, approximate=True), (f32(3, 5),)),
    ("gelu erf", lambda x: ops.gelu(x, approximate=False), (f32(3, 5),)),
    ("silu", ops.silu, (f32(3, 5),)),
    ("softplus", ops.softplus, (f32(3, 5),)),
    ("log_sigmoid", ops.log_sigmoid, (f32(3, 5),)),
    ("logaddexp", ops.logaddexp, (f32(3, 5), f32(3, 5))),
    ("log1mexp", ops.log1mexp, (f32(3, 5),)),
    ("xlogy", ops.xlogy, (f32(3, 5), f32(3, 5))),
    ("entr", ops.entr, (f32(3, 5),)),
    ("sinc", ops.sinc, (f32(3, 5),)),
    ("euclidean_norm", lambda x: ops.euclidean_norm(x, 1), (f32(3, 5),)),
    ("softmax", ops.softmax, (f32(3, 5),)),
    ("log_softmax", lambda x: ops.log_softmax(x, 0), (f32(3, 5),)),
    ("logsumexp", ops.logsumexp, (f32(3, 5),)),
    ("layer_norm", lambda x, a, b: ops.layer_norm(x, a, b, epsilon=1e-3), (f32(3, 5), f32(5), f32(5))),
    ("batch_norm", ops.batch_norm, (f32(3, 5), f32(5), f32(5), f32(5), f32(5))),
    ("batch_norm_train", ops.batch_norm_train, (f32(3, 5), f32(5), f32(5))),
    ("linear", ops.linear, (f32(3, 5), f32(2, 5), f32(2))),
    ("attention", lambda q, k, v: ops.attention(q, k, v, causal=True), (f32(4, 3), f32(4, 3), f32(4, 2))),
    ("dropout", lambda x, kept: ops.dropout(x, kept, 0.3), (f32(3, 5), boolean(3, 5))),
    ("mse_loss", ops.mse_loss, (f32(3, 5), f32(3, 5))),
    ("cross_entropy", ops.cross_entropy, (f32(3, 5), i32(3))),
    ("cross_entropy_one_hot", ops.cross_entropy_one_hot, (f32(3, 5), f32(3, 5))),
    ("nll_loss", ops.nll_loss, (f32(3, 5), i32(3))),
    ("max_pool", lambda x: ops.max_pool(x, 2), (f32(1, 2, 4, 4),)),
    ("avg_pool", lambda x: ops.avg_pool(x, 2, padding=1), (f32(1, 2, 4, 4),)),
)


def _graph(f: Any, types: tuple[TensorType, ...]) -> Graph:
    return make_graph(f)(*types)


def programs() -> dict[str, Graph]:
    """Graphs by name: each composite, its gradient, the tangent and the batch of it, and a few larger programs."""
    made: dict[str, Graph] = {}
    for name, call, types in COMPOSITE_CALLS:
        made[name] = _graph(call, types)
        made[f"grad of {name}"] = _graph(grad(_squared(call)), types)
    made["jvp of softmax"] = _graph(lambda x, t: jvp(ops.softmax, (x,), (t,)), (f32(3, 5), f32(3, 5)))
    made["vmap of grad of softmax"] = _graph(vmap(grad(_squared(ops.softmax))), (f32(4, 3, 5),))
    made["grad of grad of tanh"] = _graph(grad(lambda x: ops.sum(grad(_squared(ops.tanh))(x) ** 2)), (f32(3),))
    made["mlp loss"] = _graph(mlp_loss, MLP)
    made["mlp gradient"] = _graph(grad(mlp_loss, (0, 1, 2, 3)), MLP)
    made["features"] = _graph(features, FEATURES)
    made["gradient of features"] = _graph(grad(_squared(features), 1), FEATURES)
    words = TensorType((3, 2), DType.U32), TensorType((3, 2), DType.U32), TensorType((3,), DType.U64)
    made["bits"] = _graph(lambda k, c, x: (ops.threefry2x32(k, c), ops.shift_right(ops.splitmix64(x), 7)), words)
    made["identity"] = _graph(lambda x: x, (f32(),))
    made["constant"] = _graph(lambda: ops.constant(np.array([1.0, -0.0, np.nan], dtype=np.float32)), ())
    return made


def arguments(graph: Graph, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Random operands: floats in [-2, 2), integers in [0, 2), booleans."""
    random = np.random.default_rng(seed)
    made: list[np.ndarray[Any, Any]] = []
    for type in graph.input_types:
        values = random.uniform(-2, 2, type.shape) if type.dtype.is_float else random.integers(0, 2, type.shape)
        made.append(np.asarray(values).astype(type.dtype.carrier))
    return made
