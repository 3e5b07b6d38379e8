"""Members of SWIM alone on the virtual network, and what each has reported of the others."""
from __future__ import annotations

import os
from functools import lru_cache

import attrs

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.swim_member import FAILED, JOINED, UPDATED, Member
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.simulator import World
from jgroups_py.simulator import history as h
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.swim import known_by

FULL = bool(os.environ.get("JGROUPS_SWIM_FULL"))
"""Acceptance cases in the size that the issue gives (tox -e swim), not in one for every day."""
PORT = 7946
SEEDS = 3                                # members at which all others join


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
        """Whether all that run list each other as alive."""
        running = self.running()
        wanted = {self.address(name): "alive" for name in running}
        return all({member.address: member.state for member in known_by(self, name)
                    if member.state in ("alive", "suspect")} == wanted for name in running)

    def seen(self, name: str, other: str) -> Member | None:
        """The entry of `other` at `name`."""
        return next((member for member in known_by(self, name) if member.name == other), None)

    def incarnation(self, name: str) -> int:
        """The incarnation of `name`, as it announces it."""
        return int(self.stats(name)["SWIM"]["incarnation"])

    def changes_seen(self, *changes: str, since_ns: int = 0) -> list[h.MembershipChange]:
        """The changes of these kinds that members reported of each other."""
        return [entry for entry in self.history.entries
                if isinstance(entry, h.MembershipChange) and entry.change in changes and entry.at_ns >= since_ns]

    def failures(self, since_ns: int = 0) -> list[h.MembershipChange]:
        """Which members counted which others as failed."""
        return self.changes_seen(FAILED, since_ns=since_ns)

    def times_of(self, name: str, *changes: str, since_ns: int) -> dict[str, float]:
        """Member -> seconds until it first reported this of `name`."""
        found: dict[str, float] = {}
        for entry in self.changes_seen(*changes, since_ns=since_ns):
            if entry.subject.name == name:
                found.setdefault(self.by_address[entry.member].name, (entry.at_ns - since_ns) / NS_PER_S)
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
