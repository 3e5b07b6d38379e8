"""What the jobs over an archive print at their end, on Spark or without."""
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jgroups_py.cli.showing import show


def print_results(
    found: Mapping[str, dict[str, Any]], only: str | None, out: Path | None, seconds: float, as_json: bool,
    shown_findings: int = 0,
) -> int:
    """Print the documents of jobs; returns the exit code of the audit, 0 without one.

    only: the job whose document is printed as JSON by itself; None: those of all, and whether all are well. out: where
    the report is, None: there is none. shown_findings: how many findings of the audit are printed as text.
    """
    from jgroups_py.pipeline.output import REPORT
    from jgroups_py.pipeline.terminal_summary import as_lines, exit_code
    if as_json:
        ok = all(bool(document.get("ok", True)) for document in found.values())
        print(json.dumps({**found, "ok": ok} if only is None else found[only], indent=2))
    else:
        if "audit" in found:
            show(*as_lines(found["audit"], shown_findings))
        if out is not None:
            show(f"report: {out / REPORT} ({seconds:.1f} s)")
    return exit_code(found["audit"]) if "audit" in found else 0
