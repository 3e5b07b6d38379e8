"""RELAY's headers, in the local group and on the bridge.

Vectors say, per site and origin, the next number wanted: everything below was delivered. The site table lists what a
site knows of the others: status, accepted epoch, members, and what each has acknowledged (or lost) per origin.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.errors import WireError
from jgroups_py.view import ViewId

PROTO = 16
Vector = dict[str, dict[Address, int]]
Numbers = dict[Address, int]
Held = dict[Address, tuple[tuple[int, int], ...]]

NUMBERS = wire.mapping(wire.ADDRESS, wire.U64)
VECTOR = wire.mapping(wire.NAME, NUMBERS)
HELD = wire.mapping(wire.ADDRESS, wire.RANGES)
EPOCH = wire.optional(wire.VIEW_ID)
UP, DOWN, OFFLINE = 0, 1, 2


def _read_status(reader: wire.Reader) -> int:
    status = wire.U8.read(reader)
    if status > OFFLINE:
        raise WireError(f"a site's status {status} is unknown")
    return status


STATUS = wire.Codec(wire.U8.write, _read_status, 1)
"""UP, DOWN or OFFLINE."""


@attrs.frozen
class SiteRow:
    """One site in the table.

    epoch: of the view whose `members` these are; acked: origin -> next number, below which the site has (or lost)
    everything; owed: origin -> the first number that was ever meant for the site (absent: 1); lost: what of it the site
    lost; decree: odd if an operator wants the site OFFLINE, counts changes of mind; paused: nothing is sent to it by
    order, and all is held.
    """

    site: str
    status: int
    epoch: ViewId | None
    members: tuple[Address, ...]
    acked: Numbers
    owed: Numbers
    lost: Held = attrs.Factory(dict)
    decree: int = 0
    paused: bool = False


_ROW = wire.record(wire.NAME, STATUS, EPOCH, wire.MEMBERS, NUMBERS, NUMBERS, HELD, wire.U32, wire.BOOL)


def _write_row(row: SiteRow, out: bytearray) -> None:
    _ROW.write((row.site, row.status, row.epoch, row.members, row.acked, row.owed, row.lost, row.decree,
                row.paused), out)


def _read_row(reader: wire.Reader) -> SiteRow:
    return SiteRow(*_ROW.read(reader))


NAMES = wire.sequence(wire.NAME)
TABLE = wire.sequence(wire.Codec(_write_row, _read_row, _ROW.least_bytes))


# --- in the local group ---------------------------------------------------------------------------------------------

@wire.header(proto=PROTO, kind=1)
class Numbered(Header):
    """The origin's own numbers for a run of its multicasts: `first`, first + 1, ..."""

    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Numbered:
        return Numbered(self.first + number)


@wire.header(proto=PROTO, kind=2)
class Disseminate(Header):
    """A run of another site's origin, multicast by the relay; below `base` nothing will come any more."""

    site: str = wire.field(wire.NAME)
    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Disseminate:
        return Disseminate(self.site, self.origin, self.first + number, self.base, self.flags)

    def messages(self, number: int) -> int:
        """None of the relay's own: RELAY numbers and repeats them by origin."""
        return 0


@wire.header(proto=PROTO, kind=3)
class Sync(Header):
    """The relay's first multicast in a view: what it has delivered, the site table, and what its hold's clock shows."""

    vector: Vector = wire.field(VECTOR)
    table: tuple[SiteRow, ...] = wire.field(TABLE)
    trimmed: Numbers = wire.field(NUMBERS)
    clock_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=4)
class Have(Header):
    """A member's answer to Sync: where its vector differs, what it knows of the sites, all that it holds.

    vector: with an entry for each site whose messages were meant for the member before; under its own site the next
    number of every origin of ours that it knows, as the view began.
    trimmed: origin -> below it the member keeps nothing any more. holders: the names of all that its journal knows to
    hold, absent ones too; none without a journal of before. clock_ns: what its hold's clock shows.
    """

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)
    table: tuple[SiteRow, ...] = wire.field(TABLE)
    held: Held = wire.field(HELD)
    trimmed: Numbers = wire.field(NUMBERS)
    holders: tuple[str, ...] = wire.field(NAMES)
    clock_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=5)
class Fetch(Header):
    """The relay wants runs that a member said it holds."""

    wanted: Held = wire.field(HELD)


@wire.header(proto=PROTO, kind=6)
class Copy(Header):
    """A held run for another holder; age_ns travels with it."""

    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    age_ns: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Copy:
        return Copy(self.origin, self.first + number, self.age_ns, self.flags)


@wire.header(proto=PROTO, kind=7)
class Trim(Header):
    """From the relay: the site table, and per origin the number below which holders drop.

    full: the hold is full and senders are to wait (on_full=block).
    """

    table: tuple[SiteRow, ...] = wire.field(TABLE)
    below: Numbers = wire.field(NUMBERS)
    full: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=8)
