"""The graph part of a page: the tool bar, a drawing per sheet with its legend, and each sheet as a table."""

from __future__ import annotations

from torchlean.report.drawing import COLOURS, SHAPES, Look, anchor, drawing
from torchlean.report.escape import markup, visible
from torchlean.report.view import Box, Kind, Page, Sheet


def graphs(page: Page, look: Look) -> tuple[str, str]:
    """The bar, and the work space below it."""
    options = "".join(
        [f'<option value="{number}">{markup(_sheet_name(page, number))}</option>' for number in range(len(page.sheets))]
    )
    bar = (
        '<div class="bar scripted">'
        f'<label class="which">Graph <select id="sheet">{options}</select></label>'
        '<div class="find" role="search"><input type="search" id="find" autocomplete="off" spellcheck="false" '
        'placeholder="Search op, %id, type, line, capsule" aria-label="Search nodes" aria-keyshortcuts="/" '
        'aria-controls="hits" aria-describedby="count"><kbd>/</kbd><output id="count"></output>'
        '<ol id="hits" hidden aria-label="Nodes found"></ol></div>'
        '<div class="zoom" role="group" aria-label="Zoom">'
        '<button type="button" data-zoom="out" aria-label="Zoom out">−</button><output id="scale">100 %</output>'
        '<button type="button" data-zoom="in" aria-label="Zoom in">+</button>'
        '<button type="button" data-zoom="fit">Fit</button>'
        '<button type="button" data-zoom="one">1:1</button></div></div>'
    )
    sheets = "\n".join([_sheet(page, number, look) for number in range(len(page.sheets))])
    panel = '<aside id="panel" class="scripted" aria-live="polite" aria-label="The selected node"></aside>'
    return bar, f'<div class="work"><div class="sheets">{sheets}</div>{panel}</div>'


def _sheet_name(page: Page, number: int) -> str:
    sheet = page.sheets[number]
    nodes = sum([box.kind in (Kind.NODE, Kind.CONSTANT) for box in sheet.boxes]) + sheet.left_out
    depth, at = 0, sheet.parent
    while at is not None:
        depth, at = depth + 1, page.sheets[at].parent
    place = f", {visible(sheet.place)}" if sheet.place else ""
    return "\u00a0\u00a0" * depth + f"{visible(sheet.title)}{place} ({nodes} node{'s' if nodes != 1 else ''})"


def _sheet(page: Page, number: int, look: Look) -> str:
    sheet = page.sheets[number]
    title = markup(_sheet_name(page, number).strip())
    parent = (
        f' <a class="up" href="#s{sheet.parent}">↑ {markup(page.sheets[sheet.parent].title)}</a>'
        if sheet.parent is not None
        else ""
    )
    left_out = f'<p class="note">{sheet.left_out} more nodes are not drawn.</p>' if sheet.left_out else ""
    svg = drawing(sheet, number, look, links=True)
    return (
        f'<section class="sheet" id="s{number}" aria-label="{title}">'
        f"<h3>{title}{parent}</h3>{left_out}{_legend(sheet, look)}"
        f'<div class="stage" tabindex="-1">{svg}</div>\n{_rows(page, number)}</section>'
    )


def _legend(sheet: Sheet, look: Look) -> str:
    """The groups of a sheet with colour, shape, name and number; the script makes them switches."""
    present = [box.group for box in sheet.boxes if box.group]
    counts = {group: present.count(group) for group in sorted(set(present), key=lambda group: look.groups[group])}
    items = [_switch(group, look.groups[group] % COLOURS, look.groups[group], counts[group]) for group in counts]
    if any([box.capsule is not None and look.capsules[box.capsule].rests_on_trust for box in sheet.boxes]):
        items.append('<li class="key"><i class="trusted"></i>rests on trust</li>')
    if any([box.inner for box in sheet.boxes]):
        items.append('<li class="key"><i class="opens"></i>holds a graph</li>')
    items.append('<li class="key"><i class="far">%</i>comes from far above</li>')
    return f'<ul class="legend" aria-label="{"Providers" if sheet.planned else "Kinds of nodes"}">{"".join(items)}</ul>'


def _switch(group: str, colour: int, number: int, count: int) -> str:
    shape = f'<svg viewBox="0 0 10 10" aria-hidden="true"><path class="glyph" d="{SHAPES[colour]}"/></svg>'
    button = f'<button type="button" class="g{colour}" data-group="{number}" aria-pressed="false">'
    return f"<li>{button}{shape}{markup(group)} <span>{count}</span></button></li>"


def _rows(page: Page, number: int) -> str:
    """The boxes as a table, which is what the drawing's links lead to."""
    sheet = page.sheets[number]
    head = "".join(
        [
            f'<th scope="col">{name}</th>'
            for name in ("value", "op", "type", "takes", "params", "run by", "line", "holds")
        ]
    )
    rows = "".join([_row(page, number, at, box) for at, box in enumerate(sheet.boxes)])
    return (
        f'<details class="rows"><summary>The same as a table ({len(sheet.boxes)} rows)</summary>'
        '<div class="wide" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _row(page: Page, number: int, at: int, box: Box) -> str:
    takes = ", ".join([f'<a href="#r{anchor(number, source)}">%{id}</a>' for source, id in box.operands])
    capsule = "" if box.capsule is None else f'<a href="#k{box.capsule}">{markup(page.capsules[box.capsule].name)}</a>'
    holds = ", ".join([f'<a href="#s{sheet}">{markup(name)}</a>' for name, sheet in box.inner])
    derivative = f", derivative of {markup(box.derivative_of)}" if box.derivative_of else ""
    name = f"{box.op} {box.label}".strip()
    return (
        f'<tr id="r{anchor(number, at)}"><td><a href="#{anchor(number, at)}">{box.ids_text or "·"}</a></td>'
        f"<td>{markup(name)}</td><td>{markup(box.types_text)}</td><td>{takes}</td>"
        f"<td>{markup(', '.join(box.params))}</td><td>{capsule}</td>"
        f"<td>{markup(box.where)}{derivative}</td><td>{holds}</td></tr>\n"
    )
