"""Exchanges: all that one member knows against all that another knows, and how a member finds the first one.

Gossip reaches almost everybody; what it missed, and all that a newcomer does not know, comes by push-pull: now and then
with one other member, with a failed one to see whether it is back, and with those who may be there to join. Over
datagrams it goes in pages, each of which stands by itself: a lost one costs only what is on it, until the next time.
Sources: memberlist's state.go (pushPull, mergeState) and util.go (pushPullScale); Serf's reconnect. Deviations: pages;
a suspicion that comes this way is hearsay and confirms nothing.
"""
from __future__ import annotations

import math
from collections.abc import Iterator

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.events import FindMembers, MembersFound
from jgroups_py.ports import UserState
from jgroups_py.protocol import CONTROL, on, timer
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    NODE_STATE,
    Dead,
    NodeState,
    PushPull,
    Suspected,
)
from jgroups_py.protocols.swim.probing import NUMBERS, Probing
from jgroups_py.protocols.swim.suspicion import NOBODY
from jgroups_py.protocols.swim.table import Node
from jgroups_py.streams import StreamTo
from jgroups_py.swim_events import JoinPlaces, UserStateHeard

STRETCH_ABOVE = 32               # nodes; from there on the exchange interval grows with the group
JOIN_WITH = 3                    # so many of those that were found are asked to take us in
LONGEST_JOIN_WAIT = 8            # join intervals
MAX_ANSWERED = 1000


def stretched(interval_ns: int, nodes: int) -> int:
    """The exchange interval in a group of `nodes`.

    >>> [stretched(30, n) for n in (2, 32, 33, 64, 65, 1000)]
    [30, 30, 60, 60, 90, 180]
    """
    if nodes <= STRETCH_ABOVE:
        return interval_ns
    return interval_ns * (math.ceil(math.log2(nodes) - math.log2(STRETCH_ABOVE)) + 1)


def pages(states: list[NodeState], room: int) -> Iterator[tuple[NodeState, ...]]:
    """The states in pieces of `room` bytes, at least one piece."""
    page: list[NodeState] = []
    used = 0
    for state in states:
        out = bytearray()
        NODE_STATE.write(state, out)
        if page and used + len(out) > room:
            yield tuple(page)
            page, used = [], 0
        page.append(state)
        used += len(out)
    yield tuple(page)


