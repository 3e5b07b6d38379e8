"""Images are built and run only when asked for by their marker: `pytest -m deploy`."""
from __future__ import annotations

import pytest

from tests.chaos.conftest import wanted


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless the marker expression asks for them."""
    if wanted("deploy", str(config.getoption("markexpr"))):
        return
    left_out = [item for item in items if item.get_closest_marker("deploy")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
