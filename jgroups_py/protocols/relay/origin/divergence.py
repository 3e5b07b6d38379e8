"""Messages of this site that this member never receives, because a partition lay between it and their origins.

Problem: within a view all members deliver the same. But the two halves of a split site deliver different multicasts,
and a member that was paused lacks what the others delivered before they excluded it. A merge cannot repair that, since
a message is delivered in the view in which it was sent (S4); so the loss has to be reported to the application.

Idea: RELAY numbers multicasts per origin across views. So what is missing is a range below the highest number that any
member had when the merged view began. The relay collects these numbers from HAVE and multicasts them (ENDS); the next
multicast of the origin shows the same. Each range is reported once, as `messages_lost` with this site's own name, in
order with the origin's messages.

A member that was alone since it started counts as a joiner: what the others sent before reaches it as state. GMS counts
what was missed too (MergeView.missed, protocols/gms/sent_counts.py), as sums without numbers, for joiners as well.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import MAX_JUMP, plausible
from jgroups_py.model.events import OutputEmitted, OutputInOrder, ViewChange
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.relay.announcements import (
    NumbersSettledAfterMerge,
    OriginForgotten,
    OriginsRestored,
    PrefixSkipped,
    SyncCompleted,
)
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Ends, Numbers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import DivergencePort, NumberingPort, SyncPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on, receives


class Divergence(RelayPart, DivergencePort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.had_others = False                  # this member was in a view with others before the last merge
        self.first_received: Numbers = {}        # origin without an entry at the merge -> its first number since
        self.settled = True                      # ENDS has arrived since the last merge
        self.nakack_losses: dict[Address, list[OutputInOrder]] = {}     # origin -> its losses, kept back
        self.unheard: Numbers = {}               # origin -> the number that the journal or SYNC named, if no more came

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A merge is open until its ENDS arrives, in a later view if the relay crashes before it."""
        previous = self.group.previous
        if self.settled:
            # Whether this member counts as a joiner in the merge is decided by its views before the merge.
            self.had_others = self.had_others or (previous is not None and len(previous) > 1)
            self.first_received = {}
        if isinstance(self.group.view, MergeView):
            self.settled = False
        self.report_departed()

    def numbered(self, origin: Address, first: int) -> bool:
        """A multicast of this site is not the next of its origin. What lies between will not come: NAKACK is FIFO.

        False: the number is implausible, and the multicast is to be dropped.
        """
        wanted = self.numbering.numbers.get(origin)
        if not plausible(first, wanted or 0, anew=wanted is None):
            return False
        if wanted is None or (self.unheard.get(origin) == wanted and origin not in self.first_received):
            # Whether earlier ones were multicast while this member was in another view is decided when ENDS arrives.
            self.first_received[origin] = first
        elif first > wanted:
            self.missed(origin, wanted, first)
        self.report_postponed(origin)
        return True

    @on_announcement(SyncCompleted)
    def send_ends(self, event: SyncCompleted) -> None:
        """As relay after a merge, when all members have answered SYNC: the highest number known of each origin."""
        if not self.settled:
            numbers = dict(self.synchronizer.known_ends)
            for have in event.haves.values():
                for origin, number in have.vector.get(self.config.site, {}).items():
                    numbers[origin] = max(number, numbers.get(origin, 1))
            self.send(Ends(self.group.view.id, numbers), dest=None, flags=RELIABLE)

    @receives(Ends)
    def ends(self, header: Ends, batch: Batch) -> None:
        """From the relay: what this member lacks below these numbers it never gets (relay rule 17)."""
        if batch.src != self.group.view.coordinator or header.view_id != self.group.view.id:
            return self.drop("ends_of_no_coordinator", batch, "not of the coordinator of this view", header)
        self.settled = True
        for origin, number in header.numbers.items():
            if origin == self.me:
                continue
            wanted = self.numbering.numbers.get(origin)
            if origin in self.first_received:
                self.missed_from_start(origin, min(number, self.first_received[origin]))
            elif wanted is None or self.unheard.get(origin) == wanted:
                self.missed_from_start(origin, number)
                if number - (wanted or 0) <= MAX_JUMP:
                    self.numbering.expect(origin, max(number, wanted or 1))
            elif number > wanted and self.missed(origin, wanted, number):
                self.numbering.expect(origin, number)
        self.report_departed()
        return self.announce(NumbersSettledAfterMerge())

    def missed_from_start(self, origin: Address, number: int) -> None:
        """An origin of another half, with no entry here: all of its messages are missed, or all from the number that
        the journal or SYNC named, unless this member is a joiner.

        Only while the origin is in the view: one that is gone may have ended before this member began.
        """
        first = self.unheard.pop(origin, 1)
        if self.had_others and origin in self.group.view and number > first:
            self.missed(origin, first, number)

    def missed(self, origin: Address, first: int, stop: int) -> bool:
        """Report `first` to `stop` - 1 as lost, to application and receipts. False: the range is implausible."""
        if stop - first > MAX_JUMP:
            self.drop("implausible_dropped", None, f"{origin} cannot have sent {first} to {stop} meanwhile")
            return False
        self.drop("missed_in_site", None, f"a partition kept {first}..{stop - 1} of {origin} from this member",
                  number=stop - first)
        self.announce(PrefixSkipped(origin, first, stop))
        self.notify(MessagesLost(self.config.site, origin, first, stop))
        self.nakack_losses.pop(origin, None)     # the same loss, reported now in the numbers that applications know
        return True

    @on_announcement(OriginsRestored)
    def restored(self, event: OriginsRestored) -> None:
        """An earlier life of this member held messages of these, which may go on. It does not say what this one misses
        of them: it joins anew, like any other."""
        for origin in event.origins:
            self.named(origin, self.numbering.numbers[origin])

    def named(self, origin: Address, number: int) -> None:
        self.unheard[origin] = number

    def is_unheard(self, origin: Address) -> bool:
        return origin in self.unheard

    @on_announcement(OriginForgotten)
    def forget_origin(self, event: OriginForgotten) -> None:
        self.unheard.pop(event.origin, None)

    # --- what NAKACK lost ---------------------------------------------------------------------------------------------

    @on(OutputInOrder)
    def nakack_lost(self, event: OutputInOrder) -> object:
        """NAKACK reports a loss of this site, in its own numbers; above RELAY, RELAY's numbers are used."""
        if not isinstance(event.output, MessagesLost):
            return None
        self.postpone(event, event.output.origin)
        return STOP

    def postpone(self, loss: OutputInOrder, origin: Address) -> None:
        """Keep a loss back until the origin's next multicast shows whether RELAY had numbered what was lost.

        If so, the gap in RELAY's numbers is reported, once. If not, the loss goes up as NAKACK reported it. ARCHIVE
        gets it at once in any case: its records are of what came up, in order.
        """
        self.nakack_losses.setdefault(origin, []).append(loss)
        self.pass_up(OutputEmitted(loss.output))

    def report_postponed(self, origin: Address) -> None:
        """RELAY had numbered none of them, or that cannot be found out any more: pass the losses up as NAKACK reported
        them."""
        for loss in self.nakack_losses.pop(origin, ()):
            self.pass_up(loss)

    def report_departed(self) -> None:
        """Pass up the losses of origins that left: no next multicast will show a gap. Not before ENDS, which may show
        one."""
        if self.settled:
            for origin in [origin for origin in self.nakack_losses if origin not in self.group.view]:
                self.report_postponed(origin)
