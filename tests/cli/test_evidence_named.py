"""A provider of an op of its own, from a package in a folder: named on the command line, or found by entry point, it
brings `SAMPLES`, and its claims are recorded.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import torchlean as tl
from torchlean.backends import CHECKED, CapsuleModule, Profile, select
from torchlean.backends.vocabulary import Device, VjpMode
from torchlean.conformance.named import known_modules, named
from torchlean.errors import ConfigError
from torchlean.ir.op import NO_PARAMS

NUMBERS = count()
FORWARD = replace(CHECKED, vjp=VjpMode.NONE)
X = tl.TensorType((5,), tl.DType.F32)
PACKAGE = '''"""An op of this package's own, a kernel for it, and samples."""

import numpy as np

from torchlean import backends as tb
from torchlean.conformance.samples.call import Call
from torchlean.conformance.samples.draw import Sample, uniform
from torchlean.evidence.ledger import Ledger
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.elementwise import NEG

TWICE = Op(
    "twice", NEG.params, NEG.type_rule, lambda algebra, params, x: (algebra.add(x, x),), NEG.diff, NEG.batch, False, ""
)


def make(params, types):
    return lambda x: FACTOR * x


FACTOR = np.float32(2)
CAPSULE = tb.Capsule(
    op=TWICE,
    provider="{name}",
    device=tb.Device.CPU,
    shape=tb.guarded(tb.Claim.SHAPE, "types derived again when bound"),
    layout=tb.guarded(tb.Claim.LAYOUT, "any strides"),
    value=tb.tested(tb.Claim.VALUE, "{name}::bits"),
    vjp=tb.vjp_unavailable("nobody differentiates it"),
    vjp_mode=tb.VjpMode.NONE,
    bound=tb.Bitwise(),
    numerics=tb.NumericalPolicy(
        reduction=tb.Reduction.NOT_APPLICABLE,
        contraction=tb.Contraction.NOT_APPLICABLE,
        subnormals=tb.Subnormals.GRADUAL,
        accumulator=tb.Accumulator.NOT_APPLICABLE,
    ),
    handler=tb.Implementation(op=TWICE, provider="{name}", device=tb.Device.CPU, traits=tb.FRESH, make=make),
    refuses=lambda params, types: None if types[0].dtype.name == "F32" else "only f32",
)
MODULE = tb.CapsuleModule(
    name="{name}",
    capsules=(CAPSULE,),
    probe=tb.always_available,
    ledger=Ledger("{name}", package="{name}", shipped=None, libraries=("numpy",)),
)
'''
SAMPLES = """SAMPLES = (
    Sample(TWICE, NO_PARAMS, (uniform((5,)).astype("float32"),), "f32[5]", True),
    Sample(TWICE, NO_PARAMS, (uniform(()).astype("float32"),), "f32[]", True),
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A function that writes the package into a folder that can be imported from, and gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TORCHLEAN_EVIDENCE_DIR", str(tmp_path / "evidence"))
    made: list[str] = []

    def write(samples: str = SAMPLES, *, is_installed: bool = False) -> str:
        name = f"twice{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(PACKAGE.replace("{name}", name) + samples)
        if is_installed:
            info = tmp_path / f"{name}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[torchlean.capsules]\n{name} = {name}:MODULE\n")
        importlib.invalidate_caches()
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


def states(module: CapsuleModule) -> list[str]:
    ledger: Any = module.ledger
    return [str(ledger.standing(module.capsules[0], claim).state) for claim in ("shape", "layout", "value", "vjp")]


@pytest.mark.parametrize("is_installed", [False, True], ids=["named", "entry point"])
def test_an_op_of_its_own_is_recorded_from_the_command_line(
    run: Any, package: Callable[..., str], is_installed: bool
) -> None:
    name = package(is_installed=is_installed)
    chosen = ["--provider", name, *([] if is_installed else ["--module", f"{name}:MODULE"])]
    module = importlib.import_module(name).MODULE
    profile = Profile(name="twice", device=Device.CPU, modules=(module,), policy=FORWARD)
    assert select(module.capsules[0].op, NO_PARAMS, (X,), profile) is None
    result = run("evidence", "run", *chosen)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{name}: 4 of 4 claims passed in ")
    module.ledger.forget()
    assert states(module) == ["fresh"] * 4
    assert select(module.capsules[0].op, NO_PARAMS, (X,), profile) is module.capsules[0]
    listed = json.loads(run("evidence", "--format", "json", *chosen).stdout)
    assert [claim["tried"]["cases"] > 0 for claim in listed["claims"]] == [True] * 4


def test_a_false_claim_of_it_is_found_and_recorded(run: Any, package: Callable[..., str]) -> None:
    name = package(SAMPLES + "FACTOR = np.float32(2.0001)\n")
    result = run("evidence", "run", "--provider", name, "--module", f"{name}:MODULE")
    assert result.exit_code == 1
    assert f"  failed: {name}.twice value: {name}.twice value: lies outside the claimed bound" in result.stdout
    assert states(importlib.import_module(name).MODULE)[2] == "failed"


def test_without_samples_it_is_not_tried_and_that_is_said(run: Any, package: Callable[..., str]) -> None:
    name = package("")
    result = run("evidence", "run", "--provider", name, "--module", f"{name}:MODULE")
    assert result.exit_code == 1
    assert f"  not tried: {name}.twice: the conformance kit has no sample of twice" in result.stdout


@pytest.mark.parametrize(
    ("samples", "got"), [("SAMPLES = [1]\n", "list"), ("SAMPLES = (TWICE,)\n", "Op in it"), ("SAMPLES = 3\n", "int")]
)
def test_samples_must_be_samples(package: Callable[..., str], samples: str, got: str) -> None:
    name = package(samples)
    with pytest.raises(ConfigError) as refused:
        named(f"{name}:MODULE")
    assert str(refused.value).splitlines() == [
        f"SAMPLES in {name} is not a tuple of samples and calls",
        "  expected: a tuple of torchlean.conformance.samples Sample and Call",
        f"  got:      {got}",
        "  fix:      write SAMPLES = (Sample(…), Call(…))",
    ]


def test_a_name_brings_its_module_and_its_samples(package: Callable[..., str]) -> None:
    name = package()
    held = named(f"{name}:MODULE")
    assert (held.text, held.module.name, len(held.cases)) == (f"{name}:MODULE", name, 2)
    assert [each.module.name for each in known_modules()][:3] == ["compiled", "reference", "numpy"]
    assert all(each.cases == () for each in known_modules() if each.module.name in ("reference", "numpy"))


def test_a_package_that_cannot_be_imported_is_said(package: Callable[..., str]) -> None:
    name = package("1 / 0\n")
    with pytest.raises(ConfigError) as refused:
        named(f"{name}:MODULE")
    assert str(refused.value).splitlines() == [
        f"{name}:MODULE cannot be imported",
        f"  expected: {name} as a module that is installed, or whose folder is on PYTHONPATH",
        "  got:      ZeroDivisionError: division by zero",
        "  fix:      install its package, or correct the name",
    ]
