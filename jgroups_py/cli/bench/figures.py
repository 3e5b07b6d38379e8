"""Figures of a benchmark: each measurement with median, minimum, maximum and all runs; as JSON or as a table."""
from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Figure = dict[str, Any]
LABELS = {
    "msgs_per_s": "messages/s at each receiver", "mb_per_s": "MB/s at each receiver",
    "local_msgs_per_s": "messages/s in the sender's own site", "cpu_us_per_msg": "CPU us/message, all processes",
    "rss_mb": "resident MB, largest member", "requests_per_s": "requests/s, all members", "p50_us": "request p50 us",
    "p99_us": "request p99 us", "cpu_us_per_request": "CPU us/request, all processes",
    "retransmitted_ratio": "retransmitted / sent",
    "gap_s": "longest gap at the other site, s", "gap_before_s": "longest gap before, s",
    "msgs_per_s_without_delay": "messages/s without delay and losses", "ratio": "of that",
    "form_s": "view of all members, s", "kill_member_s": "view without a killed member, s",
    "kill_coordinator_s": "view without a killed coordinator, s", "leave_s": "view without a leaver, s",
}


def figure(runs: Sequence[float]) -> Figure:
    """Median, minimum and maximum of some runs, and the runs.

    >>> figure([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0, 'runs': [3.0, 1.0, 2.0]}
    """
    rounded = [rounded_sensibly(run) for run in runs]
    return {"median": rounded_sensibly(statistics.median(runs)), "min": min(rounded), "max": max(rounded),
            "runs": rounded}


def rounded_sensibly(value: float) -> float:
    """The value with four significant digits; above 1000 without a fraction.

    >>> rounded_sensibly(917123.456), rounded_sensibly(0.0123456)
    (917123.0, 0.01235)
    """
    digits = 4 - len(str(int(abs(value)))) if abs(value) >= 1 else 5
    return round(float(value), max(0, digits))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least of the sorted values that a `share` of them does not exceed.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([7], 0.99)
    (2, 7)
    """
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def as_lines(document: dict[str, Any]) -> list[str]:
    """The document as a table in text."""
    parameters = document["parameters"]
    shown = ", ".join(f"{name} {value}" for name, value in parameters.items() if value is not None)
    lines = [f"{document['benchmark']}: {shown}", ""]
    for label, figures in document.get("ways", {}).items():
        lines += [label, *_table(figures), ""]
    if "ways" not in document:
        lines += _table(document)
    lines += [f"FAULT: {fault}" for fault in document.get("faults", [])]
    return lines


def _table(document: dict[str, Any]) -> list[str]:
    figures = {name: value for name, value in document.items() if isinstance(value, dict) and "median" in value}
    width = max((len(LABELS.get(name, name)) for name in figures), default=0)
    lines = [f"{'':{width}}  {'median':>12}  {'min':>12}  {'max':>12}"]
    for name, value in figures.items():
        cells = "  ".join(f"{value[key]:>12,g}" if abs(value[key]) < 1e3 else f"{value[key]:>12,.0f}"
                          for key in ("median", "min", "max"))
        lines.append(f"{LABELS.get(name, name):{width}}  {cells}")
    return lines
