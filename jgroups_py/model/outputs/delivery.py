"""For the application: messages, views, members, the end."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs.base import Output
from jgroups_py.model.swim_member import Accusation, Member
from jgroups_py.model.view import View


@attrs.frozen(eq=False)
class Deliver(Output):
    """Messages for the application; `batch.src` is a ProxyUUID where they come from another site."""

    batch: Batch


@attrs.frozen(eq=False)
class ViewInstalled(Output):
    """The group's view changed. failed: those that left it and had been reported by failure detection here."""

    view: View
    failed: tuple[Address, ...] = ()


@attrs.frozen(eq=False)
class MemberAlone(Output):
    """This member has been the only one of its group since it joined; reason: what may keep it from finding others."""

    reason: str


@attrs.frozen(eq=False)
class OrderUncertain(Output):
    """With TOTAL, at the end of a view: the `messages` multicasts that follow before the next one had no final place.

    Members that go on to the next view together get them in one order; one that is parted may get them in another.
    """

    messages: int


@attrs.frozen(eq=False)
class Unreachable(Output):
    """RELAY did not deliver a unicast to `dest`, or cannot tell whether it did."""

    dest: Address


@attrs.frozen(eq=False)
class MessagesSkipped(Output):
    """`messages` multicasts of `origin`, `nbytes` payload bytes, are not delivered: the application was too slow.

    In order with the deliveries of `origin` before and after them.
    """

    origin: Address
    messages: int
    nbytes: int


@attrs.frozen(eq=False)
class CountedAsReceiver(Output):
    """`sender` waits for this member (in_group), or does not: it got no answer for longer than its receiver_timeout."""

    sender: Address
    in_group: bool


@attrs.frozen
class GroupConnected(Output):
    """Whether FLOW counts as many receivers as its group_min_size requires.

    raises: what send does while not: raise ReceiversMissingError, or wait.
    """

    connected: bool
    receivers: int
    wanted: int
    raises: bool = False


@attrs.frozen(eq=False)
class MemberChanged(Output):
    """The state of a member changed in SWIM. change: a word of swim_member.py; accusations: the evidence, oldest
    first."""

    change: str
    member: Member
    accusations: tuple[Accusation, ...] = ()


@attrs.frozen(eq=False)
class MemberGone(Output):
    """FD_SOCK: this member has seen itself that the process of `member` has ended: where it listened, the connection is
    refused or another process answers. Once for each; for building blocks."""

    member: Address


@attrs.frozen(eq=False)
class Closed(Output):
    """The node is done: it left, or failed for `reason`."""

    reason: str


@attrs.frozen(eq=False)
class SkipMulticasts(Output):
    """From here on (on) until further notice the application loses what `sender` multicasts, or relays here."""

    sender: Address
    on: bool


@attrs.frozen(eq=False)
class NodeFailed(Output):
    """A layer cannot work: the node closes, for `reason`."""

    reason: str
