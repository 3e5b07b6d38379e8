"""A state from another site (rule 16): state plus later messages are each message once, at every member."""
from __future__ import annotations

from collections import Counter

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import GetState, StateChunk
from jgroups_py.model.outputs import MessagesLost, ProvideState, StateAdvised
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Forward, Numbered
from jgroups_py.protocols.relay.headers.state import StateFetch, StateFixed, StateInstall, StateMore, StatePiece
from tests.unit.relay.sites import Member, Sites, reported

TIMEOUT_NS = seconds(10)


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def get_state(member: Member, target: Member, timeout_ns: int = TIMEOUT_NS) -> None:
    member.stack.inject(GetState(target.me, timeout_ns), member.site.world.now_ns)
    member.drain()


def flood(world: Sites, duration_ns: int, *others: str) -> None:
    """All members multicast every 5 ms; `others` have left or crashed."""
    stop = world.now_ns + duration_ns
    while world.now_ns < stop:
        for site in world.sites.values():
            for member in site.members.values():
                if member.running and member.name not in others:
                    member.spoken = getattr(member, "spoken", 0) + 1
                    member.multicast(f"{member.name}{member.spoken}")
        world.run(millis(5))


def settled(world: Sites, *, gone: str = "") -> list[str]:
    """Running members that do not have each message exactly once and in order, after all has arrived."""
    world.run(seconds(4))
    said = {member.name: getattr(member, "spoken", 0) for site in world.sites.values()
            for member in site.members.values() if member.running}
    wrong = []
    for site in world.sites.values():
        for member in site.members.values():
            if not member.running:
                continue
            texts = [line.decode() for line in member.log]
            for name, number in said.items():
                mine = [text for text in texts if text[0] == name]
                if mine != [f"{name}{n}" for n in range(1, number + 1)]:
                    wrong.append(f"{member.name} has {len(mine)} of {number} of {name}, twice: "
                                 f"{[t for t, n in Counter(mine).items() if n > 1][:3]}")
    return wrong


def lose_some(world: Sites, *names: str) -> None:
    """The applications of these lose all they had: only a state helps."""
    for name in names:
        world[name].log.clear()


@pytest.mark.parametrize(("requester", "provider"), [("D", "A"), ("D", "B"), ("E", "A"), ("F", "C"), ("B", "F")])
def test_every_member_of_the_site_installs_the_state_while_all_members_send(
    world: Sites, requester: str, provider: str,
) -> None:
    flood(world, millis(100))
    site = "DEF" if requester in "DEF" else "ABC"
    lose_some(world, *site)
    get_state(world[requester], world[provider])
    flood(world, millis(300))
    assert [world[name].state_ends for name in site] == [[""]] * 3
    assert settled(world) == []


def test_no_member_multicasts_between_pause_and_install_and_what_was_sent_follows(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], StateFetch)
    get_state(world["D"], world["A"])
    world.run(millis(20))
    world["E"].multicast("late")
    assert world["E"].relay.send_gate.waiting
    assert world["E"].relay.pending_bytes() == 4
    world.run(seconds(12))
    assert world["D"].state_ends == ["the other site does not send the state"]
    assert all(world[name].texts("late") == ["late"] for name in "ABCDEF")


def test_a_site_that_is_behind_its_provider_skips_what_the_state_holds(world: Sites) -> None:
    """The provider has more than the requester when it fixes the state: that is part of it, and not delivered again."""
    held = []
    keep = lambda src, batch: isinstance(batch.headers[-1], StateFetch) and held.append((src, batch)) is None  # noqa: E731
    world.lose = keep
    get_state(world["D"], world["A"])
    world.run(millis(20))
    world.lose = lambda src, batch: False
    flood(world, millis(50), "D", "E", "F")
    assert world["D"].texts("C") == [], "nothing is disseminated while the state is fetched"
    world.on_bridge.extend(held)
    flood(world, millis(100))
    assert world["E"].state_ends == [""]
    skipped = 10 - len([text for text in world["E"].texts("C") if int(text[1:]) <= 10])
    assert skipped == 10, "the state held them"
    assert settled(world) == []


