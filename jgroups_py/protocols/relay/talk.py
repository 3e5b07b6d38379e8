"""What members of a site say to each other about relaying, and RELAY's timers, handed to the part that they concern."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jgroups_py.batch import NO_RELIABILITY, Batch
from jgroups_py.protocol import Protocol, receives, timer
from jgroups_py.protocols.relay.headers import (
    Base,
    Confirm,
    Copy,
    Disseminate,
    Ends,
    Fetch,
    Have,
    Letter,
    LetterSeen,
    Order,
    OrderAnswer,
    Sync,
    Trim,
)

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.copies import Copies
    from jgroups_py.protocols.relay.divergence import Divergence
    from jgroups_py.protocols.relay.orders import Orders
    from jgroups_py.protocols.relay.post import Post
    from jgroups_py.protocols.relay.receiving import Receiving
    from jgroups_py.protocols.relay.sending import Sending
    from jgroups_py.protocols.relay.status import Status
    from jgroups_py.view import View


class LocalTalk(Protocol):
    """The base of Relay that receives what comes with RELAY's headers in the local group."""

    is_relay: bool
    has_view: bool
    view: View
    receiving: Receiving
    divergence: Divergence
    copies: Copies
    sending: Sending
    post: Post
    status: Status
    orders: Orders

    def receiver(self, name: str) -> Callable[[Any, Batch], object]:
        """All that has RELAY's headers in the local group is believed from members of our view only, and by number.

        RELAY sends nothing unnumbered: what comes without reliability is of no RELAY, nor is what comes before the
        first view. A numbered multicast is from a member of the view, or NAKACK had not passed it up.
        """
        handler = super().receiver(name)

        def believed(header: Any, batch: Batch) -> object:
            if batch.flags & NO_RELIABILITY or not self.has_view or (
                    batch.dest is not None and batch.src not in self.view):
                self.count("from_no_member")
                return None
            return handler(header, batch)
        return believed

    @receives(Sync)
    def on_sync(self, header: Sync, batch: Batch) -> None:
        self.receiving.sync(header, batch)

    @receives(Have)
    def on_have(self, header: Have, batch: Batch) -> None:
        self.receiving.have(header, batch)

    @receives(Fetch)
    def on_fetch(self, header: Fetch, batch: Batch) -> None:
        self.copies.fetched(header, batch)

    @receives(Copy)
    def on_copy(self, header: Copy, batch: Batch) -> None:
        self.copies.copied(header, batch)

    @receives(Disseminate)
    def on_disseminate(self, header: Disseminate, batch: Batch) -> None:
        self.post.heard_from(header.site)
        self.receiving.disseminate(header, batch)

    @receives(Base)
    def on_base(self, header: Base, batch: Batch) -> None:
        self.receiving.base(header, batch)

    @receives(Confirm)
    def on_confirm(self, header: Confirm, batch: Batch) -> None:
        self.receiving.confirms(header, batch)

    @receives(Ends)
    def on_ends(self, header: Ends, batch: Batch) -> None:
        self.divergence.ends(header, batch)

    @receives(Trim)
    def on_trim(self, header: Trim, batch: Batch) -> None:
        self.status.trimmed(header, batch)

    @receives(Order)
    def on_order(self, header: Order, batch: Batch) -> None:
        self.orders.obey(header, batch.src)

    @receives(OrderAnswer)
    def on_order_answer(self, header: OrderAnswer, batch: Batch) -> None:
        if header.member == self.me:
            self.orders.answered(header.number, header.error)

    @receives(Letter)
    def on_letter(self, header: Letter, batch: Batch) -> None:
        self.post.onward(header, batch)

    @receives(LetterSeen)
    def on_letter_seen(self, header: LetterSeen, batch: Batch) -> None:
        self.post.seen_onward(header)

    # --- timers -------------------------------------------------------------------------------------------------------

    @timer("hello")
    def hello_again(self) -> None:
        self.sending.introduce()

    @timer("sync")
    def sync_again(self) -> None:
        if self.is_relay:
            self.receiving.sync_again()

    @timer("ack")
    def acknowledge(self) -> None:
        if self.is_relay:
            self.receiving.acknowledge()

    @timer("confirm")
    def confirm(self) -> None:
        self.receiving.confirm()

    @timer("trim")
    def trim(self) -> None:
        self.status.trim()

    @timer("resend")
    def resend(self) -> None:
        self.sending.probe()

    @timer("letters")
    def resend_letters(self) -> None:
        self.post.resend()

    @timer("letters_seen")
    def acknowledge_letters(self) -> None:
        self.post.acknowledge_arrived()

    @timer("site_down")
    def site_down(self, site: str) -> None:
        if self.is_relay:
            self.status.site_down(site)

    @timer("return")
    def return_to(self, site: str) -> None:
        self.status.say_hello(site)

    @timer("order")
    def orders_again(self) -> None:
        self.orders.again()

    @timer("drain")
    def drain_expired(self, site: str) -> None:
        self.orders.drain_expired(site)

    @timer("grace")
    def grace_over(self, site: str) -> None:
        self.status.grace_over(site)

    @timer("namesakes")
    def look_for_namesakes(self) -> None:
        self.sending.namesakes.look()

    @timer("raise")
    def raise_again(self) -> None:
        """Only spaces RaiseView events."""
