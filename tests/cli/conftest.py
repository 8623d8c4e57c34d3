"""Running the command in this process, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlean.cli.main import torchlean

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]
Launch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """`run("digits", "--steps", 3)`: the command in this process; stdout and stderr apart."""

    def invoke(*arguments: object, **environment: str) -> Result:
        result = CliRunner(env=environment).invoke(torchlean, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


@pytest.fixture
def launch() -> Launch:
    """The same as a new process."""

    def start(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torchlean", *[str(argument) for argument in arguments]]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=ROOT, env={**os.environ, **environment}
        )

    return start
