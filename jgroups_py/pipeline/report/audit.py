"""The section of the audit: the verdict, what was sent and expected, the matrix, and the findings."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from jgroups_py.pipeline.audit.judge import CLEAN, FAULTS, FAULTY, INCOMPLETE, verdict
from jgroups_py.pipeline.report.facts import Line, ReportFacts, name_at, table
from jgroups_py.pipeline.report.svg import duration
from jgroups_py.pipeline.terminal_summary import member_of

SHOWN_FINDINGS = 60
COUNTED = ("expected", "delivered")
NAMES = {"lost": "lost", "duplicated": "twice", "out_of_order": "out of order", "not_sent": "never sent",
         "other_set": "other set", "declared_lost": "declared lost", "reported_missed": "reported missed",
         "skipped": "skipped", "pending": "pending", "unrecorded": "unrecorded"}
MEANS = {
    "sent": "different messages, each counted once",
    "expected": "deliveries: each message once at every member that it is for, so a multicast counts several times",
    "delivered": "of these, arrived",
    "lost": "not delivered, and nothing says why: a fault",
    "duplicated": "delivered again: a fault",
    "out_of_order": "delivered after a later one of the same sender: a fault",
    "not_sent": "delivered, but not in the complete record of their sender: a fault",
    "other_set": "delivered in a view by the other members that went on with this one, but not by this one: a fault",
    "declared_lost": "not delivered, and the application was told their range",
    "reported_missed": "not delivered while a partition lay between the members; the merged view reported how many",
    "skipped": "arrived, but FLOW dropped them for an application that was too slow",
    "pending": "sent so shortly before the end of the record that they may be under way",
    "unrecorded": "the recorder of the receiver could not write them, so nothing is known",
}
VERDICTS = {CLEAN: ("good", "✓", "Every message arrived once and in order"),
            INCOMPLETE: ("warn", "?", "No fault in what is recorded, but records are missing"),
            FAULTY: ("bad", "✗", "Faults were found")}
BREAKS = {"S1": "Every message that is delivered was sent.", "S2": "No message is delivered twice.",
          "S5": "Members that go through two views together deliver the same messages in the first.",
          "F": "Messages of one sender are delivered in the order of sending, without a hole.",
          "R1": "A message of another site was sent there.",
          "R3": "A message of another site is delivered exactly once, or its loss is declared.",
          "R4": "Messages of one sender at another site are delivered in the order of sending."}
"""Guarantee (design/guarantees.md) -> its sentence."""


def audit(facts: ReportFacts) -> str:
    """The verdict, the totals, the matrix of origins and receivers, and the findings."""
    pairs, gaps = facts.lines("pairs"), facts.lines("missing")
    if not pairs and not gaps:
        return ""
    sums = totals_of(facts)
    found = verdict(sums, bool(gaps))
    losses = [f"{sums[name]:,} {text}" for name, text in (
        ("declared_lost", "losses were declared"), ("reported_missed", "were reported as missed at a merge"),
        ("skipped", "were skipped for slow applications")) if sums[name]]
    faults = sum(line["fault"] in FAULTS for line in facts.lines("findings"))
    more = ", ".join([f"{faults:,} findings", *losses]) if found == FAULTY else (
        ", ".join(losses) or "nothing lost, doubled, or out of order")
    shown = [name for name in ("sent", *COUNTED, *NAMES)
             if sums[name] or name in ("sent", *COUNTED, *FAULTS[:3], "declared_lost")]
    cards = "".join(f'<div class="card"><b class="{_tone(name, sums[name])}">{sums[name]:,}</b>'
                    f"<span>{escape(NAMES.get(name, name))}</span></div>" for name in shown)
    legend = "".join(f"<dt>{escape(NAMES.get(name, name))}</dt><dd>{escape(MEANS[name])}</dd>" for name in shown)
    tone, sign, words = VERDICTS[found]
    return (f'<div class="verdict {tone}">{sign} {words} <small>{more}</small></div>'
            f'{incomplete(gaps)}<div class="cards">{cards}</div><details class="legend"><summary>What is counted'
            f"</summary><dl>{legend}</dl></details><h2>Deliveries</h2>"
            "<p>Delivered messages of each origin (rows) at each receiver (columns); a red cell counts what is wrong. "
            "Point at a cell for all its figures.</p>"
            + matrix(pairs) + findings(facts))


def totals_of(facts: ReportFacts) -> dict[str, int]:
    """Figure -> its sum over all pairs, and `sent`. What a table of an earlier version lacks is 0."""
    sums = {name: sum(line.get(name, 0) for line in facts.lines("pairs")) for name in (*COUNTED, *NAMES)}
    return {"sent": sum(line["messages"] for line in facts.lines("sent")), **sums}


def incomplete(gaps: Sequence[Line]) -> str:
    """The records that are missing, and what cannot be judged without them."""
    if not gaps:
        return ""
    rows = [[member_of(line), line["text"]] for line in gaps]
    return ("<h2>Not recorded</h2><p>These members cannot be judged, or only in part: a verdict needs every member's "
            "record from its start to its end.</p>" + table(["member", "what is missing"], rows, texts=2))


def _tone(name: str, value: int) -> str:
    if not value or name in ("sent", *COUNTED):
        return ""
    return "bad" if name in FAULTS else "warn"


def matrix(pairs: Sequence[Line]) -> str:
    """A table of origins (rows) and receivers (columns); a cell adds up all streams of its pair."""
    rows = dict.fromkeys(sorted((line["origin_site"] or "", line["origin_tag"], line["origin"]) for line in pairs))
    columns = dict.fromkeys(sorted((line["site"] or "", line["receiver_tag"], line["incarnation"]) for line in pairs))
    cells: dict[tuple[str, str], dict[str, int]] = {}
    for line in pairs:
        cell = cells.setdefault((line["origin"], line["incarnation"]), {})
        for name in (*COUNTED, *NAMES):
            cell[name] = cell.get(name, 0) + line.get(name, 0)
    head = "".join(f"<th>{escape(name_at(tag, site))}</th>" for site, tag, _ in columns)
    body = "".join(f'<tr><th class="l">{escape(name_at(tag, site))}</th>'
                   + "".join(_cell(cells.get((address, column[2]))) for column in columns) + "</tr>"
                   for site, tag, address in rows)
    return f'<div class="wide"><table class="matrix"><tr><th class="l">from \\ at</th>{head}</tr>{body}</table></div>'


def _cell(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return '<td class="off">·</td>'
    wrong = [f"{counts[name]:,} {NAMES[name]}" for name in FAULTS if counts[name]]
    title = ", ".join(f"{NAMES.get(name, name)} {value:,}" for name, value in counts.items())
    shown = "<br>".join(map(escape, wrong)) if wrong else f"{counts['delivered']:,}"
    return f'<td class="{"no" if wrong else "ok"}" title="{escape(title)}">{shown}</td>'


def times_of(line: Line) -> int:
    """When a finding was recorded, or else when its first message was sent; 0: neither is."""
    return int(line["wall_ns"] or line["sent_ns"])


def sorted_findings(facts: ReportFacts) -> list[tuple[str, Line]]:
    """The findings that are shown, faults before all else and each kind by time, with the id of each one's mark."""
    lines = sorted(facts.lines("findings"), key=lambda line: (line["fault"] not in FAULTS, times_of(line)))
    return [(f"finding-{number}", line) for number, line in enumerate(lines[:SHOWN_FINDINGS], 1)]


