"""What the sections of the report share: the tables as lines, the time, colours of sites, incidents, HTML tables."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import attrs

from jgroups_py.pipeline.report.svg import Chart

Line = Mapping[str, Any]
COLOURS = 8


@attrs.define(eq=False)
class ReportFacts:
    """All tables as lines, and what the sections share: begin and length of the time, colours of sites, incidents."""

    tables: Mapping[str, Sequence[Line]]
    begin_ns: int
    stop_s: float
    colours: Mapping[str, int]
    incidents: Sequence[Line]

    @classmethod
    def of(cls, tables: Mapping[str, Sequence[Line]]) -> ReportFacts:
        """Facts from the tables that are there."""
        begins = [line[name] for table, name in (("lives", "begin_ns"), ("throughput", "begin_ns"),
                                                 ("lag", "begin_ns")) for line in tables.get(table, ())]
        ends = [line["end_ns"] for table in ("lives", "backlog") for line in tables.get(table, ())]
        ends += [line["begin_ns"] for table in ("throughput", "lag") for line in tables.get(table, ())]
        lives = tables.get("lives", ())
        begin_ns = min((line["begin_ns"] for line in lives), default=min(begins, default=0))
        stop_ns = max((line["end_ns"] for line in lives), default=max(ends, default=begin_ns))
        sites = sorted({line["site"] or "" for name in ("pairs", "lives", "lag_summary", "throughput", "received")
                        for line in tables.get(name, ())})
        return cls(tables, begin_ns, max((stop_ns - begin_ns) / 1e9, 1e-6),
                   {site: number % COLOURS for number, site in enumerate(sites)}, _incidents(tables.get("gaps", ())))

    def second(self, wall_ns: int) -> float:
        """Seconds since the beginning."""
        return (wall_ns - self.begin_ns) / 1e9

    def lines(self, name: str) -> Sequence[Line]:
        """The lines of a table, none if it is not there."""
        return self.tables.get(name, ())


def _incidents(gaps: Iterable[Line]) -> list[Line]:
    found: dict[tuple[int, str], Line] = {}
    for line in gaps:
        found.setdefault((line["wall_ns"], line["members"]), {
            "wall_ns": line["wall_ns"],
            "word": f"{line['members']} of {line['at_site'] or 'the group'}: {line['what']}"})
    return list(found.values())


def site_name(site: str | None) -> str:
    """The name of a site in the report."""
    return site or "the group"


def route_name(line: Line) -> str:
    """The direction of a line with origin_site and site."""
    return f"{site_name(line['origin_site'])} → {site_name(line['site'])}"


def name_at(name: str | None, site: str | None) -> str:
    """A member and its site."""
    return f"{name}@{site}" if site else name or "?"


def mark_incidents(facts: ReportFacts, chart: Chart) -> None:
    """Draw the incidents as vertical lines across a chart."""
    for incident in facts.incidents:
        chart.mark(facts.second(incident["wall_ns"]), incident["word"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """An HTML table; its first `texts` columns are text, the others numbers."""
    top = "".join(f'<th{" class=l" if at < texts else ""}>{escape(name)}</th>' for at, name in enumerate(head))
    body = "".join("<tr>" + "".join(f'<td{" class=l" if at < texts else " class=zero" if cell == "0" else ""}>'
                                    f'{escape(cell)}</td>' for at, cell in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


def key(names: Iterable[tuple[str, int]]) -> str:
    """The legend of the colours."""
    return '<div class="key">' + "".join(f'<span><i class="f{colour}"></i>{escape(name)}</span>'
                                         for name, colour in names) + "</div>"
