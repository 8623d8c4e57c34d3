"""A `Page` → one HTML file that refers to nothing outside itself.

Everything a reader needs is static: drawings, tables and texts are there without the script, which adds zooming,
searching and the panel of the selected node. The page's own security policy names the hashes of its one style sheet and
its one script, so that nothing else could run or be fetched even if a name got past the escaping.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

import torchlean
from torchlean.report.chart import chart_svg
from torchlean.report.data import page_data
from torchlean.report.drawing import Look, asset
from torchlean.report.escape import markup, preformatted, script_json
from torchlean.report.graphs import graphs
from torchlean.report.view import Page, Program, Run, Table


def page_html(page: Page) -> str:
    """The whole file. The same page gives the same text."""
    look = Look(groups={group: at for at, group in enumerate(page.groups())}, capsules=page.capsules)
    style = f"{colours(':root')}\n{asset('graph.css')}\n{asset('report.css')}"
    script = asset("report.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = list(_sections(page, look))
    links = "".join([f'<a href="#{name}">{markup(title)}</a>' for name, title, _ in sections])
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{markup(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="generator" content="torchlean {torchlean.__version__}">',
        f'<link rel="icon" href="data:,">\n<title>{markup(page.title)} · torchlean {markup(page.kind)}</title>',
        f"<style>{style}</style>\n</head>\n<body>",
        f'<a class="skip" href="#{sections[0][0]}">Skip to the contents</a>',
        f'<header><p class="brand">torchlean {markup(page.kind)}</p><h1>{markup(page.title)}</h1>',
        f'<nav aria-label="Sections">{links}</nav>',
        '<button type="button" id="theme" class="scripted">Theme</button></header>\n<main>',
        *[body for _, _, body in sections],
        "</main>",
        f'<script type="application/json" id="data">{script_json(page_data(page, look))}</script>',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def colours(scope: str) -> str:
    """The variables of both colour schemes for `scope`; printing is always light."""
    light, dark = asset("light.css"), asset("dark.css")
    return (
        f"{scope}{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{{scope}:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{{scope}[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
        f"@media print{{{scope}:not([data-theme=print]){{color-scheme:light;{light}}}}}"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# -- sections ----------------------------------------------------------------------------------------------------------
def _sections(page: Page, look: Look) -> Iterable[tuple[str, str, str]]:
    """(id, title, HTML) in reading order."""
    if page.run is not None:
        yield "run", "Training", _run(page.run)
    if page.sheets:
        yield "graph", "Graph", section("graph", "Graph", *graphs(page, look))
    for number, program in enumerate(page.programs):
        several = f": {program.title}" if len(page.programs) > 1 else ""
        name = "plan" if page.sheets[program.sheet].planned else "contents"
        yield (
            f"{name}{number}",
            f"{name.title()}{several}",
            _program(program, f"{name}{number}", f"{name.title()}{several}"),
        )
    if page.capsules:
        yield "audit", "Audit", _audit(page)


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join([f"<div><dt>{markup(name)}</dt><dd>{markup(value)}</dd></div>" for name, value in facts])
    return f'<dl class="facts">{rows}</dl>'


def section(name: str, title: str, *contents: str) -> str:
    return f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{markup(title)}</h2>\n' + (
        "\n".join([part for part in contents if part]) + "\n</section>"
    )


def table_html(table: Table) -> str:
    head = "".join([f'<th scope="col">{markup(cell)}</th>' for cell in table.head])
    rows = "".join(["<tr>" + "".join([f"<td>{markup(cell)}</td>" for cell in row]) + "</tr>\n" for row in table.rows])
    body = f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f'<h3>{markup(table.title)}</h3><p class="note">{markup(table.about)}</p>' + (body if table.rows else "")


def _text(title: str, text: str) -> str:
    body = f'<pre tabindex="0">{preformatted(text)}</pre>'
    return f'<details class="text"><summary>{markup(title)}</summary>{body}</details>'


def _run(run: Run) -> str:
    charts = "".join([f'<figure class="plot">{chart_svg(c, at)}</figure>' for at, c in enumerate(run.charts)])
    return section(
        "run",
        "Training run",
        f'<div class="plots">{charts}</div>' if charts else "",
        _facts(run.facts),
        *[table_html(table) for table in run.tables],
        _text("Provenance record", run.record) if run.record else "",
    )


def _program(program: Program, name: str, title: str) -> str:
    return section(
        name,
        title,
        _facts(program.facts),
        *[table_html(table) for table in program.tables],
        *[_text(head, text) for head, text in program.texts],
    )


def _audit(page: Page) -> str:
    """One row per capsule, with what stands behind each of its four claims."""
    trusted = [capsule.name for capsule in page.capsules if capsule.rests_on_trust]
    about = (
        f"Rests on trust: {', '.join(trusted)}."
        if trusted
        else "No capsule rests on trust: each claim is guarded or tested."
    )
    rows: list[str] = []
    for position, capsule in enumerate(page.capsules):
        numerics = "".join([f"<li>{markup(name)}: {markup(value)}</li>" for name, value in capsule.numerics])
        claims = "".join(
            [
                f"<li><b>{markup(field)}</b> {markup(claim)}; {markup(evidence)}"
                + (f" <em>({markup(state)})</em></li>" if state else "</li>")
                for field, claim, evidence, state in capsule.contracts
            ]
        )
        rows.append(
            f'<tr id="k{position}"><th scope="row">{markup(capsule.name)}</th><td>{capsule.nodes}</td>'
            f"<td>{markup(capsule.trust)}</td><td>{markup(capsule.evidence)}</td><td>{markup(capsule.vjp)}</td><td>{markup(capsule.device)}</td>"
            f"<td>{markup(capsule.bound)}<ul>{numerics}</ul></td><td><ul>{claims}</ul></td></tr>\n"
        )
    names = ("capsule", "nodes", "trust", "evidence", "derivative", "device", "numerical policy", "claims and evidence")
    head = "".join([f'<th scope="col">{cell}</th>' for cell in names])
    table = f'<table class="audit"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return section(
        "audit", "Audit", f'<p class="note">{markup(about)}</p>', f'<div class="wide" tabindex="0">{table}</div>'
    )
