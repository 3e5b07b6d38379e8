"""A state on its way between two sites: the side of both relays (transfer.py shows the whole exchange; relay rule 16).

The relay of the requesting site stops disseminating, lets its members hold their multicasts back, sends the vector that
the site then has, and multicasts what comes back. The relay of the other site only passes headers on to the provider
and back. Any failure ends the attempt, with a reason; the requesting member starts another one.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import ViewChange
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import PeerGone
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import NeedHeader, Numbers, Vector
from jgroups_py.protocols.relay.headers.state import (
    Key,
    Keyed,
    SiteStateRequestHeader,
    StateFailed,
    StateFetch,
    StateFixed,
    StateInstall,
    StateMore,
    StatePause,
    StatePaused,
    StatePiece,
    StateStart,
)
from jgroups_py.protocols.relay.inbound.vectors import copied, raised
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import (
    BridgePort,
    DeliveryPort,
    DisseminatorPort,
    NumberingPort,
    SiteGuardPort,
    StateForwarderPort,
    StateProviderPort,
    SyncPort,
)
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives, timer

ALIVE_NS = seconds(1)            # how often the requesting site confirms to the provider that it still waits


@attrs.define(eq=False)
class StateInTransit:
    """A state on its way to this site.

    remote: the bridge address of the other relay; unpaused: members that have not answered PAUSE; cut: the next number
    of each member when it paused; vector: that of the state, once it is fixed; stops: member -> byte up to which it has
    room; requested_stop: the byte up to which the last MORE requested it.
    """

    request: SiteStateRequestHeader
    remote: Address
    unpaused: dict[Address, None]
    cut: Numbers
    vector: Vector | None = None
    stops: Numbers = attrs.Factory(dict)
    requested_stop: int = 0


class StateForwarder(RelayPart, StateForwarderPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    disseminator: DisseminatorPort = needs(DisseminatorPort)
    provider: StateProviderPort = needs(StateProviderPort)
    guard: SiteGuardPort = needs(SiteGuardPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.fetch: StateInTransit | None = None
        self.deferred: dict[str, dict[Address, None]] = {}        # site -> origins not disseminated meanwhile
        self.routes: dict[Key, tuple[Address, Address]] = {}     # attempt -> (bridge address of its relay, provider)

    # --- the relay of the requesting site ---------------------------------------------------------------------------

    @receives(SiteStateRequestHeader)
    def request_received(self, header: SiteStateRequestHeader, batch: Batch) -> None:
        """A member of this site requests the state of another one: all members pause first."""
        peer = self.peers.accepted(header.site)
        if self.fetch is not None and self.fetch.request.requester == header.requester:
            self.abandon("the member that asked tries again")
        if not (self.group.is_relay and self.synchronizer.complete):
            return self.refuse_attempt(header, "the relay of the own site is not ready")
        if self.fetch is not None:
            return self.refuse_attempt(header, "the site is getting a state already")
        if peer is None:
            return self.refuse_attempt(header, f"site {header.site} has no relay on the bridge")
        self.count("states_fetched")
        unpaused = dict.fromkeys(self.group.view.members)
        self.fetch = StateInTransit(header, peer.address, unpaused, dict(self.numbering.numbers))
        self.set_timer("state_stall", header.timeout_ns // 2)
        return self.send(StatePause(*header.key, self.group.view.id), dest=None, flags=RELIABLE)

    def refuse_attempt(self, header: SiteStateRequestHeader, reason: str) -> None:
        """The attempt cannot start now; the member makes a new one later."""
        self.send(StateFailed(*header.key, reason, False), header.requester, flags=RELIABLE)

    @receives(StatePaused)
    def paused(self, header: StatePaused, batch: Batch) -> None:
        """A member has paused. When all have, the vector of this site stands still: request a state that covers it."""
        fetch, member = self.current(header), batch.src
        if fetch is None:
            return
        if header.refusal:
            return self.abandon(f"{member}: {header.refusal}")
        fetch.unpaused.pop(member, None)
        fetch.cut[member] = header.next
        if not fetch.unpaused:
            vector = raised(copied(self.delivery.seen), self.disseminator.next_out)
            vector[self.config.site] = dict(fetch.cut)
            request = fetch.request
            self.bridge.send_to(fetch.remote, StateFetch(*request.key, request.target, vector, request.timeout_ns))

    @receives_from_bridge(StateFixed)
    def state_fixed(self, header: StateFixed, batch: Batch) -> None:
        """The state is fixed at a vector, which all members install with it."""
        if not self._is_peer(header, batch):
            return
        src = batch.src
        fetch = self.current(header)
        if fetch is not None and fetch.remote == src and fetch.vector is None:
            fetch.vector = header.vector
            self.cancel_timer("state_stall")
            self.set_timer("state_alive", ALIVE_NS)
            self.send(StateStart(*header.key, self.multicast_in_view(fetch.cut)), dest=None, flags=RELIABLE)

    def multicast_in_view(self, cut: Numbers) -> Numbers:
        """The entries of a cut below which something was multicast in this view: members must deliver only these first.

        Below the other entries everything is of earlier views. Members of those views have delivered it (virtual
        synchrony), and members that joined or merged never get it, so waiting for it would block the state for ever.
        """
        ends, known = self.numbering.ends, self.synchronizer.known_ends
        return {origin: number for origin, number in cut.items()
                if number > max(ends.get(origin, 1), known.get(origin, 1))}

    @receives(StateMore)
    def more(self, header: StateMore, batch: Batch) -> None:
        """A member has room for more: request as much as all members have room for. This member may also be the
        provider."""
        self.provider.more(header)
        fetch, member = self.current(header), batch.src
        if fetch is None:
            return
        fetch.stops[member] = max(header.stop, fetch.stops.get(member, 0))
        stop = min(fetch.stops.get(one, 0) for one in self.group.view.members)
        if stop > fetch.requested_stop:
            fetch.requested_stop = stop
            self.bridge.send_to(fetch.remote, StateMore(*header.key, stop))
            self.set_timer("state_stall", fetch.request.timeout_ns // 2)

    @timer("state_alive")
    def alive(self) -> None:
        """On a timer: repeat MORE, so that the provider keeps the state however slowly it is read."""
        fetch = self.fetch
        if fetch is not None and fetch.vector is not None:
            self.bridge.send_to(fetch.remote, StateMore(*fetch.request.key, fetch.requested_stop))
            self.set_timer("state_alive", ALIVE_NS)

    @receives_from_bridge(StatePiece)
    def piece(self, header: StatePiece, batch: Batch) -> None:
        """From the provider: multicast it; behind the last piece goes INSTALL, so all members install or none does."""
        if not self._is_peer(header, batch):
            return None
        fetch = self.current(header)
        if fetch is None or fetch.remote != batch.src or fetch.vector is None:
            return self.drop("stale_state_dropped", batch, "this site does not wait for that state", header)
        if header.error:
            return self.abandon(header.error, final=True)
        self.cancel_timer("state_stall")
        self.send(header, None, batch.payloads, RELIABLE)
        if header.last:
            self.send(StateInstall(*header.key, fetch.vector), dest=None, flags=RELIABLE)
        return None

    def installed(self, vector: Vector) -> None:
        """This relay's INSTALL was delivered: disseminate again, above the vector."""
        self.fetch = None
        self.disseminator.skip_to(vector)
        self.resume()

    def defers(self, site: str, origin: Address) -> bool:
        """While a state is on its way: record the origin, so that its messages are requested afterwards."""
        if self.fetch is None:
            return False
        self.deferred.setdefault(site, {})[origin] = None
        return True

    def resume(self) -> None:
        """No state is on its way any more: request what was not disseminated meanwhile."""
        deferred, self.deferred = self.deferred, {}
        for site, origins in deferred.items():
            numbers = {origin: self.disseminator.wanted(site, origin, 1) for origin in origins}
            self.bridge.send_to_relays_of(site, NeedHeader(numbers))

    @property
    def is_fetching(self) -> bool:
        return self.fetch is not None

    @timer("state_stall")
    def stalled(self) -> None:
        """On a timer: nothing more comes from the provider, or some member does not pause."""
        self.abandon("the other site does not send the state")

    def abandon(self, reason: str, *, final: bool = False) -> None:
        """The attempt has failed: report it to all participants, and disseminate again."""
        fetch, self.fetch = self.fetch, None
        self.cancel_timer("state_stall")
        if fetch is not None:
            failed = StateFailed(*fetch.request.key, reason, final)
            self.count("states_failed")
            self.send(failed, dest=None, flags=RELIABLE)
            self.bridge.send_to(fetch.remote, failed)
            self.resume()

    def current(self, header: Keyed) -> StateInTransit | None:
        """The fetch under way, if the header is of the same attempt."""
        fetch = self.fetch
        if fetch is None or fetch.request.key != header.key:
            return None
        return fetch

    def failed_received(self, header: StateFailed, src: Address) -> None:
        if self.current(header) is not None and src == header.requester:
            self.abandon(header.reason)
        self.to_requesting_site(header)

    # --- the relay of the providing site ----------------------------------------------------------------------------

    @receives_from_bridge(StateFetch)
    def fetch_from_bridge(self, header: StateFetch, batch: Batch) -> None:
        """Another site requests a state: of the member that it names, if that is still here, else of this relay."""
        if not self._is_peer(header, batch):
            return None
        peer = self.peers.by_address[batch.src]
        if not self.guard.may_receive_all(peer.site.name):
            self.drop("withheld", batch, f"the trust file lets {peer.site.name} receive no state", header)
            return self.bridge.send_to(peer.address, StateFailed(
                *header.key, f"site {self.config.site} gives no state to {peer.site.name}", True))
        target = next((member for member in self.group.view.members if member == header.target), self.me)
        for key in [key for key in self.routes if key[0] == header.requester]:
            del self.routes[key]
        self.routes[header.key] = batch.src, target
        return self.send(header, target, flags=RELIABLE)

    @receives(StateFixed)
    def provider_fixed_state(self, header: StateFixed, batch: Batch) -> None:
        """The provider is in this site: send its vector on to the requesting site."""
        self.to_requesting_site(header)

    def partner(self, key: Key) -> Address | None:
        if self.fetch is not None and self.fetch.request.key == key:
            return self.fetch.remote
        route = self.routes.get(key)
        return route[0] if route is not None else None

    def to_requesting_site(self, header: Keyed, payloads: tuple[bytes, ...] = ()) -> None:
        route = self.routes.get(header.key)
        if route is None:
            return
        if isinstance(header, StateFailed) or (isinstance(header, StatePiece) and header.last):
            del self.routes[header.key]                  # the last that comes from the provider
        self.bridge.send_to(route[0], header, payloads)

    def to_provider(self, header: Keyed) -> None:
        """Pass a header of the requesting site on to the provider."""
        route = self.routes.get(header.key)
        if route is not None:
            self.send(header, route[1], flags=RELIABLE)

    # --- both -------------------------------------------------------------------------------------------------------

    @receives_from_bridge(StateMore)
    def more_for_provider(self, header: StateMore, batch: Batch) -> None:
        """The requesting site has room for more."""
        if self._is_peer(header, batch):
            self.to_provider(header)

    @receives_from_bridge(StateFailed)
    def failed_at_other_site(self, header: StateFailed, batch: Batch) -> None:
        """The other site ends an attempt: as its provider, or as the one that requested the state."""
        if not self._is_peer(header, batch):
            return
        if self.current(header) is not None:
            self.abandon(header.reason)
        else:
            self.to_provider(header)
            self.routes.pop(header.key, None)

    def _is_peer(self, header: Header, batch: Batch) -> bool:
        """Whether the sender has sent HELLO; else the batch is dropped."""
        if self.peers.get(batch.src) is None:
            self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
            return False
        return True

    @on_announcement(PeerGone)
    def peer_gone(self, event: PeerGone) -> None:
        """A remote relay left the bridge: attempts through it have failed."""
        peer = event.peer
        if self.fetch is not None and self.fetch.remote == peer.address:
            self.abandon(f"the relay of site {peer.site.name} left the bridge")
        for key in [key for key, route in self.routes.items() if route[0] == peer.address]:
            self.to_provider(StateFailed(*key, "the relay of the asking site left the bridge", False))
            del self.routes[key]

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new view ends an attempt, since joiners have not paused for it. It ends those through this site if their
        provider left, or if this member is no longer the relay.
        """
        fetch, self.fetch = self.fetch, None
        self.cancel_timer("state_stall")
        if fetch is not None and self.group.is_relay:
            failed = StateFailed(*fetch.request.key, "the view of the asking site changed", False)
            self.bridge.send_to(fetch.remote, failed)
            self.resume()
        for key, (remote, provider) in list(self.routes.items()):
            if not self.group.is_relay or provider not in self.group.view:
                del self.routes[key]
                if self.group.is_relay:
                    self.bridge.send_to(remote, StateFailed(*key, "the member that provided the state left", False))
