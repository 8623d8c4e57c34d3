"""`torchlean edge-cases`: what each provider gives where libraries are known to fail, beside what they gave."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from torchlean.cli.failures import NO
from torchlean.cli.options import cut, echo_json, json_option

if TYPE_CHECKING:
    from torchlean.conformance.run import Result

LIBRARIES = ("jax", "torch", "autograd", "mlx")
_WIDE = 17  # of a column that shows values
_READABLE = 8  # below this a column cannot
_VERDICT = 4  # of a column that shows verdicts
_MERGED = "torchlean"


@click.command("edge-cases")
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this check; may be given again.")
@json_option
@click.pass_context
def edge_cases(ctx: click.Context, cases: tuple[str, ...], as_json: bool) -> None:
    """Run every check on every provider, eager and lowered: value, JVP, VJP and JVP of VJP.

    Exit code 1 when one is wrong. What others gave is as recorded with the versions named; it is not run here.

    Example: torchlean edge-cases --case norm_sq_at_0
    """
    from torchlean.conformance.run import ALL, peers, run_all

    chosen = [check for check in ALL if not cases or check.id in cases]
    unknown = sorted(set(cases) - {check.id for check in chosen})
    if unknown:
        raise click.UsageError(f"no check is called {unknown[0]!r}; `torchlean edge-cases` lists them")
    recorded = peers()
    results: dict[str, list[Result]] = {}
    for result in run_all(checks=chosen):
        results.setdefault(result.id, []).append(result)
    wrong = sum(
        not outcome.right for held in results.values() for result in held for outcome in result.outcomes.values()
    )
    if as_json:
        echo_json(_record(chosen, results, recorded))
    else:
        _print(chosen, results, recorded)
    if wrong:
        ctx.exit(NO)


def _record(checks: list[Any], results: dict[str, list[Result]], recorded: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for check in checks:
        ours = {
            result.place: {"pending": result.pending}
            if result.pending is not None
            else {aspect: {"right": o.right, "seen": o.seen} for aspect, o in result.outcomes.items()}
            for result in results[check.id]
        }
        rows.append(
            {
                "id": check.id,
                "item": check.item,
                "group": check.group,
                "torchlean": ours,
                "recorded": recorded["checks"].get(check.id),
            }
        )
    return {"checks": rows, "versions": recorded["versions"], "tally": _tally(results)}


def _tally(results: dict[str, list[Result]]) -> dict[str, dict[str, dict[str, int]]]:
    """place → aspect → how many right, wrong and pending."""
    made: dict[str, dict[str, dict[str, int]]] = {}
    for held in results.values():
        for result in held:
            at = made.setdefault(result.place, {})
            for aspect, outcome in result.outcomes.items():
                counts = at.setdefault(aspect, {"right": 0, "wrong": 0})
                counts["right" if outcome.right else "wrong"] += 1
            if result.pending is not None:
                at.setdefault("pending", {"checks": 0})["checks"] += 1
    return made


def _marks(held: list[Result]) -> str:
    """One mark per aspect over the modes of a provider: right in all, wrong in one, or not asked."""
    from torchlean.conformance.run import ASPECTS

    if any(result.pending is not None for result in held):
        return f"needs {held[0].pending}"
    marks = ""
    for aspect in ASPECTS:
        asked = [result.outcomes[aspect].right for result in held if aspect in result.outcomes]
        marks += "·" if not asked else "✓" if all(asked) else "✗"
    return marks


def _columns() -> int | None:
    """How wide the terminal is; None where the output goes to a file or pipe, which has no width."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class _Layout(NamedTuple):
    """Widths of the columns. Where they do not fit, our profiles share one, and others' values are only verdicts."""

    name: int
    own: int
    other: int
    is_merged: bool

    @staticmethod
    def fitting(names: list[str], own: list[str], columns: int | None) -> _Layout:
        name, wide = max(map(len, names)), max(map(len, own))
        if columns is None:
            return _Layout(name, wide, _WIDE, False)
        left = columns - name
        is_merged = left < len(own) * (wide + 2) + len(LIBRARIES) * (_VERDICT + 2)
        wide = len(_MERGED) if is_merged else wide
        left -= (wide + 2) * (1 if is_merged else len(own))
        other = min(_WIDE, left // len(LIBRARIES) - 2)
        return _Layout(name, wide, other if other >= _READABLE else _VERDICT, is_merged)

    def line(self, name: str, own: list[str], others: list[str]) -> str:
        cells = [f"{name:<{self.name}}"]
        cells += [f"{cut(cell, self.own):<{self.own}}" for cell in own]
        cells += [f"{cut(cell, self.other):<{self.other}}" for cell in others]
        return "  ".join(cells).rstrip()

    def shown(self, text: str) -> str:
        """What another library gave."""
        if self.other >= _READABLE or text == "—":
            return text
        return text[0] if text[:2] in ("✓ ", "✗ ", "E ") else "raw"


def _print(checks: list[Any], results: dict[str, list[Result]], recorded: dict[str, Any]) -> None:
    from torchlean.backends.profiles import OWN

    names = [profile.name for profile in OWN]
    versions = recorded["versions"]
    columns = _columns()
    layout = _Layout.fitting([check.id for check in checks], names, columns)
    full = layout.other >= _READABLE
    heads = [f"{library} {versions[library]}" if full else library[: layout.other] for library in LIBRARIES]
    owns = [_MERGED] if layout.is_merged else names
    click.echo("value, JVP, VJP, JVP of VJP: ✓ right, ✗ wrong, · not asked; eager and lowered alike")
    if not full:
        click.echo("others: E an error, raw a value to judge; a wider terminal, a pipe or --json has it")
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            click.echo("\n" + layout.line(cut(group, layout.name), owns, heads))
        held = results[check.id]
        cells = [_marks([r for r in held if layout.is_merged or r.place.startswith(f"{name} ")]) for name in owns]
        theirs = recorded["checks"].get(check.id, {})
        click.echo(layout.line(check.id, cells, [layout.shown(theirs.get(library, "—")) for library in LIBRARIES]))
        for result in held:
            for aspect, outcome in result.outcomes.items():
                if not outcome.right:
                    click.echo(f"    {result.place}, {aspect}: {outcome.seen}")
    click.echo("")
    for place, aspects in _tally(results).items():
        said = "; ".join(
            f"{aspect} " + ", ".join(f"{count} {word}" for word, count in counts.items())
            for aspect, counts in aspects.items()
        )
        click.echo(f"{place}: {said}")
    for library in LIBRARIES:
        click.echo(f"{library} {versions[library]}, recorded: {recorded['tally'][library]}")
    click.echo(textwrap.fill(recorded["about"], min(columns or 120, 120)))
