"""The site table as one of RELAY's parts."""
from __future__ import annotations

from jgroups_py.protocols.relay.announcements import OriginForgotten
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.sites.table import SiteTable


class KnownSites(RelayPart, SiteTable):
    """The table of the relay has what it decided; that of any other member follows it (SiteNews)."""

    def __init__(self, layer: RelayPort) -> None:
        RelayPart.__init__(self, layer)
        SiteTable.__init__(self)

    @on_announcement(OriginForgotten)
    def forget_origin(self, event: OriginForgotten) -> None:
        for site in self:
            site.forget(event.origin)
