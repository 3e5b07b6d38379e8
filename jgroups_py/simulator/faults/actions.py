"""Faults and traffic as data: timed actions, drawn from a seed, which a runner carries out or leaves out.

Since a plan is a list, a failing seed can be shrunk to the same plan with fewer actions (see shrink.py). An action is
fixed when it is drawn and draws nothing itself, so leaving one out does not change the others. An action that is not
possible at its time (the crash of a member that is not running) does nothing, returns False, and is not counted.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import attrs

from jgroups_py.model.errors import ChannelError
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, NS_PER_S
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import Process

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World

Starter = Callable[[str], object]
NET_NAMES = {LOCAL: "local nets", BRIDGE: "the bridge"}


@attrs.frozen
class Action:
    """An action at `at_ns`. kind: the name under which a run's summary counts it."""

    kind: ClassVar[str] = ""
    at_ns: int

    def do(self, world: World, start: Starter) -> bool:
        """Carry out the action. start: starts the member with a name. Returns whether the action was possible."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.at_ns / NS_PER_S:.3f} s: {self.describe()}"

    def describe(self) -> str:
        """The action as text, without its time."""
        raise NotImplementedError


# --- members ----------------------------------------------------------------------------------------------------------

@attrs.frozen
class Begin(Action):
    """Start a member, or start it again after a crash."""

    kind = "restart"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        old = world.processes.get(self.name)
        if old is not None and old.running:
            return False
        start(self.name)
        return True

    def describe(self) -> str:
        return f"start {self.name}"


@attrs.frozen
class CrashOf(Action):
    """kill -9 of a member. power: its host loses power too."""

    kind = "crash"
    name: str
    power: bool = False

    def do(self, world: World, start: Starter) -> bool:
        if not is_up(world, self.name):
            return False
        world.crash(self.name, power=self.power)
        return True

    def describe(self) -> str:
        return f"crash {self.name}" + (" with its host" if self.power else "")


@attrs.frozen
class Move(Action):
    """kill -9 of a member, which starts again at once under the same name on another host."""

    kind = "restart elsewhere"
    name: str
    host: str

    def do(self, world: World, start: Starter) -> bool:
        if not is_up(world, self.name):
            return False
        world.crash(self.name)
        world.move(self.name, self.host)
        start(self.name)
        return True

    def describe(self) -> str:
        return f"crash {self.name}, start it again on {self.host}"


@attrs.frozen
class CrashOfCoordinator(Action):
    """kill -9 of the coordinator (with RELAY: the relay) of the group that `name` is in."""

    kind = "crash of the coordinator"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        first = relay_of(world, self.name)
        if first is None:
            return False
        world.crash(first.name)
        return True

    def describe(self) -> str:
        return f"crash the coordinator of {self.name}'s group"


@attrs.frozen
class LeaveOf(Action):
    """A member leaves gracefully."""

    kind = "leave"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        if not is_up(world, self.name):
            return False
        world.leave(self.name)
        return True

    def describe(self) -> str:
        return f"{self.name} leaves"


@attrs.frozen
class PauseOf(Action):
    """SIGSTOP of a member for a while."""

    kind = "pause"
    name: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        return is_up(world, self.name) and pause_for(world, world.processes[self.name], self.for_ns)

    def describe(self) -> str:
        return f"pause {self.name} for {self.for_ns / NS_PER_S:.3f} s"


# --- the network ------------------------------------------------------------------------------------------------------

@attrs.frozen
class Split(Action):
    """A symmetric partition for a while, on some nets."""

    kind = "partition"
    groups: tuple[tuple[str, ...], ...]
    for_ns: int
    nets: tuple[int, ...] = (LOCAL, BRIDGE)

    def do(self, world: World, start: Starter) -> bool:
        number = world.partition(self.groups, self.nets)
        world.after(self.for_ns, world.mend_cut, number, self.nets)
        return True

    def describe(self) -> str:
        groups = " | ".join(" ".join(group) for group in self.groups)
        return f"split {groups} for {self.for_ns / NS_PER_S:.3f} s on {show_nets(self.nets)}"


@attrs.frozen
class OneWay(Action):
    """A cut in one direction for a while."""

    kind = "one-way cut"
    src: str
    dest: str
    for_ns: int
    nets: tuple[int, ...] = (LOCAL, BRIDGE)

    def do(self, world: World, start: Starter) -> bool:
        number = world.cut(self.src, self.dest, self.nets)
        world.after(self.for_ns, world.mend_cut, number, self.nets)
        return True

    def describe(self) -> str:
        return f"cut {self.src} -> {self.dest} for {self.for_ns / NS_PER_S:.3f} s on {show_nets(self.nets)}"


@attrs.frozen
class Storm(Action):
    """Bad weather on a whole net for a while."""

    kind = "bad weather"
    weather: Weather
    for_ns: int
    net: int = LOCAL

    def do(self, world: World, start: Starter) -> bool:
        world.set_weather(self.weather, self.net)
        world.after(self.for_ns, world.clear_up, self.net)
        return True

    def describe(self) -> str:
        return f"weather on {NET_NAMES[self.net]} for {self.for_ns / NS_PER_S:.3f} s: {self.weather}"


@attrs.frozen
class Clog(Action):
    """One path becomes very slow for a while."""

    kind = "slow path"
    src: str
    dest: str
    weather: Weather
    for_ns: int
    net: int = LOCAL

    def do(self, world: World, start: Starter) -> bool:
        world.network.set_path_weather(self.src, self.dest, self.net, self.weather)
        world.remark(f"path {self.src} -> {self.dest}: {self.weather}")
        world.after(self.for_ns, world.clear_up, self.net)
        return True

    def describe(self) -> str:
        return (f"path {self.src} -> {self.dest} on {NET_NAMES[self.net]} for {self.for_ns / NS_PER_S:.3f} s: "
                f"{self.weather}")


@attrs.frozen
class Burst(Action):
    """Total loss on one path, one direction, for some milliseconds."""

    kind = "burst of loss"
    src: str
    dest: str
    for_ns: int
    net: int = LOCAL

    def do(self, world: World, start: Starter) -> bool:
        path = world.network.path(self.src, self.dest, self.net)
        path.burst_ns = max(path.burst_ns, world.now_ns + self.for_ns)
        world.remark(f"a burst of loss on {self.src} -> {self.dest}")
        return True

    def describe(self) -> str:
        return (f"all is lost from {self.src} to {self.dest} for {self.for_ns / NS_PER_MS:.1f} ms on "
                f"{NET_NAMES[self.net]}")


# --- traffic ----------------------------------------------------------------------------------------------------------

@attrs.frozen
class SendMessages(Action):
    """A member sends `count` messages in one batch. dest: a name, "": to all."""

    name: str
    dest: str
    count: int
    size: int
    flags: int = 0
    until: tuple[str, ...] = ()          # only with dest "": with receipts of these sites
    topic: str = ""                      # only with dest "": of this topic

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is None or process.paused or (self.dest and not self._is_known(world, process)):
            return False
        try:
            if self.until:
                world.post_until(self.name, self.until, self.count, self.size)
            else:
                world.post(self.name, self.dest or None, self.count, self.size, self.flags, self.topic)
        except ChannelError:
            return False                                  # the member is not in a group
        return True

    def _is_known(self, world: World, process: Process) -> bool:
        """Whether a view of the sender's application has the latest incarnation of `dest`."""
        other = world.processes.get(self.dest)
        views = process.view, process.global_view
        return other is not None and any(view is not None and other.me in view for view in views)

    def describe(self) -> str:
        return f"{self.name} sends {self.count} of {self.size} bytes to {self.dest or 'all'}, flags {self.flags}" + (
            f", until {' '.join(self.until)} have it" if self.until else "") + (
            f", about {self.topic}" if self.topic else "")


