"""Profile wan: sites with long, lossy paths between them, for the whole run."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, Split
from jgroups_py.simulator.faults.relay_faults import Flapping, PauseOfRelay
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("relay crash", "relay crash", "crash", "pause", "bridge split", "flapping", "late bridge")


class WanProfile(SitesProfile):
    """Two or three sites of two or three members; the bridge takes 40 to 400 ms one way, with jitter, loss and little
    bandwidth, even after healing. Relays fail meanwhile, one member of a site at a time."""

    name = "wan"
    bursts = True
    reaches = ("failovers", "messages replayed", "sites DOWN")

    def make_plan(self) -> Plan:
        rng = self.rng
        latency_ns = span(rng, 0.04, 0.4)
        self.weather = {BRIDGE: Weather(
            latency_ns=latency_ns, jitter_ns=int(latency_ns * rng.choice((0.02, 0.2, 0.5))),
            loss_ratio=rng.choice((0.0, 0.0, 0.002, 0.01, 0.03)), duplicate_ratio=rng.choice((0.0, 0.0, 0.02)),
            bytes_per_s=rng.choice((0, 300_000, 1_000_000, 10_000_000)))}
        sites = self.draw_sites(rng.choice((2, 2, 3)), 2, 3)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = [kind for kind in KINDS if rng.random() < 0.4]
        stop_ns = span(rng, 14, 26)
        faults: list[Action] = []
        for site, names in sites.items():
            if "late bridge" in kinds and rng.random() < 0.5:
                faults.append(Split(0, (names, self.elsewhere(site)), span(rng, 2, 10), (BRIDGE,)))
            at_ns = span(rng, 4, 12)
            while kinds and at_ns < stop_ns:
                for_ns = span(rng, 0.5, 8)
                faults += self.trouble(rng.choice(kinds), site, at_ns, for_ns)
                at_ns += for_ns + span(rng, 8, 14)
        faults = [fault for fault in faults if fault.at_ns < stop_ns]
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(30, 60), far_ratio=0.25))
        return Plan(sites, in_order(faults), traffic, stop_ns)

    def trouble(self, kind: str, site: str, at_ns: int, for_ns: int) -> list[Action]:
        """The faults of a site; they are over after `for_ns`."""
        rng, names, others = self.rng, self.sites[site], self.elsewhere(site)
        match kind:
            case "relay crash":
                return [CrashOfCoordinator(at_ns, names[0]), *(Begin(at_ns + for_ns, name) for name in names)]
            case "crash":
                name = rng.choice(names)
                return [CrashOf(at_ns, name), Begin(at_ns + for_ns, name)]
            case "pause":
                return [PauseOfRelay(at_ns, names[0], for_ns)]
            case "bridge split":
                return [Split(at_ns, (names, others), for_ns, (BRIDGE,))]
            case "flapping":
                return [Flapping(at_ns, names, others, rng.randint(2, 5), span(rng, 0.05, 1.5), span(rng, 0.05, 2))]
        return []
