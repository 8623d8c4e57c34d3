"""Run by test_devices.py in a process with four devices: prints what ran where as JSON."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np

import torchlean as tl
from torchlean import ops
from torchlean.backends import xla
from torchlean.backends.grouping import units

TABLE = np.linspace(-1, 1, 2048, dtype=np.float32)  # a constant that is handed over


def program(x: Any, n: Any) -> Any:
    return ops.tanh(x * TABLE) @ x.T, n + 1


def where(lowered: Any) -> list[int]:
    (unit,) = [unit for unit in units(lowered.plan) if unit.group is not None]
    fused: Any = unit.grouper.fuse(unit.group)  # type: ignore[union-attr]
    return [device.id for device in fused.built.compiled().runtime_executable().local_devices()]


def main() -> None:
    x = np.random.default_rng(5).standard_normal((128, 2048), dtype=np.float32)
    n = np.int64(2**53)
    made: dict[str, Any] = {}
    results = []
    for device in (jax.devices()[0], jax.devices()[2]):
        profile = xla.on(device)
        lowered = tl.lower(program, x, n, profile=profile.under(profile.policy.allowing_stale()))
        product, counted = lowered(x, n)
        results.append(product.numpy())
        made[profile.name] = {
            "ran": where(lowered),
            "counted": int(counted.numpy()),
            "plan": lowered.plan.text(),
        }
    made["equal"] = bool((results[0] == results[1]).all())
    mesh = xla.with_mesh(jax.sharding.Mesh(np.array(jax.devices()[2:]), ("data",)))
    lowered = tl.lower(program, x, n, profile=mesh.under(mesh.policy.allowing_stale()))
    lowered(x, n)
    made["mesh"] = where(lowered)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
