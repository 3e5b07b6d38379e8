"""Peers on the simulator, with every datagram at hand."""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.batch import Batch
from jgroups_py.config.load import load
from jgroups_py.gossip import Broadcast, PeerInfo, Peers
from jgroups_py.outputs import Frame
from jgroups_py.sim import World
from jgroups_py.sim.process import Process
from jgroups_py.topics import topic_header
from jgroups_py.units import seconds

CLUSTER = "peers"
PORT = 7960


class Swarm(World):
    """A world of peers whose datagrams are kept, as (sender's name, receiver's address, batch)."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.datagrams: list[tuple[str, str, Batch]] = []

    def _emit(self, process: Process, frame: Frame) -> None:
        batch = wire.decode_frame(b"".join(frame.data), wire.cluster_id(CLUSTER), wire.Interner())
        assert frame.to is not None, "peers send to places, not to a group"
        self.datagrams.append((process.name, frame.to[0], batch))
        super()._emit(process, frame)

    def peer(self, name: str, *seeds: str, **properties: str) -> Process:
        """Start a peer that knows these seeds."""
        places = ",".join(f"{self.ip(seed)}[{PORT}]" for seed in seeds)
        given = {"seeds": places, "bind_port": str(PORT), "port_range": "0", "profile": "influx-2023"}
        spec = load("gossip", given)
        layers = tuple(
            attrs.evolve(layer, config=attrs.evolve(layer.config, **properties)) if layer.name == "PEX" else layer
            for layer in spec.layers)
        return self.start(name, attrs.evolve(spec, layers=layers), CLUSTER)

    def peers_of(self, name: str) -> list[str]:
        """The names of the peers that a peer knows, by incarnation."""
        found: tuple[PeerInfo, ...] = self.node(name).local.find(Peers).known_peers()
        return sorted(self.history.names[peer.identity] for peer in found)

    def say(self, name: str, payload: bytes, topic: int | str | None = None, ratio: float = 1.0) -> None:
        """Broadcast."""
        headers = () if topic is None else (topic_header(topic),)
        self.inject(name, Broadcast(payload, headers, ratio))

    def got(self, name: str) -> list[bytes]:
        """The broadcasts that a peer's application got."""
        return self.delivered(name, unicast=True)

    def sent_to(self, name: str, header: type) -> list[Batch]:
        """The datagrams with this header that were sent to a peer's place."""
        return [batch for _, to, batch in self.datagrams
                if to == self.ip(name) and batch.headers and isinstance(batch.headers[-1], header)]

    def hear(self, name: str, batch: Batch) -> None:
        """A datagram arrives at a peer from nowhere."""
        data = b"".join(wire.encode_frame(wire.cluster_id(CLUSTER), batch))
        self.raw(name, data, ("10.9.9.9", 9))

    def raw(self, name: str, data: bytes, place: tuple[str, int]) -> None:
        """Any bytes arrive at a peer."""
        self.node(name).receive([(data, place)], self.now_ns)
        self._settle(self.process(name))


def settle(world: World) -> None:
    """Long enough for all to have met."""
    world.run_for(seconds(1))
