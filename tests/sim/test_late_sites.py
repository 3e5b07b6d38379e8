"""Sites and members that meet late: whoever relays by then, everything is forwarded that its members multicast.

A member that founded a group of its own and leads the merged one has not heard what the others multicast before. Plans
here are fixed but for what a seed draws: addresses (so who leads), latencies and losses.
"""
from __future__ import annotations

from collections.abc import Iterable

import pytest

from jgroups_py.outputs import LOCAL
from jgroups_py.sim.faults import Action, Begin, Split, Storm, Talk
from jgroups_py.sim.history import Lost, Send
from jgroups_py.sim.network import Weather
from jgroups_py.sim.parts import WHOLE
from jgroups_py.sim.profiles.base import Plan
from jgroups_py.sim.profiles.sites import SitesProfile
from jgroups_py.sim.runner import carry_out, judged
from jgroups_py.sim.world import World
from jgroups_py.units import NS_PER_S, millis, seconds

SAID = 3
LOSSY_SEEDS = (0, 1, 3, 4, 5, 11)      # two founders that merge
LOSSY = Weather(loss_ratio=0.5)


def at(second: float) -> int:
    return int(second * NS_PER_S)


def say(names: Iterable[str], second: float) -> list[Action]:
    """Each of them says something to all."""
    return [Talk(at(second), name, "", SAID, 0) for name in names]


class Late(SitesProfile):
    """NYC is B, C and X; what happens is for its subclasses. All of SFO, and LON, start when NYC is whole again."""

    name = "late meeting"
    sites = {"NYC": ("B", "C", "X"), "SFO": ("D", "E")}

    def make_plan(self) -> Plan:
        self.site_of = {name: site for site, names in self.sites.items() for name in names}
        self.members = list(self.site_of)
        faults, traffic = self.story()
        traffic.sort(key=lambda action: action.at_ns)
        return Plan(self.sites, tuple(faults), tuple(traffic), at(20))

    def story(self) -> tuple[list[Action], list[Action]]:
        raise NotImplementedError

    def apart(self) -> tuple[list[Action], list[Action]]:
        """X starts while it is cut off from B and C, which have talked already."""
        return [Split(at(1.9), (("X",), ("B", "C")), seconds(4), (LOCAL,))], [
            Begin(at(0), "B"), Begin(at(0.2), "C"), *say("BC", 1.5), Begin(at(2), "X"), *say("BCX", 4)]


class FirstMeeting(Late):
    """The other site is there only when all of NYC is one group again."""

    def story(self) -> tuple[list[Action], list[Action]]:
        faults, traffic = self.apart()
        return faults, [*traffic, Begin(at(13), "D"), Begin(at(13.2), "E"), *say("BCX", 17)]


class ThirdSite(Late):
    """NYC and SFO have met before X starts; LON comes when NYC is one group again."""

    sites = {**Late.sites, "LON": ("F", "G")}

    def story(self) -> tuple[list[Action], list[Action]]:
        faults, traffic = self.apart()
        return faults, [*traffic, Begin(at(0.3), "D"), Begin(at(0.4), "E"), Begin(at(13), "F"), Begin(at(13.2), "G"),
                        *say("BCX", 17)]


class LossyStart(Late):
    """Nobody is cut off, but the local nets lose half of all frames when two members start at about one time."""

    sites = {"NYC": ("B", "X"), "SFO": ("D", "E")}

    def story(self) -> tuple[list[Action], list[Action]]:
        together = [Begin(at(0.1), "B"), Begin(at(0.1) + self.rng.randrange(millis(20)), "X")]
        return [Storm(at(0), LOSSY, seconds(4))], [
            *together, *say("BX", 1.5), *say("BX", 3), Begin(at(13), "D"), Begin(at(13.2), "E"), *say("BX", 17)]


def met(setting: Late) -> World:
    """The world after the story. Whatever the checkers find is a failure."""
    world = World(setting.seed)
    carry_out(world, setting, WHOLE)
    assert judged(world, setting) == [], setting.seed
    return world


def said_last(world: World) -> list[bytes]:
    """What was said when all had met."""
    return [payload for entry in world.history.entries if isinstance(entry, Send) and entry.at_ns == at(17)
            for payload in entry.payloads]


def lost(world: World) -> list[Lost]:
    """What is lost between sites. (What the halves of one site had not of each other, a merge tells by its name.)"""
    sites = world.history.sites
    return [entry for entry in world.history.entries
            if isinstance(entry, Lost) and (entry.dest_site is not None or entry.site != sites[entry.who])]


@pytest.mark.parametrize(("kind", "late"), [(FirstMeeting, "DE"), (ThirdSite, "FG")])
def test_a_relay_by_merge_forwards_what_the_others_multicast_to_a_site_that_comes_late(
    kind: type[Late], late: str,
) -> None:
    leads = 0
    for seed in range(8):
        world = met(kind(seed))
        leads += world.view_names("B")[0] == "X"
        for newcomer in late:
            got = world.delivered(newcomer)
            assert len(said_last(world)) == 3 * SAID
            for said in said_last(world):
                assert got.count(said) == 1, (seed, newcomer, said)
        assert lost(world) == [], "what was said before they met was owed to nobody"
    assert 0 < leads < 8, "seeds in which X leads, and others"


def test_members_that_start_together_on_a_lossy_net_merge_and_forward_everything() -> None:
    merges = 0
    for seed in LOSSY_SEEDS:
        world = met(LossyStart(seed))
        merges += any("merges" in line for line in world.history.lines())
        for newcomer in "DE":
            got = world.delivered(newcomer)
            assert len(said_last(world)) == 2 * SAID
            assert all(got.count(said) == 1 for said in said_last(world)), seed
    assert merges == len(LOSSY_SEEDS), "two founders that merge"
