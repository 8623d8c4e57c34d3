"""Line charts as SVG: axes with round ticks, units in the axis titles, a legend by colour, dash and marker.

A curve with more points than pixels is drawn as the range of each bin, so that no extreme is lost; the chart says so.
Values that are not finite (or beyond 1e±290) are marked at the top and interrupt the line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlean.record import record
from torchlean.report.drawing import COLOURS, SHAPES
from torchlean.report.escape import markup, visible
from torchlean.report.view import Chart, Curve

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 74, 18, 34, 50
BINS = 600  # most points drawn of one curve, two for each bin
_LOG_FROM = 50.0  # largest ÷ smallest value from which the y axis is logarithmic
_DASHES = ("", "7 4", "2 3", "9 3 2 3")


@record
class Scale:
    """A linear or logarithmic axis from `low` to `high`, and where its ticks are."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)


def is_drawn(value: float) -> bool:
    """Whether a value has a place on an axis: it is finite, and arithmetic on it will not overflow."""
    return abs(value) < 1e290 and (value == 0 or abs(value) > 1e-290)


def linear(values: Sequence[float], wanted: int) -> Scale:
    """An axis whose ticks are 1, 2 or 5 times a power of ten apart and enclose the values."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * size:  # as good as equal; ticks between them would be the same number
        spread = size / 10 or 1.0
        low, high = low - spread, high + spread
    raw = high / wanted - low / wanted  # the difference itself may overflow
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple([at * step for at in range(first, last + 1)])
    return Scale(low=ticks[0], high=ticks[-1], log=False, ticks=ticks)


def logarithmic(values: Sequence[float]) -> Scale:
    """Whole powers of ten that enclose the values; at most eight ticks."""
    first = math.floor(math.log10(min(values)) + 1e-9)
    last = max(math.ceil(math.log10(max(values)) - 1e-9), first + 1)
    stride = max(1, math.ceil((last - first) / 7))
    last = first + stride * math.ceil((last - first) / stride)
    ticks = tuple([10.0**at for at in range(first, last + 1, stride)])
    return Scale(low=ticks[0], high=ticks[-1], log=True, ticks=ticks)


def scales(chart: Chart) -> tuple[Scale, Scale] | None:
    """The axes; None when no value is finite. A loss that falls by much is shown on a logarithmic axis."""
    points = [point for curve in chart.curves for point in curve.points]
    ys = [y for _, y in points if is_drawn(y)]
    if not ys:
        return None
    x_scale = linear([x for x, _ in points], 7)
    if min(ys) > 0 and max(ys) / min(ys) >= _LOG_FROM:
        return x_scale, logarithmic(ys)
    return x_scale, linear(ys, 5)


def thinned(curve: Curve) -> tuple[tuple[float, float], ...]:
    """The points to draw: all, or the lowest and highest of each of `BINS` equal runs, in order."""
    points = curve.points
    if len(points) <= 2 * BINS:
        return points
    kept: list[tuple[float, float]] = []
    for at in range(BINS):
        run = range(at * len(points) // BINS, (at + 1) * len(points) // BINS)
        finite = [i for i in run if is_drawn(points[i][1])]
        broken = [i for i in run if not is_drawn(points[i][1])][:1]
        ends = [min(finite, key=lambda i: points[i][1]), max(finite, key=lambda i: points[i][1])] if finite else []
        kept += [points[i] for i in sorted({*ends, *broken})]
    return tuple(kept)


def chart_svg(chart: Chart, number: int) -> str:
    """The chart as SVG; its points are in the page's data for whoever points at them."""
    found = scales(chart)
    title = markup(f"{chart.title}: {chart.y_axis} by {chart.x_axis}")
    if found is None:
        return f'<p class="note">{title}: no value is finite, so there is nothing to draw.</p>'
    x_scale, y_scale = found
    parts = [
        f'<svg class="chart" id="chart{number}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{title}"><title>{title}</title>',
        *_axes(chart, x_scale, y_scale),
    ]
    for position, curve in enumerate(chart.curves):
        parts += _line(curve, position, x_scale, y_scale)
    parts += _legend(chart)
    parts.append('<g class="cursor" visibility="hidden"><path/><circle r="4"/></g></svg>')
    return "\n".join(parts)


