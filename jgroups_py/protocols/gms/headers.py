"""The headers of GMS. Any of them may arrive twice, late, reordered or never; every handler expects that.

Prose calls them by their short names: State, Cut, Ack, Install, Nack are StateHeader, CutHeader and so on, since other
rooms have headers of these names.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Header
from jgroups_py.model.view import View, ViewId
from jgroups_py.wire import field

GMS_ID = 11
VIEW_KEY_BYTES = 32


@attrs.frozen(order=True)
class Ballot:
    """One attempt to change a view. Ballots of one view are totally ordered by (round, owner), as in Paxos."""

    round: int
    owner: Address

    def __str__(self) -> str:
        return f"{self.round}/{self.owner}"


@attrs.frozen(order=True)
class FlushId:
    """One flush: the view that is being left, and the ballot under which its members are asked."""

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


# --- joining and leaving --------------------------------------------------------------------------------------------

@wire.header(proto=GMS_ID, kind=1)
class JoinRequest(Header):
    """Joiner to coordinator: include me in the next view. `member` is the sender, with its name.

    physical: where the joiner receives; token: the one of the coordinator's JoinChallenge, 0 before.
    """

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    token: int = field(wire.U64)


@wire.header(proto=GMS_ID, kind=2)
class CoordinatorHint(Header):
    """Answer to JoinRequest: the acting coordinator is another member, `coordinator`."""

    coordinator: Address = field(wire.MEMBER)
    physical: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=GMS_ID, kind=16)
class JoinChallenge(Header):
    """Answer to JoinRequest: repeat it with this token, which proves that the joiner receives at `physical`."""

    token: int = field(wire.U64)


@wire.header(proto=GMS_ID, kind=20)
class JoinRefused(Header):
    """Answer to JoinRequest: a member of the view may not run beside the joiner's release. Above it: the sender's."""


@wire.header(proto=GMS_ID, kind=3)
class LeaveRequest(Header):
    """Member to acting coordinator: exclude me from the next view.

    view_id: the leaver's view; None: the leaver does not wait for a view (or was only joining), and is gone already.
    """

    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))


# --- a view change --------------------------------------------------------------------------------------------------

@wire.header(proto=GMS_ID, kind=4)
class Prepare(Header):
    """Phase 1, to `members` of the view and `joiners`: promise this ballot, stop, and report your digest."""

    flush: FlushId = field(FLUSH)
    members: tuple[Address, ...] = field(ADDRESSES)
    joiners: tuple[Address, ...] = field(ADDRESSES)


@wire.header(proto=GMS_ID, kind=5)
class StateHeader(Header):
    """Answer to Prepare. digest: next number wanted, per member of the view; counter: highest view counter known."""

    flush: FlushId = field(FLUSH)
    counter: int = field(wire.U64)
    digest: dict[Address, int] = field(wire.DIGEST)


@wire.header(proto=GMS_ID, kind=6)
class CutHeader(Header):
    """Phase 2, to the same members: deliver everything below `cut`, fetch what is missing from `holders`, then accept.

    counter: of the proposed view; 0 where the leader of a merge will number it.
    """

    flush: FlushId = field(FLUSH)
    members: tuple[Address, ...] = field(ADDRESSES)
    joiners: tuple[Address, ...] = field(ADDRESSES)
    counter: int = field(wire.U64)
    cut: dict[Address, int] = field(wire.DIGEST)
    holders: dict[Address, Address] = field(HOLDERS)


@wire.header(proto=GMS_ID, kind=7)
class AckHeader(Header):
    """Answer to Cut: everything below the cut is delivered, and what this flush decides is accepted."""

    flush: FlushId = field(FLUSH)


@wire.header(proto=GMS_ID, kind=8)
class InstallHeader(Header):
    """Phase 3: the decided view. A member that accepted one of `flushes` installs it, or leaves if in `leavers`.

    Every member keeps the Install of its view and answers messages about an older view with it. sent: member, or one
    of the last members that left -> how many multicasts its application sent before this view (sent_counts.py).
    """

    view: View = field(wire.VIEW)
    flushes: tuple[FlushId, ...] = field(wire.sequence(FLUSH))
    leavers: tuple[Address, ...] = field(ADDRESSES)
    book: dict[Address, PhysicalAddress] = field(wire.ADDRESS_BOOK)
    sent: dict[Address, int] = field(wire.DIGEST)


@wire.header(proto=GMS_ID, kind=17)
class ViewKey(Header):
    """Above an Install, to a member of its view: the view's key.

    Only with ENCRYPT mode="view", which seals unicasts under a key of the two members alone.
    """

    secret: bytes = field(wire.fixed_bytes(VIEW_KEY_BYTES), repr=False)


@wire.header(proto=GMS_ID, kind=18)
class RenewKey(Header):
    """To the acting coordinator: an operator orders a new key of the view. number: chosen by the sender."""

    number: int = field(wire.U64)


@wire.header(proto=GMS_ID, kind=19)
class RenewKeyAnswer(Header):
    """Answer to RenewKey: it is obeyed, or why not."""

    number: int = field(wire.U64)
    error: str = field(wire.TEXT)


@wire.header(proto=GMS_ID, kind=9)
class Installed(Header):
    """Answer to Install: the view is installed here (or this member leaves with it)."""

    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=10)
class NackHeader(Header):
    """Answer to Prepare or Cut of a ballot below the promise: a higher ballot, `promised`, has been promised."""

    flush: FlushId = field(FLUSH)
    promised: Ballot = field(BALLOT)


@wire.header(proto=GMS_ID, kind=11)
class StaleView(Header):
    """Answer to a message about view `asked`: the sender's view is `mine` (None: it has none).

    final: and the sender cannot install `asked`.
    """

    asked: ViewId = field(wire.VIEW_ID)
    mine: ViewId | None = field(wire.optional(wire.VIEW_ID))
    final: bool = field(wire.BOOL)


# --- merging --------------------------------------------------------------------------------------------------------

@wire.header(proto=GMS_ID, kind=15)
class MergeProposal(Header):
    """Coordinator to the coordinator that should lead: I coordinate `view_id`; merge our groups."""

    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=12)
class MergeRequest(Header):
    """Merge leader to another coordinator: flush your view `view_id`, then answer MergeReady."""

    number: int = field(wire.U64)
    view_id: ViewId = field(wire.VIEW_ID)


@wire.header(proto=GMS_ID, kind=13)
class MergeReady(Header):
    """Answer to MergeRequest: all of `view` accepted `flush`; `members` go to the merged view, `leavers` leave.

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
class MergeCancel(Header):
    """From the leader: this merge ended without you. To the leader: not ready; my view is `view_id`.

    view_id: what the sender coordinates; None: it coordinates no view, or does not merge now.
    """

    number: int = field(wire.U64)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))
