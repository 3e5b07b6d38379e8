"""Profiles relay and relay-crash: sites of which at most one member at a time is missing."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    CrashOf,
    CrashOfCoordinator,
    LeaveOf,
    OneWay,
    PauseOf,
    Split,
    Storm,
)
from jgroups_py.simulator.profiles.base import Plan, halves, span, storm
from jgroups_py.simulator.profiles.sites import SitesProfile

RELAY_NET_FAULTS = ("bridge split", "bridge one-way", "bridge storm", "storm")
RELAY_FAULTS = ("relay crash", "relay crash", "crash", "leave", "pause", "site split", *RELAY_NET_FAULTS)


class RelayProfile(SitesProfile):
    """Two or three sites of two or three members. At most one member of a site is missing at a time."""

    name = "relay"
    bursts = True
    kinds: tuple[str, ...] = ()          # kinds of fault to draw from; empty: all

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(rng.choice((2, 2, 2, 3)), 2, 3)
        stop_ns = span(rng, 12, 22)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = [kind for kind in self.kinds or RELAY_FAULTS if rng.random() < 0.5]
        faults: list[Action] = []
        first_ns, together = span(rng, 2, 8), rng.random() < 0.5
        for names in sites.values():
            # Half of the seeds hit all sites at nearly the same time, so that failovers at both ends overlap.
            at_ns = first_ns + span(rng, 0, 1.5) if together else span(rng, 2, 9)
            faults += self.member_faults(kinds, names, at_ns, stop_ns)
        net_kinds = [kind for kind in kinds if kind in RELAY_NET_FAULTS]
        if net_kinds:
            faults += [self.net_fault(rng.choice(net_kinds), sites, rng.randrange(seconds(3), stop_ns))
                       for _ in range(rng.randint(1, 4))]
        faults.sort(key=lambda fault: fault.at_ns)
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(20, 60), far_ratio=0.25))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def member_faults(self, kinds: list[str], names: tuple[str, ...], at_ns: int, stop_ns: int) -> list[Action]:
        """Faults of one site's members, far enough apart for the site to recover in between."""
        rng, made = self.rng, list[Action]()
        chosen = [kind for kind in kinds if kind not in RELAY_NET_FAULTS]
        while chosen and at_ns < stop_ns:
            kind, name = rng.choice(chosen), rng.choice(names)
            for_ns = span(rng, 0.2, 9)
            match kind:
                case "relay crash":
                    made.append(CrashOfCoordinator(at_ns, name))
                    made += [Begin(at_ns + for_ns, other) for other in names]
                case "crash":
                    made += [CrashOf(at_ns, name), Begin(at_ns + for_ns, name)]
                case "leave":
                    made += [LeaveOf(at_ns, name), Begin(at_ns + seconds(3) + for_ns, name)]
                case "pause":
                    made.append(PauseOf(at_ns, name, for_ns))
                case "site split":
                    made.append(Split(at_ns, halves(rng, list(names)), for_ns, (LOCAL,)))
            at_ns += for_ns + span(rng, 8, 14)
        return made

    def net_fault(self, kind: str, sites: dict[str, tuple[str, ...]], at_ns: int) -> Action:
        rng = self.rng
        one = rng.choice(self.members)
        other = rng.choice(self.elsewhere(self.site_of[one]))
        match kind:
            case "bridge split":
                away = rng.choice(list(sites))
                return Split(at_ns, (sites[away], self.elsewhere(away)), span(rng, 0.5, 9), (BRIDGE,))
            case "bridge one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, 9), (BRIDGE,))
            case "bridge storm":
                return Storm(at_ns, storm(rng), span(rng, 0.5, 6), BRIDGE)
        return Storm(at_ns, storm(rng), span(rng, 0.5, 3), LOCAL)


class RelayCrashProfile(RelayProfile):
    """Only crashes, and bad weather and cuts on the bridge: at most one member of a site is missing, and none is cut
    off from its own group. So no message may be lost, declared or not."""

    name = "relay-crash"
    lossless = True
    kinds = ("relay crash", "relay crash", "crash", "storm", "bridge split", "bridge one-way", "bridge storm")
