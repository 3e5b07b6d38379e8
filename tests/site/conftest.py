"""The site is built only when asked for by their marker: `pytest -m site`."""
from __future__ import annotations

import pytest

from tests.chaos.conftest import wanted


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless the marker expression asks for them."""
    if wanted("site", str(config.getoption("markexpr"))):
        return
    left_out = [item for item in items if item.get_closest_marker("site")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
