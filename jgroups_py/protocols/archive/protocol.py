"""ARCHIVE: records what this member sends and delivers, its views and losses, as rows of an archive for Spark.

Every batch that the application sends gets the number of its first message in a header; every batch that is delivered
is recorded with that number. So the archives of all members show what was lost, duplicated or out of order, without
relying on any layer below. Multicasts that RELAY numbers get the same numbers here (both count the same messages from
1), so what is declared lost has the numbers of what was sent. Views, states of sites, relays and losses are recorded
as well.

Place: at the top of the stack, above RELAY. It writes nothing itself: it emits Record outputs, and the recorder of the
environment writes them. The group is not joined before the recorder is ready, so that nothing is missed. Source: our
own. Format: design/archive.md.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY, Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import (
    AppBusy,
    ArchiveBusy,
    ArchiveFailed,
    ArchiveOpened,
    Connect,
    OutputEmitted,
    OutputInOrder,
    RecordMessages,
    SendUntil,
    ViewChange,
)
from jgroups_py.model.outputs import (
    ArchiveDurability,
    GlobalViewInstalled,
    LogEntry,
    MessagesLost,
    NodeFailed,
    OpenArchive,
    Output,
    Record,
    RelayAccepted,
    SiteStatusChanged,
    SkipMulticasts,
    StateEnd,
    Unreachable,
)
from jgroups_py.model.ports import MulticastNumbers, SiteReporter
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.archive.config import ArchiveConfig
from jgroups_py.sealing.primitives import require_library
from jgroups_py.stack.protocol import STOP, Protocol, on, receives
from jgroups_py.wire.archive_header import Archived, address_text, view_text
from jgroups_py.wire.topic_headers import PassedBy

WHY = "archive"                  # of AppBusy
ALL, LOCAL, UNRELIABLE, UNICAST = "all", "local", "unreliable", "unicast"


class Archive(Protocol, MulticastNumbers):
    """See the module."""

    Config = ArchiveConfig
    config: ArchiveConfig
    COUNTERS = declare(
        counter("delivered_without_number", "Messages recorded without a number: their source has no ARCHIVE."),
        counter("failures", "How often recording failed for good while the member went on."),
    )

    def start(self) -> None:
        if self.config.archive_keyring:
            require_library("ARCHIVE: archive_keyring")
            self.stack.secrets.keyring(self.config.archive_keyring)      # an error now, and not when it is opened
        relay = self.stack.find(SiteReporter)
        self.site: str | None = None if relay is None else relay.config.site
        self.payload = self.config.payload
        self.connect: Connect | None = None               # kept back until the recorder is ready
        self.is_open = False
        self.view: View | None = None
        self.view_id: ViewId | None = None
        self.next_numbers: dict[Address | str, int] = {}  # destination, or stream of multicasts -> the next number
        self.waiting_bytes = 0                            # for the disk, while the group waits for it (on_slow=block)

    def numbers(self, flags: int) -> bool:
        """All: what comes out of its sender's order stands as a fault in the archives."""
        return True

    # --- messages ---------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        if not batch.payloads:
            return self.pass_down(batch)                  # a control message of a layer above
        dest, flags = batch.dest, batch.flags
        stream = stream_of(dest, flags) if flags or dest is not None else ALL
        key = stream if dest is None else dest
        first = self.next_numbers.get(key, 1)
        self.next_numbers[key] = first + batch.count
        recorded = batch.payloads if self.payload and dest not in (None, self.me) else ()
        self.stack.outputs.append(Record(
            "sent", self.stack.now_ns, self.view_id, len(batch.payloads), 1, self.me, self.site, stream, first, dest,
            flags, batch.headers, sizes_of(batch), recorded))
        return self.pass_down(batch.push(Archived(first)))

    @receives(Archived)
    def on_archived(self, header: Archived, batch: Batch) -> None:
        """A batch of a member with ARCHIVE."""
        self.record_delivery(batch, header.first)

    def up(self, batch: Batch) -> None:
        """A batch of a member without ARCHIVE; or (PassedBy) the mere numbers of messages that this site filters."""
        if batch.headers and isinstance(batch.headers[-1], PassedBy):
            first = next((header.first for header in batch.headers if isinstance(header, Archived)), None)
            self.fact("passed", {}, origin=batch.src, origin_site=site_of(batch.src, self.site), stream=ALL,
                      first=first, count=batch.count)
            return self.pass_up(batch) if batch.headers[-1].topics else None     # withheld: for the record only
        if not batch.payloads:
            return self.pass_up(batch)
        self.count("delivered_without_number", batch.count)
        return self.record_delivery(batch, None)

    def record_delivery(self, batch: Batch, first: int | None) -> None:
        """Record a batch, then pass it up: a delivery that has no record would look like a loss."""
        src, dest, flags = batch.src, batch.dest, batch.flags
        stream = stream_of(dest, flags) if flags or dest is not None else ALL
        self.stack.outputs.append(Record(
            "delivered", self.stack.now_ns, self.view_id, len(batch.payloads), 1, src, site_of(src, self.site), stream,
            first, dest, flags, batch.headers, sizes_of(batch), batch.payloads if self.payload else ()))
        self.pass_up(batch)

    @on(SendUntil)
    def on_send_until(self, event: SendUntil) -> object:
        """A multicast with a receipt is an event until RELAY makes a batch of it; it is numbered like all others."""
        stream = stream_of(None, event.flags)
        first = self.next_numbers.get(stream, 1)
        self.next_numbers[stream] = first + 1
        self.emit(Record("sent", self.now_ns, self.view_id, 1, 1, self.me, self.site, stream, first, None,
                         event.flags, event.headers, len(event.payload)))
        headers = (*event.headers, Archived(first))
        self.pass_down(SendUntil(event.ticket, event.sites, event.payload, headers, event.flags))
        return STOP

    @on(RecordMessages)
    def on_record_messages(self, event: RecordMessages) -> object:
        """Messages of a block, beside those of the group that carry them."""
        for run in event.runs:
            origin = self.me if run.origin is None else run.origin
            sizes = run.sizes[0] if len(run.sizes) == 1 else tuple(run.sizes)
            self.emit(Record(run.kind, run.now_ns, self.view_id, len(run.sizes), 1, origin,
                             site_of(origin, self.site), event.stream, run.first, sizes=sizes, topic=run.topic))
        return STOP

    # --- facts ------------------------------------------------------------------------------------------------------

    def fact(self, kind: str, detail: dict[str, Any], **columns: Any) -> None:
        """Record something other than a message."""
        self.emit(Record(kind, self.now_ns, self.view_id, detail=detail, **columns))

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        before, self.view = self.view, event.view
        self.view_id = event.view.id
        merged = event.view if isinstance(event.view, MergeView) else None
        self.fact("view", {
            "members": members_of(event.view.members),
            "previous": None if event.previous is None else view_text(event.previous.id),
            "joined": [address_text(member) for member in event.joined],
            "left": [address_text(member) for member in event.left],
            "subgroups": [] if merged is None else [view_text(view.id) for view in merged.subgroups],
            "missed": {} if merged is None else {address_text(src): number for src, number in merged.missed.items()},
        })
        if self.site is not None and (before is None or before.coordinator != event.view.coordinator):
            self.fact("relay", {"site": self.site, "relay": address_text(event.view.coordinator),
                                "epoch": view_text(event.view.id)})

    @on(OutputEmitted)
    def on_output(self, event: OutputEmitted) -> None:
        """Record what RELAY reports to the application."""
        output: Output = event.output
        match output:
            case SiteStatusChanged(site, status):
                self.fact("site", {"site": site, "status": status})
            case RelayAccepted(site, epoch):
                self.fact("relay", {"site": site, "relay": None, "epoch": view_text(epoch)})
            case MessagesLost("") as loss:
                self.record_uncounted_loss(loss)
            case MessagesLost(site, origin, first, stop, dest_site):
                self.fact("lost", {"dest_site": dest_site}, origin=origin, origin_site=site, stream=ALL, first=first,
                          count=stop - first)
            case Unreachable(dest):
                self.fact("unreachable", {}, dest=dest)
            case GlobalViewInstalled(view):
                self.fact("global_view", {"sites": {site: members_of(view.sites[site]) for site in sorted(view.sites)}})

    @on(OutputInOrder)
    def on_output_in_order(self, event: OutputInOrder) -> None:
        """Record what explains why messages are not delivered to the application.

        StateEnd: a state of another site contains them. MessagesLost: no member keeps what NAKACK misses.
        SkipMulticasts: FLOW begins or ends to shed a sender's multicasts, which this layer delivers all the same.
        """
        output = event.output
        if isinstance(output, StateEnd):
            for site, origin, first, stop in output.skipped:
                self.fact("covered", {}, origin=origin, origin_site=site, stream=ALL, first=first, count=stop - first)
        elif isinstance(output, MessagesLost) and self.site is None:
            self.record_uncounted_loss(output)            # with RELAY, on_output has recorded it
        elif isinstance(output, SkipMulticasts):
            self.fact("skipping", {"on": output.on}, origin=output.sender)

    def record_uncounted_loss(self, loss: MessagesLost) -> None:
        """Record a loss with NAKACK's numbers: to which stream the messages belonged, and their numbers in it, are
        unknown."""
        self.fact("forgotten", {"first": loss.first, "stop": loss.stop}, origin=loss.origin, origin_site=self.site,
                  count=loss.stop - loss.first)

    # --- the recorder -----------------------------------------------------------------------------------------------

    @on(Connect)
    def on_connect(self, event: Connect) -> object:
        """Keep the event back until the recorder is ready, so that no message is missed."""
        self.connect = event
        self.emit(OpenArchive(self.config, event.cluster, self.site or "", self.me.name, address_text(self.me)))
        return STOP

    @on(ArchiveOpened)
    def on_opened(self, event: ArchiveOpened) -> None:
        """The recorder can write: join the group; or it can write again after a failure."""
        if self.connect is not None:
            self.is_open = True
            self.pass_down(self.connect)
            self.connect = None
        else:
            self.emit(LogEntry("info", "the archive is written again; what was dropped is recorded as gaps"))
            self.emit(ArchiveDurability(""))

    @on(ArchiveFailed)
    def on_failed(self, event: ArchiveFailed) -> None:
        """The recorder cannot write: before the join the member fails; later it continues without an archive."""
        if not self.is_open:
            return self.emit(NodeFailed(f"ARCHIVE: {event.reason}"))
        self.count("failures")
        self.emit(LogEntry("error", f"the archive is not written: {event.reason}"))
        return self.emit(ArchiveDurability(event.reason))

    @on(ArchiveBusy)
    def on_busy(self, event: ArchiveBusy) -> None:
        """With on_slow=block: senders wait, at this member and, as it grants no credit, at all others."""
        if bool(event.waiting_bytes) != bool(self.waiting_bytes):
            self.pass_down(AppBusy(bool(event.waiting_bytes), WHY))
        self.waiting_bytes = event.waiting_bytes

    def pending_bytes(self) -> int:
        """Counts what waits for the disk, so that the channel accepts no further messages to send meanwhile."""
        return self.waiting_bytes


# --- helpers --------------------------------------------------------------------------------------------------------

def stream_of(dest: Address | None, flags: int) -> str:
    """The stream in which a message is numbered."""
    if dest is not None:
        return UNICAST
    if flags & NO_RELIABILITY:
        return UNRELIABLE
    return LOCAL if flags & NO_RELAY else ALL


def site_of(member: Address, own: str | None) -> str | None:
    """The site of a member; own: this member's site."""
    return member.site if isinstance(member, ProxyUUID) else own


def sizes_of(batch: Batch) -> int | tuple[int, ...]:
    """The size of each payload, one number if all have it."""
    if len(batch.payloads) == 1:
        return len(batch.payloads[0])
    return batch.length if batch.length >= 0 else tuple(map(len, batch.payloads))


def members_of(members: tuple[Address, ...]) -> list[list[str]]:
    """[address, name] of each."""
    return [[address_text(member), member.name] for member in members]
