"""One self-contained HTML page with the tables of a run."""
from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from jgroups_py.pipeline.report.sections import SECTIONS, ReportFacts
from jgroups_py.pipeline.report.style import STYLE
from jgroups_py.pipeline.report.svg import duration


def page(tables: Mapping[str, Any], title: str) -> str:
    """The report. tables: name -> Arrow table."""
    facts = ReportFacts.of({name: table.to_pylist() for name, table in tables.items()})
    began = datetime.fromtimestamp(facts.begin_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    sites = ", ".join(site or "one group" for site in facts.colours)
    about = f"{sites} · {duration(facts.stop_s)} from {began}"
    body = "".join(section(facts) for section in SECTIONS)
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>'
            f'<h1>{escape(title)}</h1><p class="sub">{escape(about)}</p>{body}'
            "<footer>Made by jgroups_py; the tables lie beside this page as Parquet.</footer>"
            "</body></html>")
