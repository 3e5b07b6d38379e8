"""What a member keeps on disk, RELAY's journal and the archive: what is asked of the world, and its news of them.

Outputs as in outputs.py, events as in events.py.
"""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.events import Event
from jgroups_py.outputs import Output
from jgroups_py.view import ViewId

# --- RELAY's journal: its hold on disk ------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class OpenJournal(Output):
    """Lock `folder` (made if missing, for us alone to read) and list it; JournalOpened or JournalFailed follows."""

    folder: str


@attrs.frozen(eq=False)
class ReadSegment(Output):
    """Read a file of the journal; SegmentRead or JournalFailed follows."""

    name: str


@attrs.frozen(eq=False)
class AppendSegment(Output):
    """Append to a file of the journal, which is made if missing; JournalFailed follows if that fails.

    Carried out before anything that is delivered after it reaches the application.
    """

    name: str
    data: bytes


@attrs.frozen(eq=False)
class SyncSegments(Output):
    """Bring all that was appended until now to the disk itself; SegmentsSynced(number) or JournalFailed follows."""

    number: int


@attrs.frozen(eq=False)
class RemoveSegment(Output):
    """Remove a file of the journal."""

    name: str


@attrs.frozen(eq=False)
class HoldDurability(Output):
    """RELAY's hold is no longer written to disk, for `reason`; "": it is again."""

    reason: str


@attrs.frozen
class JournalOpened(Event):
    """Up: the journal is ours; its files in order."""

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


# --- ARCHIVE: what is recorded ---------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class OpenArchive(Output):
    """Begin to record, as `config` (ArchiveConfig) says; ArchiveOpened or ArchiveFailed follows. site "": no RELAY."""

    config: Any
    cluster: str
    site: str
    member: str
    incarnation: str


@attrs.define(eq=False)
class Record(Output):
    """Rows for the archive: the messages of a run (`rows` of them, numbered from `first`), or one fact (rows 1).

    kind, stream and the keys of detail: as in archive/schema.py. now_ns: when it happened. count: how many messages
    each row speaks of. sizes: one of all payloads, or one each; None: no payloads. payloads: () where they are not
    recorded.
    """

    kind: str
    now_ns: int
    view_id: ViewId | None
    rows: int = 1
    count: int = 1
    origin: Address | None = None
    origin_site: str | None = None
    stream: str | None = None
    first: int | None = None
    dest: Address | None = None
    flags: int = 0
    headers: tuple[Header, ...] = ()
    sizes: int | tuple[int, ...] | None = None
    payloads: tuple[bytes, ...] = ()
    detail: dict[str, Any] | None = None


@attrs.frozen(eq=False)
class ArchiveDurability(Output):
    """The recorder cannot write, for `reason`; "": it can again, and what it dropped stands in the archive as gaps."""

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
    """Up: so many bytes wait for the disk that the group is to wait for it too; 0: it need not any more."""

    waiting_bytes: int


@attrs.frozen
class Told(Event):
    """Up, from RELAY: it has just told the application, or the world, `output`. ARCHIVE, above it, records that."""

    output: Output
