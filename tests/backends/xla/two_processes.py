"""Run twice by test_two_processes.py: one of two processes that share a mesh of four devices. Prints JSON last."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np
from backends.xla import block
from jax.sharding import PartitionSpec as P

import torchlean as tl
from torchlean.backends import xla


def main(rank: int, port: str) -> dict[str, Any]:
    try:
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        devices = len(jax.devices())
    except (RuntimeError, NotImplementedError) as fault:
        return {"unsupported": f"{type(fault).__name__}: {fault}"}
    if devices != 4:
        return {"unsupported": f"jax sees {devices} devices in two processes of two"}
    profile = xla.with_mesh({"data": 4})
    profile = profile.under(profile.policy.allowing_stale())
    params, (x, y) = block.parameters(), block.data()
    step = tl.lower(
        block.step, params, x, y, profile=profile, in_shardings=(None, P("data"), P("data")), out_shardings=P()
    )
    rows = tl.lower(lambda x: x * 2, x, profile=profile, in_shardings=P("data"), out_shardings=P("data"))
    try:
        moved, loss = step(params, x, y)
        doubled = np.asarray(rows(x))
    except Exception as fault:
        if "UNIMPLEMENTED" not in str(fault):
            raise
        return {"unsupported": str(fault).splitlines()[0]}
    return {
        "moved": {name: np.asarray(moved[name]).tolist() for name in moved},
        "loss": float(loss),
        "doubled": bool((doubled == 2 * x).all()),
        "plan": step.plan.text().splitlines()[1].strip(),
        "devices": [row["devices"] for row in step.collectives().as_json()],
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
