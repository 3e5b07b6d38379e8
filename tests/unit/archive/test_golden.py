"""Archives that were written once are read for ever: an open and a sealed segment, kept as bytes, give these rows.

`python -m tests.unit.archive.test_golden` writes both anew, for a new version of the format only; the old ones stay.
"""
from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from jgroups_py.archive import framing
from jgroups_py.archive.layout import RecorderId, hour_folder, open_name, recorders, segments
from jgroups_py.archive.reading import read_all
from jgroups_py.archive.rows import lines_of
from jgroups_py.archive.schema import VERSION
from jgroups_py.archive.sealing import seal
from jgroups_py.archive.verifying import verify
from jgroups_py.cli.archive.cat import as_json
from tests.unit.archive.test_format import WALL_NS, A, some_records

GOLDEN = Path(__file__).parent / "golden" / f"v{VERSION}"
ROWS = GOLDEN / "rows.json"
MEMBERS = ("open", "sealed")


def test_golden_segments_give_golden_rows():
    expected = json.loads(ROWS.read_text())
    for member in MEMBERS:
        found = [as_json(row) for row in read_all(GOLDEN).to_pylist() if row["member"] == member]
        assert found == [{**row, "member": member} for row in expected]


def test_golden_segments_are_whole():
    assert [verify(GOLDEN, recorder).whole for recorder in recorders(GOLDEN)] == [True, True]
    assert [segment.sealed for recorder in recorders(GOLDEN) for segment in segments(GOLDEN, recorder)] == [False, True]


def write() -> None:
    """Make the golden archive."""
    for member in MEMBERS:
        recorder = RecorderId("demo", "NYC", member, A.raw.hex())
        folder = GOLDEN / recorder.folder / hour_folder(WALL_NS)
        folder.mkdir(parents=True)
        with (folder / open_name(0)).open("wb") as file:
            file.write(framing.owner_record({"member": member}, 0))
            file.writelines(framing.record(framing.BATCH, lines_of(some_records(), 0, WALL_NS).serialize(), 10, 0))
        if member == "sealed":
            seal(segments(GOLDEN, recorder)[0])
    rows = [as_json(row) for row in read_all(GOLDEN).to_pylist() if row["member"] == MEMBERS[0]]
    ROWS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    write()
