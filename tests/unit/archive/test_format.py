"""The format of the archive: runs unfold to rows, open and sealed segments read alike, torn tails are cut."""
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

from jgroups_py.archive import framing
from jgroups_py.archive.layout import RecorderId, hour_folder, open_name, recorders, segments
from jgroups_py.archive.reading import next_row, read, read_all
from jgroups_py.archive.rows import lines_of, plain, unfold
from jgroups_py.archive.schema import ALL, FEW_VALUES, ROWS
from jgroups_py.archive.sealing import OpenSegment, SegmentDamage, is_abandoned, seal, write_segment
from jgroups_py.model.address import Address
from jgroups_py.model.outputs import Record
from jgroups_py.model.view import ViewId
from jgroups_py.wire import AppHeaders
from jgroups_py.wire.block_headers import Ask

A = Address(bytes(range(16)), "A")
B = Address(bytes(range(16, 32)), "B")
VIEW = ViewId(3, A)
VIEW_TEXT = "0000000000000003|000102030405060708090a0b0c0d0e0f"
WALL_NS = 1_700_000_000_000_000_000
RECORDER = RecorderId("trades & more", "NYC/1", "A", A.raw.hex())


def some_records() -> list[Record]:
    """Ten rows of every shape."""
    return [
        Record("start", 5, None, detail={"pid": 7}),
        Record("sent", 6, VIEW, rows=3, origin=A, stream="all", first=1, sizes=(1, 2, 3),
               headers=(Ask(9, 4), AppHeaders({200: b"h"}))),
        Record("delivered", 7, VIEW, rows=3, origin=B, origin_site="SFO", stream="all", first=1, sizes=2,
               payloads=(b"ab", b"cd", b"ef")),
        Record("delivered", 8, VIEW, rows=2, origin=A, stream="unicast", first=4, dest=B, flags=1, sizes=(0, 3),
               payloads=(b"", b"xyz")),
        Record("lost", 9, VIEW, count=5, origin=A, stream="all", first=9),
    ]


def write_open(directory: Path, tail: bytes = b"") -> Path:
    """An open segment with twenty rows in two records."""
    folder = directory / RECORDER.folder / hour_folder(WALL_NS)
    folder.mkdir(parents=True)
    path = folder / open_name(0)
    with path.open("wb") as file:
        file.write(framing.owner_record({"member": "A"}, 0))
        for first in (0, 10):
            body = lines_of(some_records(), first, WALL_NS).serialize()
            file.writelines(framing.record(framing.BATCH, body, 10, first))
        file.write(tail)
    return path


def rows_of(records: list[Record], first: int = 0) -> list[dict]:
    return plain(unfold(lines_of(records, first, WALL_NS))).to_pylist()


def test_a_run_unfolds_to_one_row_a_message_with_numbers_that_go_up():
    rows = rows_of(some_records(), 100)
    assert [row["row"] for row in rows] == list(range(100, 110))
    assert [row["seqno"] for row in rows] == [None, 1, 2, 3, 1, 2, 3, 4, 5, 9]
    assert [row["size"] for row in rows] == [None, 1, 2, 3, 2, 2, 2, 0, 3, None]
    assert [row["payload"] for row in rows] == [None] * 4 + [b"ab", b"cd", b"ef", b"", b"xyz", None]
    assert [row["count"] for row in rows] == [1] * 9 + [5]


def test_a_row_says_who_what_when_and_where():
    rows = rows_of(some_records())
    assert rows[0]["detail"] == '{"pid": 7}'
    assert rows[5] == {
        "row": 5, "kind": "delivered", "wall_ns": WALL_NS + 7, "mono_ns": 7, "view_id": VIEW_TEXT,
        "origin_site": "SFO", "origin": B.raw.hex(), "origin_name": "B", "stream": "all", "seqno": 2, "count": 1,
        "dest": None, "flags": 0, "headers": None, "topic": None, "size": 2, "payload": b"cd", "detail": None}
    assert rows[7]["dest"] == B.raw.hex()
    assert rows[1]["headers"] == [(40, b"\x01\x00\x09" + (4).to_bytes(8, "big")), (200, b"h")]


