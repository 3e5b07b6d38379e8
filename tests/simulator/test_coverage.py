"""States are counted from hand-made histories."""
from __future__ import annotations

from jgroups_py.model.units import seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.coverage import Coverage
from tests.simulator.history_writer import HistoryWriter


def test_a_failover_is_a_view_without_the_coordinator_before() -> None:
    writer = HistoryWriter(NYC="ABC", SFO="DEF")
    writer.group(1, "ABC")
    writer.group(1, "DEF")
    writer.crash("B")
    writer.group(2, "AC")
    assert not Coverage(writer.history).counts["failovers"]
    writer.crash("A")
    writer.install(writer.view(3, "C"), "C")
    assert Coverage(writer.history).counts["failovers"] == 1


def test_failovers_overlap_if_one_begins_before_the_other_is_obeyed() -> None:
    writer = HistoryWriter(NYC="ABC", SFO="DEF")
    writer.group(1, "ABC")
    writer.group(1, "DEF")
    writer.crash("A")
    writer.group(2, "BC")
    writer.crash("D")
    writer.group(2, "EF")
    counts = Coverage(writer.history).counts
    assert counts["overlapping failovers at two sites"] == 1
    assert counts["overlapping failovers at one site"] == 0


def test_a_relay_that_dies_before_it_is_obeyed_overlaps_at_one_site() -> None:
    writer = HistoryWriter(NYC="ABC", SFO="DEF")
    writer.group(1, "ABC")
    writer.crash("A")
    writer.group(2, "BC")
    writer.crash("B")
    writer.install(writer.view(3, "C"), "C")
    assert Coverage(writer.history).counts["overlapping failovers at one site"] == 1


def test_halves_of_a_site_are_a_split_until_they_merge() -> None:
    writer = HistoryWriter(NYC="ABC", SFO="DEF")
    writer.group(1, "ABC")
    half, other = writer.group(2, "AB"), writer.install(writer.view(2, "C"), "C")
    assert Coverage(writer.history).counts["splits"] == 1
    writer.install(writer.view(3, "ABC", (half, other)), "ABC")
    counts = Coverage(writer.history).counts
    assert counts["merged sites"] == counts["excluded members merged back"] == 1
    assert counts["halves that both relayed"] == 0


def test_the_death_of_the_last_member_is_the_death_of_the_site() -> None:
    writer = HistoryWriter(NYC="AB", SFO="D")
    writer.crash("A")
    assert not Coverage(writer.history).counts["sites that died as a whole"]
    writer.crash("B")
    assert Coverage(writer.history).counts["sites that died as a whole"] == 1


def test_a_site_is_back_only_from_offline() -> None:
    writer = HistoryWriter(NYC="A", SFO="D")
    for status in ("UP", "DOWN", "UP", "OFFLINE", "UP"):
        writer.history.add(h.SiteStatusSeen(writer.tick() + seconds(1), writer.addresses["A"], "SFO", status))
        writer.at_ns += seconds(1)
    counts = Coverage(writer.history).counts
    assert (counts["sites DOWN"], counts["sites OFFLINE"], counts["sites back from OFFLINE"]) == (1, 1, 1)
