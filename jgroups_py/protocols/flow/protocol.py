"""MFC and UFC: credits, so that a slow receiver slows its senders instead of filling somebody's memory.

Problem: reliable layers below keep what a receiver has not taken yet, at both ends, without bound. Idea: a sender may
have `max_credits` payload bytes on their way to a receiver. It counts its bytes (`position`) and says in the stream
itself, every so often and whenever it has to stop, how far it is: Mark(position). Marks travel in order with the
messages, so a receiver that passes one up has passed up everything before it, and answers Granted(position). The
sender may send up to `max_credits` above the lowest position that all its receivers granted; what exceeds that is cut
off and queued. While the application is behind (AppBusy), answers wait. When a blocked sender hears nothing for
`max_block_time` it asks the slow ones, since answers may be lost.

MFC does this for multicasts (every other member of the view is a receiver), UFC for unicasts (one account each). Both
sit above the reliable layers and below FRAG, so that runs are cut at messages of at most frag_size. NO_FC messages
pass. A message larger than `max_credits` passes once everything before it is granted.

View changes: who left no longer counts, which frees senders that waited for it; who joined starts at our position.
Positions are absolute and only grow, so neither marks that are still below us when a view is installed nor answers
that come late or twice can do harm: credits in flight at a view change are not lost, because none are in flight.

Source: JGroups FlowControl, MFC, UFC. Deviation: there the receivers count bytes and send them back as increments,
which view changes and resets have to keep in step at both ends; here only the sender counts.
"""
from __future__ import annotations

from typing import Any, ClassVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import OutputInOrder, ViewChange
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.protocols.flow.account import Account
from jgroups_py.protocols.flow.answering import MAX_SENDERS, Answering
from jgroups_py.protocols.flow.config import FlowConfig
from jgroups_py.protocols.flow.headers import (
    MulticastGranted,
    MulticastMark,
    MulticastWanted,
    UnicastGranted,
    UnicastMark,
    UnicastWanted,
)
from jgroups_py.protocols.flow.spending import Spending
from jgroups_py.stack.protocol import MULTICASTS, UNICASTS, on, only, receives, timer


class Flow(Spending, Answering):
    """What MFC and UFC share: accounts, marks and grants. A subclass says which account a batch belongs to."""

    Config = FlowConfig
    config: FlowConfig
    COUNTERS = declare(
        counter("credit_requests_sent", "Questions to receivers that had not answered while a sender was blocked."),
        counter("grants_sent", "Answers to marks of senders."),
        drop("stale_grants", "Answers about marks that were never set, or of a member that was not asked."),
    )
    Mark: ClassVar[type[Any]]                # the three headers, made with a position
    Granted: ClassVar[type[Any]]
    Wanted: ClassVar[type[Any]]

    def start(self) -> None:
        super().start()
        self.reached: dict[Address, int] = {}        # sender -> the last of its marks that we passed
        self.owed: dict[Address, int] = {}           # sender -> the mark to be granted when the application keeps up

    # --- sending ----------------------------------------------------------------------------------------------------

    def block(self, account: Account, dest: Address | None) -> None:
        """No credit: a mark makes the receivers answer, and a timer asks again."""
        if account.marked < account.position:
            self.mark(account, dest)
        if not self.timer_is_set("blocked", dest):
            self.count("blocked")
            self.set_timer("blocked", self.config.max_block_time_ns, dest)

    def unblock(self, dest: Address | None) -> None:
        self.cancel_timer("blocked", dest)

    @timer("blocked")
    def still_blocked(self, dest: Address | None = None) -> None:
        account = self.account_of(dest)
        if account is None or not account.queue:
            return
        for member, granted in account.granted.items():
            if granted < account.marked:
                self.count("credit_requests_sent")
                self.send(self.Wanted(account.marked), member)
        self.set_timer("blocked", self.config.max_block_time_ns, dest)

    def account_of(self, dest: Address | None) -> Account | None:
        """The account for messages to `dest`, if there is one."""
        raise NotImplementedError

    def grant_to(self, account: Account, dest: Address | None, batch: Batch, position: int) -> None:
        """The source of `batch` has passed up everything of ours below `position`."""
        member = batch.src
        known = account.granted.get(member)
        if known is None or not known <= position <= account.position:
            return self.drop("stale_grants", batch, f"it answers {position}, which is no mark of ours")
        account.granted[member] = position
        self.renew(account)
        return self.flush(account, dest)

    def renew(self, account: Account) -> None:
        """Work out the limit from what was granted."""
        lowest = min(account.granted.values(), default=None)
        account.limit = None if lowest is None else lowest + self.config.window_bytes

    # --- receiving --------------------------------------------------------------------------------------------------

    def passed_mark(self, src: Address, position: int) -> None:
        """Everything that `src` sent before `position` has gone up."""
        if src == self.me or (src not in self.reached and len(self.reached) >= MAX_SENDERS):
            return
        self.reached[src] = position
        if self.busy:
            self.owed[src] = position
        else:
            self.grant(src, position)

    def grant(self, src: Address, position: int) -> None:
        self.count("grants_sent")
        self.send(self.Granted(position), src)

    def credit_wanted(self, src: Address) -> None:
        """The sender is blocked: perhaps our grant was lost."""
        position = self.reached.get(src)
        if position is not None and not self.busy:
            self.grant(src, position)

    def caught_up(self) -> None:
        """Grant what is owed."""
        owed, self.owed = self.owed, {}
        for src, position in owed.items():
            self.grant(src, position)

    def forget_senders(self, left: tuple[Address, ...]) -> None:
        for member in left:
            self.reached.pop(member, None)
            self.owed.pop(member, None)


