"""What the simulation of MQTT demands of wills (Q9): once, but for copies; not once the client is back."""
from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.codec.packets import Will
from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.mqtt_roaming import (
    ModelWill,
    RoamingClient,
    RoamingNode,
    RoamingRun,
    RoutedMessage,
)

NUMBER = 7
WILL = Will("wills", b"%d" % NUMBER, 2, False)


def node(run: RoamingRun, had_client: bool = False, waits: bool = False) -> Any:
    """A node with a session of "me", as far as wills need one."""
    made: Any = RoamingNode.__new__(RoamingNode)
    made.clients, made.run, made.moving_from = run, SimpleNamespace(counts=Counter(), broken=None), None
    made.channel = SimpleNamespace(name="")
    made.core = SimpleNamespace(peers={})
    session = SimpleNamespace(had_client=had_client, will=None)
    made.broker = SimpleNamespace(_claims={"me": None} if waits else {}, _claiming={}, sessions={"me": session})

    def adopt_will(client_id: str, will: Will, now_ns: int, left_ns: int, of_copy: bool) -> None:
        session.will = will

    def withdraw(client_id: str) -> None:
        session.will = None

    made._adopt_will, made._withdraw_will = adopt_will, withdraw
    return made


def lost(run: RoamingRun, home: Any) -> RoutedMessage:
    """A will with a delay, of a connection that `home` has found gone."""
    fact = run.facts[NUMBER] = RoutedMessage(NUMBER, "me", "wills", 2, home, 0)
    fact.will = ModelWill(NS_PER_S, home, lost_ns=1)
    return fact


@pytest.mark.parametrize(("had_client", "waits"), [(False, False), (True, False), (False, True)])
def test_a_will_is_cancelled_by_its_client_and_not_by_a_move_of_its_session(had_client, waits):
    """Another node has made a session of a copy, and got the one in use, with the will (seed 62400)."""
    run = RoamingRun(1)
    home, other = node(run), node(run, had_client, waits)
    client = RoamingClient(run, "me")
    fact = client.wills[id(home), 4] = lost(run, home)
    client.moved_from(home, other)
    assert fact.will is not None
    assert fact.will.is_cancelled is (had_client or waits)


def test_a_will_is_not_cancelled_by_a_move_of_the_session_before():
    """The move has taken long; meanwhile the client has begun another session at the former node (seed 62594)."""
    run = RoamingRun(1)
    home, other = node(run), node(run, had_client=True)
    client = RoamingClient(run, "me")
    fact = client.wills[id(home), 4] = lost(run, home)
    home.broker.sessions["me"].will = WILL
    client.moved_from(home, other)
    assert fact.will is not None
    assert not fact.will.is_cancelled


def publish(fact: RoutedMessage, at: Any) -> None:
    assert fact.will is not None
    fact.routed_ns.append(0)
    at.will_routed(fact, fact.will)


def move(source: Any, dest: Any) -> None:
    dest.withdraw_will("me")
    dest.moving_from = source
    dest.adopt_will("me", WILL, 0, 5)
    dest.moving_from = None


def test_a_will_may_come_once_more_for_each_copy_wherever_that_has_moved():
    """A part of a split group had an old copy, whose session came back to the node of the will (seed 60371)."""
    run = RoamingRun(1)
    home, other = node(run), node(run)
    fact = lost(run, home)
    publish(fact, home)
    other.adopt_will("me", WILL, 0, 5)
    move(other, home)
    publish(fact, home)
    with pytest.raises(Broken, match="was published"):
        publish(fact, home)


def test_a_will_that_moves_is_published_once():
    run = RoamingRun(1)
    home, other = node(run), node(run)
    fact = lost(run, home)
    move(home, other)
    assert fact.will is not None
    assert (fact.will.heir, fact.will.lost_ns) == (other, 0), "it is demanded there"
    publish(fact, other)
    with pytest.raises(Broken, match="was published"):
        publish(fact, other)


def test_a_copy_that_was_withdrawn_excuses_nothing():
    run = RoamingRun(1)
    home, other = node(run), node(run)
    fact = lost(run, home)
    other.adopt_will("me", WILL, 0, 5)
    move(home, other)
    publish(fact, other)
    with pytest.raises(Broken, match="was published"):
        publish(fact, home)
