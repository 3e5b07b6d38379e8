"""Files: the shared folder of FILE_PING, the journal of RELAY, the archive."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.outputs.base import Output
from jgroups_py.model.view import ViewId


@attrs.frozen(eq=False)
class StoreEntry(Output):
    """Write `data` as file `name` in `folder` (made if missing), atomically; None: remove the file."""

    folder: str
    name: str
    data: bytes | None


@attrs.frozen(eq=False)
class ReadFolder(Output):
    """Read all small files of `folder`, then pass FolderRead up the stack of `net`."""

    net: int
    folder: str


@attrs.frozen(eq=False)
class OpenJournal(Output):
    """Lock `folder` (made if missing, readable by this user only) and list it; JournalOpened or JournalFailed
    follows."""

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


@attrs.frozen(eq=False)
class OpenArchive(Output):
    """Begin to record, according to `config` (ArchiveConfig); ArchiveOpened or ArchiveFailed follows. site "": no
    RELAY."""

    config: Any
    cluster: str
    site: str
    member: str
    incarnation: str


@attrs.define(eq=False)
class Record(Output):
    """Rows for the archive: the messages of a batch (`rows` of them, numbered from `first`), or one fact (rows 1).

    kind, stream and the keys of detail: as in archive/schema.py. now_ns: when it happened. count: how many messages
    each row stands for. sizes: one of all payloads, or one each; None: no payloads. payloads: () where they are not
    recorded. topic: where no header has it.
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
    topic: str | None = None


@attrs.frozen(eq=False)
class ArchiveDurability(Output):
    """The recorder cannot write, for `reason`; "": it can again, and what it dropped is in the archive as gaps."""

    reason: str