def test_columns_that_are_not_wanted_are_not_unfolded():
    assert unfold(lines_of(some_records(), 0, 0), ["seqno", "kind"]).schema.names == ["seqno", "kind"]


def test_views_sort_by_their_counter_as_texts():
    rows = rows_of([Record("view", 1, ViewId(number, A)) for number in (9, 10, 300)])
    assert [row["view_id"] for row in rows] == sorted(row["view_id"] for row in rows)


def test_names_of_any_kind_survive_being_folders(tmp_path):
    write_open(tmp_path)
    assert recorders(tmp_path) == [RECORDER]
    row = read_all(tmp_path).to_pylist()[0]
    assert (row["cluster"], row["site"], row["member"], row["incarnation"], row["date"], row["hour"]) == (
        "trades & more", "NYC/1", "A", A.raw.hex(), "2023-11-14", 22)


def test_without_relay_the_site_is_null(tmp_path):
    recorder = RecorderId("c", "", "A", A.raw.hex())
    (tmp_path / recorder.folder).mkdir(parents=True)
    assert recorders(tmp_path) == [recorder]


def test_open_and_sealed_segments_read_alike(tmp_path):
    write_open(tmp_path)
    before = read_all(tmp_path)
    sealed, damage = seal(segments(tmp_path, RECORDER)[0])
    assert not damage
    assert segments(tmp_path, RECORDER) == [sealed]
    assert (sealed.first, sealed.stop) == (0, 20)
    assert before.schema == ALL
    assert read_all(tmp_path).equals(before)


@pytest.mark.parametrize("sealed", [False, True])
def test_reading_goes_on_from_any_row(tmp_path, sealed):
    write_open(tmp_path)
    if sealed:
        seal(segments(tmp_path, RECORDER)[0])
    batches = list(read(tmp_path, RECORDER, 7, 13, ["payload", "row", "member"], batch_rows=4))
    assert [row for batch in batches for row in batch.column("row").to_pylist()] == list(range(7, 13))
    assert [batch.schema.names for batch in batches] == [["payload", "row", "member"]] * len(batches)
    assert next_row(tmp_path, RECORDER) == 20


def test_a_torn_tail_is_cut_wherever_it_was_torn(tmp_path):
    path = write_open(tmp_path)
    whole = path.read_bytes()
    with OpenSegment(path) as source:
        first, second = source.heads()
    for length in range(first.at - framing.HEAD_BYTES, len(whole), 7):
        path.write_bytes(whole[:length])
        with OpenSegment(path) as source:
            assert [head.first for head in source.heads()] == ([] if length < first.stop else [0])
        assert next_row(tmp_path, RECORDER) == (0 if length < first.stop else 10)
    assert second.stop == len(whole)


def test_garbage_behind_the_last_record_is_no_record(tmp_path):
    path = write_open(tmp_path, tail=b"JA" + bytes(100))
    with OpenSegment(path) as source:
        assert source.damage() == SegmentDamage(cut_bytes=102)
    sealed, damage = seal(segments(tmp_path, RECORDER)[0])
    assert (sealed.stop, damage.cut_bytes) == (20, 102)


def test_a_flipped_bit_costs_its_record_and_is_told(tmp_path):
    path = write_open(tmp_path)
    with OpenSegment(path) as source:
        first, _ = source.heads()
    data = bytearray(path.read_bytes())
    data[first.at + 50] ^= 4
    path.write_bytes(data)
    assert [row["row"] for row in read_all(tmp_path).to_pylist()] == list(range(10, 20))
    sealed, damage = seal(segments(tmp_path, RECORDER)[0])
    assert damage == SegmentDamage(missing=((0, 10),), places=(first.at - framing.HEAD_BYTES,))
    assert [row["row"] for row in read_all(tmp_path).to_pylist()] == list(range(10, 20))
    assert (sealed.first, sealed.stop) == (0, 20)


