"""Members of SWIM alone on the virtual network, and what each has heard of the others."""
from __future__ import annotations

import os
from functools import lru_cache

import attrs

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.members import FAILED, JOINED, UPDATED, Member
from jgroups_py.outputs import LOCAL
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.sim import World
from jgroups_py.sim import history as h
from jgroups_py.sim.network import Weather
from jgroups_py.sim.profiles.swim import known_by
from jgroups_py.units import NS_PER_S, seconds

FULL = bool(os.environ.get("JGROUPS_SWIM_FULL"))
"""Acceptance cases in the size that the issue gives (tox -e swim), not in one for every day."""
PORT = 7946
SEEDS = 3                                # members that everybody asks to be taken in


@lru_cache(maxsize=256)
def alone(hosts: str, config: SwimConfig) -> StackSpec:
    """The shipped stack `membership` with SWIM set otherwise."""
    spec = load("membership", {"initial_hosts": hosts, "port_range": "0"})
    seeds = spec.config_of("SWIM").initial_hosts
    layers = tuple(attrs.evolve(layer, config=attrs.evolve(config, initial_hosts=seeds))
                   if layer.name == "SWIM" else layer for layer in spec.layers)
    return attrs.evolve(spec, layers=layers)


class SwimWorld(World):
    """`count` members m0, m1, ... with one configuration."""

    def __init__(self, count: int, config: SwimConfig | None = None, *, seed: int = 1, loss: float = 0.0) -> None:
        super().__init__(seed, weather={LOCAL: Weather(loss_ratio=loss)})
        self.config = config or SwimConfig()
        self.members = [f"m{number}" for number in range(count)]
        self.hosts = ",".join(f"{self.ip(name)}[{PORT}]" for name in self.members[:SEEDS])
        for name in self.members:
            self.begin(name)
        assert self.run_while(lambda: not self.settled(), seconds(60)), "all meet all"

    def begin(self, name: str) -> None:
        """Start a member, or start it again."""
        self.start(name, alone(self.hosts, self.config))

    def settled(self) -> bool:
        """Whether all who run know each other for alive."""
        running = self.running()
        wanted = {self.address(name): "alive" for name in running}
        return all({member.address: member.state for member in known_by(self, name)
                    if member.state in ("alive", "suspect")} == wanted for name in running)

    def seen(self, name: str, other: str) -> Member | None:
        """What `name` knows of `other`."""
        return next((member for member in known_by(self, name) if member.name == other), None)

    def incarnation(self, name: str) -> int:
        """What `name` says its incarnation is."""
        return int(self.stats(name)["SWIM"]["incarnation"])

    def heard(self, *changes: str, since_ns: int = 0) -> list[h.MemberSaid]:
        """What members heard of each other, of these kinds."""
        return [entry for entry in self.history.entries
                if isinstance(entry, h.MemberSaid) and entry.change in changes and entry.at_ns >= since_ns]

    def failures(self, since_ns: int = 0) -> list[h.MemberSaid]:
        """Who held whom for failed."""
        return self.heard(FAILED, since_ns=since_ns)

    def times_of(self, name: str, *changes: str, since_ns: int) -> dict[str, float]:
        """Member -> seconds until it first heard this of `name`."""
        found: dict[str, float] = {}
        for entry in self.heard(*changes, since_ns=since_ns):
            if entry.member.name == name:
                found.setdefault(self.by_address[entry.who].name, (entry.at_ns - since_ns) / NS_PER_S)
        return found

    def join_times(self, name: str, since_ns: int) -> dict[str, float]:
        """Member -> seconds until it knew of this start of `name`."""
        return self.times_of(name, JOINED, UPDATED, since_ns=since_ns)

    def isolate(self, name: str) -> None:
        """Nothing gets to a member or away from it, until `mend`."""
        for other in self.members:
            if other != name:
                self.network.cut(name, other)
                self.network.cut(other, name)

    def drop_datagrams(self, src: str, dest: str) -> None:
        """From now on no datagram gets from `src` to `dest`; connections do."""
        self.network.set_path_weather(src, dest, LOCAL, Weather(loss_ratio=1.0))
