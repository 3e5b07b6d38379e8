"""Acceptance cases 9 to 11 of flow control by strategy, on the simulator with its checkers."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.config.load import resolve_bridge
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import Output, SkipMulticasts
from jgroups_py.node.shedding import Shedding
from jgroups_py.protocols.flow import FlowControlConfig
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.profiles import sites
from jgroups_py.simulator.runner import run_seed
from jgroups_py.simulator.world import World, millis, seconds
from tests.simulator.flow_world import MESSAGE, flow_stack, group, pump

SLOW = 1000                                              # messages a second


def skipped(world: World, name: str) -> int:
    me = world.address(name)
    return sum(entry.messages for entry in world.history.entries if isinstance(entry, h.Skipped) and entry.member == me)


def clean(world: World) -> None:
    assert check(world.history) == []


FOUND = {
    47: "a sender with a group minimum size never sent again: a member's tag came before the view in which it counts",
    76: "a member that was given up never counted again: the answer to its last mark was lost, and not requested again",
}
"""Seeds of profile flow that showed bugs: what was wrong (design/track-record.md)."""


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_found_bugs_stay_clean(seed: int) -> None:
    assert run_seed("flow", seed).violations == ()


@pytest.mark.parametrize(("seed", "fc"), [(8, "max,t:1s"), (17, "max,t:1s"), (1, "min"), (2, "min")])
def test_sites_whose_groups_go_by_strategy_hold_what_relay_guarantees(
    seed: int, fc: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 and 17: a sender alone with a silent member waited for it, though it needed no receiver (R5)."""
    def with_flow(*arguments: object) -> StackSpec:
        config = FlowControlConfig(fc=fc, window_bytes=256 << 10)
        spec = site_stack(*arguments)                         # type: ignore[arg-type]
        return attrs.evolve(spec, layers=tuple(
            LayerSpec("FLOW", config) if layer.name == "MFC" else layer for layer in spec.layers))
    site_stack = sites.site_stack
    monkeypatch.setattr(sites, "site_stack", with_flow)
    assert run_seed("relay", seed).violations == ()


def test_a_loss_that_is_not_reported_is_found_by_the_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shedding, "switch", lambda skipping, asked: switch_and_keep_silent(skipping, asked))
    world = group("max", {"A": 0, "F": 0, "S": SLOW})
    pump(world, "A", seconds(1))
    world.run_for(seconds(3))
    world.post("A")
    world.run_for(seconds(1))
    assert {violation.guarantee for violation in check(world.history)} == {"F"}


def switch_and_keep_silent(skipping: Shedding, asked: SkipMulticasts) -> list[Output]:
    if asked.on:
        skipping.gaps.setdefault(asked.sender, {})
    else:
        skipping.gaps.pop(asked.sender, None)
    return []


def test_accept_4_9_min_settles_at_the_slowest_and_loses_nothing() -> None:
    world = group("min", {"A": 0, "F": 0, "S": SLOW})
    pump(world, "A", seconds(3))                         # the backlogs fill
    before = len(world.delivered("F"))
    pump(world, "A", seconds(10))
    rate = (len(world.delivered("F")) - before) / 10
    assert rate == pytest.approx(SLOW, rel=0.05)
    world.run_for(seconds(5))
    assert world.delivered("S") == world.delivered("F")
    assert skipped(world, "S") == 0
    clean(world)


@pytest.mark.parametrize("timeout", ["500ms", "2s", "5s"])
def test_accept_4_9_a_silent_receiver_holds_the_sender_for_its_timeout_and_no_longer(timeout: str) -> None:
    world = group(f"min,t:{timeout}", {"A": 0, "F": 0, "S": SLOW})
    pump(world, "A", seconds(2))
    world.crash("S", power=True)                         # and no failure detector notices: only FLOW does
    died_ns = world.now_ns
    while world.stats("A")["FLOW"].get("receivers_silent", 0) == 0:
        pump(world, "A", millis(10))
        assert world.now_ns - died_ns < seconds(7)
    wanted_ns = {"500ms": millis(500), "2s": seconds(2), "5s": seconds(5)}[timeout]
    assert abs(world.now_ns - died_ns - wanted_ns) <= millis(300)
    before = len(world.delivered("F"))
    pump(world, "A", millis(500))
    assert len(world.delivered("F")) - before > 4 * SLOW // 2


