"""`torchlean evidence`: every claim of every provider and how it stands; `evidence run` tries them and records that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from torchlean.cli.failures import NO
from torchlean.cli.options import LARGEST_SEED, cut, echo_json

if TYPE_CHECKING:
    from torchlean.conformance.recorded import Claimed, Recorded

FORMATS = ("table", "json")
_WIDEST = 60

_provider = click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only this provider.")
_capsule = click.option(
    "--capsule", "capsules", multiple=True, metavar="NAME", help="Only this capsule; * matches any characters."
)
_module = click.option(
    "--module", "modules", multiple=True, metavar="PACKAGE.MODULE:NAME", help="Also the capsules of this module."
)
_format = click.option("--format", "style", type=click.Choice(FORMATS), default="table", show_default=True)


@click.group(invoke_without_command=True)
@_provider
@_capsule
@_module
@_format
@click.option("--check", is_flag=True, help="Exit code 1 when a claim is stale, failed, or a needed one was never run.")
@click.option("--exhaustive", is_flag=True, help="Only what was tried on every input, as a Markdown table.")
@click.pass_context
def evidence(
    ctx: click.Context,
    providers: tuple[str, ...],
    capsules: tuple[str, ...],
    modules: tuple[str, ...],
    style: str,
    check: bool,
    exhaustive: bool,
) -> None:
    """List every claim of every provider: fresh, other-version, stale, failed, or never run.

    A record is the result of tests, of the cases they tried; it proves nothing. A plan needs the records of the
    contracts that say "tested"; the others are checked each time a kernel is bound.

    Example: torchlean evidence --capsule 'reference.exp*'
    """
    if ctx.invoked_subcommand is not None:
        return
    from torchlean.conformance.named import known_modules
    from torchlean.conformance.recorded import chosen, claims
    from torchlean.evidence.standing import State

    known = [each.module for each in known_modules(modules)]
    selection = chosen(known, providers=providers, capsules=capsules)
    if exhaustive:
        from torchlean.conformance.recorded import exhaustive_standings
        from torchlean.evidence.tables import exhaustive_table

        tried = [(standing, standing.tried) for standing in exhaustive_standings(selection)]
        click.echo(exhaustive_table([record for _, record in tried if record is not None]))
        if check and any([standing.state in (State.STALE, State.FAILED) for standing, _ in tried]):
            ctx.exit(NO)
        return
    held = list(claims(selection))
    if style == "json":
        echo_json(_record(held))
    else:
        _print(held)
    bad = [
        each
        for each in held
        if each.standing.state in (State.STALE, State.FAILED)
        or (each.standing.state is State.NEVER_RUN and each.is_needed and each.module.probe() is None)
    ]
    if check and bad:
        ctx.exit(NO)


@evidence.command()
@_provider
@_capsule
@_module
@_format
@click.option("--quick", is_flag=True, help="A few samples of each, under a minute for all.")
@click.option("--exhaustive", is_flag=True, help="Functions of one float32 on all 2³² inputs: minutes each; resumable.")
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True)
@click.option("--shipped", is_flag=True, help="Write into the package: for a source checkout, before a release.")
@click.pass_context
def run(
    ctx: click.Context,
    providers: tuple[str, ...],
    capsules: tuple[str, ...],
    modules: tuple[str, ...],
    style: str,
    quick: bool,
    exhaustive: bool,
    seed: int,
    shipped: bool,
) -> None:
    """Try the claims with the conformance kit and record what came of it.

    Records go to your own data folder (TORCHLEAN_EVIDENCE_DIR, else the platform's). Exit code 1 when a claim failed,
    could not be tried, or could not be recorded.

    The claims of xla, which compiles every sample, are tried when --provider or --capsule names them.

    Example: torchlean evidence run --quick
    """
    from torchlean.conformance import recorded
    from torchlean.conformance.named import known_modules

    if quick and exhaustive:
        raise click.UsageError("--quick and --exhaustive exclude each other")
    known = known_modules(modules)
    cases = {each.module.name: each.cases for each in known}
    selection = recorded.chosen([each.module for each in known], providers=providers, capsules=capsules)
    if not providers and not capsules:
        selection = [(module, held) for module, held in selection if module.name not in recorded.SLOW]
    if exhaustive:
        selection = [(module, kept) for module, held in selection if (kept := recorded.exhaustible(held))]
        if not selection:
            raise click.UsageError(
                "none of these capsules is a function of one float32 that can be tried on every input"
            )
    results: list[Recorded] = []
    for module, held in selection:
        missing = module.probe()
        if missing is not None:
            click.echo(f"{module.name}: not run, {missing}", err=True)
            continue
        with _progress(module.name, len(held)) as tell:
            made = recorded.run(
                module,
                held,
                quick=quick,
                seed=seed,
                shipped=shipped,
                exhaustive=exhaustive,
                cases=cases[module.name],
                tell=tell,
            )
            results.append(made)
    for result in results:
        if result.unwritten:
            click.echo(f"warning: nothing was recorded for {result.provider}: {result.unwritten}", err=True)
        if result.replaced:
            click.echo(f"warning: {result.file} was written anew: {result.replaced}", err=True)
    if style == "json":
        echo_json({"runs": [_run_record(result) for result in results]})
    else:
        for result in results:
            _print_run(result)
    if any([result.failed or result.untried or result.unwritten for result in results]):
        ctx.exit(NO)


class _progress:  # noqa: N801  (used as a function)
    """Counts capsules on a terminal's stderr; silent in a pipe."""

    def __init__(self, title: str, count: int) -> None:
        self.title, self.count, self.done = title, count, 0
        self.shown = sys.stderr.isatty()

    def __enter__(self) -> Any:
        return self.tell

    def tell(self, name: str) -> None:
        self.done += " " not in name  # more words say how far within one capsule
        if self.shown:
            click.echo(f"\r\x1b[K{self.title} {self.done}/{self.count} {name}", err=True, nl=False)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            click.echo("\r\x1b[K", err=True, nl=False)


# -- listing -----------------------------------------------------------------------------------------------------------
def _record(held: list[Claimed]) -> dict[str, Any]:
    from torchlean.evidence import folder, here

    return {
        "claims": [_claim_record(each) for each in held],
        "counts": _counts(held),
        "folder": None if (users := folder.users_folder()) is None else str(users),
        "machine": here.machine(),
    }


def _counts(held: list[Claimed]) -> dict[str, int]:
    from torchlean.evidence.standing import State

    made = {str(state): 0 for state in State}
    for each in held:
        made[str(each.standing.state)] += 1
    return made


def _claim_record(each: Claimed) -> dict[str, Any]:
    tried = each.standing.tried
    made: dict[str, Any] = {
        "capsule": each.capsule.name,
        "claim": each.obligation,
        "device": str(each.capsule.device),
        "evidence": str(getattr(each.capsule, each.obligation).evidence),
        "needed": each.is_needed,
        "provider": each.module.name,
        "reason": each.standing.reason,
        "state": str(each.standing.state),
        "switches": dict(each.module.environment_of(each.capsule)),
        "tried": None,
    }
    if tried is not None:
        outcome, of = tried.outcome, tried.run
        made["tried"] = {
            "cases": outcome.cases,
            "date": of.date,
            "exhaustive": outcome.exhaustive,
            "failures": list(outcome.failures),
            "histogram": [[name, count] for name, count in outcome.histogram],
            "machine": of.machine,
            "quick": of.quick,
            "seed": outcome.seed,
            "tests": list(outcome.tests),
            "tolerance": outcome.tolerance,
            "torchlean": of.torchlean,
            "unit": outcome.unit,
            "versions": dict(of.versions),
            "worst": outcome.worst,
        }
    return made


def _print(held: list[Claimed]) -> None:
    head = ("capsule", "claim", "state", "cases", "worst", "tried", "why")
    rows: list[tuple[str, ...]] = [head]
    for each in held:
        tried = each.standing.tried
        of = ("", "", "") if tried is None else (str(tried.outcome.cases), _worst(each), tried.run.date[:10])
        rows.append((each.capsule.name, each.obligation, str(each.standing.state), *of, _reason(each)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())
    counts = ", ".join([f"{count} {state}" for state, count in _counts(held).items() if count])
    click.echo(f"\n{len(held)} claims: {counts or 'none'}")
    switches = {pair: None for each in held for pair in each.module.environment_of(each.capsule)}
    if switches:
        click.echo(f"under {' '.join(['='.join(pair) for pair in switches])}")


def _worst(each: Claimed) -> str:
    tried = each.standing.tried
    if tried is None or tried.outcome.worst is None:
        return ""
    return f"{tried.outcome.worst:.3g} {tried.outcome.unit}".strip()


def _reason(each: Claimed) -> str:
    return cut((each.standing.reason.splitlines() or [""])[0], _WIDEST)


# -- running -----------------------------------------------------------------------------------------------------------
def _run_record(result: Recorded) -> dict[str, Any]:
    return {
        "failed": [[held.capsule, held.claim, list(held.failures)] for held in result.failed],
        "file": None if result.unwritten else str(result.file),
        "passed": len(result.outcomes) - len(result.failed),
        "provider": result.provider,
        "seconds": round(result.seconds, 3),
        "untried": [list(pair) for pair in result.untried],
    }


def _print_run(result: Recorded) -> None:
    passed = len(result.outcomes) - len(result.failed)
    where = "not recorded" if result.unwritten else f"recorded in {result.file}"
    click.echo(
        f"{result.provider}: {passed} of {len(result.outcomes)} claims passed in {result.seconds:.1f} s, {where}"
    )
    for held in result.failed:
        first = held.failures[0] if held.failures else "no case was tried"
        click.echo(f"  failed: {held.capsule} {held.claim}: {first}")
    for name, reason in result.untried:
        click.echo(f"  not tried: {name}: {reason}")
