"""Brokers with their federation cores in memory, and what carries their frames: views, pauses, partitions, losses.

Frames between two nodes keep their order while both are in each other's view. What was under way when a view ends it is
lost, as a whole or from some frame on; a paused node handles what had arrived before it sees that it was excluded.
"""
from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from random import Random
from typing import Any

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from tests.unit.blocks.mqtt.clients import SECOND, Client

MS = SECOND // 1000


class Node:
    """One life of a broker. Clients take it for their bench."""

    def __init__(self, world: FederationWorld, name: str, life: int) -> None:
        self.world = world
        self.name = name
        self.life = life
        self.handle = f"{name}#{life}"
        rng = Random(f"{world.seed}/{self.handle}")
        self.federation = FederationCore(
            FederationOptions(name=name, **world.options_of(name)), rng, now_ns=world.now_ns,
            wall_offset_ns=1_000_000 * SECOND + world.rng.randrange(-50, 50) * MS)
        self.broker = Broker(BrokerOptions(**{"sys_interval_s": 0, "node_name": name, **world.broker_options}), rng,
                             now_ns=world.now_ns, federation=self.federation, authorizer=world.authorizer)
        self.federation.attach(self.broker)
        self.clients: dict[int, Client] = {}
        self.numbers = 0
        self.runs = True
        self.paused = False
        self.view: dict[str, str] = {}
        self.since: dict[str, int] = {}                  # name -> since when it is in the view
        self.set_ns: dict[str, int] = {}                 # filter -> when it got its first subscriber
        self.taken: dict[bytes, int] = {}                # payload -> when a peer's message was taken over
        self._busy = False
        original = self.broker.deliver
        interest = self.federation.interest

        def set_interest(group: str, filter: str, members: int, online: int) -> None:
            self.set_ns[filter] = self.now_ns
            interest(group, filter, members, online)
        self.federation.interest = set_interest          # type: ignore[method-assign]

        def deliver(publication: Publication, groups: Any, now_ns: int, shared_only: bool = False) -> bool:
            self.taken.setdefault(publication.payload, now_ns)
            return original(publication, groups, now_ns, shared_only)
        self.broker.deliver = deliver                    # type: ignore[method-assign]

    @property
    def now_ns(self) -> int:
        return self.world.now_ns

    def settle(self) -> None:
        """Carry out what broker and federation want, until nothing more comes."""
        if self._busy:
            return
        self._busy = True
        while True:
            sent = self.federation.drain(self.now_ns)
            for each in sent:
                self.world.post(self, each.name, each.data)
            outputs = self.broker.drain()
            for output in outputs:
                if output.connection in self.clients:
                    self.clients[output.connection].take(output)
            if not sent and not outputs and not self.world.post_sites(self):
                break
        self._busy = False

    def install(self, view: dict[str, str]) -> None:
        """The members that it can reach, itself too."""
        if view != self.view:
            for name, handle in view.items():
                if self.view.get(name) != handle:
                    self.since[name] = self.now_ns
            self.view = view
            self.federation.peers_changed(view, self.now_ns)
            self.settle()

    def run_due(self) -> None:
        self.federation.tick(self.now_ns)
        self.broker.tick(self.now_ns)
        self.settle()

    @property
    def is_live(self) -> bool:
        return self.runs and not self.paused

    def ledgers_add_up(self) -> None:
        """Q12, and the bound of memory of Q11."""
        for peer in self.federation.report(self.now_ns):
            held = peer["queued"] + peer["unacknowledged"]
            assert peer["accepted"] == peer["acknowledged"] + held + sum(peer["dropped"].values()), f"Q12: {peer}"
            options = self.federation.options
            assert peer["bytes"] <= 2 * options.queue_bytes + options.window_bytes + options.batch_bytes, f"Q11: {peer}"


