"""Profiles for one device of jax: where programs run, and what is said of platforms nothing was measured on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.backends import EXTERNAL, Bitwise, Profile, Unstated, plan, xla
from torchlean.backends.vocabulary import Repeats, Subnormals
from torchlean.backends.xla import meshes, platforms
from torchlean.backends.xla.platforms import CPU, CUDA, ROCM, TPU
from torchlean.errors import BackendMissing, ConfigError, PlanRejected
from torchlean.ir.dtypes import DType
from torchlean.transforms.api import make_graph

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def found(root: Path) -> Any:
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")]),
    }
    script = Path(__file__).with_name("other_device.py")
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("which", [0, 2])
def test_a_program_runs_on_the_device_it_is_planned_for(found: Any, which: int) -> None:
    made = found[f"xla_cpu:{which}"]
    assert made["ran"] == [which]
    assert made["counted"] == 2**53 + 1
    assert f"profile xla_cpu:{which}, device cpu" in made["plan"]


def test_devices_of_a_kind_give_the_same_bits(found: Any) -> None:
    assert found["equal"]


def test_a_mesh_is_of_the_devices_it_was_made_of(found: Any) -> None:
    assert found["mesh"] == [2, 3]


def test_what_is_no_device_here() -> None:
    with pytest.raises(BackendMissing) as caught:
        xla.on("gpu")
    assert str(caught.value).startswith(
        "jax has no device of the platform gpu here\n  expected: gpu among its platforms\n  got:      "
    )
    assert str(caught.value).endswith("\n  fix:      install the jax that is made for it, or name another platform")
    with pytest.raises(ConfigError) as wrong:
        xla.on("abacus")
    assert str(wrong.value) == (
        "nothing is known of the platform 'abacus'\n"
        "  expected: gpu, cpu, cuda, rocm, tpu\n  got:      'abacus'\n"
        "  fix:      name a platform XLA compiles for"
    )
    with pytest.raises(ConfigError) as neither:
        xla.on(3)
    assert str(neither.value) == (
        "this is no device\n  expected: a device of jax.devices(), or the name of a platform\n  got:      3\n"
        '  fix:      xla.on("gpu")'
    )
    with pytest.raises(BackendMissing, match="jax has no device of the platform tpu here"):
        xla.with_mesh({"data": 8}, platform="tpu")


def device(platform: str, version: str = "") -> Any:
    return SimpleNamespace(platform=platform, client=SimpleNamespace(platform_version=version), id=1)


def test_the_maker_of_a_gpu_is_told_by_its_client() -> None:
    assert platforms.platform_of(device("gpu", "PJRT C API\ncuda 13000")) is CUDA
    assert platforms.platform_of(device("gpu", "rocm 60443")) is ROCM
    assert platforms.platform_of(device("tpu")) is TPU
    assert platforms.platform_of(jax.devices("cpu")[0]) is CPU


def test_a_mesh_of_several_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = iter([CPU, TPU])
    monkeypatch.setattr(meshes, "platform_of", lambda held: next(kinds))
    monkeypatch.setattr(meshes, "_grid", lambda *_: (np.array([device("cpu"), device("tpu")], dtype=object), ("data",)))
    with pytest.raises(ConfigError) as caught:
        xla.with_mesh({"data": 2})
    assert str(caught.value) == (
        "the mesh has devices of several platforms\n"
        "  expected: devices one executable can be made for\n  got:      cpu, tpu\n"
        "  fix:      make the mesh of the devices of one platform"
    )


def on(platform: platforms.Platform) -> Profile:
    """A profile of a platform this machine need not have: it can be planned for."""
    return Profile(name=platform.name, device=platform.device, modules=(xla.module(platform),), policy=EXTERNAL)


@pytest.mark.parametrize("platform", [CUDA, ROCM, TPU])
def test_nothing_is_claimed_where_nothing_was_measured(platform: platforms.Platform) -> None:
    graph = make_graph(lambda x: ops.reshape(ops.tanh(x) @ x, (9,)))(np.ones((3, 3), np.float32))
    tanh, matmul, reshape = [step.capsule for step in plan(graph, on(platform)).steps]
    assert {capsule.device for capsule in (tanh, matmul, reshape)} == {platform.device}
    assert (tanh.bound, matmul.bound, reshape.bound) == (Unstated(), Unstated(), Bitwise())
    assert tanh.numerics.subnormals is Subnormals.IMPLEMENTATION_DEFINED
    assert (tanh.numerics.repeats, reshape.numerics.repeats) == (Repeats.UNSTATED, Repeats.SAME_BITS)
    assert "trusted boundary: the XLA compiler" in str(tanh.vjp.evidence)


def test_types_a_platform_lacks_are_refused_before_anything_runs() -> None:
    wide = np.ones((3, 3))
    with pytest.raises(PlanRejected) as caught:
        tl.lower(lambda x: ops.tanh(x), wide, profile=on(TPU))
    assert (
        "xla.tanh refuses tanh of f64[3,3]: tpu has no f64: XLA puts pairs of float32 in its place, "
        "whose range and precision are others" in str(caught.value)
    )
    made = make_graph(lambda x: ops.convert(x, DType.F64))(np.ones(3, np.float32))  # no operand is wide
    with pytest.raises(PlanRejected, match="tpu has no f64"):
        plan(made, on(TPU))
    inside = make_graph(
        lambda x: tl.cond(x[0] > 0, lambda v: ops.convert(ops.convert(v, DType.F64) / 3, DType.F32), lambda v: v, x)
    )(np.ones(3, np.float32))
    with pytest.raises(PlanRejected, match=r"xla\.cond refuses .* tpu has no f64"):
        plan(inside, on(TPU))
    assert plan(make_graph(lambda x: x + 1)(np.ones(3, np.int64)), on(TPU)).steps  # pairs of words are exact


def test_a_platform_without_long_integers_refuses_them() -> None:
    small = platforms.Platform(name="toy", device=TPU.device, lacks=frozenset({DType.I64}), why="its words are short")
    with pytest.raises(PlanRejected, match="toy has no i64: its words are short"):
        tl.lower(lambda x: x + 1, np.ones(3, np.int64), profile=on(small))


def test_capsules_of_another_device_are_refused_by_name() -> None:
    graph = make_graph(lambda x: ops.tanh(x))(np.ones(3, np.float32))
    with pytest.raises(PlanRejected, match=r"xla\.tanh targets cuda, not requested cpu, for tanh"):
        plan(graph, on(CUDA).on(CPU.device))
