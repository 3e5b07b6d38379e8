"""What a run leaves in its folder: a Parquet file a table, one document for machines, one page for people.

Files appear by rename, so a reader never sees half of one. A second job into the same folder adds its tables, and the
page shows all that are there.
"""
from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from jgroups_py.pipeline.audit.judge import COUNTS, is_clean, totals
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.report import page

REPORT = "report.html"
DOCUMENT = "result.json"
SHOWN = {"lag": ("lag_summary", "clocks"), "timeline": ("views", "gaps"), "traffic": ("topics", "talkers", "sizes")}
"""Job -> its tables that are short enough for the document."""


def write(out: Path, job: str, tables: Mapping[str, Any], title: str = "What the group recorded") -> dict[str, Any]:
    """Publish the tables of a job and the page; the document."""
    folder = out / job
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        publish(folder / f"{name}.parquet", lambda path, table=table: pq.write_table(table, path))
    found = document(job, tables)
    publish(folder / DOCUMENT, lambda path: path.write_text(json.dumps(found, indent=1)))
    publish(out / REPORT, lambda path: path.write_text(page(read(out), title), encoding="utf-8"))
    return found


def publish(path: Path, writes: Any) -> None:
    """Write a file and give it its name once it is whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        writes(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(out: Path) -> dict[str, Any]:
    """All tables of a folder, by name."""
    return {path.stem: pq.read_table(path, partitioning=None)
            for job in JOBS for path in sorted((out / job).glob("*.parquet"))}


def document(job: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The result for machines."""
    if job == "audit":
        sums = totals(tables["pairs"])
        return {"job": job, "ok": is_clean(sums), "totals": sums, "pairs": pairs(tables["pairs"]),
                "findings": tables["findings"].to_pylist()}
    return {"job": job, **{name: tables[name].to_pylist() for name in SHOWN.get(job, tables)}}


def pairs(table: Any) -> list[dict[str, Any]]:
    """Origin and receiver by name, with the counts."""
    lines = sorted(table.to_pylist(), key=lambda line: (
        line["origin_site"], line["origin_name"], line["origin"], line["stream"], line["site"], line["receiver"],
        line["incarnation"]))
    return [{"origin": line["origin_name"], "origin_site": line["origin_site"], "receiver": line["receiver"],
             "receiver_site": line["site"], "stream": line["stream"], "origin_incarnation": line["origin"],
             "receiver_incarnation": line["incarnation"], **{name: line[name] for name in COUNTS}} for line in lines]


def as_lines(found: Mapping[str, Any]) -> list[str]:
    """The audit's document for people: a table and the verdict."""
    shown = [name for name in COUNTS if any(pair[name] for pair in found["pairs"])
             or name in ("sent", "delivered", "lost", "duplicated", "out_of_order")]
    heads = {"duplicated": "twice", "out_of_order": "disorder", "declared_lost": "declared", "other_set": "other set"}
    row = "{:<12}{:<12}" + "{:>11}" * len(shown)
    lines = [row.format("origin", "receiver", *(heads.get(name, name.replace("_", " ")) for name in shown))]
    names = incarnations(found["pairs"])
    lines += [row.format(_who(names[pair["origin_incarnation"]], pair["origin_site"], pair["stream"]),
                         _who(names[pair["receiver_incarnation"]], pair["receiver_site"]),
                         *(pair[name] for name in shown)) for pair in found["pairs"]]
    lines.append(row.format("all", "", *(found["totals"][name] for name in shown)))
    lines.append("audit: " + ("everything arrived once and in order, the same everywhere" if found["ok"] else
                              f"FAULTS FOUND, {len(found['findings'])} of them, each with its range in the report"))
    return lines


def incarnations(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Address -> name, with the address' beginning where a name had several."""
    names = {pair[f"{side}_incarnation"]: (pair[side], pair[f"{side}_site"]) for pair in found
             for side in ("origin", "receiver")}
    several = Counter(names.values())
    return {address: name[0] + (f":{address[:3]}" if several[name] > 1 else "") for address, name in names.items()}


def _who(name: str, site: str, stream: str = "all") -> str:
    return f"{name}@{site}" * bool(site) + name * (not site) + (f" {stream}" if stream != "all" else "")


__all__ = ["DOCUMENT", "REPORT", "as_lines", "document", "pairs", "publish", "read", "write"]
