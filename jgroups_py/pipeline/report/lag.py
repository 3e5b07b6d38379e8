"""The section of the delays: a small plot for each direction, the summary, the clocks, the backlog."""
from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from jgroups_py.pipeline.report.facts import Line, ReportFacts, mark_incidents, route_name, table
from jgroups_py.pipeline.report.svg import HALF, Chart, duration


def lag(facts: ReportFacts) -> str:
    """Delay over time for each pair of sites, the summary, the clocks, the backlog."""
    summary = facts.lines("lag_summary")
    if not summary:
        return ""
    rows = [[route_name(line), f"{line['messages']:,}",
             *(duration(line[name] / 1e9) for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")),
             f"{line['max_backlog']:,}", duration(line["rpo_ns"] / 1e9), duration(line["rto_ns"] / 1e9),
             "unknown" if line["clock_error_ns"] is None else f"± {duration(line['clock_error_ns'] / 1e9)}"]
            for line in summary]
    head = ["from → at", "deliveries", "p50", "p99", "p99.9", "max", "backlog", "RPO", "RTO", "clock error"]
    return ("<h2>Lag</h2><p>From sending to delivery, by when it was sent, a plot for each direction in the colour of "
            "the site that sends, all with one scale: the line is the median, the band reaches to p99, dots are the "
            "slowest message of each window.</p>" + lag_charts(facts, summary) + table(head, rows)
            + "<p>RPO: age of the oldest message that was missing at the worst moment. RTO: the longest silence while "
            "something was being sent.</p>" + clocks(facts.lines("clocks")) + backlog(facts, summary))


def lag_charts(facts: ReportFacts, summary: Sequence[Line]) -> str:
    """Median, p99 and maximum, a chart for each direction, all with one scale."""
    lines = facts.lines("lag")
    values = [line[name] / 1e9 for line in lines for name in ("p50_ns", "max_ns") if line[name] > 0]
    if not values:
        return ""
    low, high = 10.0 ** _floor(min(values)), 10.0 ** (_floor(max(values)) + 1)
    parts = []
    for direction in summary:
        route, name = (direction["origin_site"], direction["site"]), route_name(direction)
        found = [line for line in lines if (line["origin_site"], line["site"]) == route]
        half_s = (found[1]["begin_ns"] - found[0]["begin_ns"]) / 2e9 if len(found) > 1 else 0
        points = [(facts.second(line["begin_ns"]) + half_s, line) for line in found]
        chart = Chart(f"Lag {name}", facts.stop_s, low, high, log=True, unit="duration", height=200,
                      wide=HALF)
        colour = facts.colours.get(route[0] or "", 0)
        mark_incidents(facts, chart)
        chart.band([(x, line["p50_ns"] / 1e9, line["p99_ns"] / 1e9) for x, line in points], colour)
        chart.line([(x, line["p50_ns"] / 1e9) for x, line in points], colour, "median")
        chart.dot([(x, line["max_ns"] / 1e9, f"{name} at {duration(x)}: max {duration(line['max_ns'] / 1e9)}, "
                    f"p99 {duration(line['p99_ns'] / 1e9)}, p50 {duration(line['p50_ns'] / 1e9)}, "
                    f"{line['messages']:,} deliveries") for x, line in points], colour)
        parts.append(f'<div><h3><i class="f{colour}"></i>{escape(name)}</h3>{chart}</div>')
    return f'<div class="half">{"".join(parts)}</div>'


def _floor(value: float) -> int:
    return math.floor(math.log10(value))


def clocks(lines: Sequence[Line]) -> str:
    """The offsets between the clocks of hosts."""
    if not lines:
        return "<p>All recorders share one host's clock, so nothing had to be corrected.</p>"
    rows = [[line["here"], line["there"], f"{line['offset_ns'] / 1e6:+.3f} ms",
             "unknown" if line["error_ns"] is None else f"± {line['error_ns'] / 1e6:.3f} ms", line["how"]]
            for line in lines]
    return ("<h3>Clocks: how much the second host's is ahead; subtracted from the delays above</h3>"
            + table(["host", "other host", "ahead by", "at most off by", "from"], rows, texts=2))


def backlog(facts: ReportFacts, summary: Sequence[Line]) -> str:
    """The messages that another site did not have yet, over time, a chart for each direction with any."""
    lines = facts.lines("backlog")
    most = max((line["messages"] for line in lines), default=0)
    parts = []
    for direction in summary:
        route, name = (direction["origin_site"], direction["site"]), route_name(direction)
        points = [(facts.second(line["end_ns"]), line["messages"]) for line in lines
                  if (line["origin_site"], line["site"]) == route]
        if not any(number for _, number in points):
            continue
        chart = Chart(f"Backlog {name}", facts.stop_s, 0, most, height=150, wide=HALF)
        colour = facts.colours.get(route[0] or "", 0)
        mark_incidents(facts, chart)
        chart.line(points, colour, "messages")
        parts.append(f'<div><h3><i class="f{colour}"></i>{escape(name)}</h3>{chart}</div>')
    if not parts:
        return ""
    return ("<h3>Backlog: messages of a site that the other did not have yet, at the end of each window</h3>"
            f'<div class="half">{"".join(parts)}</div>')
