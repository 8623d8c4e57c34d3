"""`torchlean quickstart_mlp`: the 2-8-1 network of TorchLean's guide, with its published numbers."""

from __future__ import annotations

from typing import Any

import click

from torchlean.cli.options import PROFILES, echo_json, run_options
from torchlean.cli.progress import progress


@click.command("quickstart_mlp")
@run_options(steps=20, seed=2026)
@click.option("--profile", type=click.Choice(PROFILES), default="checked_cpu", show_default=True, help="Backend.")
@click.option(
    "--execution",
    type=click.Choice(("eager", "lowered")),
    help="Op by op on a tape, or one accepted plan as generated code; the bits are the same.  "
    "[default: lowered where the profile compiles, else eager]",
)
def quickstart_mlp(
    device: str,
    arithmetic: str,
    seed: int,
    steps: int,
    show_backend: bool,
    as_json: bool,
    profile: str,
    execution: str | None,
) -> None:
    """Train a 2-8-1 MLP on 25 grid points, one sample per update.

    Example: torchlean quickstart_mlp --steps 200 --show-backend --profile reference_cpu
    """
    from torchlean.cli.configure import run_config

    config = run_config(device=device, arithmetic=arithmetic, seed=seed, profile=profile, execution=execution)

    from torchlean import optim
    from torchlean.train import Trainer
    from torchlean.train.events import Event, Progressed
    from torchlean.train.examples import grid_target, heldout, quickstart_data, quickstart_model

    data, point = quickstart_data(), heldout()
    trainer = Trainer(quickstart_model(), "mse", optim.Adam(0.03), config)
    untrained = trainer.predict(point).tolist()
    with progress("training", steps, wanted=not as_json) as advance:

        def listen(event: Event) -> None:
            if isinstance(event, Progressed):
                advance(event.step + 1)

        result = trainer.train(data, steps=steps, listener=listen)
    target = [grid_target(*point.tolist())]
    trained = result.predict(point).tolist()
    if as_json:
        echo_json(
            result.record
            | {"command": "quickstart_mlp", "heldout": {"target": target, "untrained": untrained, "trained": trained}}
        )
        return
    click.echo(f"== Quickstart: simple MLP training (seed={seed}, steps={steps}) ==")
    click.echo(f"target(heldout)    = {_numbers(target)}")
    click.echo(f"untrained(heldout) = {_numbers(untrained)}")
    click.echo(f"dataset size = {len(data)}")
    click.echo(f"mean_loss(before training) = {result.loss_before:.6f}")
    click.echo(f"mean_loss(after training) = {result.loss_after:.6f}")
    click.echo(result.summary)
    click.echo(f"trained(heldout) = {_numbers(trained)}")
    if show_backend:
        click.echo("\n".join(result.model.execution.report.lines()))


def _numbers(values: list[Any]) -> str:
    return "[" + ", ".join(f"{value:.6f}" for value in values) + "]"
