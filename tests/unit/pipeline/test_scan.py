"""Reading inside a worker gives the rows that the archive's own reader gives, with columns of one value or without."""
import pyarrow as pa
import pytest

from jgroups_py.archive.layout import RecorderId, hour_folder
from jgroups_py.archive.reading import read_segment
from jgroups_py.archive.schema import ALL, ROWS
from jgroups_py.archive.sealing import write_segment
from jgroups_py.pipeline.scan import all_segments, scan
from tests.unit.pipeline.made import archive

COLUMNS = [name for name in ALL.names if name != "headers"]


def rows(batches, columns):
    schema = pa.schema([ALL.field(name) for name in columns])
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema).to_pylist()


@pytest.fixture(scope="module")
def segments(tmp_path_factory):
    """One with facts among its messages, one without."""
    directory = tmp_path_factory.mktemp("archive")
    archive(directory, messages=6000, faults=1)
    return all_segments(directory)[:2]


@pytest.mark.parametrize("columns", [COLUMNS, ["dest"], ["seqno", "view_id", "site", "row"]])
@pytest.mark.parametrize(("first", "stop"), [(0, None), (1700, 1701), (100, 1500)])
def test_the_rows_are_those_of_the_archive_s_reader(segments, columns, first, stop):
    for segment in segments:
        begin, end = segment.first + first, None if stop is None else segment.first + stop
        found = rows(scan(segment, columns, begin, end, 512), columns)
        assert found == rows(read_segment(segment, begin, end, columns), columns)
        assert len(found) == (segment.stop if end is None else end) - begin


def test_what_the_statistics_say_is_not_read(tmp_path, monkeypatch):
    lines = [{"row": number, "kind": "delivered", "wall_ns": number, "mono_ns": number, "view_id": "v", "origin": "aa",
              "stream": "all", "seqno": number + 1, "count": 1, "flags": 0} for number in range(100)]
    folder = tmp_path / RecorderId("c", "", "A", "00" * 16).folder / hour_folder(0)
    write_segment(folder, 0, 100, pa.Table.from_pylist(lines, ROWS).to_batches())
    asked: list[list[str]] = []
    whole = pa.parquet.ParquetFile.iter_batches

    def noting(file, batch_rows, row_groups, columns):
        asked.append(columns)
        return whole(file, batch_rows, row_groups, columns)

    monkeypatch.setattr(pa.parquet.ParquetFile, "iter_batches", noting)
    columns = ["seqno", "count", "dest", "stream", "flags", "view_id", "detail"]
    [found] = scan(all_segments(tmp_path)[0], columns)
    assert found.slice(7, 1).to_pylist() == [{"seqno": 8, "count": 1, "dest": None, "stream": "all", "flags": 0,
                                              "view_id": "v", "detail": None}]
    assert asked == [["seqno", "row"]]
