"""RELAY's headers, in the local group and on the bridge.

A vector holds, per site and origin, the next number: everything below was delivered. The site table holds what a site
has on record about the others: status, accepted epoch, members, and what each has acknowledged (or lost) per origin.

Names that end in Header distinguish a header from another class of that name.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.model.topics import Interest
from jgroups_py.model.view import ViewId
from jgroups_py.wire.topic_headers import INTEREST

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

    epoch: of the view whose `members` these are. acked: origin -> next number, below which the site has acknowledged or
    lost everything; lost: which of these it lost. owed: origin -> the first number that was ever meant for the site
    (absent: 1). order_count: rises with every order of an operator about the site, and is odd while one forbids it to
    be UP. paused: by order all is held for the site and nothing is sent.
    """

    site: str
    status: int
    epoch: ViewId | None
    members: tuple[Address, ...]
    acked: Numbers
    owed: Numbers
    lost: Held = attrs.Factory(dict)
    order_count: int = 0
    paused: bool = False


_ROW = wire.record(wire.NAME, STATUS, EPOCH, wire.MEMBERS, NUMBERS, NUMBERS, HELD, wire.U32, wire.BOOL)


def _write_row(row: SiteRow, out: bytearray) -> None:
    _ROW.write((row.site, row.status, row.epoch, row.members, row.acked, row.owed, row.lost, row.order_count,
                row.paused), out)


def _read_row(reader: wire.Reader) -> SiteRow:
    return SiteRow(*_ROW.read(reader))


NAMES = wire.sequence(wire.NAME)
TABLE = wire.sequence(wire.Codec(_write_row, _read_row, _ROW.least_bytes))


# --- in the local group ---------------------------------------------------------------------------------------------

@wire.header(proto=PROTO, kind=1)
class Numbered(Header):
    """The numbers of an origin's multicasts: `first`, first + 1, ..."""

    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Numbered:
        return Numbered(self.first + number)


@wire.header(proto=PROTO, kind=2)
class Disseminate(Header):
    """Messages of an origin of another site, multicast by the relay; nothing below `base` will come any more."""

    site: str = wire.field(wire.NAME)
    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Disseminate:
        return Disseminate(self.site, self.origin, self.first + number, self.base, self.flags)

    def messages(self, number: int) -> int:
        """None of the relay's own: they are messages of the origin, which RELAY numbers and repeats by origin."""
        return 0


@wire.header(proto=PROTO, kind=3)
class Sync(Header):
    """The relay's first multicast in a view (relay rule 17): what it has delivered, the site table, its hold's
    clock."""

    vector: Vector = wire.field(VECTOR)
    table: tuple[SiteRow, ...] = wire.field(TABLE)
    trimmed: Numbers = wire.field(NUMBERS)
    clock_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=4)
class Have(Header):
    """A member's answer to Sync: where its vector differs, its site table, and everything that it holds.

    vector: besides the differences, an entry for each site whose messages were meant for the member before this view;
    under its own site the next number of each origin there, when the view began. held: origin -> ranges. trimmed:
    origin -> number below which the member holds nothing any more. holders: logical names of the holders that its
    journal lists, absent ones too; none without an earlier journal. clock_ns: what its hold's clock shows.
    """

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)
    table: tuple[SiteRow, ...] = wire.field(TABLE)
    held: Held = wire.field(HELD)
    trimmed: Numbers = wire.field(NUMBERS)
    holders: tuple[str, ...] = wire.field(NAMES)
    clock_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=5)
class FetchHeader(Header):
    """The relay requests batches that a member listed in HAVE as held."""

    wanted: Held = wire.field(HELD)


@wire.header(proto=PROTO, kind=6)
class Copy(Header):
    """A held batch for another holder. age_ns: how long it was held; it goes on from there (relay rule 2)."""

    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    age_ns: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Copy:
        return Copy(self.origin, self.first + number, self.age_ns, self.flags)


@wire.header(proto=PROTO, kind=7)
class Trim(Header):
    """From the relay: the site table, and per origin the number below which holders drop (relay rule 7).

    full: the hold is full, so senders wait (on_full=block).
    """

    table: tuple[SiteRow, ...] = wire.field(TABLE)
    below: Numbers = wire.field(NUMBERS)
    full: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=8)
class Confirm(Header):
    """A backup, or a member that was behind, to the relay: what it has delivered of other sites (relay rule 6)."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=9)
class Order(Header):
    """A member to the relay: an operator ordered "offline", "online", "drain" or "hold" for a site.

    number: identifies the order at the member, for OrderAnswer. timeout_ns: how long a drain or hold may take.
    order_count: that of the site's row at the member when the order was given; a lower one than the relay's is stale.
    """

    number: int = wire.field(wire.U64)
    verb: str = wire.field(wire.TEXT)
    site: str = wire.field(wire.NAME)
    timeout_ns: int = wire.field(wire.U64)
    order_count: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=23)
class Ends(Header):
    """The relay to all after a merge: origin of this site -> the highest next number at any member (relay rule 17)."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=22)
