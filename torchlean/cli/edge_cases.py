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
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help="This profile, such as xla_cpu, instead.")
@json_option
@click.pass_context
def edge_cases(ctx: click.Context, cases: tuple[str, ...], profiles: tuple[str, ...], as_json: bool) -> None:
    """Run every check on every provider of our own, eager and lowered: value, JVP, VJP and JVP of VJP.

    Exit code 1 when one is wrong that is not declared to be so. What others gave is as recorded with the versions
    named; it is not run here. On xla_cpu each check is compiled, which takes minutes.

    Example: torchlean edge-cases --case norm_sq_at_0
    """
    from torchlean.backends.profiles import OWN, named
    from torchlean.conformance.run import ALL, peers, places_of, run_all

    chosen = [check for check in ALL if not cases or check.id in cases]
    unknown = sorted(set(cases) - {check.id for check in chosen})
    if unknown:
        raise click.UsageError(f"no check is called {unknown[0]!r}; `torchlean edge-cases` lists them")
    recorded = peers()
    names = list(dict.fromkeys(profiles)) or [profile.name for profile in OWN]
    where = {"places": [place for name in names for place in places_of(named(name))]} if profiles else {}
    results: dict[str, list[Result]] = {}
    for result in run_all(checks=chosen, **where):
        results.setdefault(result.id, []).append(result)
    wrong = sum(result.is_wrong(aspect) for held in results.values() for result in held for aspect in result.outcomes)
    if as_json:
        echo_json(_record(chosen, results, recorded))
    else:
        _print(chosen, results, recorded, names)
    if wrong:
        ctx.exit(NO)


def _record(checks: list[Any], results: dict[str, list[Result]], recorded: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for check in checks:
        ours = {
            result.place: {"pending": result.pending}
            if result.pending is not None
            else {aspect: _outcome(result, aspect) for aspect in result.outcomes}
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


def _outcome(result: Result, aspect: str) -> dict[str, Any]:
    outcome = result.outcomes[aspect]
    declared = {} if outcome.right or aspect not in result.declared else {"declared": result.declared[aspect]}
    return {"right": outcome.right, "seen": outcome.seen, **declared}


def _tally(results: dict[str, list[Result]]) -> dict[str, dict[str, dict[str, int]]]:
    """place → aspect → how many right, wrong, wrong as declared, and pending."""
    made: dict[str, dict[str, dict[str, int]]] = {}
    for held in results.values():
        for result in held:
            at = made.setdefault(result.place, {})
            for aspect, outcome in result.outcomes.items():
                counts = at.setdefault(aspect, {"right": 0, "wrong": 0})
                if outcome.right or result.is_wrong(aspect):
                    counts["right" if outcome.right else "wrong"] += 1
                else:
                    counts["declared"] = counts.get("declared", 0) + 1
            if result.pending is not None:
                at.setdefault("pending", {"checks": 0})["checks"] += 1
    return made


def _marks(held: list[Result]) -> str:
    """One mark per aspect over the modes of a provider: right in all, wrong in one, as declared, or not asked."""
    from torchlean.conformance.run import ASPECTS

    if any(result.pending is not None for result in held):
        return f"needs {held[0].pending}"
    marks = ""
    for aspect in ASPECTS:
        asked = [result for result in held if aspect in result.outcomes]
        wrong = any([result.is_wrong(aspect) for result in asked])
        right = all([result.outcomes[aspect].right for result in asked])
        marks += "·" if not asked else "✗" if wrong else "✓" if right else "~"
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


def _print(checks: list[Any], results: dict[str, list[Result]], recorded: dict[str, Any], names: list[str]) -> None:
    versions = recorded["versions"]
    columns = _columns()
    layout = _Layout.fitting([check.id for check in checks], names, columns)
    full = layout.other >= _READABLE
    heads = [f"{library} {versions[library]}" if full else library[: layout.other] for library in LIBRARIES]
    owns = [_MERGED] if layout.is_merged else names
    declared = any([held.declared for rows in results.values() for held in rows])
    also = ", ~ as declared" if declared else ""
    click.echo(f"value, JVP, VJP, JVP of VJP: ✓ right, ✗ wrong{also}, · not asked; eager and lowered alike")
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
                    why = f", as declared: {result.declared[aspect]}" if aspect in result.declared else ""
                    click.echo(f"    {result.place}, {aspect}: {outcome.seen}{why}")
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
