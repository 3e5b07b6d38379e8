"""FD_SOCK's connections on the virtual network.

A crash breaks a process's links at once: the peer detects it after one latency, later if the path is cut (TCP
retransmits until it heals), never if the whole host lost power. A connection attempt is refused where no process
listens, times out where the path is cut, and waits while the listener's process is paused, since the process sends the
greeting. A graceful close is reported to the peer as one.

Links are not sealed, so an attacker on the path can end them, refuse attempts and answer them itself (`Tampering`).
"""
from __future__ import annotations

from collections.abc import Callable
from random import Random

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.events import LinkDown, LinkUp, Listening
from jgroups_py.model.outputs import Listen, OpenLink
from jgroups_py.simulator.network import Network, refusal_of
from jgroups_py.simulator.ports import DevicePort
from jgroups_py.simulator.process import Process

RETRY_NS = 50_000_000                    # poll interval while a path is cut or a listener paused


class Listener:
    """A listener of one stack of a process."""

    def __init__(self, process: Process, net: int, physical: PhysicalAddress, me: Address) -> None:
        self.process = process
        self.net = net
        self.physical = physical
        self.me = me


class VirtualLink:
    """A connection from `process` to `listener`; up once the greeting has arrived."""

    def __init__(self, process: Process, net: int, number: int, to: PhysicalAddress, give_up_ns: int) -> None:
        self.process = process
        self.net = net
        self.number = number
        self.to = to
        self.give_up_ns = give_up_ns
        self.listener: Listener | None = None


class Tampering:
    """What an attacker on the path does to links until `until_ns`: with probability `ratio` to each attempt to connect.

    A link is broken, or ended by a goodbye that its peer never said; an attempt is refused, or answered by a process
    that greets with another address.
    """

    def __init__(self, rng: Random, ratio: float, until_ns: int) -> None:
        self.rng, self.ratio, self.until_ns = rng, ratio, until_ns
        self.done = dict.fromkeys(("broken", "goodbye", "refused", "impostor"), 0)

    def chosen(self, *kinds: str) -> str:
        """One of the kinds, or "": this link is left alone."""
        if self.rng.random() >= self.ratio:
            return ""
        kind = self.rng.choice(kinds)
        self.done[kind] += 1
        return kind


class VirtualLinks:
    """All listeners and connections of a world."""

    def __init__(self, world: DevicePort, network: Network, name_at: Callable[[str], str]) -> None:
        """name_at: the process at an IP address."""
        self.world = world
        self.network = network
        self.name_at = name_at
        self.listeners: dict[PhysicalAddress, Listener] = {}
        self.links: dict[tuple[Process, int, int], VirtualLink] = {}
        self.dark: dict[str, None] = {}                  # hosts without power: no answer, no refusal
        self.tampering: Tampering | None = None

    def listen(self, process: Process, asked: Listen, me: Address) -> None:
        """Open a listener, and report its place to the node."""
        ports = range(asked.port, asked.port + asked.port_range + 1) if asked.port else (self.world.free_port(),)
        for port in ports:
            physical = (process.host, port)
            if physical not in self.listeners:
                self.listeners[physical] = Listener(process, asked.net, physical, me)
                self.world.after(self.world.tick_ns, self.world.notify, process, Listening(physical), asked.net)
                return
        self.world.remark(f"{process.incarnation} finds no free port to listen on")

    def open(self, process: Process, asked: OpenLink) -> None:
        """Try to connect."""
        link = VirtualLink(process, asked.net, asked.link, asked.to, self.world.now_ns + asked.timeout_ns)
        self.links[process, asked.net, asked.link] = link
        self.world.after(self._latency(process.host, asked.net), self._try, link)

    def _try(self, link: VirtualLink) -> None:
        if self.links.get((link.process, link.net, link.number)) is not link:
            return                                       # closed meanwhile
        if refusal_of(link.to):
            return self._down(link, refused=False)
        reachable = self._reachable(link)
        if reachable and (kind := self._tampered("refused", "impostor")):
            if kind == "refused":
                return self._down(link, refused=True)
            assert self.tampering is not None, "it has chosen"
            return self._up(link, LinkUp(link.number, self.tampering.rng.randbytes(ADDRESS_BYTES)))
        listener = self.listeners.get(link.to) if reachable else None
        if reachable and listener is None:
            self._down(link, refused=True)
        elif listener is not None and not listener.process.paused:
            link.listener = listener
            up = LinkUp(link.number, listener.me.raw)
            self.world.after(self._latency(link.process.host, link.net), self._up, link, up)
        elif self.world.now_ns >= link.give_up_ns:
            self._down(link, refused=False)
        else:
            self.world.after(RETRY_NS, self._try, link)
        return None

    def _up(self, link: VirtualLink, up: LinkUp) -> None:
        if self.links.get((link.process, link.net, link.number)) is link:
            self.world.notify(link.process, up, link.net)

    def _down(self, link: VirtualLink, *, refused: bool, graceful: bool = False) -> None:
        if self.links.pop((link.process, link.net, link.number), None) is link:
            self.world.notify(link.process, LinkDown(link.number, refused, graceful), link.net)

    def tamper(self, tampering: Tampering) -> None:
        """An attacker ends links that stand, and does something to attempts from now on."""
        self.tampering = tampering
        for link in list(self.links.values()):
            if link.listener is not None and (kind := self._tampered("broken", "goodbye")):
                self._down(link, refused=False, graceful=kind == "goodbye")

    def _tampered(self, *kinds: str) -> str:
        """What is done to a link now; "": nothing."""
        if self.tampering is None or self.world.now_ns >= self.tampering.until_ns:
            return ""
        return self.tampering.chosen(*kinds)

    def close(self, process: Process, net: int, number: int) -> None:
        """Close a link from the side that opened it."""
        self.links.pop((process, net, number), None)

    def stop_listening(self, process: Process, net: int, *, graceful: bool) -> None:
        """Close the listener of one stack, and with it the links to it."""
        gone = [at for at, listener in self.listeners.items() if listener.process is process and listener.net == net]
        for at in gone:
            del self.listeners[at]
        for key in [key for key in self.links if key[0] is process and key[1] == net]:
            del self.links[key]
        for link in list(self.links.values()):
            if link.listener is not None and link.listener.process is process and link.listener.net == net:
                self.world.after(self._latency(process.host, net), self._break, link, graceful)

    def _break(self, link: VirtualLink, graceful: bool) -> None:
        """Report a broken link once the path is there; a dark host never reports."""
        if self.links.get((link.process, link.net, link.number)) is not link:
            return
        assert link.listener is not None
        if link.listener.process.host in self.dark:
            return
        if self._reachable(link):
            self._down(link, refused=False, graceful=graceful)
        else:
            self.world.after(RETRY_NS, self._break, link, graceful)

    def _reachable(self, link: VirtualLink) -> bool:
        if link.to[0] in self.dark:
            return False
        other = self.name_at(link.to[0])
        network, name = self.network, link.process.name
        return not (network.is_cut(name, other, link.net) or network.is_cut(other, name, link.net))

    def _latency(self, host: str, net: int) -> int:
        return self.network.fair[net].latency_ns
