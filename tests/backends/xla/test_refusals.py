"""What XLA refuses, and how it says so: no jax, an old one, one without a CPU, groups it cannot write or compile."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from backends.toolbox import traced
from backends.xla.kit import XLA

import torchlean as tl
from torchlean import ops
from torchlean.backends import Executable, accept, plan
from torchlean.backends.xla import building, library, module
from torchlean.backends.xla.building import Built
from torchlean.backends.xla.program import Program
from torchlean.backends.xla.rules import RULES
from torchlean.errors import BackendMissing, InternalError, PlanRejected
from torchlean.ir.ops import elementwise as ew

jax = pytest.importorskip("jax")

X = np.arange(3.0, dtype=np.float32)


def as_if_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "jaxlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = library.find_spec
    monkeypatch.setattr(library, "find_spec", lambda wanted: None if wanted == name else find(wanted))


@pytest.mark.parametrize("name", ["jax", "jaxlib"])
def test_without_jax_only_this_provider_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(name, monkeypatch)
    expected = f'the library {name} is not installed; install it: pip install "jax>=0.10,<0.13"'
    assert module().probe() == expected
    made = tl.lower(lambda x: x + 1, X, profile=XLA)
    assert [step.capsule.provider for step in made.plan.steps if step.node.op is ew.ADD] == ["reference"]
    (step,) = [step for step in made.plan.steps if step.node.op is ew.ADD]
    assert [str(refusal) for refusal in step.refused] == [f"xla.add is unavailable here: {expected}"]
    with pytest.raises(BackendMissing, match=f"the library {name} is not installed"):
        library.library()
    alone = XLA.under(XLA.policy)
    only = type(alone)(name="only", device=alone.device, modules=alone.modules[:1], policy=alone.policy)
    with pytest.raises(PlanRejected, match=f"xla.add is unavailable here: the library {name} is not installed"):
        tl.lower(lambda x: x + 1, X, profile=only)


OLD = "older than 0.10, the oldest this provider knows"
NEW = "newer than this provider was tried with, which is below 0.13"


@pytest.mark.parametrize(
    ("held", "refused"),
    [
        ("0.9.1", OLD),
        ("0.4.38", OLD),
        ("0.10.0", None),
        ("0.12.9", None),
        ("0.12.0.1", None),
        ("0.13.0", NEW),
        ("0.13.0.dev1", NEW),
        ("1.0.dev3", NEW),
    ],
)
def test_an_old_jax_and_one_too_new_are_refused(
    held: str, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_not_imported(monkeypatch)
    monkeypatch.setattr(library.importlib.metadata, "version", lambda name: held)
    expected = f'jax {held} is {refused}; install it: pip install "jax>=0.10,<0.13"'
    assert module().probe() == (None if refused is None else expected)


def test_the_versions_are_those_the_package_asks_for() -> None:
    (wanted,) = [
        line
        for line in importlib.metadata.requires("torchlean") or ()
        if line.startswith("jax") and "lib" not in line and "extra" not in line
    ]
    assert sorted(wanted.removeprefix("jax").replace(" ", "").split(",")) == ["<0.13", ">=0.10"]
    assert (library.OLDEST, library.UNTRIED) == ((0, 10), (0, 13))


def test_a_jax_put_on_the_path_by_hand_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    as_if_not_imported(monkeypatch)
    monkeypatch.setattr(library.importlib.metadata, "version", version)
    assert module().probe() is None


def test_an_imported_jax_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.importlib.metadata, "version", lambda name: "0.4")
    assert module().probe() is None
    monkeypatch.setattr(jax, "__version__", "0.9.3")
    assert str(module().probe()).startswith("jax 0.9.3 is older than 0.10")


def test_a_jax_that_lacks_what_is_used_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "NEEDED", ("enable_x64", "brand_new_name"))
    with pytest.raises(BackendMissing, match=r"lacks what this provider uses\n  expected: brand_new_name"):
        library.library()


def test_a_jax_without_a_cpu_says_so() -> None:
    class Nothing:
        @staticmethod
        def devices(platform: str) -> Any:
            raise RuntimeError(f"Unknown backend {platform}")

    with pytest.raises(
        BackendMissing, match=r"jax has no CPU platform\n.*\n  got: .*Unknown backend cpu\n.*JAX_PLATFORMS"
    ):
        library.cpu(Nothing())


@pytest.mark.parametrize(("text", "wanted"), [("0.10.2", (0, 10, 2)), ("1.0.dev3+g12", (1, 0)), ("nightly", ())])
def test_versions_are_read(text: str, wanted: tuple[int, ...]) -> None:
    assert library.version_of(text) == wanted


# -- groups that cannot be written or compiled -------------------------------------------------------------------------
def broken(params: Any, made: Any, *operands: Any) -> Any:
    raise NotImplementedError("no such thing on this platform\nmore")


def test_a_node_that_cannot_be_written_is_named_with_its_line() -> None:
    graph = traced(lambda x: ops.exp(x) + 1, X)
    program = Program(graph, {**RULES, ew.EXP: broken})
    with pytest.raises(BackendMissing) as caught:
        program.function(*map(library.library().numpy.asarray, [X]))
    text = str(caught.value)
    assert text.startswith("exp of f32[3] cannot be written for XLA (test_refusals.py:")
    assert "got:      NotImplementedError: no such thing on this platform" in text
    assert "profile.with_modules" in text


def test_a_rule_that_makes_another_type_is_our_fault() -> None:
    program = Program(traced(ops.exp, X), {**RULES, ew.EXP: lambda params, made, x: x.astype(np.int32)})
    with pytest.raises(InternalError, match=r"the XLA rule of exp made int32\[3\] for f32\[3\]"):
        program.function(library.library().numpy.asarray(X))


def test_a_group_that_does_not_compile_names_nodes_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "OPTIONS", ("xla_there_is_no_such_option",))
    graph = traced(lambda x: ops.exp(x) * ops.sin(x), X)
    with pytest.raises(BackendMissing) as caught:
        Built(graph).compiled()
    text = str(caught.value)
    assert text.startswith("XLA does not compile a group of 3 nodes of (f32[3])")
    assert "exp at test_refusals.py:" in text
    assert "sin at test_refusals.py:" in text
    assert "xla_there_is_no_such_option" in text


def test_a_long_list_of_nodes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "OPTIONS", ("xla_there_is_no_such_option",))

    def chain(x: Any) -> Any:
        for _ in range(9):
            x = ops.sin(x)
        return x

    with pytest.raises(BackendMissing, match="and 3 more"):
        Built(traced(chain, X)).compiled()


def test_complex_numbers_have_capsules_of_their_own() -> None:
    z = np.array([1 + 2j])
    made = plan(traced(lambda z: z * z, z), XLA)
    (step,) = made.steps
    assert step.capsule.name == "xla.complex_mul"
    assert [str(refusal) for refusal in step.refused] == [
        "xla.mul refuses mul of c128[1], c128[1]: complex numbers have a capsule of their own, xla.complex_mul"
    ]
    real = plan(traced(lambda x: x * x, X), XLA)
    assert [step.capsule.name for step in real.steps] == ["xla.mul"]
    assert Executable(accept(made)).call(z)[0].tolist() == [-3 + 4j]


def test_planning_alone_imports_no_jax() -> None:
    """In a fresh interpreter: the capsules, a plan and its text."""
    program = """
import sys, numpy as np
import torchlean as tl
from torchlean.backends import EXTERNAL, Device, Profile, plan, reference
from torchlean.backends.xla import MODULE
profile = Profile(name="x", device=Device.CPU, modules=(MODULE, reference.MODULE), policy=EXTERNAL.allowing_stale())
made = plan(tl.make_graph(lambda x: x + 1)(np.zeros(2)), profile)
assert made.steps[-1].capsule.name == "xla.add", str(made)
assert "jax" not in sys.modules and "jaxlib" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
