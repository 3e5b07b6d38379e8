"""Tests beside unmodified gmqttd nodes are made only when asked for by their marker: `pytest -m gmqtt`."""
from __future__ import annotations

import pytest

from tests.chaos.conftest import wanted
from tests.gmqtt.gmqttd import ensure_gmqttd


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    if wanted("gmqtt", str(config.getoption("markexpr"))):
        return
    left_out = [item for item in items if item.get_closest_marker("gmqtt")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def _gmqttd() -> None:
    """Built before the first test; a test fails with what is needed if it cannot be had."""
    ensure_gmqttd()
