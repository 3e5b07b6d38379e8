"""The attacker on the path keeps datagrams back: some never arrive, some later, by milliseconds or by hours.

Frames of streams are not kept back one by one, as TCP does not go on without them: cuts of the network do that.
"""
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from jgroups_py.model.outputs import Frame
from jgroups_py.model.units import NS_PER_S, millis, seconds

if TYPE_CHECKING:
    from jgroups_py.simulator.process import Process, Socket
    from jgroups_py.simulator.world import World

LATE_NS = (millis(5), millis(300), seconds(3), seconds(40))
MOST_KEPT = 4000                         # frames that are kept for hours


class Withheld:
    """What is kept back until `stop_ns`. ratio: of how many datagrams; lost_ratio: how many of these never arrive."""

    def __init__(self, world: World, rng: Random, ratio: float, lost_ratio: float, stop_ns: int) -> None:
        self.world, self.rng = world, rng
        self.ratio, self.lost_ratio, self.stop_ns = ratio, lost_ratio, stop_ns
        self.kept: list[tuple[Socket, bytes, Frame]] = []

    def takes(self, process: Process, frame: Frame, data: bytes) -> bool:
        """Whether a frame is kept back."""
        own = process.sockets.get(frame.net)
        if own is None or own.stream or self.world.now_ns >= self.stop_ns or self.rng.random() > self.ratio:
            return False
        if self.rng.random() >= self.lost_ratio:
            delay_ns = int(self.rng.choice(LATE_NS) * (0.5 + self.rng.random()))
            self.world.after(delay_ns, self.deliver, own, data, frame)
        if len(self.kept) < MOST_KEPT:
            self.kept.append((own, data, frame))
        return True

    def deliver(self, own: Socket, data: bytes, frame: Frame) -> None:
        """A frame arrives after all, at whoever has its receivers' sockets by now."""
        found = [self.world.sockets.get(frame.to)] if frame.to is not None else \
            [socket for socket in self.world.groups.get(own.group, ()) if socket is not own] if own.group else []
        for socket in found:
            if socket is not None:
                self.world.inject_frame(socket, data, own.physical)

    def deliver_all(self) -> None:
        """All that was ever kept back arrives now, once more where it did already."""
        for own, data, frame in self.kept:
            self.deliver(own, data, frame)


def hours(rng: Random) -> int:
    """A delay of hours, in ns."""
    return rng.randint(3600, 3 * 3600) * NS_PER_S
