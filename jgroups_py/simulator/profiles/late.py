"""Profile late: sites and members that start at any time, cut off or with heavy loss."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, SendMessages, Split, Storm
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("late member", "late member", "founder", "loss", "quick restart", "merge", "late bridge")
SENDING_NS = seconds(12)                 # members send this long after a site has started


class LateProfile(SitesProfile):
    """Two or three sites of one to four members. Each site but the first starts at the same time, soon, or minutes
    later; its members start together, late, cut off, or with heavy loss on the local net; some restart at once under
    their names. So several members of a site form groups of their own, which merge before, while and after they
    discover another site."""

    name = "late"
    bursts = True
    splits = True
    reaches = ("sites met late", "relays by a merge", "merged sites", "failovers")

    def make_plan(self) -> Plan:
        rng = self.rng
        if rng.random() < 0.8:
            self.settings = (("lost_after_ns", span(rng, 2, 6)), ("split_grace_ns", span(rng, 4, 10)),
                             ("site_down_after_ns", span(rng, 2, 10)))
        sites = self.draw_sites(rng.choice((2, 2, 3)), 1, 4)
        kinds = [kind for kind in KINDS if rng.random() < 0.5] or ["founder"]
        opens = {site: 0 if number == 0 else self.opening() for number, site in enumerate(sites)}
        faults: list[Action] = []
        begins: list[Action] = []
        for site, names in sites.items():
            for name in names:
                begins.append(Begin(self.start_of(name, kinds, opens[site], faults), name))
            faults += self.troubles(site, kinds, opens)
        last_ns = max(action.at_ns for action in (*begins, *faults, *(Begin(at_ns, "") for at_ns in opens.values())))
        stop_ns = last_ns + span(rng, 6, 14)
        meetings = [*opens.values(), *(action.at_ns for action in begins)]
        messages: list[Action] = [*self.draw_messages([], stop_ns, rng.randint(10, 30), far_ratio=0.2)]
        for at_ns in dict.fromkeys(meetings):
            messages += [self.draw_message(at_ns + rng.randrange(SENDING_NS), far_ratio=0.1)
                         for _ in range(rng.randint(2, 10))]
        messages += [SendMessages(stop_ns - rng.randrange(1, seconds(3)), name, "", 1, 0) for name in self.members]
        return Plan(sites, in_order(faults), in_order([*begins, *messages]), stop_ns)

    def opening(self) -> int:
        """When a further site starts."""
        rng = self.rng
        return rng.choice((0, span(rng, 0, 3), span(rng, 5, 20), span(rng, 20, 60), span(rng, 60, 150)))

    def start_of(self, name: str, kinds: list[str], open_ns: int, faults: list[Action]) -> int:
        """When a member starts; its faults until then are added to `faults`."""
        rng, site = self.rng, self.site_of[name]
        rest = tuple(other for other in self.sites[site] if other != name)
        at_ns = open_ns + rng.randrange(millis(500))
        if "late member" in kinds and rng.random() < 0.5:
            at_ns += span(rng, 1, 25)
        if rest and "founder" in kinds and rng.random() < 0.5:
            faults.append(Split(max(0, at_ns - millis(10)), ((name,), rest), span(rng, 0.5, 6), (LOCAL,)))
        return at_ns

    def troubles(self, site: str, kinds: list[str], opens: dict[str, int]) -> list[Action]:
        """The faults of a site around the times at which sites start."""
        rng, names = self.rng, self.sites[site]
        made: list[Action] = []
        around_ns = max(opens[site], rng.choice(list(opens.values())))
        if "loss" in kinds:
            made.append(Storm(max(0, around_ns - millis(100)), lossy(0.05, 0.4, self), span(rng, 0.5, 4), LOCAL))
        if "quick restart" in kinds:
            for _ in range(rng.randint(1, 3)):
                at_ns, name = around_ns + span(rng, 1, 12), rng.choice(names)
                made += [Storm(at_ns - millis(200), lossy(0.05, 0.3, self), span(rng, 0.3, 2), LOCAL),
                         CrashOf(at_ns, name), Begin(at_ns + rng.randrange(millis(100)), name)]
        if "merge" in kinds and len(names) > 1:
            mixed, for_ns = rng.sample(names, len(names)), span(rng, 2, 9)
            first = rng.randint(1, len(mixed) - 1)
            at_ns = max(seconds(1), around_ns + span(rng, -12, 2))
            made.append(Split(at_ns, (tuple(mixed[:first]), tuple(mixed[first:])), for_ns, (LOCAL,)))
        if "late bridge" in kinds:
            for_ns = around_ns - opens[site] + span(rng, 0.5, 8)
            made.append(Split(opens[site], (names, self.elsewhere(site)), for_ns, (BRIDGE,)))
        return made


def lossy(least: float, most: float, profile: SitesProfile) -> Weather:
    """A local net with a loss ratio between `least` and `most`."""
    return Weather(loss_ratio=profile.rng.uniform(least, most), jitter_ns=profile.rng.choice((0, 1, 5)) * NS_PER_MS)
