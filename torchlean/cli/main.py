"""The command group and its entry point. Commands import what they need when they run, so `--help` stays quick."""

from __future__ import annotations

import signal
from typing import Any

import click

from torchlean.cli.complex_regression import complex_regression
from torchlean.cli.digits import digits
from torchlean.cli.edge_cases import edge_cases
from torchlean.cli.evidence import evidence
from torchlean.cli.failures import reported
from torchlean.cli.lower import lower
from torchlean.cli.quickstart import quickstart_mlp
from torchlean.cli.report import report


class Commands(click.Group):
    """A group that reports every failure as one `error:` message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        with reported(ctx):
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "TORCHLEAN",
        "max_content_width": 100,
    },
    epilog="Exit codes: 0 done, 1 the answer is no, 2 usage, 3 input refused, 4 limit reached, 5 backend missing, "
    "130 interrupted. Set TORCHLEAN_TRACEBACK=full to see tracebacks.",
)
@click.version_option(package_name="torchlean", message="%(prog)s %(version)s")
def torchlean() -> None:
    """Typed graphs, composable transforms, and backends whose plans are checked before they run."""


for _command in (quickstart_mlp, digits, lower, report, edge_cases, evidence, complex_regression):
    torchlean.add_command(_command)


def main() -> None:
    """Run the command line; SIGTERM counts as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    torchlean(prog_name="torchlean")
