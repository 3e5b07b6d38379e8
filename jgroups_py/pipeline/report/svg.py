"""Small charts as inline SVG: scales, ticks, lines, bands, bars. A colour is the number of a class in style.py.

Each picture is made twice, for WIDE and for NARROW screens, and the style sheet shows one of them: so letters are of
one size on a phone and on a desk, also without a script. With one (script.py), a chart over time is drawn again in the
width that it has, from the same values.
"""
from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Literal

import attrs

WIDE, HALF, NARROW = 960, 480, 360
HEIGHT = 250
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 30
TICKS, NARROW_TICKS = 6, 3
Point = tuple[float, float]


def nice_step(span: float, ticks: int = TICKS) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides the span into about `ticks` parts.

    >>> nice_step(10), nice_step(0.7), nice_step(900)
    (2.0, 0.2, 200.0)
    """
    raw = span / ticks if span > 0 else 1.0
    power = float(10 ** math.floor(math.log10(raw)))
    return min((power * times for times in (1, 2, 5, 10) if power * times >= raw * 0.999), default=power)


def linear_ticks(low: float, high: float) -> list[float]:
    """Round values from `low` to `high`."""
    step = nice_step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, int(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0 ** power for power in range(first, last + 1)]


def duration(value_s: float) -> str:
    """Seconds in a readable unit.

    >>> duration(0), duration(0.00025), duration(0.0123), duration(3.2), duration(90), duration(7200)
    ('0', '250 µs', '12.3 ms', '3.2 s', '1.5 min', '2 h')
    """
    if value_s == 0:
        return "0"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (60, 1, "s"), (3600, 1 / 60, "min"),
                                (math.inf, 1 / 3600, "h")):
        if abs(value_s) < limit:
            return f"{value_s * factor:.3g} {unit}"
    raise AssertionError("the last limit has no end")


def short(value: float) -> str:
    """A number of three digits with a unit prefix.

    >>> short(0), short(1234), short(5_600_000), short(0.5)
    ('0', '1.23k', '5.6M', '0.5')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


@attrs.frozen
class Scale:
    """Where times stand in a picture: from `left` to RIGHT before its width. stop: seconds at the right end."""

    width: int
    stop: float
    left: int = LEFT

    def x(self, value: float) -> float:
        """The x coordinate of a time."""
        return self.left + (self.width - self.left - RIGHT) * min(1.0, max(0.0, value / (self.stop or 1)))


def in_both_widths(draw: Callable[[int], str], wide: int = WIDE) -> str:
    """A picture for wide and for narrow screens. draw: width -> SVG."""
    return f'<div class="on-wide">{draw(wide)}</div><div class="on-narrow">{draw(NARROW)}</div>'


