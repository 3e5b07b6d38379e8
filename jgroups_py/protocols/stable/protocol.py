"""STABLE: finds out which multicasts all members have delivered, so that NAKACK may forget them.

Members multicast their digest (per member the next number wanted) on a timer and after `max_bytes` of traffic. The
minimum per sender over the last digests of all members is stable: digests only grow, so an old one makes the answer
more careful and never wrong. A digest counts only in the view it names. A digest ahead of ours also tells NAKACK of
messages that exist and that we lack, which finds a lost last message when the sender cannot.
Place: above NAKACK. Source: JGroups STABLE. Deviations: no coordinator, all vote to all; votes are kept, not cleared
after each decision, so that a lost vote costs one round at most.

In a group of n a decision looks at n digests of n numbers, and each vote may bring one: so digests are kept as rows of
numbers in the order of the view, whose minimum by columns is one call.
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
COORDINATOR = "all members vote to all; no member collects votes"


@attrs.frozen
class StableConfig:
    """See the fields."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("send_stable_msgs_to_coord_only", "stability_delay"), COORDINATOR),
        **dict.fromkeys(("cap", "max_suspend_time"), "max_bytes is taken as it stands"),
    }

    gossip_ns: int = duration(
        "50s", name="desired_avg_gossip", doc="Mean time between two digests of one member; 0: none. Lower forgets "
        "sooner in quiet times, higher sends less.")
    max_bytes: int = size(
        "4M", name="max_bytes", doc="Multicast bytes received that make a member multicast its digest at once; 0: "
        "never. Two to six times as much is kept by each member under load.")


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
        counter("votes_received", "Votes of others that counted."),
        counter("decisions", "How often NAKACK was told of messages that every member has delivered."),
        drop("votes_outside_view", "Votes cast in another view, or by a process outside the view."),
        drop("votes_between_views", "Votes that came while the view was changing."),
        drop("votes_malformed", "Votes that do not name the members of the view in its order."),
        drop("votes_overtaken", "Votes older than one of the same member that came before."),
        drop("votes_implausible", "Votes that claim the delivery of messages which no member can have sent yet."),
    )

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.view = b""                                    # ViewId.raw
        self.votes: dict[Address, Row] = {}                # every other member -> its last vote in this view, or zeros
        self.stable: Row = ()                              # what was decided and passed to NAKACK
        self.unvoted_bytes = 0

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        self.pass_up(batch)
        self.unvoted_bytes += batch.nbytes
        if self.unvoted_bytes >= self.config.max_bytes > 0:
            self.vote()

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members, self.view = event.view.members, event.view.id.raw
        self.stable = (0,) * len(self.members)
        self.votes = {member: self.stable for member in self.members if member != self.me}
        self.unvoted_bytes = 0
        self.plan()

    @timer("gossip")
    def gossip(self) -> None:
        self.vote()
        self.plan()

    def plan(self) -> None:
        """Spread over twice the mean: members that joined together must not vote together."""
        if self.config.gossip_ns:
            self.set_timer("gossip", self.rng.randrange(2 * self.config.gossip_ns))

    def votes_count(self) -> bool:
        """Whether the digest below belongs to our view; a new view reaches us before it reaches NAKACK."""
        return self.view != b"" and self.window.digest_view() == self.view

    def vote(self) -> None:
        """Multicast our digest: everything below it was passed up here, through this layer (law 2)."""
        if not self.votes_count():
            return
        self.unvoted_bytes = 0
        self.count("votes_sent")
        digest = self.window.digest()
        self.send(StabilityVote(self.view, digest), None)
        self.decide(tuple(digest.values()))

    @receives(StabilityVote)
    def on_vote(self, vote: StabilityVote, batch: Batch) -> None:
        """A member's digest. A false one could make NAKACK forget what a member needs, so it is checked in full."""
        if vote.view != self.view or batch.src not in self.votes:
            return self.drop("votes_outside_view", batch, "its view or its source is not of our view", vote)
        if not self.votes_count():
            return self.drop("votes_between_views", batch, "the view is changing", vote)
        if tuple(vote.digest) != self.members:
            return self.drop("votes_malformed", batch, "it does not name the members of the view", vote)
        theirs = tuple(vote.digest.values())
        if any(map(lt, theirs, self.votes[batch.src])):
            return self.drop("votes_overtaken", batch, "a later vote of this member is known", vote)
        mine = tuple(self.window.digest().values())
        ahead = any(map(gt, theirs, mine))
        if ahead and not all(map(plausible, theirs, mine)):
            return self.drop("votes_implausible", batch, "it is too far ahead of what was sent", vote)
        self.count("votes_received")
        self.votes[batch.src] = theirs
        if ahead:
            self.pass_down(MessagesKnown(vote.digest))
        return self.decide(mine)

    def decide(self, mine: Row) -> None:
        """Pass to NAKACK what every member has delivered and what was not decided before."""
        low = tuple(map(min, mine, *self.votes.values())) if self.votes else mine
        news = {member: stop for member, stop, old in zip(self.members, low, self.stable, strict=True) if stop > old}
        if news:
            self.stable = low
            self.count("decisions")
            self.pass_down(MessagesStable(news))
