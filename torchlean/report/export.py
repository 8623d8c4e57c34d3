"""What users call: a thing in, the text of a report out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchlean.errors import DataError, message
from torchlean.report.collect import page_of
from torchlean.report.drawing import Look, asset, drawing
from torchlean.report.escape import markup, preformatted
from torchlean.report.graphtext import dot_text, mermaid_text
from torchlean.report.page import colours, page_html
from torchlean.report.sheets import MAX_NODES
from torchlean.report.view import Page
from torchlean.train.files import write_atomically

SMALL = 60  # boxes; larger graphs are text in a notebook


def html(*things: Any, title: str | None = None, max_nodes: int | None = MAX_NODES) -> str:
    """One self-contained HTML file about graphs, plans, lowered functions and at most one training run.

    Graphs beyond `max_nodes` (None: no limit) are drawn up to there, and the page counts what it leaves out. Raises
    DataError for something no report can be made of.
    """
    return page_html(page_of(*things, title=title, max_nodes=max_nodes))


def svg(thing: Any, *, max_nodes: int | None = MAX_NODES) -> str:
    """The drawing of a graph, plan or lowered function as one SVG file."""
    page = _with_graph(thing, max_nodes)
    return _svg(page, page.programs[0].sheet) + "\n"


def dot(thing: Any, *, max_nodes: int | None = MAX_NODES) -> str:
    """A graph, plan or lowered function in the DOT language of Graphviz."""
    return dot_text(_with_graph(thing, max_nodes))


def mermaid(thing: Any, *, max_nodes: int | None = MAX_NODES) -> str:
    """A graph, plan or lowered function as a Mermaid flowchart."""
    return mermaid_text(_with_graph(thing, max_nodes))


def text(thing: Any) -> str:
    """The texts of a report, each below its title: graph, plan, generated source, provenance record."""
    page = page_of(thing)
    found = [part for program in page.programs for part in program.texts]
    if page.run is not None and page.run.record:
        found.append(("Provenance record", page.run.record))
    return "\n".join([f"== {title} ==\n{body.rstrip()}\n" for title, body in found])


def fragment(thing: Any) -> str:
    """For notebooks: the drawing of the plan, or else of the traced graph, when it is small; and the texts, folded.

    It has no script and refers to nothing outside.
    """
    page = page_of(thing)
    program = page.programs[0]
    whole = [at for at, sheet in enumerate(page.sheets) if sheet.parent is None]
    small = [at for at in whole if len(page.sheets[at].boxes) <= SMALL and not page.sheets[at].left_out]
    shown = f'<div style="overflow:auto;max-height:36em">{_svg(page, small[0])}</div>' if small else ""
    texts = "".join(
        [
            f"<details{'' if small or at else ' open'}><summary>{markup(title)}</summary>"
            f"<pre>{preformatted(body)}</pre></details>"
            for at, (title, body) in enumerate(program.texts)
        ]
    )
    return f"<div><p>{markup(repr(thing).strip('<>'))}</p>{shown}{texts}</div>"


def save(content: str, path: Path | str) -> Path:
    """Write a report whole or not at all; DataError when the place cannot be written."""
    target = Path(path)
    write_atomically(target, content.encode("utf-8"))
    return target


def _svg(page: Page, number: int) -> str:
    look = Look(groups={group: at for at, group in enumerate(page.groups())}, capsules=page.capsules)
    style = f"{colours('svg.graph')}\n{asset('graph.css')}"
    return drawing(page.sheets[number], number, look, links=False, style=style)


def _with_graph(thing: Any, max_nodes: int | None) -> Page:
    page = page_of(thing, max_nodes=max_nodes)
    if not page.programs:
        raise DataError(
            message(
                "there is no graph to draw: the run was eager, or only its record is known",
                fix='train with execution="lowered", or draw a graph, a plan or a lowered function',
            )
        )
    return page
