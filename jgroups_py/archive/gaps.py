"""Records that a recorder dropped, as ranges that become rows of kind `gap`: every missing row is declared."""
from __future__ import annotations

from typing import Any

from jgroups_py.model.outputs import Record

MAX_RANGES = 10_000              # beyond, a range is extended over what lies between it and the next one of its stream
SLOW, FAILED = "slow", "failed"  # reasons: the disk was slower than the group, or writing failed

Key = tuple[Any, ...]


class RecorderGaps:
    """The dropped records; those with consecutive numbers are one range."""

    def __init__(self) -> None:
        self._ranges: dict[Key, list[Record]] = {}
        self._number = 0
        self.rows = 0                            # number of rows dropped since the last `take`

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, record: Record, why: str) -> None:
        """Count a record that will not be written."""
        if record.kind == "gap":                 # an earlier gap could not be written: declare it again as it was
            why, of = str((record.detail or {})["why"]), str((record.detail or {})["of"])
            messages = record.count
        else:
            of, messages = record.kind, record.count * record.rows
        self.rows += record.rows
        key = (of, why, record.origin, record.stream, record.dest)
        ranges = self._ranges.setdefault(key, [])
        last = ranges[-1] if ranges else None
        if last is not None and last.view_id == record.view_id and _continues(last, record):
            last.count += messages
        elif last is not None and self._number >= MAX_RANGES:
            stop = None if record.first is None else record.first + messages
            last.count = last.count + messages if stop is None or last.first is None else stop - last.first
        else:
            self._number += 1
            ranges.append(_gap(record, of, why, messages))

    def take(self) -> list[Record]:
        """The rows `gap` for everything dropped since the last call."""
        found = [record for ranges in self._ranges.values() for record in ranges]
        self._ranges, self._number, self.rows = {}, 0, 0
        return found


def _continues(last: Record, record: Record) -> bool:
    """Whether the numbers of a record follow those of a gap. Records without numbers are only counted."""
    return record.first is None if last.first is None else record.first == last.first + last.count


def _gap(record: Record, of: str, why: str, messages: int) -> Record:
    return Record("gap", record.now_ns, record.view_id, 1, messages, record.origin, record.origin_site, record.stream,
                  record.first, record.dest, record.flags, detail={"of": of, "why": why})
