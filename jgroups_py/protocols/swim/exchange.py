"""Push-pull: exchanging the whole table with another member, which is also how a member joins and finds failed ones.

Gossip reaches almost all members; an exchange brings what it missed, and all that a joiner lacks. It takes place now
and then with one other member, with a failed one to detect its return, and with the addresses of possible members to
join. Over datagrams it goes in pages, each of which stands by itself: a lost one costs only what is on it, until the
next exchange. Sources: memberlist's state.go (pushPull, mergeState) and util.go (pushPullScale); Serf's reconnect.
Deviations: pages; a suspicion that comes by an exchange is hearsay and confirms nothing.
"""
from __future__ import annotations

import math
from collections.abc import Iterator

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import FindMembers, JoinPlaces, MembersFound, StreamTo, UserStateHeard
from jgroups_py.model.ports import UserState
from jgroups_py.protocols.swim.headers import ALIVE, DEAD, LEFT, NODE_STATE, Dead, NodeState, PushPull, SuspectedHeader
from jgroups_py.protocols.swim.probing import NUMBERS, Probing
from jgroups_py.protocols.swim.suspicion import HEARSAY
from jgroups_py.protocols.swim.table import SwimNode
from jgroups_py.stack.protocol import CONTROL, on, timer

STRETCH_ABOVE = 32               # nodes; from there on the exchange interval grows with the group
JOIN_WITH = 3                    # number of members found by discovery with which a joiner exchanges
LONGEST_JOIN_WAIT = 8            # join intervals
MAX_ANSWERED = 1000              # members whose latest exchange is remembered


def stretched(interval_ns: int, nodes: int) -> int:
    """The exchange interval in a group of `nodes`.

    >>> [stretched(30, n) for n in (2, 32, 33, 64, 65, 1000)]
    [30, 30, 60, 60, 90, 180]
    """
    if nodes <= STRETCH_ABOVE:
        return interval_ns
    return interval_ns * (math.ceil(math.log2(nodes) - math.log2(STRETCH_ABOVE)) + 1)


