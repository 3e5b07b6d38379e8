"""A state is cut only where it fits the provider's own stream; what is forgotten is forgotten everywhere."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import GetState
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.announcements import OriginForgotten
from jgroups_py.protocols.relay.headers import Sync
from jgroups_py.protocols.relay.headers.state import StateFetch, StateFixed, StatePause
from tests.unit.relay.sites import Member, Sites

ORIGIN = Address(b"o".ljust(16, b"\0"), "o")

SELF = Batch(ORIGIN, ORIGIN)


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


@pytest.mark.parametrize("begun", [False, True])
def test_a_provider_that_takes_part_in_a_state_for_its_own_site_gives_its_own_only_afterwards(
    world: Sites, begun: bool,
) -> None:
    a, b = world["A"], world["B"].relay
    fetch = StateFetch(world["E"].me, 1, b.me, {"NYC": {a.me: 3}}, seconds(30))
    b.state_provider.fetch_received(fetch, SELF)
    b.state_transfer.pause(StatePause(world["C"].me, 1, b.group.view.id), SELF)
    assert b.state_transfer.attempt is not None
    b.state_transfer.open = begun
    a.multicast("a1", "a2")
    world.run(seconds(1))
    assert b.numbering.numbers[a.me] == 3, "B lacks what the requesting site has"
    assert list(b.state_provider.waiting) == [fetch.key], "B fixed its state while it installs another one"
    b.state_transfer.leave_attempt("no state")
    assert list(b.state_provider.streams) == [fetch.key]


def test_a_provider_that_waits_for_messages_of_its_own_site_gives_its_state_as_soon_as_it_has_them(
    world: Sites,
) -> None:
    b = world["B"].relay
    b.state_provider.fetch_received(StateFetch(world["E"].me, 1, b.me, {"NYC": {world["A"].me: 3}}, seconds(30)), SELF)
    world["A"].multicast("a1")
    world.run(millis(100))
    assert b.state_provider.streams == {}
    world["A"].multicast("a2")
    world.run(millis(100))
    assert list(b.state_provider.streams) == [(world["E"].me, 1)]


def test_a_provider_whose_application_is_taking_a_state_gives_none(world: Sites) -> None:
    b = world["B"].relay
    b.state_provider.fetch_received(StateFetch(world["E"].me, 1, b.me, {"NYC": {world["A"].me: 3}}, seconds(30)), SELF)
    b.state_transfer.open = True                              # its try is over, and the next one has not begun
    world["A"].multicast("a1", "a2")
    world.run(seconds(1))
    assert b.state_provider.streams == {}


def test_of_an_origin_that_is_new_to_a_member_that_was_elsewhere_all_from_the_first_message_on_is_ahead(
    world: Sites,
) -> None:
    relay = world["B"].relay
    relay.delivery.sites_before_view["SFO"] = None               # it was in a half that SFO had spoken to
    sync = Sync({"SFO": {ORIGIN: 5}}, relay.table.rows(), {}, 0)
    relay.synchronizer.sync(sync, Batch(world["A"].me, None, (), (sync,)))
    assert relay.delivery.seen["SFO"][ORIGIN] == 1


def test_a_site_that_is_known_by_a_state_only_has_been_met(world: Sites) -> None:
    relay = world["E"].relay
    relay.delivery.skip_to({"LON": {ORIGIN: 5}})
    assert "LON" in relay.delivery.sites_with_base, "what it sends now follows on what the state holds"
    assert relay.delivery.seen["LON"] == {ORIGIN: 5}


def test_an_origin_known_from_a_journal_alone_is_dropped_when_it_is_forgotten(world: Sites) -> None:
    relay = world["B"].relay
    relay.divergence.unheard[ORIGIN] = None
    relay.announce(OriginForgotten(ORIGIN))
    assert relay.divergence.unheard == {}


def test_the_way_of_a_state_is_forgotten_when_it_is_complete(
    world: Sites, monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways, provider = world["A"].relay.state_forwarder.routes, world["B"]
    meanwhile: list[object] = []
    provide = provider.state_output

    def watch(output: object) -> None:
        meanwhile.extend(ways)
        provide(output)
    monkeypatch.setattr(provider, "state_output", watch)
    world["E"].stack.inject(GetState(provider.me, seconds(5)), world.now_ns)
    world["E"].drain()
    world.run(seconds(2))
    assert world["E"].state_ends == [""]
    assert meanwhile == [(world["E"].me, 1)]
    assert ways == {}


def test_a_late_answer_to_an_earlier_request_is_not_taken_for_the_answer_to_a_later_one(world: Sites) -> None:
    requester, provider, late = world["E"], world["B"], list[tuple[Address | None, Batch]]()

    def delay(src: Address | None, batch: Batch) -> bool:
        if src != world["A"].bridge:
            return False
        late.append((src, batch))                     # in order, like all that a relay sends
        return True
    provider.multicast("before")
    world.run()
    world.lose = delay                                # type: ignore[assignment]
    get_state(requester, provider, seconds(1))
    world.run(seconds(3))
    assert requester.state_ends == ["the other site does not send the state"]
    assert any(isinstance(batch.headers[-1], StateFixed) for _, batch in late), "an answer is on its way"
    provider.multicast("between")
    get_state(requester, provider, seconds(5))
    world.run(millis(100))
    world.lose = lambda src, batch: False
    world.on_bridge.extend(late)
    world.run(seconds(3))
    assert requester.state_ends[1:] == [""]
    for name in "DEF":
        assert world[name].log == [b"before", b"between"]


def get_state(requester: Member, provider: Member, timeout_ns: int) -> None:
    requester.stack.inject(GetState(provider.me, timeout_ns), requester.site.world.now_ns)
    requester.drain()
