"""Copies of a keyed state on the simulator: applications of a group, or copies that talk by a made-up wire."""
from __future__ import annotations

from random import Random

from jgroups_py.blocks.anti_entropy import Replica, Settings
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import millis
from jgroups_py.simulator import World
from jgroups_py.simulator.process import App, Process

ROUND_NS = millis(200)


class Copy(App):
    """A replica on a member: writes are multicast, exchanges are unicasts, nothing is sent again (NO_RELIABILITY)."""

    def joins(self, world: World, process: Process) -> None:
        super().joins(world, process)
        self.replica = Replica(process.me)
        self.rng = Random(process.name)
        world.after(ROUND_NS, self.round)

    def write(self, key: bytes, value: bytes | None) -> None:
        """The application writes."""
        _, message = self.replica.write(key, value, self.world.now_ns)
        self.send(None, message)

    def round(self) -> None:
        """Begin an exchange with a random member."""
        if self.process.running and self.process.view is not None:
            others = [member for member in self.process.view.members if member != self.process.me]
            if others:
                self.send(self.rng.choice(others), self.replica.begin(self.world.now_ns))
        self.world.after(ROUND_NS, self.round)

    def send(self, dest: Address | None, message: bytes) -> None:
        batch = Batch(self.process.me, dest, (message,), (), NO_RELIABILITY)
        try:
            self.world.inject(self.process.name, batch)
        except ChannelError:
            return

    def delivered(self, batch: Batch) -> None:
        if batch.src == self.process.me:
            return
        for payload in batch.payloads:
            _, replies = self.replica.receive(payload, self.world.now_ns)
            for reply in replies:
                self.world.after(0, self.send, batch.src, reply)


def exchange(one: Replica, other: Replica, wall: int = 0, limit: int = 100_000) -> int:
    """Let one begin an exchange and both answer until no message is left; returns how many messages that took."""
    waiting = [(other, one, one.begin(wall))]
    spoken = 0
    while waiting:
        to, sender, message = waiting.pop(0)
        spoken += 1
        assert spoken < limit, "an exchange that does not end"
        _, replies = to.receive(message, wall)
        waiting += [(sender, to, reply) for reply in replies]
    return spoken


def replica(name: str, settings: Settings | None = None) -> Replica:
    """A copy whose writer has this name."""
    return Replica(Address(name.encode().ljust(16, b"\0"), name), settings)
