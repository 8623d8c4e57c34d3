"""A small transformer block and its training step, one line per product, for tests over meshes and for export."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlean as tl
from torchlean import ops

BATCH, TIME, WIDTH, HEADS, HIDDEN = 8, 8, 32, 4, 64
RATE = 1.0


def parameters(seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Any:
        return (draw.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    return {
        "q": matrix(WIDTH, WIDTH),
        "k": matrix(WIDTH, WIDTH),
        "v": matrix(WIDTH, WIDTH),
        "o": matrix(WIDTH, WIDTH),
        "up": matrix(WIDTH, HIDDEN),
        "down": matrix(HIDDEN, WIDTH),
    }


def data(seed: int = 1) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    return tuple([draw.standard_normal((BATCH, TIME, WIDTH)).astype(np.float32) for _ in range(2)])  # type: ignore[return-value]


def normal(x: Any) -> Any:
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    return centred / ops.sqrt(ops.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def heads(x: Any) -> Any:
    return ops.transpose(ops.reshape(x, (*x.shape[:2], HEADS, WIDTH // HEADS)), (0, 2, 1, 3))


def block(params: dict[str, Any], x: Any) -> Any:
    held = normal(x)
    q, k, v = (heads(held @ params[name]) for name in "qkv")
    scores = q @ ops.transpose(k, (0, 1, 3, 2)) / np.float32(np.sqrt(WIDTH // HEADS))
    mixed = ops.reshape(ops.transpose(ops.softmax(scores, axis=-1) @ v, (0, 2, 1, 3)), x.shape)
    x = x + mixed @ params["o"]
    return x + ops.gelu(normal(x) @ params["up"]) @ params["down"]


def step(params: dict[str, Any], x: Any, wanted: Any) -> tuple[Any, Any]:
    def loss(params: dict[str, Any]) -> Any:
        fault = block(params, x) - wanted
        return ops.mean(fault * fault)

    value, slopes = tl.value_and_grad(loss)(params)
    return {name: params[name] - RATE * slopes[name] for name in params}, value
