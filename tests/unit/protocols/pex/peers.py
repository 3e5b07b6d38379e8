"""Peers on the simulator; all datagrams are recorded."""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.config.load import load
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Broadcast
from jgroups_py.model.outputs import Frame
from jgroups_py.model.ports import PeerInfo, Peers
from jgroups_py.model.units import seconds
from jgroups_py.simulator import World
from jgroups_py.simulator.process import Process
from jgroups_py.wire.topic_headers import topic_header

CLUSTER = "peers"
PORT = 7960


class Swarm(World):
    """A world of peers whose datagrams are kept, as (sender's name, receiver's address, batch)."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.datagrams: list[tuple[str, str, Batch]] = []

    def _emit(self, process: Process, frame: Frame) -> None:
        batch = wire.decode_frame(b"".join(frame.data), wire.cluster_id(CLUSTER), wire.Interner())
        assert frame.to is not None, "peers send to physical addresses, not to a group"
        self.datagrams.append((process.name, frame.to[0], batch))
        super()._emit(process, frame)

    def peer(self, name: str, *seeds: str, **properties: str) -> Process:
        """Start a peer with these seeds."""
        places = ",".join(f"{self.ip(seed)}[{PORT}]" for seed in seeds)
        given = {"seeds": places, "bind_port": str(PORT), "port_range": "0", "profile": "influx-2023"}
        spec = load("gossip", given)
        layers = tuple(
            attrs.evolve(layer, config=attrs.evolve(layer.config, **properties)) if layer.name == "PEX" else layer
            for layer in spec.layers)
        return self.start(name, attrs.evolve(spec, layers=layers), CLUSTER)

    def peers_of(self, name: str) -> list[str]:
        """The peers in a peer's table, by name and incarnation."""
        found: tuple[PeerInfo, ...] = self.node(name).local.find(Peers).known_peers()
        return sorted(self.history.names[peer.identity] for peer in found)

    def broadcast(self, name: str, payload: bytes, topic: int | str | None = None, ratio: float = 1.0) -> None:
        """Broadcast."""
        headers = () if topic is None else (topic_header(topic),)
        self.inject(name, Broadcast(payload, headers, ratio))

    def got(self, name: str) -> list[bytes]:
        """The broadcasts delivered to a peer's application."""
        return self.delivered(name, unicast=True)

    def sent_to(self, name: str, header: type) -> list[Batch]:
        """The datagrams with this header that were sent to a peer."""
        return [batch for _, to, batch in self.datagrams
                if to == self.ip(name) and batch.headers and isinstance(batch.headers[-1], header)]

    def receive(self, name: str, batch: Batch) -> None:
        """Give a peer a datagram that no peer sent."""
        data = b"".join(wire.encode_frame(wire.cluster_id(CLUSTER), batch))
        self.raw(name, data, ("10.9.9.9", 9))

    def raw(self, name: str, data: bytes, place: tuple[str, int]) -> None:
        """Give a peer any bytes."""
        self.node(name).receive([(data, place)], self.now_ns)
        self._settle(self.process(name))


def settle(world: World) -> None:
    """Run long enough for all peers to find each other."""
    world.run_for(seconds(1))
