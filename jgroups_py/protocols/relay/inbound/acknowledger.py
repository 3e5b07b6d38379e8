"""What the site acknowledges to others: late, so that no acknowledged message can be lost (relay rule 6).

The sender drops what is acknowledged. So a prefix is acknowledged only when it survives the crash of the relay: every
member of the view has answered SYNC, and the relay, its backups and the members that were behind have all delivered it.
Backups and members that were behind report that by CONFIRM, on a timer. Other members need not: they are not behind,
and deliver what the relay delivered in this view (virtual synchrony).
"""
from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.announcements import OriginForgotten, PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Confirm, Numbers, SeenHeader, Vector
from jgroups_py.protocols.relay.inbound.vectors import raised
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import AcknowledgerPort, BridgePort, DeliveryPort, SyncPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives, timer


class Acknowledger(RelayPart, AcknowledgerPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    bridge: BridgePort = needs(BridgePort)
    delivery: DeliveryPort = needs(DeliveryPort)
    synchronizer: SyncPort = needs(SyncPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.unconfirmed: Vector = {}                # as backup: delivered, not yet in a CONFIRM
        # The relay's:
        self.confirmed: dict[Address, Vector] = {}   # member -> what it confirmed in this view
        self.confirmers: list[Address] = []          # backups, and members that were behind at SYNC
        self.acked_out: Vector = {}                  # what SEEN has reported, or may report; it only rises
        self.to_ack: Vector = {}                     # origins of which the next timer sends SEEN

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        # A CONFIRM counts in its own view only: in the next one other members may be backups, or behind.
        self.unconfirmed, self.confirmed, self.confirmers = {}, {}, []
        if not self.group.is_relay:
            self.acked_out, self.to_ack = {}, {}

    @on_announcement(PrefixDelivered)
    def delivered(self, event: PrefixDelivered) -> None:
        """The relay acknowledges to the other site, backups and members that were behind confirm to the relay."""
        if event.site == self.config.site:
            return                                    # messages of this site are acknowledged by the other sites
        if self.group.is_relay:
            self.ack_again(event.site, {event.origin: event.number})
        elif self.synchronizer.behind or self.group.is_backup(self.me):
            self.unconfirmed.setdefault(event.site, {})[event.origin] = event.number
            self.set_timer_once("confirm", self.config.ack_interval_ns)

    @timer("confirm")
    def confirm(self) -> None:
        """As backup, on a timer: report to the relay what was delivered here since the last CONFIRM."""
        if self.unconfirmed:
            vector, self.unconfirmed = self.unconfirmed, {}
            self.send(Confirm(self.group.view.id, vector), self.group.view.coordinator, flags=RELIABLE)

    # --- the relay --------------------------------------------------------------------------------------------------

    def begin(self, lowest: Vector, confirmed: Mapping[Address, Vector]) -> None:
        for member, vector in confirmed.items():
            self.confirmers.append(member)
            self.confirmed[member] = raised(vector, self.confirmed.get(member, {}))
        self.acked_out = lowest
        for site, numbers in lowest.items():
            self.ack_again(site, numbers)

    @receives(Confirm)
    def confirms(self, header: Confirm, batch: Batch) -> None:
        """As relay: a backup, or a member that was behind, has delivered more."""
        if not self.group.is_relay or header.view_id != self.group.view.id:
            return self.drop("confirm_of_other_view", batch, "this member is not the relay of that view", header)
        self.confirmed[batch.src] = raised(self.confirmed.get(batch.src, {}), header.vector)
        for site, numbers in header.vector.items():
            self.ack_again(site, numbers)
        return None

    def ack_again(self, site: str, numbers: Numbers) -> None:
        self.to_ack.setdefault(site, {}).update(numbers)
        self.set_timer_once("ack", self.config.ack_interval_ns)

    @timer("ack")
    def acknowledge(self) -> None:
        """As relay, on a timer: SEEN to each site, with what every confirming member has of its messages."""
        if not self.group.is_relay or not self.synchronizer.complete:
            return                                # nothing rises before every member answered SYNC
        to_ack, self.to_ack = self.to_ack, {}
        for site, numbers in to_ack.items():
            acked = self.acked_out.setdefault(site, {})
            for origin in numbers:
                # Never lower than before: the sender has dropped what an earlier SEEN covered.
                acked[origin] = max(acked.get(origin, 1), self.ackable(site, origin))
            self.bridge.send_to_relays_of(site, SeenHeader({origin: acked[origin] for origin in numbers}))

    def ackable(self, site: str, origin: Address) -> int:
        """The end of the prefix that the relay and all members that must confirm have delivered (relay rule 6)."""
        own = self.delivery.seen.get(site, {}).get(origin, 1)
        others = [self.confirmed.get(member, {}).get(site, {}).get(origin, 1) for member in self.confirmers]
        return min([own, *others])

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        for vector in (self.acked_out, self.to_ack):
            for numbers in vector.values():
                numbers.pop(event.origin, None)
