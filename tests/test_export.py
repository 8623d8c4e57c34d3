"""Exported programs: the same results from bytes alone, and every refusal of what is no export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops, pytree
from torchlean.backends import EXTERNAL, Device, Profile, reference, xla
from torchlean.backends.sharding import Mesh, whole
from torchlean.errors import BackendMissing, ConfigError, SerializationError, StructureError, TypeRuleError
from torchlean.export import MAGIC
from torchlean.ir.serialize import content_hash

jax = pytest.importorskip("jax")
pytest.importorskip("flatbuffers")
XLA = Profile(name="xla", device=Device.CPU, modules=(xla.MODULE,), policy=EXTERNAL.allowing_stale())
W = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 7
X = np.array([[0.5, -1.0]], np.float32)
LARGE = np.arange(5000, dtype=np.float64)


def step(params: dict[str, Any], x: Any, *, scale: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        return ops.sum(ops.tanh(x @ params["w"]) ** 2) * scale

    value, slopes = tl.value_and_grad(loss)(params)
    return [value, {"w": params["w"] - slopes["w"]}, None], x


@pytest.fixture(scope="module")
def lowered() -> Any:
    return tl.lower(step, {"w": W}, X, profile=XLA, scale=np.float32(2))


@pytest.fixture(scope="module")
def data(lowered: Any) -> bytes:
    return tl.export.dumps(lowered)


def test_an_export_gives_the_bits_of_the_program(lowered: Any, data: bytes, tmp_path: Path) -> None:
    expected = lowered({"w": W}, X, scale=np.float32(2))
    tl.export.save(lowered, tmp_path / "step.tl")
    for source in (data, tmp_path / "step.tl", str(tmp_path / "step.tl")):
        loaded = tl.export.load(source)
        found = loaded({"w": W}, X, scale=np.float32(2))
        assert pytree.structure(found) == pytree.structure(expected)
        for mine, theirs in zip(pytree.leaves(found), pytree.leaves(expected), strict=True):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs), strict=True)
    assert loaded.graph_hash == content_hash(lowered.plan.graph)
    assert loaded.in_types == lowered.in_types
    assert loaded.out_types == lowered.out_types
    assert loaded.versions == {"torchlean": tl.__version__, "jax": jax.__version__}
    assert repr(loaded) == "<Exported step: 3 arguments, 3 results>"


def test_wide_types_loops_and_large_constants_come_back() -> None:
    def f(n: Any, x: Any) -> Any:
        total = tl.fori_loop(0, 4, lambda i, held: held * x, x)
        return n + 1, total + ops.sum(x * LARGE), ops.convert(x, "bf16")

    n, x = np.int64(2**40), np.float64(1.5)
    made = tl.lower(f, n, x, profile=XLA)
    found = tl.export.load(tl.export.dumps(made))(n, x)
    for mine, theirs in zip(found, made(n, x), strict=True):
        assert (mine.dtype, np.asarray(mine).tobytes()) == (theirs.dtype, np.asarray(theirs).tobytes())
    assert int(found[0]) == 2**40 + 1


def test_another_process_needs_no_function(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "step.tl").write_bytes(data)
    program = (
        "import sys, numpy as np, torchlean as tl\n"
        "f = tl.export.load(sys.argv[1])\n"
        "print(float(f({'w': np.ones((2, 3), np.float32)}, np.ones((1, 2), np.float32), scale=np.float32(1))[0][0]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "step.tl")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert abs(float(ran.stdout) - 3 * np.tanh(2) ** 2) < 1e-5


def test_calls_with_other_arguments(data: bytes) -> None:
    loaded = tl.export.load(data)
    with pytest.raises(StructureError, match=r"step was exported for other arguments\n  expected: PyTreeSpec"):
        loaded({"w": W})
    with pytest.raises(TypeRuleError) as caught:
        loaded({"w": W.astype(np.float64)}, X, scale=np.float32(2))
    assert str(caught.value) == (
        "step was exported for f32[2,3] at args[0]['w'] and got f64[2,3]\n"
        "  expected: f32[2,3]\n  got:      f64[2,3]\n  fix:      convert the argument"
    )
    with pytest.raises(TypeRuleError, match=r"for f32\[1,2\] at args\[1\] and got str"):
        loaded({"w": W}, "x", scale=np.float32(2))


def headed(change: Callable[[dict[str, Any]], Any], data: bytes) -> bytes:
    head, _, payload = data[len(MAGIC) :].partition(b"\n")
    header = json.loads(head)
    change(header)
    return MAGIC + json.dumps(header).encode() + b"\n" + payload


REFUSED: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("nothing", lambda data: b"", "not an exported program\n  expected: bytes that begin with b'torchlean-export"),
    ("garbage", lambda data: b"\x7fELF" + data, "not an exported program"),
    ("cut in the header", lambda data: data[:40], "the export ends inside its header\n  expected: a line of JSON\n"),
    ("cut in the artefact", lambda data: data[:-1], "the artefact does not have the hash its header claims\n"),
    ("no JSON", lambda data: MAGIC + b"{\n", "not JSON: "),
    ("no object", lambda data: MAGIC + b"[]\n", "version None of the export format is unknown\n  expected: 1\n"),
    (
        "newer",
        lambda data: headed(lambda header: header.update(version=2), data),
        "version 2 of the export format is unknown\n  expected: 1\n  got:      2\n"
        "  fix:      read it with the torchlean that wrote it, or export it again",
    ),
    ("true", lambda data: headed(lambda header: header.update(version=True), data), "version True of the export"),
    ("a field less", lambda data: headed(lambda header: header.pop("jax"), data), "the header"),
    (
        "platform",
        lambda data: headed(lambda header: header.update(platform="tpu"), data),
        "the export is for another platform\n  expected: cpu\n  got:      'tpu'",
    ),
    (
        "other types",
        lambda data: headed(lambda header: header.update(results={"type": ["f32", [3]]}), data),
        "the program in this export returns other types than its header says\n  expected: f32[3]\n  got:",
    ),
    (
        "no dtype",
        lambda data: headed(lambda header: header.update(results={"type": ["f33", [3]]}), data),
        "the header's types cannot be read",
    ),
    (
        "no tree",
        lambda data: headed(lambda header: header.update(results={"set": []}), data),
        'the header\'s types cannot be read\n  expected: {"type"|',
    ),
    (
        "no pair",
        lambda data: headed(lambda header: header.update(results={"dict": [["w"]]}), data),
        "the header's types cannot be read",
    ),
]


@pytest.mark.parametrize(("change", "expected"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_is_no_export(change: Callable[[bytes], bytes], expected: str, data: bytes) -> None:
    with pytest.raises(SerializationError) as caught:
        tl.export.load(change(data))
    assert expected in str(caught.value)


def test_an_artefact_jax_cannot_read(data: bytes) -> None:
    import hashlib

    payload = b"no artefact"
    head = json.loads(data[len(MAGIC) :].partition(b"\n")[0]) | {"artefact": hashlib.sha256(payload).hexdigest()}
    with pytest.raises(SerializationError) as caught:
        tl.export.load(MAGIC + json.dumps(head).encode() + b"\n" + payload)
    assert str(caught.value).startswith(
        f"jax cannot read the program in this export\n  expected: an artefact jax {jax.__version__} knows\n"
    )


def test_programs_that_are_not_on_xla() -> None:
    mixed = XLA.with_modules(reference.MODULE)
    with pytest.raises(ConfigError) as caught:
        tl.export.dumps(tl.lower(lambda x: ops.exp(x), X, profile=mixed))
    assert str(caught.value) == (
        "<lambda> has steps that are not on XLA, and so no StableHLO\n"
        "  expected: every step planned on xla\n  got:      exp on reference.exp\n"
        "  fix:      lower it with a profile whose first module is torchlean.backends.xla.MODULE"
    )


def test_programs_for_a_mesh(lowered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = Mesh(axes=(("data", 8),), kinds=(("cpu", 8),), processes=1, held=None)
    monkeypatch.setattr(lowered.plan, "partitioning", whole(mesh, (), ()))
    with pytest.raises(ConfigError) as caught:
        tl.export.dumps(lowered)
    assert str(caught.value) == (
        "step is a program for the mesh data=8 (8 cpu devices), which is not exported\n"
        "  expected: a program for one device\n  got:      one with shardings\n  fix:      lower it without a mesh"
    )


@dataclass
class Pair:
    left: Any
    right: Any


def test_trees_a_header_cannot_describe() -> None:
    pytree.register_dataclass(Pair, ["left", "right"], [])
    made = tl.lower(lambda pair: pair.left + pair.right, Pair(X, X), profile=XLA)
    with pytest.raises(ConfigError) as caught:
        tl.export.dumps(made)
    assert str(caught.value) == (
        "the arguments hold a Pair, which an export cannot describe\n"
        "  expected: arrays in tuples, lists and dicts with text keys\n  got:      Pair\n"
        "  fix:      use tuples, lists, and dicts with text keys"
    )
    with pytest.raises(ConfigError, match="the results hold a dict, which an export cannot describe"):
        tl.export.dumps(tl.lower(lambda x: {1: ops.exp(x)}, X, profile=XLA))


def test_without_flatbuffers(lowered: Any, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.xla.exporting.find_spec", lambda name: None)
    uses: list[tuple[Any, Any]] = [(tl.export.dumps, lowered), (tl.export.load, data)]
    for use, given in uses:
        with pytest.raises(BackendMissing) as caught:
            use(given)
        assert str(caught.value) == (
            "jax.export cannot write or read programs here\n"
            "  expected: the library flatbuffers\n  got:      it is not installed\n"
            '  fix:      install it: pip install "torchlean[export]"'
        )


def test_what_jax_does_not_export(lowered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax.export

    def refuses(*_: Any, **__: Any) -> Any:
        raise ValueError("Cannot serialize code with custom calls whose targets have no compatibility guarantees: x")

    monkeypatch.setattr(jax.export, "export", refuses)
    with pytest.raises(BackendMissing) as caught:
        tl.export.dumps(lowered)
    assert str(caught.value).startswith("jax.export refuses step\n  expected: ops with a portable form\n")


def test_gradients_of_a_backends_own_are_not_exported() -> None:
    profile = xla.with_vjp("backend-vjp", XLA)
    made = tl.lower(tl.grad(lambda v: ops.sum(ops.tanh(v))), X, profile=profile)
    with pytest.raises(SerializationError) as caught:
        tl.export.dumps(made)
    first, fix = str(caught.value).splitlines()
    assert first.startswith("function.vjp (test_export.py:")
    assert first.endswith(" is a gradient its backend takes, which cannot be written")
    assert fix == "  fix:      lower the function for torchlean-tape, whose gradients are nodes"
