"""The output of a run: a Parquet file for each table, one JSON document for machines, one HTML page for people.

Files are written under another name and renamed, so a reader never sees half of one. A second job into the same folder
adds its tables, and the page shows the tables of both.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.audit.judge import CLEAN, COUNTS, totals, verdict
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.report import page

REPORT = "report.html"
DOCUMENT = "result.json"
SHOWN = {"lag": ("lag_summary", "clocks"), "timeline": ("views", "gaps"), "traffic": ("topics", "talkers", "sizes")}
"""Job -> its tables that are short enough for the document."""


def write(
    out: Path, job: str, tables: Mapping[str, Any], title: str = "What the group recorded", other: Path | None = None,
) -> dict[str, Any]:
    """Write the tables of a job, its document and the page; returns the document.

    other: the folder of another run's output, with which the page compares this one.
    """
    folder = out / job
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        publish(folder / f"{name}.parquet", lambda path, table=table: pq.write_table(table, path))
    found = document(job, tables)
    publish(folder / DOCUMENT, lambda path: path.write_text(json.dumps(found, indent=1)))
    compared = (None, "") if other is None else (read(other), other.name or str(other))
    publish(out / REPORT, lambda path: path.write_text(page(read(out), title, *compared), encoding="utf-8"))
    return found


def check_other(other: Path | None) -> None:
    """Refuse a folder to compare with that has no output.

    Raises:
        ConfigError: there is none.
    """
    if other is not None and not any((other / job / DOCUMENT).is_file() for job in JOBS):
        raise ConfigError(f"--compare {other}: no output of `jgroups archive report` or `jgroups pipeline` is there")


def publish(path: Path, writes: Any) -> None:
    """Write a file by `writes(path of a draft)` and rename it once it is complete."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        writes(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(out: Path) -> dict[str, Any]:
    """Name -> table, of all jobs with output in a folder."""
    return {path.stem: pq.read_table(path, partitioning=None)
            for job in JOBS for path in sorted((out / job).glob("*.parquet"))}


def document(job: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a job for machines."""
    if job == "audit":
        sums, missing = totals(tables["pairs"]), tables["missing"].to_pylist()
        found = verdict(sums, bool(missing))
        sums["sent"] = sum(tables["sent"].column("messages").to_pylist())
        return {"job": job, "ok": found == CLEAN, "verdict": found, "totals": sums, "missing": missing,
                "pairs": pairs(tables["pairs"]), "findings": tables["findings"].to_pylist()}
    return {"job": job, **{name: tables[name].to_pylist() for name in SHOWN.get(job, tables)}}


def pairs(table: Any) -> list[dict[str, Any]]:
    """The lines of PAIRS for the document: origin and receiver by tag ("A", after a restart "A#2"), with COUNTS."""
    lines = sorted(table.to_pylist(), key=lambda line: (
        line["origin_site"], line["origin_tag"], line["stream"], line["site"], line["receiver_tag"]))
    return [{"origin": line["origin_tag"], "origin_site": line["origin_site"], "receiver": line["receiver_tag"],
             "receiver_site": line["site"], "stream": line["stream"], "origin_incarnation": line["origin"],
             "receiver_incarnation": line["incarnation"], **{name: line[name] for name in COUNTS}} for line in lines]
