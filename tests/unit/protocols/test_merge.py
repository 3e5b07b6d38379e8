"""MERGE3: who disagrees about the view."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import FindMembers, Found, MembersFound, MergeNeeded, ViewChange
from jgroups_py.model.view import View
from jgroups_py.protocols.merge.protocol import SEARCH_NS, Info, Merge, MergeConfig
from jgroups_py.testing.bench import Bench, StubPorts, address, change, multicast, view_of

A, B, C = map(address, "ABC")
PLACE = ("10.0.0.2", 7800)
AB, C1 = view_of("A", "B", counter=3), view_of("C", counter=2)


def member(view: View = AB, *, multicasts: bool = True) -> Bench:
    """A in `view`, one to two seconds between its Infos."""
    above = StubPorts()
    bench = Bench(Merge(MergeConfig(min_interval_ns="1s", max_interval_ns="2s")), above)
    above.view = view
    bench.transport.multicasts = multicasts
    bench.down(change(view))
    return bench


def info(src: str, view: View) -> object:
    """News as it arrives."""
    return multicast(src, headers=(Info(view.id, PLACE),))


def test_a_member_announces_its_view_from_time_to_time() -> None:
    bench = member()
    bench.advance(20_000)
    said = bench.sent_with(Info)
    assert 10 <= len(said) <= 20
    assert {header.view_id for header, _ in said} == {AB.id}


def test_another_view_is_reported_once_after_a_short_wait() -> None:
    bench = member()
    bench.up(info("C", C1))                                        # type: ignore[arg-type]
    assert bench.passed_up(MergeNeeded) == []
    bench.advance(300)
    assert bench.passed_up(MergeNeeded) == [MergeNeeded({C: C1.id})]
    bench.advance(5000)
    assert bench.passed_up(MergeNeeded) == []                           # only news is reported


def test_a_coordinator_that_receives_another_groups_view_announces_its_own_at_once() -> None:
    bench = member()
    bench.up(info("C", C1))                                        # type: ignore[arg-type]
    assert len(bench.sent_with(Info)) == 1


def test_a_member_that_agrees_at_the_time_of_the_check_is_not_reported() -> None:
    bench = member()
    bench.up(info("B", view_of("A", "B", "C", counter=2)))         # type: ignore[arg-type]
    bench.advance(100)
    bench.up(info("B", AB))                                        # type: ignore[arg-type]
    bench.advance(1000)
    assert bench.passed_up(MergeNeeded) == []


def test_without_multicast_only_a_coordinator_asks_and_it_asks_all_members() -> None:
    for view, asks in ((AB, True), (view_of("B", "A"), False)):
        bench = member(view, multicasts=False)
        bench.advance(2000)
        assert bench.sent_with(Info) == []
        searches = bench.passed_down(FindMembers)
        assert bool(searches) == asks
        assert all(search.everyone for search in searches)


def test_without_multicast_a_coordinator_that_takes_over_from_a_failed_one_searches_at_once() -> None:
    before, after = view_of("B", "A", "C", counter=3), view_of("A", "C", counter=4)
    for failed, searches in (((B,), [FindMembers(SEARCH_NS, True)]), ((), [])):             # (): B left as planned
        bench = member(before, multicasts=False)
        bench.stack.find(StubPorts).view = after
        bench.down(ViewChange(after, before, (), (B,), failed))
        assert bench.passed_down(FindMembers) == searches
    bench = member(before)
    bench.stack.find(StubPorts).view = after
    bench.down(ViewChange(after, before, (), (B,), (B,)))
    assert bench.passed_down(FindMembers) == [], "with multicast all members announce their views anyway"


def test_answers_of_discovery_count_as_announcements() -> None:
    bench = member(multicasts=False)
    bench.up(MembersFound((Found(B, PLACE, AB.id, False), Found(C, PLACE, C1.id, True))))
    bench.advance(300)
    assert bench.passed_up(MergeNeeded) == [MergeNeeded({C: C1.id})]


def test_a_minimum_above_the_maximum_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        MergeConfig(min_interval_ns="5s", max_interval_ns="2s")
