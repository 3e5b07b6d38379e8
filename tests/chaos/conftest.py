"""The long runs are made only when asked for by their marker: `pytest -m chaos`, `pytest -m netns`.

What all runs of a session found together stands at its end.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.netns import missing
from tests.chaos.verdict import Noted, Verdict

LONG = ("chaos", "netns")
FIGURES = "figures of a run"


@pytest.fixture
def namespaces() -> None:
    """Network namespaces can be made; else the test fails with what lacks."""
    if reason := missing():
        pytest.fail(reason)


@pytest.fixture
def noted(record_property: Callable[[str, object], None]) -> Noted:
    """Keeps the figures of a verdict for the sum at the end."""
    def note(verdict: Verdict) -> Verdict:
        record_property(FIGURES, verdict.figures())
        return verdict
    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The sums over all runs."""
    sums: Counter[str] = Counter()
    for report in [*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())]:
        for name, figures in report.user_properties if report.when == "call" else ():
            if name == FIGURES:
                sums.update(runs=1, **figures)
    if sums:
        terminalreporter.write_line(", ".join(f"{number} {name.replace('_', ' ')}" for name, number in sums.items()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    asked = str(config.getoption("markexpr"))
    left_out = [item for item in items
                if any(item.get_closest_marker(name) and not wanted(name, asked) for name in LONG)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def wanted(name: str, asked: str) -> bool:
    """Whether a marker expression asks for a marker ("not chaos" does not).

    >>> wanted("chaos", "chaos or netns"), wanted("chaos", "not real"), wanted("netns", "real and not netns")
    (True, False, False)
    """
    return name in asked.replace(f"not {name}", "")
