"""Run by test_mesh.py in a process with eight devices: prints what it found as JSON."""

from __future__ import annotations

import importlib
import json
from typing import Any

import jax
import numpy as np
from backends.xla import block
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import torchlean as tl
from torchlean import ops, report
from torchlean.backends import xla
from torchlean.backends.grouping import units

PARAMS, (X, Y) = block.parameters(), block.data()
COLUMNS, ROWS = P(None, "model"), P("model")
MODEL = {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "o": ROWS, "up": COLUMNS, "down": ROWS}


def profile(mesh: Any) -> Any:
    made = xla.with_mesh(mesh)
    return made.under(made.policy.allowing_stale())


def executable(lowered: Any) -> Any:
    (unit,) = [unit for unit in units(lowered.plan) if unit.group is not None]
    fused: Any = unit.grouper.fuse(unit.group)  # type: ignore[union-attr]
    return fused.built.compiled()


def counted(text: str) -> dict[str, int]:
    """Collectives by kind, by plain search: apart from the code under test."""
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")
    found = {kind: text.count(f" {kind}(") + text.count(f" {kind}-start(") for kind in kinds}
    return {kind: count for kind, count in found.items() if count}


def compared(lowered: Any, single: Any) -> dict[str, Any]:
    (params, loss), (expected, expected_loss) = lowered(PARAMS, X, Y), single
    scale = {name: float(np.abs(np.asarray(expected[name]) - PARAMS[name]).max()) for name in PARAMS}
    return {
        "far": {name: float(np.abs(np.asarray(params[name]) - np.asarray(expected[name])).max()) for name in PARAMS},
        "slope": scale,
        "largest": {name: float(np.abs(PARAMS[name]).max()) for name in PARAMS},
        "loss": [float(loss), float(expected_loss)],
        "reported": lowered.collectives().as_json(),
        "totals": {kind: list(pair) for kind, pair in lowered.collectives().totals().items()},
        "counted": counted(str(executable(lowered).as_text())),
        "plan": lowered.plan.text(),
        "text": lowered.collectives().text(),
        "provenance": lowered.as_json()["provenance"]["partitioning"],
        "json": lowered.as_json()["collectives"],
        "html": lowered.to_html().count("all-reduce"),
        "out": [list(held.spec) for held in executable(lowered).output_shardings],
        "section": "Collectives" in report.html(lowered),
    }


def stacked(profile: Any) -> list[dict[str, Any]]:
    """The collectives of two layers of benchmarks/scale.py, over data and model."""
    scale: Any = importlib.import_module("scale")
    model = scale.Model(layers=2, width=32, heads=4, hidden=64, vocabulary=64, time=8, dtype="f32")
    spec = {"before": P(), "after": P(), "o": ROWS, "down": ROWS}
    spec |= dict.fromkeys(("q", "k", "v", "gate", "up"), COLUMNS)

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            held = x
            for one in params:
                held = scale.layer(one, held, model.heads)
            return ops.mean(held * held)

        return tl.value_and_grad(loss)(params)

    types, x = [scale.layer_types(model, 1)] * model.layers, tl.TensorType((8, 8, 32), tl.DType.F32)
    specs = [spec] * model.layers
    made = tl.lower(step, types, x, profile=profile, in_shardings=(specs, P("data")), out_shardings=(None, specs))
    return made.collectives().as_json()


def main() -> dict[str, Any]:
    cpu = tl.lower(block.step, PARAMS, X, Y, profile=tl.profiles.numpy_cpu)(PARAMS, X, Y)
    data = tl.lower(
        block.step,
        PARAMS,
        X,
        Y,
        profile=profile({"data": 8}),
        in_shardings=(None, P("data"), P("data")),
        out_shardings=P(),
    )
    both = profile(jax.make_mesh((4, 2), ("data", "model")))
    places = (MODEL, P("data"), P("data"))
    model = tl.lower(block.step, PARAMS, X, Y, profile=both, in_shardings=places, out_shardings=(MODEL, None))
    named = NamedSharding(both.mesh.held, P("data"))  # type: ignore[union-attr]
    wide = np.arange(8, dtype=np.int64) + 2**40
    tall = np.arange(8.0) / 3
    doubled = tl.lower(lambda a, b: (a * 2, b / 3, a[:2]), wide, tall, profile=both, in_shardings=named)

    def looped(x: Any) -> Any:
        return tl.scan(lambda carry, _: (carry + ops.sum(x * carry), None), np.float32(1), None, length=5)[0]

    small = np.full(8, 0.25, np.float32)
    loop = tl.lower(looped, small, profile=both, in_shardings=P(("data", "model")))
    builds = both.modules[0].capsules[0].handler.grouper.builds()
    before = len(builds)
    again = tl.lower(looped, small, profile=both, in_shardings=P(("data", "model")))
    same = len(builds) - before
    other = tl.lower(looped, small, profile=both, in_shardings=P("data"))
    return {
        "data": compared(data, cpu),
        "model": compared(model, cpu),
        "wide": [np.asarray(part).tolist() for part in doubled(wide, tall)],
        "dtypes": [str(np.asarray(part).dtype) for part in doubled(wide, tall)],
        "again": float(again(small)),
        "loop": [float(loop(small)), loop.collectives().as_json()],
        "same": same,
        "other": [len(builds) - before, float(other(small))],
        "stacked": stacked(both),
        "constant": float(
            tl.lower(lambda x: ops.sum(x * np.arange(4096, dtype=np.float32)), np.ones(4096, np.float32), profile=both)(
                np.ones(4096, np.float32)
            )
        ),
    }


if __name__ == "__main__":
    print(json.dumps(main()))
