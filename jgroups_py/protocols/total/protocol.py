"""TOTAL: all members deliver the multicasts of all senders in one order.

Problem: NAKACK delivers the multicasts of each sender in its order; those of two senders come in one order at one
member, and in another at the next. Idea: every member multicasts as ever, and the coordinator of the view, the
*sequencer*, tells the order in *tickets*: "the next 5 of member 2, the next 3 of member 1" multicast like all else,
so that they are retransmitted by any member and belong to what a view change completes. The sequencer's own
stream is the order: its own messages stand where they come in it, and need no ticket. Data carries no header of this
layer, since "the next n of a member" is exact: its multicasts come in order and without holes (F).

Every multicast gets a *place*, 1, 2, ... in each view. At a view change what has no place yet, the *rest*, follows:
first that of members which go on, in the order of the old view, then that of members which do not. All members that go
on to the next view together have the same messages and the same tickets (S5), so they agree, without a message. And no
message waits for a sequencer that is dead: the next view places it. Members that go on come first in the rest, so that
an answer from a member that crashed does not come before the message that it answers, of a member that lives.

Where order and flow control meet: members grant credit, below this layer, for messages that may wait for a place here.
The sequencer grants too, and tells the place of what it has at once, so what waits is bounded by credits, as long as
tickets arrive. Above `max_unplaced_size` this member grants nothing more (AppBusy), and its own sends wait. Tickets
wait for no credit and for no large message before them (FRAG), so this cannot last.

A layer above that numbers multicasts per sender (RELAY, ARCHIVE) takes one that is overtaken for lost, so what it
numbers is ordered, NO_TOTAL_ORDER or not.

Place: above FRAG (it orders whole messages), below STATE_TRANSFER and all that sees the messages of applications.
Source: Amoeba's BB method (Kaashoek, Tanenbaum 1989), ISIS' ABCAST; JGroups SEQUENCER for the name. Deviations: data is
neither forwarded nor numbered anew, so nothing is sent again when the sequencer dies; the sequencer's own messages need
no ticket; the rest of a view is placed by virtual synchrony.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, NO_TOTAL_ORDER, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import AppBusy, Frozen, MessageDropped, OutputInOrder, RaiseView, ViewChange
from jgroups_py.model.outputs import MessagesLost, OrderUncertain
from jgroups_py.model.ports import MulticastNumbers, MulticastOrder
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.view import View
from jgroups_py.protocols.total.config import SAFE, TotalConfig
from jgroups_py.protocols.total.headers import NewViewWanted, Reached, Tickets
from jgroups_py.protocols.total.safe_order import SafeOrder
from jgroups_py.protocols.total.unplaced import Unplaced
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives

WHY = "total"                        # of AppBusy
RUNS = 256                           # of one message of tickets, so that it fits a frame beside the other headers
SMOOTHING = 8                        # a new measurement of the wait for a place weighs 1/8

TICKET_FLAGS = NO_FC | NO_RELAY | NO_TOTAL_ORDER
"""Of tickets: reliable, in order with the sequencer's messages; neither credits nor a large message hold them up."""

TO_COORDINATOR = NO_FC | NO_RELAY
"""Of unicasts to the sequencer: reliable."""


