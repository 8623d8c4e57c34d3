"""Graphs for other tools: DOT and Mermaid. Graphs of control flow are clusters; bodies of composites are left out."""

from __future__ import annotations

from collections.abc import Iterator

from torchlean.report.escape import cut, dot_string, mermaid_string
from torchlean.report.view import Box, Kind, Page

_PALETTE = ("#cfe3f2", "#fbe3bf", "#c9ead9", "#f3dbe8", "#f8d5c0", "#d6eefa", "#efe9c0", "#e3e3e3")
_LONGEST = 80


def dot_text(page: Page) -> str:
    """The first program of a page in the DOT language, one statement per line."""
    lines = [
        f"digraph {dot_string(page.title)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style=filled, fontname="monospace"];',
    ]
    lines += [f"  {line}" for line in _dot(page, page.programs[0].sheet, "n", page.groups())]
    return "\n".join([*lines, "}", ""])


def _dot(page: Page, number: int, prefix: str, groups: tuple[str, ...]) -> Iterator[str]:
    sheet = page.sheets[number]
    for at, box in enumerate(sheet.boxes):
        label = "\\n".join([dot_string(part)[1:-1] for part in _label(page, box)])
        colour = _PALETTE[groups.index(box.group) % len(_PALETTE)] if box.group else "#ffffff"
        shape = ", shape=oval" if box.kind in (Kind.INPUT, Kind.RESULT) else ""
        yield f'{prefix}{at} [label="{label}", fillcolor="{colour}"{shape}];'
    for at, box in enumerate(sheet.boxes):
        for source, id in box.operands:
            yield f'{prefix}{source} -> {prefix}{at} [label="%{id}"];'
    for at, box in enumerate(sheet.boxes):
        for position, (name, inner) in enumerate(_bodies(box)):
            inside = f"{prefix}{at}_{position}_"
            yield f"subgraph {dot_string(f'cluster_{inside}')} {{"
            yield f"  label={dot_string(f'{name} of {box.op} {box.ids_text}')};"
            yield from [f"  {line}" for line in _dot(page, inner, inside, groups)]
            yield "}"


def mermaid_text(page: Page) -> str:
    """The first program of a page as a Mermaid flowchart."""
    groups = page.groups()
    used: dict[str, list[str]] = {}
    lines = ["flowchart TB", *_mermaid(page, page.programs[0].sheet, "n", used)]
    for group, names in used.items():
        at = groups.index(group)
        lines.append(f"  classDef g{at} fill:{_PALETTE[at % len(_PALETTE)]},stroke:#555,color:#111")
        lines += [f"  class {','.join(names[start : start + 50])} g{at}" for start in range(0, len(names), 50)]
    return "\n".join([*lines, ""])


def _mermaid(page: Page, number: int, prefix: str, used: dict[str, list[str]]) -> Iterator[str]:
    sheet = page.sheets[number]
    for at, box in enumerate(sheet.boxes):
        label = '"' + "<br/>".join([mermaid_string(part)[1:-1] for part in _label(page, box)]) + '"'
        is_end = box.kind in (Kind.INPUT, Kind.RESULT)
        yield f"  {prefix}{at}([{label}])" if is_end else f"  {prefix}{at}[{label}]"
        if box.group:
            used.setdefault(box.group, []).append(f"{prefix}{at}")
    for at, box in enumerate(sheet.boxes):
        for source, id in box.operands:
            yield f"  {prefix}{source} -->|{mermaid_string(f'%{id}')}| {prefix}{at}"
    for at, box in enumerate(sheet.boxes):
        for position, (name, inner) in enumerate(_bodies(box)):
            inside = f"{prefix}{at}_{position}_"
            yield f"  subgraph {inside}[{mermaid_string(f'{name} of {box.op} {box.ids_text}')}]"
            yield from [f"  {line}" for line in _mermaid(page, inner, inside, used)]
            yield "  end"


def _bodies(box: Box) -> tuple[tuple[str, int], ...]:
    """The graphs of control flow. A composite's body follows from its attributes, and is its meaning, not its parts."""
    return () if box.is_composite else box.inner


def _label(page: Page, box: Box) -> list[str]:
    name = f"{box.ids_text} {box.label or box.op}" if box.kind is not Kind.RESULT else box.label or box.op
    parts = [name, box.types_text]
    if box.capsule is not None:
        parts.append(page.capsules[box.capsule].name)
    return [cut(part.strip(), _LONGEST) for part in parts]
