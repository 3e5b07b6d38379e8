"""An attacker that has the bridge's keys, as the relay of a site of its own: it speaks of what is not its own.

Its site runs the production core, so the other sites know it; beside that, its relay sends forged headers on the
bridge, in order and reliably. They name other sites, their members and origins, numbers and epochs at the edges, and
sites that do not exist. What a real relay may do to others by dropping and lying about itself is among them.
"""
from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from jgroups_py.model.address import ADDRESS_BYTES, Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.topics import EVERYTHING
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.headers import (
    OFFLINE,
    BaseHeader,
    Forward,
    Goodbye,
    HelloHeader,
    NeedHeader,
    ProbeHeader,
    RefusedHeader,
    SeenHeader,
    SiteInterestHeader,
    SiteUnicast,
    SiteUnicastSeen,
    StandingHeader,
    ViewHeader,
)
from jgroups_py.protocols.relay.headers.receipts import AwaitSettled, Settled
from jgroups_py.protocols.relay.headers.state import StateFailed, StateFetch, StateFixed, StateMore, StatePiece
from jgroups_py.protocols.relay.inbound.site_guard import INTRODUCING

if TYPE_CHECKING:
    from jgroups_py.simulator.process import Process
    from jgroups_py.simulator.world import World

JUMPS = (0, 1, 2, 3, 10, 1000, 1 << 20, (1 << 32) - 1, 1 << 33, 1 << 61)


