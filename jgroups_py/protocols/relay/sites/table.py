"""The site table: a row for each other site. The relay decides and multicasts it (TRIM, SYNC); members follow.

Statuses are UP, DOWN (no accepted relay for `site_down_after`, or its last member left: messages are held for it) and
OFFLINE (the hold was full, an operator ordered it, or the site left for good: nothing is held; its next HELLO makes it
UP from the current numbers on, unless an operator forbids it).

Relays change, and two halves of a site may change the table independently. So rows can be combined: epochs only rise;
what is settled (acknowledged or lost) only grows; operators' orders are counted, and the row with the higher count is
right. Which of the settled messages are lost is kept by range.

Rows are changed by their own methods only, though several parts decide about them; tests/unit/relay/test_parts.py
checks that in the code.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import DOWN as DOWN
from jgroups_py.protocols.relay.headers import OFFLINE as OFFLINE
from jgroups_py.protocols.relay.headers import UP as UP
from jgroups_py.protocols.relay.headers import Numbers, SiteRow
from jgroups_py.protocols.relay.sites.state_machine import STATUS_OF, SiteEvent, SiteState, after, state_of
from jgroups_py.windows.ranges import Ranges

FIRST_EPOCH = 1 << 40            # the highest plausible epoch of a site without one
LAST_ORDER_COUNT = (1 << 32) - 1     # the highest on the wire
MAX_ORDERS_AHEAD = 1 << 16       # a larger step between two tables is implausible
GRACES_AT_ONCE = 8               # of a site, about: one that begins within an eighth of a grace is part of the last
STATUS_NAMES = {UP: "UP", DOWN: "DOWN", OFFLINE: "OFFLINE"}


@attrs.frozen
class Book:
    """What became of one origin's messages for one site: numbered = acknowledged + held + lost (relay rule 15)."""

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
    """Until `until_ns` nothing above `kept` is trimmed for the site (relay rule 7).

    kept: what was acknowledged when members or a relay of the site vanished. Its other half may have less.
    """

    began_ns: int
    until_ns: int
    kept: Numbers


