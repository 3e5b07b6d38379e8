"""Carries a state between two sites: the side of both relays. See state.py.

The relay of the asking site stops disseminating, has its members keep their multicasts back, says what the site then
has, and multicasts what comes back. The relay of the other site only knows the way to the provider. Whatever goes wrong
ends the try, with a reason; the member that asked tries again.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.protocols.relay.headers import Need, Numbers, Vector
from jgroups_py.protocols.relay.peers import Peer
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.state_headers import (
    Key,
    Keyed,
    StateAsk,
    StateCover,
    StateFetch,
    StateInstall,
    StateMore,
    StateOver,
    StatePause,
    StatePaused,
    StatePiece,
    StateStart,
)
from jgroups_py.protocols.relay.vectors import copied, raised
from jgroups_py.units import seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

ALIVE_NS = seconds(1)


@attrs.define(eq=False)
class Fetch:
    """A state on its way to our site.

    remote: the bridge address of the other relay; unpaused: members that have not answered PAUSE; cut: what our members
    multicast before they paused; vector: what the state holds, once that is known; stops: what members asked for.
    """

    ask: StateAsk
    remote: Address
    unpaused: dict[Address, None]
    cut: Numbers
    vector: Vector | None = None
    stops: Numbers = attrs.Factory(dict)
    asked_for: int = 0


class StateRelay:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.fetch: Fetch | None = None
        self.put_off: dict[str, dict[Address, None]] = {}        # site -> origins not disseminated meanwhile
        self.routes: dict[Key, tuple[Address, Address]] = {}     # try -> (bridge address of who asks, provider)

    # --- the asking site's ------------------------------------------------------------------------------------------

    def ask(self, header: StateAsk) -> None:
        """A member of ours asks for the state of another site."""
        relay = self.relay
        peer = relay.sending.peers.accepted(header.site)
        if self.fetch is not None and self.fetch.ask.asker == header.asker:
            self.abandon("the member that asked tries again")
        if not (relay.is_relay and relay.receiving.complete):
            return self.tell_asker(header, "the relay of the own site is not ready")
        if self.fetch is not None:
            return self.tell_asker(header, "the site is getting a state already")
        if peer is None:
            return self.tell_asker(header, f"site {header.site} has no relay on the bridge")
        relay.count("states_fetched")
        self.fetch = Fetch(header, peer.address, dict.fromkeys(relay.view.members), dict(relay.numbers))
        relay.set_timer("state_stall", header.timeout_ns // 2)
        return relay.send(StatePause(*header.key, relay.view.id), dest=None, flags=RELIABLE)

    def tell_asker(self, header: StateAsk, reason: str) -> None:
        """This try is none."""
        self.relay.send(StateOver(*header.key, reason, False), header.asker, flags=RELIABLE)

    def paused(self, header: StatePaused, member: Address) -> None:
        """A member multicasts nothing more. When all do, it is clear what our site has: ask for a state with that."""
        fetch = self.current(header)
        if fetch is None:
            return
        if header.refusal:
            return self.abandon(f"{member}: {header.refusal}")
        fetch.unpaused.pop(member, None)
        fetch.cut[member] = header.next
        if not fetch.unpaused:
            vector = raised(copied(self.relay.receiving.seen), self.relay.receiving.next_out)
            vector[self.relay.config.site] = dict(fetch.cut)
            ask = fetch.ask
            self.relay.to_bridge(fetch.remote, StateFetch(*ask.key, ask.target, vector, ask.timeout_ns))

    def covered(self, header: StateCover, src: Address) -> None:
        """The state is cut; our members may begin with it."""
        fetch = self.current(header)
        if fetch is not None and fetch.remote == src and fetch.vector is None:
            fetch.vector = header.vector
            self.relay.cancel_timer("state_stall")
            self.relay.set_timer("state_alive", ALIVE_NS)
            self.relay.send(StateStart(*header.key, self.multicast_here(fetch.cut)), dest=None, flags=RELIABLE)

    def multicast_here(self, cut: Numbers) -> Numbers:
        """The entries of a cut behind which something was multicast in this view: nobody need wait for the others.

        A member that joined or merged never gets that, and those that were there have it.
        """
        ends, known = self.relay.ends, self.relay.receiving.known_ends
        return {origin: number for origin, number in cut.items()
                if number > max(ends.get(origin, 1), known.get(origin, 1))}

    def more(self, header: StateMore, member: Address) -> None:
        """A member reads on. As far as all do, the provider is asked for more."""
        fetch = self.current(header)
        if fetch is None:
            return
        fetch.stops[member] = max(header.stop, fetch.stops.get(member, 0))
        stop = min(fetch.stops.get(one, 0) for one in self.relay.view.members)
        if stop > fetch.asked_for:
            fetch.asked_for = stop
            self.relay.to_bridge(fetch.remote, StateMore(*header.key, stop))
            self.relay.set_timer("state_stall", fetch.ask.timeout_ns // 2)

    def alive(self) -> None:
        """On a timer: the provider shall know that its state is still wanted, however slowly it is read."""
        fetch = self.fetch
        if fetch is not None and fetch.vector is not None:
            self.relay.to_bridge(fetch.remote, StateMore(*fetch.ask.key, fetch.asked_for))
            self.relay.set_timer("state_alive", ALIVE_NS)

    def piece(self, header: StatePiece, src: Address, payloads: tuple[bytes, ...]) -> None:
        """From the provider: to all our members; after the last piece they go on above what the state holds."""
        fetch = self.current(header)
        if fetch is None or fetch.remote != src or fetch.vector is None:
            return
        if header.error:
            return self.abandon(header.error, final=True)
        self.relay.cancel_timer("state_stall")
        self.relay.send(header, None, payloads, RELIABLE)
        if header.last:
            self.relay.send(StateInstall(*header.key, fetch.vector), dest=None, flags=RELIABLE)

    def installed(self, vector: Vector) -> None:
        """Our own INSTALL came back: disseminate again, from there on."""
        self.fetch = None
        for site, numbers in vector.items():
            out = self.relay.receiving.next_out.setdefault(site, {})
            for origin, number in numbers.items():
                out[origin] = max(number, out.get(origin, 1))
        self.resume()

    def puts_off(self, site: str, origin: Address) -> bool:
        """Whether a message is not to be disseminated now, as a state is on its way; it is asked for afterwards."""
        if self.fetch is None:
            return False
        self.put_off.setdefault(site, {})[origin] = None
        return True

    def resume(self) -> None:
        """No state is on its way any more: have what was put off sent again."""
        put_off, self.put_off = self.put_off, {}
        for site, origins in put_off.items():
            wanted = {origin: self.relay.receiving.wanted(site, origin, 1) for origin in origins}
            self.relay.to_relays_of(site, Need(wanted))

    def abandon(self, reason: str, *, final: bool = False) -> None:
        """This try has failed."""
        fetch, self.fetch = self.fetch, None
        self.relay.cancel_timer("state_stall")
        if fetch is not None:
            over = StateOver(*fetch.ask.key, reason, final)
            self.relay.count("states_failed")
            self.relay.send(over, dest=None, flags=RELIABLE)
            self.relay.to_bridge(fetch.remote, over)
            self.resume()

    def current(self, header: Keyed) -> Fetch | None:
        """The fetch that a header is about, if it is the present one."""
        fetch = self.fetch
        if fetch is None or fetch.ask.key != header.key:
            return None
        return fetch

    def over_heard(self, header: StateOver, src: Address) -> None:
        """Said to us as relay: by the member that asked, or by a provider."""
        if self.current(header) is not None and src == header.asker:
            self.abandon(header.reason)
        self.onward(header)

    # --- the providing site's ---------------------------------------------------------------------------------------

    def fetch_for(self, header: StateFetch, peer: Peer) -> None:
        """Another site wants a state: from the member it names, if that is here still, else from us."""
        relay = self.relay
        target = next((member for member in relay.view.members if member == header.target), relay.me)
        for key in [key for key in self.routes if key[0] == header.asker]:
            del self.routes[key]
        self.routes[header.key] = peer.address, target
        relay.send(header, target, flags=RELIABLE)

    def onward(self, header: Keyed, payloads: tuple[bytes, ...] = ()) -> None:
        """What a provider says goes to the site that asked."""
        route = self.routes.get(header.key)
        if route is None:
            return
        if isinstance(header, StateOver) or (isinstance(header, StatePiece) and header.last):
            del self.routes[header.key]                  # the provider says no more about this try
        self.relay.to_bridge(route[0], header, payloads)

    def to_provider(self, header: Keyed) -> None:
        """What the asking site says goes to the provider."""
        route = self.routes.get(header.key)
        if route is not None:
            self.relay.send(header, route[1], flags=RELIABLE)

    # --- both -------------------------------------------------------------------------------------------------------

    def from_bridge(self, header: Keyed, payloads: tuple[bytes, ...], src: Address) -> None:
        """What the other relay says."""
        peer = self.relay.sending.peers.get(src)
        if peer is None:
            return self.relay.count("from_strangers")
        if isinstance(header, StateFetch):
            self.fetch_for(header, peer)
        elif isinstance(header, StateCover):
            self.covered(header, src)
        elif isinstance(header, StatePiece):
            self.piece(header, src, payloads)
        elif self.current(header) is not None and isinstance(header, StateOver):
            self.abandon(header.reason)
        else:
            self.to_provider(header)
            if isinstance(header, StateOver):
                self.routes.pop(header.key, None)
        return None

    def peer_gone(self, peer: Peer) -> None:
        """A remote relay left the bridge."""
        if self.fetch is not None and self.fetch.remote == peer.address:
            self.abandon(f"the relay of site {peer.site.name} left the bridge")
        for key in [key for key, route in self.routes.items() if route[0] == peer.address]:
            self.to_provider(StateOver(*key, "the relay of the asking site left the bridge", False))
            del self.routes[key]

    def view_changed(self) -> None:
        """A new view of our group ends a try: who came does not know of it, who left may be its provider."""
        fetch, self.fetch = self.fetch, None
        self.relay.cancel_timer("state_stall")
        if fetch is not None and self.relay.is_relay:
            self.relay.to_bridge(fetch.remote, StateOver(*fetch.ask.key, "the view of the asking site changed", False))
            self.resume()
        for key, (remote, provider) in list(self.routes.items()):
            if not self.relay.is_relay or provider not in self.relay.view:
                del self.routes[key]
                if self.relay.is_relay:
                    self.relay.to_bridge(remote, StateOver(*key, "the member that provided the state left", False))