class Exchange(Probing):
    """Push-pull, joining, reconnecting."""

    def start(self) -> None:
        super().start()
        self.exchanges = 0                             # number of the latest one that we began
        self.answered_of: dict[Address, int] = {}      # who asked -> the exchange that we answered
        self.seeds: dict[PhysicalAddress, None] = dict.fromkeys(self.config.initial_hosts)
        self.join_wait_ns = self.config.join_interval_ns
        self.user: UserState | None = self.stack.find(UserState)
        empty = bytearray()
        wire.encode_headers((PushPull(0, False, False, (), b""),), empty)
        self.page_room = self.config.packet_bytes - self.frame_bytes - len(empty)
        self.talk[PushPull] = self.exchanged

    # --- sending ------------------------------------------------------------------------------------------------------

    def exchange(self, dest: Address | None, place: PhysicalAddress | None, join: bool = False) -> None:
        """Tell all that we know to somebody, who does the same in return."""
        self.exchanges = (self.exchanges + 1) % NUMBERS
        self.count("exchanges")
        if self.streams is not None and self.streams.has_streams() and place is not None:
            everything = PushPull(self.exchanges, False, join, tuple(self.states()), self.user_state(join))
            self.pass_down(StreamTo(place, Batch(self.me, dest, (), (everything,), CONTROL)))
        else:
            self.tell_all(dest, place, self.exchanges, answer=False, join=join)

    def tell_all(
        self, dest: Address | None, place: PhysicalAddress | None, number: int, *, answer: bool, join: bool,
    ) -> None:
        """All that we know, in pages."""
        user = self.user_state(join)
        for page in pages(self.states(), self.page_room - len(user)):
            self.post_to(dest, place, PushPull(number, answer, join, page, user))
            user = b""

    def states(self) -> list[NodeState]:
        """What we know, ourselves first."""
        mine = NodeState(self.says(), LEFT if self.leaving else ALIVE)
        return [mine, *(NodeState(node.says(), node.state) for node in self.nodes.values())]

    def user_state(self, join: bool) -> bytes:
        return b"" if self.user is None else self.user.user_state(join)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def exchanged(self, said: PushPull, batch: Batch) -> None:
        """A page of what somebody knows."""
        if not self.my_name:
            return
        for state in said.states:
            self.merge(state)
        if said.user:
            self.pass_up(UserStateHeard(said.user, said.join))
        if not said.answer and self.answered_of.get(batch.src) != said.exchange:
            if len(self.answered_of) >= MAX_ANSWERED:
                self.answered_of.clear()
            self.answered_of[batch.src] = said.exchange
            self.reply(said, batch)

    def reply(self, said: PushPull, batch: Batch) -> None:
        """Our side of it; a transport with streams sends it back where the question came from."""
        asker = next((state.alive for state in said.states if state.alive.member == batch.src), None)
        if self.streams is not None:
            answer = PushPull(said.exchange, True, said.join, tuple(self.states()), self.user_state(said.join))
            self.pass_down(Batch(self.me, batch.src, (), (answer,), CONTROL))
        else:
            place = asker.place if asker is not None else None
            self.tell_all(batch.src, place, said.exchange, answer=True, join=said.join)

    def merge(self, state: NodeState) -> None:
        """What somebody knows of a node, as if it had come by gossip; who failed may refute first."""
        alive, node = state.alive, self.nodes.get(state.alive.node)
        if state.state == ALIVE:
            self.hear_alive(alive)
        elif node is not None and node.is_up and node.member != alive.member:
            self.mistaken(node, alive.incarnation)
        elif state.state == LEFT:
            self.hear_dead(Dead(alive.incarnation, alive.node, alive.node))
        else:
            if alive.node not in self.nodes and state.state != DEAD:
                self.hear_alive(alive)
            self.hear_suspected(Suspected(alive.incarnation, alive.node, NOBODY, 0))

    def mistaken(self, node: Node, incarnation: int) -> None:
        """Somebody knows the end of another start of this name: tell the one that is there, which outbids it."""
        if incarnation >= node.incarnation:
            self.post(node, Dead(incarnation, node.name, node.name))

    # --- when ---------------------------------------------------------------------------------------------------------

    @timer("exchange")
    def exchange_with_one(self) -> None:
        """Repair what gossip missed; forget who has been gone for long."""
        self.forget()
        for name in self.ring.pick(1, self.is_up):
            node = self.nodes[name]
            self.exchange(node.member, node.place)
        self.set_timer("exchange", stretched(self.config.push_pull_interval_ns, self.up_count + 1))

    @timer("reconnect")
    def reconnect(self) -> None:
        """Is one of the failed back, or the other part of a split group reachable again?"""
        for name in self.ring.pick(1, self.has_failed):
            node = self.nodes[name]
            # Whoever receives there: it may be another start.
            self.exchange(None if node.place is not None else node.member, node.place)
        self.try_a_seed()
        self.set_timer("reconnect", self.config.reconnect_interval_ns)

    def try_a_seed(self) -> None:
        """Somebody may be there again who knows nobody, or with a part of the group that we never met."""
        taken = dict.fromkeys(node.place for node in self.nodes.values() if node.is_up)
        empty = [place for place in self.seeds if place not in taken and place != self.addresses.my_physical()]
        if empty and not self.leaving:
            self.exchange(None, self.rng.choice(empty), join=True)

    def has_failed(self, name: str) -> bool:
        return self.nodes[name].state == DEAD

    def forget(self) -> None:
        oldest_ns = self.now_ns - self.config.forget_ns
        for node in [node for node in self.nodes.values() if not node.is_up and node.changed_ns < oldest_ns]:
            self.drop(node)

    def drop(self, node: Node) -> None:
        """Know it no more."""
        self.up_count -= node.is_up
        self.cancel_timer("suspicion", node.name)
        self.ring.remove(node.name)
        self.gossip.drop(node.name)
        del self.nodes[node.name]

    # --- joining ------------------------------------------------------------------------------------------------------

    @timer("join")
    def join(self) -> None:
        """While we know nobody: ask discovery, and whoever may be at the places we were given."""
        if self.up_count or self.leaving:
            return
        self.pass_down(FindMembers(self.join_wait_ns))
        self.join_at(tuple(self.seeds))
        self.set_timer("join", self.join_wait_ns)
        self.join_wait_ns = min(2 * self.join_wait_ns, LONGEST_JOIN_WAIT * self.config.join_interval_ns)

    def join_at(self, places: tuple[PhysicalAddress, ...]) -> None:
        mine = self.addresses.my_physical()
        for place in places:
            if place != mine:
                self.exchange(None, place, join=True)

    @on(JoinPlaces)
    def join_wanted(self, event: JoinPlaces) -> None:
        self.seeds.update(dict.fromkeys(event.places))
        if self.my_name:
            self.join_at(event.places)
            if not self.up_count:
                self.join_wait_ns = self.config.join_interval_ns
                self.set_timer("join", self.join_wait_ns)

    @on(MembersFound)
    def found(self, event: MembersFound) -> None:
        if self.views or self.up_count or not self.my_name:
            return
        found = list(event.found)
        self.rng.shuffle(found)
        for one in found[:JOIN_WITH]:
            self.exchange(one.member, one.physical, join=True)


