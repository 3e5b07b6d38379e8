"""States are counted from hand-made histories."""
from __future__ import annotations

from jgroups_py.sim import history as h
from jgroups_py.sim.coverage import Coverage
from jgroups_py.units import seconds
from tests.sim.tale import Tale


def test_a_failover_is_a_view_without_the_coordinator_before() -> None:
    tale = Tale(NYC="ABC", SFO="DEF")
    tale.group(1, "ABC")
    tale.group(1, "DEF")
    tale.crash("B")
    tale.group(2, "AC")
    assert not Coverage(tale.history).counts["failovers"]
    tale.crash("A")
    tale.install(tale.view(3, "C"), "C")
    assert Coverage(tale.history).counts["failovers"] == 1


def test_failovers_overlap_if_one_begins_before_the_other_is_obeyed() -> None:
    tale = Tale(NYC="ABC", SFO="DEF")
    tale.group(1, "ABC")
    tale.group(1, "DEF")
    tale.crash("A")
    tale.group(2, "BC")
    tale.crash("D")
    tale.group(2, "EF")
    counts = Coverage(tale.history).counts
    assert counts["overlapping failovers at two sites"] == 1
    assert counts["overlapping failovers at one site"] == 0


def test_a_relay_that_dies_before_it_is_obeyed_overlaps_at_one_site() -> None:
    tale = Tale(NYC="ABC", SFO="DEF")
    tale.group(1, "ABC")
    tale.crash("A")
    tale.group(2, "BC")
    tale.crash("B")
    tale.install(tale.view(3, "C"), "C")
    assert Coverage(tale.history).counts["overlapping failovers at one site"] == 1


def test_halves_of_a_site_are_a_split_until_they_merge() -> None:
    tale = Tale(NYC="ABC", SFO="DEF")
    tale.group(1, "ABC")
    half, other = tale.group(2, "AB"), tale.install(tale.view(2, "C"), "C")
    assert Coverage(tale.history).counts["splits"] == 1
    tale.install(tale.view(3, "ABC", (half, other)), "ABC")
    counts = Coverage(tale.history).counts
    assert counts["merged sites"] == counts["excluded members merged back"] == 1
    assert counts["halves that both relayed"] == 0


def test_the_death_of_the_last_member_is_the_death_of_the_site() -> None:
    tale = Tale(NYC="AB", SFO="D")
    tale.crash("A")
    assert not Coverage(tale.history).counts["sites that died as a whole"]
    tale.crash("B")
    assert Coverage(tale.history).counts["sites that died as a whole"] == 1


def test_a_site_is_back_only_from_offline() -> None:
    tale = Tale(NYC="A", SFO="D")
    for status in ("UP", "DOWN", "UP", "OFFLINE", "UP"):
        tale.history.add(h.SiteStatus(tale.tick() + seconds(1), tale.who["A"], "SFO", status))
        tale.at_ns += seconds(1)
    counts = Coverage(tale.history).counts
    assert (counts["sites DOWN"], counts["sites OFFLINE"], counts["sites back from OFFLINE"]) == (1, 1, 1)
