"""Programs to report on: small and large ones, control flow, refused capsules, and one whose every name is hostile."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlean as tl
from torchlean.backends import profiles
from torchlean.ir.graph import Graph
from torchlean.transforms.lower import Lowered

F32 = np.float32
NASTY = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&\x1b[31m\u202egnp.\u2066\x00\n%s{{}}]]>--><!--"
)
NAME = f"loss{NASTY}".replace("\x00", "")  # a code object cannot have a NUL in its name
ADDRESS = "https://evil.example/x.js"


def mlp(params: Any, x: Any) -> Any:
    """Two layers; the softmax has no capsule of its own and is expanded."""
    hidden = tl.ops.tanh(x @ params["w1"] + params["b1"])
    return tl.ops.softmax(hidden @ params["w2"] + params["b2"])


def mlp_arguments() -> tuple[Any, ...]:
    params = {"w1": np.ones((4, 8), F32), "b1": np.ones(8, F32), "w2": np.ones((8, 3), F32), "b2": np.ones(3, F32)}
    return params, np.ones((2, 4), F32)


def small() -> Lowered:
    return tl.lower(mlp, *mlp_arguments(), profile=profiles.numpy_cpu)


def controlled(x: Any, w: Any) -> Any:
    """A scan and a cond, each with graphs of its own."""

    def step(carry: Any, row: Any) -> Any:
        return tl.ops.tanh(carry @ w + row), tl.ops.reduce_sum(carry, (0,))

    carry, sums = tl.scan(step, x, np.ones((5, 4), F32))
    return tl.ops.reduce_sum(tl.cond(sums[0] > 0, lambda c: tl.ops.relu(c), lambda c: -c, carry), (0,))


def control() -> Lowered:
    return tl.lower(tl.value_and_grad(controlled, argnums=1), np.ones(4, F32), np.ones((4, 4), F32))


def deep(x: Any, weights: Any) -> Any:
    """Residual blocks, so that there are edges of all lengths."""
    for w in weights:
        x = x + tl.ops.tanh(x @ w) * 0.5
    return tl.ops.reduce_sum(x * x, (0, 1))


def large(blocks: int) -> Graph:
    """The gradient of `deep`: about nine nodes a block."""
    weights = [np.ones((8, 8), F32)] * blocks
    return tl.make_graph(tl.value_and_grad(deep, argnums=1))(np.ones((2, 8), F32), weights)


def hostile() -> Lowered:
    """A function, a file, a parameter key and a composite whose names try to leave every format."""
    space: dict[str, Any] = {"tl": tl}
    op = tl.composite(
        f"op{NASTY}", lambda x, note: x * 2.0 + x, reduces=False, reduces_in_gradient=False, doc="hostile"
    )  # fmt: skip
    space["call"] = lambda x: _called(op, x)
    exec(compile("def f(p, x):\n    return call(x) + p", f"{NASTY}{ADDRESS}.py".replace("\x00", ""), "exec"), space)
    f = space["f"]
    f.__name__ = f.__qualname__ = NAME
    f.__code__ = f.__code__.replace(co_name=NAME)

    def keyed(params: Any, x: Any) -> Any:
        return f(params[f"key{NASTY}{ADDRESS}"], x)

    keyed.__name__ = keyed.__qualname__ = NAME
    return tl.lower(keyed, {f"key{NASTY}{ADDRESS}": np.ones(3, F32)}, np.ones(3, F32))


def _called(op: Any, x: Any) -> Any:
    from torchlean.ir.ops.composite import call

    return call(op, x, note=f"note{NASTY}")