class Mfc(Flow):
    """Flow control of multicasts: as fast as the slowest other member of the view."""

    Mark, Granted, Wanted = MulticastMark, MulticastGranted, MulticastWanted

    def start(self) -> None:
        super().start()
        self.account = Account()
        self.lossy: dict[Address, None] = {}         # senders of whom messages are lost here, and perhaps marks

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        return self.spend(self.account, None, batch)

    def account_of(self, dest: Address | None) -> Account | None:
        return self.account

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """Survivors keep what they granted; joiners owe us nothing for what we sent before."""
        account = self.account
        known, here = account.granted, account.position
        account.granted = {member: known.get(member, here) for member in event.view.members if member != self.me}
        self.forget_senders(event.left)
        for member in event.left:
            self.lossy.pop(member, None)
        self.renew(account)
        self.flush(account, None)

    @receives(MulticastMark)
    def marked(self, mark: MulticastMark, batch: Batch) -> None:
        self.passed_mark(batch.src, mark.position)

    @receives(MulticastGranted)
    def granted(self, granted: MulticastGranted, batch: Batch) -> None:
        self.grant_to(self.account, None, batch, granted.position)

    @on(OutputInOrder)
    def messages_lost(self, event: OutputInOrder) -> None:
        """NAKACK goes on without some messages of a member: marks among them will never pass."""
        if isinstance(event.output, MessagesLost) and event.output.origin in self.account.granted:
            self.lossy[event.output.origin] = None

    @receives(MulticastWanted)
    def wanted(self, wanted: MulticastWanted, batch: Batch) -> None:
        if batch.src in self.lossy and wanted.position > self.reached.get(batch.src, 0):
            self.passed_mark(batch.src, wanted.position)       # its mark may be lost: take the sender's word
        else:
            self.credit_wanted(batch.src)


class Ufc(Flow):
    """Flow control of unicasts: an account for each member of the view we send to."""

    Mark, Granted, Wanted = UnicastMark, UnicastGranted, UnicastWanted

    def start(self) -> None:
        super().start()
        self.members: dict[Address, None] = {}       # of the view, without us
        self.accounts: dict[Address, Account] = {}

    @only(UNICASTS)
    def down(self, batch: Batch) -> None:
        dest = batch.dest
        assert dest is not None, "only unicasts come here"
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        account = self.accounts.get(dest)
        if account is None:
            if dest not in self.members:
                return self.pass_down(batch)         # to ourselves, or to somebody who could not answer for itself
            account = self.open(dest)
        return self.spend(account, dest, batch)

    def open(self, dest: Address) -> Account:
        account = self.accounts[dest] = Account()
        account.granted[dest] = 0
        self.renew(account)
        return account

    def account_of(self, dest: Address | None) -> Account | None:
        return None if dest is None else self.accounts.get(dest)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """What waits for the credit of somebody who left goes down: UNICAST decides how long it is worth keeping."""
        self.members = {member: None for member in event.view.members if member != self.me}
        self.forget_senders(event.left)
        for dest in [dest for dest in self.accounts if dest not in self.members]:
            account = self.accounts.pop(dest)
            account.granted.clear()
            self.renew(account)
            self.flush(account, dest)

    @receives(UnicastMark)
    def marked(self, mark: UnicastMark, batch: Batch) -> None:
        self.passed_mark(batch.src, mark.position)

    @receives(UnicastGranted)
    def granted(self, granted: UnicastGranted, batch: Batch) -> None:
        account = self.accounts.get(batch.src)
        if account is None:
            return self.drop("stale_grants", batch, "nothing was sent to its source", granted)
        return self.grant_to(account, batch.src, batch, granted.position)

    @receives(UnicastWanted)
    def wanted(self, wanted: UnicastWanted, batch: Batch) -> None:
        self.credit_wanted(batch.src)
