"""Facts that travel through a stack beside batches: one class a fact, in the order of the batches around it.

An event goes up or down like a batch (law 2: a view never overtakes data). Layers observe it with `@on`; it travels
on afterwards. Who emits it and in which direction stands in its docstring.
"""
from __future__ import annotations

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.outputs import Output
from jgroups_py.view import View, ViewId

Digest = dict[Address, int]
Ranges = tuple[tuple[int, int], ...]


class Event:
    """A fact."""

    __slots__ = ()


# --- the channel's wishes, down from the top ------------------------------------------------------------------------

@attrs.frozen
class Connect(Event):
    """Down: the sockets are there; find the group of this name and join it."""

    cluster: str


@attrs.frozen
class Disconnect(Event):
    """Down: leave gracefully. GMS answers with Left, up."""


@attrs.frozen
class AppBusy(Event):
    """Down: the application has (on) more undelivered bytes than it should; grant no credits until off.

    why: who says so; grants wait while anybody does.
    """

    on: bool
    why: str = "application"


@attrs.frozen
class SetPartition(Event):
    """Down: PARTITION lets only members of our own group through from now on; () heals. Groups of logical names."""

    groups: tuple[tuple[str, ...], ...]


# --- the world's news, up from the bottom ---------------------------------------------------------------------------

@attrs.frozen
class Bound(Event):
    """Up: the transport receives at `physical`."""

    physical: PhysicalAddress


@attrs.frozen
class Listening(Event):
    """Up: FD_SOCK's listener accepts links at `physical`."""

    physical: PhysicalAddress


@attrs.frozen
class LinkUp(Event):
    """Up: the link that was opened as `link` stands; the other end says it is `peer` (16 bytes)."""

    link: int
    peer: bytes


@attrs.frozen
class LinkDown(Event):
    """Up: the link broke or could not be opened.

    refused: the host answered that nobody listens there (so the process is gone); graceful: the other end said
    goodbye before closing.
    """

    link: int
    refused: bool
    graceful: bool = False


@attrs.frozen
class FolderRead(Event):
    """Up: the files that `folder` held, in order of their names."""

    folder: str
    entries: tuple[bytes, ...]


# --- membership -----------------------------------------------------------------------------------------------------

@attrs.frozen
class FindMembers(Event):
    """Down, from GMS or MERGE3: discovery shall ask around for `within_ns` and answer with MembersFound.

    everyone: ask to the end and let ordinary members answer too; otherwise the first coordinator's answer ends it.
    """

    within_ns: int
    everyone: bool = False


@attrs.frozen
class SendTo(Event):
    """Down, from discovery: send `batch` to whoever receives at `physical`, though we know no address for it."""

    physical: PhysicalAddress
    batch: Batch


@attrs.frozen
class Found:
    """One answer of discovery: a member, where it is, and the view it has (None: it is not in a group yet).

    trip_ns: how long after the question it came, 0: not known.
    """

    member: Address
    physical: PhysicalAddress
    view_id: ViewId | None
    is_coordinator: bool
    trip_ns: int = attrs.field(default=0, eq=False)


@attrs.frozen
class MembersFound(Event):
    """Up, from discovery: who answered, in order of arrival. At least once a FindMembers, at its end; of a search for
    everyone, also later for each that answers late."""

    found: tuple[Found, ...]


@attrs.frozen
class AddressesKnown(Event):
    """Down, from GMS and discovery: where members receive; the transport's address cache takes it."""

    book: dict[Address, PhysicalAddress]


@attrs.frozen
class Suspect(Event):
    """Up, from failure detectors.

    certain: we saw ourselves that its process is gone, so nobody needs to verify. accused: another member says that it
    saw that, and we could not look for ourselves, so it is likely.
    """

    members: tuple[Address, ...]
    certain: bool = False
    accused: bool = False


@attrs.frozen
class Unsuspect(Event):
    """Up: the members were heard again."""

    members: tuple[Address, ...]


@attrs.frozen
class ExcludedHint(Event):
    """Up, from NAKACK and failure detectors, now and then: a stranger to our view takes itself for a member. asked: it
    asked us of all, so we tell it; else our coordinator does, which hears it too."""

    stranger: Address
    asked: bool = False


@attrs.frozen
class MergeNeeded(Event):
    """Up, from MERGE3: members with different views are about; member -> its view's id."""

    views: dict[Address, ViewId]


