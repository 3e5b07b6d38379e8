"""What GMS says on the wire. Everything may arrive twice, late, or not at all; every handler is made for that."""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.view import View, ViewId
from jgroups_py.wire import field

GMS_ID = 11


@attrs.frozen(order=True)
class Ballot:
    """One attempt to change a view: attempts of one view are compared by (round, owner)."""

    round: int
    owner: Address

    def __str__(self) -> str:
        return f"{self.round}/{self.owner}"


@attrs.frozen(order=True)
class FlushId:
    """The view that is being left, and the ballot under which its members are asked."""

    view_id: ViewId
    ballot: Ballot

    def __str__(self) -> str:
        return f"{self.view_id}:{self.ballot}"


def _write_ballot(value: Ballot, out: bytearray) -> None:
    wire.U64.write(value.round, out)
    wire.ADDRESS.write(value.owner, out)


def _read_ballot(reader: wire.Reader) -> Ballot:
    return Ballot(wire.U64.read(reader), wire.ADDRESS.read(reader))


def _write_flush(value: FlushId, out: bytearray) -> None:
    wire.VIEW_ID.write(value.view_id, out)
    _write_ballot(value.ballot, out)


def _read_flush(reader: wire.Reader) -> FlushId:
    return FlushId(wire.VIEW_ID.read(reader), _read_ballot(reader))


BALLOT = wire.Codec(_write_ballot, _read_ballot, 24)
FLUSH = wire.Codec(_write_flush, _read_flush, 48)
ADDRESSES = wire.sequence(wire.ADDRESS)
HOLDERS: wire.Codec[dict[Address, Address]] = wire.mapping(wire.ADDRESS, wire.ADDRESS)


@wire.header(proto=GMS_ID, kind=1)
class JoinMe(Header):
    """To a coordinator: let me in. `member` is the sender with its name, `physical` where it receives.

    token: what the coordinator answered (ComeBack), 0 before.
    """

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    token: int = field(wire.U64)


@wire.header(proto=GMS_ID, kind=2)
class AskThere(Header):
    """To a joiner: I am not the coordinator, this one is."""

    coordinator: Address = field(wire.MEMBER)
    physical: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=GMS_ID, kind=3)
class LeaveMe(Header):
    """To the acting coordinator: the next view shall be without me.

    view_id: my view; None: I do not wait for it (or was only joining), and am gone already.
    """

    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))


@wire.header(proto=GMS_ID, kind=4)
class Prepare(Header):
    """To `members` of the view and `joiners`: stop, promise this ballot, and say how far you are."""

    flush: FlushId = field(FLUSH)
    members: tuple[Address, ...] = field(ADDRESSES)
    joiners: tuple[Address, ...] = field(ADDRESSES)


@wire.header(proto=GMS_ID, kind=5)
class State(Header):
    """Answer to Prepare. digest: next number wanted, per member of the view; counter: highest view counter known."""

    flush: FlushId = field(FLUSH)
    counter: int = field(wire.U64)
    digest: dict[Address, int] = field(wire.DIGEST)


@wire.header(proto=GMS_ID, kind=6)
class Cut(Header):
    """To the same: deliver all below `cut`, fetching from `holders`, then accept.

    counter: of the view that is proposed, 0 where a merge leader will number it.
    """

    flush: FlushId = field(FLUSH)
    members: tuple[Address, ...] = field(ADDRESSES)
    joiners: tuple[Address, ...] = field(ADDRESSES)
    counter: int = field(wire.U64)
    cut: dict[Address, int] = field(wire.DIGEST)
    holders: dict[Address, Address] = field(HOLDERS)


@wire.header(proto=GMS_ID, kind=7)
class Ack(Header):
    """Answer to Cut: all below the cut is delivered, and what this flush decides is accepted."""

    flush: FlushId = field(FLUSH)


@wire.header(proto=GMS_ID, kind=8)
class Install(Header):
    """The decided view. Whoever accepted one of `flushes` installs it, or leaves if it is one of `leavers`.

    Every member keeps the Install of its view and shows it to whoever still speaks of an older one. sent: member, or
    one of the last members that left -> how many multicasts its application sent before this view (totals.py).
    """

    view: View = field(wire.VIEW)
    flushes: tuple[FlushId, ...] = field(wire.sequence(FLUSH))
    leavers: tuple[Address, ...] = field(ADDRESSES)
    book: dict[Address, PhysicalAddress] = field(wire.ADDRESS_BOOK)
    sent: dict[Address, int] = field(wire.DIGEST)


@wire.header(proto=GMS_ID, kind=9)
class Installed(Header):
    """Answer to Install: this view is mine now (or I leave with it)."""

    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=10)
class Outbid(Header):
    """Answer to Prepare or Cut: I promised a higher ballot."""

    flush: FlushId = field(FLUSH)
    promised: Ballot = field(BALLOT)


@wire.header(proto=GMS_ID, kind=11)
class Elsewhere(Header):
    """Answer to a message about `asked`: my view is `mine` (None: no view). final: and I cannot install `asked`."""

    asked: ViewId = field(wire.VIEW_ID)
    mine: ViewId | None = field(wire.optional(wire.VIEW_ID))
    final: bool = field(wire.BOOL)


@wire.header(proto=GMS_ID, kind=12)
class MergeAsk(Header):
    """From a merge's leader to another coordinator: flush your view `view_id`, then report."""

    number: int = field(wire.U64)
    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=13)
class MergeReady(Header):
    """Answer to MergeAsk: all of `view` accepted `flush`; these shall be in the merged view, those leave.

    sent: as in Install, of the members of `view`.
    """

    number: int = field(wire.U64)
    flush: FlushId = field(FLUSH)
    counter: int = field(wire.U64)
    view: View = field(wire.VIEW)
    members: tuple[Address, ...] = field(wire.MEMBERS)
    leavers: tuple[Address, ...] = field(ADDRESSES)
    book: dict[Address, PhysicalAddress] = field(wire.ADDRESS_BOOK)
    sent: dict[Address, int] = field(wire.DIGEST)


@wire.header(proto=GMS_ID, kind=14)
class MergeOff(Header):
    """To a coordinator: this merge ended without you. From one: not so, my view is `view_id`.

    view_id: what the sender coordinates; None: it coordinates nothing.
    """

    number: int = field(wire.U64)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))


@wire.header(proto=GMS_ID, kind=15)
class MergePlease(Header):
    """To the coordinator that should lead: I coordinate `view_id` and would be merged."""

    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=16)
class ComeBack(Header):
    """To a joiner: ask again with this token, which shows that you receive where you say."""

    token: int = field(wire.U64)
