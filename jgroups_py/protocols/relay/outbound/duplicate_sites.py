"""Two relays of one site on the bridge: the halves of a split site, or two clusters that were given one site name.

RELAY cannot distinguish them, and treats both as a split: other sites send to both and accept one (relay rule 11).
Halves merge when their network is whole again, and then one of the relays leaves the bridge; two clusters never merge.
So if another relay of this site stays on the bridge, the log reports once what an operator has to check.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import LogEntry
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay.announcements import BridgeGone
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.stack.protocol import timer

STAY_NS = seconds(60)            # a merge takes about two of MERGE3's intervals once the network is whole


class DuplicateSites(RelayPart):
    """See the module. As relay: the other relays of its own site."""

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.others: dict[Address, tuple[int, ViewId]] = {}       # bridge address -> since when, its epoch
        self.warned = False

    def hello_received(self, src: Address, epoch: ViewId) -> None:
        """HELLO of one of them: it is counted and not answered, since no messages are exchanged with its half."""
        since_ns, _ = self.others.get(src, (self.now_ns, epoch))
        self.others[src] = since_ns, epoch
        self.drop("hello_of_own_site", Batch(src, self.me), "its relay is of this site: nothing is held for it")
        self.set_timer_once("duplicate_sites", STAY_NS)

    def bridge_view_changed(self, view: View) -> None:
        """Drop those that have left the bridge; if none stays, the next one is reported again."""
        self.others = {src: about for src, about in self.others.items() if src in view}
        self.warned = self.warned and bool(self.others)

    @on_announcement(BridgeGone)
    def bridge_gone(self, event: BridgeGone) -> None:
        """This member is not on the bridge any more, so it sees no other relay."""
        self.others, self.warned = {}, False

    @timer("duplicate_sites")
    def check_duration(self) -> None:
        """On a timer: report the one that has stayed for longest, when it has stayed long enough."""
        if self.warned or not self.others:
            return
        since_ns, epoch = min(self.others.values(), key=lambda about: about[0])
        stayed_ns = self.now_ns - since_ns
        if stayed_ns < STAY_NS:
            return self.set_timer("duplicate_sites", STAY_NS - stayed_ns)
        self.warned = True
        return self.emit(LogEntry("error", self.advice(epoch, stayed_ns // NS_PER_S)))

    def advice(self, epoch: ViewId, stayed_s: int) -> str:
        """The text of the log entry: both causes, and the remedy of each."""
        site = self.config.site
        return (f"another relay of site {site} ({epoch.coordinator}) has been on the bridge for {stayed_s} s. If its "
                f"members belong to this group, the network of {site} is split: make it whole, and they merge. If they "
                "are another cluster, give one of the two another name with RELAY's property site: other sites accept "
                "only one of them, and hold back or lose what the other sends")
