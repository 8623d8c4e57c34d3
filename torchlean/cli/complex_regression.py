"""`torchlean complex_regression`: complex parameters, an explicit real loss, SGD."""

from __future__ import annotations

from typing import Any

import click

from torchlean.cli.options import LARGEST_SEED, PROFILES, echo_json, json_option


@click.command("complex_regression")
@click.option("--model", type=click.Choice(("linear", "two-layer")), default="linear", show_default=True)
@click.option("--steps", type=click.IntRange(min=1), default=200, show_default=True, help="Number of updates.")
@click.option("--rate", type=click.FloatRange(min=0.0, min_open=True), default=0.1, show_default=True)
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=2026, show_default=True)
@click.option("--profile", type=click.Choice(PROFILES), default="checked_cpu", show_default=True)
@click.option(
    "--arithmetic",
    type=click.Choice(("native", "ieee", "complex")),
    default="complex",
    show_default=True,
    help="This command computes in complex numbers; the others are refused.",
)
@click.option("--save", "path", type=click.Path(dir_okay=False), help="Write the parameters to a checkpoint.")
@click.option("--resume", type=click.Path(exists=True, dir_okay=False), help="Start from a checkpoint.")
@json_option
def complex_regression(
    model: str,
    steps: int,
    rate: float,
    seed: int,
    profile: str,
    arithmetic: str,
    path: str | None,
    resume: str | None,
    as_json: bool,
) -> None:
    """Fit y = (1+2i)·x₀ + (-½+i)·x₁ + (¼-½i) with complex weights, descending a real loss.

    Both components are kept in predictions and checkpoints.

    Example: torchlean complex_regression --model two-layer --steps 500
    """
    from torchlean.errors import ConfigError

    if arithmetic != "complex":
        raise ConfigError(f"this command computes in complex numbers; arithmetic `{arithmetic}` is for real models")

    import numpy as np

    from torchlean.backends import profiles
    from torchlean.train import complex_regression as task
    from torchlean.transforms.lower import lower

    data = task.problem(seed)
    params = task.initial(model, seed) if resume is None else task.restore(resume, model)
    chosen = profiles.named(profile)
    run = lower(task.step(rate), params, data.x, data.y, profile=chosen)
    predict = lower(task.predict, params, data.heldout, profile=chosen)
    untrained = complex(np.asarray(predict(params, data.heldout))[0])
    seen: list[float] = []
    for made, value in task.losses(run, params, data, steps):
        params = made
        seen.append(value)
    trained = complex(np.asarray(predict(params, data.heldout))[0])
    if path is not None:
        task.save(path, params, model)
    if as_json:
        echo_json(
            {
                "command": "complex_regression",
                "model": model,
                "seed": seed,
                "steps": steps,
                "profile": profile,
                "loss_before": seen[0],
                "loss_last": seen[-1],
                "heldout": {name: _parts(z) for name, z in _named(data.target, untrained, trained)},
                "saved": path,
            }
        )
        return
    click.echo(f"== Complex regression: {model} (seed={seed}, steps={steps}) ==")
    for name, z in _named(data.target, untrained, trained):
        click.echo(f"{name + '(heldout)':<19}= {z.real:+.6f} {z.imag:+.6f}i")
    click.echo(f"steps={steps} arithmetic=complex scalar=Complex64 loss={seen[0]:.6f} -> {seen[-1]:.6f}")
    if path is not None:
        click.echo(f"saved {path}")


def _named(target: complex, untrained: complex, trained: complex) -> tuple[tuple[str, complex], ...]:
    return ("target", target), ("untrained", untrained), ("trained", trained)


def _parts(z: complex) -> dict[str, Any]:
    return {"real": z.real, "imag": z.imag}