class Confirm(Header):
    """A backup (or a member that was behind) to the relay: what it has delivered of other sites' messages."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=9)
class Order(Header):
    """A member to the relay: an operator told it to take a site "offline", "online", to "drain" or to "hold" it.

    number: the member's own, for the answer. timeout_ns: how long a drain (or hold) may take. decree: the site's
    where and when the order was given.
    """

    number: int = wire.field(wire.U64)
    verb: str = wire.field(wire.TEXT)
    site: str = wire.field(wire.NAME)
    timeout_ns: int = wire.field(wire.U64)
    decree: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=23)
class Ends(Header):
    """The relay to all after a merge: origin of this site -> the next number that any member knew as the view began."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=22)
class OrderAnswer(Header):
    """The relay to all: Order `number` of `member` was carried out, or why not. To all, so that it follows Trim."""

    member: Address = wire.field(wire.ADDRESS)
    number: int = wire.field(wire.U64)
    error: str = wire.field(wire.TEXT)


# --- on the bridge --------------------------------------------------------------------------------------------------

@wire.header(proto=PROTO, kind=10)
class Forward(Header):
    """A run of one origin of `site`; below `base` everything is acknowledged or lost for the receiving site."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Forward:
        return Forward(self.site, self.epoch, self.origin, self.first + number, self.base, self.flags)


@wire.header(proto=PROTO, kind=11)
class Hello(Header):
    """A relay introduces itself: its site, its epoch, and up to where its site has the messages of others.

    answer: this answers a Hello and wants none back.
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    seen: Vector = wire.field(VECTOR)
    answer: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=12)
class View(Header):
    """The members of `site` in the view that is its epoch."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    members: tuple[Address, ...] = wire.field(wire.MEMBERS)


@wire.header(proto=PROTO, kind=13)
class Seen(Header):
    """Acknowledgement: the sender's site has everything of the receiver's origins below these numbers."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=14)
class Need(Header):
    """The sender lacks the receiver's messages from these numbers on; send again from there."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=15)
class Goodbye(Header):
    """The relay leaves as planned; last: and with it all of its site; forget: nothing is to be held for that."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    last: bool = wire.field(wire.BOOL)
    forget: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=16)
class Refused(Header):
    """What the receiver said is not obeyed: for its site a higher epoch is known, held by `relay` on the bridge."""

    epoch: ViewId = wire.field(wire.VIEW_ID)
    relay: Address | None = wire.field(wire.optional(wire.ADDRESS))


@wire.header(proto=PROTO, kind=17)
class Probe(Header):
    """Nothing was acknowledged for a while: everything below these numbers was sent. Answered by Need or Seen."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=18)
class Base(Header):
    """Below these numbers of `site`'s origins nothing will come any more; from `owed` on (absent: 1) it was meant to.

    Sent on the bridge where a relay lacks what is gone, and in each epoch before the first FORWARD; multicast by that
    relay in its group.
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)
    owed: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=19)
class Standing(Header):
    """What `site` takes the receiver's site for (rule 14).

    forbidden: an operator at `site` wants it OFFLINE, so HELLO changes nothing. missed: it is UP again after it was
    OFFLINE; what was numbered meanwhile is lost for it, so it should ask for a state.
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    status: int = wire.field(STATUS)
    forbidden: bool = wire.field(wire.BOOL)
    missed: bool = wire.field(wire.BOOL)


# --- unicasts between sites: the same header from the origin to the destination, in both groups and on the bridge ---

@wire.header(proto=PROTO, kind=20)
class Letter(Header):
    """A run of unicasts from `origin` at `origin_site` to `dest`, numbered per pair.

    epoch: of the origin's site, filled in by its relay; base: below it nothing will come any more.
    """

    origin: Address = wire.field(wire.MEMBER)
    origin_site: str = wire.field(wire.NAME)
    dest: Address = wire.field(wire.ADDRESS)
    dest_site: str = wire.field(wire.NAME)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)
    epoch: ViewId | None = wire.field(EPOCH)

    def shift(self, number: int) -> Letter:
        return Letter(self.origin, self.origin_site, self.dest, self.dest_site, self.first + number, self.base,
                      self.flags, self.epoch)

    def stamped(self, epoch: ViewId) -> Letter:
        """As the origin's relay sends it, in its epoch."""
        return Letter(self.origin, self.origin_site, self.dest, self.dest_site, self.first, self.base, self.flags,
                      epoch)


@wire.header(proto=PROTO, kind=21)
class LetterSeen(Header):
    """From the destination back to the origin: everything below `next` arrived.

    known: False where it comes from the destination's relay, which knows no such member: the letters below `next`
    are given up.
    """

    origin: Address = wire.field(wire.ADDRESS)
    origin_site: str = wire.field(wire.NAME)
    dest: Address = wire.field(wire.ADDRESS)
    next: int = wire.field(wire.U64)
    known: bool = wire.field(wire.BOOL)