@attrs.define(eq=False)
class Site:
    """One other site.

    epoch: the highest known; a lower one is refused (relay rule 11). view_epoch: that of `members`, which may be lower:
    a FORWARD in a new epoch often arrives before its VIEW.
    acked: origin of this site -> next number; below it the other site has acknowledged or lost everything.
    owed: origin of this site -> the first number that was ever meant for the other site (absent: 1).
    lost: origin of this site -> the numbers below `acked` that the other site will never get. Final (relay rule 18).
    unreported: those of `lost` that were not reported to the application yet.
    graces: those that run, the oldest first: it keeps most, and ends first.
    lacking: origin of this site -> the number from which on the site lacks again, by a HELLO during a grace, what it
    had acknowledged. It is kept until the site acknowledges it anew, or a limit of the hold is reached.
    order_count: rises with every order about the site; odd: the last one forbids it to be UP.
    draining: while an operator's drain runs at the relay: the number at which to stop sending (None: no drain runs).
    paused: by order nothing is sent to it, and all is held. resumed_ns: when that ended here: what was held meanwhile
    could not be sent, so its age counts from then on.
    goodbye_epoch: the epoch of its relay's last GOODBYE: no HELLO of this epoch counts any more (relay rule 10).
    """

    name: str
    status: int = UP
    epoch: ViewId | None = None
    view_epoch: ViewId | None = None
    members: tuple[Address, ...] = ()
    acked: Numbers = attrs.Factory(dict)
    owed: Numbers = attrs.Factory(dict)
    lost: dict[Address, Ranges] = attrs.Factory(dict)
    unreported: dict[Address, Ranges] = attrs.Factory(dict)
    graces: list[Grace] = attrs.Factory(list)
    lacking: Numbers = attrs.Factory(dict)
    order_count: int = 0
    draining: Numbers | None = None
    paused: bool = False
    resumed_ns: int | None = None
    goodbye_epoch: ViewId | None = None

    @property
    def state(self) -> SiteState:
        """The state of the relay's state machine; at other members the status is all that there is."""
        return state_of(self.status, draining=self.draining is not None)

    def step(self, event: SiteEvent) -> bool:
        """As relay: apply an event; returns whether the state changed."""
        before = self.state
        state = after(before, event)
        self.status = STATUS_OF[state]
        if state not in (SiteState.DRAINING, SiteState.DRAINING_DOWN):
            self.draining = None                  # so that the state follows from status and draining alone
        return state is not before

    def drain_up_to(self, numbers: Numbers) -> None:
        """As relay: send what is below these numbers, and nothing of what comes later."""
        if self.state is not SiteState.OFFLINE:
            self.draining = numbers
            self.step(SiteEvent.DRAIN)

    # --- graces (relay rule 7) --------------------------------------------------------------------------------------

    @property
    def trimmable(self) -> Numbers:
        """Origin -> number below which holders need to keep nothing for this site."""
        kept = self.graces[0].kept if self.graces else self.acked
        return self.without_lacking(kept) if self.lacking else kept

    @property
    def keeps_acknowledged(self) -> bool:
        """Whether more is kept for the site than it has not acknowledged."""
        return bool(self.graces or self.lacking)

    def without_lacking(self, numbers: Numbers) -> Numbers:
        """These numbers, no higher than what the site lacks again."""
        return {origin: min(number, self.lacking.get(origin, number)) for origin, number in numbers.items()}

    def lacks(self, seen: Numbers) -> None:
        """A relay of the site has acknowledged this, and no more: members there lack what others acknowledged.

        Only a grace keeps that, and its time may end before it can be sent, where the site obeys another relay of this
        one until the halves of this site merge.
        """
        if self.status == OFFLINE:
            return
        trimmable = self.trimmable
        for origin, acked in self.acked.items():
            shown = max(seen.get(origin, 1), trimmable.get(origin, 1))
            if shown < acked:
                self.lacking[origin] = shown

    def lacks_no_longer(self, held_from: Callable[[Address, int], int | None]) -> bool:
        """Pass over what the site lacks again and no member holds; returns whether there was any.

        held_from: origin, number -> the first number from this one on that is held (None: none is).
        """
        passed = False
        for origin, lacked in list(self.lacking.items()):
            acked = self.acked.get(origin, 1)
            held = held_from(origin, lacked)
            first = acked if held is None else min(held, acked)
            if first > lacked:
                passed = True
                self.lacking[origin] = first
                if first == acked:
                    del self.lacking[origin]
        return passed

    def start_grace(self, now_ns: int, grace_ns: int, kept: Numbers | None) -> None:
        """Keep what is above `kept` (None: above what is acknowledged now) for `grace_ns`.

        Each grace ends when its own time is over: a single one, restarted at every absence, would never end for a site
        whose members change all the time. One that began a moment ago is prolonged instead, since it keeps more.
        """
        if self.graces and now_ns - self.graces[-1].began_ns < grace_ns // GRACES_AT_ONCE:
            self.graces[-1].until_ns = now_ns + grace_ns
        else:
            kept = self.without_lacking(self.acked) if kept is None else kept
            self.graces.append(Grace(now_ns, now_ns + grace_ns, kept))

    def end_graces(self, until_ns: int | None = None) -> None:
        """End the graces whose time is over at `until_ns`; if None all of them, and keep nothing that was
        acknowledged."""
        if until_ns is None:
            self.graces, self.lacking = [], {}
        else:
            self.graces = [grace for grace in self.graces if grace.until_ns > until_ns]

    def end_oldest_grace(self) -> None:
        """End the grace that keeps most; without one, what the site lacks again is kept no more."""
        if self.graces:
            del self.graces[0]
        else:
            self.lacking = {}

    # --- operators' orders (relay rule 14) --------------------------------------------------------------------------

    @property
    def forbidden(self) -> bool:
        """Whether an operator's order forbids it to be UP."""
        return self.order_count % 2 == 1

    @property
    def open(self) -> bool:
        """Whether no order is in force that keeps it OFFLINE or paused, or will when its drain ends."""
        return not self.forbidden and not self.paused and self.draining is None

    def forbid(self) -> None:
        """By order: the site is to be OFFLINE until `allow`."""
        self._decide(not self.forbidden)
        self.paused = False

    def allow(self) -> None:
        """By order: the site may be UP, and is sent to.

        The count rises by two where nothing was forbidden: an order that was given before this one and arrives later,
        from a paused process or over a split, carries a lower count, and is refused.
        """
        self._decide(1 if self.forbidden else 2)
        self.paused = False

    def pause(self) -> None:
        """By order: nothing is sent to the site and all is held, until `allow`. The count rises by two, as there."""
        self._decide(2)
        self.paused = True

    def resumed(self, now_ns: int) -> None:
        """A pause has ended: the age of what was held meanwhile counts from now on."""
        self.resumed_ns = now_ns

    def _decide(self, by: int) -> None:
        """Raise the order count. At the highest number of the wire it stays, with the parity of the order."""
        count = self.order_count + by
        self.order_count = count if count <= LAST_ORDER_COUNT else LAST_ORDER_COUNT - (LAST_ORDER_COUNT - count) % 2

    def overruled(self, order_count: int) -> bool:
        """Whether a row with this count has orders that are unknown here: the count is higher, and plausible."""
        return 0 < order_count - self.order_count <= MAX_ORDERS_AHEAD

    @property
    def silenced(self) -> bool:
        """Whether nothing is sent to it: it is OFFLINE, or paused while no drain sends what was held before."""
        return self.status == OFFLINE or (self.paused and self.draining is None)

    # --- what is acknowledged, owed and lost ------------------------------------------------------------------------

    def acknowledge(self, numbers: Numbers) -> bool:
        """Raise the acknowledged numbers, and those of what it lacks; returns whether any rose."""
        rose = False
        for origin, number in numbers.items():
            if number > self.acked.get(origin, 1):
                self.acked[origin] = number
                rose = True
            lacked = self.lacking.get(origin)
            if lacked is not None and number > lacked:
                self.lacking[origin] = number
                rose = True
                if number >= self.acked[origin]:
                    del self.lacking[origin]
        return rose

    def begin(self, numbers: Numbers) -> None:
        """The site is owed what comes from these numbers on."""
        self.owed = {origin: number for origin, number in numbers.items() if number > 1}
        self.acknowledge(self.owed)

    def never_owed(self, trimmed: Numbers) -> None:
        """Members without this site in their table have trimmed below these numbers: that was not meant for the site.

        Of an origin with an entry, a part was: what is neither acknowledged nor held any more is lost.
        """
        unknown = {origin: number for origin, number in trimmed.items() if origin not in self.acked}
        for origin, number in unknown.items():
            if number > 1:
                self.acked[origin] = number
                self.owe_from(origin, number)
        self.lose(trimmed)

    def owe_from(self, origin: Address, number: int) -> None:
        """Nothing below a number was ever meant for the site, so no grace keeps it."""
        self.owed[origin] = number
        if self.lacking.get(origin, number) < number:
            self.lacking[origin] = number
        for grace in self.graces:
            grace.kept[origin] = max(number, grace.kept.get(origin, 1))

    def lose(self, numbers: Numbers) -> int:
        """Declare lost what is below these numbers and not acknowledged; returns how many messages.

        `acked` rises past them, so that one rule suffices for dropping: the lowest `acked` of all sites.
        """
        count = 0
        for origin, number in numbers.items():
            acked = self.acked.get(origin, 1)
            if number > acked:
                self.add_lost(origin, acked, number)
                self.acked[origin] = number
                count += number - acked
        return count

    def add_lost(self, origin: Address, first: int, stop: int) -> None:
        """Record that these numbers will never reach the site."""
        lost = self.lost.setdefault(origin, Ranges())
        added = lost.holes(first, stop)
        if added:
            unreported = self.unreported.setdefault(origin, Ranges())
            for begin, end in added:
                unreported.add(begin, end)
            lost.add(first, stop)

    def take_unreported(self) -> dict[Address, Ranges]:
        """The losses that were not reported yet; the caller reports them."""
        unreported, self.unreported = self.unreported, {}
        return unreported

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin (relay rule 19)."""
        for numbers in (self.acked, self.owed, self.lacking, self.draining or {},
                        *(grace.kept for grace in self.graces)):
            numbers.pop(origin, None)
        for ranges in (self.lost, self.unreported):
            ranges.pop(origin, None)

    # --- epochs and views (relay rules 11 and 13) -------------------------------------------------------------------

    def accepts(self, epoch: ViewId) -> bool:
        """Whether the claims of a relay of this epoch count. If so, it fences all lower epochs from now on."""
        if (self.epoch is not None and epoch < self.epoch) or not self.plausible_epoch(epoch):
            return False
        self.epoch = epoch
        return True

    def plausible_epoch(self, epoch: ViewId) -> bool:
        """Whether the site may have reached this epoch. A damaged or hostile one would fence the site off for ever.

        Each view counts one more, and a fenced relay raises its own above what fences it, MAX_JUMP at a time.
        """
        return epoch.counter <= FIRST_EPOCH or (
            self.epoch is not None and plausible(epoch.counter, self.epoch.counter))

    def left(self, epoch: ViewId) -> None:
        """GOODBYE of its relay arrived, in this epoch."""
        self.goodbye_epoch = epoch

    # --- rows -------------------------------------------------------------------------------------------------------

    def row(self) -> SiteRow:
        """The site as it goes over the wire."""
        lost = {origin: tuple(ranges) for origin, ranges in self.lost.items()}
        return SiteRow(self.name, self.status, self.view_epoch, self.members, dict(self.acked), dict(self.owed), lost,
                       self.order_count, self.paused)

    def combine(self, row: SiteRow) -> None:
        """Add what was settled at another member; nothing that is settled here is taken back."""
        for origin, number in row.acked.items():
            owed = row.owed.get(origin, 1)
            if origin in self.acked:
                # Of two halves, the one that had the site earlier is right about what was meant for it.
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
        """Set the site's members, in the view that is this epoch; none if the site was left for good."""
        if epoch is not None and not self.plausible_epoch(epoch):
            return
        self.view_epoch, self.members = epoch, members
        if self.epoch is None or (epoch is not None and epoch > self.epoch):
            self.epoch = epoch

    def has_older_view(self, epoch: ViewId | None) -> bool:
        """Whether a view of this epoch is newer than that of `members`."""
        return epoch is not None and (self.view_epoch is None or epoch > self.view_epoch)

    # --- the ledger -------------------------------------------------------------------------------------------------

    def book(self, origin: Address, stop: int) -> Book:
        """The ledger of one origin, which has numbered its messages below `stop` as far as is known here."""
        acked = self.acked.get(origin, 1)
        owed = min(self.owed.get(origin, 1), acked)
        lost = self.lost[origin].total if origin in self.lost else 0
        stop = max(stop, acked)                   # the site may have more of an origin that is gone
        return Book(stop - owed, acked - owed - lost, stop - acked, lost)


