"""TOTAL with large messages among small ones, losses, and a receiver that takes nothing for a minute: one order, and
bounded memory (case 6)."""
from __future__ import annotations

from collections.abc import Callable
from typing import cast

import attrs
import pytest

from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.flow.fc import parse_fc
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.total import Total
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Facts, check, order
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.world import World

SENDERS = "ABC"
LARGE, SMALL = 1_000_000, 100
CREDITS = 1 << 20                          # a receiver's, of a sender
BACKLOG = 1 << 20                          # a channel keeps so much back before its senders wait
SENT_S, ASLEEP_S = 5, 60
STEP_NS = millis(250)
SLEEPY, AWAKE = 1, 1_000_000               # messages a second of a receiver that is asleep, and that is not


def undetected(changed: Callable[[LayerSpec], LayerSpec]) -> StackSpec:
    """stacks/udp-total.xml with `changed` in place of MFC, and without failure detectors, so that only flow control
    sees a member that takes nothing."""
    return load([changed(layer) if layer.name == "MFC" else layer for layer in load("udp-total").layers
                 if layer.name not in ("FD_SOCK", "FD_ALL", "VERIFY_SUSPECT")])


def with_mfc() -> StackSpec:
    """Credits: the slowest member limits the senders."""
    return undetected(lambda layer: attrs.evolve(layer, config=attrs.evolve(layer.config, max_credits_bytes=CREDITS)))


def with_max() -> StackSpec:
    """FLOW max: the fastest member limits the senders, and a slower application loses messages."""
    return undetected(lambda _: LayerSpec("FLOW", FlowControlConfig(fc=parse_fc("max"), window_bytes=CREDITS)))


def kept(world: World, name: str) -> float:
    """Payload bytes that TOTAL of a member keeps without a place."""
    return cast(Total, world.node(name).local.find(Total)).stats()["unplaced_bytes"]


def flood(spec: StackSpec, sleeper: str = "") -> tuple[World, float]:
    """All send large messages among small ones over a bad network. sleeper: takes nothing for ASLEEP_S, in which the
    others go on. Returns the most bytes that a member has kept without a place at a time."""
    world, names = World(6), (*SENDERS, *sleeper)
    for name in names:
        world.start(name, spec)
        world.run_while(lambda: not world.agreed(world.running()), seconds(10))
    assert world.agreed(names)
    world.set_weather(Weather(loss_ratio=0.1))
    if sleeper:
        world.processes[sleeper].app.rate = SLEEPY
    most, number, ends_ns = 0.0, 0, world.now_ns + seconds(ASLEEP_S if sleeper else SENT_S)
    while world.now_ns < ends_ns:
        for name in SENDERS:
            if world.node(name).pending_bytes() < BACKLOG:
                world.post(name, count=20, size=SMALL)
                if number % (40 if sleeper else 10) == 0:
                    world.post(name, size=LARGE)
        number += 1
        world.run_for(STEP_NS)
        most = max(most, *(kept(world, name) for name in names))
    if sleeper:
        world.processes[sleeper].app.rate = AWAKE
    world.heal()
    world.run_for(seconds(30))
    return world, most


@pytest.mark.slow
@pytest.mark.parametrize("sleeper", ["", "S"], ids=["all awake", "one asleep"])
def test_accept_6_large_among_small_messages_have_one_order_and_little_is_kept(sleeper: str) -> None:
    world, most = flood(with_mfc(), sleeper)
    assert [str(one) for one in (*check(world.history), *order.differences(Facts(world.history)))] == []
    logs = {name: world.processes[name].app.log for name in SENDERS}
    large = sum(len(payload) >= LARGE for payload in logs["A"])
    assert large >= len(SENDERS), "no large message was among them"
    assert logs["A"] == logs["B"] == logs["C"], "members that are awake differ in their order"
    assert most <= 2 * CREDITS * len(SENDERS), f"a member kept {most:.0f} bytes without a place"
    assert all(not kept(world, name) for name in (*SENDERS, *sleeper)), "something waits for a place at the end"
    if sleeper:
        assert world.processes[sleeper].app.log == logs["A"], "the receiver that slept has not all of it, in this order"


@pytest.mark.slow
def test_accept_6_a_receiver_that_sleeps_amid_flow_max_loses_messages_but_not_their_order() -> None:
    world, most = flood(with_max(), "S")
    assert [str(one) for one in (*check(world.history), *order.differences(Facts(world.history)))] == []
    log, slept = world.processes["A"].app.log, world.processes["S"].app.log
    assert log == world.processes["B"].app.log == world.processes["C"].app.log, "members that are awake differ"
    skipped = sum(entry.messages for entry in world.history.entries
                  if isinstance(entry, h.Skipped) and entry.member == world.processes["S"].me)
    assert skipped, "the receiver that slept lost nothing: it slowed the senders down"
    assert len(slept) + skipped == len(log), "messages went without a report"
    places = {payload: number for number, payload in enumerate(log)}
    assert sorted(slept, key=places.__getitem__) == slept, "what it did get came in another order"
    assert most <= 2 * CREDITS * len(SENDERS), f"a member kept {most:.0f} bytes without a place"
