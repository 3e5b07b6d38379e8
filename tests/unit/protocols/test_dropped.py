"""What the layers of a group drop or give up they count under a name that says why."""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import FlushTo, GetState
from jgroups_py.model.units import NS_PER_MS, NS_PER_S
from jgroups_py.protocols.frag import Frag, FragConfig, Fragment
from jgroups_py.protocols.gms.headers import MergeRequest, NackHeader, StaleView
from jgroups_py.protocols.nakack.headers import LastSeqno
from jgroups_py.protocols.state_transfer import StateCutHeader, StatePartHeader, StateRequestHeader, StateTransfer
from jgroups_py.protocols.unicast import Unicast
from jgroups_py.protocols.unicast.headers import UnicastBase
from jgroups_py.testing.bench import Bench, Group, address, change, multicast, unicast, view_of
from tests.unit.protocols.gms_group import Members, heal, in_view, split
from tests.unit.protocols.nakack_bench import V1, member
from tests.unit.protocols.state_apps import App, Loop

A, B, C = map(address, "ABC")


def grown(bench: Bench, before: dict[str, float]) -> dict[str, float]:
    """The counters that rose, and by how much."""
    return {name: value - before.get(name, 0) for name, value in bench.stats().items() if value != before.get(name, 0)}


# --- NAKACK -----------------------------------------------------------------------------------------------------------

def test_a_multicast_without_a_number_is_dropped_and_counted() -> None:
    a = member()
    a.up(multicast("B", b"x"))
    assert a.stats()["unnumbered_dropped"] == 1
    assert a.payloads() == []


def test_a_cut_that_differs_from_what_this_member_sent_is_counted() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.down(FlushTo({A: 2, B: 1, C: 1}, {}))
    assert "cut_differs_from_sent" not in a.stats()
    a.down(FlushTo({A: 9, B: 1, C: 1}, {}))
    assert a.stats()["cut_differs_from_sent"] == 1


def test_announcements_of_the_last_number_are_counted() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.sent()
    a.advance(3000)
    said = a.sent_with(LastSeqno)
    assert a.stats()["announced"] == len(said) > 0


# --- UNICAST ----------------------------------------------------------------------------------------------------------

def test_the_base_of_another_connection_is_counted_as_stale() -> None:
    a = Bench(Unicast(), me="A")
    a.down(change(V1))
    a.up(unicast("B", "A", headers=(UnicastBase(7, 3),)))
    assert a.stats()["stale_bases"] == 1


def test_closed_connections_and_messages_behind_their_holes_are_counted() -> None:
    two = Group(lambda name: [Unicast()], "AB")
    two.install(view_of("A", "B"))
    lost = [1]

    def delays_of(in_flight: object) -> tuple[float, ...]:
        lost[0] -= 1
        return () if lost[0] == 0 else (0.0,)
    two.delays_of = delays_of                                           # type: ignore[assignment]
    for text in (b"1", b"2", b"3"):
        two["A"].down(unicast("A", "B", text))
        two.run(0.1)
    layer = two["B"].stack.find(Unicast)
    assert isinstance(layer, Unicast)
    layer.peers.close(A)
    assert two["B"].payloads() == []
    assert two["B"].stats()["out_of_order_dropped"] == 2
    sender = two["A"].stack.find(Unicast)
    assert isinstance(sender, Unicast)
    sender.peers.close(B)
    assert two["A"].stats()["connections_closed"] == 1
    sender.peers.close(B)
    assert two["A"].stats()["connections_closed"] == 1, "there was none any more"


# --- FRAG -------------------------------------------------------------------------------------------------------------

def test_fragments_of_a_message_that_is_not_under_way_are_counted_as_dropped() -> None:
    a = Bench(Frag(FragConfig(frag_size_bytes=1000)), me="A")
    a.down(change(V1))
    a.up(multicast("A", b"p", b"q", headers=(Fragment(1, 0, 3, 3, 0),)))
    assert a.stats()["abandoned_fragments_dropped"] == 2


def test_messages_whose_sender_left_or_began_anew_are_counted_as_dropped() -> None:
    a = Bench(Frag(FragConfig(frag_size_bytes=1000)), me="A")
    a.down(change(V1))
    a.up(multicast("B", b"p", headers=(Fragment(1, 0, 3, 3, 0),)))
    a.up(multicast("B", b"p", headers=(Fragment(1, 0, 3, 3, 0),)))
    assert a.stats()["incomplete_messages_dropped"] == 1, "it began again"
    a.down(change(view_of("A", "C", counter=2), V1))
    a.up(change(view_of("A", "C", counter=2), V1))
    assert a.stats()["incomplete_messages_dropped"] == 2, "its sender left"


