"""What the page's script is given, as plain data: the boxes, capsules and chart points of a page."""

from __future__ import annotations

from typing import Any

from torchlean.report.chart import chart_data
from torchlean.report.drawing import SHAPES, Look
from torchlean.report.escape import visible
from torchlean.report.view import Box, CapsuleFacts, Page


class _Strings:
    """Texts by number, each stored once, with what cannot be seen made visible."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.number.setdefault(visible(text), len(self.number))


def page_data(page: Page, look: Look) -> dict[str, Any]:
    """Each text is stored once, in `strings`, and named by its number."""
    strings = _Strings()
    sheets = [
        {
            "title": strings(sheet.title),
            "place": strings(sheet.place),
            "parent": sheet.parent,
            "planned": sheet.planned,
            "boxes": [_box_data(box, strings, look) for box in sheet.boxes],
        }
        for sheet in page.sheets
    ]
    charts = [] if page.run is None else [chart_data(chart) for chart in page.run.charts]
    return {
        "sheets": sheets,
        "capsules": [_capsule_data(capsule, look) for capsule in page.capsules],
        "shapes": SHAPES,
        "groups": [visible(group) for group in look.groups],
        "charts": charts,
        "strings": list(strings.number),
    }


def _box_data(box: Box, strings: _Strings, look: Look) -> list[Any]:
    return [
        strings(box.kind.value),
        strings(box.op),
        list(box.ids),
        strings(box.types_text),
        strings(box.label),
        [strings(param) for param in box.params],
        [part for operand in box.operands for part in operand],
        strings(box.where),
        strings(box.code),
        strings(box.derivative_of),
        -1 if box.capsule is None else box.capsule,
        look.groups.get(box.group, -1),
        [strings(text) for text in box.refused],
        [[strings(name), sheet] for name, sheet in box.inner],
        [[strings(name), strings(value)] for name, value in box.cost],
    ]


def _capsule_data(capsule: CapsuleFacts, look: Look) -> dict[str, Any]:
    return {
        "name": capsule.name,
        "provider": capsule.provider,
        "group": look.groups.get(capsule.provider, -1),
        "trust": capsule.trust,
        "facts": [
            ["trust", capsule.trust],
            ["evidence", capsule.evidence],
            ["derivative", capsule.vjp],
            ["device", capsule.device],
            ["value bound", capsule.bound],
            *[[name, value] for name, value in capsule.numerics],
        ],
        "contracts": [[visible(part) for part in contract] for contract in capsule.contracts],
    }
