"""What does the framework itself cost beside its peers: ready to call, a gradient of arrays, an eager op, memory?"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from _paired import paired, report, restart_unpinned

LAYERS = 1000
DEEP, WIDE = 200, 256


def deep(ops: Any) -> Callable[..., Any]:
    """The sum of what a deep tanh MLP gives."""

    def f(params: Any, x: Any) -> Any:
        for w, b in params:
            x = ops.tanh(x @ w + b)
        return ops.sum(x)

    return f


def ready() -> list[dict[str, Any]]:
    """From a function to an executable of its gradient; jax's is lowered and compiled."""
    import jax
    import jax.numpy as jnp

    import torchlean as tl
    from torchlean import ops

    profile = tl.profiles.numpy_cpu
    ours = [(tl.TensorType((32, 32), tl.DType.F32), tl.TensorType((32,), tl.DType.F32)) for _ in range(LAYERS)]
    shape = jax.ShapeDtypeStruct
    theirs = [(shape((32, 32), jnp.float32), shape((32,), jnp.float32)) for _ in range(LAYERS)]

    def fresh() -> Any:
        return jax.jit(jax.grad(deep(jnp))).lower(theirs, shape((8, 32), jnp.float32)).compile()

    measured = paired(
        lambda: tl.lower(tl.grad(deep(ops)), ours, tl.TensorType((8, 32), tl.DType.F32), profile=profile),
        fresh,
        rounds=5,
        calls=1,
    )
    what = f"the gradient of {LAYERS} layers, ready to call as Python over NumPy, lowered and compiled there"
    return [entry(what, 0.25, "jax", measured)]


def gradients() -> list[dict[str, Any]]:
    """`grad` called on arrays, not lowered: the second call on."""
    import jax
    import torch
    from train_step import problem

    import torchlean as tl
    from torchlean import ops

    params, x, t = problem((2, 8, 1), 25, False)

    def ours(p: Any) -> Any:
        return ops.mse_loss(ops.linear(ops.relu(ops.linear(x, p[0], p[1])), p[2], p[3]), t)

    def xla(p: Any) -> Any:
        return ((jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3] - t) ** 2).mean()

    held = [tl.array(p) for p in params]
    tensors = [torch.tensor(p, requires_grad=True) for p in params]
    tx, tt = torch.tensor(x), torch.tensor(t)

    def autograd() -> Any:
        p = tensors
        return torch.autograd.grad(((torch.relu(tx @ p[0].T + p[1]) @ p[2].T + p[3] - tt) ** 2).mean(), p)

    for got, want in zip(tl.grad(ours)(held), autograd(), strict=True):
        np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-4, atol=1e-6)

    def un_jitted() -> Any:
        return jax.grad(xla)(params)

    what = "grad of the 2-8-1 MLP on arrays, not lowered"
    return [
        entry(what, 0.4, "torch", paired(lambda: tl.grad(ours)(held), autograd, rounds=11, calls=200)),
        entry(
            what,
            None,
            "jax.grad",
            paired(lambda: tl.grad(ours)(held), un_jitted, rounds=5, calls=10),
        ),
    ]


def eager() -> list[dict[str, Any]]:
    """One addition of 16 floats."""
    import torch

    import torchlean as tl

    x, y = np.ones(16, np.float32), np.arange(16, dtype=np.float32)
    a, b, c, d = tl.array(x), tl.array(y), torch.tensor(x), torch.tensor(y)
    return [
        entry("eager add of 16 floats", goal, against, paired(lambda: a + b, f, rounds=300, calls=1_000))
        for goal, against, f in ((1.5, "torch", lambda: c + d), (None, "numpy", lambda: x + y))
    ]


def memory() -> list[dict[str, Any]]:
    """The most that a gradient of a deep MLP holds beside its operands, counted by tracemalloc."""
    import torchlean as tl
    from torchlean import ops

    rng = np.random.default_rng(0)
    params = [
        ((rng.normal(size=(WIDE, WIDE)) / 16).astype(np.float32), np.zeros(WIDE, np.float32)) for _ in range(DEEP)
    ]
    x = rng.normal(size=(WIDE, WIDE)).astype(np.float32)
    rows = []
    for profile in (tl.profiles.checked_cpu, tl.profiles.numpy_cpu):
        step = tl.lower(tl.grad(deep(ops)), params, x, profile=profile)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        made = step(params, x)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        gradients = sum([np.asarray(leaf).nbytes for leaf in tl.pytree.flatten(made)[0]])
        what = f"peak memory of the grad of {DEEP} layers / (gradients + activations), {profile.name}"
        ratio = peak / (gradients + DEEP * x.nbytes)
        rows.append({"what": what, "value": ratio, "unit": "ratio", "goal": 0.75})
    return rows


def entry(what: str, goal: float | None, against: str, measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "what": f"{what} / {against}",
        "value": measured["ratio_of_minima"],
        "unit": "ratio",
        "goal": goal,
        "against": against,
        "measured": measured,
    }


def measured() -> list[dict[str, Any]]:
    """All rows, and how long they took."""
    start = time.perf_counter()
    rows = [*ready(), *gradients(), *eager(), *memory()]
    rows.append({"what": "this benchmark", "value": time.perf_counter() - start, "unit": "s"})
    return rows


if __name__ == "__main__":
    restart_unpinned()
    report(str(__doc__), measured(), __file__)
