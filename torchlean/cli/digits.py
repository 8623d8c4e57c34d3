"""`torchlean digits`: train a classifier of handwritten digits, and say how well it does on digits it has not seen."""

from __future__ import annotations

import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from torchlean.cli.options import PROFILES, echo_json, run_options
from torchlean.cli.progress import progress

if TYPE_CHECKING:
    from torchlean.train import Dataset, Loader, TrainSession

BATCH_SIZE = 64
RATES = MappingProxyType({"mlp": 0.003, "cnn": 0.005})
EPOCHS = MappingProxyType({"mlp": 30, "cnn": 12})


@click.command()
@click.option("--model", type=click.Choice(("mlp", "cnn")), default="mlp", show_default=True, help="Which network.")
@click.option("--epochs", type=click.IntRange(min=1), help="Passes over the data.  [default: 30, cnn 12]")
@click.option("--profile", type=click.Choice(PROFILES), default="checked_cpu", show_default=True, help="Backend.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for digits.json (provenance) and the checkpoint.")
@click.option("--require", type=click.FloatRange(0, 1), help="Exit with 1 if the test accuracy is lower.")
@run_options(steps=None, seed=2026)
@click.pass_context
def digits(
    ctx: click.Context,
    model: str,
    epochs: int | None,
    profile: str,
    out: Path | None,
    require: float | None,
    device: str,
    arithmetic: str,
    seed: int,
    steps: int | None,
    show_backend: bool,
    as_json: bool,
) -> None:
    """Train on 1437 digits of 8×8 pixels and test on 360 others, with Adam, in batches of 64.

    --steps counts updates instead of --epochs. With --out, a provenance record and a checkpoint are written there.

    Example: torchlean digits --model cnn --require 0.96 --out runs/digits
    """
    if epochs is not None and steps is not None:
        raise click.UsageError("--epochs and --steps exclude one another")
    from torchlean.cli.configure import run_config

    config = run_config(device=device, arithmetic=arithmetic, seed=seed, profile=profile, execution="lowered")

    from torchlean import optim
    from torchlean.train import Loader, Trainer
    from torchlean.train.examples import digits_cnn, digits_data, digits_mlp

    if out is not None:
        _prepare(out)
    train, test = digits_data(seed, images=model == "cnn")
    loader = Loader(data=train, batch_size=BATCH_SIZE, shuffle_seed=seed)
    total = steps if steps is not None else len(loader) * (epochs or EPOCHS[model])
    trainer = Trainer(
        digits_cnn() if model == "cnn" else digits_mlp(), "cross_entropy", optim.Adam(RATES[model]), config
    )
    session = trainer.open(batched=True)
    if not as_json:
        click.echo(f"== digits: {model} (seed={seed}, steps={total}, profile={profile}) ==")
        click.echo(f"train {len(train)}, test {len(test)}, batches of {BATCH_SIZE}")
    started = time.perf_counter()
    curve = _train(session, loader, test, total, quiet=as_json)
    seconds = time.perf_counter() - started
    on_train, on_test = session.evaluate(train), session.evaluate(test)
    record = trainer.record(
        session,
        loader,
        train_loss=on_train.loss,
        train_accuracy=on_train.accuracy,
        test_loss=on_test.loss,
        test_accuracy=on_test.accuracy,
        test_data=test.identity,
        seconds=seconds,
        curve=curve,
    )
    written = _write(session, trainer, record, out)
    accuracy = on_test.accuracy or 0.0
    if as_json:
        echo_json({**record, "command": "digits", "files": written})
    else:
        click.echo(f"parameters     = {record['parameter_count']}")
        click.echo(f"train accuracy = {on_train.accuracy:.4f}   loss = {on_train.loss:.6f}")
        click.echo(f"test accuracy  = {accuracy:.4f}   loss = {on_test.loss:.6f}")
        click.echo(f"time           = {seconds:.2f} s, {1e3 * seconds / total:.2f} ms a step")
        for name in written:
            click.echo(f"wrote {name}")
        if show_backend:
            click.echo("\n".join(session.execution.report.lines()))
    if require is not None and accuracy < require:
        click.echo(f"digits: test accuracy {accuracy:.4f} is below the required {require:g}", err=True)
        ctx.exit(1)


def _train(session: TrainSession, loader: Loader, test: Dataset, total: int, *, quiet: bool) -> list[dict[str, Any]]:
    """Train; one line and one entry of the curve per epoch."""
    curve: list[dict[str, Any]] = []
    with progress("training", total, wanted=not quiet) as advance:
        while session.steps_done < total:
            losses: list[float] = []

            def told(step: int, loss: float, losses: list[float] = losses) -> None:
                losses.append(loss)
                advance(step + 1)

            session.steps(loader, min(len(loader), total - session.steps_done), told=told)
            accuracy = session.evaluate(test).accuracy
            entry = {"steps": session.steps_done, "loss": sum(losses) / len(losses), "test_accuracy": accuracy}
            curve.append(entry)
            if not quiet:
                click.echo(
                    f"epoch {len(curve):3}  steps {session.steps_done:5}  loss {entry['loss']:.6f}  "
                    f"test accuracy {accuracy:.4f}"
                )
    return curve


def _prepare(out: Path) -> None:
    """Make the folder before training, so that a bad place is refused at once."""
    from torchlean.errors import DataError, message

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(message(f"--out: cannot make the folder {str(out)!r}", got=error.strerror or error)) from error


def _write(session: TrainSession, trainer: Any, record: dict[str, Any], out: Path | None) -> list[str]:
    from torchlean.train import provenance

    if out is None:
        return []
    record["checkpoint"] = "digits.safetensors"
    session.save(out / "digits.safetensors")
    return [str(provenance.write(record, out / "digits.json")), str(out / "digits.safetensors")]
