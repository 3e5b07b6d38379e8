"""The audit of RELAY's ledger (R9) finds every wrong row, and nothing in a right ledger."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import SiteCommand
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.outbound.peers import RelayPeer
from jgroups_py.protocols.relay.sites.table import SiteTable
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.runner import run_seed
from jgroups_py.simulator.world import World


def two_sites(stack: str, **properties: str) -> World:
    """A and B at NYC, D at SFO, in their views."""
    world = World(seed=1)
    sites = {"A": "NYC", "B": "NYC", "D": "SFO"}
    hosts = ",".join(f"{world.ip(name)}[7900]" for name in sites)
    bridge = load("bridge", {"bridge_hosts": hosts, "bridge_port_range": "0"})
    for name, site in sites.items():
        spec = load(stack, {"site": site, "mcast_port": str(45601 + (site == "SFO")), **properties})
        world.start(name, spec, site, bridge=bridge)
    world.run_for(seconds(5))
    return world


@pytest.fixture
def world() -> World:
    """B's first two messages arrived, the next two cannot, then one was given up by order and another sent."""
    world = two_sites("nyc")
    world.post("B", count=2)
    world.run_for(seconds(2))
    world.partition([("A", "B"), ("D",)], (BRIDGE,))
    world.post("B", count=2)
    world.run_for(seconds(1))
    world.inject("B", SiteCommand(1, "offline", "SFO"))
    world.run_for(seconds(1))
    world.inject("B", SiteCommand(2, "online", "SFO"))
    world.run_for(seconds(1))
    relay_of(world).table.sites["SFO"].status = 0          # so that the next one is held
    relay_of(world, "A").table.sites["SFO"].status = 0
    world.post("B")
    world.run_for(seconds(1))
    assert relay_of(world).reports.ledger()["SFO"][world.address("B")].held == 1
    assert found(world) == []
    return world


def relay_of(world: World, name: str = "B") -> Relay:
    return world.audits[world.address(name)].relay


def found(world: World) -> list[str]:
    return [entry.text for entry in world.history.entries if isinstance(entry, h.Unbalanced)]


def vanish(relay: Relay) -> None:
    relay.hold.forget(relay.me)


def too_much_acknowledged(relay: Relay) -> None:
    relay.table.sites["SFO"].acked[relay.me] = 99


def acknowledged_but_nowhere(relay: Relay) -> None:
    relay.table.sites["SFO"].acked[relay.me] = relay.numbering.next_number


def acknowledgement_taken_back(relay: Relay) -> None:
    relay.table.sites["SFO"].acked[relay.me] -= 1


def loss_taken_back(relay: Relay) -> None:
    relay.table.sites["SFO"].lost[relay.me].subtract(3, 4)
    relay.numbering.next_number += 1


def loss_of_what_is_held(relay: Relay) -> None:
    relay.table.sites["SFO"].lost[relay.me].add(5, 6)
    relay.numbering.next_number += 1


def dropped_unsettled(relay: Relay) -> None:
    relay.hold.trimmed[next(member for member in relay.group.view.members if member != relay.me)] = 50


@pytest.mark.parametrize(("plant", "text"), [
    (vanish, "neither settled nor held"), (too_much_acknowledged, "only 7 were numbered"),
    (acknowledged_but_nowhere, "no member there has"), (acknowledgement_taken_back, "was settled, now only"),
    (loss_taken_back, "were lost, now"), (loss_of_what_is_held, "were lost, now"),
    (dropped_unsettled, "was dropped"),
])
def test_a_wrong_ledger_is_found_after_the_step_that_made_it_wrong(
    world: World, plant: Callable[[Relay], None], text: str,
) -> None:
    plant(relay_of(world))
    world.inject("B", Batch(world.address("B"), None, (b"x",)))
    assert [text in wrong for wrong in found(world)] == [True], found(world)
    assert [violation.guarantee for violation in check(world.history, ["R9"])] == ["R9"]


def test_an_acknowledgement_for_a_member_that_lacks_the_message_is_found(world: World) -> None:
    world.heal()
    world.post("D", count=3)
    world.run_for(seconds(2))
    relay, audit = relay_of(world, "B"), world.audits[world.address("A")]
    assert relay.group.is_relay
    assert relay.acknowledger.acked_out["SFO"] == {world.address("D"): 4}
    for vector in (audit.relay.delivery.seen, audit.began[relay.group.view.id]):
        vector.setdefault("SFO", {})[world.address("D")] = 0          # as if A had merged without having them
    relay.acknowledger.acked_out["SFO"][world.address("D")] = 5
    world.inject("B", Batch(world.address("B"), None, (b"x",)))
    assert ["A#1 began this view with 0, not 1" in wrong for wrong in found(world)] == [True], found(world)


def everything_is_dropped(self: SiteTable, origins: object, ends: dict[object, int]) -> dict[object, int]:
    return dict(ends)


acknowledge = RelayPeer.acknowledge


def one_more_is_acknowledged(self: RelayPeer, numbers: dict[object, int], now_ns: int) -> bool:
    return acknowledge(self, {origin: number + 1 for origin, number in numbers.items()}, now_ns)  # type: ignore[misc]


@pytest.mark.parametrize(("owner", "method", "without"), [
    (SiteTable, "droppable", everything_is_dropped), (RelayPeer, "acknowledge", one_more_is_acknowledged)])
def test_seeds_show_it_when_the_core_cheats(
    owner: type, method: str, without: Callable[..., object], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, method, without)
    assert "R9" in run_seed("relay", 1).guarantees


def test_what_topics_drops_at_another_site_is_noted_and_what_was_lost_is_not() -> None:
    world = two_sites("topics", topics="prices")
    world.post("B", topic="orders")
    world.post("B", topic="prices")
    world.run_for(seconds(2))
    world.partition([("A", "B"), ("D",)], (BRIDGE,))
    relay = next(name for name in "AB" if relay_of(world, name).group.is_relay)
    world.inject(relay, SiteCommand(1, "offline", "SFO"))
    world.post("B", topic="orders")
    world.run_for(seconds(1))
    world.inject(relay, SiteCommand(2, "online", "SFO"))
    world.heal()
    world.run_for(seconds(20))
    world.post("B", topic="orders")
    world.run_for(seconds(2))
    audit, origin = world.audits[world.address("D")], world.address("B")
    delivered = [payload for entry in world.history.entries
                 if isinstance(entry, h.MessageDelivered) and entry.member == world.address("D")
                 for payload in entry.payloads]
    assert [payload.decode() for payload in delivered] == ["B#1>*/1@prices"]
    assert [(lost.first, lost.stop) for lost in world.history.entries
            if isinstance(lost, h.Lost) and lost.member == world.address("D")] == [(3, 4)]
    assert list(audit.received["NYC"][origin]) == [(1, 3), (4, 5)]
