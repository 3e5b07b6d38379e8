"""The audit's result as text for a terminal."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgroups_py.pipeline.audit.judge import CLEAN, COUNTS, FAULTS, FAULTY, INCOMPLETE

ALWAYS = ("expected", "delivered", "lost", "duplicated", "out_of_order")
HEADS = {"duplicated": "twice", "out_of_order": "disorder", "declared_lost": "declared", "other_set": "other set",
         "reported_missed": "missed", "not_sent": "not sent"}


def as_lines(found: Mapping[str, Any], shown_findings: int = 0) -> list[str]:
    """The audit's document as a table, the first findings if `shown_findings` says how many, and a verdict."""
    shown = [name for name in COUNTS if name in ALWAYS or any(pair[name] for pair in found["pairs"])]
    names = [(stream_name(pair["origin"], pair["origin_site"], pair["stream"]),
              stream_name(pair["receiver"], pair["receiver_site"])) for pair in found["pairs"]]
    wide = [max(map(len, column)) + 2 for column in zip(("origin", "receiver"), *names, strict=True)]
    row = f"{{:<{wide[0]}}}{{:<{wide[1]}}}" + "{:>10}" * len(shown)
    lines = [row.format("origin", "receiver", *(HEADS.get(name, name) for name in shown))]
    lines += [row.format(*name, *(pair[count] for count in shown))
              for name, pair in zip(names, found["pairs"], strict=True)]
    lines.append(row.format("all", "", *(found["totals"][name] for name in shown)))
    sent, expected = found["totals"]["sent"], found["totals"]["expected"]
    lines.append(f"{sent:,} messages were sent, each expected once at every member that it is for: {expected:,} "
                 "deliveries")
    lines += [f"record missing: {member_of(line)}: {line['text']}" for line in found["missing"]]
    if not shown_findings:
        return [*lines, f"audit: {verdict_of(found)}"]
    lines += map(finding_line, sorted(found["findings"], key=lambda line: (
        line["fault"] not in FAULTS, line["wall_ns"] or line["sent_ns"]))[:shown_findings])
    if left := len(found["findings"][shown_findings:]):
        lines.append(f"... and {left:,} more findings (--json prints all, --out writes them and a report)")
    return [*lines, f"audit: {verdict_of(found, 'above')}"]


def finding_line(line: Mapping[str, Any]) -> str:
    """One finding as a line of text.

    >>> finding_line({"fault": "out_of_order", "guarantee": "R4", "origin_name": "B", "origin_site": "NYC",
    ...               "receiver": "F", "site": "SFO", "stream": "all", "first": 7, "stop": 9, "count": 2})
    'out of order (R4): B@NYC 7 to 8 at F@SFO'
    """
    numbers = f"{line['first']}" if line["count"] == 1 else f"{line['first']} to {line['stop'] - 1}"
    broken = f" ({line['guarantee']})" if line["guarantee"] else ""
    return (f"{line['fault'].replace('_', ' ')}{broken}: "
            f"{stream_name(line['origin_name'], line['origin_site'], line['stream'])} {numbers} at "
            f"{stream_name(line['receiver'], line['site'])}")


def verdict_of(found: Mapping[str, Any], where: str = "in the report") -> str:
    """The verdict in one sentence. It is good only if no record is missing. where: the ranges of findings are."""
    named = ", ".join(dict.fromkeys(member_of(line) for line in found["missing"]))
    if found["verdict"] == INCOMPLETE:
        return (f"NOT COMPLETE: no fault in what is recorded{not_arrived(found)}; all or a part of the record is "
                f"missing for {named}")
    if found["verdict"] == FAULTY:
        also = f"; also, records are missing: {named}" if named else ""
        number = sum(line["fault"] in FAULTS for line in found["findings"])
        return f"FAULTS FOUND, {number:,} findings, each with its range {where}{not_arrived(found)}{also}"
    return f"everything arrived once and in order, the same everywhere{not_arrived(found)}"


def exit_code(found: Mapping[str, Any]) -> int:
    """The exit code of the verdict.

    >>> [exit_code({"verdict": word}) for word in (CLEAN, FAULTY, INCOMPLETE)]
    [0, 1, 3]
    """
    return {CLEAN: 0, INCOMPLETE: 3}.get(found["verdict"], 1)


def member_of(line: Mapping[str, Any]) -> str:
    """The member or site of a line of audit.missing.

    >>> member_of({"member": "B", "site": "NYC", "incarnation": "00"})
    'B@NYC'
    >>> member_of({"member": "", "site": "", "incarnation": "0a"})
    '0a'
    >>> member_of({"member": "", "site": "SFO", "incarnation": ""})
    'site SFO'
    """
    if not line["incarnation"]:
        return f"site {line['site']}"
    return stream_name(line["member"] or line["incarnation"][:8], line["site"])


def not_arrived(found: Mapping[str, Any]) -> str:
    """How many messages did not arrive although there is no fault, and why.

    >>> not_arrived({"totals": {"skipped": 1200, "declared_lost": 0, "pending": 3, "reported_missed": 0}})
    '; 1,200 were skipped for slow applications; 3 were sent too recently to be judged'
    """
    return "".join(f"; {found['totals'][name]:,} {text}" for name, text in (
        ("declared_lost", "losses were declared"), ("reported_missed", "were reported as missed at a merge"),
        ("skipped", "were skipped for slow applications"),
        ("pending", "were sent too recently to be judged")) if found["totals"][name])


def stream_name(name: str, site: str, stream: str = "all") -> str:
    """A member, and the stream if it is not the usual one.

    >>> stream_name("A", "NYC"), stream_name("F", "", "unicast")
    ('A@NYC', 'F unicast')
    """
    return name + (f"@{site}" if site else "") + (f" {stream}" if stream != "all" else "")
