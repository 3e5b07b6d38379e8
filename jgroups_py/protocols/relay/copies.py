"""Copies of held runs for other holders: a new relay fetches what it lacks, a new backup gets what the relay holds.

Rule 2 of RELAY: so a run is in as many hands as before when its holders change. Its age travels with it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.jumps import plausible
from jgroups_py.protocols.relay.buffer import missing
from jgroups_py.protocols.relay.headers import Copy, Fetch, Have
from jgroups_py.protocols.relay.receiving import RELIABLE

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

OLDEST_NS = 1 << 60               # of a copy: 36 years


class Copies:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def to_backups(self, haves: dict[Address, Have]) -> None:
        """As relay: a backup holds what we hold, whenever it became one."""
        hold = self.relay.hold
        for member, have in haves.items():
            if not self.relay.is_backup(member):
                continue
            for origin in list(hold.runs):
                for first, stop in missing(hold.ranges(origin), have.held.get(origin, ())):
                    self.give(member, origin, first, stop)

    def give(self, member: Address, origin: Address, first: int, stop: int) -> None:
        """Held runs of a range, as unicasts to another holder."""
        relay = self.relay
        for run in relay.hold.pieces(origin, first, stop):
            header = Copy(origin, run.first, max(0, relay.now_ns - run.since_ns), run.batch.flags)
            relay.pass_down(Batch(relay.me, member, run.batch.payloads, (*run.batch.headers, header), RELIABLE))
            relay.count("copies_sent", run.batch.count)

    def fetched(self, header: Fetch, batch: Batch) -> None:
        """The relay lacks what we hold."""
        for origin, ranges in header.wanted.items():
            for first, stop in ranges:
                self.give(batch.src, origin, first, stop)

    def copied(self, header: Copy, batch: Batch) -> None:
        """A held run from another holder."""
        relay, origin = self.relay, header.origin
        known = max(relay.hold.end(origin), relay.numbers.get(origin, 0), relay.ends.get(origin, 0))
        if not plausible(header.first, known, anew=known <= 1):
            return relay.count("jumps_refused", batch.count)
        held = Batch(origin, None, batch.payloads, batch.headers, header.flags)
        relay.hold_run(origin, header.first, held, relay.now_ns - min(header.age_ns, OLDEST_NS))
        return relay.sending.pump() if relay.is_relay else None