def pages(states: list[NodeState], room: int) -> Iterator[tuple[NodeState, ...]]:
    """The states in pages of at most `room` bytes; a larger state has a page to itself. At least one page."""
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
        self.exchanges = 0                             # number of the latest one that this member began
        self.answered: dict[Address, int] = {}         # requester -> its exchange that was answered last
        self.seeds: dict[PhysicalAddress, None] = dict.fromkeys(self.config.initial_hosts)
        self.join_wait_ns = self.config.join_interval_ns
        self.user: UserState | None = self.stack.find(UserState)
        empty = bytearray()
        wire.encode_headers((PushPull(0, False, False, (), b""),), empty)
        self.page_room = self.config.packet_bytes - self.frame_bytes - len(empty)
        self.handlers[PushPull] = self.on_push_pull

    # --- sending ------------------------------------------------------------------------------------------------------

    def exchange(self, dest: Address | None, place: PhysicalAddress | None, join: bool = False) -> None:
        """Begin an exchange: send the table; the receiver answers with its own."""
        self.exchanges = (self.exchanges + 1) % NUMBERS
        self.count("exchanges")
        if self.streams is not None and self.streams.has_streams() and place is not None:
            everything = PushPull(self.exchanges, False, join, tuple(self.states()), self.user_state(join))
            self.pass_down(StreamTo(place, Batch(self.me, dest, (), (everything,), CONTROL)))
        else:
            self.send_pages(dest, place, self.exchanges, answer=False, join=join)

    def send_pages(
        self, dest: Address | None, place: PhysicalAddress | None, number: int, *, answer: bool, join: bool,
    ) -> None:
        """Send the table in pages; what a layer above adds is in the first one only."""
        user = self.user_state(join)
        for page in pages(self.states(), self.page_room - len(user)):
            self.send_with_updates(dest, place, PushPull(number, answer, join, page, user))
            user = b""

    def states(self) -> list[NodeState]:
        """The table, this member first."""
        mine = NodeState(self.own_alive(), LEFT if self.leaving else ALIVE)
        return [mine, *(NodeState(node.as_alive(), node.state) for node in self.nodes.values())]

    def user_state(self, join: bool) -> bytes:
        return b"" if self.user is None else self.user.user_state(join)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def on_push_pull(self, table: PushPull, batch: Batch) -> None:
        """A page of another member's table; the first page of an exchange that it began is answered."""
        if not self.my_name:
            return
        for state in table.states:
            self.merge(state)
        if table.user:
            self.pass_up(UserStateHeard(table.user, table.join))
        if not table.answer and self.answered.get(batch.src) != table.exchange:
            if len(self.answered) >= MAX_ANSWERED:
                # Bounded, since sources can be forged; an entry lost here costs at most one further answer.
                self.answered.clear()
            self.answered[batch.src] = table.exchange
            self.answer(table, batch)

    def answer(self, table: PushPull, batch: Batch) -> None:
        """Send this member's table; a transport with streams sends it back on the stream of the request."""
        requester = next((state.alive for state in table.states if state.alive.member == batch.src), None)
        if self.streams is not None:
            answer = PushPull(table.exchange, True, table.join, tuple(self.states()), self.user_state(table.join))
            self.pass_down(Batch(self.me, batch.src, (), (answer,), CONTROL))
        else:
            place = requester.place if requester is not None else None
            self.send_pages(batch.src, place, table.exchange, answer=True, join=table.join)

    def merge(self, state: NodeState) -> None:
        """Apply an entry of another member's table as if it had come by gossip [memberlist's mergeState].

        A node that failed there is only suspected here, without a source: it may still run, and can refute.
        """
        alive, node = state.alive, self.nodes.get(state.alive.node)
        if state.state == ALIVE:
            self.on_alive(alive)
        elif node is not None and node.is_up and node.member != alive.member:
            self.report_end_of_start(node, alive.incarnation)
        elif state.state == LEFT:
            self.on_dead(Dead(alive.incarnation, alive.node, alive.node))
        else:
            if alive.node not in self.nodes and state.state != DEAD:
                self.on_alive(alive)
            self.on_suspected(SuspectedHeader(alive.incarnation, alive.node, HEARSAY, 0))

    def report_end_of_start(self, node: SwimNode, incarnation: int) -> None:
        """Elsewhere another start of this node ended with `incarnation`, which the current start must exceed.

        The end is not applied to the current start: it is sent to it as an accusation, which it refutes.
        """
        if incarnation >= node.incarnation:
            self.send_to_node(node, Dead(incarnation, node.name, node.name))

    # --- timers -------------------------------------------------------------------------------------------------------

    @timer("exchange")
    def exchange_with_one(self) -> None:
        """Repair what gossip missed; forget nodes that have been gone for long."""
        self.forget()
        for name in self.ring.pick(1, self.is_up):
            node = self.nodes[name]
            self.exchange(node.member, node.place)
        self.set_timer("exchange", stretched(self.config.push_pull_interval_ns, self.up_count + 1))

    @timer("reconnect")
    def reconnect(self) -> None:
        """Try a failed node and a seed: a failed node may be back, a split group reachable again."""
        for name in self.ring.pick(1, self.has_failed):
            node = self.nodes[name]
            # To the physical address, without a destination: another start may receive there.
            self.exchange(None if node.place is not None else node.member, node.place)
        self.try_seed()
        self.set_timer("reconnect", self.config.reconnect_interval_ns)

    def try_seed(self) -> None:
        """Exchange with a seed at whose address no member of the table is up.

        A member that started again there may have an empty table, or that of another part of a split group.
        """
        taken = dict.fromkeys(node.place for node in self.nodes.values() if node.is_up)
        free = [place for place in self.seeds if place not in taken and place != self.addresses.my_physical()]
        if free and not self.leaving:
            self.exchange(None, self.rng.choice(free), join=True)

    def has_failed(self, name: str) -> bool:
        return self.nodes[name].state == DEAD

    def forget(self) -> None:
        oldest_ns = self.now_ns - self.config.forget_ns
        for node in [node for node in self.nodes.values() if not node.is_up and node.changed_ns < oldest_ns]:
            self.remove(node)

    def remove(self, node: SwimNode) -> None:
        """Take a node out of the table, the ring and the queue of updates."""
        self.up_count -= node.is_up
        self.cancel_timer("suspicion", node.name)
        self.ring.remove(node.name)
        self.gossip.drop(node.name)
        del self.nodes[node.name]

    # --- joining ------------------------------------------------------------------------------------------------------

    @timer("join")
    def join(self) -> None:
        """While no other node is up: try discovery and the seeds, with exponential backoff."""
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
    def join_places(self, event: JoinPlaces) -> None:
        self.seeds.update(dict.fromkeys(event.places))
        if self.my_name:
            self.join_at(event.places)
            if not self.up_count:
                self.join_wait_ns = self.config.join_interval_ns
                self.set_timer("join", self.join_wait_ns)

    @on(MembersFound)
    def members_found(self, event: MembersFound) -> None:
        if self.views or self.up_count or not self.my_name:
            return
        found = list(event.found)
        self.rng.shuffle(found)
        for one in found[:JOIN_WITH]:
            self.exchange(one.member, one.physical, join=True)
