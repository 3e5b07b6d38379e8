"""What a node asks of the world around it and what it tells its application. Made by rings 0-3, carried out by
`runtime/` or by `sim/`. `net` says which stack of the node speaks: LOCAL or BRIDGE.
"""
from __future__ import annotations

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.members import Accusation, Member
from jgroups_py.view import GlobalView, View, ViewId

LOCAL, BRIDGE = 0, 1


class Output:
    """Something for the world or the application."""

    __slots__ = ()


# --- for the world --------------------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class OpenTransport(Output):
    """Open sockets as `config` (the transport protocol's configuration) says, then call `node.bound`."""

    net: int
    config: object
    me: Address


@attrs.define(eq=False)
class Frame(Output):
    """Send the buffers as one datagram or message; to None: to the group's IP multicast address."""

    net: int
    to: PhysicalAddress | None
    data: list[bytes | bytearray]


@attrs.frozen(eq=False)
class Listen(Output):
    """Open FD_SOCK's listener on a free port of `host` (or `port`..`port+port_range`), then pass Listening up.

    The listener greets whoever connects with our 16 address bytes and keeps the connection open.
    """

    net: int
    host: str
    port: int
    port_range: int


@attrs.frozen(eq=False)
class OpenLink(Output):
    """Connect to a listener; LinkUp or LinkDown with the same number follows, LinkDown also when it breaks later."""

    net: int
    link: int
    to: PhysicalAddress
    timeout_ns: int


@attrs.frozen(eq=False)
class CloseLink(Output):
    """Close a link; no LinkDown follows."""

    net: int
    link: int


@attrs.frozen(eq=False)
class CloseTransport(Output):
    """Close the sockets of one stack. Links that others opened to our listener are told goodbye if `graceful`."""

    net: int
    graceful: bool = True


# --- for the application --------------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class Deliver(Output):
    """Messages for the application; `batch.src` is a ProxyUUID where they come from another site."""

    batch: Batch


@attrs.frozen(eq=False)
class ViewInstalled(Output):
    """The group's view changed. failed: of those that are out of it, whom failure detection had reported here."""

    view: View
    failed: tuple[Address, ...] = ()


@attrs.frozen(eq=False)
class GlobalViewInstalled(Output):
    """RELAY's view of all sites changed."""

    view: GlobalView


@attrs.frozen(eq=False)
class SiteStatusChanged(Output):
    """RELAY's opinion of another site changed; status is "UP", "DOWN" or "OFFLINE"."""

    site: str
    status: str


@attrs.frozen(eq=False)
class RelayObeyed(Output):
    """As relay, we obey from now on the relay of another site whose local view is `epoch` (rule 11 of RELAY)."""

    site: str
    epoch: ViewId


@attrs.frozen(eq=False)
class Unreachable(Output):
    """RELAY could not (or not known to) deliver a unicast to `dest`."""

    dest: Address


@attrs.frozen(eq=False)
class MessagesLost(Output):
    """Messages `first` to `stop` of `origin` at `site` will never be delivered here.

    site "": told by NAKACK of a member of our own group, from whom everybody has forgotten what is missing here; then
    the numbers are those of its multicasts in this view (a large message counts as its pieces), not those of RELAY.
    With RELAY what it numbers is told by its own numbers, with our own site's name, when the origin's next one comes;
    the rest then, or when the origin is gone, with site "" and the numbers of the view in which it was lost.
    dest_site: where this is told at the origin's own site (they were delivered here), the other site that will never
    get them; else None.
    """

    site: str
    origin: Address
    first: int
    stop: int
    dest_site: str | None = None


@attrs.frozen(eq=False)
class MessagesSkipped(Output):
    """`messages` multicasts of `origin`, `nbytes` payload bytes, are not delivered: the application was too slow.

    They stand, in order, between what was delivered of `origin` before and after.
    """

    origin: Address
    messages: int
    nbytes: int


@attrs.frozen(eq=False)
class CountedAsReceiver(Output):
    """`sender` waits for us (in_group), or does not: we were silent for longer than its receiver_timeout."""

    sender: Address
    in_group: bool


