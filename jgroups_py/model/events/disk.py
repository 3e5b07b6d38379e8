"""From the disk: the journal of RELAY and the archive."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.events.base import Event
from jgroups_py.model.outputs.base import Output


@attrs.frozen
class JournalOpened(Event):
    """Up: the journal is locked for this member; its files in order."""

    names: tuple[str, ...]


@attrs.frozen
class SegmentRead(Event):
    """Up: the contents of a file of the journal."""

    name: str
    data: bytes


@attrs.frozen
class SegmentsSynced(Event):
    """Up: what was appended before SyncSegments(number) is on the disk."""

    number: int


@attrs.frozen
class JournalFailed(Event):
    """Up: the journal could not be opened, read, written or synced."""

    reason: str


@attrs.frozen
class ArchiveOpened(Event):
    """Up: the recorder can write: for the first time, or again after ArchiveFailed."""


@attrs.frozen
class ArchiveFailed(Event):
    """Up: the recorder could not begin, or cannot write, for `reason`."""

    reason: str


@attrs.frozen
class ArchiveBusy(Event):
    """Up: so many bytes wait for the disk that the group has to slow down; 0: it need not any more."""

    waiting_bytes: int


@attrs.frozen(eq=False)
class MessageRun:
    """Messages of one origin with consecutive numbers, from `first`, about one topic. kind: "sent" or "delivered";
    origin: None for this member; sizes: of their payloads."""

    kind: str
    now_ns: int
    origin: Address | None
    topic: str
    first: int
    sizes: list[int]


@attrs.frozen(eq=False)
class RecordMessages(Event):
    """Down, from a block, for ARCHIVE: messages of the block's own, which others get inside the messages of the group.
    stream: in which they are numbered."""

    stream: str
    runs: tuple[MessageRun, ...]


@attrs.frozen
class OutputEmitted(Event):
    """Up, from RELAY: it has just emitted `output`. ARCHIVE, above it, records that."""

    output: Output
