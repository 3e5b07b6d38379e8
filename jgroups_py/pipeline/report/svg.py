"""Small charts as inline SVG: scales, ticks, lines, bands, bars. A colour is the number of a class in style.py."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

import attrs

WIDTH, HEIGHT = 960, 250
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 30
TICKS = 6
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


@attrs.define(eq=False)
class Chart:
    """One chart over time. x: seconds since the beginning; y: from `low` to `high`, in powers of ten if `log`."""

    x_stop: float
    low: float
    high: float
    log: bool = False
    unit: Callable[[float], str] = short
    height: int = HEIGHT
    parts: list[str] = attrs.Factory(list)

    def x(self, value: float) -> float:
        """The x coordinate of a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, value / (self.x_stop or 1)))

    def y(self, value: float) -> float:
        """The y coordinate of a value."""
        if self.log:
            value, low, high = (math.log10(max(each, self.low)) for each in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        share = (value - low) / (high - low) if high > low else 0.0
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * min(1.0, max(0.0, share))

    def line(self, points: Iterable[Point], colour: int, style: str = "") -> None:
        """Draw a line through the points."""
        found = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="line c{colour} {style}" points="{found}"/>')

    def band(self, points: Sequence[tuple[float, float, float]], colour: int) -> None:
        """Fill the area between two lines. points: (x, lower, upper)."""
        upper = [f"{self.x(x):.1f},{self.y(high):.1f}" for x, _, high in points]
        lower = [f"{self.x(x):.1f},{self.y(low):.1f}" for x, low, _ in reversed(points)]
        self.parts.append(f'<polygon class="band f{colour}" points="{" ".join(upper + lower)}"/>')

    def dots(self, points: Iterable[tuple[float, float, str]], colour: int, radius: float = 2.2) -> None:
        """Draw dots. points: (x, y, text of the tooltip)."""
        for x, y, word in points:
            self.parts.append(f'<circle class="f{colour}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius}">'
                              f'<title>{escape(word)}</title></circle>')

    def mark(self, x: float, word: str, style: str = "") -> None:
        """Draw a vertical line with a tooltip."""
        at = self.x(x)
        self.parts.append(f'<g class="mark {style}"><line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" '
                          f'y2="{self.height - BOTTOM}"/><title>{escape(word)}</title></g>')

    def __str__(self) -> str:
        grid = []
        for value in log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high):
            at = self.y(value)
            grid.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                        f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
                        f'{escape(self.unit(value))}</text>')
        axis = time_axis(self.x, self.x_stop, self.height)
        return (f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img">{"".join(grid)}{axis}{"".join(self.parts)}</svg>')


def time_axis(x: Callable[[float], float], stop: float, height: int) -> str:
    """The time axis along the bottom, with ticks. x: from a time to its coordinate."""
    found, top = [], height - BOTTOM
    for value in linear_ticks(0, stop):
        at = x(value)
        found.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + 4}"/>'
                     f'<text class="tick" x="{at:.1f}" y="{top + 18}" text-anchor="middle">'
                     f'{escape(duration(value))}</text>')
    return f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top}" y2="{top}"/>' + "".join(found)


def bars(lines: Sequence[tuple[str, float, str, int]]) -> str:
    """A chart of horizontal bars. lines: (name, value, its text, colour)."""
    most = max((value for _, value, _, _ in lines), default=0) or 1
    height = 26 * len(lines) + 4
    left, room = 170, WIDTH // 2 - 170 - 90
    found = []
    for number, (name, value, shown, colour) in enumerate(lines):
        top = 26 * number + 4
        width = max(1.5, room * value / most)
        found.append(f'<text class="name" x="{left - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>'
                     f'<rect class="f{colour}" x="{left}" y="{top}" width="{width:.1f}" height="18" rx="3"/>'
                     f'<text class="tick" x="{left + width + 7:.1f}" y="{top + 14}">{escape(shown)}</text>')
    return f'<svg viewBox="0 0 {WIDTH // 2} {height}" role="img">{"".join(found)}</svg>'
