"""`jgroups archive cat`: rows of all recorders, oldest first, a line each."""
from __future__ import annotations

import base64
import heapq
import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from jgroups_py.archive.arrow import pa, pc
from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import RecorderId
from jgroups_py.archive.reading import read
from jgroups_py.archive.schema import KINDS
from jgroups_py.cli.archive.times import show_time
from jgroups_py.model.text import escaped

SHOWN_PAYLOAD_BYTES = 40
BATCH_ROWS = 1024


def show_rows(args: Namespace, recorders: list[RecorderId]) -> int:
    """Print the rows that the options choose; returns the exit code."""
    rows = rows_by_time(args.directory, recorders, args.begin_ns, args.end_ns, args.kind or KINDS,
                        args.keys)
    for row in islice(rows, args.limit):
        print(json.dumps(as_json(row)) if args.json else escaped(line(row)))
    return 0


def rows_by_time(
    directory: Path, recorders: Iterable[RecorderId], begin_ns: int = 0, end_ns: int | None = None,
    kinds: Sequence[str] = KINDS, keys: ArchiveKeys | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of all recorders, merged by their hosts' clocks; those of one recorder keep their order."""
    return heapq.merge(*(rows_of(directory, recorder, begin_ns, end_ns, kinds, keys) for recorder in recorders),
                       key=lambda row: row["wall_ns"])


def rows_of(
    directory: Path, recorder: RecorderId, begin_ns: int, end_ns: int | None, kinds: Sequence[str],
    keys: ArchiveKeys | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of one recorder from `begin_ns` until before `end_ns`, of these kinds."""
    for batch in read(directory, recorder, batch_rows=BATCH_ROWS, keys=keys):
        table = pa.Table.from_batches([batch])
        wanted = pc.and_(pc.is_in(table["kind"], pa.array(kinds)), pc.greater_equal(table["wall_ns"], begin_ns))
        if end_ns is not None:
            wanted = pc.and_(wanted, pc.less(table["wall_ns"], end_ns))
        yield from table.filter(wanted).to_pylist()


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row as values for JSON: bytes in base64, the detail as an object, nulls left out."""
    found = {name: value for name, value in row.items() if value is not None}
    if "payload" in found:
        found["payload"] = base64.b64encode(found["payload"]).decode()
    if "headers" in found:
        found["headers"] = {str(key): base64.b64encode(value).decode() for key, value in found["headers"]}
    if "detail" in found:
        found["detail"] = json.loads(found["detail"])
    return found


def line(row: dict[str, Any]) -> str:
    """A row as a line of text."""
    where = f"{row['member']}@{row['site']}" if row["site"] else row["member"]
    return f"{show_time(row['wall_ns'])} {where:8} {row['row']:>8} {row['kind']:11} {about(row)}".rstrip()


def about(row: dict[str, Any]) -> str:
    """The contents of a row, without time and place."""
    if row["origin"] is None:
        return row["detail"] or (f"to {row['dest'][:8]}" if row["dest"] else "")
    origin = row["origin_name"] or row["origin"][:8]
    if row["origin_site"] and row["origin_site"] != row["site"]:
        origin += f"@{row['origin_site']}"
    first, count = row["seqno"], row["count"]
    numbers = "" if first is None else f" {first}" if count == 1 else f" {first} to {first + count}"
    parts = [f"{origin}:{row['stream']}{numbers}"]
    if row["dest"]:
        parts.append(f"to {row['dest'][:8]}")
    if row["topic"]:
        parts.append(f"[{row['topic']}]")
    if row["size"] is not None:
        parts.append(f"{row['size']} bytes")
    if row["payload"]:
        parts.append(repr(row["payload"][:SHOWN_PAYLOAD_BYTES])[1:])
    return " ".join([*parts, row["detail"] or ""])
