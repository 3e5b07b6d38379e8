"""Reports to operators about other sites: `jgroups site status`, and the figures of `ch.stats()`."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart
from jgroups_py.protocols.relay.ports import NumberingPort, SiteStatusPort, UnicastPort
from jgroups_py.protocols.relay.sites.table import STATUS_NAMES, Book, Site, SiteTable, total
from jgroups_py.stack.component import needs


class SiteReport(RelayPart):
    """See the module. Exact for this member's own messages; of other origins it has what the relay's table shows."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    numbering: NumberingPort = needs(NumberingPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    unicasts: UnicastPort = needs(UnicastPort)

    def ledger(self) -> dict[str, dict[Address, Book]]:
        """The ledger (relay rule 15): other site -> origin of this site -> what became of its messages."""
        stops = {**self.numbering.current_numbers(), self.me: self.numbering.next_number}
        return {site.name: {origin: site.book(origin, stop) for origin, stop in stops.items()} for site in self.table}

    def figures(self) -> dict[str, float]:
        """What is held, and the ledger's sums for each other site."""
        found: dict[str, float] = {
            "numbered": self.numbering.next_number - 1, "held_messages": self.hold.messages,
            "held_bytes": self.hold.nbytes, "unicasts_waiting": self.unicasts.unicasts_waiting,
        }
        for name, books in self.ledger().items():
            found[f"status_{name}"] = self.table.sites[name].status
            for figure, number in total(books.values()).items():
                found[f"{figure}_{name}"] = number
        return found

    def site_report(self) -> dict[str, Any]:
        """For `jgroups site status`, as JSON."""
        ledger, group = self.ledger(), self.group
        return {
            "site": self.config.site, "member": self.me.name, "is_relay": group.is_relay,
            "relay": group.view.coordinator.name if group.has_view else None,
            "held_messages": self.hold.messages, "held_bytes": self.hold.nbytes,
            "hold_limit_bytes": self.config.hold_bytes,
            "sites": {site.name: self.about(site, list(ledger[site.name].items())) for site in self.table},
        }

    def about(self, site: Site, books: list[tuple[Address, Book]]) -> dict[str, Any]:
        """One other site. status_there: this site's status there, as its relay reported to this member, if it is the
        relay."""
        theirs = self.status.status_elsewhere.get(site.name)
        oldest_ns = self.hold.oldest_ns(site.acked)
        return {
            "status": STATUS_NAMES[site.status], "forbidden": site.forbidden, "draining": site.draining is not None,
            "on_hold": site.paused,
            "status_there": None if theirs is None else STATUS_NAMES.get(theirs),
            "oldest_held_seconds": 0.0 if oldest_ns is None else max(0, self.now_ns - oldest_ns) / NS_PER_S,
            "members": [member.name for member in site.members],
            **total(book for _, book in books),
            "origins": [{"origin": origin.name, "address": origin.raw.hex(), **attrs.asdict(book)}
                        for origin, book in books if book.numbered],
        }