@attrs.frozen
class ViewChange(Event):
    """Down and up, from GMS: `view` is installed. Everything delivered in `previous` (None: our first) came before.

    failed: of `left`, those that failure detection had reported here.
    """

    view: View
    previous: View | None
    joined: tuple[Address, ...]
    left: tuple[Address, ...]
    failed: tuple[Address, ...] = ()


@attrs.frozen
class RaiseView(Event):
    """Down, from RELAY: the coordinator shall install a view (same members) whose counter exceeds `above`."""

    above: int


@attrs.frozen
class Left(Event):
    """Up, from GMS: we are out of the group, gracefully or after the leave timeout."""


# --- virtual synchrony: GMS asks NAKACK, between two views ----------------------------------------------------------

@attrs.frozen
class Freeze(Event):
    """Down, from GMS: send and deliver no more multicasts in this view; answer with Frozen."""


@attrs.frozen
class Frozen(Event):
    """Up, from NAKACK: per member of the view the next number wanted: all below is delivered here."""

    digest: Digest


@attrs.frozen
class FillTo(Event):
    """Down, from GMS: fetch and deliver everything below `cut`; `holders` has, per sender, who can resend it."""

    cut: Digest
    holders: dict[Address, Address]


@attrs.frozen
class Filled(Event):
    """Up, from NAKACK: everything below `cut` was passed up."""

    cut: Digest


@attrs.frozen
class MessagesStable(Event):
    """Down, from STABLE: every member has delivered all messages below `digest[member]` from each member."""

    digest: Digest


@attrs.frozen
class MessagesKnown(Event):
    """Down, from STABLE: some member has delivered all messages below `digest[member]`, so they exist."""

    digest: Digest


# --- state transfer: between the channel and STATE_TRANSFER -----------------------------------------------------------

@attrs.frozen
class GetState(Event):
    """Down, from the channel: fetch the state from `target` (None: the coordinator; asking ourselves is a no-op).

    timeout_ns: how long nothing at all may arrive before the transfer fails.
    """

    target: Address | None
    timeout_ns: int


@attrs.frozen
class StateChunk(Event):
    """Down, from the channel: the next bytes of the state asked for by output ProvideState(request).

    last: nothing follows; error: the application's get_state failed, and this says how (last is then true).
    """

    request: int
    data: bytes
    last: bool = False
    error: str = ""


@attrs.frozen
class StateBusy(Event):
    """Down, from the channel: the application has (on) more of the state unread than it should; ask for no more."""

    on: bool


@attrs.frozen
class Tell(Event):
    """Up: `output` is emitted when this reaches the top, in order with the deliveries around it."""

    output: Output


# --- receipts: between the channel and RELAY --------------------------------------------------------------------------

@attrs.frozen
class SendUntil(Event):
    """Down, from the channel: multicast a message; output Receipt(ticket) follows once all members of `sites` have it.

    sites: names; our own among them means the own group; "*": all sites that are not OFFLINE, and ours.
    """

    ticket: int
    sites: tuple[str, ...]
    payload: bytes
    headers: tuple[Header, ...] = ()
    flags: int = 0


@attrs.frozen
class StopWaiting(Event):
    """Down, from the channel: nobody waits for Receipt(ticket) any more."""

    ticket: int


# --- relay: between RELAY, the node and the bridge stack ------------------------------------------------------------

@attrs.frozen
class BridgeView(Event):
    """To RELAY, from the node: the bridge stack installed `view`; `me` is our address there."""

    view: View
    me: Address


@attrs.frozen
class BridgeDelivered(Event):
    """To RELAY, from the node: the bridge stack delivered `batch`."""

    batch: Batch


@attrs.frozen
class BridgeClosed(Event):
    """To RELAY, from the node: the bridge stack is gone (closed, left, or it could not be opened: `reason`)."""

    reason: str


@attrs.frozen
class SiteCommand(Event):
    """Down, from the channel: an operator wants another site "offline", "online", to "drain" it, or to "hold" what
    is for it (rule 14 of RELAY).

    number: the caller's own, for the answer, output SiteCommandDone. timeout_ns: how long a drain, or a hold, may take.
    """

    number: int
    verb: str
    site: str
    timeout_ns: int = 0


@attrs.frozen
class LeaveWanted(Event):
    """To RELAY, from the node: the application disconnects; answer with the output ReadyToLeave.

    forget: if no member of our site stays, other sites are to hold nothing for it.
    """

    forget: bool = False
