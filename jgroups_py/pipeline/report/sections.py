"""The sections of the report: each makes HTML from a job's tables, "" if that job has not run."""
from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import pairwise

from jgroups_py.pipeline.audit.judge import FAULTS
from jgroups_py.pipeline.report.audit import audit, sorted_findings, times_of
from jgroups_py.pipeline.report.facts import Line, ReportFacts, key, mark_incidents, name_at, route_name, site_name
from jgroups_py.pipeline.report.gantt import view_timeline
from jgroups_py.pipeline.report.lag import lag
from jgroups_py.pipeline.report.svg import Chart, bars, duration, short
from jgroups_py.pipeline.terminal_summary import finding_line


def timeline(facts: ReportFacts) -> str:
    """Views, lives, and the gap around each incident."""
    views = facts.lines("views")
    if not views:
        return ""
    findings = [{"wall_ns": times_of(line), "ident": ident, "tone": "bad" if line["fault"] in FAULTS else "warn",
                 "word": finding_line(line)} for ident, line in sorted_findings(facts) if times_of(line)]
    picture = view_timeline(views, facts.lines("lives"), facts.incidents, facts.begin_ns, facts.stop_s, facts.colours,
                            findings)
    return ("<h2>Views</h2><p>Each site's views with their members, and below them the lifetimes of members: a dot is "
            "an end in good order, a cross any other. Dashed lines are crashes and leaves, diamonds what the audit "
            "found.</p>" + picture + gaps(facts))


def gaps(facts: ReportFacts) -> str:
    """The longest silence around each incident."""
    lines = facts.lines("gaps")
    if not lines:
        return ""
    parts = []
    for incident in facts.incidents:
        around = sorted((line for line in lines if line["wall_ns"] == incident["wall_ns"]),
                        key=lambda line: (line["origin_site"] != line["site"], line["origin_site"], line["site"]))
        shown = [(route_name(line), line["gap_ns"] / 1e9, duration(line["gap_ns"] / 1e9),
                  facts.colours.get(line["origin_site"] or "", 0)) for line in around]
        parts.append(f"<div><h3>{escape(incident['word'])}, at {duration(facts.second(incident['wall_ns']))}</h3>"
                     f"{bars(shown)}</div>")
    return ("<h2>Gap around each incident</h2><p>The longest time without a delivery, from and at each site. Pauses "
            "shorter than the job's pause_ns (50 ms by default) do not count.</p><div class=half>" + "".join(parts)
            + "</div>")


# --- traffic --------------------------------------------------------------------------------------------------------

def throughput(facts: ReportFacts) -> str:
    """Deliveries a second at each site."""
    lines = [line for line in facts.lines("throughput") if line["kind"] == "delivered"]
    begins = sorted({line["begin_ns"] for line in lines})
    if len(begins) < 2:
        return ""
    window_s = min(b - a for a, b in pairwise(begins)) / 1e9
    chart = Chart("Throughput", facts.stop_s, 0, max(line["messages"] for line in lines) / window_s, height=210,
                  unit="rate")
    mark_incidents(facts, chart)
    for site, colour in facts.colours.items():
        found = {line["begin_ns"]: line["messages"] / window_s for line in lines if (line["site"] or "") == site}
        if found:
            points = [(facts.second(begin) + window_s / 2, found.get(begin, 0.0)) for begin in begins]
            chart.band([(x, 0.0, y) for x, y in points], colour)
            chart.line(points, colour, site_name(site))
    return ("<h2>Throughput</h2><p>Messages delivered a second, all members of a site together.</p>"
            + key((site_name(site), colour) for site, colour in facts.colours.items()) + str(chart))


def traffic(facts: ReportFacts) -> str:
    """The top talkers, the topics, and the sizes of messages."""
    parts = []
    for name, title, word in (("talkers", "Top talkers", _talker), ("topics", "Topics", _topic),
                              ("sizes", "Sizes", _size)):
        lines = facts.lines(name)
        shown = [(word(line), float(line["messages"]), f"{line['messages']:,} · {short(line['bytes'])}B",
                  facts.colours.get(line.get("origin_site") or "", 7) if name == "talkers" else 6)
                 for line in lines[:10] if word(line)]
        if shown:
            parts.append(f"<div><h3>{title}</h3>{bars(shown)}</div>")
    return f"<h2>Traffic</h2><p>Messages and bytes as sent.</p><div class=half>{''.join(parts)}</div>" if parts else ""


def _talker(line: Line) -> str:
    return name_at(line["origin_name"], line["origin_site"])


def _topic(line: Line) -> str:
    return str(line["topic"] or "")


def _size(line: Line) -> str:
    return f"below {short(line['size_below'])}B"


SECTIONS: tuple[Callable[[ReportFacts], str], ...] = (audit, timeline, lag, throughput, traffic)
