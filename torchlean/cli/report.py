"""`torchlean report`: something a person would look at, of a graph, a program or a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from torchlean.cli.options import PROFILES

FORMATS = ("html", "svg", "dot", "mermaid", "text")
QUICKSTART = "quickstart_mlp"


@click.command()
@click.argument("target", metavar=f"{QUICKSTART}|FILE.json|FILE:FUNCTION")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write; standard output otherwise.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="html", show_default=True, help="What to write.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="TYPE",
    help="For FILE:FUNCTION, the type of one argument, in order, as in `torchlean lower`.",
)
@click.option("--grad", is_flag=True, help="For FILE:FUNCTION, report value_and_grad of it, by its first argument.")
@click.option("--profile", type=click.Choice(PROFILES), default="checked_cpu", show_default=True)
@click.option("--steps", type=click.IntRange(min=1), default=200, show_default=True, help=f"Updates of {QUICKSTART}.")
@click.option("--whole", is_flag=True, help="Draw every node, however many there are.")
def report(
    target: str,
    out: Path | None,
    form: str,
    arguments: tuple[str, ...],
    grad: bool,
    profile: str,
    steps: int,
    whole: bool,
) -> None:
    """Write a report: one HTML file that opens offline, or the graph as SVG, DOT, Mermaid or text.

    The target is the quickstart, which is trained first; a file written by torchlean, a graph or a provenance record;
    or a function in a Python file, which is imported and lowered.

    Example: torchlean report quickstart_mlp --out report.html
    """
    is_function = target != QUICKSTART and not target.endswith(".json")
    if not is_function and (arguments or grad):
        raise click.UsageError("--arg and --grad go with FILE:FUNCTION")
    from torchlean import report as reports

    if target == QUICKSTART:
        thing, title = _quickstart(steps, profile), QUICKSTART
    elif is_function:
        thing, title = _function(target, arguments, grad=grad, profile=profile), None
    else:
        thing, title = reports.read(target), None
    limit = None if whole else reports.MAX_NODES
    if form == "html":
        made = reports.html(thing, title=title, max_nodes=limit)
    elif form == "text":
        made = reports.text(thing)
    else:
        draw = {"svg": reports.svg, "dot": reports.dot, "mermaid": reports.mermaid}[form]
        made = draw(thing, max_nodes=limit)
    if out is None:
        click.echo(made, nl=False)
    else:
        click.echo(f"wrote {reports.save(made, out)} ({len(made.encode()):,} bytes)")


def _quickstart(steps: int, profile: str) -> Any:
    """The quickstart, trained through its lowered programs."""
    from torchlean import optim
    from torchlean.cli.configure import run_config
    from torchlean.train import Trainer
    from torchlean.train.examples import quickstart_data, quickstart_model

    config = run_config(device="cpu", arithmetic="native", seed=2026, profile=profile, execution="lowered")
    return Trainer(quickstart_model(), "mse", optim.Adam(0.03), config).train(quickstart_data(), steps=steps)


def _function(target: str, arguments: tuple[str, ...], *, grad: bool, profile: str) -> Any:
    from torchlean.cli.lower import load_function, lowered
    from torchlean.cli.types import parse_type

    types = [parse_type(text) for text in arguments]
    return lowered(load_function(target), types, grad=grad, profile=profile, target=target)
