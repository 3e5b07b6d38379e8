"""GmqttLink: makes a broker one node of a federation of unmodified gmqttd (v0.5.0). Pure; grpc.py does the I/O.

Each node of gmqtt is a client of each other one: it sends Hello, then events on a stream, which are acknowledged
(peer.py). It is also the server of this exchange for the others. Serf reports the nodes. On reception of

    member up        send Hello; after a failure the peer's filters and messages are kept for `keep_peer_s`
    member gone      forget its filters, its session and what is queued for it
    Hello            the same session id: go on at the next id; another one: forget its filters, expect ids from 0
    Subscribe        add the filter to those of the peer
    Message          deliver it to the subscribers here; store a retained one; a retained one without payload clears
    any event        acknowledge it once it is carried out; an invalid one too, or it would be sent again for ever

A message of a client of this node goes to each peer with a matching filter, a retained one to all peers. A message of a
peer is not forwarded. Events do not name the shared groups that a message is for: a peer gives it to all its matching
groups. So the node that serves each group is chosen such that no group is served twice, where that is possible.

Healing: by a fault of gmqttd v0.5.0 its stream to a node may end for good while both run. If a peer's stream has ended
and no Hello came for `heal_s`, this node leaves Serf and joins again (`RejoinSerf`), whereupon the peer sends Hello.
Deviations from the original are in design/mqtt.md.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.ports import NOWHERE, Forwarding, GroupChoice, NoCopies
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.retained import RetainedStore
from jgroups_py.blocks.mqtt.broker.router import SYSTEM
from jgroups_py.blocks.mqtt.broker.subscription_tree import Matches, SubscriptionTree, filter_matches, split_shared
from jgroups_py.blocks.mqtt.codec.packets import MAX_TEXT_BYTES
from jgroups_py.blocks.mqtt.codec.text import SHARED, topic_filter_fault
from jgroups_py.blocks.mqtt.gmqtt.messages import message_of, publication_of
from jgroups_py.blocks.mqtt.gmqtt.options import COUNTERS, GmqttOptions, gmqtt_counters
from jgroups_py.blocks.mqtt.gmqtt.peer import GmqttIncoming, GmqttPeer, GmqttState
from jgroups_py.blocks.mqtt.gmqtt.wire import (
    GmqttEvent,
    GmqttMessage,
    GmqttSubscribe,
    GmqttUnsubscribe,
    ack_bytes,
    body_bytes,
    client_hello_bytes,
    read_ack,
    read_client_hello,
    read_event,
    read_server_hello,
    server_hello_bytes,
)
from jgroups_py.model.errors import WireError

MAX_TURNS = 10_000
MAX_SESSION_CHARACTERS = 200
Target = tuple[str, str]
"""(group, filter) of a shared subscription."""


class FederatedBroker(Protocol):
    """The broker as the link needs it."""

    def deliver(self, publication: Publication, groups: Sequence[Target], now_ns: int) -> object:
        """A message of a peer's client, for the subscribers here and for one member of each of these groups."""
        ...

    def release(self, token: int, now_ns: int) -> None:
        """The peers have what was published with this token."""
        ...


class GmqttRefusal(Exception):
    """A call of a peer that is answered with an error, in the words of gmqtt."""


@attrs.frozen
class SayHello:
    """Call Hello at this address; report the answer by `greeted`, or a failure by `broke`."""

    peer: str
    address: str
    attempt: int
    hello: bytes


@attrs.frozen(eq=False)
class SendEvents:
    """Write these events to the stream of this attempt; the first ones open it."""

    peer: str
    attempt: int
    events: tuple[bytes, ...]


@attrs.frozen
class EndOutgoing:
    """Cancel the call of this attempt."""

    peer: str
    attempt: int


@attrs.frozen
class EndIncoming:
    """End this stream that a peer opened."""

    peer: str
    stream: int


@attrs.frozen
class RejoinSerf:
    """Leave Serf and join again, under the same name. why: for the log."""

    why: str


GmqttOutput = SayHello | SendEvents | EndOutgoing | EndIncoming | RejoinSerf


