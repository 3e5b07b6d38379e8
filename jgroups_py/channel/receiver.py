"""The receiver of a channel: a Receiver, any object with some of its methods, or a function of a message."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from jgroups_py.channel.message import Message, MessageBatch
from jgroups_py.model.address import Address
from jgroups_py.model.outputs import CountedAsReceiver, MemberChanged, MessagesLost, MessagesSkipped
from jgroups_py.model.view import View

CALLBACKS = ("receive", "receive_batch", "view_accepted", "global_view_accepted", "get_state", "set_state",
             "site_status", "unreachable", "messages_lost", "journal_failed", "archive_failed", "messages_skipped",
             "counted_as_receiver", "group_connected", "member_changed", "order_uncertain", "alone", "channel_closed")


class Receiver:
    """Base with do-nothing methods; override what you need. All calls come one at a time, in order.

    An exception of a method is logged with its traceback and counted (`receiver_exceptions`); the channel stays
    connected. But SystemExit and KeyboardInterrupt mean that the application is to end: the channel leaves its group
    and is CLOSED with this reason, nothing more is delivered, and the exception propagates. With a JChannel it ends the
    channel's thread by `threading.excepthook` (which by default prints KeyboardInterrupt and ignores SystemExit; the
    log has both); with an AsyncChannel it ends the event loop, as from any task, and `asyncio.run` raises it. The same
    holds for the handlers of building blocks.
    """

    def receive(self, message: Message) -> None:
        """A message arrived."""

    def receive_batch(self, batch: MessageBatch) -> None:
        """A batch of messages arrived; overriding this instead of `receive` saves a call a message."""
        for message in batch:
            self.receive(message)

    def view_accepted(self, view: View) -> None:
        """The membership changed; what follows is received in this view."""

    def global_view_accepted(self, view: Any) -> None:
        """With RELAY: the membership of some site changed."""

    def get_state(self, stream: BinaryIO) -> None:
        """Write the application's state: exactly what follows from the messages received so far."""

    def set_state(self, stream: BinaryIO) -> None:
        """Read the state that another member wrote; the messages that follow are those not contained in it."""

    def site_status(self, site: str, status: str) -> None:
        """With RELAY: another site is "UP", "DOWN" or "OFFLINE" now."""

    def unreachable(self, dest: Address) -> None:
        """With RELAY: a unicast to a member of another site is not known to have been delivered."""

    def messages_lost(self, loss: MessagesLost) -> None:
        """With RELAY: messages `first` to `stop` (half-open) of `origin` at `site` will never be delivered here; or, if
        `loss.dest_site` is given, they were delivered here and will never reach that other site. If `loss.site` is
        empty, which is possible without RELAY too: multicasts of a member of this group that no member keeps."""

    def journal_failed(self, reason: str) -> None:
        """With RELAY's `hold_dir`: messages that are held for other sites are no longer written to disk, for `reason`;
        "": they are again."""

    def messages_skipped(self, gap: MessagesSkipped) -> None:
        """With FLOW: `gap.messages` multicasts of `gap.origin` that were next were dropped, since this receiver is too
        slow for a sender that does not wait for it."""

    def counted_as_receiver(self, news: CountedAsReceiver) -> None:
        """With FLOW: `news.sender` no longer waits for this member, which was silent; or does again
        (`news.in_group`)."""

    def group_connected(self, connected: bool) -> None:
        """With FLOW: whether there are enough receivers for this member's multicasts."""

    def order_uncertain(self, messages: int) -> None:
        """With TOTAL, before a view: the next so many multicasts of all senders had no final place when the last view
        ended. Members that go on to the next view together get them in one order; one that is parted may get them in
        another, or not all of them."""

    def member_changed(self, news: MemberChanged) -> None:
        """With SWIM: the state of `news.member` changed (`news.change`: suspected, failed, ...), with evidence."""

    def archive_failed(self, reason: str) -> None:
        """With ARCHIVE: recording failed, for `reason`; "": it works again, and rows `gap` count what is missing."""

    def alone(self, reason: str) -> None:
        """This member founded the group and has been the only one in it for 5 s. reason: what may keep it from finding
        others (its configuration, a name without an address), and what to set. Called once, if at all."""

    def channel_closed(self, reason: str) -> None:
        """The channel closed by itself, because of a bug; nothing follows."""


class TakesMessages(Protocol):
    """An object with `receive`. A channel for asyncio awaits what it returns, if that can be awaited."""

    def receive(self, message: Message, /) -> object: ...


class TakesBatches(Protocol):
    """An object with `receive_batch`."""

    def receive_batch(self, batch: MessageBatch, /) -> object: ...


class TakesViews(Protocol):
    """An object with `view_accepted`."""

    def view_accepted(self, view: View, /) -> object: ...


class HasState(Protocol):
    """An object with `get_state` and `set_state`."""

    def get_state(self, stream: BinaryIO, /) -> object: ...

    def set_state(self, stream: BinaryIO, /) -> object: ...


ReceiverLike = Receiver | TakesMessages | TakesBatches | TakesViews | HasState | Callable[[Message], object]
"""What may be the receiver of a channel, for type checkers; an object with other callbacks only derives from Receiver.

A wrong signature of a method is found for a Receiver by the rule of overriding, for the others here.
"""


def is_receiver(receiver: object) -> bool:
    """Whether it has at least one of a receiver's methods."""
    return any(callable(getattr(receiver, name, None)) for name in CALLBACKS)


def callbacks(receiver: object) -> dict[str, Callable[..., Any]]:
    """Name -> bound method, of those that `receiver` really has (not of Receiver's empty ones).

    Raises:
        TypeError: it has none of the methods and cannot be called either.
    """
    if receiver is None:
        return {}
    if isinstance(receiver, type):
        raise TypeError(f"a receiver is an object, not the class {receiver.__name__}; write {receiver.__name__}()")
    found = {}
    for name in CALLBACKS:
        method = getattr(receiver, name, None)
        if callable(method) and getattr(method, "__func__", None) is not getattr(Receiver, name):
            found[name] = method
    if not found and not isinstance(receiver, Receiver):
        if not callable(receiver):
            raise TypeError(f"a receiver has one of the methods {', '.join(CALLBACKS)}, or is a function of a message")
        found["receive"] = receiver
    return found
