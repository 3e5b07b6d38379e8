"""Profile split-brain: a site splits, both halves relay, one of them is fenced, and they merge."""
from __future__ import annotations

from typing import ClassVar

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, Split, Storm
from jgroups_py.simulator.profiles.base import Plan, halves, span, storm
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("relay crash", "half crash", "bridge of a half", "bridge storm")
SPLIT_LIMIT_S = 16.0                     # shorter than split_grace, so that a split alone loses nothing


class SplitBrainProfile(SitesProfile):
    """Two or three sites of three to five members; the first one splits, some seconds later perhaps another one."""

    name = "split-brain"
    bursts = True
    settings = (("lost_after_ns", seconds(SPLIT_LIMIT_S + 2)),)
    splits = True
    reaches: ClassVar[tuple[str, ...]] = (
        "splits", "halves that both relayed", "refused epochs", "merged sites", "views raised above a fence",
        "failovers in a half", "messages replayed: more than 50 at once")

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(rng.choice((2, 2, 3)), 3, 5)
        kinds = [kind for kind in KINDS if rng.random() < 0.35]
        self.lossless = not {"relay crash", "half crash"}.intersection(kinds)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        faults: list[Action] = []
        at_ns = stop_ns = span(rng, 3, 7)
        for names in rng.sample(list(sites.values()), rng.choice((1, 1, 2))):
            for_ns = span(rng, 4, SPLIT_LIMIT_S)
            faults += self.split(names, at_ns, for_ns, kinds)
            stop_ns = max(stop_ns, at_ns + for_ns)
            at_ns += span(rng, 0, 12)
        stop_ns += span(rng, -1, 6)
        if "bridge storm" in kinds:
            faults += [Storm(rng.randrange(seconds(3), stop_ns), storm(rng), span(rng, 0.5, 5), BRIDGE)]
        faults = sorted((fault for fault in faults if fault.at_ns < stop_ns), key=lambda fault: fault.at_ns)
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(40, 80), far_ratio=0.2))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def split(self, names: tuple[str, ...], at_ns: int, for_ns: int, kinds: list[str]) -> list[Action]:
        """A split of a site, and faults of its halves meanwhile."""
        rng = self.rng
        parts = halves(rng, list(names))
        made: list[Action] = [Split(at_ns, parts, for_ns, (LOCAL,))]
        half = rng.choice(parts)
        others = tuple(name for name in self.members if name not in half)
        later_ns = at_ns + span(rng, 0, for_ns / seconds(1))
        if "bridge of a half" in kinds:
            made.append(Split(rng.choice((at_ns, later_ns)), (half, others), span(rng, 1, for_ns / seconds(1)),
                              (BRIDGE,)))
        if "half crash" in kinds:
            made += [CrashOf(later_ns, name) for name in half]
            made += [Begin(later_ns + span(rng, 0.5, 12), name) for name in half]
        if "relay crash" in kinds:
            back_ns = later_ns + span(rng, 0.5, 9)
            made += [CrashOfCoordinator(later_ns, rng.choice(half)), *(Begin(back_ns, name) for name in names)]
        return made
