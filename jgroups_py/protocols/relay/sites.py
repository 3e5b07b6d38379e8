"""The site table: what this site knows of the others. The relay decides, tells by TRIM and SYNC; members follow.

Statuses are UP, DOWN (no accepted relay for `site_down_after`, or its last member left: still held for) and OFFLINE
(the hold was full, an operator said so, or it asked to be forgotten: nothing is held; its next HELLO makes it UP from
the current numbers on, unless an operator forbids it). Epochs only grow, and so does what is settled: acknowledged or
lost. Which of it is lost is kept by range.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.jumps import plausible
from jgroups_py.protocols.relay.headers import DOWN as DOWN
from jgroups_py.protocols.relay.headers import OFFLINE as OFFLINE
from jgroups_py.protocols.relay.headers import UP as UP
from jgroups_py.protocols.relay.headers import Numbers, SiteRow
from jgroups_py.view import ViewId
from jgroups_py.windows.ranges import Ranges

FIRST_EPOCH = 1 << 40            # up to here a site's epoch is believed that was never heard of
LAST_DECREE = (1 << 32) - 1
MAX_DECREES = 1 << 16            # so often operators may speak unheard
STATUS_NAMES = {UP: "UP", DOWN: "DOWN", OFFLINE: "OFFLINE"}


@attrs.frozen
class Book:
    """What became of one origin's messages for one site: numbered = acknowledged + held + lost (rule 15)."""

    numbered: int
    acknowledged: int
    held: int
    lost: int


def total(books: Iterable[Book]) -> dict[str, int]:
    """The sums of the four figures, by name."""
    rows = [attrs.asdict(book) for book in books]
    return {field.name: sum(row[field.name] for row in rows) for field in attrs.fields(Book)}


@attrs.define(eq=False)
class Grace:
    """Rule 7: until then nothing above `kept` is trimmed, which was acknowledged when members or a relay vanished."""

    began_ns: int
    until_ns: int
    kept: Numbers


