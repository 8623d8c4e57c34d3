"""Records of generated C name the compiler: with another one they are of another version, and plans still take them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from backends.compiled.test_toolchain import program
from backends.toolbox import normal, traced

from torchlean import ops
from torchlean.backends import Executable, accept, plan, profiles
from torchlean.backends.compiled import MODULE, module
from torchlean.backends.compiled.loading import Builds
from torchlean.conformance import recorded
from torchlean.evidence.standing import State

pytestmark = pytest.mark.usefixtures("compiler")

OTHER = """case "$1" in --version) echo "cc (Other) 99.1"; echo "Copyright Free Software Foundation"; exit;; esac
exec {real} "$@"
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Any:
    """The provider on a machine whose compiler has another version."""
    real = shutil.which("cc") or shutil.which("gcc")
    if real is None:
        pytest.skip("no cc on PATH")
    other = program(tmp_path, "other", OTHER.format(real=real))
    return module(Builds({"CC": str(other), "PATH": "/usr/bin:/bin", "TORCHLEAN_CACHE_DIR": str(tmp_path / "cache")}))


def test_records_name_the_compiler() -> None:
    named = dict(MODULE.ledger.versions())["C compiler"]
    assert named == Builds().toolchain().version
    assert not named.startswith(("cc ", "gcc "))  # the name it was called by is no part of it


def test_records_of_another_compiler_are_of_another_version_and_admitted(elsewhere: Any) -> None:
    states = {str(each.standing.state) for each in recorded.claims(recorded.chosen((elsewhere,)))}
    assert states == {str(State.OTHER_VERSION)}
    x = normal(3, 4)
    profile = profiles.checked_cpu.with_modules(elsewhere)
    made = plan(traced(lambda x: ops.sum(ops.exp(x)), x), profile)
    assert {step.capsule.provider for step in made.steps} == {"compiled"}
    (value,) = Executable(accept(made)).checked(x)
    assert value.shape == ()
    notes = str(made)
    assert "C compiler GCC (Other) 99.1 here" in notes
    assert "to try it here: torchlean evidence run --provider compiled" in notes


def test_without_a_compiler_there_is_none_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.compiled.toolchain.find_spec", lambda name: None)
    empty = module(Builds({"PATH": str(tmp_path)}))
    assert dict(empty.ledger.versions())["C compiler"] == "none"
    broken = program(tmp_path, "broken", "exit 3")
    assert dict(module(Builds({"CC": str(broken), "PATH": "/usr/bin:/bin"})).ledger.versions())["C compiler"] == (
        "one that does not run"
    )
