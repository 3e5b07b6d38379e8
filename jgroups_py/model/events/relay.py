"""Between the channel, the node and RELAY."""
from __future__ import annotations

from enum import Enum

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events.base import Event
from jgroups_py.model.view import View


@attrs.frozen
class SendUntil(Event):
    """Down, from the channel: multicast a message; SiteReceipt(ticket) follows once all members of `sites` have it.

    sites: names; this one among them means the own group; "*": this site
    and all that are not OFFLINE.
    """

    ticket: int
    sites: tuple[str, ...]
    payload: bytes
    headers: tuple[Header, ...] = ()
    flags: int = 0


@attrs.frozen
class StopWaiting(Event):
    """Down, from the channel: SiteReceipt(ticket) is not waited for any more."""

    ticket: int


@attrs.frozen
class BridgeView(Event):
    """To RELAY, from the node: the bridge stack installed `view`; `me` is this member's address there.

    sites: member of the bridge -> its site, of those of which AUTH has verified one.
    """

    view: View
    me: Address
    sites: dict[Address, str] = attrs.field(factory=dict)


@attrs.frozen
class BridgeDelivered(Event):
    """To RELAY, from the node: the bridge stack delivered `batch`."""

    batch: Batch


class BridgeEnd(Enum):
    """Why a bridge stack is gone."""

    LEFT = "left"              # as requested
    FAILED = "failed"          # its sockets could not be opened
    REPLACED = "replaced"      # RELAY has requested a new one in its place


@attrs.frozen
class BridgeClosed(Event):
    """To RELAY, from the node: the bridge stack is gone. reason: for the log."""

    end: BridgeEnd
    reason: str = ""


@attrs.frozen
class SiteCommand(Event):
    """Down, from the channel: an operator orders another site "offline", "online", to "drain" it, or to "hold" what
    is for it (rule 14 of RELAY).

    number: chosen by the caller, for the answer, output SiteCommandDone. timeout_ns: how long a drain, or a hold, may
    take.
    """

    number: int
    verb: str
    site: str
    timeout_ns: int = 0


@attrs.frozen
class LeaveRequested(Event):
    """To RELAY, from the node: the application disconnects; answer with the output ReadyToLeave.

    forget: if no member of this site stays, other sites are to hold nothing for it.
    """

    forget: bool = False