class GmqttLink(NoCopies):
    """See the module. After each call the host carries out `drain`, and calls `tick` at `next_deadline_ns`.

    rng: session ids. wake: is called when a call of the broker has left outputs for `drain`.
    """

    COUNTERS = COUNTERS

    def __init__(self, options: GmqttOptions, rng: Random, retained: RetainedStore) -> None:
        self.options = options
        self.counters = gmqtt_counters()
        self.peers: dict[str, GmqttPeer] = {}
        self.own: dict[str, GroupChoice] = {}            # filter, with $share/GROUP/ -> members here
        self.filters_of_peers: SubscriptionTree[str, None] = SubscriptionTree(100_000)
        self._own_groups: SubscriptionTree[str, None] = SubscriptionTree(10_000)
        self._retained = retained
        self._from_peer: dict[str, str] = {}             # topic of a retained message -> the peer that it came from
        self._rng = rng
        self._broker: FederatedBroker | None = None
        self._tokens: dict[int, int] = {}                # token -> peers that it waits for
        self._last_token = 0
        self._released: list[int] = []
        self._turns: dict[Target, int] = {}
        self._streams = 0
        self._outputs: list[GmqttOutput] = []
        self._heal_ns = 0
        self.wake: Callable[[], None] = lambda: None
        # For a node that is in a group too: is called with a retained message that a peer has set or cleared; and
        # whether this node is the one of the group that sends a peer all retained messages.
        self.kept: Callable[[Publication, int], None] = lambda publication, now_ns: None
        self.sends_retained: Callable[[], bool] = lambda: True

    def attach(self, broker: FederatedBroker) -> None:
        """The broker that this is the federation of."""
        self._broker = broker

    # --- calls of the broker (ports.Federation) -----------------------------------------------------------------------

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        """See ports.Federation."""
        full = f"{SHARED}{group}/{filter}" if group else filter
        was_here = full in self.own
        if members:
            self.own[full] = GroupChoice(group, filter, members, online)
        elif was_here:
            del self.own[full]
        if was_here == bool(members):
            return
        if group and members:
            self._own_groups.subscribe(full, "", None)
        elif group:
            self._own_groups.unsubscribe(full, "")
        for peer in self.peers.values():
            peer.changed[full] = None
        self.wake()

    def publish(self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int) -> Forwarding:
        """See ports.Federation."""
        if not self.peers:
            return NOWHERE
        matches = self.filters_of_peers.match(publication.topic)
        if publication.wants_retain:
            receivers = dict.fromkeys(self.peers)
            served = {(match.group, match.filter): None for match in matches.shared}
        elif matches.plain or matches.shared:
            receivers, served = self._choose(matches, groups)
        else:
            return NOWHERE
        waiting = sum(self.peers[name].is_alive for name in receivers) if publication.qos else 0
        token = 0
        if waiting:
            token = self._last_token = self._last_token + 1
            self._tokens[token] = waiting
        body = body_bytes(message_of(publication, now_ns, self.counters)) if receivers else b""
        for name in receivers:
            peer = self.peers[name]
            peer.accept(body, publication, token if peer.is_alive else 0)
        if publication.wants_retain:
            self._from_peer.pop(publication.topic, None)
        self.wake()
        return Forwarding(token if token in self._tokens else 0, frozenset(served), len(receivers))

    def retained(self, publication: Publication, now_ns: int) -> None:
        """See ports.Federation. Nothing to do: `publish` has sent it."""

    def move(self, publication: Publication, group: str, filter: str, now_ns: int) -> bool:
        """See ports.Federation. False: a peer would give the message to its other subscribers, too."""
        return False

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """See ports.Federation. False: sessions of gmqtt do not move."""
        return False

    def ended(self, client_id: str, now_ns: int) -> None:
        """See ports.Federation."""

    def dropped(self, client_id: str) -> None:
        """See ports.Federation."""

    def _choose(
        self, matches: Matches[str, None], groups: Sequence[GroupChoice],
    ) -> tuple[dict[str, None], dict[Target, None]]:
        """Returns the peers that get a message, and the groups that they serve."""
        at: dict[str, dict[Target, None]] = {}           # peer -> its groups that match
        places: dict[Target, dict[str, int]] = {
            (each.group, each.filter): {"": each.online} for each in groups}
        for match in matches.shared:
            target = match.group, match.filter
            for name in match.members:
                at.setdefault(name, {})[target] = None
                places.setdefault(target, {})[name] = 1 if self.peers[name].is_alive else 0
        receivers = {name: None for name, _ in matches.plain}
        served: dict[Target, str] = {}
        for name in receivers:
            served.update(dict.fromkeys(at.get(name, ()), name))
        for target in sorted(places):
            if target in served:
                continue
            weights = {name: weight for name, weight in places[target].items()
                       if not any(other in served for other in at.get(name, ()))} or places[target]
            winner = self._turn(target, weights)
            served[target] = winner
            if winner:
                receivers[winner] = None
                served.update(dict.fromkeys(at[winner], winner))
        return receivers, {target: None for target, name in served.items() if name}

    def _turn(self, target: Target, weights: Mapping[str, int]) -> str:
        """The next node by weighted round-robin; one that cannot be reached only if there is no other one."""
        able = {name: weight for name, weight in weights.items() if weight} or dict.fromkeys(weights, 1)
        if len(self._turns) >= MAX_TURNS and target not in self._turns:
            self._turns.clear()
        turn = self._turns.get(target, 0)
        self._turns[target] = turn + 1
        at = turn % sum(able.values())
        for name in sorted(able):
            at -= able[name]
            if at < 0:
                return name
        raise AssertionError("the turn is below the sum")

    # --- members (Serf) -----------------------------------------------------------------------------------------------

    def member_up(self, name: str, address: str, now_ns: int) -> None:
        """A member with the tag fed_addr is alive."""
        if name == self.options.name:
            return
        peer = self.peers.get(name)
        if peer is None:
            if len(self.peers) >= self.options.max_peers:
                self.counters.add("dropped_peers")
                return
            peer = self.peers[name] = GmqttPeer(name, self.options, self.counters, self._new_session(), self._settle)
        is_moved = peer.address not in ("", address)
        peer.address, peer.gone_ns = address, None
        if not peer.is_alive:
            peer.is_alive, peer.failed_hellos = True, 0
            peer.quiet_ns = None if peer.incoming is not None and peer.incoming.stream else now_ns
        if is_moved:
            self._break(peer, now_ns, "it has another address")
        elif peer.state is GmqttState.WAITING:
            peer.wait(now_ns, "it has just joined")

    def member_failed(self, name: str, now_ns: int) -> None:
        """Serf reports a member as failed. Its stream goes on if it still runs; it may come back."""
        peer = self.peers.get(name)
        if peer is not None and peer.is_alive:
            peer.is_alive, peer.quiet_ns = False, None
            peer.gone_ns = now_ns + round(self.options.keep_peer_s * SECOND)
            if peer.state is not GmqttState.STREAMING:
                self._break(peer, now_ns, "it failed")

    def member_left(self, name: str, now_ns: int) -> None:
        """A member is gone for good; another one may come under its name."""
        peer = self.peers.pop(name, None)
        if peer is None:
            return
        self._outputs.append(EndOutgoing(name, peer.attempt))
        self._forget_incoming(peer)
        peer.give_up("dropped_peer_gone")
        self._from_peer = {topic: origin for topic, origin in self._from_peer.items() if origin != name}
        self._settled(now_ns)

    def _new_session(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    # --- this node as a client ----------------------------------------------------------------------------------------

    def greeted(self, name: str, attempt: int, data: bytes, now_ns: int) -> None:
        """A peer answered Hello."""
        peer = self._current(name, attempt)
        if peer is None or peer.state is not GmqttState.GREETING:
            return
        try:
            clean, next_id = read_server_hello(data)
        except WireError as error:
            self.counters.add("malformed")
            return self._break(peer, now_ns, f"its answer to Hello is malformed: {error}")
        if clean:
            self.counters.add("clean_starts")
            peer.begin_again(self.own, self._retained_for(peer, now_ns))
            again: list[bytes] = []
        elif peer.can_resume(next_id):
            self.counters.add("resumed")
            again = peer.resume(next_id, now_ns)
        else:                                            # its next id is none of this session: begin with a clean start
            peer.session = self._new_session()
            return self._break(peer, now_ns, f"it requests event {next_id}, which this node does not have")
        peer.state, peer.why, peer.failed_hellos = GmqttState.STREAMING, "", 0
        self._outputs.append(SendEvents(name, attempt, tuple(again)))
        self._settled(now_ns)

    def acknowledged(self, name: str, attempt: int, data: bytes, now_ns: int) -> None:
        """A peer has carried out an event, and all before it."""
        peer = self._current(name, attempt)
        if peer is None:
            return
        try:
            id = read_ack(data)
        except WireError:
            self.counters.add("malformed")
            return
        if id >= peer.next_id:
            self.counters.add("malformed")
            return
        peer.acknowledge(id + 1)
        self._settled(now_ns)

    def broke(self, name: str, attempt: int, why: str, now_ns: int) -> None:
        """A Hello failed, or a stream ended."""
        peer = self._current(name, attempt)
        if peer is None or peer.state is GmqttState.WAITING:
            return
        self.counters.add("hellos_refused" if peer.state is GmqttState.GREETING else "streams_ended")
        self._break(peer, now_ns, why)

    def _current(self, name: str, attempt: int) -> GmqttPeer | None:
        peer = self.peers.get(name)
        return peer if peer is not None and peer.attempt == attempt else None

    def _break(self, peer: GmqttPeer, now_ns: int, why: str) -> None:
        if peer.state is not GmqttState.WAITING:
            self._outputs.append(EndOutgoing(peer.name, peer.attempt))
        peer.wait(now_ns, why)

    def _retained_for(self, peer: GmqttPeer, now_ns: int) -> list[Publication]:
        """The retained messages for a clean start, but not those of other peers, which send them themselves."""
        if not self.sends_retained():
            return []
        others = {other.name: None for other in self.peers.values() if other.is_alive and other is not peer}
        return [publication for publication in self._retained.matching("#", now_ns)
                if self._from_peer.get(publication.topic) not in others]

    # --- this node as a server ----------------------------------------------------------------------------------------

    def hello(self, name: str, data: bytes, now_ns: int) -> bytes:
        """A peer's Hello; returns the answer.

        Raises:
            GmqttRefusal: the peer is not among the known members.
            WireError: the bytes are not a Hello.
        """
        session = read_client_hello(data)
        peer = self.peers.get(name)
        if peer is None:
            self.counters.add("non_members")
            raise GmqttRefusal(f"Hello: the node [{name}] has not yet joined")
        if len(session) > MAX_SESSION_CHARACTERS:
            raise WireError(f"a session id of {len(session)} characters")
        self.counters.add("hellos_received")
        # Its stream should follow at once; if it does not, `heal_s` counts from now on.
        peer.quiet_ns = now_ns if peer.is_alive else None
        if peer.incoming is not None and peer.incoming.session == session:
            return server_hello_bytes(False, peer.incoming.next_id)
        self._forget_incoming(peer)
        peer.incoming = GmqttIncoming(session, syncing_until_ns=now_ns + round(self.options.sync_s * SECOND))
        return server_hello_bytes(True, 0)

    def stream_began(self, name: str, now_ns: int) -> int:
        """A peer opened its stream; returns the number for `event`. An older stream of it ends.

        Raises:
            GmqttRefusal: it has sent no Hello.
        """
        peer = self.peers.get(name)
        if peer is None or peer.incoming is None:
            self.counters.add("non_members")
            raise GmqttRefusal(f"EventStream: node [{name}] does not exist")
        if peer.incoming.stream:
            self._outputs.append(EndIncoming(name, peer.incoming.stream))
        self._streams += 1
        peer.incoming.stream = self._streams
        peer.quiet_ns = None
        return self._streams

    def stream_ended(self, name: str, stream: int, now_ns: int) -> None:
        """A stream of a peer is over."""
        peer = self.peers.get(name)
        if peer is not None and peer.incoming is not None and peer.incoming.stream == stream:
            peer.incoming.stream = 0
            if peer.is_alive:
                peer.quiet_ns = now_ns

    def event(self, name: str, stream: int, data: bytes, now_ns: int) -> bytes | None:
        """An event on a stream; returns the acknowledgement, None if these bytes have no id to acknowledge.

        Raises:
            GmqttRefusal: another stream has taken the place of this one.
        """
        peer = self.peers.get(name)
        incoming = None if peer is None else peer.incoming
        if peer is None or incoming is None or incoming.stream != stream:
            self.counters.add("stale_streams")
            raise GmqttRefusal(f"EventStream: the session of node [{name}] has been closed")
        try:
            event = read_event(data)
        except WireError:
            self.counters.add("malformed")
            return None
        if event.id < incoming.next_id:
            self.counters.add("repeated_events")
            return ack_bytes(event.id)
        if event.id > incoming.next_id:
            self.counters.add("missed_events", min(event.id - incoming.next_id, 1 << 32))
        self._carry_out(peer, incoming, event, now_ns)
        incoming.next_id = event.id + 1
        return ack_bytes(event.id)

    def _carry_out(self, peer: GmqttPeer, incoming: GmqttIncoming, event: GmqttEvent, now_ns: int) -> None:
        is_good = False
        match event.body:
            case GmqttSubscribe(group, filter):
                is_good = self._subscribe(peer.name, incoming, f"{SHARED}{group}/{filter}" if group else filter)
            case GmqttUnsubscribe(filter):
                is_good = self._unsubscribe(peer.name, incoming, filter)
            case GmqttMessage() as message:
                is_good = self._message(peer.name, incoming, message, now_ns)
        self.counters.add("events_received" if is_good else "bad_events")

    def _subscribe(self, name: str, incoming: GmqttIncoming, filter: str) -> bool:
        if incoming.synced:
            incoming.end_sync()                          # filters come before the retained messages
        if (topic_filter_fault(filter) or len(filter.encode()) > MAX_TEXT_BYTES
                or filter.count("/") >= self.options.max_levels):
            return False
        if filter not in incoming.filters:
            if len(incoming.filters) >= self.options.max_filters:
                self.counters.add("dropped_filters")
                return True
            incoming.filters[filter] = None
            self.filters_of_peers.subscribe(filter, name, None)
        return True

    def _unsubscribe(self, name: str, incoming: GmqttIncoming, filter: str) -> bool:
        if incoming.synced:
            incoming.end_sync()
        if filter in incoming.filters:
            del incoming.filters[filter]
            self.filters_of_peers.unsubscribe(filter, name)
        return not topic_filter_fault(filter)

    def _message(self, name: str, incoming: GmqttIncoming, message: GmqttMessage, now_ns: int) -> bool:
        publication = publication_of(message, now_ns, self.options.max_levels, self.counters)
        if publication is None or publication.topic.startswith(SYSTEM):
            return False
        self.counters.add("messages_received")
        if not message.retained:
            incoming.end_sync()
        elif not self._keep(name, publication, incoming.is_sync(publication.topic, now_ns), now_ns):
            return True
        assert self._broker is not None, "attach comes first"
        matches = self._own_groups.match(publication.topic)
        self._broker.deliver(publication, [(match.group, match.filter) for match in matches.shared], now_ns)
        return True

    def _keep(self, name: str, publication: Publication, is_sync: bool, now_ns: int) -> bool:
        """Store a retained message of a peer; returns whether subscribers here get it."""
        topic = publication.topic
        known = self._retained.get(topic, now_ns)
        if is_sync and known is not None:
            if _is_same(known, publication):
                self.counters.add("retained_known")
                return False
            if topic not in self._from_peer:             # set by a client here: the peer gets that one instead
                self.counters.add("retained_conflicts")
                return False
        if is_sync and not publication.payload:
            return False                                 # a peer keeps a cleared one as an empty message
        if publication.payload:
            if not self._retained.put(publication):
                self.counters.add("retained_refused")
                return True
            self._from_peer[topic] = name
        else:
            self._retained.put(publication)
            self._from_peer.pop(topic, None)
        self.kept(publication, now_ns)
        return True

    def _forget_incoming(self, peer: GmqttPeer) -> None:
        if peer.incoming is not None:
            for filter in peer.incoming.filters:
                self.filters_of_peers.unsubscribe(filter, peer.name)
            if peer.incoming.stream:
                self._outputs.append(EndIncoming(peer.name, peer.incoming.stream))
            peer.incoming = None

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Carry out what is due."""
        for peer in list(self.peers.values()):
            if peer.gone_ns is not None and now_ns >= peer.gone_ns:
                self.member_left(peer.name, now_ns)
            elif peer.is_alive and peer.state is GmqttState.WAITING and now_ns >= peer.retry_ns:
                peer.state = GmqttState.GREETING
                peer.attempt += 1
                self.counters.add("hellos_sent")
                self._outputs.append(SayHello(peer.name, peer.address, peer.attempt, client_hello_bytes(peer.session)))
        quiet = [peer for peer in self.peers.values() if peer.quiet_ns is not None
                 and now_ns >= peer.quiet_ns + self._heal_after_ns]
        if quiet and now_ns >= self._heal_ns:
            self._heal_ns = now_ns + round(self.options.heal_again_s * SECOND)
            self.counters.add("rejoins")
            names = ", ".join(peer.name for peer in quiet)
            self._outputs.append(RejoinSerf(f"no Hello from {names} for {self.options.heal_s:g} s"))

    @property
    def _heal_after_ns(self) -> int:
        return round(self.options.heal_s * SECOND)

    def next_deadline_ns(self) -> int | None:
        """When to call `tick`; None: nothing is due."""
        times = []
        for peer in self.peers.values():
            if peer.gone_ns is not None:
                times.append(peer.gone_ns)
            elif peer.is_alive and peer.state is GmqttState.WAITING:
                times.append(peer.retry_ns)
            if peer.quiet_ns is not None:
                times.append(max(self._heal_ns, peer.quiet_ns + self._heal_after_ns))
        return min(times, default=None)

    def drain(self, now_ns: int) -> list[GmqttOutput]:
        """Take the outputs since the last call."""
        for peer in self.peers.values():
            events = peer.pump(self.own, now_ns)
            if events:
                self._outputs.append(SendEvents(peer.name, peer.attempt, tuple(events)))
        self._settled(now_ns)
        outputs, self._outputs = self._outputs, []
        return outputs

    # --- acknowledgements to publishers -------------------------------------------------------------------------------

    def _settle(self, token: int) -> None:
        waiting = self._tokens.get(token, 0) - 1
        if waiting > 0:
            self._tokens[token] = waiting
        elif self._tokens.pop(token, None) is not None:
            self._released.append(token)

    def _settled(self, now_ns: int) -> None:
        """Release the tokens at the broker, outside the broker's own calls."""
        released, self._released = self._released, []
        for token in released:
            assert self._broker is not None, "attach comes first"
            self._broker.release(token, now_ns)

    # --- for operators ------------------------------------------------------------------------------------------------

    def report(self) -> list[dict[str, Any]]:
        """Each peer, for JSON."""
        return [{
            "name": peer.name, "fed_addr": peer.address, "alive": peer.is_alive, "state": peer.state.value,
            "why": peer.why, "session_id": peer.session, "next_event_id": peer.next_id,
            "unacknowledged": len(peer.under_way), "queued": len(peer.queue), "queued_bytes": peer.queue_bytes,
            "accepted": peer.accepted, "acknowledged": peer.total_acknowledged, "dropped": dict(peer.dropped),
            "incoming_session_id": "" if peer.incoming is None else peer.incoming.session,
            "incoming_next_event_id": 0 if peer.incoming is None else peer.incoming.next_id,
            "incoming_stream": peer.incoming is not None and peer.incoming.stream != 0,
            "filters": 0 if peer.incoming is None else len(peer.incoming.filters),
        } for peer in self.peers.values()]

    def interest_in(self, topic: str) -> dict[str, list[str]]:
        """Peer -> its filters that match a topic."""
        found: dict[str, list[str]] = {}
        matches = self.filters_of_peers.match(topic)
        for name, _ in matches.plain:
            peer = self.peers[name]
            filters = () if peer.incoming is None else peer.incoming.filters
            plain = [filter for filter in filters if not split_shared(filter)[0]]
            found[name] = [filter for filter in plain if filter_matches(filter, topic)]
        for match in matches.shared:
            for name in match.members:
                found.setdefault(name, []).append(f"{SHARED}{match.group}/{match.filter}")
        return found


def _is_same(known: Publication, other: Publication) -> bool:
    """Whether two retained messages are equal but for their remaining time."""
    mine = attrs.evolve(known.properties, message_expiry_interval=None)
    theirs = attrs.evolve(other.properties, message_expiry_interval=None)
    return known.payload == other.payload and known.qos == other.qos and mine == theirs
