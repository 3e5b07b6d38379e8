"""The view timeline: a lane for the views of each site, below it one for the lives of each member; incidents are lines
across all lanes."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from jgroups_py.pipeline.report.svg import BOTTOM, LEFT, NARROW, TOP, Scale, duration, in_both_widths, time_axis

LANE, BAR = 27, 19
LETTER_WIDTH = 7.2
Line = Mapping[str, Any]


class Lanes:
    """Lanes over time, drawn from top to bottom."""

    def __init__(self, begin_ns: int, scale: Scale) -> None:
        self.begin_ns, self.scale = begin_ns, scale
        self.top = TOP
        self.parts: list[str] = []

    def at(self, wall_ns: int) -> float:
        """The x coordinate of a time of the wall clock."""
        return self.scale.x((wall_ns - self.begin_ns) / 1e9)

    def lane(self, name: str, style: str = "name") -> None:
        """Begin a lane with its name on the left, as much of it as fits."""
        room = int((self.scale.left - 12) / LETTER_WIDTH)
        shown = name if len(name) <= room else name[:room - 1] + "…"
        self.parts.append(f'<text class="{style}" x="{self.scale.left - 10}" y="{self.top + 14}" text-anchor="end">'
                          f'{escape(shown)}<title>{escape(name)}</title></text>')

    def bar(self, first_ns: int, stop_ns: int, style: str, word: str, title: str) -> None:
        """Add a bar to the lane, labelled with as much of the word as fits."""
        first, width = self.at(first_ns), max(2.0, self.at(stop_ns) - self.at(first_ns) - 1)
        room = int((width - 8) / LETTER_WIDTH)
        shown = word if len(word) <= room else word[:room - 1] + "…" if room > 3 else ""
        self.parts.append(
            f'<g><rect class="{style}" x="{first:.1f}" y="{self.top}" width="{width:.1f}" height="{BAR}" rx="4"/>'
            f'<text class="inside" x="{first + 6:.1f}" y="{self.top + 14}">{escape(shown)}</text>'
            f'<title>{escape(title)}</title></g>')

    def end(self, wall_ns: int, stopped: bool, title: str) -> None:
        """Mark the end of a life: a dot if the member stopped in good order, else a cross."""
        x, y = self.at(wall_ns), self.top + BAR / 2
        shape = (f'<circle class="left" cx="{x:.1f}" cy="{y}" r="4.5"/>' if stopped else
                 f'<path class="crash" d="M{x - 5:.1f},{y - 5}l10,10m0,-10l-10,10"/>')
        self.parts.append(f"<g>{shape}<title>{escape(title)}</title></g>")

    def diamond(self, wall_ns: int, ident: str, style: str, title: str) -> None:
        """Mark a time in the lane; a link to `ident`, if there is one, leads to it."""
        x, y = self.at(wall_ns), self.top + BAR / 2
        name = f' id="{ident}"' if ident else ""
        self.parts.append(f'<g{name} class="at {style}"><path d="M{x:.1f},{y - 7}l6,7l-6,7l-6,-7z"/>'
                          f'<title>{escape(title)}</title></g>')

    def next(self, more: int = 0) -> None:
        """Go down to the next lane, `more` pixels further than usual."""
        self.top += LANE + more

    def __str__(self) -> str:
        height = self.top + BOTTOM
        return (f'<svg viewBox="0 0 {self.scale.width} {height}" role="img">'
                f'{time_axis(self.scale, height)}{"".join(self.parts)}</svg>')


def view_timeline(
    views: Sequence[Line], lives: Sequence[Line], incidents: Sequence[Line], begin_ns: int, stop_s: float,
    colours: Mapping[str, int], findings: Sequence[Line] = (),
) -> str:
    """Views, lives, incidents and findings as one picture. findings: {"wall_ns", "ident", "tone", "word"}."""
    return in_both_widths(lambda width: _picture(
        views, lives, incidents, Lanes(begin_ns, Scale(width, stop_s, LEFT)), colours, findings))


def _picture(
    views: Sequence[Line], lives: Sequence[Line], incidents: Iterable[Line], lanes: Lanes, colours: Mapping[str, int],
    findings: Sequence[Line],
) -> str:
    for site in sorted({view["site"] or "" for view in views}):
        lanes.lane(site or "group", "site")
        for number, view in enumerate(view for view in views if (view["site"] or "") == site):
            counter = int(view["view_id"].partition("|")[0], 16)
            what = "".join(f"; {word} {view[word]}" for word in ("joined", "left") if view[word])
            lanes.bar(view["begin_ns"], view["end_ns"], f"view f{colours[site]} shade{number % 2}", view["members"],
                      f"view {counter}: {view['members']}; coordinator {view['coordinator']}{what}; "
                      f"{duration((view['end_ns'] - view['begin_ns']) / 1e9)}")
        lanes.next()
        found = [life for life in lives if (life["site"] or "") == site]
        for member in sorted({life["member"] for life in found}):
            lanes.lane(member)
            for life in (life for life in found if life["member"] == member):
                lanes.bar(life["begin_ns"], life["end_ns"], f"life f{colours[site]}", "",
                          f"{member}, {life['incarnation'][:8]}")
                lanes.end(life["end_ns"], life["stopped"], f"{member} "
                          + ("stopped in good order" if life["stopped"] else "has no end: it crashed, or still runs"))
            lanes.next()
        lanes.next(-LANE + 10)
    if findings:
        lanes.next(10)
        lanes.lane("findings", "site")
        for finding in findings:                             # an id stands once in a page: in the wide picture
            ident = "" if lanes.scale.width == NARROW else str(finding["ident"])
            lanes.diamond(finding["wall_ns"], ident, finding["tone"], finding["word"])
        lanes.next()
    bottom = lanes.top
    for incident in incidents:
        x = lanes.at(incident["wall_ns"])
        lanes.parts.append(f'<g class="mark"><line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
                           f'<title>{escape(incident["word"])}</title></g>')
    return str(lanes)
