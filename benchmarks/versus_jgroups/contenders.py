"""Who is measured: each contender makes the commands that start the members of its groups."""
from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Protocol
from xml.etree.ElementTree import Element

import attrs

from benchmarks.versus_jgroups import artifacts, stacks

SITES = ("NYC", "SFO")
ONE_GROUP_SUITES = ("multicast", "request")
FIRST_PORT, PORT_STEP, LAST_PORT = 21000, 20, 31000     # below the ports that the system gives to who asks for any


@attrs.frozen
class Ground:
    """The places of one trial's groups: a folder for files, a place for each site, one for the bridge."""

    folder: Path
    cluster: str
    sites: dict[str, stacks.Place]
    bridge: stacks.Place


class Contender(Protocol):
    """One column of the table."""

    @property
    def label(self) -> str: ...

    @property
    def ours(self) -> bool: ...

    @property
    def batches(self) -> bool:
        """Whether it has a way of its own for messages in batches."""

    def suits(self, suite: str) -> bool:
        """Whether it takes part in a suite."""

    def member(self, ground: Ground, name: str, site: str, relay: bool) -> list[str]:
        """The command that runs one member."""


@attrs.frozen
class Java:
    """A release of JGroups with one of its stock stacks."""

    release: artifacts.Release
    transport: str
    jar: Path
    classes: Path
    heap: str = "512m"                                   # "" for Java's default
    tuned: bool = True
    relay: str = ""                                      # how sites are joined; "": as is usual for the release
    ordered: bool = False                                # SEQUENCER below FRAG2: one order of all multicasts
    ours: bool = False
    batches: bool = True                                 # what it receives; it has none for sending

    @property
    def label(self) -> str:
        if self.relay:
            return f"{self.release.label} {self.relay}"
        stock = "" if self.tuned or not stacks.tuning(self.release.major, self.transport) else " stock"
        return f"{self.release.label} {self.transport.upper()}{stock}{' SEQUENCER' if self.ordered else ''}"

    def suits(self, suite: str) -> bool:
        """Two sites are measured with the tuned UDP stack inside a site."""
        return suite in ONE_GROUP_SUITES or (self.tuned and self.transport == "udp")

    def member(self, ground: Ground, name: str, site: str, relay: bool) -> list[str]:
        """The command; writes the stack file first."""
        stack = stacks.written(self._stack(ground, site, relay), ground.folder / f"{name}.xml")
        heap = [f"-Xms{self.heap}", f"-Xmx{self.heap}"] if self.heap else []
        return ["java", *heap, "-Djava.net.preferIPv4Stack=true", f"-Djgroups.bind_addr={stacks.LOOPBACK}",
                "-cp", f"{self.jar}:{self.classes}", "Driver", str(stack), f"{ground.cluster}-{site}", name]

    def _stack(self, ground: Ground, site: str, relay: bool) -> Element:
        group = self._file(self.transport, ground.sites[site])
        if self.ordered:
            tags = [protocol.tag for protocol in group]
            group.insert(tags.index("FRAG2"), Element("SEQUENCER"))      # where the jar's sequencer.xml has it
        if not relay:
            return group
        bridge = stacks.written(self._file("tcp", ground.bridge), ground.folder / f"bridge-{site}.xml")
        relay_name = self.relay or stacks.usual_relay(self.release.major)
        return stacks.relay_stack(relay_name, group, site, list(SITES), bridge, ground.folder)

    def _file(self, transport: str, place: stacks.Place) -> Element:
        root = stacks.flattened(f"{transport}.xml", stacks.jar_files(self.jar))
        return stacks.changed(root, stacks.changes(self.release.major, transport, place, self.tuned))


@attrs.frozen
class Ours:
    """jgroups_py with one of its packaged stacks.

    piece: messages that a flood in batches hands to the channel at once; event_loop: the member is an AsyncChannel on
    that of this package, and coroutines send and make requests, not threads.
    """

    transport: str
    piece: int = 64
    event_loop: str = ""
    properties: tuple[tuple[str, str], ...] = ()         # beyond those of the place
    named: str = ""                                      # instead of the usual label
    ordered: bool = False                                # the stack with TOTAL: one order of all multicasts
    ours: bool = True

    @property
    def label(self) -> str:
        return self.named or (f"jgroups_py {self.transport.upper()}{f' {self.event_loop}' if self.event_loop else ''}"
                              f"{' TOTAL' if self.ordered else ''}")

    @property
    def batches(self) -> bool:
        """Coroutines are measured one by one."""
        return not self.event_loop

    def suits(self, suite: str) -> bool:
        """Coroutines send on asyncio, and make requests on uvloop too."""
        if self.event_loop:
            return suite == "request" or (suite == "multicast" and self.event_loop == "asyncio")
        return suite in ONE_GROUP_SUITES or self.transport == "udp"

    def member(self, ground: Ground, name: str, site: str, relay: bool) -> list[str]:
        """The command. This is all that knows how our side is started."""
        place = ground.sites[site]
        properties = {"mcast_addr": place.mcast_addr, "mcast_port": place.mcast_port}
        if self.transport == "tcp":
            properties = {"bind_port": place.port, "port_range": place.ports - 1,
                          "initial_hosts": f"{stacks.LOOPBACK}[{place.port}]"}
        if relay:
            properties |= {"site": site, "bridge_name": f"{ground.cluster}-bridge", "bridge_port": ground.bridge.port,
                           "bridge_port_range": ground.bridge.ports,
                           "bridge_hosts": f"{stacks.LOOPBACK}[{ground.bridge.port}]"}
        properties |= dict(self.properties)
        stack = {"NYC": "nyc", "SFO": "sfo"}[site] if relay else f"{self.transport}{'-total' if self.ordered else ''}"
        kind = self.event_loop or "threads"
        return [sys.executable, "-m", "benchmarks.versus_jgroups.peer", kind, stack, f"{ground.cluster}-{site}", name,
                str(self.piece), *(f"{key}={value}" for key, value in properties.items())]


class Grounds:
    """Hands out places that nobody uses: every trial has its own, so that nothing of the one before disturbs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._port = FIRST_PORT

    def take(self) -> Ground:
        """The places of the next trial."""
        self._number += 1
        folder = self._folder / f"{self._number:04}"
        folder.mkdir()
        places = [self._place(i) for i in range(len(SITES) + 1)]
        return Ground(folder, f"versus{self._number}", dict(zip(SITES, places, strict=False)), places[-1])

    def _place(self, which: int) -> stacks.Place:
        while not all(is_free(port) for port in range(self._port, self._port + stacks.BRIDGE_PORTS)):
            self._step()
        port = self._port
        self._step()
        return stacks.Place(f"239.8.{10 + which}.{self._number % 250 + 1}", port, port)

    def _step(self) -> None:
        self._port = self._port + PORT_STEP if self._port + PORT_STEP < LAST_PORT else FIRST_PORT


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        try:
            probe.bind((stacks.LOOPBACK, port))
            datagrams.bind((stacks.LOOPBACK, port))
        except OSError:
            return False
    return True
