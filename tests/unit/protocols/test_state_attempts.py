"""STATE_TRANSFER: answers to another request do not count for the present one, and are not kept for nobody."""
from __future__ import annotations

from jgroups_py.model.events import GetState, StateChunk
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.state_transfer import (
    StateCancelHeader,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
    StateTransfer,
    StateTransferConfig,
    StateWindowHeader,
)
from jgroups_py.testing.bench import address, change, multicast, unicast, view_of
from tests.unit.protocols.state_apps import V1, App, Loop, apps


def test_an_answer_to_an_earlier_request_is_not_taken_for_one_to_the_present_request() -> None:
    member = App(Loop(), StateTransfer(), me="C")
    member.down(change(V1))
    attempts = []
    for _ in range(2):
        member.down(GetState(address("A"), NS_PER_S))
        attempts += [ask.attempt for ask, _ in member.sent_with(StateRequestHeader)]
    earlier, present = attempts
    for late in (StateRefusedHeader(earlier, "busy"), StateCutHeader(earlier, {}, {})):
        member.up(unicast("A", "C", headers=(late,)))
    assert member.sent_with(StateRequestHeader) == [], "B was asked, though A has not refused the present request"
    assert member.begins == 0
    assert member.stats()["stale_dropped"] == 2
    member.up(unicast("A", "C", headers=(StateCutHeader(present, {}, {}),)))
    assert member.begins == 1


def test_members_that_all_refused_get_requests_again_a_little_later_in_the_same_order() -> None:
    member = App(Loop(), StateTransfer(StateTransferConfig(retry_interval_ns="500ms")), me="C")
    member.down(change(V1))
    member.down(GetState(address("A"), 60 * NS_PER_S))
    for _ in range(2):
        for provider in "AB":
            ((ask, batch),) = member.sent_with(StateRequestHeader)
            assert batch.dest == address(provider)
            member.up(unicast(provider, "C", headers=(StateRefusedHeader(ask.attempt, "busy"),)))
        assert member.sent_with(StateRequestHeader) == [], "both have refused"
        member.advance(499)
        assert member.sent_with(StateRequestHeader) == []
        member.advance(1)
    assert len(member.sent_with(StateRequestHeader)) == 1
    assert member.ends == []


def test_messages_that_were_kept_back_are_delivered_when_no_state_comes() -> None:
    member = App(Loop(), StateTransfer(), me="C")
    member.down(change(V1))
    member.down(GetState(address("A"), NS_PER_S))
    member.up(multicast("B", b"meanwhile"))
    assert member.log == []
    member.advance(1000)
    assert len(member.ends) == 1
    assert member.ends[0] != ""
    assert member.log == [b"meanwhile"]
    member.up(multicast("B", b"later"))
    assert member.log == [b"meanwhile", b"later"]


def test_a_state_that_was_not_requested_is_cancelled_so_that_its_provider_does_not_keep_it() -> None:
    group = apps()
    group["A"].log = [b"much"]
    group["A"].up(unicast("C", "A", headers=(StateRequestHeader(7, V1.id.raw, {}, {}),)))       # in the name of C
    group.settle()
    assert group["A"].stats()["states_provided"] == 1
    assert group["C"].stats()["stale_dropped"] == 1
    assert group["A"].stack.pending_bytes() == 0


def test_a_request_in_the_name_of_a_process_outside_the_view_makes_no_state() -> None:
    alone, both = view_of("A", counter=1), view_of("A", "C", counter=2)
    provider = App(Loop(), StateTransfer(), me="A")
    provider.up(change(alone))
    provider.up(unicast("C", "A", headers=(StateRequestHeader(0, alone.id.raw, {}, {}),)))
    provider.up(change(both, alone))
    assert provider.sent_with(StateCutHeader) == []
    assert provider.stack.pending_bytes() == 0
    assert provider.log == []


def test_a_request_from_a_view_that_is_not_installed_here_yet_is_answered_in_that_view() -> None:
    alone, both = view_of("A", counter=1), view_of("A", "C", counter=2)
    provider = App(Loop(), StateTransfer(), me="A")
    provider.up(change(alone))
    provider.up(unicast("C", "A", headers=(StateRequestHeader(1, both.id.raw, {}, {}),)))
    assert provider.sent_with(StateCutHeader) == []
    provider.up(change(both, alone))
    assert [(cut.attempt, batch.dest) for cut, batch in provider.sent_with(StateCutHeader)] == [(1, address("C"))]


def test_a_provider_probes_its_requesters_from_time_to_time() -> None:
    """The requester may have given up in a view of its own, in which there was no way to tell the provider."""
    group = apps(provide_timeout_ns="1s")
    group["A"].log = [b"much"]
    group.delays_of = lambda in_flight: () if in_flight.has(StateCutHeader) else (0.0,)
    group["A"].up(unicast("C", "A", headers=(StateRequestHeader(7, V1.id.raw, {}, {}),)))
    group.settle()
    assert group["A"].stack.pending_bytes() == len(b"much")
    group.delays_of = lambda in_flight: (0.0,)
    group["C"].up(change(view_of("C", counter=2)))                 # asked while A is outside the view of C
    group.run(1500)
    assert group["A"].stack.pending_bytes() == len(b"much")
    group["C"].up(change(view_of("A", "B", "C", counter=3)))
    group.run(1000)
    assert group["A"].stack.pending_bytes() == 0


def test_a_probe_does_not_disturb_a_state_that_arrives() -> None:
    group = apps(provide_timeout_ns="200ms")
    group["A"].slow = True
    group["C"].down(GetState(address("A"), NS_PER_S))
    group.settle()
    ((request, _),) = group["A"].requests
    group["A"].down(StateChunk(request, b"first,"))
    group.run(900)
    group["A"].down(StateChunk(request, b"second", last=True))
    group.settle()
    assert (group["C"].begins, group["C"].ends, group["C"].log) == (1, [""], [b"first", b"second"])


def test_a_probe_does_not_count_as_progress() -> None:
    group = apps(provide_timeout_ns="200ms")
    group["A"].slow = True
    group["C"].down(GetState(address("A"), NS_PER_S))
    group.run(1100)
    assert group["C"].ends == ["no answer from A"]


def test_the_cancellation_of_one_request_does_not_end_the_answer_to_another() -> None:
    provider = App(Loop(), StateTransfer(), me="A")
    provider.slow = True
    provider.up(change(V1))
    provider.up(unicast("C", "A", headers=(StateRequestHeader(2, V1.id.raw, {}, {}),)))
    ((request, _),) = provider.requests
    provider.down(StateChunk(request, b"state", last=True))
    provider.up(unicast("C", "A", headers=(StateCancelHeader(1),)))
    provider.sent_with(StatePartHeader)
    provider.up(unicast("C", "A", headers=(StateWindowHeader(2, 65536),)))
    assert [(part.attempt, part.last) for part, _ in provider.sent_with(StatePartHeader)] == [(2, False), (2, True)]


def test_non_members_get_no_cancellation() -> None:
    member = App(Loop(), StateTransfer(), me="C")
    member.up(change(V1))
    for name in ("X", "C"):
        member.up(unicast(name, "C", headers=(StateCutHeader(9, {}, {}),)))
        member.up(unicast(name, "C", b"data", headers=(StatePartHeader(9, False, ""),)))
    assert member.sent_with(StateCancelHeader) == []
    assert member.stats()["stale_dropped"] == 4
