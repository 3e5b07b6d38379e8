"""Two relays of one site on the bridge are reported to the operator once, after a minute, while both are there."""
from __future__ import annotations

import re

from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay.announcements import BridgeGone
from jgroups_py.protocols.relay.outbound.duplicate_sites import STAY_NS, DuplicateSites
from tests.unit.relay.layer import Layer

X, Y, Z = (Address(name.encode().ljust(16, b"\0"), name) for name in "xyz")


def at(layer: Layer, duplicates: DuplicateSites, now_ns: int) -> None:
    """Let the time come."""
    while layer.timers and min(layer.timers.values()) <= now_ns:
        [(timer, layer.now_ns)] = layer.timers.items()
        del layer.timers[timer]
        duplicates.check_duration()
    layer.now_ns = now_ns


def bridge(*members: Address) -> View:
    return View(ViewId(1, members[0]), members)


def test_a_relay_that_stays_for_a_minute_is_reported_once_with_site_and_time() -> None:
    layer = Layer()
    duplicates = DuplicateSites(layer)
    start_ns = layer.now_ns
    for second in range(0, 59, 10):
        at(layer, duplicates, start_ns + seconds(second))
        duplicates.hello_received(X, ViewId(4, Y))
    at(layer, duplicates, start_ns + STAY_NS - 1)
    assert (layer.notes, layer.counters) == ([], {"hello_of_own_site": 6})
    at(layer, duplicates, start_ns + STAY_NS)
    (note,) = layer.notes
    assert re.match(r"error: another relay of site NYC \(y\) has been on the bridge for 60 s\.", note), note
    duplicates.hello_received(X, ViewId(4, Y))
    at(layer, duplicates, start_ns + 5 * STAY_NS)
    assert len(layer.notes) == 1


def test_a_relay_that_comes_after_another_one_left_is_reported_after_a_minute_of_its_own() -> None:
    layer = Layer()
    duplicates = DuplicateSites(layer)
    start_ns = layer.now_ns
    duplicates.hello_received(X, ViewId(4, Y))
    at(layer, duplicates, start_ns + seconds(50))
    duplicates.hello_received(Y, ViewId(5, Z))
    duplicates.bridge_view_changed(bridge(Y, Z))         # X has gone
    at(layer, duplicates, start_ns + STAY_NS)
    assert layer.notes == []
    at(layer, duplicates, start_ns + seconds(50) + STAY_NS)
    assert len(layer.notes) == 1
    duplicates.bridge_view_changed(bridge(Y, Z))
    assert duplicates.warned, "it is there still"
    duplicates.bridge_view_changed(bridge(Z))
    assert not duplicates.warned, "the next one is news"


def test_a_relay_that_left_or_a_bridge_that_this_member_left_is_not_reported() -> None:
    for leaves in (lambda one: one.bridge_view_changed(bridge(Z)), lambda one: one.bridge_gone(BridgeGone(False))):
        layer = Layer()
        duplicates = DuplicateSites(layer)
        duplicates.hello_received(X, ViewId(4, Y))
        leaves(duplicates)
        at(layer, duplicates, layer.now_ns + 2 * STAY_NS)
        assert layer.notes == []
