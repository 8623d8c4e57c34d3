"""The formatter's text and the classes' ancestry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torchlean import errors
from torchlean.errors import InternalError, TorchLeanError, message

PYTHON_BASES = (
    ("TypeRuleError", TypeError),
    ("TraceError", TypeError),
    ("LeakedTracerError", errors.TraceError),
    ("GradError", TypeError),
    ("StructureError", ValueError),
    ("OutOfRangeError", IndexError),
    ("GraphError", ValueError),
    ("SerializationError", ValueError),
    ("PlanRejected", TorchLeanError),
    ("BackendMissing", TorchLeanError),
    ("BindError", TorchLeanError),
    ("HandleError", TorchLeanError),
    ("KeyReuseError", ValueError),
    ("DataError", ValueError),
    ("ConfigError", ValueError),
    ("LimitExceeded", TorchLeanError),
    ("CheckFailed", ValueError),
    ("NonFiniteError", FloatingPointError),
    ("InternalError", RuntimeError),
)


@pytest.mark.parametrize(("name", "base"), PYTHON_BASES)
def test_each_error_can_be_caught_as_ours_and_as_pythons(name: str, base: type[Exception]) -> None:
    error = getattr(errors, name)("what happened")
    assert isinstance(error, TorchLeanError)
    assert isinstance(error, base)
    assert str(error).splitlines()[0] == "what happened"


def test_the_table_above_lists_every_error() -> None:
    found = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert found == {name for name, _ in PYTHON_BASES} | {"TorchLeanError"}


def test_a_full_message() -> None:
    assert (
        message(
            "matmul cannot contract f32[2,3] with f32[4,5]",
            expected="last axis of the left equal to the second-last of the right",
            got="3 and 4",
            fix="transpose one operand",
            where="train.py:42 in loss",
        )
        == """\
matmul cannot contract f32[2,3] with f32[4,5] (train.py:42 in loss)
  expected: last axis of the left equal to the second-last of the right
  got:      3 and 4
  fix:      transpose one operand"""
    )


def test_absent_parts_leave_no_line() -> None:
    assert message("sum of nothing") == "sum of nothing"
    assert message("axis out of range", got=7) == "axis out of range\n  got:      7"


def test_falsy_parts_are_printed() -> None:
    assert message("bad size", expected=1, got=0) == "bad size\n  expected: 1\n  got:      0"


def test_parts_that_span_lines_are_joined() -> None:
    text = message("a\nb", expected="c\n\n  d", got="e\n", fix="f", where="g.py:1\nin h")
    assert text == "a; b (g.py:1; in h)\n  expected: c; d\n  got:      e\n  fix:      f"


def test_an_internal_error_asks_for_a_report() -> None:
    text = str(InternalError(message("invariant 2 is broken", got="%3 uses %5")))
    assert text == (
        "invariant 2 is broken\n  got:      %3 uses %5\n"
        "  this is a bug in torchlean: please report it with this message"
    )


def test_importing_the_errors_loads_nothing_else(root) -> None:
    """Read in a process of its own, without the package around it."""
    code = "import sys; before = set(sys.modules); import errors; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=root / "torchlean", capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"errors", "__future__"}
