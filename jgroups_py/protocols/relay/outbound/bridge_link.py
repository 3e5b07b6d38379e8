"""The bridge: requests its stack from the node, sends on it, and routes what arrives to the parts.

With `standby` the member next in line is on the bridge, too. To all other parts it is as if it were not: `view` is
None, nothing is sent, and what arrives is dropped. Other relays do not see it as one, since it has sent no HELLO. When
it becomes the relay, the bridge's view is passed on, and HELLO follows once SYNC is complete. So taking over costs no
discovery, no connections and no change of the bridge's view. A relay that is not the relay any more leaves the bridge
in any case, and comes back under a new address if it is next in line: other relays would wait for the acknowledgements
of the old one (relay rule 7).

Parts declare the headers that they take by `@receives_from_bridge`. The checks that hold for all of them stand here:
the source must be in the bridge view, and speak for its own site only (site_guard.py). Whether it is the *accepted*
relay of its site is checked by the parts whose headers are claims about that site (`Introducer.accepted_sender`, relay
rule 11): acknowledgements and requests count from fenced relays too, since these receive for their half.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch, Header
from jgroups_py.model.events import BridgeClosed, BridgeDelivered, BridgeEnd, BridgeView, ViewChange
from jgroups_py.model.outputs import CloseBridge, LogEntry, OpenBridge, ToBridge
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View
from jgroups_py.protocols.relay.announcements import BridgeGone
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import BridgePort, IntroducerPort, LeaverPort, SiteGuardPort, SiteStatusPort
from jgroups_py.protocols.relay.sites.table import UP, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer

REOPEN_NS = seconds(1)          # after the bridge failed, for example as its address was in use


class BridgeLink(RelayPart, BridgePort):
    """See the module. receivers: header -> the part's handler."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    introducer: IntroducerPort = needs(IntroducerPort)
    leaver: LeaverPort = needs(LeaverPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    guard: SiteGuardPort = needs(SiteGuardPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.wanted = False
        self.waits = False
        self.waiting_view: BridgeView | None = None      # as standby: the bridge's last view
        self.view: View | None = None
        self.own_address: Address | None = None
        self.receivers: dict[type[Header], Callable[[Any, Batch], object]] = {}

    def route_to(self, receivers: dict[type[Header], Callable[[Any, Batch], object]]) -> None:
        """Set the handlers, after all parts were made (`Relay.assemble`)."""
        self.receivers = receivers

    # --- open and closed --------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """The coordinator is on the bridge, the standby waits there, and no other member is."""
        if self.group.is_relay and not self.group.was_relay:
            self.open()
        elif self.group.was_relay and not self.group.is_relay:
            self.close()                                 # a standby is back when it has left
        elif self.group.is_standby and not self.waits:
            self.wait()
        elif self.waits and not self.group.is_standby:
            self.stop_waiting()

    def open(self) -> None:
        """Have the node build the bridge stack, unless this member waits on the bridge already."""
        self.wanted = True
        self._lose_peers(for_good=False)
        self.cancel_timer("reopen")
        if not self.waits or self.leaver.leaving:
            self.request()
        elif self.waiting_view is not None:
            self.count("standby_took_over")
            self.set_timer("take_over", 0)               # after all parts have seen the change of this group's view
        self.waits = False

    @timer("take_over")
    def take_over(self) -> None:
        """The standby is the relay now: its view of the bridge counts."""
        waiting_view, self.waiting_view = self.waiting_view, None
        if waiting_view is not None and self.view is None:
            self.bridge_view_changed(waiting_view)

    def wait(self) -> None:
        """Be on the bridge as standby."""
        if not self.leaver.leaving:
            self.waits, self.waiting_view = True, None
            self.cancel_timer("reopen")
            self.request()

    def request(self) -> None:
        """Have the node join the bridge. Where other sites are UP their relays are on it, though they may not answer in
        one search: by a long path, or as long as they have not excluded the relay that led them."""
        expected = any(site.status == UP for site in self.table)
        self.emit(OpenBridge(self.config.bridge_props, self.config.bridge_name, expected))

    def stop_waiting(self) -> None:
        """This member is not next in line any more: leave the bridge."""
        self.waits, self.waiting_view = False, None
        self.emit(CloseBridge())

    def close(self) -> None:
        """This member is no longer the relay: leave the bridge for good."""
        self.wanted, self.waiting_view = False, None
        self._lose_peers(for_good=True)
        self.emit(CloseBridge())

    def _lose_peers(self, *, for_good: bool) -> None:
        self.view = self.own_address = None
        self.announce(BridgeGone(for_good))

    @on(BridgeView)
    def bridge_view_changed(self, event: BridgeView) -> None:
        if self.waits:
            self.waiting_view = event
        elif self.group.is_relay and self.wanted:
            self.waiting_view = None
            self.view, self.own_address = event.view, event.me
            self.guard.bridge_view_changed(event.view, event.sites)
            self.introducer.bridge_view_changed(event.view)

    @on(BridgeClosed)
    def bridge_closed(self, event: BridgeClosed) -> None:
        """The bridge stack is gone; open it again unless this member closed it."""
        self.waiting_view = None
        if not self.group.is_relay:
            return self.closed_at_standby(event)
        self._lose_peers(for_good=False)
        if self.leaver.leaving:
            self.leaver.left_bridge()
        elif self.group.is_relay and self.wanted and event.end is not BridgeEnd.REPLACED:
            self.emit(LogEntry("warning", f"the bridge closed ({event.reason}); it is opened again"))
            self.status.bridge_lost()
            self.set_timer("reopen", REOPEN_NS)
        return None

    def closed_at_standby(self, event: BridgeClosed) -> None:
        """The bridge of a member that is not the relay is gone: it left, as relay or as standby, or it failed."""
        if self.leaver.leaving:
            self.leaver.left_bridge()
        elif self.group.is_standby and event.end is not BridgeEnd.REPLACED:
            self.waits = False
            self.set_timer("reopen", 0 if event.end is BridgeEnd.LEFT else REOPEN_NS)

    @timer("reopen")
    def reopen(self) -> None:
        if self.group.is_relay and self.wanted and self.view is None:
            self.open()
        elif self.group.is_standby and not self.group.is_relay and not self.waits:
            self.wait()

    # --- what goes over it ------------------------------------------------------------------------------------------

    def send_to(
        self, to: Address, header: Header, payloads: tuple[bytes, ...] = (), headers: tuple[Header, ...] = (),
    ) -> None:
        self.emit(ToBridge(Batch(self.me, to, payloads, (*headers, header), 0)))

    def send_to_relays_of(self, site: str, header: Header) -> None:
        for peer in self.peers.of(site):
            self.send_to(peer.address, header)

    @on(BridgeDelivered)
    def delivered(self, event: BridgeDelivered) -> None:
        """Route a message of another relay to the part that takes its header.

        It is dropped if its source is not in the bridge view of this member. If that relay has left the bridge,
        registering it as a peer would block TRIM for ever (relay rule 7). If this member's view is late, nothing is
        lost either: once it is installed, both sides send HELLO.
        """
        batch = event.batch
        if not self.group.is_relay or not batch.headers:
            return self.drop("from_bridge_while_not_relay", batch, "this member is not the relay, or it has no header")
        if batch.flags & NO_RELIABILITY or self.view is None or batch.src not in self.view:
            return self.drop("non_peer_dropped", batch, "its source is not in the bridge view, or it is not reliable")
        handler = self.receivers.get(type(batch.headers[-1]))
        if handler is None:
            return self.drop("unexpected_on_bridge", batch, "its header has no meaning between relays")
        if not self.guard.refused(batch.headers[-1], batch):
            handler(batch.headers[-1], batch.pop())
        return None
