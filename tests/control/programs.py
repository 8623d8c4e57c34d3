"""Programs of control flow written twice: with torchlean and with JAX, from one source."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import torchlean as tl
from torchlean import ops

OURS = SimpleNamespace(
    np=ops, scan=tl.scan, cond=tl.cond, switch=tl.switch, while_loop=tl.while_loop, fori_loop=tl.fori_loop, map=tl.map
)
JAX = SimpleNamespace(
    np=jnp,
    scan=lambda *xs, save=None, **kw: jax.lax.scan(*xs, **kw),
    cond=jax.lax.cond,
    switch=jax.lax.switch,
    while_loop=jax.lax.while_loop,
    fori_loop=jax.lax.fori_loop,
    map=jax.lax.map,
)

Program = Callable[..., Any]


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """Seeded float32 arrays with entries in (-1, 1)."""
    random = np.random.default_rng(seed)
    return tuple([random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes])


def rnn(lib: Any, save: str = "carries", reverse: bool = False) -> Program:
    """A recurrent net: captures w, stacks what it computes, a tree for a carry."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            new = lib.np.tanh(lib.np.matmul(w, carry["h"]) + x)
            return {"h": new, "n": carry["n"] + 1}, (new * x, carry["h"])

        start = {"h": h, "n": np.int32(0)}
        last, (ys, hs) = lib.scan(step, start, xs, reverse=reverse, save=save)
        return (last["h"] * last["h"]).sum() + (ys * hs).sum()

    return f


def nested(lib: Any, save: str = "carries") -> Program:
    """A scan in a scan; the inner body captures values of both outer levels."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            def inner(d: Any, row: Any) -> Any:
                return lib.np.sin(d * row + x) + c * 0.1, d * row

            d, rows = lib.scan(inner, c, w, save=save)
            return d * h, rows.sum()

        last, sums = lib.scan(outer, h, xs, save=save)
        return (last * last).sum() + (sums * sums).sum()

    return f


def branching(lib: Any, save: str = "carries") -> Program:
    """Branches in a loop; one captures."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            new = lib.cond(c.sum() > x.sum(), lambda c: lib.np.sin(c) + x, lambda c: lib.np.matmul(w, c), c)
            return new, lib.switch(
                lib.np.argmax(new), [lambda a: a.sum(), lambda a: (a * a).sum(), lambda a: a[0]], new
            )

        last, ys = lib.scan(step, h, xs, save=save)
        return (last * last).sum() + (ys * ys).sum()

    return f


def looping(lib: Any, save: str = "carries") -> Program:
    """fori_loop with static bounds, and map."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return lib.np.tanh(lib.np.matmul(w, c)) * (i + 1).astype("float32") * np.float32(0.3)

        last = lib.fori_loop(1, 4, body, h)
        rows = lib.map(lambda x: lib.np.exp(x) * last, xs)
        return (rows * rows).sum()

    return f


PROGRAMS: dict[str, Callable[..., Program]] = {
    "rnn": rnn,
    "nested": nested,
    "branching": branching,
    "looping": looping,
}


def arguments(seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """w [3, 3], h [3], xs [5, 3]."""
    return drawn((3, 3), (3,), (5, 3), seed=seed)
