"""Profile standby: relays end while members next in line wait on the bridge, which fail as well."""
from __future__ import annotations

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, millis
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, OneWay, PauseOf, Split
from jgroups_py.simulator.faults.relay_faults import Flapping, LeaveOfRelay, PauseOfRelay
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, halves, in_order, span, stack
from jgroups_py.simulator.profiles.sites import SitesProfile
from jgroups_py.simulator.world import World

KINDS = ("relay crash", "relay host", "relay leaves", "slow relay", "standby", "slow standby", "standby cut off",
         "both", "both sites", "site split", "flapping")


class StandbyProfile(SitesProfile):
    """Two or three sites of three or four members, of which the first two in order start first: mostly they are relay
    and standby. A long way between the sites in half of the seeds; a bridge by UDP in a third; in a third some members
    have no standby, as those of earlier versions."""

    name = "standby"
    bursts = True
    splits = True
    reaches = ("failovers", "standbys that took over", "overlapping failovers at two sites", "merged sites")

    def make_plan(self) -> Plan:
        rng = self.rng
        latency_ns = span(rng, 0.002, rng.choice((0.005, 0.2)))
        self.weather = {BRIDGE: Weather(latency_ns=latency_ns, jitter_ns=int(latency_ns * rng.choice((0.05, 0.3))))}
        sites = self.draw_sites(rng.choice((2, 2, 3)), 3, 4)
        self.by_udp = rng.random() < 0.33
        self.without = [name for name in self.members if rng.random() < 0.4] if rng.random() < 0.33 else []
        begins = [Begin(rng.randrange(millis(300)) + 400 * NS_PER_MS * at, name)
                  for names in sites.values() for at, name in enumerate(names)]
        kinds = [kind for kind in KINDS if rng.random() < 0.4] or ["relay crash"]
        stop_ns = span(rng, 14, 24)
        faults: list[Action] = []
        for site, names in sites.items():
            at_ns = span(rng, 4, 7)
            while at_ns < stop_ns:
                for_ns = span(rng, 0.2, 6)
                faults += self.trouble(rng.choice(kinds), site, names, at_ns, for_ns)
                at_ns += for_ns + span(rng, 5, 10)
        faults = [fault for fault in faults if fault.at_ns < stop_ns]
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(30, 70), far_ratio=0.25))
        return Plan(sites, in_order(faults), traffic, stop_ns)

    def trouble(self, kind: str, site: str, names: tuple[str, ...], at_ns: int, for_ns: int) -> list[Action]:
        """The faults of a site; they are over after `for_ns`."""
        rng, others = self.rng, self.elsewhere(site)
        relay, standby = names[0], names[1]
        back = [Begin(at_ns + for_ns, name) for name in names]
        match kind:
            case "relay crash":
                return [CrashOfCoordinator(at_ns, relay), *back]
            case "relay host":
                return [CrashOf(at_ns, relay, power=True), *back]
            case "relay leaves":
                return [LeaveOfRelay(at_ns, relay), *back]
            case "slow relay":                           # now shorter and now longer than until it is excluded
                return [PauseOfRelay(at_ns, relay, span(rng, 0.2, 3))]
            case "standby":
                return [CrashOf(at_ns, standby, power=rng.random() < 0.5), *back]
            case "slow standby":
                return [PauseOf(at_ns, standby, span(rng, 0.2, 6)), CrashOfCoordinator(at_ns + for_ns // 2, relay),
                        *back]
            case "standby cut off":                      # from some relays, before it becomes one
                away = Split(at_ns, ((standby,), tuple(rng.sample(others, rng.randint(1, len(others))))), for_ns,
                             (BRIDGE,)) if rng.random() < 0.5 else \
                    OneWay(at_ns, standby, rng.choice(others), for_ns, (BRIDGE,))
                return [away, CrashOfCoordinator(at_ns + for_ns // 2, relay), *back]
            case "both":
                return [CrashOfCoordinator(at_ns, relay), CrashOfCoordinator(at_ns + span(rng, 0, 0.6), relay), *back]
            case "both sites":                           # their relays end while this site's standby takes over
                other = rng.choice(others)
                return [CrashOfCoordinator(at_ns, relay), CrashOfCoordinator(at_ns + span(rng, 0, 0.4), other), *back,
                        *(Begin(at_ns + for_ns, name) for name in self.sites[self.site_of[other]])]
            case "site split":                           # each half has a relay and a standby; they merge
                return [Split(at_ns, halves(rng, list(names)), for_ns, (LOCAL,))]
            case "flapping":
                return [Flapping(at_ns, names, others, rng.randint(2, 3), span(rng, 0.05, 1.5), span(rng, 0.05, 2)),
                        CrashOfCoordinator(at_ns + span(rng, 0, 1.5), relay), *back]
        raise AssertionError(kind)

    def start(self, world: World, name: str) -> Process:
        self.settings = (("standby", name not in self.without),)
        return super().start(world, name)

    def bridge_stack(self, hosts: str) -> StackSpec:
        if self.by_udp:
            return stack("udp", (("mcast_port", "45699"),))
        return super().bridge_stack(hosts)
