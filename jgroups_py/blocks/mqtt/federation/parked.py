"""ParkedMessages: what is kept for peers of which it is not known what they want. Pure.

A peer that comes is unknown until its filters have come, and each message is kept for it until then. One that is a new
process has lost its sessions; their subscribers may come back soon, so what the filters of its former life would have
got is parked, in order, until they are set again, or for `keep_peer_s`. What is for a shared subscription goes to a
member elsewhere as soon as there is one.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree
from jgroups_py.blocks.mqtt.federation.group_members import GroupMembers
from jgroups_py.blocks.mqtt.federation.interest import InterestOfPeers
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer
from jgroups_py.blocks.mqtt.federation.stream import PeerEvent, message_event
from jgroups_py.blocks.mqtt.federation.wire import ForwardedMessage, Target
from jgroups_py.model.counters import Counters


class ParkedMessagesHost(Protocol):
    """What is asked of the core."""

    counters: Counters
    options: FederationOptions
    peers: dict[str, FederationPeer]
    interest_of_peers: InterestOfPeers
    groups: GroupMembers

    def send_message(self, peer: FederationPeer, event: PeerEvent, token: int) -> None:
        """A message for a peer, behind all that is queued for it."""

    def retain(self, token: int) -> None:
        """An acknowledgement waits for one more."""

    def settle(self, token: int) -> None:
        """It waits for one less."""

    def not_awaited(self, peer: FederationPeer) -> None:
        """No acknowledgement waits for a message, as the peer is silent."""

    def new_session(self) -> int:
        """The number of a stream."""


class ParkedMessages:
    """See the module. unknown: name -> the peers that came, and whose tree has not come yet; remembered: the filters of
    former lives, with the names of the peers."""

    def __init__(self, host: ParkedMessagesHost) -> None:
        self.unknown: dict[str, FederationPeer] = {}
        self.remembered: SubscriptionTree[str, None] = SubscriptionTree(1_000)
        self._targets: dict[Target, None] = {}           # those of what is parked, and some of before
        self._host = host

    def published(self, publication: Publication, wanting: Collection[str], token: int, now_ns: int) -> None:
        """A message of this node, which goes to the peers `wanting` anyhow."""
        if len(self.remembered) and publication.qos:
            for name, _ in self.remembered.match(publication.topic).plain:
                if name not in wanting and name not in self.unknown:
                    self.park(self._host.peers[name], message_event(ForwardedMessage(publication), now_ns), is_new=True)
        for peer in self.unknown.values():
            self.ask_later(peer, message_event(ForwardedMessage(publication), now_ns), token)

    # --- a peer has come ----------------------------------------------------------------------------------------------

    def ask_later(self, peer: FederationPeer, event: PeerEvent, token: int) -> None:
        """Keep a message for a peer that has just come, in order, until its tree says whether the peer wants it."""
        if token and peer.is_awaited:
            event.token = token
            self._host.retain(token)
        elif token:
            self._host.not_awaited(peer)
        peer.undecided.append(event)
        peer.undecided_bytes += event.size
        while peer.undecided_bytes > self._host.options.queue_bytes:
            oldest = peer.undecided.popleft()
            peer.undecided_bytes -= oldest.size
            if oldest.item is None:
                peer.stream.accept(oldest)
                continue
            self._host.counters.add("dropped_queue_full")
            if oldest.token:
                self._host.settle(oldest.token)

    def decide(self, peer: FederationPeer) -> None:
        """Its tree has come, or it has gone before."""
        if self.unknown.pop(peer.name, None) is None:
            return
        events, peer.undecided, peer.undecided_bytes = peer.undecided, type(peer.undecided)(), 0
        fences = sum(event.item is None for event in events)
        for event in events:
            if event.item is None:
                fences -= 1
                peer.stream.accept(event)
                continue
            token, event.token = event.token, 0
            # In front of a fence it may be for a session that the peer has handed over since, with its filters.
            if fences or self._is_wanted(peer, event.item):
                self._host.send_message(peer, event, token)
            elif event.item.publication.qos and self._is_remembered(peer, event.item.publication.topic):
                self.park(peer, event, is_new=True)
            if token:
                self._host.settle(token)

    def _is_wanted(self, peer: FederationPeer, item: ForwardedMessage) -> bool:
        if not item.shared_only and self._host.interest_of_peers.wants(peer.name, item.publication.topic):
            return True
        return any(self._host.interest_of_peers.count(peer.name, *target) for target in item.targets)

    def _is_remembered(self, peer: FederationPeer, topic: str) -> bool:
        return bool(peer.remembered) and any(name == peer.name for name, _ in self.remembered.match(topic).plain)

    # --- a peer is a new process --------------------------------------------------------------------------------------

    def restarted(self, peer: FederationPeer, ended: list[str], now_ns: int) -> None:
        """Its sessions are gone. Their subscribers may come back soon: what they would have got is kept for them."""
        self._host.counters.add("peer_restarts")
        peer.restarted_ns = now_ns
        for filter in ended:
            peer.remembered[filter] = None
            self.remembered.subscribe(filter, peer.name, None)
        sent = {id(event) for event in peer.stream.under_way}
        events = peer.stream.take_all()
        peer.stream.begin_again(self._host.new_session())
        peer.is_welcomed, peer.resume_at = False, 0
        for event in events:
            item = event.item
            if item is None:
                if id(event) in sent:
                    peer.stream.give_up([event], "restarted")
                else:
                    peer.stream.accept_again(event)      # of a handover, or a copy: for the new process, see _came
                continue
            if item.targets:
                if id(event) in sent and item.publication.qos != 1:
                    # A member there may have had it, so no other one gets it.
                    self._host.counters.add("dropped_begun", len(item.targets))
                    item = None if item.shared_only else ForwardedMessage(item.publication)
                else:
                    item = self._host.groups.reroute(item, now_ns)
                if item is None:
                    peer.stream.give_up([event], "rerouted")
                    continue
                event = PeerEvent(message_event(item, now_ns).data, item, event.token)
            rest = self._send_wanted(peer, event, now_ns)
            if rest is not None:
                self.park(peer, rest, is_new=False)

    def _send_wanted(self, peer: FederationPeer, event: PeerEvent, now_ns: int) -> PeerEvent | None:
        """Put back into the stream what a new process wants of a message that was for the former one. Returns what it
        does not want, or not yet. What shared subscriptions are to get goes alone, if there is no plain one for it yet:
        a plain one may be set before the message is there, and what is parked for that comes first (seed 11112)."""
        item = event.item
        assert item is not None, "a message"
        wanted = tuple(target for target in item.targets if self._host.interest_of_peers.count(peer.name, *target))
        if (not item.shared_only and self._host.interest_of_peers.wants(peer.name, item.publication.topic)) or (
                item.shared_only and wanted):
            peer.stream.accept_again(event)
            return None
        if not wanted:
            return event
        sent = message_event(attrs.evolve(item, targets=wanted, shared_only=True), now_ns)
        sent.token, event.token = event.token, 0
        peer.stream.accept(sent)
        return message_event(
            attrs.evolve(item, targets=tuple(each for each in item.targets if each not in wanted)), now_ns)

    def park(self, peer: FederationPeer, event: PeerEvent, is_new: bool) -> None:
        """Keep a message until a filter is set for it, or for `keep_peer_s`. No acknowledgement waits for it."""
        assert event.item is not None, "messages are parked"
        if is_new:
            peer.stream.accepted += 1
        if event.token:
            token, event.token = event.token, 0
            self._host.settle(token)
        self._host.counters.add("parked")
        self._targets.update(dict.fromkeys(event.item.targets))
        peer.parked.append(event)
        peer.parked_bytes += event.size
        while peer.parked and peer.size > self._host.options.queue_bytes:
            oldest = peer.parked.popleft()
            peer.parked_bytes -= oldest.size
            self._host.counters.add("dropped_queue_full", peer.stream.give_up([oldest], "queue_full"))

    def unpark(self, peer: FederationPeer, added: Iterable[str], now_ns: int) -> None:
        if not peer.parked and not peer.remembered:
            return
        for filter in added:
            if filter in peer.remembered:
                del peer.remembered[filter]
                self.remembered.unsubscribe(filter, peer.name)
        sent = self._sift(peer, lambda event: self._send_wanted(peer, event, now_ns))
        if sent:
            self._host.counters.add("unparked", len(sent))

    def look(self, now_ns: int) -> None:
        """What is parked for shared subscriptions goes to members elsewhere that have come since (seed 953473)."""
        if not any(self._host.groups.is_served(target) for target in self._targets):
            return
        self._targets.clear()
        for peer in self._host.peers.values():
            peer.stream.give_up(
                self._sift(peer, lambda event: self._host.groups.reroute_event(event, now_ns)), "rerouted")
            for event in peer.parked:
                assert event.item is not None, "messages are parked"
                self._targets.update(dict.fromkeys(event.item.targets))

    def _sift(self, peer: FederationPeer, rest_of: Callable[[PeerEvent], PeerEvent | None]) -> list[PeerEvent]:
        """What is left of each message stays parked. Returns those of which nothing is."""
        events, peer.parked = peer.parked, type(peer.parked)()
        peer.parked_bytes = 0
        ended = []
        for event in events:
            rest = rest_of(event)
            if rest is None:
                ended.append(event)
            else:
                peer.parked.append(rest)
                peer.parked_bytes += rest.size
        return ended

    def clear_remembered(self, peer: FederationPeer) -> None:
        for filter in peer.remembered:
            self.remembered.unsubscribe(filter, peer.name)
        peer.remembered.clear()
