"""Options that several commands share, with one meaning each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEVICES = ("cpu", "cuda", "gpu", "rocm", "metal", "wasm", "tpu", "trainium", "custom", "external")
ARITHMETICS = ("native", "ieee", "complex")
PROFILES = ("checked_cpu", "fast_cpu", "reference_cpu", "numpy_cpu", "xla_cpu")
LARGEST_SEED = 2**64 - 1


def run_options(*, steps: int | None, seed: int) -> Callable[[Command], Command]:
    """`--device --arithmetic --seed --steps --show-backend --json`; `steps=None` leaves the default to the command."""
    made = (
        click.option(
            "--device",
            type=click.Choice(DEVICES),
            default="cpu",
            show_default=True,
            help="Where kernels run; a device without a maintained profile is refused (gpu means cuda).",
        ),
        click.option(
            "--arithmetic",
            type=click.Choice(ARITHMETICS),
            default="native",
            show_default=True,
            help="How numbers are computed; one this command cannot use is refused.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, LARGEST_SEED),
            default=seed,
            show_default=True,
            help="Seed of the weights and of every other random choice.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(min=1),
            default=steps,
            show_default=steps is not None,
            help="Number of updates.",
        ),
        click.option("--show-backend", is_flag=True, help="Print the capsules that ran, with their evidence."),
        json_option,
    )

    def add(command: Command) -> Command:
        for option in reversed(made):
            command = option(command)
        return command

    return add


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def cut(text: str, width: int) -> str:
    """The text, its end left out where it is wider."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def echo_json(record: Any) -> None:
    """One canonical JSON object on stdout."""
    from torchlean.train.provenance import canonical_json

    click.echo(canonical_json(record), nl=False)
