"""How long does it take to trace and differentiate a 1000-layer MLP, against jax.make_jaxpr(jax.grad(f))?"""

from __future__ import annotations

from typing import Any

from _paired import paired, report, restart_unpinned

LAYERS = 1000


def measured() -> list[dict[str, Any]]:
    import jax
    import jax.numpy as jnp

    import torchlean as tl
    from torchlean import ops

    def ours(params, x):
        for w, b in params:
            x = ops.tanh(x @ w + b)
        return ops.sum(x)

    def theirs(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return jnp.sum(x)

    f32 = tl.DType.F32
    our_params = [(tl.TensorType((32, 32), f32), tl.TensorType((32,), f32)) for _ in range(LAYERS)]
    our_x = tl.TensorType((8, 32), f32)
    shape = jax.ShapeDtypeStruct
    their_params = [(shape((32, 32), jnp.float32), shape((32,), jnp.float32)) for _ in range(LAYERS)]
    their_x = shape((8, 32), jnp.float32)
    graph = tl.make_graph(tl.grad(ours))(our_params, our_x)
    assert len(graph.nodes) > 9 * LAYERS
    timed = paired(
        lambda: tl.make_graph(tl.grad(ours))(our_params, our_x),
        lambda: jax.make_jaxpr(jax.grad(theirs))(their_params, their_x),
        rounds=7,
        calls=1,
    )
    return [
        {
            "what": f"trace + grad of {LAYERS} layers ({len(graph.nodes)} nodes) / jax.make_jaxpr(jax.grad(f))",
            "value": timed["ratio_of_minima"],
            "unit": "ratio",
            "goal": 0.04,
            "against": "jax",
            "measured": timed,
        }
    ]


if __name__ == "__main__":
    restart_unpinned()
    report(str(__doc__), measured(), __file__)
