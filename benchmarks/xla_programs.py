"""The programs that `xla.py` times, each written once for both sides or once for each, and their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MLP_LAYERS, MLP_WIDTH, MLP_BATCH = 200, 32, 8
BLOCKS, WIDTH, HEADS, HIDDEN, TIME, BATCH = 12, 128, 4, 512, 64, 4


def normal(*shape: int) -> Any:
    """float32 draws of a size and a seed that its shape fixes."""
    return np.random.default_rng(list(shape)).normal(size=shape).astype(np.float32)


def placed(array: Any) -> Any:
    """A copy whose memory begins at a multiple of 64 bytes, as that of XLA's own results does."""
    held = np.empty(array.nbytes + 64, np.uint8)
    start = -held.ctypes.data % 64
    made = held[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def mlp_operands() -> tuple[Any, Any]:
    """Parameters and rows of the deep MLP of `framework.deep`."""
    layers = [(normal(MLP_WIDTH, MLP_WIDTH) / 6, np.zeros(MLP_WIDTH, np.float32)) for _ in range(MLP_LAYERS)]
    return layers, normal(MLP_BATCH, MLP_WIDTH)


def transformer(np_like: Any, softmax: Any, gelu: Any, layer_norm: Any) -> Callable[..., Any]:
    """The mean square of what a stack of pre-norm transformer blocks gives, in terms of one side's functions."""

    def heads(x: Any) -> Any:
        return np_like.transpose(np_like.reshape(x, (BATCH, TIME, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    def block(p: dict[str, Any], x: Any) -> Any:
        held = layer_norm(x, p["scale1"], p["shift1"])
        q, k, v = (heads(held @ p[name]) for name in "qkv")
        scores = q @ np_like.transpose(k, (0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5
        mixed = np_like.reshape(np_like.transpose(softmax(scores, -1) @ v, (0, 2, 1, 3)), (BATCH, TIME, WIDTH))
        x = x + mixed @ p["out"]
        return x + gelu(layer_norm(x, p["scale2"], p["shift2"]) @ p["up"]) @ p["down"]

    def loss(blocks: Any, x: Any) -> Any:
        for p in blocks:
            x = block(p, x)
        return np_like.mean(x * x)

    return loss


def transformer_operands() -> tuple[Any, Any]:
    ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    square, up, down = normal(WIDTH, WIDTH) / 11, normal(WIDTH, HIDDEN) / 11, normal(HIDDEN, WIDTH) / 22
    p = {"scale1": ones, "shift1": zeros, "scale2": ones, "shift2": zeros, "up": up, "down": down}
    return [{**p, **dict.fromkeys(("q", "k", "v", "out"), square)} for _ in range(BLOCKS)], normal(BATCH, TIME, WIDTH)


def jax_layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    import jax

    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def our_transformer() -> Callable[..., Any]:
    from torchlean import ops

    return transformer(ops, ops.softmax, ops.gelu, ops.layer_norm)


def jax_transformer() -> Callable[..., Any]:
    import jax

    return transformer(jax.numpy, jax.nn.softmax, jax.nn.gelu, jax_layer_norm)


def pulled(f: Any, vjp: Any) -> Any:
    """The cotangents of all operands but the last, which is the result's."""
    return lambda *given: vjp(f, *given[:-1])[1](given[-1])


def kernels() -> list[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Name, ours, JAX's, and operands: a convolution and attention, forward and gradient."""
    import jax

    import torchlean as tl
    from torchlean import ops

    made: list[tuple[str, Any, Any, tuple[Any, ...]]] = []
    for name, ours, theirs, operands, cotangent in (
        (
            "conv 64×3×32×32 → 64, 3×3",
            lambda x, w: ops.conv(x, w, padding="same"),
            lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
            (normal(64, 3, 32, 32), normal(64, 3, 3, 3)),
            normal(64, 64, 32, 32),
        ),
        (
            "attention B4 H8 T256 D64",
            lambda q, k, v: ops.attention(q, k, v),
            lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8, -1) @ v,
            (normal(4, 8, 256, 64), normal(4, 8, 256, 64)[::-1], normal(4, 8, 256, 64)[:, ::-1]),
            normal(4, 8, 256, 64),
        ),
    ):
        operands = tuple(map(np.ascontiguousarray, operands))
        made.append((f"{name}, forward", ours, theirs, operands))
        gradients = pulled(ours, tl.vjp), pulled(theirs, jax.vjp)
        made.append((f"{name}, gradient", *gradients, (*operands, cotangent)))
    return made
