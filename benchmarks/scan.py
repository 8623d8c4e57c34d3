"""Is tracing and differentiating a 1000-step scan no slower than JAX's, and what does rematerialisation save?

Subject: `tl.make_graph(tl.grad(f))`. Baseline: `jax.make_jaxpr(jax.grad(f))` of the same function of the same arrays.
Both trace the body once, whatever the number of steps. Then, for the record: running the gradient (NumPy kernels in a
Python loop, against XLA), and the peak memory of a checkpointed 200-layer MLP over that of the plain one.

Run: python benchmarks/scan.py [out.json]
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _paired import paired, report, restart_unpinned

import torchlean as tl
from torchlean import ops

STEPS, WIDTH = 1000, 16
DEPTH, SEGMENT, ROWS = 200, 14, 256


def rnn(np_like: Any, scan: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent net of `STEPS` steps; the loss reads the last state and every output."""

    def loss(w: Any, h: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            new = np_like.tanh(np_like.matmul(w, carry) + x)
            return new, (new * x).sum()

        last, ys = scan(step, h, xs)
        return (last * last).sum() + (ys * ys).sum()

    return loss


def operands() -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(0)
    shapes = ((WIDTH, WIDTH), (WIDTH,), (STEPS, WIDTH))
    return tuple([(random.normal(size=shape) / 4).astype(np.float32) for shape in shapes])


def segment(x: Any, ws: Any) -> Any:
    for w in ws:
        x = ops.tanh(ops.matmul(x, w))
    return x


def mlp(part: Callable[..., Any]) -> Callable[..., Any]:
    def loss(ws: Any, x: Any) -> Any:
        for start in range(0, DEPTH, SEGMENT):
            x = part(x, ws[start : start + SEGMENT])
        return ops.sum(x * x)

    return loss


def peak_bytes(f: Callable[..., Any]) -> int:
    """Peak of what the generated gradient program allocates; NumPy reports its buffers to tracemalloc."""
    random = np.random.default_rng(0)
    ws = [(random.normal(size=(WIDTH, WIDTH)) / 4).astype(np.float32) for _ in range(DEPTH)]
    x = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
    run = tl.lower(tl.grad(f), ws, x).executable.call
    run(*ws, x)
    tracemalloc.start()
    run(*ws, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    restart_unpinned()
    arrays = operands()
    theirs = rnn(jnp, jax.lax.scan)
    rows: list[dict[str, Any]] = []
    for save in ("carries", "residuals"):
        ours = rnn(ops, lambda f, init, xs, save=save: tl.scan(f, init, xs, save=save))
        measured = paired(
            lambda ours=ours: tl.make_graph(tl.grad(ours))(*arrays),
            lambda: jax.make_jaxpr(jax.grad(theirs))(*arrays),
            rounds=15,
            calls=20,
        )
        rows.append(
            {
                "what": f"trace and gradient of a {STEPS}-step scan, save={save!r}",
                "value": measured["median_ratio"],
                "unit": "× jax.make_jaxpr(jax.grad(f))",
                "goal": 1.0,
                "against": "JAX",
                "measured": measured,
            }
        )
    ours = rnn(ops, tl.scan)
    lowered = tl.lower(tl.grad(ours), *arrays, profile=tl.profiles.fast_cpu)
    compiled = jax.jit(jax.grad(theirs))
    placed = [jax.device_put(array) for array in arrays]
    measured = paired(lambda: lowered(*arrays), lambda: compiled(*placed).block_until_ready(), rounds=9, calls=5)
    rows.append(
        {
            "what": f"running the gradient of the {STEPS}-step scan, width {WIDTH}",
            "value": measured["median_ratio"],
            "unit": "× jax.jit (XLA); a Python loop over NumPy kernels, no goal",
            "against": "JAX",
            "measured": measured,
        }
    )
    plain, saved = peak_bytes(mlp(segment)), peak_bytes(mlp(tl.checkpoint(segment)))
    rows.append(
        {
            "what": f"peak memory of the gradient of a {DEPTH}-layer MLP, checkpointed every {SEGMENT} layers",
            "value": saved / plain,
            "unit": "× plain",
            "goal": 0.35,
            "bytes": {"plain": plain, "checkpointed": saved},
        }
    )
    report("Loops: tracing and gradients against JAX, and what rematerialisation saves", rows, __file__)


if __name__ == "__main__":
    main()
