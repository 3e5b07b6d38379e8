"""Copies of held batches for other holders: a new relay fetches what it lacks, a new backup gets what the relay holds.

A view change may make a member a holder that was none when a message was sent. Copies bring the hold of that member up
to date, so that as many members as configured may crash at once, in any view (relay rule 2). The age travels with the
copy, or `hold_age` would begin anew with each failover.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.protocols.relay.announcements import SyncCompleted
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Copy, FetchHeader
from jgroups_py.protocols.relay.origin.hold import missing
from jgroups_py.protocols.relay.origin.retention import Retention
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, on_announcement
from jgroups_py.protocols.relay.ports import ForwarderPort, NumberingPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import receives

OLDEST_NS = 1 << 60               # of a copy: 36 years


class Copies(RelayPart):
    """See the module. `give` is the way of every copy: to new backups by the relay, to the relay by any holder."""

    group: LocalGroup = needs(LocalGroup)
    hold: Retention = needs(Retention)
    numbering: NumberingPort = needs(NumberingPort)
    forwarder: ForwarderPort = needs(ForwarderPort)

    @on_announcement(SyncCompleted)
    def to_backups(self, event: SyncCompleted) -> None:
        """As relay: send each backup what the relay holds and the backup does not, as its HAVE lists it (relay rule
        2)."""
        hold = self.hold
        for member, have in event.haves.items():
            if not self.group.is_backup(member):
                continue
            for origin in list(hold.batches):
                for first, stop in missing(hold.ranges(origin), have.held.get(origin, ())):
                    self.give(member, origin, first, stop)

    def give(self, member: Address, origin: Address, first: int, stop: int) -> None:
        """Send the held batches of a range to another holder, as unicasts."""
        for held in self.hold.pieces(origin, first, stop):
            header = Copy(origin, held.first, max(0, self.now_ns - held.since_ns), held.batch.flags)
            self.pass_down(Batch(self.me, member, held.batch.payloads, (*held.batch.headers, header), RELIABLE))
            self.count("copies_sent", held.batch.count)

    @receives(FetchHeader)
    def fetched(self, header: FetchHeader, batch: Batch) -> None:
        """The relay requests what it lacks and this member holds."""
        for origin, ranges in header.wanted.items():
            for first, stop in ranges:
                self.give(batch.src, origin, first, stop)

    @receives(Copy)
    def copied(self, header: Copy, batch: Batch) -> None:
        """A held batch from another holder: hold it too, and as relay send it on to sites that lack it."""
        origin = header.origin
        known = max(self.hold.end(origin), self.numbering.numbers.get(origin, 0), self.numbering.ends.get(origin, 0))
        if not plausible(header.first, known, anew=known <= 1):
            # If it were held, it would be owed to every site, and no holder could ever fill the hole before it.
            return self.drop("implausible_dropped", batch, f"nothing near {header.first} of {origin} is known", header)
        copy = Batch(origin, None, batch.payloads, batch.headers, header.flags)
        self.hold.keep(origin, header.first, copy, self.now_ns - min(header.age_ns, OLDEST_NS))
        return self.forwarder.pump() if self.group.is_relay else None