def findings(facts: ReportFacts) -> str:
    """A table of the first SHOWN_FINDINGS: the faults, and apart from them what is no fault."""
    shown = sorted_findings(facts)
    if not shown:
        return ""
    left = len(facts.lines("findings")) - len(shown)
    more = f"<p>… and {left:,} more in findings.parquet</p>" if left > 0 else ""
    named = sorted({line["guarantee"] for _, line in shown} & BREAKS.keys())
    legend = "".join(f'<dt id="guarantee-{name}">{name}</dt><dd>{escape(BREAKS[name])}</dd>' for name in named)
    parts = [f"<h2>{head}</h2>{text}{_rows(facts, rows)}" for head, text, rows in (
        ("Findings", "", [row for row in shown if row[1]["fault"] in FAULTS]),
        ("What did not arrive, without a fault", "<p>Losses that were declared, messages that were skipped, and what "
         "cannot be judged.</p>", [row for row in shown if row[1]["fault"] not in FAULTS])) if rows]
    return "".join(parts) + more + (f'<dl class="legend">{legend}</dl>' if legend else "")


def _rows(facts: ReportFacts, shown: Iterable[tuple[str, Line]]) -> str:
    rows = []
    for ident, line in shown:
        at = times_of(line)
        numbers = f"{line['first']}" if line["count"] == 1 else f"{line['first']} to {line['stop'] - 1}"
        time_cell = duration(max(0.0, facts.second(at))) if at else "-"
        rows.append([
            f'<a href="#{ident}">{escape(time_cell)}</a>' if at and facts.lines("views") else escape(time_cell),
            escape(line["fault"].replace("_", " ")),
            f'<a href="#guarantee-{line["guarantee"]}">{line["guarantee"]}</a>' if line["guarantee"] in BREAKS else "",
            *(escape(text) for text in (name_at(line["origin_name"], line["origin_site"]),
                                        name_at(line["receiver"], line["site"]), line["stream"], numbers)),
            f"{line['count']:,}"])
    head = ["at", "what", "breaks", "origin", "receiver", "stream", "messages", "count"]
    top = "".join(f'<th{" class=l" if at < len(head) - 2 else ""}>{name}</th>' for at, name in enumerate(head))
    body = "".join("<tr>" + "".join(f'<td{" class=l" if at < len(head) - 2 else ""}>{cell}</td>'
                                    for at, cell in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="sorted"><tr>{top}</tr>{body}</table></div>'
