"""The sections of the report: each makes HTML from a job's tables, "" if that job has not run."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import attrs

from jgroups_py.pipeline.audit.judge import CLEAN, FAULTS, FAULTY, INCOMPLETE, verdict
from jgroups_py.pipeline.report.gantt import view_timeline
from jgroups_py.pipeline.report.svg import Chart, bars, duration, short
from jgroups_py.pipeline.terminal_summary import member_of

Line = Mapping[str, Any]
COLOURS = 8
SHOWN_FINDINGS = 60
WORST_NAMES = {"lost": "lost", "duplicated": "twice", "out_of_order": "out of order", "not_sent": "never sent",
               "other_set": "other set", "declared_lost": "declared lost",
               "skipped": "skipped", "pending": "pending", "unrecorded": "unrecorded"}

CARDS = {"sent": "to be delivered"}                        # each message once for every receiver
VERDICTS = {CLEAN: ("good", "✓", "Every message arrived once and in order"),
            INCOMPLETE: ("warn", "?", "No fault in what is recorded, but records are missing"),
            FAULTY: ("bad", "✗", "Faults were found")}
BREAKS = {"S1": "delivered, but never sent", "S2": "delivered twice", "S5": "members that went through two views "
          "together delivered different sets in the first", "F": "not in the order of sending, or with a hole",
          "R1": "of another site, but not sent there", "R3": "of another site: not exactly once, or a loss declared",
          "R4": "of another site: out of order"}


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


# --- audit ----------------------------------------------------------------------------------------------------------

def audit(facts: ReportFacts) -> str:
    """The verdict, the totals, the matrix of origins and receivers, and the findings."""
    pairs, gaps = facts.lines("pairs"), facts.lines("missing")
    if not pairs and not gaps:
        return ""
    counts = ("sent", "delivered", *WORST_NAMES)
    sums = {name: sum(line[name] for line in pairs) for name in counts}
    found = verdict(sums, bool(gaps))
    losses = [f"{sums[name]:,} {text}" for name, text in (
        ("declared_lost", "losses were declared"), ("skipped", "were skipped for slow applications")) if sums[name]]
    more = f"{len(facts.lines('findings'))} findings" if found == FAULTY else (
        ", ".join(losses) or "nothing lost, doubled, late")
    cards = "".join(f'<div class="card"><b class="{_tone(name, sums[name])}">{sums[name]:,}</b>'
                    f'<span>{escape(CARDS.get(name, WORST_NAMES.get(name, name)))}</span></div>'
                    for name in counts if sums[name] or name in ("sent", "delivered", *FAULTS[:3], "declared_lost"))
    tone, sign, words = VERDICTS[found]
    return (f'<div class="verdict {tone}">{sign} {words} <small>{more}</small></div>'
            f'{incomplete(gaps)}<div class="cards">{cards}</div><h2>Deliveries</h2>'
            "<p>Delivered messages of each origin (rows) at each receiver (columns); a red cell counts what is wrong. "
            "Point at a cell for all its figures.</p>"
            + matrix(pairs) + findings(facts.lines("findings")))


def incomplete(gaps: Sequence[Line]) -> str:
    """The records that are missing, and what cannot be judged without them."""
    if not gaps:
        return ""
    rows = [[member_of(line), line["text"]] for line in gaps]
    return ("<h2>Not recorded</h2><p>These members cannot be judged, or only in part: a verdict needs every member's "
            "record from its start to its end.</p>" + table(["member", "what is missing"], rows, texts=2))


def _tone(name: str, value: int) -> str:
    if not value or name in ("sent", "delivered"):
        return ""
    return "bad" if name in FAULTS else "warn"


def matrix(pairs: Sequence[Line]) -> str:
    """A table of origins (rows) and receivers (columns); a cell adds up all streams of its pair."""
    rows = dict.fromkeys(sorted((line["origin_site"] or "", line["origin_tag"], line["origin"]) for line in pairs))
    columns = dict.fromkeys(sorted((line["site"] or "", line["receiver_tag"], line["incarnation"]) for line in pairs))
    cells: dict[tuple[str, str], dict[str, int]] = {}
    for line in pairs:
        cell = cells.setdefault((line["origin"], line["incarnation"]), {})
        for name in ("sent", "delivered", *WORST_NAMES):
            cell[name] = cell.get(name, 0) + line[name]
    head = "".join(f"<th>{escape(_name(tag, site))}</th>" for site, tag, _ in columns)
    body = "".join(f'<tr><th class="l">{escape(_name(tag, site))}</th>'
                   + "".join(_cell(cells.get((address, column[2]))) for column in columns) + "</tr>"
                   for site, tag, address in rows)
    return f'<div class="wide"><table class="matrix"><tr><th class="l">from \\ at</th>{head}</tr>{body}</table></div>'


def _cell(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return '<td class="off">·</td>'
    wrong = [f"{counts[name]:,} {WORST_NAMES[name]}" for name in FAULTS if counts[name]]
    title = ", ".join(f"{WORST_NAMES.get(name, name)} {value:,}" for name, value in counts.items())
    shown = "<br>".join(map(escape, wrong)) if wrong else f"{counts['delivered']:,}"
    return f'<td class="{"no" if wrong else "ok"}" title="{escape(title)}">{shown}</td>'


def findings(lines: Sequence[Line]) -> str:
    """A table of the first SHOWN_FINDINGS findings."""
    if not lines:
        return ""
    rows = [[line["fault"].replace("_", " "), line["guarantee"], _name(line["origin_name"], line["origin_site"]),
             _name(line["receiver"], line["site"]), line["stream"],
             f"{line['first']}" if line["count"] == 1 else f"{line['first']} to {line['stop'] - 1}",
             f"{line['count']:,}"]
            for line in lines[:SHOWN_FINDINGS]]
    left = len(lines) - SHOWN_FINDINGS
    more = f"<p>… and {left:,} more in findings.parquet</p>" if left > 0 else ""
    shown = sorted({line["guarantee"] for line in lines} & BREAKS.keys())
    legend = "; ".join(f"{name}: {BREAKS[name]}" for name in shown)
    head = ["fault", "breaks", "origin", "receiver", "stream", "messages", "count"]
    return f"<h2>Findings</h2><p>{escape(legend)}</p>" + table(head, rows, texts=5) + more


def _name(name: str | None, site: str | None) -> str:
    return f"{name}@{site}" if site else name or "?"


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


# --- lag ------------------------------------------------------------------------------------------------------------

def lag(facts: ReportFacts) -> str:
    """Delay over time for each pair of sites, the summary, the clocks, the backlog."""
    summary = facts.lines("lag_summary")
    if not summary:
        return ""
    routes = {(line["origin_site"], line["site"]): number % COLOURS for number, line in enumerate(summary)}
    rows = [[f"{site_name(line['origin_site'])} → {site_name(line['site'])}", f"{line['messages']:,}",
             *(duration(line[name] / 1e9) for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")),
             f"{line['max_backlog']:,}", duration(line["rpo_ns"] / 1e9), duration(line["rto_ns"] / 1e9),
             "unknown" if line["clock_error_ns"] is None else f"± {duration(line['clock_error_ns'] / 1e9)}"]
            for line in summary]
    head = ["from → at", "deliveries", "p50", "p99", "p99.9", "max", "backlog", "RPO", "RTO", "clock error"]
    return ("<h2>Lag</h2><p>From sending to delivery, by when it was sent: lines are medians, bands reach to p99, dots "
            "are the slowest message of each window. RPO: age of the oldest message that was missing at the worst "
            "moment. RTO: the longest silence while something was being sent.</p>"
            + key((f"{site_name(a)} → {site_name(b)}", colour) for (a, b), colour in routes.items())
            + lag_chart(facts, routes) + table(head, rows) + clocks(facts.lines("clocks")) + backlog(facts, routes))


def lag_chart(facts: ReportFacts, routes: Mapping[tuple[str, str], int]) -> str:
    """Median, p99 and maximum of every route."""
    lines = facts.lines("lag")
    values = [line[name] / 1e9 for line in lines for name in ("p50_ns", "max_ns") if line[name] > 0]
    if not values:
        return ""
    chart = Chart(facts.stop_s, 10.0 ** _floor(min(values)), 10.0 ** (_floor(max(values)) + 1), log=True, unit=duration,
                  height=320)
    marks(facts, chart)
    for route, colour in routes.items():
        found = [line for line in lines if (line["origin_site"], line["site"]) == route]
        half_s = (found[1]["begin_ns"] - found[0]["begin_ns"]) / 2e9 if len(found) > 1 else 0
        points = [(facts.second(line["begin_ns"]) + half_s, line) for line in found]
        chart.band([(x, line["p50_ns"] / 1e9, line["p99_ns"] / 1e9) for x, line in points], colour)
        chart.line([(x, line["p50_ns"] / 1e9) for x, line in points], colour)
        chart.dots([(x, line["max_ns"] / 1e9, f"{site_name(route[0])} → {site_name(route[1])} at {duration(x)}: "
                     f"max {duration(line['max_ns'] / 1e9)}, p99 {duration(line['p99_ns'] / 1e9)}, "
                     f"p50 {duration(line['p50_ns'] / 1e9)}, {line['messages']:,} deliveries") for x, line in points],
                   colour)
    return str(chart)


def _floor(value: float) -> int:
    return math.floor(math.log10(value))


def marks(facts: ReportFacts, chart: Chart) -> None:
    """Draw the incidents as vertical lines across a chart."""
    for incident in facts.incidents:
        chart.mark(facts.second(incident["wall_ns"]), incident["word"])


def clocks(lines: Sequence[Line]) -> str:
    """The offsets between the clocks of hosts."""
    if not lines:
        return "<p>All recorders share one host's clock, so nothing had to be corrected.</p>"
    rows = [[line["here"], line["there"], f"{line['offset_ns'] / 1e6:+.3f} ms",
             "unknown" if line["error_ns"] is None else f"± {line['error_ns'] / 1e6:.3f} ms", line["how"]]
            for line in lines]
    return ("<h3>Clocks: how much the second host's is ahead; subtracted from the delays above</h3>"
            + table(["host", "other host", "ahead by", "at most off by", "from"], rows, texts=2))


def backlog(facts: ReportFacts, routes: Mapping[tuple[str, str], int]) -> str:
    """The messages that another site did not have yet, over time."""
    lines = facts.lines("backlog")
    most = max((line["messages"] for line in lines), default=0)
    if not most:
        return ""
    chart = Chart(facts.stop_s, 0, most, height=170)
    marks(facts, chart)
    for route, colour in routes.items():
        points = [(facts.second(line["end_ns"]), line["messages"]) for line in lines
                  if (line["origin_site"], line["site"]) == route]
        if points:
            chart.line(points, colour)
    return f"<h3>Backlog: messages of a site that the other did not have yet, at the end of each window</h3>{chart}"


# --- timeline -------------------------------------------------------------------------------------------------------

def timeline(facts: ReportFacts) -> str:
    """Views, lives, and the gap around each incident."""
    views = facts.lines("views")
    if not views:
        return ""
    picture = view_timeline(views, facts.lines("lives"), facts.incidents, facts.begin_ns, facts.stop_s, facts.colours)
    return ("<h2>Views</h2><p>Each site's views with their members, and below them the lifetimes of members: a dot is "
            "an end in good order, a cross any other. Dashed lines are crashes and leaves.</p>" + picture + gaps(facts))


def gaps(facts: ReportFacts) -> str:
    """The longest silence around each incident."""
    lines = facts.lines("gaps")
    if not lines:
        return ""
    parts = []
    for incident in facts.incidents:
        around = sorted((line for line in lines if line["wall_ns"] == incident["wall_ns"]),
                        key=lambda line: (line["origin_site"] != line["site"], line["origin_site"], line["site"]))
        shown = [(f"{site_name(line['origin_site'])} → {site_name(line['site'])}", line["gap_ns"] / 1e9,
                  duration(line["gap_ns"] / 1e9), facts.colours.get(line["site"] or "", 0)) for line in around]
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
    chart = Chart(facts.stop_s, 0, max(line["messages"] for line in lines) / window_s, height=210,
                  unit=lambda value: f"{short(value)}/s")
    marks(facts, chart)
    for site, colour in facts.colours.items():
        found = {line["begin_ns"]: line["messages"] / window_s for line in lines if (line["site"] or "") == site}
        if found:
            points = [(facts.second(begin) + window_s / 2, found.get(begin, 0.0)) for begin in begins]
            chart.band([(x, 0.0, y) for x, y in points], colour)
            chart.line(points, colour)
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
    return _name(line["origin_name"], line["origin_site"])


def _topic(line: Line) -> str:
    return str(line["topic"] or "")


def _size(line: Line) -> str:
    return f"below {short(line['size_below'])}B"


SECTIONS: tuple[Callable[[ReportFacts], str], ...] = (audit, timeline, lag, throughput, traffic)