def test_a_provider_waits_until_it_has_what_the_requesting_site_has(world: Sites) -> None:
    third = Sites(NYC="AB", SFO="DE", LON="XY").build()
    third.lose = lambda src, batch: src == third["X"].bridge and batch.dest == third["A"].bridge
    third["Y"].spoken = 1
    third["Y"].multicast("Y1")
    third.run(millis(50))
    assert third["D"].texts("Y") == ["Y1"]
    assert third["A"].texts("Y") == []
    get_state(third["D"], third["A"])
    third.run(millis(200))
    assert third["D"].state_ends == []
    third.lose = lambda src, batch: False
    assert settled(third) == []
    assert third["D"].state_ends == [""]


def test_a_provider_that_never_gets_what_the_requesting_site_has_refuses(world: Sites) -> None:
    third = Sites(NYC="AB", SFO="DE", LON="XY").build()
    third.lose = lambda src, batch: src == third["X"].bridge and batch.dest == third["A"].bridge
    third["Y"].multicast("Y1")
    third.run(millis(50))
    get_state(third["D"], third["A"], seconds(2))
    third.run(seconds(6))
    [error] = third["D"].state_ends
    assert "does not get hold of all messages" in error
    third["D"].multicast("goes on")
    third.run()
    assert third["A"].texts("goes") == ["goes on"]


@pytest.mark.parametrize("kind", [StateFetch, StateFixed, StateMore, StatePiece, StateInstall])
@pytest.mark.parametrize("victim", "ABCDEF")
def test_whichever_member_crashes_the_request_ends_in_a_state_or_an_error_and_nothing_is_missing(
    world: Sites, kind: type, victim: str,
) -> None:
    flood(world, millis(50))
    requester, provider = world["E"], world["B"]
    met = []

    def watch(src: object, batch: object) -> bool:
        if isinstance(batch.headers[-1], kind):                    # type: ignore[attr-defined]
            met.append(batch)
        return bool(met)                          # from then on nothing gets through, until somebody has died
    if kind is StateInstall:
        watch_local(world, met)
    else:
        world.lose = watch
    get_state(requester, provider)
    world.run(millis(30))
    assert met, "the moment was never reached"
    world.sites["NYC" if victim in "ABC" else "SFO"].crash(victim)
    world.lose = lambda src, batch: False
    flood(world, millis(400), victim)
    world.run(seconds(25))
    for name in "DEF":
        member = world[name]
        if member.running:
            assert not member.relay.send_gate.closed
            assert member.arriving is None, "the end of a state that began was not passed up"
    if requester.running:
        assert requester.state_ends, "neither a state nor an error"
        assert set(requester.state_ends) <= {""} or requester.state_ends[-1], requester.state_ends
    assert settled(world) == []


def watch_local(world: Sites, met: list[object]) -> None:
    """Notice INSTALL in SFO's group, and let nothing through there behind it."""
    site = world.sites["SFO"]
    deliver = site.flush

    def flush() -> bool:
        for at, (_, batch) in enumerate(site.sent):
            if batch.headers and isinstance(batch.headers[-1], StateInstall):
                met.append(batch)
                del list(site.sent)[at + 1:]
        return deliver()
    site.flush = flush                            # type: ignore[method-assign]


def test_a_join_ends_the_attempt_and_the_requester_starts_another(world: Sites) -> None:
    flood(world, millis(50))
    lose_some(world, *"DEF")
    world.lose = lambda src, batch: isinstance(batch.headers[-1], StateFixed)
    get_state(world["E"], world["B"])
    world.run(millis(30))
    newcomer = world.sites["SFO"].add("G")
    world.lose = lambda src, batch: False
    flood(world, millis(800))
    assert world["E"].state_ends == [""]
    assert newcomer.state_ends == [""], "it takes the state with the others"
    assert settled(world) == []


def test_a_provider_whose_application_fails_is_named_with_its_error(world: Sites) -> None:
    provider = world["B"]

    def fail(output: object) -> None:
        assert isinstance(output, ProvideState)
        provider.stack.inject(StateChunk(output.request, b"half", last=True, error="get_state raised"), world.now_ns)
        provider.drain()
    provider.state_output = fail                  # type: ignore[method-assign]
    get_state(world["E"], provider, seconds(1))
    world.run(seconds(4))
    assert world["E"].state_ends == ["get_state raised"]
    assert settled(world) == []