def chart_data(chart: Chart) -> dict[str, Any] | None:
    """What the page's script needs to name the point under a pointer: the drawn points, in pixels and in words."""
    found = scales(chart)
    if found is None:
        return None
    x_scale, y_scale = found
    points = [
        [_x(x_scale, x), _y(y_scale, y), position, _short(x), f"{y:.6g}"]
        for position, curve in enumerate(chart.curves)
        for x, y in thinned(curve)
        if is_drawn(y)
    ]
    points.sort(key=lambda point: (point[0], point[2]))
    return {"x": visible(chart.x_axis), "names": [visible(curve.name) for curve in chart.curves], "points": points}


def _x(scale: Scale, value: float) -> float:
    return round(LEFT + scale.share(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(scale: Scale, value: float) -> float:
    return round(HEIGHT - BOTTOM - scale.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def _axes(chart: Chart, x_scale: Scale, y_scale: Scale) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = ['<g class="axis">']
    for tick in y_scale.ticks:
        y = _y(y_scale, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{_short(tick)}</text>')
    for tick in x_scale.ticks:
        x = _x(x_scale, tick)
        parts.append(
            f'<path d="M{x} {bottom}v5"/><text x="{x}" y="{bottom + 19}" text-anchor="middle">{_short(tick)}</text>'
        )
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    middle = (LEFT + right) // 2
    parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{markup(chart.x_axis)}</text>')
    scale = ", logarithmic" if y_scale.log else ""
    turned = f'transform="translate(16 {(TOP + bottom) // 2}) rotate(-90)"'
    parts.append(f'<text class="name" {turned} text-anchor="middle">{markup(chart.y_axis)}{scale}</text></g>')
    return parts


def _line(curve: Curve, position: int, x_scale: Scale, y_scale: Scale) -> list[str]:
    points = thinned(curve)
    runs: list[list[str]] = [[]]
    parts: list[str] = []
    for x, y in points:
        if is_drawn(y):
            runs[-1].append(f"{_x(x_scale, x)} {_y(y_scale, y)}")
        else:
            runs.append([])
            parts.append(f'<path class="broken" d="M{_x(x_scale, x) - 4} {TOP}l8 8m0-8l-8 8"><title>{y}</title></path>')
    path = "".join([f"M{'L'.join(run)}" + ("h.01" if len(run) == 1 else "") for run in runs if run])
    dash = f' stroke-dasharray="{_DASHES[position % 4]}"' if position % 4 else ""
    line = f'<path class="line c{position % COLOURS}"{dash} d="{path}"/>' if curve.joined else ""
    marks = [
        _mark(position, _x(x_scale, x), _y(y_scale, y), f"{curve.name}: {y:.6g} at {_short(x)}")
        for x, y in points
        if is_drawn(y) and (len(points) <= 40 or not curve.joined)
    ]
    return [line, *marks, *parts]


def _mark(position: int, x: float, y: float, title: str) -> str:
    told = f"<title>{markup(title)}</title>" if title else ""
    place = f'transform="translate({round(x - 4, 1)} {round(y - 4, 1)}) scale(.8)"'
    return f'<path class="mark c{position % COLOURS}" {place} d="{SHAPES[position % COLOURS]}">{told}</path>'


def _legend(chart: Chart) -> list[str]:
    parts: list[str] = []
    x = LEFT
    for position, curve in enumerate(chart.curves):
        name = visible(curve.name)
        many = len(curve.points)
        if many > 2 * BINS:
            name += f" ({many} points, lowest and highest of each {math.ceil(many / BINS)})"
        dash = f' stroke-dasharray="{_DASHES[position % 4]}"' if position % 4 else ""
        if curve.joined:
            parts.append(f'<path class="line c{position % COLOURS}"{dash} d="M{x} 14h26"/>')
        parts.append(_mark(position, x + 13, 14, ""))
        parts.append(f'<text x="{x + 33}" y="18">{markup(name)}</text>')
        x += 33 + 7 * len(name) + 24
    return parts


def _short(value: float) -> str:
    """A tick as people write it."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        return f"{value:.6g}"
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
