"""A planned stop (relay rule 10): hand over what is held, for `leave_timeout` at most, send GOODBYE, leave the bridge.

GOODBYE announces that the leave is planned, so other sites need not wait for failure detection. It does not change what
is held: after its last member the site is DOWN, as after a crash, and other sites hold for it until it is back, unless
that member leaves for good (`forget`). What the last member itself still holds is on its disk. Without a journal it is
lost with the member, so it is logged and declared lost by range, at the other site too if that can be reached.
"""
from __future__ import annotations

from jgroups_py.model.events import LeaveRequested
from jgroups_py.model.outputs import CloseBridge, LogEntry, ReadyToLeave
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import (
    PeerAcknowledged,
    PeerIntroduced,
    RelayAnnouncement,
    SitesChanged,
    UnicastsAcknowledged,
)
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    BridgePort,
    ForwarderPort,
    IntroducerPort,
    JournalPort,
    LeaverPort,
    NumberingPort,
    SiteNewsPort,
    SiteStatusPort,
    UnicastPort,
)
from jgroups_py.protocols.relay.sites.table import OFFLINE, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer

BRIDGE_LEAVE_NS = seconds(1)    # a leaving relay waits this long for the bridge stack to close


class PlannedLeave(RelayPart, LeaverPort):
    """See the module. leaving: since the application asked for it; forget: and for good."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    numbering: NumberingPort = needs(NumberingPort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    introducer: IntroducerPort = needs(IntroducerPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    journal: JournalPort = needs(JournalPort)
    unicasts: UnicastPort = needs(UnicastPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.leaving = False
        self.forget = False

    @on(LeaveRequested)
    def begin(self, event: LeaveRequested) -> None:
        """The application disconnects: wait for what is under way, for `leave_timeout` at most."""
        if self.leaving:
            return None
        self.leaving, self.forget = True, event.forget
        if not self.group.has_view:
            return self.emit(ReadyToLeave())
        self.set_timer("leave", self.config.leave_timeout_ns)
        return self.check()

    @on_announcement(SitesChanged)
    @on_announcement(PeerIntroduced)
    @on_announcement(PeerAcknowledged)
    @on_announcement(UnicastsAcknowledged)
    def something_arrived(self, event: RelayAnnouncement) -> None:
        """Something for which a leaving member waits may have happened."""
        self.check()

    def check(self) -> None:
        """Leave if there is nothing left to wait for."""
        if self.leaving and self.timer_is_set("leave") and not self.unicasts.unicasts_waiting and (
                not self.group.is_relay or self.has_handed_over()):
            self.cancel_timer("leave")
            self.go()

    def has_handed_over(self) -> bool:
        """As relay: whether the peers have all that is held. The last member of a site also waits for absent peers."""
        delivered = self.numbering.numbers.get(self.me, 1) == self.numbering.next_number
        return self.forwarder.everything_acknowledged() and (
            not self.is_last or (delivered and self.introducer.knows_all_peers()))

    @property
    def is_last(self) -> bool:
        """Whether no member of this site stays."""
        return len(self.group.view) == 1

    @timer("leave")
    def go(self) -> None:
        """Leave: everything is handed over, or the time is over."""
        if self.is_last and self.group.is_relay:
            self.give_up_unsent()
            self.warn_of_absent_sites()
        elif self.forget:
            self.emit(LogEntry("info", f"others of site {self.config.site} stay: only its last member can have other "
                            "sites forget it"))
        self.journal.leaving()
        if not (self.group.is_relay and self.bridge.wanted) and not self.bridge.waits:
            return self.emit(ReadyToLeave())
        if self.group.is_relay:
            self.introducer.goodbye(last=self.is_last, forget=self.forget)
        self.set_timer("left_bridge", BRIDGE_LEAVE_NS)
        return self.emit(CloseBridge())

    @timer("left_bridge")
    def left_bridge(self) -> None:
        """The bridge stack is closed, or did not close in time: the local stack may leave its group."""
        self.cancel_timer("left_bridge")
        self.emit(ReadyToLeave())

    def give_up_unsent(self) -> None:
        """Without a journal, what is held is lost with this member: declare it lost, here and to the sites
        concerned."""
        if self.journal.writing:
            return
        for site in self.table:
            before = dict(site.acked)
            lost = self.status.lose(site) if site.status != OFFLINE else 0
            if lost:
                ranges = "; ".join(f"{origin} {before.get(origin, 1)}..{site.acked[origin] - 1}"
                                   for origin in site.acked if site.acked[origin] > before.get(origin, 1))
                self.emit(LogEntry("warning", f"the last member of site {self.config.site} leaves: {lost} messages "
                                f"that site {site.name} has not acknowledged are lost for it, as there is no hold_dir "
                                f"({ranges})"))
                site.end_graces()                 # BASE must not stay below what a grace keeps: it is lost now
                self.status.send_bases(site)
                self.site_news.report_losses(site)

    def warn_of_absent_sites(self) -> None:
        """forget: sites that are not on the bridge do not get GOODBYE, so they will go on holding for this one."""
        away = [site.name for site in self.table if site.status != OFFLINE and not self.peers.of(site.name)]
        if self.forget and away:
            self.emit(LogEntry("warning", f"site {self.config.site} leaves for good, but {', '.join(sorted(away))} "
                            "cannot be told: order `jgroups site offline` there, or they hold for us up to hold_age"))
