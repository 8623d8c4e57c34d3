"""A sheet → SVG: boxes laid out in rows, curves between them, and for each provider a colour, a shape and its name."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from importlib import resources

from torchlean.record import record
from torchlean.report.escape import cut, markup, visible
from torchlean.report.layout import Layout, Route, layout
from torchlean.report.view import Box, CapsuleFacts, Kind, Sheet

ROW = 54  # pixels, the height of a box
LONGEST = 30  # characters of a line in a box
COLOURS = 8  # the palette's; with as many shapes
_CHARACTER = 7.25  # pixels, in the 12 px monospaced type of the boxes
_SMALL = 6.05  # likewise at 10 px

# Eight shapes in a 10 × 10 square: disc, square, triangle, diamond, plus, ring, bar, hourglass.
SHAPES = (
    "M5 0a5 5 0 1 1 0 10a5 5 0 1 1 0-10z",
    "M.5.5h9v9h-9z",
    "M5 0l5 9.5h-10z",
    "M5 0l5 5l-5 5l-5-5z",
    "M3.5 0h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
    "M5 0a5 5 0 1 1 0 10a5 5 0 1 1 0-10zM5 2.8a2.2 2.2 0 1 0 0 4.4a2.2 2.2 0 1 0 0-4.4z",
    "M0 2.5h10v5h-10z",
    "M0 0h10l-4 5l4 5h-10l4-5z",
)


@record
class Look:
    """What drawings of a page share: the position of each group, and the capsules."""

    groups: Mapping[str, int]
    capsules: tuple[CapsuleFacts, ...]


def asset(name: str) -> str:
    """A file of this package's `assets`."""
    return resources.files("torchlean.report").joinpath("assets", name).read_text(encoding="utf-8")


def anchor(sheet: int, box: int) -> str:
    """The id of a box in a page; `#r…` is its row in the sheet's table."""
    return f"b{sheet}-{box}"


def arranged(sheet: Sheet, look: Look) -> Layout:
    """Where the boxes of a sheet go."""
    edges = sorted({(source, target) for target, box in enumerate(sheet.boxes) for source, _ in box.operands})
    return layout([_width(box, look) for box in sheet.boxes], ROW, edges)


def drawing(sheet: Sheet, number: int, look: Look, *, links: bool, style: str = "") -> str:
    """The SVG of a sheet. `links`: each box leads to its row in the page's table. `style`: CSS to carry inside."""
    placed = arranged(sheet, look)
    mark = f"arrow{number}"
    title = markup(f"graph {sheet.title}, {len(sheet.boxes)} boxes; data flows downwards")
    parts = [
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" width="{placed.width}" height="{placed.height}" '
        f'viewBox="0 0 {placed.width} {placed.height}" role="group" aria-label="{title}">',
        f"<style>{style}</style>" if style else "",
        f'<defs><marker id="{mark}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 .5L7.5 4L0 7.5z"/></marker></defs>',
        f'<g class="edges" fill="none" marker-end="url(#{mark})">',
    ]
    named: list[str] = []
    for route in placed.routes:
        if route.is_reference:
            named.append(_reference(sheet, number, route, links))
        else:
            parts.append(f'<path class="e" data-s="{route.source}" data-t="{route.target}" d="{_curve(route)}"/>')
    parts.append("</g>")
    parts += named
    for position, box in enumerate(sheet.boxes):
        parts.append(
            _box(box, number, position, placed.x[position], placed.y[position], _width(box, look), look, links)
        )
    parts.append("</svg>")
    return "\n".join([part for part in parts if part])


def _lines(box: Box, look: Look) -> tuple[str, str, str]:
    """What stands in a box: its name, its type, and who runs it (or what is known instead)."""
    name = visible(box.label or box.op)
    types = visible(box.types_text)
    if box.kind in (Kind.INPUT, Kind.RESULT):
        below = box.kind.value
    elif box.capsule is not None:
        capsule = look.capsules[box.capsule]
        plain = f"{capsule.provider}.{capsule.op}"
        below = capsule.provider if capsule.name == plain else capsule.name
    elif box.kind is Kind.CONSTANT and box.params:
        below = visible(box.params[-1])
    elif box.derivative_of:
        below = f"derivative of {visible(box.derivative_of)}"
    else:
        below = visible(box.group)
    return cut(name, LONGEST), cut(types, LONGEST + 6), cut(below, LONGEST + 6)


