"""FLOW: flow control of multicasts by strategy: the fastest receiver, the slowest, or the slowest of a tagged group.

Problem: with credits the slowest member of a view decides for all. Some receivers may rather lose messages than slow
the others down (a gateway), others may not (an archive), and a sender may want to be sure that enough of the latter
are there. Idea: receivers answer marks with how far they are (consuming.py), a strategy (strategies.py) makes a limit
of the answers of those that count, and a sender without enough of them is not connected.

Whatever the strategy, a sender stays within `rrwm` windows of what every member's *stack* has received: NAKACK keeps
all that for everybody, so only an application may lose messages, never the stack below it
(design/decisions/0008-slow-receivers-lose-at-the-top.md). A member that owes an answer and is silent for
`receiver_timeout` counts no more, is told so, and counts again once it answers from near enough.

In place of MFC; members of the local view only are receivers, so those of other sites are never tracked. Source: Aeron
(multicast flow control; `fc=`, `gtag=`). Deviations: answers follow marks in the stream and are asked for only while
they are owed, so that a silent group sends nothing; a member of the view counts for min from its first view on.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import OutputInOrder, ViewChange
from jgroups_py.model.outputs import GroupConnected
from jgroups_py.protocols.flow.account import Account
from jgroups_py.protocols.flow.answering import MAX_SENDERS
from jgroups_py.protocols.flow.consuming import Consuming
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.headers import (
    ClosingHeader,
    Counted,
    FlowMark,
    ReceivingHeader,
    StatusHeader,
    StatusWanted,
)
from jgroups_py.protocols.flow.spending import IN_STREAM, Spending
from jgroups_py.protocols.flow.strategies import Strategy
from jgroups_py.stack.protocol import MULTICASTS, on, only, receives, timer

NOTHING = -1                             # a limit behind which even an empty message waits


class FlowControl(Spending, Consuming):
    """The sending half; see the module.

    `account.granted`: receiver that counts -> what its stack has received.
    """

    Config = FlowControlConfig
    config: FlowControlConfig
    COUNTERS = declare(
        counter("receivers_silent", "Receivers that are no longer waited for: they did not answer within "
                                    "receiver_timeout."),
        counter("receivers_back", "Of these, how many count again because they caught up."),
        counter("disconnected", "How often fewer receivers than group_min_size were left."),
        counter("connected_again", "How often there were enough of them again."),
        drop("statuses_of_strangers", "Answers of a process outside the view."),
        drop("stale_statuses", "Answers older than one that came before, or about what was never sent."),
        figure("receivers", "Receivers that count now."),
        figure("connected", "1 while there are as many as group_min_size."),
        figure("limit", "Position up to which may be sent now."),
    )
    Mark = FlowMark

    def start(self) -> None:
        super().start()
        self.account = Account()
        self.strategy: Strategy = self.config.strategy_class()(self.config.settings)
        self.members: dict[Address, None] = {}       # of the view, without us
        self.taken: dict[Address, int] = {}          # receiver that counts -> what it has consumed
        self.heard: dict[Address, int] = {}          # member -> when it answered, or was first asked, ns
        self.silent: dict[Address, None] = {}        # members that count no more
        self.early: dict[Address, ReceivingHeader] = {}    # what members of a view said that we are yet to install
        self.polling = False                         # somebody owes an answer
        self.told = GroupConnected(True, 0, 0)

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "receivers": self.strategy.receivers(), "connected": int(self.connected),
                "limit": self.strategy.limit or 0}

    # --- sending ------------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        self.spend(self.account, None, batch)
        if not self.polling and self.account.granted:
            self.begin_polling()
        return None

    @property
    def connected(self) -> bool:
        """Whether there are as many receivers as there must be."""
        return self.strategy.connected

    def anybody(self, account: Account) -> bool:
        return bool(account.granted or self.silent)

    def block(self, account: Account, dest: Address | None) -> None:
        if account.marked < account.position:
            self.mark(account, dest)
        self.count("blocked")

    def unblock(self, dest: Address | None) -> None:
        """Polling ends by itself."""

    def renew(self) -> None:
        """Work out the limit, send what it allows, tell whether we are connected."""
        account = self.account
        if not self.connected:
            account.limit = NOTHING
        else:
            bounds = [received + self.config.ahead_bytes for received in account.granted.values()]
            if self.strategy.limit is not None:
                bounds.append(self.strategy.limit)
            account.limit = min(bounds, default=None)
        self.flush(account, None)
        news = GroupConnected(self.connected, self.strategy.receivers(), self.strategy.wanted,
                              self.config.when_disconnected == "raise")
        if news.connected != self.told.connected:
            self.told = news
            self.count("connected_again" if news.connected else "disconnected")
            self.later(lambda: self.pass_up(OutputInOrder(news)))

    def is_sender(self, member: Address) -> bool:
        return member in self.members

    # --- who owes an answer -------------------------------------------------------------------------------------------

    def begin_polling(self) -> None:
        """Nobody was asked anything for a while, so nobody counts as silent yet."""
        self.polling = True
        self.heard = dict.fromkeys(self.account.granted, self.now_ns)
        self.set_timer("poll", self.config.status_interval_ns)

    @timer("poll")
    def poll(self) -> None:
        account, interval_ns = self.account, self.config.status_interval_ns
        if account.marked < account.position:
            self.mark(account, None)
        timeout_ns, wait_ns = self.config.timeout_ns, interval_ns
        for member in [member for member in account.granted if self.owes(member)]:
            silence_ns = self.now_ns - self.heard.setdefault(member, self.now_ns)
            if silence_ns >= timeout_ns:
                self.give_up(member)
                continue
            wait_ns = min(wait_ns, timeout_ns - silence_ns)
            if silence_ns >= interval_ns:
                self.send(StatusWanted(account.marked), member)
        for member in self.silent:                   # its answer to the last mark may have been lost
            self.send(StatusWanted(account.marked), member)
        if account.queue or self.silent or any(map(self.owes, account.granted)):
            self.set_timer("poll", wait_ns)
        else:
            self.polling = False

    def owes(self, member: Address) -> bool:
        """Whether it has not consumed, or at least not acknowledged, all that was sent."""
        return self.taken.get(member, 0) < self.account.position

    def give_up(self, member: Address) -> None:
        """It was silent for too long. What it is told of that reaches it when it is back, before anything else."""
        self.count("receivers_silent")
        self.leave_out(member)
        self.silent[member] = None
        self.send(Counted(False), member, flags=IN_STREAM)
        self.renew()

    def leave_out(self, member: Address) -> None:
        self.account.granted.pop(member, None)
        self.taken.pop(member, None)
        self.strategy.gone(member)

    # --- answers ------------------------------------------------------------------------------------------------------

    @receives(StatusHeader)
    def status(self, status: StatusHeader, batch: Batch) -> None:
        member = batch.src
        if member not in self.members:
            return self.drop("statuses_of_strangers", batch, "its source is not in our view", status)
        self.heard[member] = self.now_ns
        if not status.consumed <= status.received <= self.account.position:
            return self.drop("stale_statuses", batch, "nothing was sent up to there", status)
        if member in self.silent:
            return self.readmit(member, status)
        if status.received < self.account.granted.get(member, status.received + 1):
            return self.drop("stale_statuses", batch, "a later answer of this member is known", status)
        return self.note(member, status)

    def note(self, member: Address, status: StatusHeader) -> None:
        self.account.granted[member] = status.received
        self.taken[member] = max(status.consumed, self.taken.get(member, 0))
        self.strategy.status(member, status.consumed, status.window, status.tag)
        self.renew()

    def readmit(self, member: Address, status: StatusHeader) -> None:
        """Back, if it is near enough; else it goes on catching up, and answers each mark that it passes."""
        if status.received + self.config.ahead_bytes < self.account.position:
            return
        self.strategy.status(member, status.consumed, status.window, status.tag)
        if self.strategy.admits(member):
            self.count("receivers_back")
            del self.silent[member]
            self.send(Counted(True), member, flags=IN_STREAM)
            self.note(member, status)

    @receives(ReceivingHeader)
    def introduced(self, said: ReceivingHeader, batch: Batch) -> None:
        """A member with a tag begins where we are: what was sent before its view it does not get."""
        member = batch.src
        if member in self.account.granted:
            self.strategy.status(member, self.taken[member], said.window, said.tag)
            self.renew()
        elif member not in self.members and len(self.early) < MAX_SENDERS:
            self.early[member] = said                # it has installed our next view before us

    @receives(ClosingHeader)
    def closing(self, closing: ClosingHeader, batch: Batch) -> None:
        if batch.src in self.account.granted:
            self.leave_out(batch.src)
            self.renew()

    # --- views --------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """Survivors keep what they said; joiners owe us nothing for what we sent before."""
        members = {member: None for member in event.view.members if member != self.me}
        for member in [member for member in self.members if member not in members]:
            self.leave_out(member)
            self.silent.pop(member, None)
            self.heard.pop(member, None)
        strangers = [member for member in members if member not in self.members]
        self.members = members
        for member in strangers:
            self.account.granted[member] = self.taken[member] = self.account.position
            self.strategy.setup(member, self.account.position)
            said = self.early.pop(member, None)
            if said is not None:
                self.strategy.status(member, self.account.position, said.window, said.tag)
        self.forget_senders(event.left)
        self.introduce(strangers)
        self.renew()