class FederationWorld:
    """See the module. loss: of single frames, which no carrier of ours has: what repeats is tested so."""

    def __init__(
        self, names: str, seed: int = 0, loss: float = 0.0, broker: dict[str, Any] | None = None,
        authorizer: Any = None, **federation: Any,
    ) -> None:
        self.seed = seed
        self.rng = Random(f"world/{seed}")
        self.now_ns = 1_000 * SECOND
        self.loss = loss
        self.broker_options = broker or {}
        self.authorizer = authorizer
        self.federation_options = federation
        self.detect_ns = 600 * MS
        self.nodes: dict[str, Node] = {}
        self.lives: defaultdict[str, int] = defaultdict(int)
        self.sides: dict[str, int] = {}
        self.frames = 0
        self.kinds: defaultdict[int, int] = defaultdict(int)
        self._links: defaultdict[tuple[str, str], deque[tuple[int, bytes]]] = defaultdict(deque)   # by handles
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        for name in names:
            self.start(name)
        self.views()
        self.run(0.5)

    def options_of(self, name: str) -> dict[str, Any]:
        """What the federation of a node is told."""
        return self.federation_options

    def post_sites(self, node: Node) -> bool:
        """Carry what a node has for other sites; whether there was something."""
        return False

    # --- faults -------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Node:
        self.lives[name] += 1
        node = self.nodes[name] = Node(self, name, self.lives[name])
        self.sides.setdefault(name, 0)
        self.later(self.rng.randrange(1, 300) * MS, self.views)
        return node

    def crash(self, name: str) -> None:
        """Nothing of it is left; its clients lose their connections."""
        node = self.nodes[name]
        node.runs = False
        for client in list(node.clients.values()):
            client.number = 0
        self.later(self.detect_ns, self.views)

    def pause(self, name: str) -> None:
        self.nodes[name].paused = True
        self.later(self.detect_ns, self.views)

    def resume(self, name: str) -> None:
        """It handles what has come; that it was excluded it learns a little later."""
        node = self.nodes[name]
        node.paused = False
        for handles in list(self._links):
            if handles[1] == node.handle:
                self._arrive(handles)
        self.later(self.rng.randrange(1, 100) * MS, self.views)

    def split(self, *sides: str) -> None:
        self.sides = {name: number for number, side in enumerate(sides) for name in side}
        self.later(self.detect_ns, self.views)

    def heal(self) -> None:
        self.sides = dict.fromkeys(self.nodes, 0)
        for handles in list(self._links):
            self._arrive(handles)
        self.later(self.rng.randrange(1, 100) * MS, self.views)

    def views(self) -> None:
        """Every live node gets the view of its side. What was under way between two that part is lost from some frame
        on."""
        for node in self.nodes.values():
            if not node.is_live:
                continue
            view = {other.name: other.handle for other in self.nodes.values()
                    if other.is_live and self.sides[other.name] == self.sides[node.name]}
            for name, handle in node.view.items():
                if view.get(name) != handle:
                    for link in ((node.handle, handle), (handle, node.handle)):
                        queue = self._links[link]
                        kept = self.rng.randrange(len(queue) + 1) if queue else 0
                        while len(queue) > kept:
                            queue.pop()
            node.install(view)

    # --- time and frames ----------------------------------------------------------------------------------------------

    def later(self, delay_ns: int, function: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now_ns + delay_ns, self._number, function))

    def post(self, node: Node, name: str | None, data: bytes) -> None:
        for dest, handle in node.view.items():
            if dest != node.name and name in (None, dest):
                self.frames += 1
                self.kinds[data[1]] += 1
                if self.rng.random() < self.loss:
                    continue
                link = node.handle, handle
                queue = self._links[link]
                at_ns = self.now_ns + self.rng.randrange(50, 3_000) * 1_000
                if queue:
                    at_ns = max(at_ns, queue[-1][0])
                queue.append((at_ns, data))
                self.later(at_ns - self.now_ns, lambda link=link: self._arrive(link))

    def _arrive(self, link: tuple[str, str]) -> None:
        queue = self._links[link]
        src, dest = (self.nodes[handle.partition("#")[0]] for handle in link)
        while queue and queue[0][0] <= self.now_ns:
            if dest.handle != link[1] or not dest.runs:
                queue.clear()
            elif dest.paused or self.sides[src.name] != self.sides[dest.name]:
                return
            else:
                data = queue.popleft()[1]
                if dest.view.get(src.name) == link[0]:
                    dest.federation.receive(src.name, data, self.now_ns)
                    dest.settle()

    def run(self, seconds: float) -> None:
        """Time passes."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while True:
            due = [(at_ns, name) for name, node in self.nodes.items() if node.is_live
                   for at_ns in (node.federation.next_deadline_ns(), node.broker.next_deadline_ns())
                   if at_ns is not None]
            at_ns, name = min(due, default=(end_ns + 1, ""))
            if self._heap and self._heap[0][0] <= at_ns:
                at_ns, name = self._heap[0][0], ""
            if at_ns > end_ns:
                break
            self.now_ns = max(self.now_ns, at_ns)
            if name:
                self.nodes[name].run_due()
            else:
                heapq.heappop(self._heap)[2]()
        self.now_ns = end_ns

    # --- what tests look at -------------------------------------------------------------------------------------------

    def client(self, name: str, client_id: str, **options: Any) -> Client:
        """A client that has connected to a node."""
        return self.at(name, Client(self.nodes[name], client_id, options.pop("version", Client.DEFAULT)), **options)

    def at(self, name: str, client: Any, **options: Any) -> Any:
        """Connect a client to a node, maybe another one than before."""
        client.bench = self.nodes[name]
        client.connect(**options)
        return client

    def sent(self, name: str, counter: str = "messages_sent") -> int:
        """A counter of a federation."""
        return self.nodes[name].federation.counters[counter]

    def check_trees(self) -> None:
        """Q14: what each node knows of the others is what they have."""
        for node in self.nodes.values():
            for other in self.nodes.values():
                if other is not node:
                    known = node.federation.interest_of_peers.peers[other.name].filters
                    assert known == other.federation.own.filters, f"Q14: {node.name} of {other.name}: {known}"
                    wanted = {filter for filter, _ in other.broker.router.tree.filters()}
                    assert set(known) == wanted, f"Q14: {other.name}: {known}, {wanted}"
