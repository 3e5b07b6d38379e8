"""RELAY counts each drop under the name of its reason, once or by messages; what it passes on, by messages."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import BridgeDelivered, GetState
from jgroups_py.model.outputs import Traced
from jgroups_py.model.topics import EVERYTHING
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.relay.announcements import OriginForgotten
from jgroups_py.protocols.relay.headers import (
    BaseHeader,
    Confirm,
    Disseminate,
    Forward,
    Have,
    HelloHeader,
    NeedHeader,
    ProbeHeader,
    SeenHeader,
    SiteInterestHeader,
    SiteUnicast,
    SiteUnicastSeen,
    Sync,
    Trim,
)
from jgroups_py.protocols.relay.headers.receipts import AwaitSettled, Checked, Settled
from jgroups_py.protocols.relay.headers.state import StateMore, StatePause, StatePiece
from jgroups_py.protocols.relay.protocol import Relay
from tests.unit.relay.sites import Sites, cut_off, numbered

STRANGER, ORIGIN = (Address(name.encode().ljust(16, b"\0"), name) for name in ("s", "o"))
OTHER = ViewId(99, STRANGER)


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def grown(relay: Relay, before: dict[str, float]) -> dict[str, float]:
    """The counters that rose, and by how much."""
    return {name: value - before.get(name, 0) for name, value in relay.counters.items() if value != before.get(name, 0)}


def from_bridge(relay: Relay, said: Batch) -> None:
    """Said on the bridge to a relay."""
    relay.bridge_link.delivered(BridgeDelivered(said))


def batch(src: Address, header: Header, *payloads: bytes) -> Batch:
    return Batch(src, None, payloads, (header,))


CLAIMS = (Forward("SFO", OTHER, ORIGIN, 1, 1, 0), ProbeHeader({ORIGIN: 1}), AwaitSettled({ORIGIN: 1}),
          Settled(OTHER, {ORIGIN: 1}, {}), StateMore(ORIGIN, 1, 9))


@pytest.mark.parametrize("header", [*CLAIMS, HelloHeader("SFO", OTHER, {}, False)],
                         ids=lambda header: type(header).__name__)
def test_what_comes_from_outside_the_bridge(world: Sites, header: Header) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(STRANGER, header, b"x"))
    assert grown(relay, before) == {"non_peer_dropped": 1}


@pytest.mark.parametrize("header", CLAIMS, ids=lambda header: type(header).__name__)
def test_headers_of_a_relay_that_has_not_sent_hello_are_dropped(world: Sites, header: Header) -> None:
    relay, other = world["A"].relay, world["D"].bridge
    relay.peers.remove(other)
    before = dict(relay.counters)
    from_bridge(relay, batch(other, header, b"x"))
    assert grown(relay, before) == {"non_peer_dropped": 1}


def test_what_does_not_belong_on_a_bridge(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, Sync({}, (), {}, 0)))
    assert grown(relay, before) == {"unexpected_on_bridge": 1}


def test_what_comes_over_a_bridge_to_a_member_that_is_no_relay(world: Sites) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    world["B"].notify(BridgeDelivered(batch(world["D"].bridge, ProbeHeader({}))))
    assert grown(relay, before) == {"from_bridge_while_not_relay": 1}


Said = Callable[[Relay, Address], object]


@pytest.mark.parametrize(("name", "say"), [
    ("sync_of_no_coordinator", lambda relay, src: relay.synchronizer.sync(Sync({}, (), {}, 0), Batch(src, None, ()))),
    ("disseminate_before_sync", lambda relay, src: relay.delivery.disseminate(
        Disseminate("SFO", ORIGIN, 1, 1, 0), Batch(src, None, (b"x",)))),
    ("base_before_sync", lambda relay, src: relay.delivery.base(
        BaseHeader("SFO", OTHER, {}, {}), Batch(src, None, ()))),
    ("trim_of_no_coordinator", lambda relay, src: relay.trimmer.trimmed(Trim((), {}, False), Batch(src, None, ()))),
])
def test_headers_that_only_the_relay_may_send_are_dropped_from_others(world: Sites, name: str, say: Said) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    say(relay, world["C"].me)
    assert grown(relay, before) == {name: 1}


@pytest.mark.parametrize(("name", "say"), [
    ("have_outside_view", lambda relay, src: relay.synchronizer.have(
        Have(OTHER, {}, (), {}, {}, (), 0), Batch(src, None, ()))),
    ("pause_of_other_view", lambda relay, src: relay.state_transfer.pause(
        StatePause(src, 1, OTHER), Batch(src, None, ()))),
    ("checked_in_other_view", lambda relay, src: relay.delivery_check.checked_received(
        Checked(OTHER, {}, {}), Batch(src, None, ()))),
])
def test_what_belongs_to_another_view(world: Sites, name: str, say: Said) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    say(relay, world["B"].me)
    assert grown(relay, before) == {name: 1}


@pytest.mark.parametrize(("first", "name", "number"), [(9, "forwards_ahead", 2), (1, "forwards_again", 2),
                                                       (2, "forwards_again", 1)])
def test_batches_of_another_site_that_are_not_next(world: Sites, first: int, name: str, number: int) -> None:
    world["D"].multicast("d1", "d2")
    world.run(seconds(1))
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.disseminator.forward(Forward("SFO", world["D"].relay.group.view.id, world["D"].me, first, 1, 0),
                               Batch(world["D"].bridge, None, (b"x", b"y")))
    assert grown(relay, before).get(name) == number


@pytest.mark.parametrize(("first", "name"), [(9, "disseminate_ahead"), (1, "disseminate_again")])
def test_disseminated_batches_that_are_not_next(world: Sites, first: int, name: str) -> None:
    world["D"].multicast("d1", "d2")
    world.run(seconds(1))
    relay = world["B"].relay
    before = dict(relay.counters)
    relay.delivery.disseminate(Disseminate("SFO", world["D"].me, first, 1, 0),
                                Batch(world["A"].me, None, (b"x", b"y")))
    assert grown(relay, before) == {name: 2}


def test_messages_between_sites_are_counted_where_they_pass(world: Sites) -> None:
    before = {name: dict(world[name].relay.counters) for name in "DAB"}
    world["D"].multicast("d1", "d2", "d3")
    world.run(seconds(1))
    after = {name: grown(world[name].relay, before[name]) for name in "DAB"}
    assert after["D"]["forwarded"] == after["A"]["disseminated"] == 3
    assert after["A"]["delivered_remote"] == after["B"]["delivered_remote"] == 3


@pytest.mark.parametrize(("dest_site", "name"), [("NYC", "unicasts_to_unknown"), ("LON", "unicasts_without_relay")])
def test_unicasts_without_a_destination_or_a_relay_are_dropped(world: Sites, dest_site: str, name: str) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.unicast_router.forward(SiteUnicast(world["D"].me, "SFO", STRANGER, dest_site, 1, 1, 0, None),
                      Batch(world["D"].bridge, None, (b"x", b"y")))
    assert grown(relay, before) == {name: 2}


def test_unicasts_that_are_not_next_are_dropped(world: Sites) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    relay.unicast_router.forward(SiteUnicast(world["D"].me, "SFO", relay.me, "NYC", 7, 1, 0, None),
                      Batch(world["A"].me, None, (b"x", b"y")))
    assert grown(relay, before) == {"unicasts_not_next": 2}


def test_states_between_sites(world: Sites) -> None:
    world["A"].multicast("a1")
    world.run(seconds(1))
    world["E"].stack.inject(GetState(world["B"].me, seconds(5)), world.now_ns)
    world["E"].drain()
    world.run(seconds(2))
    assert [world[name].relay.stats().get("states_installed") for name in "DEF"] == [1, 1, 1]
    assert [world[name].relay.stats().get("states_fetched") for name in "DE"] == [1, None]
    assert [world[name].relay.stats().get("states_provided") for name in "AB"] == [None, 1]


def test_a_site_that_an_operator_takes_offline_is_given_up_once(world: Sites) -> None:
    world["B"].order("offline", "SFO")
    world.run(seconds(1))
    assert world["A"].relay.stats()["sites_given_up"] == 1


def test_copies_for_a_backup_that_lacks_what_is_held(world: Sites) -> None:
    cut_off(world, "A")
    world.run(seconds(1))
    world["A"].multicast(*numbered(0, 4))
    world.run(seconds(1))
    assert "copies_sent" not in world["A"].relay.stats()
    world.sites["NYC"].crash("B")                             # C is the backup now, and holds nothing
    world.run(seconds(1))
    assert world["A"].relay.stats()["copies_sent"] == 4


def test_a_hello_of_a_relay_that_has_sent_goodbye_is_dropped(world: Sites) -> None:
    relay = world["A"].relay
    relay.table.sites["SFO"].goodbye_epoch = OTHER
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, HelloHeader("SFO", world["D"].relay.group.view.id, {}, False)))
    assert grown(relay, before) == {"hello_after_goodbye": 1}


def test_what_another_relay_lacks_is_a_need(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, NeedHeader({world["C"].me: 1})))
    assert grown(relay, before)["needs"] == 1


def test_a_relay_whose_members_are_behind_rewinds_by_origin(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.disseminator.rewind({"SFO": {ORIGIN: 3, STRANGER: 1}})
    assert grown(relay, before) == {"rewinds": 2}


def test_batches_that_wait_until_a_state_is_installed(world: Sites) -> None:
    relay = world["D"].relay
    world["B"].writes_all = False
    world["E"].stack.inject(GetState(world["B"].me, seconds(60)), world.now_ns)
    world["E"].drain()
    world.run(seconds(1))
    assert relay.state_forwarder.fetch is not None
    before = dict(relay.counters)
    world["A"].multicast("a1", "a2")
    world.run(seconds(0.05))
    assert grown(relay, before)["forwards_deferred"] == 2


def test_a_state_that_failed_at_the_requesting_relay(world: Sites) -> None:
    world["B"].writes_all = False
    world["E"].stack.inject(GetState(world["B"].me, seconds(60)), world.now_ns)
    world["E"].drain()
    world.run(seconds(1))
    world["D"].relay.state_forwarder.abandon("a test")
    world["D"].relay.state_forwarder.abandon("a test")
    assert world["D"].relay.stats()["states_failed"] == 1, "there was nothing left to give up"


def test_unacknowledged_messages_are_probed(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    world["C"].multicast("c1")
    probes: list[ProbeHeader] = []
    kept = world.lose

    def watch(src: Address, batch: Batch) -> bool:
        probes.extend(header for header in batch.headers if isinstance(header, ProbeHeader))
        return kept(src, batch)
    world.lose = watch
    world.run(seconds(3))
    assert world["A"].relay.stats()["probes"] == len(probes) > 0


def test_a_forgotten_origin(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.announce(OriginForgotten(ORIGIN))
    assert grown(relay, before) == {"forgotten": 1}


def test_a_relay_that_is_refused_is_fenced(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])
    world.run()
    world["B"].multicast("b0")
    world["C"].multicast("c0")
    world.run()
    assert world["D"].relay.stats()["refused"] == world["A"].relay.stats()["fenced"] > 0


# --- the reasons, as the log and JGROUPS_TRACE show them --------------------------------------------------------------

def reasons(relay: Relay, act: Callable[[], object]) -> list[str]:
    """What the log of drops shows of `act`. A class has its name of the configuration once it was loaded by that."""
    assert KNOWN["RELAY"].load() is Relay
    relay.stack.explain(True)                                          # type: ignore[attr-defined]
    act()
    lines = [str(output) for output in relay.stack.outputs if isinstance(output, Traced)]
    relay.stack.outputs.clear()
    return lines


def test_a_forward_behind_a_hole_is_shown_with_numbers_and_what_is_missing(world: Sites) -> None:
    d, relay = world["D"], world["A"].relay
    ahead = Forward("SFO", d.relay.group.view.id, d.me, 9, 1, 0)
    assert reasons(relay, lambda: from_bridge(relay, batch(d.bridge, ahead, b"x", b"y"))) == [
        f"RELAY drops {d.bridge} to all, 2 messages, Forward 9..10 of D: 1 of its origin has not arrived and is "
        "requested (forwards_ahead)"]


def test_a_message_that_came_before_the_sync_is_shown(world: Sites) -> None:
    b = world["B"]
    early = batch(world["C"].me, Disseminate("SFO", ORIGIN, 4, 1, 0), b"x")
    assert reasons(b.relay, lambda: b.stack.send_up(early) or b.stack.run()) == [
        "RELAY drops C to all, 1 message, Disseminate 4 of o: not of the coordinator, or before its SYNC "
        "(disseminate_before_sync)"]


def test_what_a_process_outside_the_view_sends_is_shown(world: Sites) -> None:
    b = world["B"]
    foreign = Batch(STRANGER, b.me, (), (Trim((), {}, False),))
    assert reasons(b.relay, lambda: b.stack.send_up(foreign) or b.stack.run()) == [
        "RELAY drops s to B, no message, Trim: its source is not in the view, or it is not reliable "
        "(non_member_dropped)"]


def test_a_unicast_that_reaches_no_site_is_shown(world: Sites) -> None:
    b = world["B"]
    assert reasons(b.relay, lambda: b.relay.down(Batch(b.me, STRANGER, (b"x",)))) == [
        "RELAY drops B to s, 1 message: it is at no site that is UP (unreachable)"]


def test_a_loss_is_shown_with_the_site_and_the_numbers(world: Sites) -> None:
    a, b, d = (world[name] for name in "ABD")
    d.multicast("d1")
    world.run(seconds(1))
    gone = Batch(a.me, None, (), (BaseHeader("SFO", d.relay.group.view.id, {d.me: 5}, {}),))
    before = dict(b.relay.counters)
    assert reasons(b.relay, lambda: b.stack.send_up(gone) or b.stack.run()) == [
        "RELAY drops a value: site SFO sends nothing of D below 5 (lost)"]
    assert grown(b.relay, before) == {"lost": 3}


def test_acknowledgements_that_reach_no_relay_are_counted(world: Sites) -> None:
    relay = world["D"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(world["A"].bridge, SeenHeader({ORIGIN: 1})))
    from_bridge(relay, batch(world["A"].bridge, StatePiece(ORIGIN, 1, False, ""), b"x"))
    relay.peers.remove(world["A"].bridge)
    for header in (SeenHeader({ORIGIN: 1}), NeedHeader({ORIGIN: 1}), SiteInterestHeader(EVERYTHING)):
        from_bridge(relay, batch(world["A"].bridge, header))
    relay.acknowledger.confirms(Confirm(OTHER, {}), Batch(world["E"].me, None, ()))
    relay.unicast_router.forward_acknowledgement(
        SiteUnicastSeen(ORIGIN, "SFO", STRANGER, 2, True), Batch(relay.me, relay.me))
    relay.unicast_router.forward_acknowledgement(
        SiteUnicastSeen(ORIGIN, "LON", STRANGER, 2, True), Batch(relay.me, relay.me))
    from_bridge(relay, batch(world["A"].bridge, SiteUnicast(ORIGIN, "NYC", relay.me, "SFO", 1, 1, 0, None), b"x"))
    from_bridge(relay, batch(world["A"].bridge, StatePiece(ORIGIN, 1, False, ""), b"x"))
    assert grown(relay, before) == {"non_peer_dropped": 4, "confirm_of_other_view": 1, "unicast_acks_undeliverable": 2,
                                    "unexpected_on_bridge": 1, "stale_state_dropped": 1}
