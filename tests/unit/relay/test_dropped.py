"""What RELAY drops it counts under a name that says why, once or by messages; what it passes on, by messages."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from sites import Sites, cut_off, numbered

from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.events import BridgeDelivered, GetState
from jgroups_py.protocols.relay.bridge import from_bridge
from jgroups_py.protocols.relay.headers import (
    Base,
    Disseminate,
    Forward,
    Have,
    Hello,
    Letter,
    Need,
    Probe,
    Sync,
    Trim,
)
from jgroups_py.protocols.relay.receipt_headers import Checked, Settled, Wanted
from jgroups_py.protocols.relay.relay import Relay
from jgroups_py.protocols.relay.state_headers import StateMore, StatePause
from jgroups_py.units import seconds
from jgroups_py.view import ViewId

STRANGER, ORIGIN = (Address(name.encode().ljust(16, b"\0"), name) for name in ("s", "o"))
OTHER = ViewId(99, STRANGER)


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def grown(relay: Relay, before: dict[str, float]) -> dict[str, float]:
    """The counters that rose, and by how much."""
    return {name: value - before.get(name, 0) for name, value in relay.counters.items() if value != before.get(name, 0)}


def batch(src: Address, header: Header, *payloads: bytes) -> Batch:
    return Batch(src, None, payloads, (header,))


CLAIMS = (Forward("SFO", OTHER, ORIGIN, 1, 1, 0), Probe({ORIGIN: 1}), Wanted({ORIGIN: 1}),
          Settled(OTHER, {ORIGIN: 1}, {}), StateMore(ORIGIN, 1, 9))


@pytest.mark.parametrize("header", [*CLAIMS, Hello("SFO", OTHER, {}, False)],
                         ids=lambda header: type(header).__name__)
def test_what_comes_from_outside_the_bridge(world: Sites, header: Header) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(STRANGER, header, b"x"))
    assert grown(relay, before) == {"from_strangers": 1}


@pytest.mark.parametrize("header", CLAIMS, ids=lambda header: type(header).__name__)
def test_what_a_member_of_the_bridge_says_that_has_not_introduced_itself(world: Sites, header: Header) -> None:
    relay, other = world["A"].relay, world["D"].bridge
    relay.sending.peers.drop(other)
    before = dict(relay.counters)
    from_bridge(relay, batch(other, header, b"x"))
    assert grown(relay, before) == {"from_strangers": 1}


def test_what_does_not_belong_on_a_bridge(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, Sync({}, (), {}, 0)))
    assert grown(relay, before) == {"unexpected_on_bridge": 1}


def test_what_comes_over_a_bridge_to_a_member_that_is_no_relay(world: Sites) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    world["B"].tell(BridgeDelivered(batch(world["D"].bridge, Probe({}))))
    assert grown(relay, before) == {"from_bridge_while_not_relay": 1}


Said = Callable[[Relay, Address], object]


@pytest.mark.parametrize(("name", "say"), [
    ("sync_of_no_coordinator", lambda relay, src: relay.receiving.sync(Sync({}, (), {}, 0), Batch(src, None, ()))),
    ("disseminate_before_sync", lambda relay, src: relay.receiving.disseminate(
        Disseminate("SFO", ORIGIN, 1, 1, 0), Batch(src, None, (b"x",)))),
    ("base_before_sync", lambda relay, src: relay.receiving.base(Base("SFO", OTHER, {}, {}), Batch(src, None, ()))),
    ("trim_of_no_coordinator", lambda relay, src: relay.status.trimmed(Trim((), {}, False), Batch(src, None, ()))),
])
def test_what_only_the_relay_may_say(world: Sites, name: str, say: Said) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    say(relay, world["C"].me)
    assert grown(relay, before) == {name: 1}


@pytest.mark.parametrize(("name", "say"), [
    ("have_outside_view", lambda relay, src: relay.receiving.have(
        Have(OTHER, {}, (), {}, {}, (), 0), Batch(src, None, ()))),
    ("pause_of_other_view", lambda relay, src: relay.states.pause(StatePause(src, 1, OTHER))),
    ("checked_in_other_view", lambda relay, src: relay.receipts.polls.answered(Checked(OTHER, {}, {}), src)),
])
def test_what_belongs_to_another_view(world: Sites, name: str, say: Said) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    say(relay, world["B"].me)
    assert grown(relay, before) == {name: 1}


@pytest.mark.parametrize(("first", "name", "number"), [(9, "forwards_ahead", 2), (1, "forwards_again", 2),
                                                       (2, "forwards_again", 1)])
def test_runs_of_another_site_that_are_not_next(world: Sites, first: int, name: str, number: int) -> None:
    world["D"].say("d1", "d2")
    world.run(seconds(1))
    relay, peer = world["A"].relay, world["A"].relay.sending.peers.accepted("SFO")
    before = dict(relay.counters)
    relay.receiving.forward(Forward("SFO", world["D"].relay.view.id, world["D"].me, first, 1, 0),
                            Batch(world["D"].bridge, None, (b"x", b"y")), peer)
    assert grown(relay, before).get(name) == number


@pytest.mark.parametrize(("first", "name"), [(9, "disseminate_ahead"), (1, "disseminate_again")])
def test_disseminated_runs_that_are_not_next(world: Sites, first: int, name: str) -> None:
    world["D"].say("d1", "d2")
    world.run(seconds(1))
    relay = world["B"].relay
    before = dict(relay.counters)
    relay.receiving.disseminate(Disseminate("SFO", world["D"].me, first, 1, 0),
                                Batch(world["A"].me, None, (b"x", b"y")))
    assert grown(relay, before) == {name: 2}


def test_messages_between_sites_are_counted_where_they_pass(world: Sites) -> None:
    before = {name: dict(world[name].relay.counters) for name in "DAB"}
    world["D"].say("d1", "d2", "d3")
    world.run(seconds(1))
    after = {name: grown(world[name].relay, before[name]) for name in "DAB"}
    assert after["D"]["forwarded"] == after["A"]["disseminated"] == 3
    assert after["A"]["delivered_remote"] == after["B"]["delivered_remote"] == 3


@pytest.mark.parametrize(("dest_site", "name"), [("NYC", "letters_to_unknown"), ("LON", "letters_without_relay")])
def test_letters_that_go_nowhere(world: Sites, dest_site: str, name: str) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.post.onward(Letter(world["D"].me, "SFO", STRANGER, dest_site, 1, 1, 0, None),
                      Batch(world["D"].bridge, None, (b"x", b"y")))
    assert grown(relay, before) == {name: 2}


def test_letters_that_are_not_next(world: Sites) -> None:
    relay = world["B"].relay
    before = dict(relay.counters)
    relay.post.onward(Letter(world["D"].me, "SFO", relay.me, "NYC", 7, 1, 0, None),
                      Batch(world["A"].me, None, (b"x", b"y")))
    assert grown(relay, before) == {"letters_not_next": 2}


def test_states_between_sites(world: Sites) -> None:
    world["A"].say("a1")
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
    world["A"].say(*numbered(0, 4))
    world.run(seconds(1))
    assert "copies_sent" not in world["A"].relay.stats()
    world.sites["NYC"].crash("B")                             # C is the backup now, and holds nothing
    world.run(seconds(1))
    assert world["A"].relay.stats()["copies_sent"] == 4


def test_a_greeting_of_a_relay_that_said_goodbye(world: Sites) -> None:
    relay = world["A"].relay
    relay.table.sites["SFO"].farewell = OTHER
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, Hello("SFO", world["D"].relay.view.id, {}, False)))
    assert grown(relay, before) == {"hello_after_goodbye": 1}


def test_what_another_relay_lacks_is_a_need(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    from_bridge(relay, batch(world["D"].bridge, Need({world["C"].me: 1})))
    assert grown(relay, before)["needs"] == 1


def test_a_relay_whose_members_are_behind_rewinds_by_origin(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.receiving.rewind({"SFO": {ORIGIN: 3, STRANGER: 1}})
    assert grown(relay, before) == {"rewinds": 2}


def test_runs_that_wait_until_a_state_has_come(world: Sites) -> None:
    relay = world["D"].relay
    world["B"].writes_all = False
    world["E"].stack.inject(GetState(world["B"].me, seconds(60)), world.now_ns)
    world["E"].drain()
    world.run(seconds(1))
    assert relay.states.carrier.fetch is not None
    before = dict(relay.counters)
    world["A"].say("a1", "a2")
    world.run(seconds(0.05))
    assert grown(relay, before)["forwards_put_off"] == 2


def test_a_state_that_failed_at_the_asking_relay(world: Sites) -> None:
    world["B"].writes_all = False
    world["E"].stack.inject(GetState(world["B"].me, seconds(60)), world.now_ns)
    world["E"].drain()
    world.run(seconds(1))
    world["D"].relay.states.carrier.abandon("a test")
    world["D"].relay.states.carrier.abandon("a test")
    assert world["D"].relay.stats()["states_failed"] == 1, "there was nothing left to give up"


def test_unacknowledged_messages_are_asked_after(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    world["C"].say("c1")
    probes: list[Probe] = []
    kept = world.lose

    def watch(src: Address, batch: Batch) -> bool:
        probes.extend(header for header in batch.headers if isinstance(header, Probe))
        return kept(src, batch)
    world.lose = watch
    world.run(seconds(3))
    assert world["A"].relay.stats()["probes"] == len(probes) > 0


def test_a_forgotten_origin(world: Sites) -> None:
    relay = world["A"].relay
    before = dict(relay.counters)
    relay.memory.forget_origin(ORIGIN)
    assert grown(relay, before) == {"forgotten": 1}


def test_a_relay_that_is_refused_is_fenced(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])
    world.run()
    world["B"].say("b0")
    world["C"].say("c0")
    world.run()
    assert world["D"].relay.stats()["refused"] == world["A"].relay.stats()["fenced"] > 0