def columns(text: str) -> int:
    """How many columns of monospaced type a text takes; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum([2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text])


def _width(box: Box, look: Look) -> int:
    name, types, below = _lines(box, look)
    ids = 0 if box.kind is Kind.RESULT else columns(cut(box.ids_text, 12)) * _SMALL + 12
    opens = 14 if box.inner else 0
    widest = max(
        [columns(name) * _CHARACTER + ids + opens, columns(types) * 6.65, columns(below) * _SMALL + 16],
    )
    ports = 34 * len({source for source, _ in box.operands}) if len(box.operands) > 3 else 0
    sides = 44 if box.kind in (Kind.INPUT, Kind.RESULT) else 28
    return 2 * (int(max(widest + sides, min(ports, 420), 84)) // 2)


def _curve(route: Route) -> str:
    """Vertical at both ends and wherever it passes a row."""
    x, y = route.start
    made = [f"M{x} {y}"]
    for next_x, top, bottom in route.via:
        made.append(_bend(x, y, next_x, top))
        made.append(f"V{bottom}")
        x, y = next_x, bottom
    end_x, end_y = route.end
    made.append(_bend(x, y, end_x, end_y - 1))
    return "".join(made)


def _bend(x: int, y: int, to_x: int, to_y: int) -> str:
    if x == to_x:
        return f"V{to_y}"
    middle = (y + to_y) // 2
    return f"C{x} {middle} {to_x} {middle} {to_x} {to_y}"


def _reference(sheet: Sheet, number: int, route: Route, links: bool) -> str:
    """A short arrow with the name of the value that comes from far away."""
    x, y = route.end
    ids = [id for source, id in sheet.boxes[route.target].operands if source == route.source]
    name = cut(",".join([f"%{id}" for id in dict.fromkeys(ids)]), 8)
    inside = f'<text class="far" x="{x}" y="{y - 15}" text-anchor="middle">{name}</text>'
    arrow = f'<path class="e far" data-s="{route.source}" data-t="{route.target}" d="M{x} {y - 11}V{y - 1}"'
    arrow += f' fill="none" marker-end="url(#arrow{number})"/>'
    if not links:
        return arrow + inside
    return f'{arrow}<a class="far" tabindex="-1" href="#{anchor(number, route.source)}">{inside}</a>'


def _box(box: Box, number: int, position: int, x: int, y: int, width: int, look: Look, links: bool) -> str:
    name, types, below = _lines(box, look)
    group = look.groups.get(box.group)
    trusted = box.capsule is not None and look.capsules[box.capsule].rests_on_trust
    classes = ["n", box.kind.value, f"g{group % COLOURS}" if group is not None else "", "trusted" if trusted else ""]
    says = [f"{box.ids_text} {box.op}".strip(), box.label, box.types_text, below, box.where]
    title = markup(", ".join([text for text in says if text]))
    round_ends = box.kind in (Kind.INPUT, Kind.RESULT)
    parts = [
        f"<title>{title}</title>",
        f'<rect class="box" width="{width}" height="{ROW}" rx="{ROW // 2 if round_ends else 7}"/>',
    ]
    left = 22 if round_ends else 16
    if group is not None:
        parts.append(f'<path class="band" d="M7 0H6A6 6 0 0 0 0 7V{ROW - 7}A6 6 0 0 0 6 {ROW}H7z"/>')
        parts.append(f'<path class="glyph" transform="translate({left} {ROW - 15.5}) scale(.9)" d="{_shape(group)}"/>')
    parts.append(f'<text class="op" x="{left}" y="18">{markup(name)}</text>')
    if box.kind is not Kind.RESULT and box.ids:
        end = width - (20 if round_ends else 10) - (14 if box.inner else 0)
        parts.append(f'<text class="id" x="{end}" y="18" text-anchor="end">{cut(box.ids_text, 12)}</text>')
    if box.inner:
        parts.append(f'<path class="opens" d="M{width - 20} 8.5h10v10h-10zM{width - 18} 12h6M{width - 18} 15h6"/>')
    parts.append(f'<text class="type" x="{left}" y="33">{markup(types)}</text>')
    shift = 14 if group is not None else 0
    parts.append(f'<text class="by" x="{left + shift}" y="47">{markup(below)}</text>')
    attributes = f'class="{" ".join(filter(None, classes))}" transform="translate({x} {y})"'
    inside = "".join(parts)
    if not links:
        return f"<g {attributes}>{inside}</g>"
    return f'<a id="{anchor(number, position)}" href="#r{anchor(number, position)}" {attributes}>{inside}</a>'


def _shape(group: int) -> str:
    return SHAPES[group % COLOURS]
