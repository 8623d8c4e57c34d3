"""What does the derivative policy cost in a training step, against the same step with `ieee_derivatives=True`?

The steps users write are held to 2 %; one written out of exp, log, sqrt and division by hand is measured beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _paired import paired, report, restart_unpinned

RATE = 0.01
RNG = np.random.default_rng(2026)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def digits() -> tuple[Any, Any, tuple[Any, ...]]:
    """A 64-128-10 MLP under softmax cross-entropy, batch 64."""
    from torchlean import ops

    def loss(p: Any, x: Any, t: Any) -> Any:
        return ops.cross_entropy(ops.linear(ops.relu(ops.linear(x, p[0], p[1])), p[2], p[3]), t)

    params = [normal(128, 64, scale=0.1), normal(128), normal(10, 128, scale=0.1), normal(10)]
    return loss, params, (normal(64, 64), RNG.integers(0, 10, 64).astype(np.int32))


def quickstart() -> tuple[Any, Any, tuple[Any, ...]]:
    """A 2-8-1 MLP under a squared error, batch 25."""
    from torchlean import ops

    def loss(p: Any, x: Any, t: Any) -> Any:
        return ops.mse_loss(ops.linear(ops.tanh(ops.linear(x, p[0], p[1])), p[2], p[3]), t)

    return loss, [normal(8, 2), normal(8), normal(1, 8), normal(1)], (normal(25, 2), normal(25, 1))


def transformer() -> tuple[Any, Any, tuple[Any, ...]]:
    """One block of width 128, 4 heads, 64 positions, batch 4: layer norm, attention, gelu, cross-entropy."""
    from torchlean import ops

    width, heads, positions, batch = 128, 4, 64, 4

    def split(x: Any) -> Any:
        return ops.transpose(ops.reshape(x, (batch, positions, heads, width // heads)), (0, 2, 1, 3))

    def loss(p: Any, x: Any, t: Any) -> Any:
        y = ops.layer_norm(x, p["s1"], p["b1"])
        q, k, v = (split(ops.linear(y, w)) for w in (p["q"], p["k"], p["v"]))
        seen = ops.transpose(ops.attention(q, k, v, causal=True), (0, 2, 1, 3))
        x = x + ops.linear(ops.reshape(seen, (batch, positions, width)), p["o"])
        y = ops.layer_norm(x, p["s2"], p["b2"])
        x = x + ops.linear(ops.gelu(ops.linear(y, p["up"])), p["down"])
        return ops.cross_entropy(ops.linear(x, p["out"]), t)

    square = {name: normal(width, width, scale=0.05) for name in ("q", "k", "v", "o")}
    params = square | {
        "up": normal(4 * width, width, scale=0.05),
        "down": normal(width, 4 * width, scale=0.05),
        "out": normal(64, width, scale=0.05),
        "s1": np.ones(width, np.float32),
        "b1": np.zeros(width, np.float32),
        "s2": np.ones(width, np.float32),
        "b2": np.zeros(width, np.float32),
    }
    targets = RNG.integers(0, 64, (batch, positions)).astype(np.int32)
    return loss, params, (normal(batch, positions, width), targets)


def by_hand() -> tuple[Any, Any, tuple[Any, ...]]:
    """The worst kind: softmax, RMS norm and loss written out of exp, log, sqrt and division. 64-256-10, batch 64."""
    from torchlean import ops

    def loss(p: Any, x: Any, t: Any) -> Any:
        x = x / ops.sqrt(ops.mean(x * x, 1, keepdims=True) + 1e-6)
        y = ops.tanh(x @ p[0] + p[1]) @ p[2] + p[3]
        raised = ops.exp(y - ops.stop_gradient(ops.amax(y, 1, keepdims=True)))
        share = raised / ops.sum(raised, 1, keepdims=True)
        return -ops.mean(ops.sum(ops.log(share) * t, 1))

    params = [normal(64, 256, scale=0.1), normal(256), normal(256, 10, scale=0.1), normal(10)]
    return loss, params, (normal(64, 64), np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 64)])


def steps(problem: Any, profile: Any) -> tuple[Any, Any, int]:
    """The step with the policy, without, and how many more nodes the former has."""
    import torchlean as tl

    loss, params, data = problem()

    def step(ieee: bool) -> Any:
        def update(p: Any, *data: Any) -> Any:
            value, gradient = tl.value_and_grad(loss, ieee_derivatives=ieee)(p, *data)
            return tl.pytree.map(lambda a, g: a - g * RATE, p, gradient), value

        return tl.lower(update, params, *data, profile=profile)

    ours, raw = step(False), step(True)
    for a, b in zip(tl.pytree.leaves(ours(params, *data)), tl.pytree.leaves(raw(params, *data)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))  # all is finite: the same bits
    watched = sum(line.count("chain_mul") for line in ours.source.splitlines())
    return lambda: ours(params, *data), lambda: raw(params, *data), watched


def main() -> None:
    import torchlean as tl

    rows = []
    for problem, calls in ((quickstart, 1000), (digits, 200), (transformer, 4), (by_hand, 200)):
        for profile in (tl.profiles.checked_cpu, tl.profiles.fast_cpu):
            ours, raw, watched = steps(problem, profile)
            slow = profile is tl.profiles.checked_cpu
            measured = paired(ours, raw, rounds=15, calls=max(1, calls // 20) if slow else calls)
            rows.append(
                {
                    "what": f"{problem.__name__} on {profile.name} ({watched} watched products) / raw (median ratio)",
                    "value": measured["median_ratio"],
                    "unit": "ratio",
                    "goal": None if problem is by_hand else 1.02,
                    "against": "ieee_derivatives=True",
                    "measured": measured,
                }
            )
    report(str(__doc__).splitlines()[0], rows, __file__)


if __name__ == "__main__":
    restart_unpinned()
    main()