class SiteTable:
    """All other sites, by name."""

    def __init__(self) -> None:
        self.sites: dict[str, Site] = {}

    def __iter__(self) -> Iterator[Site]:
        return iter(list(self.sites.values()))

    def get(self, name: str) -> Site | None:
        """The site of this name, or None."""
        return self.sites.get(name)

    def add(self, name: str) -> Site:
        """Add a site."""
        site = self.sites[name] = Site(name)
        return site

    def rows(self) -> tuple[SiteRow, ...]:
        """The table for the wire, ordered by name, so that equal tables compare equal."""
        return tuple(self.sites[name].row() for name in sorted(self.sites))

    def follow(self, rows: Iterable[SiteRow], trimmed: Numbers) -> None:
        """As member: take the relay's table. Statuses are the relay's; views and what is settled only go forward.

        A new relay may have an older view of a site than this member: HAVE, the answer to its SYNC, carries the newer.
        trimmed: what was trimmed here, perhaps before a site was in the table.
        """
        for row in rows:
            known = row.site in self.sites
            site = self.sites.setdefault(row.site, Site(row.site))
            site.status = row.status
            if row.order_count == site.order_count or site.overruled(row.order_count):
                site.order_count, site.paused = row.order_count, row.paused
            if site.view_epoch is None or row.epoch == site.view_epoch or site.has_older_view(row.epoch):
                site.see(row.epoch, row.members)
            site.combine(row)
            if not known:
                site.never_owed(trimmed)

    def combine(self, rows: Iterable[SiteRow], theirs: Numbers, mine: Numbers) -> None:
        """As relay: add from a member's table (HAVE) the sites and facts that are new here.

        theirs, mine: what was trimmed at the member and here, perhaps while one lacked a site that the other had.
        """
        self.never_owed_outside(rows, theirs)
        for row in rows:
            found = self.sites.get(row.site)
            site = self.sites.setdefault(row.site, Site(row.site, row.status))
            if site.overruled(row.order_count):
                # Orders were carried out in the other half of this site. A site that they forbid is taken OFFLINE here
                # too: messages for it were declared lost there, and that is final (relay rule 18).
                site.order_count, site.paused = row.order_count, row.paused
                site.step(SiteEvent.GIVEN_UP if site.forbidden else SiteEvent.DRAIN_ENDED)
            if found is None or site.has_older_view(row.epoch):
                site.see(row.epoch, row.members)
            site.combine(row)
            if found is None:
                site.never_owed(mine)

    def never_owed_outside(self, rows: Iterable[SiteRow], trimmed: Numbers) -> None:
        """A member with only the sites of `rows` in its table has trimmed this: it was not meant for any other site."""
        known = [row.site for row in rows]
        for site in self:
            if site.name not in known:
                site.never_owed(trimmed)

    def droppable(self, origins: Iterable[Address], ends: Numbers) -> Numbers:
        """Per origin the number below which every site has acknowledged or lost everything (relay rule 7).

        An OFFLINE site does not keep this back: its `acked` rises with every number. Without any site: `ends`.
        """
        holding = [site.trimmable for site in self.sites.values()]
        if not holding:
            return {origin: ends[origin] for origin in origins if origin in ends}
        return {origin: min(acked.get(origin, 1) for acked in holding) for origin in origins}
