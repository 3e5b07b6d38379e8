"""The audit's result for people at a terminal."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgroups_py.pipeline.audit.judge import COUNTS

ALWAYS = ("sent", "delivered", "lost", "duplicated", "out_of_order")
HEADS = {"duplicated": "twice", "out_of_order": "disorder", "declared_lost": "declared", "other_set": "other set",
         "not_sent": "not sent"}


def as_lines(found: Mapping[str, Any]) -> list[str]:
    """The audit's document as a table and a verdict."""
    shown = [name for name in COUNTS if name in ALWAYS or any(pair[name] for pair in found["pairs"])]
    names = [(who(pair["origin"], pair["origin_site"], pair["stream"]), who(pair["receiver"], pair["receiver_site"]))
             for pair in found["pairs"]]
    wide = [max(map(len, column)) + 2 for column in zip(("origin", "receiver"), *names, strict=True)]
    row = f"{{:<{wide[0]}}}{{:<{wide[1]}}}" + "{:>10}" * len(shown)
    lines = [row.format("origin", "receiver", *(HEADS.get(name, name) for name in shown))]
    lines += [row.format(*name, *(pair[count] for count in shown))
              for name, pair in zip(names, found["pairs"], strict=True)]
    lines.append(row.format("all", "", *(found["totals"][name] for name in shown)))
    verdict = (f"everything arrived once and in order, the same everywhere{but_skipped(found)}" if found["ok"] else
               f"FAULTS FOUND, {len(found['findings'])} findings, each with its range in the report")
    return [*lines, f"audit: {verdict}"]


def but_skipped(found: Mapping[str, Any]) -> str:
    """What of that slow applications did not get.

    >>> but_skipped({"totals": {"skipped": 0}}), but_skipped({"totals": {"skipped": 1200}})
    ('', '; 1,200 were skipped for slow applications')
    """
    skipped = found["totals"]["skipped"]
    return f"; {skipped:,} were skipped for slow applications" if skipped else ""


def who(name: str, site: str, stream: str = "all") -> str:
    """A member, and the stream if it is not the usual one.

    >>> who("A", "NYC"), who("F", "", "unicast")
    ('A@NYC', 'F unicast')
    """
    return name + (f"@{site}" if site else "") + (f" {stream}" if stream != "all" else "")
