"""How long a take-over lasts, as the new relay knows it: for metrics, nothing else depends on it.

It begins with the view that makes this member the relay in place of another one, which may have failed, or left, or
lead another part now. For a site that was UP it is over with the first message that the site acknowledges to this
relay, or, if nothing is held for it, with its relay's HELLO. The whole is over with the last of these sites; one that
is UP no longer, or paused by an operator, is not waited for. How long the old relay had been silent before the view
only failure detection knows.
"""
from __future__ import annotations

from jgroups_py.model.counters import observe
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.announcements import PeerIntroduced, SiteAcknowledged, SiteNoLongerUp, SyncCompleted
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.sites.table import UP, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on


class RelayTakeOver(RelayPart):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.since_ns = 0
        self.over_ns: int | None = None                  # when it was over with the last site so far
        self.awaited: dict[str, None] = {}               # sites with which it is not over

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if not self.group.is_relay:
            self.awaited = {}
        elif not self.group.was_relay and self.group.previous is not None:
            self.count("failovers")
            self.since_ns, self.over_ns = self.now_ns, None
            self.awaited = {site.name: None for site in self.table if site.status == UP and not site.silenced}

    @on_announcement(SyncCompleted)
    def synced(self, event: SyncCompleted) -> None:
        """The members' tables may have told of orders that the former relay took."""
        for site in self.table:
            if site.silenced:
                self.await_no_more(site.name)

    @on_announcement(PeerIntroduced)
    def introduced(self, event: PeerIntroduced) -> None:
        site = event.peer.site
        if site.name in self.awaited and not self.hold.bytes_from(site.acked):
            self.over_ns = self.now_ns
            self.await_no_more(site.name)

    @on_announcement(SiteAcknowledged)
    def acknowledged(self, event: SiteAcknowledged) -> None:
        if event.site.name in self.awaited:
            self.over_ns = self.now_ns
            self.await_no_more(event.site.name)

    @on_announcement(SiteNoLongerUp)
    def no_longer_up(self, event: SiteNoLongerUp) -> None:
        self.await_no_more(event.site)

    def await_no_more(self, name: str) -> None:
        """The take-over is over with this site, or will not be. Where it was over with none, nothing is counted."""
        if name in self.awaited:
            del self.awaited[name]
            if not self.awaited and self.over_ns is not None:
                observe(self.count, "failover", self.over_ns - self.since_ns)