class OrderAnswer(Header):
    """The relay to all: `member`'s Order `number` was carried out, or why not. A multicast, so that it follows its
    Trim."""

    member: Address = wire.field(wire.ADDRESS)
    number: int = wire.field(wire.U64)
    error: str = wire.field(wire.TEXT)


# --- on the bridge --------------------------------------------------------------------------------------------------

@wire.header(proto=PROTO, kind=10)
class Forward(Header):
    """Messages of one origin of `site`; below `base` everything is acknowledged or lost for the receiving site."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    origin: Address = wire.field(wire.MEMBER)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Forward:
        return Forward(self.site, self.epoch, self.origin, self.first + number, self.base, self.flags)


@wire.header(proto=PROTO, kind=11)
class HelloHeader(Header):
    """A relay introduces itself: its site, its epoch, and the vector of what its site has acknowledged.

    answer: this is the answer to a HELLO, and is not answered itself.
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    seen: Vector = wire.field(VECTOR)
    answer: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=12)
class ViewHeader(Header):
    """The members of `site` in the view that is its epoch."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    members: tuple[Address, ...] = wire.field(wire.MEMBERS)


@wire.header(proto=PROTO, kind=13)
class SeenHeader(Header):
    """Acknowledgement: the sender's site has everything of the receiver's origins below these numbers (relay rule
    6)."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=14)
class NeedHeader(Header):
    """A negative acknowledgement: the sender lacks the receiver's messages from these numbers on."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=15)
class Goodbye(Header):
    """The relay leaves as planned. last: no member of its site stays; forget: nothing is to be held for its site."""

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    last: bool = wire.field(wire.BOOL)
    forget: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=16)
class RefusedHeader(Header):
    """The receiver is fenced: a higher `epoch` of its site is known, that of `relay` if that is on the bridge."""

    epoch: ViewId = wire.field(wire.VIEW_ID)
    relay: Address | None = wire.field(wire.optional(wire.ADDRESS))


@wire.header(proto=PROTO, kind=17)
class ProbeHeader(Header):
    """Everything below these numbers was sent and nothing acknowledged for a while. Answered by NEED or SEEN."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=18)
class BaseHeader(Header):
    """Nothing below these numbers of `site`'s origins will come any more.

    owed: the first number of each that was meant for the receiving site (absent: 1), so what lies between is lost.
    Sent on the bridge where a relay lacks what is not held any more, and before the first FORWARD of each epoch;
    that relay multicasts it in its group.
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)
    owed: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=19)
class StandingHeader(Header):
    """The status that the receiver's site has at `site` (relay rule 14).

    forbidden: an operator at `site` forbids it to be UP, so HELLO changes nothing. missed: it is UP after it was
    OFFLINE; what was numbered meanwhile is lost for it, so it should request a state (relay rule 16).
    """

    site: str = wire.field(wire.NAME)
    epoch: ViewId = wire.field(wire.VIEW_ID)
    status: int = wire.field(STATUS)
    forbidden: bool = wire.field(wire.BOOL)
    missed: bool = wire.field(wire.BOOL)


@wire.header(proto=PROTO, kind=30)
class SiteInterestHeader(Header):
    """The topics to which members of the sender's site have subscribed."""

    interest: Interest = wire.field(INTEREST)


# --- unicasts between sites: the same header from the origin to the destination, in both groups and on the bridge ---

@wire.header(proto=PROTO, kind=20)
class SiteUnicast(Header):
    """Unicasts from `origin` at `origin_site` to `dest`, numbered per pair (relay rule 12).

    epoch: of the origin's site, filled in by its relay; base: nothing below it will come any more.
    """

    origin: Address = wire.field(wire.MEMBER)
    origin_site: str = wire.field(wire.NAME)
    dest: Address = wire.field(wire.ADDRESS)
    dest_site: str = wire.field(wire.NAME)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64)
    flags: int = wire.field(wire.U16)
    epoch: ViewId | None = wire.field(EPOCH)

    def shift(self, number: int) -> SiteUnicast:
        return SiteUnicast(self.origin, self.origin_site, self.dest, self.dest_site, self.first + number, self.base,
                      self.flags, self.epoch)

    def stamped(self, epoch: ViewId) -> SiteUnicast:
        """This header with the epoch of the origin's relay, for the bridge."""
        return SiteUnicast(self.origin, self.origin_site, self.dest, self.dest_site, self.first, self.base, self.flags,
                      epoch)


@wire.header(proto=PROTO, kind=21)
class SiteUnicastSeen(Header):
    """From the destination back to the origin: everything below `next` arrived.

    known: False if the destination is not in the view of its site's relay, which then answers in its place: the
    unicasts below `next` are given up.
    """

    origin: Address = wire.field(wire.ADDRESS)
    origin_site: str = wire.field(wire.NAME)
    dest: Address = wire.field(wire.ADDRESS)
    next: int = wire.field(wire.U64)
    known: bool = wire.field(wire.BOOL)
