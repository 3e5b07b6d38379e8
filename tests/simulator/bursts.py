"""Bursts: several faults within milliseconds of each other, so that they fall into the middle of view changes.

Harder on membership than profile `group`, whose faults are spread over seconds: up to twelve members, UDP or TCP,
loss up to 30 % until all heals, splits into two and three parts, one-way cuts, crashes and leaves of coordinators.
"""
from __future__ import annotations

from collections.abc import Callable
from random import Random

from jgroups_py.config.load import load
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.world import World

REST_LIMIT_NS = seconds(60)
KINDS = ("crash", "crash", "crash first", "leave", "leave first", "pause", "split", "split three", "one-way", "start",
         "mend", "nothing")


class Bursts:
    """One seed: `violations` after `run`."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"{seed}/bursts")
        self.world = World(seed)
        self.names = [f"M{number}" for number in range(rng.choice((3, 4, 5, 6, 8, 10, 12)))]
        tcp = rng.random() < 0.35
        hosts = ",".join(f"{self.world.ip(name)}[7800]" for name in self.names)
        self.spec = load("tcp", {"initial_hosts": hosts, "port_range": "0"}) if tcp else load("udp", {})
        if not tcp:
            loss, jitter_ns = rng.choice((0, 0, 0.01, 0.1, 0.3)), rng.choice((0, millis(1), millis(5)))
            self.world.set_weather(Weather(loss_ratio=loss, jitter_ns=jitter_ns))
        self.kinds = [kind for kind in KINDS if rng.random() < 0.6] or ["crash", "start"]
        self.faults: dict[str, Callable[[], None]] = {
            "crash": lambda: self.crash(self.any_member()), "crash first": lambda: self.crash(self.first()),
            "leave": lambda: self.leave(self.any_member()), "leave first": lambda: self.leave(self.first()),
            "pause": self.pause, "split": lambda: self.split(2), "split three": lambda: self.split(3),
            "one-way": self.one_way, "start": self.start_some, "mend": self.world.mend, "nothing": lambda: None,
        }

    def run(self) -> list[str]:
        """The whole run; what the checkers find."""
        rng, world = self.rng, self.world
        within_ns = millis(rng.choice((1, 50, 500)))
        for name in self.names:
            if rng.random() < 0.8:
                world.after(rng.randrange(within_ns), world.start, name, self.spec)
        world.run_for(millis(rng.choice((600, 1500, 2500))))
        for _ in range(rng.randint(3, 9)):
            self.burst()
            world.run_for(rng.randrange(rng.choice((millis(50), millis(600), seconds(3), seconds(9)))))
        self.heal()
        return [str(found) for found in check(world.history)]

    def burst(self) -> None:
        for _ in range(self.rng.randint(1, 5)):
            self.faults[self.rng.choice(self.kinds)]()
            self.talk(0.35)
            self.world.run_for(self.rng.randrange(self.rng.choice((millis(1), millis(3), millis(20), millis(100)))))

    def heal(self) -> None:
        """Nothing fails any more: all must come together in one view and receive each other's messages."""
        world = self.world
        world.heal()
        for name in world.processes:
            world.resume(name)
        if not self.live():
            world.run_while(lambda: bool(world.running()), seconds(5))
            world.start(self.names[0], self.spec)
        self.start_some()
        world.history.add(h.Healed(world.now_ns))
        world.run_while(lambda: not (self.live() == world.running() and world.agreed(self.live())), REST_LIMIT_NS)
        self.talk(1)
        world.run_for(seconds(2))
        world.history.add(h.End(world.now_ns, {
            world.address(name): world.node(name).pending_bytes() for name in self.live()}))

    # --- members ---------------------------------------------------------------------------------------------------

    def live(self) -> list[str]:
        """The members that run and do not leave."""
        return [name for name in self.world.running() if not self.world.process(name).leaving]

    def awake(self) -> list[str]:
        return [name for name in self.live() if not self.world.process(name).paused]

    def any_member(self) -> str | None:
        awake = self.awake()
        return self.rng.choice(awake) if len(awake) > 1 else None

    def first(self) -> str | None:
        """The coordinator of some member's view, if it is awake."""
        views = [names for name in self.awake() if (names := self.world.view_names(name))]
        name = self.rng.choice(views)[0] if views else None
        return name if name in self.awake() and len(self.awake()) > 1 else self.any_member()

    # --- what ------------------------------------------------------------------------------------------------------

    def crash(self, name: str | None) -> None:
        if name is not None:
            self.world.crash(name, power=self.rng.random() < 0.15)

    def leave(self, name: str | None) -> None:
        if name is not None:
            self.world.leave(name)

    def pause(self) -> None:
        name = self.any_member()
        if name is not None:
            self.world.pause(name)
            self.world.after(self.rng.randrange(seconds(9)), self.world.resume, name)

    def split(self, parts: int) -> None:
        names = self.rng.sample(self.names, len(self.names))
        self.world.partition([names[part::parts] for part in range(parts)])

    def one_way(self) -> None:
        self.world.cut(*self.rng.sample(self.names, 2))

    def start_some(self) -> None:
        for name in self.names:
            if name not in self.world.running() and self.rng.random() < 0.5:
                self.world.start(name, self.spec)

    def talk(self, ratio: float) -> None:
        for name in self.awake():
            if self.world.view_of(name) is not None and self.rng.random() < ratio:
                self.world.post(name, count=self.rng.choice((1, 3)))