@attrs.define(eq=False)
class Chart:
    """One chart over time. x: seconds since the beginning; y: from `low` to `high`, in powers of ten if `log`.

    name: what it shows, for those who do not see it. unit: of its values. wide: its width on wide screens.
    """

    name: str
    x_stop: float
    low: float
    high: float
    log: bool = False
    unit: Literal["duration", "count", "rate"] = "count"
    height: int = HEIGHT
    wide: int = WIDE
    lines: list[tuple[int, str, Sequence[Point]]] = attrs.Factory(list)
    bands: list[tuple[int, Sequence[tuple[float, float, float]]]] = attrs.Factory(list)
    dots: list[tuple[int, Sequence[tuple[float, float, str]]]] = attrs.Factory(list)
    marks: list[tuple[float, str]] = attrs.Factory(list)

    def line(self, points: Iterable[Point], colour: int, name: str) -> None:
        """Draw a line through the points."""
        self.lines.append((colour, name, tuple(points)))

    def band(self, points: Sequence[tuple[float, float, float]], colour: int) -> None:
        """Fill the area between two lines. points: (x, lower, upper)."""
        self.bands.append((colour, points))

    def dot(self, points: Sequence[tuple[float, float, str]], colour: int) -> None:
        """Draw dots. points: (x, y, text of the tooltip)."""
        self.dots.append((colour, points))

    def mark(self, x: float, word: str) -> None:
        """Draw a vertical line with a tooltip."""
        self.marks.append((x, word))

    def shown(self, value: float) -> str:
        """A value with its unit."""
        return duration(value) if self.unit == "duration" else short(value) + ("/s" if self.unit == "rate" else "")

    def y(self, value: float) -> float:
        """The y coordinate of a value."""
        if self.log:
            value, low, high = (math.log10(max(each, self.low)) for each in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        share = (value - low) / (high - low) if high > low else 0.0
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * min(1.0, max(0.0, share))

    def __str__(self) -> str:
        values = json.dumps(self.values(), separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
        return (f'<figure class="plot" role="group" aria-label="{escape(self.name)}">'
                f'{in_both_widths(self.svg, self.wide)}<script type="application/json">{values}</script></figure>')

    def values(self) -> dict[str, Any]:
        """What script.py draws."""
        return {"stop": self.x_stop, "low": self.low, "high": self.high, "log": self.log, "unit": self.unit,
                "height": self.height, "marks": self.marks,
                "bands": [(c, _rounded(points)) for c, points in self.bands],
                "lines": [(c, name, _rounded(points)) for c, name, points in self.lines],
                "dots": [(c, [(*_rounded([(x, y)])[0], word) for x, y, word in points]) for c, points in self.dots]}

    def svg(self, width: int) -> str:
        """The chart in this width."""
        scale, parts = Scale(width, self.x_stop), []
        for value in log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high):
            at = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                         f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
                         f'{escape(self.shown(value))}</text>')
        parts.append(time_axis(scale, self.height))
        for x, word in self.marks:
            at = scale.x(x)
            parts.append(f'<g class="mark"><line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{self.height - BOTTOM}"/>'
                         f'<title>{escape(word)}</title></g>')
        for colour, area in self.bands:
            edge = [f"{scale.x(x):.1f},{self.y(high):.1f}" for x, _, high in area]
            edge += [f"{scale.x(x):.1f},{self.y(low):.1f}" for x, low, _ in reversed(area)]
            parts.append(f'<polygon class="band f{colour}" points="{" ".join(edge)}"/>')
        for colour, _, points in self.lines:
            found = " ".join(f"{scale.x(x):.1f},{self.y(y):.1f}" for x, y in points)
            parts.append(f'<polyline class="line c{colour}" points="{found}"/>')
        for colour, dots in self.dots:
            parts += [f'<circle class="f{colour}" cx="{scale.x(x):.1f}" cy="{self.y(y):.1f}" r="2.2">'
                      f'<title>{escape(word)}</title></circle>' for x, y, word in dots]
        return f'<svg viewBox="0 0 {width} {self.height}" role="img">{"".join(parts)}</svg>'


def _rounded(points: Iterable[Sequence[float]]) -> list[tuple[float, ...]]:
    """Values with five digits: a pixel is less."""
    return [tuple(float(f"{value:.5g}") for value in point) for point in points]


def time_axis(scale: Scale, height: int) -> str:
    """The time axis along the bottom, with ticks."""
    found, top = [], height - BOTTOM
    step = nice_step(scale.stop, TICKS if scale.width == WIDE else NARROW_TICKS)
    for value in (step * number for number in range(int(scale.stop / step + 1e-9) + 1)):
        at = scale.x(value)
        found.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + 4}"/>'
                     f'<text class="tick" x="{at:.1f}" y="{top + 18}" text-anchor="middle">'
                     f'{escape(duration(round(value, 12)))}</text>')
    return (f'<line class="axis" x1="{scale.left}" x2="{scale.width - RIGHT}" y1="{top}" y2="{top}"/>'
            + "".join(found))


def bars(lines: Sequence[tuple[str, float, str, int]]) -> str:
    """A chart of horizontal bars. lines: (name, value, its text, colour). A name stands above its bar."""
    most = max((value for _, value, _, _ in lines), default=0) or 1
    room = NARROW - 120
    found = []
    for number, (name, value, shown, colour) in enumerate(lines):
        top = 34 * number + 12
        width = max(1.5, room * value / most)
        found.append(f'<text class="name" x="0" y="{top}">{escape(name)}</text>'
                     f'<rect class="f{colour}" x="0" y="{top + 4}" width="{width:.1f}" height="14" rx="3"/>'
                     f'<text class="tick" x="{width + 7:.1f}" y="{top + 15}">{escape(shown)}</text>')
    return f'<svg class="bars" viewBox="0 0 {NARROW} {34 * len(lines) + 4}" role="img">{"".join(found)}</svg>'
