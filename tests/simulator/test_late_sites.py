"""Sites and members that meet late: any relay then forwards everything that its members multicast.

A member that founded a group of its own and leads the merged one has not received what the others multicast before.
Plans here are fixed but for what a seed draws: addresses (so the leader), latencies and losses.
"""
from __future__ import annotations

from collections.abc import Iterable

import pytest

from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, SendMessages, Split, Storm
from jgroups_py.simulator.history import Lost, MessageSent
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.plan_parts import WHOLE
from jgroups_py.simulator.profiles.base import Plan
from jgroups_py.simulator.profiles.sites import SitesProfile
from jgroups_py.simulator.runner import carry_out, judged
from jgroups_py.simulator.world import World

SENT_EACH = 3
LOSSY_SEEDS = (0, 1, 3, 4, 5, 11)      # two founders that merge
LOSSY = Weather(loss_ratio=0.5)


def at(second: float) -> int:
    return int(second * NS_PER_S)


def send_all(names: Iterable[str], second: float) -> list[Action]:
    """Each of them multicasts."""
    return [SendMessages(at(second), name, "", SENT_EACH, 0) for name in names]


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
        """X starts while it is cut off from B and C, which have multicast already."""
        return [Split(at(1.9), (("X",), ("B", "C")), seconds(4), (LOCAL,))], [
            Begin(at(0), "B"), Begin(at(0.2), "C"), *send_all("BC", 1.5), Begin(at(2), "X"), *send_all("BCX", 4)]


class FirstMeeting(Late):
    """The other site is there only when all of NYC is one group again."""

    def story(self) -> tuple[list[Action], list[Action]]:
        faults, traffic = self.apart()
        return faults, [*traffic, Begin(at(13), "D"), Begin(at(13.2), "E"), *send_all("BCX", 17)]


class ThirdSite(Late):
    """NYC and SFO have met before X starts; LON comes when NYC is one group again."""

    sites = {**Late.sites, "LON": ("F", "G")}

    def story(self) -> tuple[list[Action], list[Action]]:
        faults, traffic = self.apart()
        return faults, [*traffic, Begin(at(0.3), "D"), Begin(at(0.4), "E"), Begin(at(13), "F"), Begin(at(13.2), "G"),
                        *send_all("BCX", 17)]


class LossyStart(Late):
    """No member is cut off, but the local nets lose half of all frames when two members start at about one time."""

    sites = {"NYC": ("B", "X"), "SFO": ("D", "E")}

    def story(self) -> tuple[list[Action], list[Action]]:
        together = [Begin(at(0.1), "B"), Begin(at(0.1) + self.rng.randrange(millis(20)), "X")]
        return [Storm(at(0), LOSSY, seconds(4))], [
            *together, *send_all("BX", 1.5), *send_all("BX", 3), Begin(at(13), "D"), Begin(at(13.2), "E"),
            *send_all("BX", 17)]


def met(setting: Late) -> World:
    """The world after the story. Whatever the checkers find is a failure."""
    world = World(setting.seed)
    carry_out(world, setting, WHOLE)
    assert judged(world, setting) == [], setting.seed
    return world


def sent_last(world: World) -> list[bytes]:
    """What was multicast when all had met."""
    return [payload for entry in world.history.entries if isinstance(entry, MessageSent) and entry.at_ns == at(17)
            for payload in entry.payloads]


def lost(world: World) -> list[Lost]:
    """What is lost between sites. (What the halves of a site missed of each other has that site as its site.)"""
    sites = world.history.sites
    return [entry for entry in world.history.entries
            if isinstance(entry, Lost) and (entry.dest_site is not None or entry.site != sites[entry.member])]


@pytest.mark.parametrize(("kind", "late"), [
    (FirstMeeting, "DE"), pytest.param(ThirdSite, "FG", marks=pytest.mark.long)])
def test_a_relay_by_merge_forwards_what_the_others_multicast_to_a_site_that_comes_late(
    kind: type[Late], late: str,
) -> None:
    leads = 0
    for seed in range(8):
        world = met(kind(seed))
        leads += world.view_names("B")[0] == "X"
        for newcomer in late:
            got = world.delivered(newcomer)
            assert len(sent_last(world)) == 3 * SENT_EACH
            for payload in sent_last(world):
                assert got.count(payload) == 1, (seed, newcomer, payload)
        assert lost(world) == [], "what was sent before they met was owed to no member"
    assert 0 < leads < 8, "seeds in which X leads, and others"


def test_members_that_start_together_on_a_lossy_net_merge_and_forward_everything() -> None:
    merges = 0
    for seed in LOSSY_SEEDS:
        world = met(LossyStart(seed))
        merges += any("merges" in line for line in world.history.lines())
        for newcomer in "DE":
            got = world.delivered(newcomer)
            assert len(sent_last(world)) == 2 * SENT_EACH
            assert all(got.count(payload) == 1 for payload in sent_last(world)), seed
    assert merges == len(LOSSY_SEEDS), "two founders that merge"