@attrs.frozen
class GroupConnected(Output):
    """Whether FLOW counts as many receivers as its group_min_size wants.

    raises: what send does while not: raise ReceiversMissingError, or wait.
    """

    connected: bool
    receivers: int
    wanted: int
    raises: bool = False


@attrs.frozen(eq=False)
class SiteCommandDone(Output):
    """The event SiteCommand `number` was carried out, or why not."""

    number: int
    error: str


@attrs.frozen(eq=False)
class StateAdvised(Output):
    """As relay: `site` held nothing for our site for a while, so ours should ask it for a state (rule 16 of RELAY)."""

    site: str


@attrs.frozen(eq=False)
class Receipt(Output):
    """What became of the message sent as SendUntil(ticket).

    Every living member of `views` (site -> the local views of its relays) has it; or it is lost for site `lost_for`:
    some member there will not get it. `views` then names the sites that had it before.
    """

    ticket: int
    views: dict[str, tuple[ViewId, ...]]
    lost_for: str = ""


@attrs.frozen(eq=False)
class ProvideState(Output):
    """Call the application's get_state now, in order with the deliveries; answer with StateChunk(request) events."""

    request: int


@attrs.frozen(eq=False)
class StateBegin(Output):
    """A state follows in StateParts and one StateEnd, in order with the deliveries.

    The state holds everything delivered before this output and nothing of what is delivered after it, so what comes
    between the StateParts has to wait until the state is set. Another StateBegin before the StateEnd: start over (the
    provider was lost); what was delivered between the two then comes before the new state.
    """


@attrs.frozen(eq=False)
class StatePart(Output):
    """The next bytes of the state."""

    data: bytes


@attrs.frozen(eq=False)
class StateEnd(Output):
    """The state is complete (error ""), or failed; without a StateBegin before it, nothing was received.

    skipped: (site, origin, first, stop) of what will not be delivered, as a state of another site holds it.
    """

    error: str = ""
    skipped: tuple[tuple[str, Address, int, int], ...] = ()


@attrs.frozen(eq=False)
class MemberChanged(Output):
    """SWIM learnt something of a member. change: a word of members.py; accusations: the evidence, oldest first."""

    change: str
    member: Member
    accusations: tuple[Accusation, ...] = ()


@attrs.frozen(eq=False)
class Closed(Output):
    """The node is done: it left, or failed for `reason`."""

    reason: str


# --- between FLOW and the node --------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class SkipMulticasts(Output):
    """From here on (on) until further notice the application loses what `sender` multicasts, or relays to us."""

    sender: Address
    on: bool


# --- between RELAY and the node -------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class OpenBridge(Output):
    """Build the bridge stack from `props` (as in RELAY's bridge_props) and connect it to cluster `name`."""

    props: str
    name: str


@attrs.frozen(eq=False)
class CloseBridge(Output):
    """Leave the bridge and drop its stack."""


@attrs.frozen(eq=False)
class ToBridge(Output):
    """Send a batch through the bridge stack (its src is filled in by the node)."""

    batch: Batch


@attrs.frozen(eq=False)
class ReadyToLeave(Output):
    """RELAY has said its goodbyes; the node may disconnect the local stack."""


@attrs.frozen(eq=False)
class NodeFailed(Output):
    """A layer cannot work at all: the node closes, for `reason`."""

    reason: str


# --- files and notes ------------------------------------------------------------------------------------------------

@attrs.frozen(eq=False)
class StoreEntry(Output):
    """Write `data` as file `name` in `folder` (made if missing), atomically; None: remove the file."""

    folder: str
    name: str
    data: bytes | None


@attrs.frozen(eq=False)
class ReadFolder(Output):
    """Read all small files of `folder`, then pass FolderRead up the stack of `net`."""

    net: int
    folder: str


@attrs.frozen(eq=False)
class Note(Output):
    """Something for the log; level is "debug", "info", "warning" or "error"."""

    level: str
    text: str