@attrs.define(eq=False)
class Site:
    """One other site. `acked`: origin of ours -> next number; below it the site has (or lost) everything.

    epoch: the highest that was heard of; a lower one is refused. view_epoch: that of `members`, which may be lower: a
    FORWARD in a new epoch often comes before its VIEW.
    owed: origin of ours -> the first number that was ever meant for the site (absent: 1).
    lost: origin of ours -> the numbers below `acked` that the site will never get. Final.
    untold: those of `lost` that the application has not been told of.
    graces: those that run, the oldest first: it keeps most, and ends first.
    decree: rises with what operators order about the site; odd: it is to be OFFLINE.
    draining: while an operator's drain runs at the relay, where to stop sending (None: no drain runs).
    paused: by order nothing is sent to it, and all is held. resumed_ns: when that ended here: what was held meanwhile
    could not be sent, so its age counts from then on.
    farewell: the epoch in which its relay said GOODBYE last: no HELLO of this epoch counts any more.
    """

    name: str
    status: int = UP
    epoch: ViewId | None = None
    view_epoch: ViewId | None = None
    members: tuple[Address, ...] = ()
    acked: Numbers = attrs.Factory(dict)
    owed: Numbers = attrs.Factory(dict)
    lost: dict[Address, Ranges] = attrs.Factory(dict)
    untold: dict[Address, Ranges] = attrs.Factory(dict)
    graces: list[Grace] = attrs.Factory(list)
    decree: int = 0
    draining: Numbers | None = None
    paused: bool = False
    resumed_ns: int | None = None
    farewell: ViewId | None = None

    @property
    def trimmable(self) -> Numbers:
        """Origin -> number below which holders need to keep nothing for this site."""
        return self.graces[0].kept if self.graces else self.acked

    @property
    def forbidden(self) -> bool:
        """Whether an operator wants it OFFLINE."""
        return self.decree % 2 == 1

    @property
    def open(self) -> bool:
        """Whether no operator wants it OFFLINE or paused, now or when it has been drained."""
        return not self.forbidden and not self.paused and self.draining is None

    @property
    def silenced(self) -> bool:
        """Whether nothing is sent to it: it is OFFLINE, or paused (unless a drain sends what was held before)."""
        return self.status == OFFLINE or (self.paused and self.draining is None)

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
        self.owed = {origin: number for origin, number in numbers.items() if number > 1}
        self.acknowledge(self.owed)

    def never_owed(self, trimmed: Numbers) -> None:
        """What members dropped who did not know of the site was not meant for it, or is lost if a part of it was."""
        unknown = {origin: number for origin, number in trimmed.items() if origin not in self.acked}
        for origin, number in unknown.items():
            if number > 1:
                self.acked[origin] = number
                self.owe_from(origin, number)
        self.lose(trimmed)

    def owe_from(self, origin: Address, number: int) -> None:
        """Nothing below a number was ever meant for the site; no grace keeps it."""
        self.owed[origin] = number
        for grace in self.graces:
            grace.kept[origin] = max(number, grace.kept.get(origin, 1))

    def lose(self, numbers: Numbers) -> int:
        """What is below these numbers and not acknowledged is lost for the site; how many messages that is."""
        count = 0
        for origin, number in numbers.items():
            acked = self.acked.get(origin, 1)
            if number > acked:
                self.add_lost(origin, acked, number)
                self.acked[origin] = number
                count += number - acked
        return count

    def add_lost(self, origin: Address, first: int, stop: int) -> None:
        """These numbers will never reach the site."""
        lost = self.lost.setdefault(origin, Ranges())
        news = lost.holes(first, stop)
        if news:
            untold = self.untold.setdefault(origin, Ranges())
            for begin, end in news:
                untold.add(begin, end)
            lost.add(first, stop)

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin."""
        for numbers in (self.acked, self.owed, self.draining or {}, *(grace.kept for grace in self.graces)):
            numbers.pop(origin, None)
        for ranges in (self.lost, self.untold):
            ranges.pop(origin, None)

    def accepts(self, epoch: ViewId) -> bool:
        """Rule 11: whether what a relay of this epoch says is obeyed; remembers a higher epoch."""
        if (self.epoch is not None and epoch < self.epoch) or not self.credible(epoch):
            return False
        self.epoch = epoch
        return True

    def credible(self, epoch: ViewId) -> bool:
        """Whether the site may have come to this epoch: each view counts one more, and a fenced relay raises its own
        above what fences it, MAX_JUMP at a time. A false one would fence the site off for ever."""
        return epoch.counter <= FIRST_EPOCH or (
            self.epoch is not None and plausible(epoch.counter, self.epoch.counter))

    def decide(self, by: int) -> None:
        """An operator has spoken: `decree` rises, but for the last ones that the wire holds."""
        decree = self.decree + by
        self.decree = decree if decree <= LAST_DECREE else LAST_DECREE - (LAST_DECREE - decree) % 2

    def overruled(self, decree: int) -> bool:
        """Whether operators have spoken elsewhere since: more often than here, but not beyond belief."""
        return 0 < decree - self.decree <= MAX_DECREES

    # --- rows -------------------------------------------------------------------------------------------------------

    def row(self) -> SiteRow:
        """This site for the wire."""
        lost = {origin: tuple(ranges) for origin, ranges in self.lost.items()}
        return SiteRow(self.name, self.status, self.view_epoch, self.members, dict(self.acked), dict(self.owed), lost,
                       self.decree, self.paused)

    def learn(self, row: SiteRow) -> None:
        """Take over what was settled elsewhere; nothing that is settled here is taken back."""
        for origin, number in row.acked.items():
            owed = row.owed.get(origin, 1)
            if origin in self.acked:
                owed = min(owed, self.owed.get(origin, 1))
            if owed > 1:
                self.owe_from(origin, owed)
            else:
                self.owed.pop(origin, None)
            if number > self.acked.get(origin, 1):
                self.acked[origin] = number
        for origin, ranges in row.lost.items():
            for first, stop in ranges:
                self.add_lost(origin, first, stop)

    def see(self, epoch: ViewId | None, members: tuple[Address, ...]) -> None:
        """The site's members in a view of theirs, its epoch."""
        if epoch is not None and not self.credible(epoch):
            return
        self.view_epoch, self.members = epoch, members
        if self.epoch is None or (epoch is not None and epoch > self.epoch):
            self.epoch = epoch

    def has_older_view(self, epoch: ViewId | None) -> bool:
        """Whether a view of this epoch is newer than the one whose members are known."""
        return epoch is not None and (self.view_epoch is None or epoch > self.view_epoch)

    # --- the ledger -------------------------------------------------------------------------------------------------

    def book(self, origin: Address, stop: int) -> Book:
        """The ledger of one origin, whose messages below `stop` are known of."""
        acked = self.acked.get(origin, 1)
        owed = min(self.owed.get(origin, 1), acked)
        lost = self.lost[origin].total if origin in self.lost else 0
        stop = max(stop, acked)                   # of a dead origin the site may have had more than is known here
        return Book(stop - owed, acked - owed - lost, stop - acked, lost)


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

    def follow(self, rows: Iterable[SiteRow], trimmed: Numbers) -> None:
        """Take the relay's table: its statuses; views and what is settled only forward.

        A new relay may know an older view of a site than we do: our answer to its SYNC tells it.
        trimmed: what was trimmed here, perhaps before we knew a site.
        """
        for row in rows:
            known = row.site in self.sites
            site = self.sites.setdefault(row.site, Site(row.site))
            site.status = row.status
            if row.decree == site.decree or site.overruled(row.decree):
                site.decree, site.paused = row.decree, row.paused
            if site.view_epoch is None or row.epoch == site.view_epoch or site.has_older_view(row.epoch):
                site.see(row.epoch, row.members)
            site.learn(row)
            if not known:
                site.never_owed(trimmed)

    def learn(self, rows: Iterable[SiteRow], theirs: Numbers, mine: Numbers) -> None:
        """As relay, from a member's table: sites and facts that are new here.

        theirs, mine: what was trimmed at the member and here, before one knew a site that only the other knew.
        """
        self.not_known_by(rows, theirs)
        for row in rows:
            found = self.sites.get(row.site)
            site = self.sites.setdefault(row.site, Site(row.site, row.status))
            if site.overruled(row.decree):
                # An operator spoke to the other half of our site; an odd decree asks for what a status cannot undo.
                site.decree, site.paused, site.draining = row.decree, row.paused, None
                site.status = OFFLINE if site.forbidden else site.status
            if found is None or site.has_older_view(row.epoch):
                site.see(row.epoch, row.members)
            site.learn(row)
            if found is None:
                site.never_owed(mine)

    def not_known_by(self, rows: Iterable[SiteRow], trimmed: Numbers) -> None:
        """Another member knows of the sites in `rows` only: what it trimmed was not meant for the others."""
        known = [row.site for row in rows]
        for site in self:
            if site.name not in known:
                site.never_owed(trimmed)

    def droppable(self, origins: Iterable[Address], ends: Numbers) -> Numbers:
        """Per origin the number below which every site has everything, or lost it.

        With no site to hold for that is everything, `ends`.
        """
        holding = [site.trimmable for site in self.sites.values()]
        if not holding:
            return {origin: ends[origin] for origin in origins if origin in ends}
        return {origin: min(acked.get(origin, 1) for acked in holding) for origin in origins}
