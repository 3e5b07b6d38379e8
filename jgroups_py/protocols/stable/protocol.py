"""STABLE: determines which multicasts all members have delivered, so that NAKACK no longer keeps them.

Members multicast their digest (per member the next number wanted) on a timer and after `max_bytes` of traffic. The
minimum per sender over the last digests of all members is stable. Digests only grow, so an old one makes the result
lower than it could be, but never wrong. A digest counts only in the view that it names. One that is ahead of this
member's own is also reported to NAKACK (MessagesKnown): it shows messages that exist and are missing here, such as a
lost last message whose sender has crashed.

Place: above NAKACK. Source: JGroups STABLE. Deviations: no coordinator, every member multicasts its vote; votes are
kept, not cleared after each decision, so that a lost vote costs one round at most.

In a group of n a decision takes the minimum of n digests of n numbers, and each vote may cause one. So digests are kept
as rows of numbers in the order of the view, whose minimum by columns is one call.
"""
from __future__ import annotations

from operator import gt, lt
from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.digest import Digest
from jgroups_py.model.events import MessagesKnown, MessagesStable, ViewChange
from jgroups_py.model.ports import DigestSource
from jgroups_py.model.units import duration, size
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives, timer

Row = tuple[int, ...]
"""A digest without its keys: for each member of the view, in its order, the next number wanted from it."""
VIEW_ID_BYTES = 24
COORDINATOR = "every member multicasts its vote; no member collects votes"


@attrs.frozen
class StableConfig:
    """When a member multicasts its digest."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("send_stable_msgs_to_coord_only", "stability_delay"), COORDINATOR),
        **dict.fromkeys(("cap", "max_suspend_time"), "max_bytes is used as it is, whatever the size of the group"),
    }

    gossip_ns: int = duration(
        "50s", name="desired_avg_gossip", doc="Mean time between two digests of one member; 0: none. Lower frees "
        "memory sooner in quiet times, higher sends less.")
    max_bytes: int = size(
        "4M", name="max_bytes", doc="Multicast bytes received after which a member multicasts its digest at once; 0: "
        "never. Under load each member keeps two to six times as much.")


@wire.header(proto=10, kind=1)
class StabilityVote(Header):
    """A vote: in this view the source has delivered every message below `digest[member]`, of each member.

    The digest names the members in the order of the view.
    """

    view: bytes = wire.field(wire.fixed_bytes(VIEW_ID_BYTES))
    digest: Digest = wire.field(wire.DIGEST)


class Stable(Protocol):
    """See the module."""

    Config = StableConfig
    config: StableConfig
    needs = {"window": DigestSource}
    window: DigestSource
    COUNTERS = declare(
        counter("votes_sent", "Votes multicast to the group."),
        counter("votes_received", "Votes of other members that counted."),
        counter("decisions", "How often further messages became stable, and were reported to NAKACK."),
        drop("votes_outside_view", "Votes cast in another view, or by a process outside the view."),
        drop("votes_between_views", "Votes that came while the view was changing."),
        drop("votes_malformed", "Votes that do not name the members of the view in its order."),
        drop("votes_overtaken", "Votes older than one of the same member that arrived before."),
        drop("votes_implausible", "Votes that claim the delivery of messages which no member can have sent yet."),
    )

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.view = b""                                    # ViewId.raw
        self.votes: dict[Address, Row] = {}                # every other member -> its last vote in this view, or zeros
        self.stable: Row = ()                              # the last decision, reported to NAKACK
        self.unvoted_bytes = 0                             # multicast bytes received since the last vote

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        self.pass_up(batch)
        self.unvoted_bytes += batch.nbytes
        if self.unvoted_bytes >= self.config.max_bytes > 0:
            self.vote()

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members, self.view = event.view.members, event.view.id.raw
        # NAKACK numbers from 1 again in each view, so votes of the last one mean nothing here.
        self.stable = (0,) * len(self.members)
        self.votes = {member: self.stable for member in self.members if member != self.me}
        self.unvoted_bytes = 0
        self.set_gossip_timer()

    @timer("gossip")
    def gossip(self) -> None:
        self.vote()
        self.set_gossip_timer()

    def set_gossip_timer(self) -> None:
        """A random time up to twice the mean: members that joined together must not vote together."""
        if self.config.gossip_ns:
            self.set_timer("gossip", self.rng.randrange(2 * self.config.gossip_ns))

    def digest_is_current(self) -> bool:
        """Whether NAKACK's digest belongs to this layer's view: a new view is installed here before it is there."""
        return self.view != b"" and self.window.digest_view() == self.view

    def vote(self) -> None:
        """Multicast this member's digest: everything below it was passed up through this layer (law 2)."""
        if not self.digest_is_current():
            return
        self.unvoted_bytes = 0
        self.count("votes_sent")
        digest = self.window.digest()
        self.send(StabilityVote(self.view, digest), None)
        self.decide(tuple(digest.values()))

    @receives(StabilityVote)
    def on_vote(self, vote: StabilityVote, batch: Batch) -> None:
        """A member's digest. A false one could make NAKACK drop what a member needs, so it is checked in full."""
        if vote.view != self.view or batch.src not in self.votes:
            return self.drop("votes_outside_view", batch, "another view, or not from a member", vote)
        if not self.digest_is_current():
            return self.drop("votes_between_views", batch, "the view is changing", vote)
        if tuple(vote.digest) != self.members:
            return self.drop("votes_malformed", batch, "it does not name the members of the view", vote)
        row = tuple(vote.digest.values())
        if any(map(lt, row, self.votes[batch.src])):
            return self.drop("votes_overtaken", batch, "a later vote of this member arrived before", vote)
        own = tuple(self.window.digest().values())
        ahead = any(map(gt, row, own))
        if ahead and not all(map(plausible, row, own)):
            return self.drop("votes_implausible", batch, "it is too far ahead of what was sent", vote)
        self.count("votes_received")
        self.votes[batch.src] = row
        if ahead:
            self.pass_down(MessagesKnown(vote.digest))
        return self.decide(own)

    def decide(self, own: Row) -> None:
        """Report to NAKACK what has become stable since the last decision. own: this member's digest."""
        low = tuple(map(min, own, *self.votes.values())) if self.votes else own
        newly = {member: stop for member, stop, old in zip(self.members, low, self.stable, strict=True) if stop > old}
        if newly:
            self.stable = low
            self.count("decisions")
            self.pass_down(MessagesStable(newly))