@attrs.frozen
class ChangeInterest(Action):
    """An application subscribes to a topic (`on`), or ends its subscription."""

    name: str
    topic: str
    on: bool

    def do(self, world: World, start: Starter) -> bool:
        if not is_up(world, self.name) or world.processes[self.name].paused:
            return False
        (world.subscribe if self.on else world.unsubscribe)(self.name, self.topic)
        return True

    def describe(self) -> str:
        return f"{self.name} {'wants' if self.on else 'does not want'} {self.topic}"


# --- helpers ----------------------------------------------------------------------------------------------------------

def is_up(world: World, name: str) -> bool:
    """Whether the member runs and is not leaving."""
    process = world.processes.get(name)
    return process is not None and process.running and not process.leaving


def relay_of(world: World, name: str) -> Process | None:
    """The coordinator of the group that `name` is in, if it runs."""
    process = world.processes.get(name)
    view = process.view if process is not None and process.running else None
    first = world.by_address[view.coordinator] if view is not None else None
    return first if first is not None and first.running else None


def pause_for(world: World, process: Process, for_ns: int) -> bool:
    """Pause a process for a time, unless it is killed before. Returns False if it was paused already."""
    if process.paused:
        return False
    world.pause(process.name)
    world.after(for_ns, _resume, world, process)
    return True


def _resume(world: World, process: Process) -> None:
    if world.processes[process.name] is process:
        world.resume(process.name)


def show_nets(nets: tuple[int, ...]) -> str:
    """The names of nets, such as "local nets and the bridge"."""
    return " and ".join(NET_NAMES[net] for net in nets)
