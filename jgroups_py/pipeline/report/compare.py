"""The section that compares a run with another one: the same figures of both, and by how much they differ."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from jgroups_py.pipeline.audit.judge import verdict
from jgroups_py.pipeline.report.audit import NAMES, totals_of
from jgroups_py.pipeline.report.facts import ReportFacts, route_name, table
from jgroups_py.pipeline.report.svg import duration, short

Figures = dict[str, float | None]
Unit = Callable[[float], str]


def compare(here: ReportFacts, there: ReportFacts, name: str) -> str:
    """Figures of this run, of the other one, and their difference; those that neither has are left out."""
    rows = [row for figures, unit in ((counts_of, _whole), (lags_of, duration), (rates_of, _rate))
            for row in _rows(figures(here), figures(there), unit)]
    words = [("verdict", *(_verdict(facts) for facts in (here, there)), ""),
             ("length", duration(here.stop_s), duration(there.stop_s), _change(here.stop_s, there.stop_s))]
    return (f"<h2>Compared with {escape(name)}</h2><p>The last column says by how much this run is above (+) or below "
            "(-) the other.</p>" + table(["", "this run", "the other", "difference"], [*words, *rows]))


def counts_of(facts: ReportFacts) -> Figures:
    """The audit's sums; none without the audit."""
    sums = totals_of(facts) if facts.lines("pairs") else {}
    return {NAMES.get(name, name): value for name, value in sums.items()}


def lags_of(facts: ReportFacts) -> Figures:
    """Delays of each direction, RPO and RTO, in seconds."""
    found: Figures = {}
    for line in facts.lines("lag_summary"):
        for word, column in (("p50", "p50_ns"), ("p99", "p99_ns"), ("max", "max_ns"), ("RPO", "rpo_ns"),
                             ("RTO", "rto_ns")):
            found[f"lag {route_name(line)} {word}"] = line[column] / 1e9
    return found


def rates_of(facts: ReportFacts) -> Figures:
    """Deliveries a second at each site, over the whole time."""
    found: Figures = {}
    for line in facts.lines("throughput"):
        if line["kind"] == "delivered":
            name = f"delivered at {line['site'] or 'the group'}"
            found[name] = (found.get(name) or 0.0) + line["messages"] / facts.stop_s
    return found


def _rows(here: Figures, there: Figures, unit: Unit) -> Iterable[tuple[str, str, str, str]]:
    for name in dict.fromkeys((*here, *there)):
        mine, other = here.get(name), there.get(name)
        if mine or other:
            yield (name, "-" if mine is None else unit(mine), "-" if other is None else unit(other),
                   "" if mine is None or other is None else _change(mine, other))


def _change(mine: float, other: float) -> str:
    """
    >>> _change(3.0, 2.0), _change(1.0, 1.0), _change(5, 0), _change(1, 1000)
    ('+50 %', '=', 'was 0', '-99.9 %')
    """
    if mine == other:
        return "="
    return "was 0" if not other else f"{100 * (mine - other) / other:+.3g} %"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _rate(value: float) -> str:
    return f"{short(value)}/s"


def _verdict(facts: ReportFacts) -> str:
    if not facts.lines("pairs") and not facts.lines("missing"):
        return "-"
    return verdict(totals_of(facts), bool(facts.lines("missing")))
