"""What members of this site multicast that this member never got, because a partition lay between them.

Problem: within a view all members deliver the same, but members of two halves of a split site deliver what their half
multicasts, and a member that was frozen lacks what the others took before they excluded it. After the merge nobody can
repair that (a message is delivered in one view only), and applications have to know. Idea: RELAY numbers multicasts per
origin across views, so what is missing is a range below the number that any member knew when the merged view began.

The relay learns these numbers from HAVE and multicasts them (ENDS); an origin's own next multicast shows the same. Each
range is told once, as `messages_lost` with this site's own name, in the order of the origin's messages. A member that
was alone since it started is a newcomer like one that joined: what the others sent before is a matter of state. GMS
counts the same by sums (MergeView.missed, protocols/gms/totals.py) without numbers, and for newcomers too.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.disk import Told
from jgroups_py.events import Tell
from jgroups_py.jumps import MAX_JUMP, plausible
from jgroups_py.outputs import MessagesLost
from jgroups_py.protocols.relay.headers import Ends, Numbers
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.view import MergeView

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay


class Divergence:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.had_company = False                 # we were in a view with others before the last merge
        self.first_heard: Numbers = {}           # origins without an entry before it -> the first number heard since
        self.settled = True                      # ENDS came since the last merge
        self.forgotten: dict[Address, list[Tell]] = {}       # what NAKACK lost: origin -> its news, not told yet
        self.from_disk: dict[Address, None] = {} # gone origins whose numbers a journal told us: none of our concern

    def view_changed(self, previous_members: int) -> None:
        """A new view after one of so many members (0: none). A merge counts until ENDS came, in whatever view."""
        if self.settled:
            self.had_company = self.had_company or previous_members > 1
            self.first_heard = {}
        if isinstance(self.relay.view, MergeView):
            self.settled = False
        self.tell_of_the_gone()

    def joined(self, numbers: Numbers) -> None:
        """As a newcomer by an ordinary join: begin where the group stood when this view began."""
        for origin, number in numbers.items():
            self.relay.numbers.setdefault(origin, number)

    def numbered(self, origin: Address, first: int) -> bool:
        """A multicast of our own site is next; what lies between it and the previous one will not come.

        False: nobody jumps so far, and the multicast is none.
        """
        wanted = self.relay.numbers.get(origin)
        if not plausible(first, wanted or 0, anew=wanted is None):
            return False
        if wanted is None:
            self.first_heard[origin] = first
        elif first > wanted:
            self.missed(origin, wanted, first)
        self.tell_forgotten(origin)
        return True

    def announce(self) -> None:
        """As relay, when all members have answered SYNC: how far any of us knew each origin as this view began."""
        relay = self.relay
        if not self.settled:
            numbers = dict(relay.receiving.known_ends)
            for have in relay.receiving.haves.values():
                for origin, number in have.vector.get(relay.config.site, {}).items():
                    numbers[origin] = max(number, numbers.get(origin, 1))
            relay.send(Ends(relay.view.id, numbers), dest=None, flags=RELIABLE)

    def ends(self, header: Ends, batch: Batch) -> None:
        """The relay's word: what we have not got of that we never get."""
        relay = self.relay
        if batch.src != relay.view.coordinator or header.view_id != relay.view.id:
            return relay.count("ends_of_no_coordinator")
        self.settled = True
        for origin, number in header.numbers.items():
            if origin == relay.me or origin in self.from_disk:
                continue
            wanted = relay.numbers.get(origin)
            if origin in self.first_heard:
                self.unmet(origin, min(number, self.first_heard[origin]))
            elif wanted is None:
                self.unmet(origin, number)
                if number <= MAX_JUMP:
                    relay.numbers[origin] = number
            elif number > wanted and self.missed(origin, wanted, number):
                relay.numbers[origin] = number
        self.tell_of_the_gone()
        return relay.receipts.polls.settled_after_merge()

    def unmet(self, origin: Address, number: int) -> None:
        """An origin of another half of which we had nothing before: all of it, unless we are the newcomer.

        Only while it is in the view: of one that is gone nobody can say whether it was there after us.
        """
        if self.had_company and origin in self.relay.view and number > 1:
            self.missed(origin, 1, number)

    def missed(self, origin: Address, first: int, stop: int) -> bool:
        """Tell the application, and whoever waits for a receipt. False: nobody jumps so far."""
        relay = self.relay
        if stop - first > MAX_JUMP:
            relay.count("jumps_refused")
            return False
        relay.count("missed_in_site", stop - first)
        relay.receipts.polls.skipped(origin, first, stop)
        relay.tell(MessagesLost(relay.config.site, origin, first, stop))
        self.forgotten.pop(origin, None)                 # told now, by the numbers that applications know
        return True

    # --- what NAKACK lost ---------------------------------------------------------------------------------------------

    def forget(self, news: Tell, origin: Address) -> None:
        """Nobody keeps some numbers of NAKACK's any more. Whether they were multicasts that RELAY numbers shows the
        origin's next one; then they are told by these numbers, once. ARCHIVE hears at once, and of the rest too."""
        self.forgotten.setdefault(origin, []).append(news)
        self.relay.pass_up(Told(news.output))

    def tell_forgotten(self, origin: Address) -> None:
        """None of them was ours to number, or nobody can say any more: told as NAKACK did."""
        for news in self.forgotten.pop(origin, ()):
            self.relay.pass_up(news)

    def tell_of_the_gone(self) -> None:
        """Of an origin that left nothing follows; but after a merge ENDS may still tell how far it had come."""
        if self.settled:
            for origin in [origin for origin in self.forgotten if origin not in self.relay.view]:
                self.tell_forgotten(origin)
