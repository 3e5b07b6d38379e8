"""The relay's decisions about other sites: DOWN, OFFLINE and back, graces, STANDING (relay rules 7 and 14).

DOWN follows from the bridge alone, not from traffic: no accepted relay for `site_down_after`, or GOODBYE of the site's
last member. OFFLINE follows from the limits of the hold (trimmer.py), an operator's order (admin.py), or a site that
leaves for good. What is not acknowledged then, and what is numbered until the site is UP again, is lost for it, and is
reported by range at both sides. Only the coordinator decides, a fenced one or one without a bridge too; members follow
its TRIM.
"""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.model.outputs import LogEntry, StateAdvised
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.relay.announcements import SyncCompleted
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbers, StandingHeader
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import (
    BridgePort,
    ForwarderPort,
    IntroducerPort,
    NumberingPort,
    SiteStatusPort,
    SyncPort,
    TrimmerPort,
)
from jgroups_py.protocols.relay.sites.state_machine import SiteEvent, SiteState
from jgroups_py.protocols.relay.sites.table import OFFLINE, UP, Site, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer


class SiteDecisions(RelayPart, SiteStatusPort):
    """See the module. Does nothing unless its member is the relay."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    introducer: IntroducerPort = needs(IntroducerPort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    trimmer: TrimmerPort = needs(TrimmerPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.status_elsewhere: dict[str, int] = {}       # site -> the status of this site there, as its relay reported

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if self.group.is_relay and not self.group.was_relay:
            self.take_over_graces()
            self.watch_absent()
        elif self.group.was_relay and not self.group.is_relay:
            self.status_elsewhere = {}
        elif self.group.is_relay and isinstance(event.view, MergeView):
            self.take_over_graces()               # those of the other half's relay

    @on_announcement(SyncCompleted)
    def synced(self, event: SyncCompleted) -> None:
        """The members' tables may have added sites."""
        self.watch_absent()

    # --- UP and DOWN ------------------------------------------------------------------------------------------------

    def bridge_lost(self) -> None:
        """The bridge failed: members of any site may have vanished meanwhile, and sites may not return with it."""
        for site in self.table:
            self.start_grace(site)
        self.watch_absent()

    def watch_absent(self) -> None:
        """Start the timer of sites without an accepted relay: they are DOWN if none comes in time."""
        for site in self.table:
            if site.status == UP and self.peers.accepted(site.name) is None:
                self.set_timer_once("site_down", self.config.site_down_after_ns, site.name)

    def take_over_graces(self) -> None:
        """As a new relay, or after a merge: other relays may have begun graces. Everything that is held is kept for
        one."""
        trimmed = self.hold.trimmed
        for site in self.table:
            kept = {origin: min(number, trimmed.get(origin, 1)) for origin, number in site.acked.items()}
            site.end_graces()                            # the one that begins now keeps more, and ends later
            self.start_grace(site, kept)

    def start_grace(self, site: Site, kept: Numbers | None = None) -> None:
        """Members that vanished may be in another half, and lack what the rest has acknowledged (relay rule 7).

        kept: below these numbers holders need to keep nothing (None: below what is acknowledged now).
        """
        if site.status == OFFLINE:
            return                                       # nothing is held for it
        grace_ns = self.config.split_grace_ns
        site.start_grace(self.now_ns, grace_ns, kept)
        self.set_timer_once("grace", grace_ns, site.name)

    @timer("grace")
    def grace_over(self, name: str) -> None:
        """The time of a site's oldest grace has passed."""
        site = self.table.get(name)
        if site is None or not site.graces:
            return
        site.end_graces(self.now_ns)
        if site.graces:
            self.set_timer("grace", site.graces[0].until_ns - self.now_ns, name)
        # A relay of the other half may be on the bridge by now: it is sent what its members will not get any more.
        self.send_bases(site)
        self.trimmer.trim_soon()

    @timer("site_down")
    def site_down(self, name: str) -> None:
        """On a timer: the site has had no accepted relay for `site_down_after`."""
        site = self.table.get(name)
        if site is None or not self.group.is_relay or self.peers.accepted(name) is not None:
            return
        if site.step(SiteEvent.ABSENT):
            self.trimmer.publish_table()

    def site_left(self, site: Site, forget: bool) -> None:
        """The site's last member left as planned: DOWN as after a crash, or OFFLINE if it left for good."""
        if forget:
            site.see(site.view_epoch, ())
            self.take_offline(site, "its last member left for good", "warning")
        elif site.step(SiteEvent.LEFT):
            self.cancel_timer("site_down", site.name)
            self.emit(LogEntry("info", f"site {site.name} is DOWN: its last member left; what is for it is held"))
            self.trimmer.publish_table()

    def relay_appeared(self, site: Site) -> None:
        """HELLO of a site's accepted relay: an OFFLINE site is UP again, unless an operator forbids it."""
        self.cancel_timer("site_down", site.name)
        if site.state is not SiteState.OFFLINE:
            site.step(SiteEvent.HELLO)
        elif site.forbidden:
            self.send_standing(site)
        else:
            self.bring_back(site)

    # --- OFFLINE and back -------------------------------------------------------------------------------------------

    def take_offline(self, site: Site, why: str, level: str = "error") -> None:
        """Declare a site OFFLINE: what it has not acknowledged is lost for it, and nothing more is held."""
        site.step(SiteEvent.GIVEN_UP)
        site.end_graces()
        self.cancel_timer("grace", site.name)
        lost = self.lose(site)
        self.count("sites_given_up")
        self.emit(LogEntry(level, f"site {site.name} is OFFLINE: {why}; {lost} messages are lost for it"))
        for peer in self.peers.of(site.name):
            peer.abandon_in_flight()
        self.send_bases(site)
        self.send_standing(site)
        self.trimmer.publish_table()

    def bring_back(self, site: Site) -> None:
        """Declare a site UP again, from the current numbers on: what was numbered while it was OFFLINE is lost for
        it."""
        self.lose(site)
        site.step(SiteEvent.RETURNED)
        self.send_bases(site)
        self.send_standing(site, missed=True)
        self.trimmer.publish_table()
        self.emit(LogEntry("info", f"site {site.name} is UP again, from the current numbers on"))

    def lose(self, site: Site) -> int:
        """Declare lost for the site all that is numbered and not acknowledged."""
        lost = site.lose(self.numbering.current_numbers())
        if lost:
            self.drop("declared_lost", None, f"{site.name} was given up before it acknowledged them", number=lost)
        return lost

    def send_standing(self, site: Site, *, missed: bool = False) -> None:
        """Report to the site's relays which status it has here."""
        header = StandingHeader(self.config.site, self.group.view.id, site.status, site.forbidden, missed)
        self.bridge.send_to_relays_of(site.name, header)

    @receives_from_bridge(StandingHeader)
    def on_standing(self, header: StandingHeader, batch: Batch) -> None:
        """Another site reports the status that this one has there.

        HELLO ends OFFLINE. It is sent after `site_down_after` and not at once: a site that is too slow would fill the
        other's hold again, and lose more than it gets.
        """
        if self.introducer.accepted_sender(header.site, header.epoch, header, batch) is None:
            return
        self.status_elsewhere[header.site] = header.status
        if header.status == OFFLINE and not header.forbidden:
            self.set_timer_once("return", self.config.site_down_after_ns, header.site)
        else:
            self.cancel_timer("return", header.site)
        if header.missed:
            self.emit(StateAdvised(header.site))         # this site should request a state there (relay rule 16)

    @timer("return")
    def hello_again(self, name: str) -> None:
        """On a timer: this site has been OFFLINE at another one long enough."""
        peer = self.peers.accepted(name)
        if peer is not None and self.synchronizer.complete and self.status_elsewhere.get(name) == OFFLINE:
            self.introducer.hello(peer.address, answer=False)

    def send_bases(self, site: Site) -> None:
        """Send BASE to the relays of a site. With an origin that is gone, no later FORWARD would carry a base."""
        for peer in self.peers.of(site.name):
            self.forwarder.send_base(peer)