def body_with(name: str, values: list[object]) -> bytes:
    """Lines of which one column is another than they were written with."""
    lines = lines_of(some_records(), 0, WALL_NS)
    at = lines.schema.get_field_index(name)
    return lines.set_column(at, lines.schema.field(at), pa.array(values, lines.schema.field(at).type)).serialize()


@pytest.mark.parametrize(("name", "values"), [
    ("rows", [1, 3, 3, 2, 2]), ("rows", [1, 3, -3, 8, 1]), ("rows", [1, 3, 3, 2, 1 << 30]),
    ("sizes", [None, [1, 2, 3], [3], [0, 3], None]), ("sizes", [None, [1, 2, 3], [2], [0, 1 << 30], None]),
    ("sizes", [None, [1, 2], [2], [0, 3], None]), ("sizes", [None, [1, 2, 3], [2], [6, -3], None]),
    ("payloads", [None, b"x", b"abcdef", b"xyz", None]), ("payloads", [None, None, b"abc", b"xyz", None]),
    ("kind", ["start", None, "delivered", "delivered", "lost"])])
def test_lines_that_do_not_fit_together_are_missing_whatever_their_checksum_says(tmp_path, name, values):
    path = write_open(tmp_path)
    body = body_with(name, values)
    with path.open("ab") as file:
        file.writelines(framing.record(framing.BATCH, body, 10, 20))
    with OpenSegment(path) as source:
        assert source.damage().missing == ((20, 30),)
    assert [row["row"] for row in read_all(tmp_path).to_pylist()] == list(range(20))


def test_a_body_that_is_no_record_batch_is_missing(tmp_path):
    path = write_open(tmp_path)
    with path.open("ab") as file:
        file.writelines(framing.record(framing.BATCH, bytes(64), 10, 20))
    with OpenSegment(path) as source:
        assert source.damage().missing == ((20, 30),)


def test_of_a_segment_that_is_there_in_both_forms_the_sealed_one_counts(tmp_path):
    path = write_open(tmp_path)
    data = path.read_bytes()
    sealed, _ = seal(segments(tmp_path, RECORDER)[0])
    path.write_bytes(data)
    assert segments(tmp_path, RECORDER) == [sealed]


def test_columns_of_few_values_are_dictionaries_in_the_file_also_if_a_word_comes_twice_in_one(tmp_path):
    batch = unfold(lines_of(some_records() * 2, 0, WALL_NS))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 6 + [None, 1], pa.int32()), ["SFO", "NYC", "SFO"])
    batch = batch.set_column(batch.schema.get_field_index("origin_site"), "origin_site", twice)
    path = write_segment(tmp_path, 0, len(batch), [batch, batch])
    assert pq.read_table(path).column("origin_site").to_pylist() == twice.to_pylist() * 2
    group = pq.read_metadata(path).row_group(0)
    encodings = {group.column(at).path_in_schema: group.column(at).encodings for at in range(group.num_columns)}
    assert [name for name in FEW_VALUES if "RLE_DICTIONARY" not in encodings[name]] == []


def test_an_open_segment_without_a_row_leaves_nothing(tmp_path):
    path = write_open(tmp_path)
    path.write_bytes(framing.owner_record({}, 0))
    assert seal(segments(tmp_path, RECORDER)[0]) == (None, SegmentDamage())
    assert segments(tmp_path, RECORDER) == []


def test_a_segment_is_abandoned_once_its_writer_is_gone(tmp_path):
    import fcntl
    path = write_open(tmp_path)
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert not is_abandoned(path)
    assert is_abandoned(path)


def test_the_columns_are_those_of_the_specification():
    text = (Path(__file__).parents[3] / "design" / "archive.md").read_text()
    table = text.partition("## Columns")[2].partition("A message is")[0]
    named = {name.strip() for line in table.splitlines() if line.startswith("| ")
             for name in line.split("|")[1].split(",")}
    assert {field.name for field in ROWS} <= named


def test_golden_bytes_of_an_owner_record():
    assert framing.owner_record({"m": 1}, 5).hex() == (
        "4a410101" "00000008" "8c634eec" "00000000" "0000000000000005" "18879aea" "00000000" + b'{"m": 1}'.hex())