# --- STATE_TRANSFER ---------------------------------------------------------------------------------------------------

def test_requests_for_states_and_their_failures_and_bytes_are_counted() -> None:
    c = App(Loop(), StateTransfer(), me="C")
    c.down(change(V1))
    c.down(GetState(C, NS_PER_S))
    assert "transfers" not in c.stats(), "its own state it has"
    for asked in (1, 2):
        c.down(GetState(A, NS_PER_S))
        assert (c.stats()["transfers"], c.stats().get("transfers_failed", 0)) == (asked, asked - 1)
    ((_, _), (ask, _)) = c.sent_with(StateRequestHeader)
    c.up(unicast("A", "C", headers=(StateCutHeader(ask.attempt, {}, {}),)))
    c.up(unicast("A", "C", b"1234567", headers=(StatePartHeader(ask.attempt, False, ""),)))
    c.up(unicast("A", "C", headers=(StatePartHeader(ask.attempt, True, ""),)))
    assert c.stats()["state_bytes_received"] == 7
    assert c.stats()["transfers_failed"] == 1


# --- GMS --------------------------------------------------------------------------------------------------------------

def test_an_old_view_is_dropped_and_counted() -> None:
    members = in_view("AB")
    first = members.gms("B").group.installed
    assert first is not None
    members.crash("A")
    members.suspect("A", by="B")
    members.run(3000)
    assert members.names_in_view("B") == "B"
    before = members["B"].stats()
    members["B"].up(Batch(A, B, (), (first,)))
    assert grown(members["B"], before) == {"old_views_heard": 1}


def test_an_answer_about_another_view_is_counted() -> None:
    members = in_view("AB")
    before = members["A"].stats()
    members["A"].up(Batch(B, A, (), (StaleView(view_of("X", counter=77).id, None, False),)))
    assert grown(members["A"], before) == {"stale_view_of_other_view": 1}


def test_a_member_that_is_found_gone_is_counted_once() -> None:
    members = in_view("ABC")
    before = members["A"].stats().get("members_gone", 0)
    members.gms("A").proposer.member_gone(C)
    members.gms("A").proposer.member_gone(C)
    assert members["A"].stats()["members_gone"] == before + 1


def test_a_silent_member_that_delays_a_view_change_is_counted() -> None:
    members = in_view("ABC")
    members.crash("B")
    proposer = members.gms("A").proposer
    proposer.begin()
    members.run(3 * members.gms("A").config.silence_ns / NS_PER_MS)
    assert members.agree("AC")
    assert members["A"].stats()["silent_members"] == 1


def test_a_merge_is_counted_by_the_member_that_leads_it() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    heal(members, "A", "C")
    members.run(3000)
    assert members.agree("ABCD")
    assert members["A"].stats()["merges_led"] == 1
    assert "merges_led" not in members["C"].stats()


def test_a_postponed_merge_is_counted() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    c = members.gms("C")
    c.merging.backoff_until_ns = c.now_ns + 1000 * NS_PER_MS
    view = c.group.view
    assert view is not None
    members["C"].up(Batch(A, C, (), (MergeRequest(1, view.id),)))
    assert members["C"].stats()["merges_put_off"] == 1


def test_a_ballot_that_a_higher_one_ends_is_counted() -> None:
    members = in_view("ABC")
    proposer = members.gms("A").proposer
    proposer.begin()
    assert proposer.flush is not None
    flush = proposer.flush.id
    members["A"].up(Batch(B, A, (), (NackHeader(flush, type(flush.ballot)(flush.ballot.round + 1, B)),)))
    assert members["A"].stats()["ballots_outbid"] == 1
    assert proposer.flush is None


def test_a_join_that_is_given_up_is_counted() -> None:
    members = Members("AB", max_join_attempts=2)
    members.join("A")
    members.sides = ["A", "B"]
    b = members.gms("B")
    members.connect("B")
    b.joining.attempt_failed()
    assert "joins_given_up" not in members["B"].stats()
    b.joining.attempt_failed()
    assert members["B"].stats()["joins_given_up"] == 1
    assert members.names_in_view("B") == "B"
