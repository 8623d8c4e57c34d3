"""A training step of a large transformer on paper: bytes, operations and collectives of one device. docs/scale.md.

Nothing of that size is run or allocated. One layer, the embedding and the loss are traced for what one device holds of
them, `cost()` counts each, and the sums below put a model together from them. `python benchmarks/scale.py` prints the
7B model on 256 devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torchlean as tl
from torchlean import ops, profiles, pytree
from torchlean.backends import accept, plan
from torchlean.backends.cost import Cost, cost
from torchlean.transforms.api import trace_abstract
from torchlean.transforms.rewrite import dead_code_eliminated

STATE_BYTES = 12  # of a parameter's optimizer state: the parameter and two moments in float32


@dataclass(frozen=True)
class Model:
    """A decoder: RMS norms, attention, a gated perceptron, no biases; embedding and output matrix apart."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    time: int
    dtype: str = "bf16"


@dataclass(frozen=True)
class Run:
    """Sequences of one device at a time (`micro`), how many times per step, and the mesh."""

    micro: int
    times: int
    data: int
    model: int


SEVEN_B = Model(layers=32, width=4096, heads=32, hidden=11008, vocabulary=32000, time=2048)
ON_256 = Run(micro=1, times=4, data=32, model=8)


# -- the programs of one device ----------------------------------------------------------------------------------------
def norm(gain: Any, x: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain


def layer(params: dict[str, Any], x: Any, heads: int) -> Any:
    """What a device does of a layer: its heads and its part of the perceptron. The sums over devices are not in it."""
    batch, time, _ = x.shape
    held = norm(params["before"], x)

    def split(part: Any) -> Any:
        return ops.transpose(ops.reshape(part, (batch, time, heads, part.shape[-1] // heads)), (0, 2, 1, 3))

    q, k, v = (split(held @ params[name]) for name in "qkv")
    scores = (q @ ops.transpose(k, (0, 1, 3, 2))) * (1 / sqrt(q.shape[-1]))
    mixed = ops.transpose(ops.softmax(scores, axis=-1) @ v, (0, 2, 1, 3))
    x = x + ops.reshape(mixed, (batch, time, -1)) @ params["o"]
    held = norm(params["after"], x)
    return x + (ops.silu(held @ params["gate"]) * (held @ params["up"])) @ params["down"]


def loss(params: dict[str, Any], x: Any, wanted: Any) -> Any:
    """The mean cross entropy of logits over this device's part of the vocabulary."""
    logits = norm(params["last"], x) @ params["out"]
    return -ops.mean(ops.take_along_axis(ops.log_softmax(logits, axis=-1), wanted, axis=-1))


def embedding(table: Any, tokens: Any) -> Any:
    return ops.take(table, tokens, axis=0)


def slopes_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """Value, and cotangents of all arguments."""

    def both(cotangent: Any, *arguments: Any) -> Any:
        value, back = tl.vjp(f, *arguments)
        return value, back(cotangent)

    return both


def counted(f: Callable[..., Any], *types: Any) -> Cost:
    """`cost()` of a function, planned and not bound."""
    graph = dead_code_eliminated(trace_abstract(f, types, {}, ()).graph)
    return cost(accept(plan(graph, profiles.numpy_cpu)))


# -- shapes of one device ----------------------------------------------------------------------------------------------
def layer_types(model: Model, parts: int) -> dict[str, Any]:
    """The parameters of a layer that one of `parts` devices holds: columns, then rows of each pair of products."""
    width, inner, hidden = model.width, model.width // parts, model.hidden // parts
    shapes = {"before": (width,), "after": (width,), "o": (inner, width), "down": (hidden, width)}
    shapes |= dict.fromkeys("qkv", (width, inner)) | dict.fromkeys(("gate", "up"), (width, hidden))
    return {name: tensor(shape, model) for name, shape in shapes.items()}


def end_types(model: Model, parts: int) -> tuple[Any, dict[str, Any]]:
    """The embedding, cut by rows, and what the loss needs, cut by columns."""
    rows = model.vocabulary // parts
    return tensor((rows, model.width), model), {
        "last": tensor((model.width,), model),
        "out": tensor((model.width, rows), model),
    }


def tensor(shape: tuple[int, ...], model: Model, dtype: str = "") -> tl.TensorType:
    return tl.TensorType(shape, next(held for held in tl.DType if held.short == (dtype or model.dtype)))


def size(tree: Any) -> tuple[int, int]:
    """Entries and bytes of a tree of types."""
    types = pytree.leaves(tree)
    return sum([held.size for held in types]), sum([held.nbytes for held in types])


@dataclass(frozen=True)
class Traced:
    """Costs of one device for one micro-batch: a layer forward, and each part forward and backward."""

    forward: Cost
    layer: Cost
    loss: Cost
    embedding: Cost


def traced(model: Model, run: Run) -> Traced:
    parts, heads = run.model, model.heads // run.model
    x = tensor((run.micro, model.time, model.width), model)
    table, ends = end_types(model, parts)
    tokens = tensor((run.micro, model.time), model, "i32")
    wanted = tensor((run.micro, model.time, 1), model, "i32")

    def one(params: Any, x: Any) -> Any:
        return layer(params, x, heads)

    def end(params: Any, x: Any, wanted: Any) -> Any:
        return tl.value_and_grad(lambda params, x: loss(params, x, wanted), argnums=(0, 1))(params, x)

    def begin(cotangent: Any, table: Any, tokens: Any) -> Any:
        return slopes_of(lambda table: embedding(table, tokens))(cotangent, table)

    params = layer_types(model, parts)
    return Traced(
        forward=counted(one, params, x),
        layer=counted(slopes_of(one), x, params, x),
        loss=counted(end, ends, x, wanted),
        embedding=counted(begin, x, table, tokens),
    )


# -- the sums ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Exchange:
    """Collectives of one device in one step: what for, kind, devices together, count, bytes of each."""

    what: str
    kind: str
    devices: int
    count: int
    bytes: int

    def text(self) -> str:
        together = f"{self.kind}, {self.devices} devices"
        return f"{together}: {self.count} × {self.bytes:,} = {self.count * self.bytes:,}"


@dataclass(frozen=True)
class Paper:
    """The step of one device, and of all."""

    parameters: int
    held: int
    bytes: dict[str, int]
    flops: int
    flops_of_all: int
    exchanges: tuple[Exchange, ...]

    def text(self) -> str:
        lines = [f"{self.parameters:,} parameters, {self.held:,} of them on each device", "bytes per device"]
        lines += [f"  {what:<34}{count:>18,}" for what, count in self.bytes.items()]
        lines += [f"  {'all':<34}{sum(self.bytes.values()):>18,}", "operations per step"]
        lines += [f"  {'of one device':<34}{self.flops:>18,}", f"  {'of all':<34}{self.flops_of_all:>18,}"]
        lines.append("collectives per step, of one device (bytes of each, and of all)")
        lines += [f"  {one.what:<34}{one.text()}" for one in self.exchanges]
        return "\n".join(lines)


def paper(model: Model, run: Run, *, recompute: bool = True) -> Paper:
    """The arithmetic of docs/scale.md. `recompute`: layers keep their inputs only, and run forward again."""
    made = traced(model, run)
    table, ends = end_types(model, run.model)
    whole_table, whole_ends = end_types(model, 1)
    parameters = model.layers * size(layer_types(model, 1))[0] + size((whole_table, whole_ends))[0]
    entries, nbytes = size((layer_types(model, run.model),))
    held = model.layers * entries + size((table, ends))[0]
    held_bytes = model.layers * nbytes + size((table, ends))[1]
    stream = tensor((run.micro, model.time, model.width), model).nbytes  # of one activation between layers
    kept = stream if recompute else made.layer.peak_bytes
    inside = max(made.layer.peak_bytes, made.loss.peak_bytes)
    flops = run.times * (
        model.layers * (made.layer.flops + (made.forward.flops if recompute else 0))
        + made.loss.flops
        + made.embedding.flops
    )
    return Paper(
        parameters=parameters,
        held=held,
        bytes={
            "parameters": held_bytes,
            "gradients": held_bytes,
            "optimizer state": STATE_BYTES * held,
            "activations kept between layers": model.layers * kept,
            "inside a layer or the loss, at most": inside,
        },
        flops=flops,
        flops_of_all=flops * run.data * run.model,
        exchanges=exchanges(model, run, stream, held_bytes, recompute=recompute),
    )


def exchanges(model: Model, run: Run, stream: int, held_bytes: int, *, recompute: bool) -> tuple[Exchange, ...]:
    """Behind attention and perceptron forward, in front of both backward, and the gradients once.

    On the way back XLA adds up what the products of one activation give after the exchange: those for q, k and v, or
    gate and up, go in one collective, each at its full size.
    """
    per_layer = run.times * model.layers
    passes = [
        ("layers, forward", 2 * per_layer, stream),
        *([("layers, forward again", 2 * per_layer, stream)] if recompute else []),
        ("attention, backward", per_layer, 3 * stream),
        ("perceptron, backward", per_layer, 2 * stream),
        ("embedding, forward", run.times, stream),
        ("loss, backward", run.times, stream),
        ("loss: greatest, sum, own entry", 3 * run.times, stream // model.width),  # a number per token
    ]
    made = [Exchange(what, "all-reduce", run.model, count, bytes) for what, count, bytes in passes]
    return (
        *([] if run.model == 1 else made),
        *([] if run.data == 1 else [Exchange("gradients", "all-reduce", run.data, 1, held_bytes)]),
    )


def main() -> None:
    print(f"{SEVEN_B}\n{ON_256}")
    print(paper(SEVEN_B, ON_256).text())


if __name__ == "__main__":
    main()
