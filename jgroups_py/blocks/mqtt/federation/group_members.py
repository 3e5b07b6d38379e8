"""GroupMembers: which node serves a shared subscription, and where a message goes that finds no member there. Pure.

The node where a message is published chooses, for another site's message the coordinator. A node that is chosen and
whose last member has just ended gives the message to another node, or back. design/mqtt.md has the reasons.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.ports import GroupChoice
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import remember
from jgroups_py.blocks.mqtt.federation.handover import Handovers
from jgroups_py.blocks.mqtt.federation.held_acks import HeldAcks
from jgroups_py.blocks.mqtt.federation.interest import GroupTurns, InterestOfPeers, OwnInterest, group_count
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer
from jgroups_py.blocks.mqtt.federation.sites import Sites
from jgroups_py.blocks.mqtt.federation.stream import PeerEvent, message_event
from jgroups_py.blocks.mqtt.federation.wire import ForwardedMessage, Target
from jgroups_py.model.counters import Counters

MAX_TURNS = MAX_RETURNED = 10_000


class GroupMembersHost(Protocol):
    """What is asked of the core."""

    counters: Counters
    incarnation: int
    peers: dict[str, FederationPeer]
    interest_of_peers: InterestOfPeers
    own: OwnInterest
    sites: Sites
    handovers: Handovers
    held_acks: HeldAcks

    @property
    def broker(self) -> Broker:
        """It delivers to members here."""

    def send_message(self, peer: FederationPeer, event: PeerEvent, token: int) -> None:
        """A message for a peer, behind all that is queued for it."""


class GroupMembers:
    """See the module. turns: of the shared subscriptions with members at several nodes, the latest used."""

    def __init__(self, host: GroupMembersHost) -> None:
        self.turns: dict[Target, GroupTurns] = {}
        self._host = host
        # (origin, number, its group) of messages that came back -> how often each peer gave it back.
        self._returned: dict[tuple[int, int, Target], dict[str, int]] = {}
        self._sent_late: dict[tuple[int, int, Target], None] = {}        # those that went to where a member has moved

    def here(self, target: Target) -> GroupChoice | None:
        """The members at this node."""
        own = self._host.own.filters.get(f"$share/{target[0]}/{target[1]}")
        return None if own is None else GroupChoice(*target, own.members, own.online)

    def choose(self, target: Target, here: GroupChoice | None, but: Collection[str] = ()) -> str:
        """The node that serves a shared subscription now: "" for this one, or for none. but: peers without a member.

        By online members; if there are none, by members; if these are at nodes that are away alone, by those.
        """
        found = self._host.interest_of_peers.tree.members(f"$share/{target[0]}/{target[1]}")
        counts = [(name, count) for name, count in found.items() if name not in but]
        up = [(name, count) for name, count in counts if self._host.peers[name].is_up]
        if here is not None:
            up.append(("", group_count(here.members, here.online)))
        weights = [(name, count.online) for name, count in up if count.online]
        if not weights:
            weights = [(name, count.members) for name, count in up]
        if not weights:
            weights = [(name, count.members) for name, count in counts]
        if len(weights) < 2:
            return weights[0][0] if weights else ""
        turns = self.turns.get(target)
        if turns is None:
            if len(self.turns) >= MAX_TURNS:
                del self.turns[next(iter(self.turns))]
            turns = self.turns[target] = GroupTurns()
        return turns.choose(weights)

    def give_on(
        self, item: ForwardedMessage, target: Target, here: GroupChoice | None, now_ns: int, but: Collection[str] = (),
    ) -> bool:
        """Give a message to another node, for this shared subscription alone. Returns whether one was chosen."""
        winner = self.choose(target, here, but)
        if not winner:
            return False
        self._give_to(winner, item, target, now_ns, is_awaited=not self._chooses(item.publication, target))
        return True

    def give_back(self, publication: Publication, target: Target, now_ns: int) -> bool:
        """Give what a session had that has ended here back to the node where it was published, which may have a member
        that is not known here yet (seed 983086). Returns whether that can be reached."""
        name = self._published_at(publication)
        if name:
            self._give_to(name, ForwardedMessage(publication), target, now_ns)
        return bool(name)

    def _give_to(
        self, name: str, item: ForwardedMessage, target: Target, now_ns: int, is_awaited: bool = False,
    ) -> None:
        """Give a message to another node, for one shared subscription alone. is_awaited: what has just come of a peer
        is acknowledged to it when that node has it, unless it is silent. Not of what goes back to the node that chooses
        and may come once more, behind itself: that would wait for ever."""
        self._host.counters.add("rerouted")
        moved = ForwardedMessage(item.publication, (target,), shared_only=True, is_moved=True)
        token = self._host.held_acks.onward_token() if is_awaited and item.publication.qos else 0
        self._host.send_message(self._host.peers[name], message_event(moved, now_ns), token)

    def reroute(self, item: ForwardedMessage, now_ns: int) -> ForwardedMessage | None:
        """Serve the shared subscriptions of a message that was not sent elsewhere, where that is possible. Returns what
        is left of it, None if nothing is."""
        left = []
        for target in item.targets:
            here = self.here(target)
            winner = self._choose_up(target, here)
            if winner is None:
                left.append(target)
            elif winner:
                self._give_to(winner, item, target, now_ns)
            else:
                self._host.counters.add("rerouted")
                self._host.broker.deliver(item.publication, (target,), now_ns, shared_only=True)
        if len(left) == len(item.targets):
            return item
        if not left and item.shared_only:
            return None
        return ForwardedMessage(item.publication, tuple(left), item.shared_only, item.is_moved)

    def reroute_event(self, event: PeerEvent, now_ns: int) -> PeerEvent | None:
        """The same of an event of a stream, whose token what is left of it has."""
        if event.item is None or not event.item.targets:
            return event
        left = self.reroute(event.item, now_ns)
        if left is None:
            return None
        if left is event.item:
            return event
        rest = message_event(left, now_ns)
        rest.token = event.token
        return rest

    def is_served(self, target: Target) -> bool:
        """Whether there is a member here, or at a node that is up."""
        members = self._host.interest_of_peers.tree.members(f"$share/{target[0]}/{target[1]}")
        return self.here(target) is not None or any(self._host.peers[name].is_up for name in members)

    def _choose_up(self, target: Target, here: GroupChoice | None) -> str | None:
        """As `choose`, of nodes that are up; None: there is none."""
        winner = self.choose(target, here)
        if not winner:
            return "" if here is not None else None
        return winner if self._host.peers[winner].is_up else None

    # --- messages of peers --------------------------------------------------------------------------------------------

    def served_here(self, peer: FederationPeer, item: ForwardedMessage, now_ns: int) -> list[Target]:
        """The shared subscriptions of a peer's message that have a member here. It goes to another node, once, for
        those whose last member here has ended; or to the member, if that has moved and no other one is known yet; or
        back to the node that chose this one, which then takes the others first."""
        served = []
        for target in item.targets:
            if self.here(target) is not None:
                served.append(target)
                continue
            is_back = item.is_moved and self._chooses(item.publication, target)
            if is_back and self._give_on_again(peer.name, item, target, now_ns):
                continue
            if not item.is_moved and self.give_on(item, target, None, now_ns):
                continue
            if self._send_late(peer.name, item.publication, target, now_ns):
                continue
            if is_back and self._host.sites.give_on(item.publication, target):
                continue
            chooser = "" if is_back else self._chooser(peer, item)
            if chooser:
                self._give_to(chooser, item, target, now_ns)
            else:
                self._host.counters.add("dropped_no_member")
        return served

    def _send_late(self, name: str, publication: Publication, target: Target, now_ns: int) -> bool:
        """Send a message to where a member has moved, once: it comes back if that session has ended, and would go there
        again for ever (mqtt-expiry 117). Returns whether there is such a member."""
        key = publication.origin, publication.number, target
        return key not in self._sent_late and self._host.handovers.sent_late_to_member(
            name, publication, target, now_ns) and remember(self._sent_late, key)

    def _chooses(self, publication: Publication, target: Target) -> bool:
        """Whether this node chooses the one that serves a shared subscription: it was published here, or it is of
        another site and this node has served it."""
        return publication.origin == self._host.incarnation or self._host.sites.has_served(publication, target)

    def _chooser(self, peer: FederationPeer, item: ForwardedMessage) -> str:
        """The peer that does so; "" if it is not known, or away."""
        return self._published_at(item.publication) if item.is_moved else peer.name

    def _published_at(self, publication: Publication) -> str:
        """The peer where a message was published; "" if it is not known, or away."""
        for name, known in self._host.interest_of_peers.peers.items():
            if known.incarnation == publication.origin and self._host.peers[name].is_up:
                return name
        return ""

    def _give_on_again(self, name: str, item: ForwardedMessage, target: Target, now_ns: int) -> bool:
        """Give a message that came back to another node. One that gave it back has no member, whatever is known of its
        filters (seeds 46236, 48664), or had none: it is asked a second time if there is no other, and no third time.
        Not with a message of another site: it would not know who chooses. Returns whether there is one."""
        key = item.publication.origin, item.publication.number, target
        found = self._returned.get(key)
        if found is None:
            if len(self._returned) >= MAX_RETURNED:
                del self._returned[next(iter(self._returned))]
            found = self._returned[key] = {}
        found[name] = found.get(name, 0) + 1
        if self.give_on(item, target, None, now_ns, found):
            return True
        twice = [each for each, times in found.items() if times > 1]
        return item.publication.origin == self._host.incarnation and self.give_on(item, target, None, now_ns, twice)
