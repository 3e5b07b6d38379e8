"""Profile large: messages of megabytes, in fragments, while views change and relays fail."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, millis, seconds
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    CrashOf,
    CrashOfCoordinator,
    LeaveOf,
    SendMessages,
    Split,
    Storm,
)
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("relay crash", "relay crash", "crash", "leave", "join", "site split", "bridge split", "storm")
SIZES = (100_000, 1_000_000, 3_000_000, 5_000_000, 8_000_000)


class LargeProfile(SitesProfile):
    """Two sites of two or three members (rarely three sites); few messages, most of them large, and each under way
    during a fault."""

    name = "large"
    bursts = True
    splits = True
    reaches = ("failovers", "large messages delivered far")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.settings = (("lost_after_ns", seconds(8)), ("split_grace_ns", seconds(10)))
        sites = self.draw_sites(rng.choice((2, 2, 2, 3)), 2, 3)
        kinds = [kind for kind in KINDS if rng.random() < 0.4] or ["relay crash"]
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        faults: list[Action] = []
        traffic: list[Action] = []
        at_ns = span(rng, 3, 5)
        for _ in range(rng.randint(1, 3)):
            site = rng.choice(list(sites))
            for_ns = span(rng, 0.5, 6)
            faults += self.trouble(rng.choice(kinds), site, at_ns, for_ns)
            # The message is sent just before the fault, or in the time until members detect it and change the view.
            sent_ns = at_ns + (span(rng, -0.15, 0.05) if rng.random() < 0.7 else span(rng, 0, 7))
            traffic += [self.large(sent_ns), *self.draw_messages([], at_ns, 4, far_ratio=0.2)]
            at_ns += for_ns + span(rng, 6, 10)
        stop_ns = at_ns + span(rng, 0, 2)
        return Plan(sites, in_order(faults), in_order([*begins, *traffic]), stop_ns)

    def large(self, at_ns: int) -> SendMessages:
        """A large message: to all, with a receipt or without, or to one member."""
        rng = self.rng
        dest = rng.choice(self.members) if rng.random() < 0.25 else ""
        until = () if dest or rng.random() < 0.7 else ("*",)
        return SendMessages(at_ns, rng.choice(self.members), dest, 1, rng.choice(SIZES), until=until)

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        sent = super().draw_message(at_ns, far_ratio)
        return sent if sent.size < SIZES[0] else self.large(at_ns)

    def trouble(self, kind: str, site: str, at_ns: int, for_ns: int) -> list[Action]:
        """The faults of a site; they are over after `for_ns`."""
        rng, names = self.rng, self.sites[site]
        name = rng.choice(names)
        match kind:
            case "relay crash":
                return [CrashOfCoordinator(at_ns, name), *(Begin(at_ns + for_ns, other) for other in names)]
            case "crash":
                return [CrashOf(at_ns, name), Begin(at_ns + for_ns, name)]
            case "leave":
                return [LeaveOf(at_ns, name), Begin(at_ns + seconds(3) + for_ns, name)]
            case "join":
                return [CrashOf(at_ns - seconds(2), name), Begin(at_ns, name)]
            case "site split":
                mixed = rng.sample(names, len(names))
                return [Split(at_ns, (tuple(mixed[:1]), tuple(mixed[1:])), for_ns + seconds(3), (LOCAL,))]
            case "bridge split":
                return [Split(at_ns, (names, self.elsewhere(site)), for_ns, (BRIDGE,))]
        weather = Weather(loss_ratio=rng.choice((0.02, 0.1, 0.2)), jitter_ns=rng.choice((1, 5)) * NS_PER_MS)
        return [Storm(at_ns, weather, min(for_ns, seconds(3)), rng.choice((LOCAL, BRIDGE)))]
