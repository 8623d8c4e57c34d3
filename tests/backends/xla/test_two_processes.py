"""Two processes that jax.distributed joins on the loopback: a data-parallel step equals that of one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.xla import block

import torchlean as tl

pytest.importorskip("jax")
EPS = float(np.finfo(np.float32).eps)
SECONDS = 120


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def found(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    path = os.pathsep.join([str(root), str(root / "tests")])
    flags = "--xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path}
    script, port = Path(__file__).with_name("two_processes.py"), str(free_port())
    folder = tmp_path_factory.mktemp("processes")  # files: a full pipe would stop one while the other waits for it
    running: list[subprocess.Popen[bytes]] = []
    for rank in (0, 1):
        with (folder / f"{rank}.out").open("wb") as out, (folder / f"{rank}.err").open("wb") as err:
            command = [sys.executable, str(script), str(rank), port]
            running.append(subprocess.Popen(command, env=environment, stdout=out, stderr=err))
    try:
        for rank, process in enumerate(running):
            assert process.wait(timeout=SECONDS) == 0, (folder / f"{rank}.err").read_text()
    finally:
        for process in running:
            process.kill()
            process.wait()
    made = [json.loads((folder / f"{rank}.out").read_text().splitlines()[-1]) for rank in (0, 1)]
    for one in made:
        if "unsupported" in one:
            pytest.skip(f"jax joins no CPU processes here: {one['unsupported']}")
    return made


def test_a_data_parallel_step_equals_that_of_one_process(found: list[Any]) -> None:
    params, (x, y) = block.parameters(), block.data()
    expected, loss = tl.lower(block.step, params, x, y, profile=tl.profiles.numpy_cpu)(params, x, y)
    for one in found:
        assert abs(one["loss"] - float(loss)) <= 64 * EPS * float(loss)
        for name, theirs in expected.items():
            slope = float(np.abs(np.asarray(theirs) - params[name]).max())
            far = float(np.abs(np.float32(one["moved"][name]) - np.asarray(theirs)).max())
            assert far <= 64 * EPS * slope + EPS * float(np.abs(params[name]).max())


def test_results_cut_over_processes_come_back_whole_in_each(found: list[Any]) -> None:
    assert [one["doubled"] for one in found] == [True, True]


def test_the_plan_names_the_processes(found: list[Any]) -> None:
    assert {one["plan"] for one in found} == {"mesh data=4 (4 cpu devices, 2 processes)"}
    assert [one["devices"] for one in found] == [[4], [4]]
