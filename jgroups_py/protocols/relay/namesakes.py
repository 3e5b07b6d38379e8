"""Two relays of one site on the bridge: the halves of a split site, or two clusters that were given one site name.

RELAY cannot tell them apart, and treats both as a split: other sites send to both and obey one. Halves merge when their
network is whole, and one of the relays leaves the bridge; two clusters never do. So if a namesake stays, the log says
once what an operator has to look at.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.outputs import Note
from jgroups_py.units import NS_PER_S, seconds
from jgroups_py.view import View, ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

STAY_NS = seconds(60)            # a merge takes about two of MERGE3's intervals once the network is whole


class Namesakes:
    """Other relays of our own site on the bridge, as the relay sees them."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.there: dict[Address, tuple[int, ViewId]] = {}       # bridge address -> since when, its epoch
        self.told = False

    def met(self, src: Address, epoch: ViewId) -> None:
        """One said HELLO."""
        since_ns, _ = self.there.get(src, (self.relay.now_ns, epoch))
        self.there[src] = since_ns, epoch
        self.relay.count("hello_of_own_site")
        self.relay.set_timer_once("namesakes", STAY_NS)

    def bridge_view_changed(self, view: View) -> None:
        """Some may have gone."""
        self.there = {src: about for src, about in self.there.items() if src in view}
        self.told = self.told and bool(self.there)

    def stop(self) -> None:
        """We are not on the bridge."""
        self.there, self.told = {}, False

    def look(self) -> None:
        """On a timer: who has stayed."""
        if self.told or not self.there:
            return
        since_ns, epoch = min(self.there.values(), key=lambda about: about[0])
        stayed_ns = self.relay.now_ns - since_ns
        if stayed_ns < STAY_NS:
            return self.relay.set_timer("namesakes", STAY_NS - stayed_ns)
        self.told = True
        return self.relay.emit(Note("error", self.advice(epoch, stayed_ns // NS_PER_S)))

    def advice(self, epoch: ViewId, stayed_s: int) -> str:
        """What an operator has to look at."""
        site = self.relay.config.site
        return (f"another relay of site {site} ({epoch.coordinator}) has been on the bridge for {stayed_s} s. If its "
                f"members belong to our group, the network of {site} is split: make it whole, and they merge. If they "
                "are another cluster, give one of the two another name with RELAY's property site: other sites obey "
                "only one of them, and hold back or lose what the other sends")
