"""These run only when asked for by their marker, `pytest -m spark`; one session and one made archive serve them all."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import wanted
from tests.spark.helpers import faulty, started

MASTER = "local[2, 3]"                     # a task may fail twice


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    if wanted("spark", str(config.getoption("markexpr"))):
        return
    left_out = [item for item in items if item.get_closest_marker("spark")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with the data source."""
    with started(MASTER) as found:
        yield found


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with faults."""
    directory = tmp_path_factory.mktemp("archive")
    faulty(directory)
    return directory
