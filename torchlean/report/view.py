"""What a report shows, as plain records: pages of sheets of boxes. `sheets` and `training` make them."""

from __future__ import annotations

from enum import Enum

from torchlean.record import record


class Kind(Enum):
    """What a box stands for. The value is its CSS class."""

    INPUT = "input"
    CONSTANT = "constant"
    NODE = "node"
    RESULT = "result"

    __hash__ = object.__hash__


@record
class Box:
    """One rectangle of a drawing: an input, a node or a result.

    `ids` are the values it makes (a result: the value it returns), `operands` the boxes and values it takes. `label` is
    the argument or result path where one is known. `group` is what it is coloured by. `code` is the text of the user's
    line. `capsule` is a position in the page's capsules. `inner` are (name, sheet) of the graphs it holds; the one of a
    composite is what the op means. `cost` is (what, how much) of a step of an accepted plan.
    """

    kind: Kind
    op: str
    ids: tuple[int, ...]
    types: tuple[str, ...]
    label: str
    params: tuple[str, ...]
    operands: tuple[tuple[int, int], ...]
    where: str
    code: str
    derivative_of: str
    capsule: int | None
    group: str
    refused: tuple[str, ...]
    inner: tuple[tuple[str, int], ...]
    is_composite: bool
    cost: tuple[tuple[str, str], ...]

    @property
    def ids_text(self) -> str:
        return ",".join([f"%{id}" for id in self.ids])

    @property
    def types_text(self) -> str:
        return ", ".join(self.types) or "no value"


@record
class Sheet:
    """One graph. `place` says where it belongs: empty for a program, else as in `body of scan %5`.

    `parent` is the sheet it is opened from. `left_out` counts nodes that are not drawn, because there are too many.
    """

    title: str
    place: str
    parent: int | None
    boxes: tuple[Box, ...]
    left_out: int
    planned: bool


@record
class CapsuleFacts:
    """A capsule as text: what a reader of a node's panel, and of the audit, is told.

    `evidence` is the least of the states of its tested contracts' records, or says that there are none.
    """

    name: str
    op: str
    provider: str
    device: str
    trust: str
    evidence: str
    vjp: str
    bound: str
    numerics: tuple[tuple[str, str], ...]
    contracts: tuple[tuple[str, str, str, str], ...]  # obligation, claim, evidence, how its record stands
    nodes: int

    @property
    def rests_on_trust(self) -> bool:
        return self.trust != "checked"


@record
class Table:
    """Rows of text under a heading, with a sentence that says what they are."""

    title: str
    about: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@record
class Program:
    """A graph, or what was planned for it. `sheet` is the first of its sheets; `texts` are (title, text) to read."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sheet: int
    tables: tuple[Table, ...]
    texts: tuple[tuple[str, str], ...]


@record
class Curve:
    """Points of one line of a chart; y may be infinite or NaN, which is marked and not drawn.

    `joined`: points between two known ones lie near the line through them; otherwise only the points are drawn.
    """

    name: str
    joined: bool
    points: tuple[tuple[float, float], ...]


@record
class Chart:
    """Curves over common axes. The axis texts name the quantity and, where there is one, the unit."""

    title: str
    x_axis: str
    y_axis: str
    curves: tuple[Curve, ...]


@record
class Run:
    """A training run."""

    facts: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    record: str


@record
class Page:
    """Everything one file shows."""

    title: str
    kind: str
    programs: tuple[Program, ...]
    sheets: tuple[Sheet, ...]
    capsules: tuple[CapsuleFacts, ...]
    run: Run | None

    def groups(self) -> tuple[str, ...]:
        """What boxes are coloured by: providers, then kinds; the most frequent first, ties by name."""
        providers = {capsule.provider for capsule in self.capsules}
        counts: dict[str, int] = {}
        for sheet in self.sheets:
            for box in sheet.boxes:
                if box.group:
                    counts[box.group] = counts.get(box.group, 0) + 1
        return tuple(sorted(counts, key=lambda group: (group not in providers, -counts[group], group)))
