"""Faults that aim at relays, whoever they are at the moment."""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.outputs import BRIDGE, LOCAL
from jgroups_py.sim.faults import Action, Starter, is_up, pause_for, relay_of
from jgroups_py.units import NS_PER_S, seconds

if TYPE_CHECKING:
    from jgroups_py.sim.world import World

ORDER_NS = seconds(4)                    # how long a drain may take


@attrs.frozen
class PauseOfFirst(Action):
    """SIGSTOP of whoever is the relay of the site that `name` is in."""

    kind = "pause of the relay"
    name: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        return first is not None and not first.leaving and pause_for(world, first, self.for_ns)

    def words(self) -> str:
        return f"pause the coordinator of {self.name}'s group for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class LeaveOfFirst(Action):
    """Graceful leave of whoever is the relay of the site that `name` is in."""

    kind = "leave of the relay"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        if first is None or first.leaving:
            return False
        world.leave(first.name)
        return True

    def words(self) -> str:
        return f"the coordinator of {self.name}'s group leaves"


@attrs.frozen
class PlannedStop(Action):
    """All members of a site leave, one after the other, the relay last; for good, if other sites are to forget it."""

    kind = "planned stop of a site"
    names: tuple[str, ...]
    apart_ns: int
    forget: bool

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.names[0])
        last = None if first is None else first.name
        names = sorted((name for name in self.names if is_up(world, name)), key=lambda name: name == last)
        for at, name in enumerate(names):
            world.after(at * self.apart_ns, self._leave, world, name)
        return bool(names)

    def _leave(self, world: World, name: str) -> None:
        if is_up(world, name):
            world.leave(name, forget=self.forget)

    def words(self) -> str:
        how = "leave for good" if self.forget else "leave"
        return f"{' '.join(self.names)} {how}, {self.apart_ns / NS_PER_S:.3f} s apart"


@attrs.frozen
class MuteFirst(Action):
    """Nothing of what the relay of `name`'s site says arrives in its own group, for a while; it hears all."""

    kind = "mute relay"
    name: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        if first is None or first.view is None:
            return False
        for member in first.view.members:
            if member != first.me:
                world.after(self.for_ns, world.mend_cut, world.cut(first.name, member.name, (LOCAL,)), (LOCAL,))
        return True

    def words(self) -> str:
        return f"nothing of the coordinator of {self.name}'s group arrives there for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class Flapping(Action):
    """The bridge of a site comes and goes: `times` cuts of `down_ns`, with `up_ns` in between."""

    kind = "flapping bridge"
    names: tuple[str, ...]
    others: tuple[str, ...]
    times: int
    down_ns: int
    up_ns: int

    def do(self, world: World, start: Starter) -> bool:
        for turn in range(self.times):
            world.after(turn * (self.down_ns + self.up_ns), self._down, world)
        return True

    def _down(self, world: World) -> None:
        number = world.partition((self.names, self.others), (BRIDGE,))
        world.after(self.down_ns, world.mend_cut, number, (BRIDGE,))

    def words(self) -> str:
        return (f"{self.times} times cut the bridge of {' '.join(self.names)} for {self.down_ns / NS_PER_S:.3f} s, "
                f"{self.up_ns / NS_PER_S:.3f} s apart")


@attrs.frozen
class OperatorOrder(Action):
    """An operator at a member orders a site offline, drained or held for; later, at all members of its site, online."""

    kind = "order of an operator"
    name: str
    verb: str
    site: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is None or not process.running or process.view is None:
            return False
        world.order(self.name, self.verb, self.site, ORDER_NS)
        world.after(self.for_ns, self._back, world, process.site)
        return True

    def _back(self, world: World, site: str) -> None:
        for name, process in list(world.processes.items()):
            if process.site == site and process.running:
                world.order(name, "online", self.site)

    def words(self) -> str:
        return f"{self.verb} {self.site} by order at {self.name}, online {self.for_ns / NS_PER_S:.3f} s later"
