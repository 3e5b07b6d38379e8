"""The site table: what this site knows of the others. The relay decides, tells by TRIM and SYNC; members follow.

Statuses are UP, DOWN (no accepted relay for `site_down_after`: still held for) and OFFLINE (the hold was full: nothing
is held; its next HELLO makes it UP from the current numbers on). Epochs only grow, and so does what was acknowledged.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.protocols.relay.headers import Numbers, SiteRow
from jgroups_py.view import ViewId

UP, DOWN, OFFLINE = 0, 1, 2
STATUS_NAMES = {UP: "UP", DOWN: "DOWN", OFFLINE: "OFFLINE"}


@attrs.define(eq=False)
class Site:
    """One other site. `acked`: origin of ours -> next number; below it the site has (or lost) everything.

    owed: origin of ours -> the first number that was ever meant for the site (absent: 1).
    kept: what was acknowledged when members or the relay of the site vanished; nothing above is trimmed until the
    grace is over (None: no grace runs).
    """

    name: str
    status: int = UP
    epoch: ViewId | None = None
    members: tuple[Address, ...] = ()
    acked: Numbers = attrs.Factory(dict)
    owed: Numbers = attrs.Factory(dict)
    kept: Numbers | None = None

    @property
    def trimmable(self) -> Numbers:
        """Origin -> number below which holders need to keep nothing for this site."""
        return self.acked if self.kept is None else self.kept

    def acknowledge(self, numbers: Numbers) -> bool:
        """Raise what is acknowledged; whether anything rose."""
        rose = False
        for origin, number in numbers.items():
            if number > self.acked.get(origin, 1):
                self.acked[origin] = number
                rose = True
        return rose

    def begin(self, numbers: Numbers) -> None:
        """The site is owed what comes from these numbers on."""
        self.owed = dict(numbers)
        self.acknowledge(numbers)

    def accepts(self, epoch: ViewId) -> bool:
        """Rule 11: whether what a relay of this epoch says is obeyed; remembers a higher epoch."""
        if self.epoch is not None and epoch < self.epoch:
            return False
        self.epoch = epoch
        return True

    def row(self) -> SiteRow:
        """This site for the wire."""
        return SiteRow(self.name, self.status, self.epoch, self.members, dict(self.acked), dict(self.owed))


class SiteTable:
    """All other sites, by name."""

    def __init__(self) -> None:
        self.sites: dict[str, Site] = {}

    def __iter__(self) -> Iterator[Site]:
        return iter(list(self.sites.values()))

    def get(self, name: str) -> Site | None:
        """A site heard of before."""
        return self.sites.get(name)

    def rows(self) -> tuple[SiteRow, ...]:
        """The table for the wire."""
        return tuple(self.sites[name].row() for name in sorted(self.sites))

    def follow(self, rows: Iterable[SiteRow]) -> None:
        """Take the relay's table: its statuses; views and acknowledgements only forward.

        A new relay may know an older view of a site than we do: our answer to its SYNC tells it.
        """
        for row in rows:
            site = self.sites.setdefault(row.site, Site(row.site))
            site.status = row.status
            if site.epoch is None or (row.epoch is not None and row.epoch >= site.epoch):
                site.epoch, site.members = row.epoch, row.members
            site.owed = dict(row.owed)
            site.acknowledge(row.acked)

    def learn(self, rows: Iterable[SiteRow]) -> None:
        """As relay, from a member's table: sites and facts that are new here."""
        for row in rows:
            site = self.sites.get(row.site)
            if site is None:
                self.sites[row.site] = Site(row.site, row.status, row.epoch, row.members, dict(row.acked),
                                            dict(row.owed))
                continue
            site.acknowledge(row.acked)
            if row.epoch is not None and (site.epoch is None or row.epoch > site.epoch):
                site.epoch, site.members = row.epoch, row.members

    def droppable(self, origins: Iterable[Address], ends: Numbers) -> Numbers:
        """Per origin the number below which every site that is held for has everything.

        With no site to hold for that is everything, `ends`.
        """
        holding = [site.trimmable for site in self.sites.values() if site.status != OFFLINE]
        if not holding:
            return {origin: ends[origin] for origin in origins if origin in ends}
        return {origin: min(acked.get(origin, 1) for acked in holding) for origin in origins}