class SiteAttacker:
    """One relay that lies. kinds: what it forges."""

    def __init__(self, world: World, process: Process, rng: Random) -> None:
        self.world = world
        self.process = process
        self.rng = rng
        self.frames = 0
        self.kinds: dict[str, Callable[[], Header]] = {
            "forward": self.forward, "base": self.base, "hello": self.hello, "view": self.view, "seen": self.seen,
            "need": self.need, "probe": self.probe, "goodbye": self.goodbye, "refused": self.refused,
            "standing": self.standing, "interest": self.interest, "unicast": self.unicast,
            "unicast seen": self.unicast_seen, "receipts": self.receipts, "states": self.states,
        }

    def strike(self, kind: str, count: int) -> None:
        """Send so many headers of a kind, each to one relay of another site."""
        relay, bridge = self.process.node.relay, self.process.node.bridge
        if not isinstance(relay, Relay) or bridge is None or relay.bridge_link.view is None or self.process.paused:
            return
        others = [member for member in relay.bridge_link.view.members if member != bridge.me]
        for _ in range(count if others and self.process.running else 0):
            header = self.kinds[kind]()
            dest = self.rng.choice(others)
            if isinstance(header, INTRODUCING) and not self.may_introduce_itself(dest):
                continue
            payloads = (b"forged",) if isinstance(header, Forward | SiteUnicast | StatePiece) else ()
            self.frames += 1
            self.world.inject_bridge(self.process, Batch(bridge.me, dest, payloads, (header,), 0))

    def may_introduce_itself(self, dest: Address) -> bool:
        """Whether this relay may name any site in a first header to another one. Without certificates it would be
        believed, which is a limit that is documented (design/encrypt.md, Sites), and nothing that follows is judged."""
        bridge = self.process.node.bridge
        relay = next((process.node.relay for process in self.world.processes.values()
                      if process.node.bridge is not None and process.node.bridge.me == dest), None)
        return self.world.authority == "x509" or bridge is None or not isinstance(relay, Relay) or \
            relay.site_guard.site_of(bridge.me) is not None

    # --- what is drawn ------------------------------------------------------------------------------------------------

    def site(self) -> str:
        """A site: mostly another one, sometimes its own, sometimes one that does not exist."""
        draw = self.rng.random()
        if draw < 0.2:
            return self.process.site
        if draw < 0.3:
            return f"X{self.rng.randrange(1000)}"
        return self.rng.choice(sorted({process.site: None for process in self.world.all_processes}))

    def member(self, site: str | None = None) -> Address:
        """An incarnation of a member at a site, or at any; sometimes one that does not exist."""
        known = [process.me for process in self.world.all_processes if site in (None, process.site)]
        if not known or self.rng.random() < 0.1:
            return Address(self.rng.randbytes(ADDRESS_BYTES), "X")
        return self.rng.choice(known)

    def epoch(self) -> ViewId:
        """An epoch: of some group, or above it."""
        views = [process.view for process in self.world.processes.values() if process.view is not None]
        if not views:
            return ViewId(1, self.member())
        found = self.rng.choice(views).id
        return found if self.rng.random() < 0.6 else ViewId(found.counter + self.rng.choice(JUMPS), self.member())

    def own_epoch(self) -> ViewId:
        """The epoch of its own site, so that nothing else is wrong with a header."""
        view = self.process.view
        return view.id if view is not None and self.rng.random() < 0.7 else self.epoch()

    def number(self) -> int:
        """A number: near those in use, or at an edge."""
        return 1 + self.rng.randrange(30) + self.rng.choice(JUMPS) * (self.rng.random() < 0.4)

    def numbers(self) -> dict[Address, int]:
        """Numbers of some origins."""
        return {self.member(): self.number() for _ in range(self.rng.choice((1, 1, 2, 4)))}

    # --- what is forged -----------------------------------------------------------------------------------------------

    def forward(self) -> Header:
        """Messages, mostly in its own name, of origins that mostly are not its own."""
        site = self.process.site if self.rng.random() < 0.7 else self.site()
        return Forward(site, self.own_epoch(), self.member(), self.number(), self.number(), 0)

    def base(self) -> Header:
        site = self.process.site if self.rng.random() < 0.7 else self.site()
        return BaseHeader(site, self.own_epoch(), self.numbers(), self.numbers())

    def hello(self) -> Header:
        seen = {self.site(): self.numbers() for _ in range(self.rng.choice((0, 1, 2)))}
        return HelloHeader(self.site(), self.own_epoch(), seen, self.rng.random() < 0.5)

    def view(self) -> Header:
        members = tuple({self.member(): None for _ in range(self.rng.choice((0, 1, 2, 3)))})
        return ViewHeader(self.site(), self.own_epoch(), members)

    def seen(self) -> Header:
        return SeenHeader(self.numbers())

    def need(self) -> Header:
        return NeedHeader(self.numbers())

    def probe(self) -> Header:
        return ProbeHeader(self.numbers())

    def goodbye(self) -> Header:
        site = self.site()                                   # of its own site that would be the truth of a lie
        other = site if site != self.process.site else "NYC"
        return Goodbye(other, self.epoch(), True, self.rng.random() < 0.7)

    def refused(self) -> Header:
        return RefusedHeader(self.epoch(), None if self.rng.random() < 0.7 else self.member())

    def standing(self) -> Header:
        return StandingHeader(self.site(), self.own_epoch(), OFFLINE, self.rng.random() < 0.5, False)

    def interest(self) -> Header:
        return SiteInterestHeader(EVERYTHING)

    def unicast(self) -> Header:
        """A unicast in the name of another site's member, or one that this relay cannot be asked to send on."""
        return SiteUnicast(self.member(), self.process.site if self.rng.random() < 0.7 else self.site(), self.member(),
                           self.site(), self.number(), 1, 0, self.own_epoch())

    def unicast_seen(self) -> Header:
        """Acknowledges what was sent to others, or denies that they are there."""
        origin = self.rng.choice(self.world.all_processes)
        return SiteUnicastSeen(origin.me, origin.site, self.member(), self.number(), self.rng.random() < 0.5)

    def receipts(self) -> Header:
        if self.rng.random() < 0.5:
            return AwaitSettled(self.numbers())
        return Settled(self.epoch(), self.numbers(), {self.member(): ((1, self.number() + 1),)})

    def states(self) -> Header:
        key = self.member(), self.rng.randrange(3)
        return self.rng.choice((
            lambda: StateFetch(*key, self.member(), {}, 10**9), lambda: StateFixed(*key, {}),
            lambda: StatePiece(*key, True, ""), lambda: StateMore(*key, 1 << 40),
            lambda: StateFailed(*key, "forged", True)))()
