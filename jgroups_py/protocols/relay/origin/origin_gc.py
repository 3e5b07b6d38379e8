"""Forgetting: all state about an origin is dropped `forget_after` after it left its site's view (relay rule 19).

A member that reconnects is a new origin, so without this the tables grow with every connect. Forgetting too early is
worse: a late replay of a forgotten origin would be taken for new, and delivered again. Hence `forget_after` is at least
twice `hold_age`, and time in which a site is not UP does not count for its origins: the site holds their messages, and
sends them when it is back.

A timer of that length runs: an origin that is gone at two ticks in a row is forgotten. So state is kept between one and
two times `forget_after`, and nothing has to be recorded when an origin leaves.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.announcements import OriginForgotten, SiteNoLongerUp
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import DeliveryPort, NumberingPort, SiteNewsPort, UnicastPort
from jgroups_py.protocols.relay.sites.table import UP, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer


class OriginCollector(RelayPart):
    """See the module. gone: origins that were in no view at the last tick; still so at the next one, they are
    forgotten."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    numbering: NumberingPort = needs(NumberingPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    unicasts: UnicastPort = needs(UnicastPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.gone: dict[Address, None] = {}

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if not self.timer_is_set("forget"):
            self.set_timer("forget", self.config.forget_after_ns)

    def known(self) -> dict[Address, None]:
        """Every origin that some state is about."""
        found: dict[Address, None] = dict.fromkeys((*self.numbering.numbers, *self.numbering.ends))
        for numbers in self.delivery.seen.values():
            found.update(dict.fromkeys(numbers))
        found.update(dict.fromkeys(self.unicasts.remote_members))
        return found

    @timer("forget")
    def forget(self) -> None:
        """On the timer: forget what was gone at the last tick and still is, and note what is gone now."""
        present = dict.fromkeys([*self.group.view.members, *self.site_news.site_of_member])
        for site in self.table:
            if site.status != UP:
                present.update(dict.fromkeys(self.delivery.seen.get(site.name, {})))
        gone = {origin: None for origin in self.known() if origin not in present}
        for origin in self.gone:
            # While anything of it is held, some site still needs it: its number and age must stay known.
            if origin in gone and origin not in self.hold.batches:
                self.announce(OriginForgotten(origin))
                del gone[origin]
        self.gone = gone
        self.set_timer("forget", self.config.forget_after_ns)

    @on_announcement(SiteNoLongerUp)
    def site_away(self, event: SiteNoLongerUp) -> None:
        """A site is no longer UP: the time of its origins begins anew when it is."""
        for origin in self.delivery.seen.get(event.site, {}):
            self.gone.pop(origin, None)

    @on_announcement(OriginForgotten)
    def count_forgotten(self, event: OriginForgotten) -> None:
        """Forgotten by this part, or by HoldRestore, which drops origins that became too old on disk."""
        self.count("forgotten")
