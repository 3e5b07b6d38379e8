"""What tests on real Spark have in common, those of ./test (tests/integration/test_pipeline.py) and the longer ones."""
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jgroups_py.pipeline import session
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.synthetic import Fault
from tests.unit.pipeline.made import archive

OPTIONS = JobOptions(window_ns=500_000_000)


@contextmanager
def started(master: str) -> Iterator[Any]:
    """A session with the data source."""
    from jgroups_py.pipeline.source import JGroupsSource
    found = session.start(master, more={"spark.sql.shuffle.partitions": "2"})
    found.dataSource.register(JGroupsSource)
    yield found
    found.stop()


def faulty(directory: Path) -> list[Fault]:
    """Make an archive with a fault of each kind; what was planted."""
    return archive(directory, messages=8000, faults=1, segment_rows=8000)


def lines(table: Any) -> list[str]:
    """A table without regard to the order of its lines."""
    return sorted(json.dumps(line, sort_keys=True) for line in table.to_pylist())
