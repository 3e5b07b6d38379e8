"""Reports to the application about other sites: statuses, losses, the global view (relay rules 13, 14 and 18).

Every member follows the relay's table (SYNC, TRIM), drops from its hold what TRIM allows, and reports to its
application what changed. Losses of a site are reported when it goes OFFLINE and when it is UP again, not for every
message between.
"""
from __future__ import annotations

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.events import ViewChange
from jgroups_py.model.outputs import GlobalViewInstalled, MessagesLost, SiteStatusChanged
from jgroups_py.model.view import GlobalView
from jgroups_py.protocols.relay.announcements import EpochRaised, SiteNoLongerUp, SitesChanged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbers, SiteRow
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import JournalPort, SiteNewsPort
from jgroups_py.protocols.relay.sites.table import OFFLINE, STATUS_NAMES, UP, Site, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on


class SiteNews(RelayPart, SiteNewsPort):
    """See the module. The last of RELAY's parts, so that it reports what all others made of a view change."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    journal: JournalPort = needs(JournalPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.site_of_member: dict[Address, str] = {}
        self.statuses: dict[str, int] = {}        # site -> the status that was reported last
        self.global_view: GlobalView | None = None

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.publish()

    def follow_table(self, rows: tuple[SiteRow, ...], below: Numbers, *, joined: bool = False) -> None:
        epochs = {site.name: site.epoch for site in self.table}
        self.table.follow(rows, self.hold.trimmed)
        for origin, number in below.items():
            self.hold.drop_below(origin, number)
        self.journal.trimmed()
        if joined:
            for site in self.table:
                site.take_unreported()            # lost before this member joined: not reported here
        self.publish()
        if any(epochs.get(site.name) != site.epoch for site in self.table):
            self.announce(EpochRaised())

    def publish(self) -> None:
        """Report what changed since the last report: site statuses, losses, the global view."""
        self.site_of_member = {member: site.name for site in self.table for member in site.members}
        for site in self.table:
            if site.status != OFFLINE or self.statuses.get(site.name) != OFFLINE:        # not while it stays OFFLINE
                self.report_losses(site)
            if self.statuses.get(site.name) != site.status:
                self.statuses[site.name] = site.status
                self.notify(SiteStatusChanged(site.name, STATUS_NAMES[site.status]))
                if site.status != UP:
                    self.announce(SiteNoLongerUp(site.name))
        self.announce(SitesChanged())
        if not (self.config.present_global_views and self.group.has_view):
            return
        # Sites that are not UP are not in the global view: unicasts there are unreachable too (relay rule 13).
        sites: dict[str, tuple[Address, ...]] = {self.config.site: self.group.view.members}
        for site in self.table:
            if site.status == UP and site.members:
                sites[site.name] = tuple(ProxyUUID(member, None, site.name) for member in site.members)
        view = GlobalView(sites)
        if view != self.global_view:
            self.global_view = view
            self.notify(GlobalViewInstalled(view))

    def report_losses(self, site: Site) -> None:
        for origin, ranges in site.take_unreported().items():
            for first, stop in ranges:
                self.notify(MessagesLost(self.config.site, origin, first, stop, site.name))