def test_accept_4_9_a_receiver_that_closes_frees_the_sender_at_once() -> None:
    world = group("min", {"A": 0, "F": 0, "S": 100})
    pump(world, "A", seconds(2))
    before = len(world.delivered("F"))
    world.leave("S")
    pump(world, "A", millis(300))
    assert len(world.delivered("F")) - before > 500
    world.run_for(seconds(30))
    clean(world)


def test_accept_4_10_max_does_not_wait_and_reports_the_loss_to_the_slow_receiver() -> None:
    alone = group("max", {"A": 0, "F": 0})
    pump(alone, "A", seconds(1))
    world = group("max", {"A": 0, "F": 0, "S": SLOW})
    sent = pump(world, "A", seconds(1))
    assert len(world.delivered("F")) >= 0.98 * len(alone.delivered("F"))
    world.run_for(seconds(10))
    assert len(world.delivered("F")) == sent
    assert skipped(world, "S") > 0
    assert len(world.delivered("S")) + skipped(world, "S") == sent
    clean(world)


def test_accept_4_10_a_receiver_that_lost_messages_gets_all_that_follow_once_it_has_caught_up() -> None:
    world = group("max", {"A": 0, "F": 0, "S": SLOW})
    pump(world, "A", seconds(1))
    world.run_for(seconds(5))
    lost = skipped(world, "S")
    assert lost > 0
    world.post("A", count=50)
    world.run_for(seconds(2))
    assert world.delivered("S")[-50:] == world.delivered("F")[-50:]
    assert skipped(world, "S") == lost


def test_accept_4_11_a_receiver_without_the_tag_never_slows_the_sender() -> None:
    world = group("tagged,g:1001", {"A": 0, "F": 0, "S": 20}, {"F": "1001"})
    sent = pump(world, "A", seconds(1))
    assert len(world.delivered("F")) > 0.9 * sent > 2 * SLOW
    world.run_for(seconds(20))
    assert len(world.delivered("S")) + skipped(world, "S") == sent
    clean(world)


def test_accept_4_11_not_connected_until_the_third_tagged_receiver_and_again_when_one_leaves() -> None:
    world = World(3)
    for name in "ABCU":
        world.start(name, flow_stack("tagged,g:1001/3", "" if name in "AU" else "1001"))
    world.run_while(lambda: not world.agreed("ABCU"), seconds(10))
    world.post("A", count=5)
    world.run_for(seconds(2))
    assert not world.process("A").connected
    assert world.stats("A")["FLOW"]["receivers"] == 2
    assert world.delivered("U") == []
    world.start("D", flow_stack("tagged,g:1001/3", "1001"))
    world.run_while(lambda: not world.process("A").connected, seconds(10))
    world.run_for(seconds(1))
    assert len(world.delivered("D")) == 5
    world.leave("C")
    world.run_while(lambda: world.process("A").connected, seconds(10))
    limit = world.stats("A")["FLOW"]["limit"]
    world.post("A", count=5)
    world.run_for(seconds(2))
    assert world.stats("A")["FLOW"]["limit"] == limit
    assert len(world.delivered("D")) == 5


def test_a_receiver_that_was_silent_gets_a_report_and_counts_again() -> None:
    world = group("min,t:1s", {"A": 0, "F": 0, "S": 0})
    world.pause("S")
    pump(world, "A", seconds(2))
    assert world.stats("A")["FLOW"]["receivers"] == 1
    world.resume("S")
    world.run_for(seconds(2))
    remarks = [entry.text for entry in world.history.entries if isinstance(entry, h.Remark) and "count" in entry.text]
    assert remarks == ["S#1 hears that it does not count among the receivers of A#1",
                    "S#1 hears that it counts among the receivers of A#1"]
    assert world.stats("A")["FLOW"]["receivers"] == 2
    assert world.delivered("S") == world.delivered("F")
    clean(world)


def test_no_sender_runs_further_ahead_of_a_stack_than_rrwm_windows() -> None:
    world = group("max,rrwm:2,t:30s", {"A": 0, "F": 0, "S": 0})
    world.pause("S")
    pump(world, "A", seconds(2))
    assert len(world.delivered("F")) * MESSAGE <= 2 * (256 << 10)
    world.resume("S")
    world.run_for(seconds(3))
    assert world.delivered("S") == world.delivered("F")
    clean(world)


def test_members_of_other_sites_are_no_receivers() -> None:
    with pytest.raises(ConfigError, match="FLOW in a bridge stack"):
        resolve_bridge("flow", "")
