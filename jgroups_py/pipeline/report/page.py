"""One self-contained HTML page with the tables of a run. It loads nothing, and has everything but its zoom without a
script."""
from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any

from jgroups_py.pipeline.report.compare import compare
from jgroups_py.pipeline.report.facts import ReportFacts
from jgroups_py.pipeline.report.script import SCRIPT
from jgroups_py.pipeline.report.sections import SECTIONS
from jgroups_py.pipeline.report.style import STYLE
from jgroups_py.pipeline.report.svg import duration


def page(tables: Mapping[str, Any], title: str, other: Mapping[str, Any] | None = None, other_name: str = "") -> str:
    """The report. tables: name -> Arrow table. other: those of another run to compare with, and its name."""
    facts = facts_of(tables)
    began = datetime.fromtimestamp(facts.begin_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    sites = ", ".join(site or "one group" for site in facts.colours)
    about = f"{sites} · {duration(facts.stop_s)} from {began}"
    first, *rest = (section(facts) for section in SECTIONS)
    compared = "" if other is None else compare(facts, facts_of(other), other_name)
    policy = f"default-src 'none'; style-src {digest(STYLE)}; script-src {digest(SCRIPT)}"
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>'
            f'<h1>{escape(title)}</h1><p class="sub">{escape(about)}</p>{first}{compared}{"".join(rest)}'
            "<footer>Made by jgroups_py; the tables lie beside this page as Parquet.</footer>"
            f"<script>{SCRIPT}</script></body></html>")


def facts_of(tables: Mapping[str, Any]) -> ReportFacts:
    """The facts of Arrow tables."""
    return ReportFacts.of({name: table.to_pylist() for name, table in tables.items()})


def digest(text: str) -> str:
    """A text inside the page, as a content security policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