class Total(Protocol, MulticastOrder):
    """See the module."""

    Config = TotalConfig
    config: TotalConfig
    COUNTERS = declare(
        counter("tickets_sent", "Messages by which this member, as coordinator, told the order."),
        counter("reports_sent", "Reports to the coordinator, in a safe order, of how far this member has the order."),
        counter("placed_at_view_changes", "Multicasts that had no final place when a view ended; they got it then."),
        counter("waited_too_long", "How often so much waited for a place that this member granted no credit."),
        counter("order_lost", "Views in which messages were lost for good, so that this member could not follow the "
                              "order to the end and asked for a new view."),
        counter("views_raised", "Views that this member, as coordinator, began because a member had lost the order."),
        drop("old_tickets_dropped", "Tickets of an earlier view."),
        drop("tickets_refused", "Tickets that the coordinator did not multicast reliably."),
        drop("implausible_dropped", "Tickets and reports with numbers that cannot be."),
        drop("reports_dropped", "Reports about another view, or where the order is not safe."),
        drop("non_member_dropped", "Multicasts of a source that is not in the view."),
        figure("place", "Places given in this view."),
        figure("unplaced", "Multicasts that wait for a place."),
        figure("unplaced_bytes", "Their payload bytes, and those of messages kept back in a safe order."),
        figure("queued_bytes", "Payload bytes of own messages that wait until earlier ones have a place."),
        figure("waited_ms", "How long an own multicast waits for its place, on average; 0 at the coordinator."),
    )

    def start(self) -> None:
        layers = self.stack.layers
        above = layers[layers.index(self) + 1:]
        self.numbering = [layer for layer in above if isinstance(layer, MulticastNumbers)]
        # The view.
        self.view: View | None = None
        self.view_raw = b""
        self.sequencer: Address | None = None
        self.frozen = False                              # a view change began
        self.lost = False                                # messages of this view are lost: its order is not known
        # The order. plan: (sender, number of its next messages) whose places are known, in order.
        self.place = 1                                   # the next one
        self.unplaced: dict[Address, Unplaced] = {}      # member of the view -> its messages without a place
        self.plan: deque[tuple[Address, int]] = deque()
        self.untold: dict[Address, int] = {}             # at the sequencer: sender -> messages not told yet
        self.telling = False                             # `tell` is called at the end of this round
        self.safe = SafeOrder() if self.config.order == SAFE else None
        self.reporting = False
        # Bounds.
        self.unplaced_bytes = 0
        self.busy = False                                # no credit is granted, because of this layer
        self.queue: deque[Batch] = deque()               # own messages that wait
        self.queued_bytes = 0
        # How long own messages wait: one of them is measured at a time.
        self.measured: tuple[int, int] | None = None     # (how many must have been placed, since when)
        self.waited_ns = 0

    def pending_bytes(self) -> int:
        return self.queued_bytes

    def stats(self) -> dict[str, float]:
        unplaced = sum(kept.count for kept in self.unplaced.values())
        return {**self.counters, "place": self.place - 1, "unplaced": unplaced, "unplaced_bytes": self.unplaced_bytes,
                "queued_bytes": self.queued_bytes, "waited_ms": round(self.waited_ns / NS_PER_MS, 3)}

    def is_ordered(self, flags: int) -> bool:
        """Whether multicasts with these flags have a place; the same at all members whose stacks are the same."""
        if flags & NO_RELIABILITY:
            return False
        return not flags & NO_TOTAL_ORDER or any(layer.numbers(flags) for layer in self.numbering)

    # --- sending ----------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        """Own messages wait while too many of them have no place: FLOW may let a sender run ahead of the sequencer."""
        if (self.queue or self.busy) and self.must_wait(batch.flags):
            self.queue.append(batch)
            self.queued_bytes += batch.nbytes
            return None
        return self.pass_down(batch)

    def must_wait(self, flags: int) -> bool:
        """Whether an own multicast waits: too many earlier ones have no place, or some wait already."""
        if not self.is_ordered(flags):
            return False
        kept = self.unplaced.get(self.me)
        return bool(self.queue) or (
            kept is not None and not flags & NO_FC and kept.nbytes > self.config.max_unplaced_bytes)

    # --- receiving --------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        flags = batch.flags
        if flags & (NO_RELIABILITY | NO_TOTAL_ORDER) and not self.is_ordered(flags):
            return self.pass_up(batch)
        sender = batch.src
        if sender == self.sequencer:
            if not self.plan and not self.lost:
                return self.deliver(batch)               # the usual case: its place is the next one
            self.keep(sender, batch)
            return self.plan.append((sender, len(batch.payloads) or 1))
        if not self.keep(sender, batch):
            return self.drop("non_member_dropped", batch, "its source is not in the view")
        if self.sequencer == self.me:
            self.give_place(sender, len(batch.payloads) or 1)
        elif self.plan and self.plan[0][0] == sender:
            self.carry_out()
        return None

    def keep(self, sender: Address, batch: Batch) -> bool:
        """Keep a batch until it has a place; False: its sender is no member."""
        kept = self.unplaced.get(sender)
        if kept is None:
            return False
        kept.put(batch)
        self.unplaced_bytes += batch.nbytes
        if sender == self.me and self.measured is None:
            self.measured = kept.taken + kept.count, self.now_ns
        if self.unplaced_bytes > self.config.max_unplaced_bytes and not self.busy:
            self.busy = True
            self.count("waited_too_long")
            self.pass_down(AppBusy(True, WHY))
        return True

    @on(MessageDropped)
    def message_dropped(self, event: MessageDropped) -> None:
        """A message that the other members have takes its place here too, or all that follow would be shifted."""
        kept = self.unplaced.get(event.sender)
        if kept is None:
            return
        kept.put_dropped()
        if event.sender == self.sequencer:
            self.plan.append((event.sender, 1))
            self.carry_out()
        elif self.sequencer == self.me:
            self.give_place(event.sender, 1)
        elif self.plan and self.plan[0][0] == event.sender:
            self.carry_out()

    def give_place(self, sender: Address, number: int) -> None:
        """As sequencer: the next places go to these messages; told at the end of this round, sender by sender.

        Within a round the order is free: none of its messages can answer another one, which has no place yet.
        """
        self.untold[sender] = self.untold.get(sender, 0) + number
        self.tell_later()

    def tell_later(self) -> None:
        if not self.telling:
            self.telling = True
            self.later(self.tell)

    def tell(self) -> None:
        """As sequencer: multicast tickets for all that came in this round. They are obeyed here, too, as they loop
        back: what a view change cuts off was then told to none."""
        self.telling = False
        safe = 0 if self.safe is None else self.safe.everywhere
        if self.view is None or self.sequencer != self.me or self.frozen or self.lost:
            return
        index_of = {member: index for index, member in enumerate(self.view.members)}
        runs = [(index_of[sender], number) for sender, number in self.untold.items()]
        self.untold = {}
        for start in range(0, max(1, len(runs)), RUNS):
            self.count("tickets_sent")
            self.send(Tickets(self.view_raw, safe, tuple(runs[start:start + RUNS])), None, flags=TICKET_FLAGS)

    @receives(Tickets)
    def on_order(self, header: Tickets, batch: Batch) -> None:
        if header.view != self.view_raw or self.view is None:
            return self.drop("old_tickets_dropped", batch, "it was told in another view", header)
        if batch.src != self.sequencer or batch.dest is not None or batch.flags & NO_RELIABILITY:
            return self.drop("tickets_refused", batch, "not a reliable multicast of the coordinator", header)
        members = self.view.members
        if any(not 0 < index < len(members) or not number for index, number in header.runs):
            return self.drop("implausible_dropped", batch, "a ticket for no member, or for no message", header)
        self.plan.extend((members[index], number) for index, number in header.runs)
        self.carry_out()
        if self.safe is not None:
            self.release(self.safe.up_to(min(header.safe, self.place)))
        return None

    # --- delivering -------------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Deliver what has a place, up to the first message that is not here yet."""
        plan = self.plan
        while plan and not self.lost:
            sender, number = plan[0]
            kept = self.unplaced[sender]
            there = min(number, kept.count)
            if there:
                self.deliver_kept(kept, there)
            if there < number:
                plan[0] = sender, number - there
                break
            plan.popleft()
        self.note_progress()

    def deliver_kept(self, kept: Unplaced, number: int) -> None:
        for batch in kept.take(number):
            if batch is None:
                self.place += 1                          # dropped here, delivered by others
            else:
                self.unplaced_bytes -= batch.nbytes
                self.deliver(batch)

    def deliver(self, batch: Batch) -> None:
        """Give a batch its place, and pass it up; in a safe order once all members have it."""
        place = self.place
        self.place = place + (len(batch.payloads) or 1)
        if self.safe is None:
            return self.pass_up(batch.placed(place))
        self.unplaced_bytes += batch.nbytes
        self.safe.keep(batch.placed(place))
        return self.report_later()

    def note_progress(self) -> None:
        """Some messages got their place: measure how long it took, and let waiting ones go on."""
        if self.measured is not None and self.unplaced[self.me].taken >= self.measured[0]:
            took_ns = self.now_ns - self.measured[1]
            self.waited_ns += (took_ns - self.waited_ns) // SMOOTHING if self.waited_ns else took_ns
            self.measured = None
        if self.busy and self.unplaced_bytes <= self.config.max_unplaced_bytes // 2:
            self.busy = False
            self.pass_down(AppBusy(False, WHY))
            queue, self.queue, self.queued_bytes = self.queue, deque(), 0
            for batch in queue:
                self.pass_down(batch)

    # --- the safe order ---------------------------------------------------------------------------------------------

    def report_later(self) -> None:
        if not self.reporting:
            self.reporting = True
            self.later(self.report)

    def report(self) -> None:
        """Tell the sequencer how far this member has the order, once for all that came in this round."""
        self.reporting = False
        if self.frozen or self.sequencer is None:
            return
        if self.sequencer == self.me:
            self.note_reached(self.me, self.place)
        else:
            self.count("reports_sent")
            self.send(Reached(self.view_raw, self.place), self.sequencer, flags=TO_COORDINATOR)

    @receives(Reached)
    def on_reached(self, header: Reached, batch: Batch) -> None:
        if header.view != self.view_raw or batch.src not in self.unplaced or self.sequencer != self.me:
            return self.drop("reports_dropped", batch, "of another view, or not for this member", header)
        if self.safe is None:
            self.warn(f"{batch.src} waits for a safe order (TOTAL order=safe), but this member, the coordinator, has "
                      "another one: all members must have the same")
            return self.drop("reports_dropped", batch, "this member has order=agreed", header)
        if header.place > self.place:
            return self.drop("implausible_dropped", batch, "no such place was given yet", header)
        return self.note_reached(batch.src, header.place)

    def note_reached(self, member: Address, place: int) -> None:
        if self.safe is not None and self.safe.reached_by(member, place):
            self.tell_later()

    def release(self, batches: list[Batch]) -> None:
        """Deliver messages that were kept back."""
        for batch in batches:
            self.unplaced_bytes -= batch.nbytes
            self.pass_up(batch)
        self.note_progress()

    # --- views ------------------------------------------------------------------------------------------------------

    @on(Frozen)
    def on_frozen(self, event: Frozen) -> None:
        """A view change began; it ends with a view. Until then no ticket could be multicast in this view."""
        self.frozen = True

    @on(OutputInOrder)
    def on_messages_lost(self, event: OutputInOrder) -> None:
        """NAKACK goes on without some numbers of a member. How many messages these were, tickets among them, cannot be
        known, so nothing has a place any more until a new view begins."""
        lost = event.output
        if not isinstance(lost, MessagesLost) or lost.site or self.lost or self.sequencer is None:
            return
        self.lost = True
        self.count("order_lost")
        if self.sequencer == self.me:
            self.raise_view()
        else:
            self.send(NewViewWanted(self.view_raw), self.sequencer, flags=TO_COORDINATOR)

    @receives(NewViewWanted)
    def on_new_view_wanted(self, header: NewViewWanted, batch: Batch) -> None:
        if header.view != self.view_raw or batch.src not in self.unplaced or self.sequencer != self.me:
            return self.drop("reports_dropped", batch, "of another view, or not for this member", header)
        return self.raise_view()

    def raise_view(self) -> None:
        """As sequencer: begin a view with the same members."""
        if self.view is not None and not self.frozen:
            self.count("views_raised")
            self.pass_down(RaiseView(self.view.id.counter))

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Place the rest of the view that ends, then begin the next one."""
        self.place_rest(event.view)
        self.view, self.view_raw = event.view, event.view.id.raw
        self.sequencer = event.view.coordinator
        self.frozen = self.lost = False
        self.place = 1
        self.unplaced = {member: Unplaced() for member in event.view.members}
        self.plan.clear()
        self.untold = {}
        self.measured = None
        if self.safe is not None:
            self.safe.begin(event.view.members)

    def place_rest(self, following: View) -> None:
        """Deliver what has no place, those of members that go on first; the same at all that go on to `following`."""
        if self.view is None:
            return
        members = self.view.members
        going, gone = ([member for member in members if (member in following) is goes] for goes in (True, False))
        number = sum(kept.count for kept in self.unplaced.values())
        kept_back = [] if self.safe is None else self.safe.up_to(self.place)
        number += sum(batch.count for batch in kept_back)
        if not number:
            return
        self.count("placed_at_view_changes", number)
        self.pass_up(OutputInOrder(OrderUncertain(number)))
        self.release(kept_back)
        self.lost = False
        for member in (*going, *gone):
            kept = self.unplaced[member]
            self.deliver_kept(kept, kept.count)
        if self.safe is not None:
            self.release(self.safe.up_to(self.place))
        self.note_progress()
