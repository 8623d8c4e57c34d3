"""Programs over a mesh of eight virtual CPU devices: equal to one device's, and their collectives counted.

The bound: a parameter after the step lies within 64·ε of the largest gradient, and ε of the largest parameter, of what
one device gives, since only the order of sums differs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
EPS = float(np.finfo(np.float32).eps)
ENTRIES = 4 * 32 * 32 + 2 * 32 * 64  # of the block's parameters


@pytest.fixture(scope="module")
def found(root: Path) -> Any:
    path = os.pathsep.join([str(root), str(root / "tests"), str(root / "benchmarks")])
    flags = "--xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path}
    script = Path(__file__).with_name("eight_devices.py")
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("which", ["data", "model"])
def test_a_training_step_equals_that_of_one_device(found: Any, which: str) -> None:
    made = found[which]
    for name, far in made["far"].items():
        assert far <= 64 * EPS * made["slope"][name] + EPS * made["largest"][name]
        assert made["slope"][name] > 1000 * EPS  # the step moved it
    loss, expected = made["loss"]
    assert abs(loss - expected) <= 64 * EPS * expected


@pytest.mark.parametrize("which", ["data", "model"])
def test_the_collectives_reported_are_those_of_the_compiled_module(found: Any, which: str) -> None:
    made = found[which]
    assert {kind: count for kind, (count, _) in made["totals"].items()} == made["counted"]
    assert made["json"] == made["reported"]
    assert made["section"]
    assert made["html"] >= len(made["reported"])


def test_data_parallel_exchanges_the_gradients_and_the_loss(found: Any) -> None:
    (row,) = found["data"]["reported"]
    assert (row["kind"], row["bytes"], row["devices"], row["times"]) == ("all-reduce", 4 * (ENTRIES + 1), 8, 1)


def test_tensor_parallel_exchanges_activations_and_says_where(found: Any) -> None:
    rows = found["model"]["reported"]
    over_model = [row for row in rows if row["devices"] == 2]
    assert {row["type"] for row in over_model} == {"f32[2,8,32]"}  # a quarter of the batch
    assert len(over_model) == 3  # behind attention and perceptron; before the latter on the way back
    assert {row["where"].split(":")[0] for row in rows} == {"block.py"}
    (gradients,) = [row for row in rows if row["devices"] == 4]
    assert gradients["bytes"] == 4 * (ENTRIES // 2 + 1)
    assert found["model"]["text"].startswith(
        "collectives of step: 4 all-reduce of 22,532 bytes\n  all-reduce  f32[2,8,32]"
    )


def test_the_paper_model_counts_the_collectives_of_compiled_layers(found: Any, root: Path) -> None:
    spec = importlib.util.spec_from_file_location("paper_scale", root / "benchmarks/scale.py")
    assert spec is not None
    assert spec.loader is not None
    scale = importlib.util.module_from_spec(spec)
    sys.modules["paper_scale"] = scale
    spec.loader.exec_module(scale)
    model = scale.Model(layers=2, width=32, heads=4, hidden=64, vocabulary=64, time=8, dtype="f32")
    held = 2 * scale.size(scale.layer_types(model, 2))[1]
    run = scale.Run(micro=2, times=1, data=4, model=2)
    paper = scale.exchanges(model, run, 2 * 8 * 32 * 4, held, recompute=False)
    layers = [one for one in paper if one.what.startswith(("layers", "attention", "perceptron"))]
    over_model = [row for row in found["stacked"] if row["devices"] == 2]
    assert len(over_model) == sum([one.count for one in layers]) == 8
    assert sum([row["bytes"] for row in over_model]) == sum([one.count * one.bytes for one in layers])
    (gradients,) = [row for row in found["stacked"] if row["devices"] == 4]
    assert gradients["bytes"] == paper[-1].bytes + 4  # and the loss


def test_plan_and_provenance_name_mesh_and_partitioning(found: Any) -> None:
    lines = found["model"]["plan"].splitlines()[1:]
    assert lines[0] == "  mesh data=4 × model=2 (8 cpu devices)"
    assert "  in args[0]['down'] f32[64,32]: P('model')" in lines
    assert "  in args[1] f32[8,8,32]: P('data')" in lines
    assert "  out result[0]['q'] f32[32,32]: P(None, 'model')" in lines
    assert "  out 1 results: left to the compiler" in lines
    made = found["model"]["provenance"]
    assert made["mesh"] == {"axes": [["data", 4], ["model", 2]], "kinds": {"cpu": 8}, "processes": 1}
    assert made["inputs"][-1] == {"path": "args[2]", "type": "f32[8,8,32]", "spec": [["data"]]}


def test_results_lie_as_they_were_asked_to(found: Any) -> None:
    columns, rows = [None, "model"], ["model"]
    inside = {"q": columns, "k": columns, "v": columns, "o": rows, "up": columns, "down": rows}
    assert found["model"]["out"] == [*[inside[name] for name in sorted(inside)], []]
    assert found["data"]["out"] == [[]] * 7


def test_64_bit_arguments_keep_their_type(found: Any) -> None:
    assert found["dtypes"] == ["int64", "float64", "int64"]
    wide, third, part = found["wide"]
    assert wide == [2 * (at + 2**40) for at in range(8)]
    assert third == [at / 3 / 3 for at in range(8)]
    assert part == [2**40, 2**40 + 1]


def test_a_collective_in_a_loop_is_counted_with_its_steps(found: Any) -> None:
    value, (row,) = found["loop"]
    assert value == 3.0**5
    assert (row["times"], row["bytes"], row["devices"]) == (5, 4, 8)


def test_executables_are_kept_by_graph_and_shardings(found: Any) -> None:
    assert found["same"] == 0
    assert found["other"] == [1, 3.0**5]
    assert found["again"] == 3.0**5


def test_large_constants_are_on_every_device(found: Any) -> None:
    assert found["constant"] == 4095 * 4096 / 2
