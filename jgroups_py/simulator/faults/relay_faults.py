"""Faults of the members that are relays at the time of the fault."""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.simulator.faults.actions import Action, Starter, is_up, pause_for, relay_of

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World

ORDER_NS = seconds(4)                    # timeout of an order


@attrs.frozen
class PauseOfRelay(Action):
    """SIGSTOP of the relay of the site that `name` is in."""

    kind = "pause of the relay"
    name: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        return first is not None and not first.leaving and pause_for(world, first, self.for_ns)

    def describe(self) -> str:
        return f"pause the coordinator of {self.name}'s group for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class LeaveOfRelay(Action):
    """Graceful leave of the relay of the site that `name` is in."""

    kind = "leave of the relay"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        if first is None or first.leaving:
            return False
        world.leave(first.name)
        return True

    def describe(self) -> str:
        return f"the coordinator of {self.name}'s group leaves"


@attrs.frozen
class PlannedStop(Action):
    """All members of a site leave, one by one, the relay last. forget: other sites then hold nothing for it."""

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

    def describe(self) -> str:
        how = "leave for good" if self.forget else "leave"
        return f"{' '.join(self.names)} {how}, {self.apart_ns / NS_PER_S:.3f} s apart"


@attrs.frozen
class MuteRelay(Action):
    """Cut all paths from the relay of `name`'s site to its own group for a while; it still receives."""

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

    def describe(self) -> str:
        return f"nothing of the coordinator of {self.name}'s group arrives there for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class Flapping(Action):
    """The bridge of a site flaps: `times` cuts of `down_ns`, with `up_ns` in between."""

    kind = "flapping bridge"
    names: tuple[str, ...]
    others: tuple[str, ...]
    times: int
    down_ns: int
    up_ns: int

    def do(self, world: World, start: Starter) -> bool:
        for turn in range(self.times):
            world.after(turn * (self.down_ns + self.up_ns), self._down, world, world.heal_count)
        return True

    def _down(self, world: World, heal_count: int) -> None:
        if world.heal_count > heal_count:
            return                                   # all faults have healed since, the cuts to come as well
        number = world.partition((self.names, self.others), (BRIDGE,))
        world.after(self.down_ns, world.mend_cut, number, (BRIDGE,))

    def describe(self) -> str:
        return (f"{self.times} times cut the bridge of {' '.join(self.names)} for {self.down_ns / NS_PER_S:.3f} s, "
                f"{self.up_ns / NS_PER_S:.3f} s apart")


@attrs.frozen
class OperatorOrder(Action):
    """An operator's order at a member: offline, drain or hold; later "online" at all members of its site."""

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

    def describe(self) -> str:
        return f"{self.verb} {self.site} by order at {self.name}, online {self.for_ns / NS_PER_S:.3f} s later"


@attrs.frozen
class LateOrder(Action):
    """An order `hold` for `site`, given to a member that is cut off from its relay; then `online`, given to the relay;
    then the cut ends.

    The cut is shorter than failure detection takes, so the view does not change. The member repeats its order until it
    is answered, so the order arrives after the later one that replaced it.
    """

    kind = "late order"
    names: tuple[str, ...]
    site: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.names[0])
        if first is None or first.leaving:
            return False
        name = next((name for name in self.names if name != first.name and is_up(world, name)), None)
        if name is None:
            return False
        rest = tuple(other for other in self.names if other != name)
        number = world.partition(((name,), rest), (LOCAL,))
        world.order(name, "hold", self.site, ORDER_NS)
        world.after(self.for_ns // 2, self._online, world, first.name)
        world.after(self.for_ns, world.mend_cut, number, (LOCAL,))
        return True

    def _online(self, world: World, relay: str) -> None:
        if is_up(world, relay):
            world.order(relay, "online", self.site)

    def describe(self) -> str:
        return (f"hold {self.site} by order at a member of {' '.join(self.names)} that is cut off for "
                f"{self.for_ns / NS_PER_S:.3f} s; online at the relay meanwhile")
