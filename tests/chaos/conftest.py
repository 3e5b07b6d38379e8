"""The long runs are made only when asked for by their marker: `pytest -m chaos`, `pytest -m netns`."""
from __future__ import annotations

import pytest

LONG = ("chaos", "netns")


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
