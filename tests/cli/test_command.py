"""The command as a process: help, exit codes, pipes, terminals, signals, tracebacks."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchlean import errors
from torchlean.cli.failures import exit_code

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "torchlean"]
COMMANDS = ("quickstart_mlp", "digits", "lower")


def test_help_lists_every_command(run) -> None:
    text = run("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []
    assert "5 backend missing" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: torchlean {command} " in result.stdout


def test_help_is_quick_and_imports_nothing_heavy(launch) -> None:
    code = (
        "import sys\n"
        "from torchlean.cli.main import torchlean\n"
        "torchlean(['--help'], standalone_mode=False)\n"
        "heavy = {'jax', 'torch', 'onnx', 'cuda', 'rich', 'safetensors', 'torchlean.train'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert launch("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5  # 0.2 s on a quiet machine


def test_the_module_is_the_command(launch) -> None:
    assert launch("--version").stdout == "torchlean 0.1.0\n"


def test_typos_are_met_with_suggestions(launch) -> None:
    command = launch("quickstart_mpl")
    assert command.returncode == 2
    assert command.stderr.splitlines()[0] == "error: No such command 'quickstart_mpl'. Did you mean 'quickstart_mlp'?"
    option = launch("digits", "--epoch", 3)
    assert option.returncode == 2
    assert "Did you mean" in option.stderr
    assert "--epochs" in option.stderr


def test_a_reader_that_leaves_causes_no_traceback() -> None:
    first = subprocess.run(
        f"{' '.join(COMMAND)} digits --steps 66 | head -n 1", shell=True, capture_output=True, text=True, cwd=ROOT
    )
    assert first.stdout == "== digits: mlp (seed=2026, steps=66, profile=checked_cpu) ==\n"
    assert first.stderr == ""
    closed = subprocess.run(
        f"{' '.join(COMMAND)} quickstart_mlp | true; echo ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert closed.stderr == ""
    assert closed.stdout in ("141\n", "0\n")  # 0 when the pipe was closed only after everything was written


def _with_terminal(term: str) -> str:
    """What a run writes to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "digits", "--steps", "66"],
        stdout=subprocess.DEVNULL, stderr=theirs, cwd=ROOT, env={**os.environ, "TERM": term, "NO_COLOR": "1"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side has closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait(60) == 0
    return seen.decode()


def test_a_progress_bar_appears_on_a_terminal_only(launch) -> None:
    bar = _with_terminal("xterm")
    assert "training" in bar
    assert "/66" in bar
    assert "\x1b[3" not in bar.replace("\x1b[3m", "")  # NO_COLOR: no colours
    assert _with_terminal("dumb") == ""
    assert launch("digits", "--steps", 3).stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_exit_with_130(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "digits", "--epochs", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("== digits")
    process.stdout.readline()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == "error: digits: interrupted\n"


def test_tracebacks_are_shown_on_request(launch) -> None:
    plain = launch("quickstart_mlp", "--device", "tpu")
    assert "Traceback" not in plain.stderr
    full = launch("quickstart_mlp", "--device", "tpu", TORCHLEAN_TRACEBACK="full")
    assert full.returncode == 5
    assert full.stderr.startswith("Traceback")
    assert full.stderr.splitlines()[-1].startswith("error: quickstart_mlp: device `tpu`")
    wrong = launch("quickstart_mlp", TORCHLEAN_TRACEBACK="yes")
    assert wrong.returncode == 2
    assert wrong.stderr == "error: TORCHLEAN_TRACEBACK is 'yes'; choose full or short\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PlanRejected("x"), 1),
        (errors.ConfigError("x"), 2),
        (errors.DataError("x"), 3),
        (errors.SerializationError("x"), 3),
        (errors.TypeRuleError("x"), 3),
        (errors.LimitExceeded("x"), 4),
        (errors.BackendMissing("x"), 5),
        (errors.InternalError("x"), 70),
        (RuntimeError("x"), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert exit_code(error) == code
