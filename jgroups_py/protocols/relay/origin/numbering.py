"""Numbers of this site's multicasts, per origin (relay rule 1), and what every member does with one that arrives.

Numbers are per origin, since only the messages of one origin have an order that all members and all sites share. They
go on across views: an origin counts 1, 2, 3, ... from its connect to its end.

Each member delivers a multicast, and holds it first if it is the origin, the relay or a backup (relay rule 2); the
relay also forwards it. `numbers` has the next number of each origin, as delivered here; `ends` what other members had
when the view began (HAVE). Of an origin in another half of a split site that may be more, and was never delivered here.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.counter_jumps import MAX_JUMP, plausible
from jgroups_py.protocols.relay.announcements import OriginForgotten, PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbered, Numbers
from jgroups_py.protocols.relay.origin.retention import Retention
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import DivergencePort, ForwarderPort, GatePort, NumberingPort, TrimmerPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import receives


class Numbering(RelayPart, NumberingPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    hold: Retention = needs(Retention)
    send_gate: GatePort = needs(GatePort)
    divergence: DivergencePort = needs(DivergencePort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    trimmer: TrimmerPort = needs(TrimmerPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.next_number = 1                      # the number of this member's next multicast
        self.numbers: Numbers = {}                # this site: origin -> next number that will be delivered here
        self.ends: Numbers = {}                   # this site, as relay: origin -> next number, as in HAVE

    # --- the origin -------------------------------------------------------------------------------------------------

    def multicast(self, batch: Batch) -> None:
        """Number a multicast, unless it stays in this site, and send it to the group."""
        if batch.flags & NO_RELAY:
            return self.pass_down(batch)          # a number that is not forwarded would be a hole at other sites
        first = self.next_number
        self.next_number = first + batch.count
        return self.pass_down(batch.push(Numbered(first)))

    @property
    def coming_number(self) -> int:
        return self.next_number + self.send_gate.unnumbered

    # --- every member -----------------------------------------------------------------------------------------------

    @receives(Numbered)
    def numbered(self, header: Numbered, batch: Batch) -> None:
        """A multicast of this site: hold it (as a holder), forward it (as the relay), deliver it."""
        origin = batch.src
        # The usual case costs one look-up. Anything else is a jump over what a partition kept from this member.
        if (self.numbers.get(origin) != header.first or self.divergence.nakack_losses) and \
                not self.divergence.numbered(origin, header.first):
            return self.drop("implausible_dropped", batch, "its number is far ahead of its origin's last", header)
        number = self.numbers[origin] = header.first + batch.count
        if self.group.is_relay or origin == self.me or self.group.is_backup(self.me):
            # Before delivery: a member that has delivered a message and may have to forward it holds it. The
            # application may crash the process in its callback, and with a journal the batch is on disk by then (relay
            # rule 2).
            self.hold.keep(origin, header.first, batch, self.now_ns)
            if self.group.is_relay:
                self.forwarder.pump()
                if self.hold.nbytes > self.config.hold_bytes:
                    # TRIM at once: it ends graces and gives up the sites furthest behind (relay rule 14).
                    self.trimmer.publish_table()
                else:
                    self.trimmer.trim_soon()
        self.pass_up(batch)
        return self.announce(PrefixDelivered(self.config.site, origin, number))

    def expect(self, origin: Address, number: int) -> None:
        self.numbers[origin] = number

    def expect_newcomers(self, numbers: Numbers) -> None:
        """A joiner's SYNC. Its numbers are the relay's; if a merge is not over yet, there are messages between them and
        the next that come. None of those is owed to a joiner."""
        for origin, number in numbers.items():
            known = self.numbers.get(origin)
            if known is None or (self.divergence.is_unheard(origin) and number > known and plausible(number, known)):
                self.numbers[origin] = number
                self.divergence.named(origin, number)

    def current_numbers(self) -> Numbers:
        # The highest of what was delivered here, is held (copies of origins that are gone) and was reported in HAVE.
        known = {**self.hold.trimmed, **dict.fromkeys(self.hold.batches, 1), **self.ends, **self.numbers}
        ends, end = self.ends, self.hold.end
        return {origin: max(number, end(origin), ends.get(origin, 1)) for origin, number in known.items()}

    def raise_ends(self, numbers: Numbers) -> None:
        """As relay: how far a member had the origins of this site when this view began (relay rule 17).

        This member may have been in another view until then, as the founder of a group that merged. What the others
        multicast before is not owed to a site that appears from now on, and stays owed to sites that were known. It is
        kept apart from `numbers`, since it was not delivered here.
        """
        for origin, number in numbers.items():
            known = max(self.ends.get(origin, 0), self.numbers.get(origin, 0))
            if known and number - known > MAX_JUMP:
                self.drop("implausible_dropped", None, f"number {number} of {origin} is far ahead of {known}")
            elif number > known and origin != self.me:
                self.ends[origin] = number

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        self.numbers.pop(event.origin, None)
        self.ends.pop(event.origin, None)