def test_a_state_that_stops_arriving_ends_with_an_error_and_the_provider_drops_it(world: Sites) -> None:
    world["B"].multicast("something")
    world.run()
    world["B"].writes_all = False
    get_state(world["E"], world["B"], seconds(2))
    world.run(seconds(12))
    assert [bool(error) for error in world["E"].state_ends] == [True]
    assert world["B"].relay.state_provider.streams == {}
    assert not any(world[name].relay.send_gate.closed for name in "DEF")
    assert settled(world) == []


def test_a_site_without_relay_gives_no_state(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world.leave_bridge(world["A"], "link broken")
    world["A"].relay.bridge_link.wanted = False
    get_state(world["E"], world["B"], seconds(2))
    world.run(seconds(5))
    assert world["E"].state_ends == ["site NYC has no relay on the bridge"]


def test_two_members_that_request_a_state_at_once_both_get_an_answer(world: Sites) -> None:
    flood(world, millis(50))
    get_state(world["E"], world["B"])
    get_state(world["F"], world["A"])
    flood(world, millis(800))
    for name in "EF":
        assert world[name].state_ends, name
        assert set(world[name].state_ends) == {""}
    assert settled(world) == []


# --- interleavings by their letters (reference: rule 16) ------------------------------------------------------------

def test_f5_the_state_covers_what_the_requesting_site_has_and_all_continue_above_one_vector(world: Sites) -> None:
    """The provider is behind by what is on its way to it; the requester's other members send after the request."""
    world.lose = lambda src, batch: batch.dest == world["A"].bridge and isinstance(batch.headers[-1], Forward)
    world["F"].spoken = 3
    world["F"].multicast("F1", "F2", "F3")
    world.run(millis(20))
    assert world["B"].texts("F") == []
    get_state(world["D"], world["B"])
    flood(world, millis(50))
    assert world["D"].state_ends == [], "a state without F1 to F3 would undo them"
    world.lose = lambda src, batch: False
    flood(world, millis(1500))
    assert [world[name].state_ends for name in "DEF"] == [[""]] * 3
    vectors = [world[name].relay.delivery.seen["NYC"] for name in "DEF"]
    assert vectors[0] == vectors[1] == vectors[2]
    assert settled(world) == []


def test_f6_a_site_that_returns_from_offline_is_whole_again_with_a_state(world: Sites) -> None:
    flood(world, millis(100))
    relay = world["A"].relay
    site = relay.table.sites["SFO"]
    world.lose = lambda src, batch: True
    flood(world, millis(50))
    relay.site_status.take_offline(site, "the test says so")
    world["A"].drain()
    flood(world, millis(100))
    world.lose = lambda src, batch: False
    relay.site_status.bring_back(site)
    world["A"].drain()
    flood(world, millis(200))
    [advice] = reported(world["D"], StateAdvised)
    assert advice.site == "NYC"
    assert reported(world["E"], MessagesLost), "what was numbered while it was OFFLINE is lost for it"
    assert settled(world) != []
    get_state(world["D"], world["A"])
    flood(world, millis(400))
    assert settled(world) == []


def test_no_member_installs_a_state_twice_when_two_sites_request_each_others(world: Sites) -> None:
    flood(world, millis(50))
    get_state(world["D"], world["A"], seconds(2))
    get_state(world["A"], world["D"], seconds(2))
    flood(world, seconds(3))
    world.run(seconds(6))
    assert world["D"].state_ends
    assert world["A"].state_ends
    assert settled(world) == []


def test_a_member_begins_when_it_has_what_its_own_site_multicast_before(world: Sites) -> None:
    """Else F1 would come to E after a state that holds it already."""
    member, deferred, receive = world["E"], [], world["E"].receive

    def choosy(batch: Batch) -> None:
        own = batch.headers and isinstance(batch.headers[-1], Numbered) and batch.src == world["F"].me
        (deferred.append if own else receive)(batch)
    member.receive = choosy                          # type: ignore[method-assign]
    world["F"].spoken = 1
    world["F"].multicast("F1")
    get_state(world["D"], world["A"])
    world.run(millis(100))
    assert world["D"].arriving is not None, "D did not begin, though it has all that was multicast before"
    assert member.arriving is None, "E began although it lacks F1"
    member.receive = receive                            # type: ignore[method-assign]
    for batch in deferred:
        receive(batch)
    world.run(millis(100))
    assert [world[name].state_ends for name in "DEF"] == [[""]] * 3
    assert settled(world) == []
