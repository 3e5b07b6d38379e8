"""GMS: a member answers only for what it promised, and a merge takes only partners that still live."""
from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Disconnect, Frozen
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.gms.headers import (
    AckHeader,
    Ballot,
    CutHeader,
    FlushId,
    InstallHeader,
    MergeCancel,
    MergeReady,
    MergeRequest,
    NackHeader,
    Prepare,
    StaleView,
    StateHeader,
)
from jgroups_py.protocols.nakack.headers import RetransmitRequest
from jgroups_py.testing.bench import InFlight, address, view_of
from tests.unit.protocols.gms_group import LATENCY_MS, Members, heal, in_view, split


def prepare_of(members: Members, owner: str, round_: int, name: str) -> Batch:
    """A Prepare as `owner` would send it to a member, in that member's view."""
    view = members.view(name)
    assert view is not None
    flush = FlushId(view.id, Ballot(round_, address(owner)))
    return Batch(address(owner), address(name), (), (Prepare(flush, view.members, ()),))


def test_a_cut_of_a_flush_that_was_not_promised_is_counted_and_not_accepted() -> None:
    members = in_view("ABC")
    view, b = members.view("B"), members["B"]
    assert view is not None
    flush = FlushId(view.id, Ballot(9, address("A")))
    b.sent()
    cut = CutHeader(flush, view.members, (), view.id.counter + 1, dict.fromkeys(view.members, 1), {})
    b.up(Batch(address("A"), address("B"), (), (cut,)))
    assert b.sent_with(AckHeader) == []
    assert b.stats()["cuts_without_promise"] == 1
    assert not members.gms("B").acceptor.promises.in_cut(flush)


def test_what_was_accepted_is_not_acknowledged_again_after_a_higher_promise() -> None:
    members = in_view("ABC")
    view, b = members.view("B"), members["B"]
    assert view is not None
    flush = FlushId(view.id, Ballot(9, address("A")))
    cut = CutHeader(flush, view.members, (), view.id.counter + 1, dict.fromkeys(view.members, 1), {})
    b.up(prepare_of(members, "A", 9, "B"))
    b.up(Batch(address("A"), address("B"), (), (cut,)))
    assert len(b.sent_with(AckHeader)) == 1
    b.up(prepare_of(members, "C", 10, "B"))
    b.sent()
    b.up(Batch(address("A"), address("B"), (), (cut,)))
    answers = [batch.headers[-1] for batch in b.sent()]
    assert answers == [NackHeader(flush, Ballot(10, address("C")))]


def test_a_late_copy_of_a_cut_that_is_being_filled_starts_nothing_anew() -> None:
    members = in_view("ABC")
    view, b = members.view("B"), members["B"]
    assert view is not None
    flush = FlushId(view.id, Ballot(9, address("A")))
    cut = CutHeader(flush, view.members, (), view.id.counter + 1, {**dict.fromkeys(view.members, 1), address("C"): 5},
              {address("C"): address("C")})
    b.up(prepare_of(members, "A", 9, "B"))
    b.sent()
    for copy in range(2):
        b.up(Batch(address("A"), address("B"), (), (cut,)))
        fetched = [batch for batch in b.sent() if isinstance(batch.headers[-1], RetransmitRequest)]
        assert len(fetched) == (copy == 0), "messages of C are fetched once"
        assert members.gms("B").acceptor.promises.filling == flush


def test_a_member_with_a_view_that_is_taken_for_a_joiner_answers_with_its_view() -> None:
    members = in_view("ABC")
    view, b = members.view("B"), members["B"]
    assert view is not None
    b.sent()
    other = view_of("D", "E", counter=7)
    prepare = Prepare(FlushId(other.id, Ballot(1, address("D"))), other.members, (address("B"),))
    b.up(Batch(address("D"), address("B"), (), (prepare,)))
    ((answer, batch),) = b.sent_with(StaleView)
    assert batch.dest == address("D")
    assert answer == StaleView(other.id, view.id, True)


def test_a_member_that_no_ballot_froze_takes_over_no_view_change() -> None:
    members = in_view("ABC")
    b = members["B"]
    b.sent()
    members.gms("B").acceptor.take_over()
    assert b.sent_with(Prepare) == []
    assert "changes_taken_over" not in b.stats()
    b.up(prepare_of(members, "A", 9, "B"))
    members.gms("B").acceptor.take_over()
    assert b.stats()["changes_taken_over"] == 1


def test_a_member_that_is_frozen_twice_sends_only_the_digest_of_the_last_freeze() -> None:
    members = in_view("ABC")
    b, acceptor = members["B"], members.gms("B").acceptor
    b.up(prepare_of(members, "A", 9, "B"))
    assert len(b.sent_with(StateHeader)) == 1
    acceptor.freezes = 1                              # NAKACK has not yet said that it stopped for an earlier change
    b.up(prepare_of(members, "A", 10, "B"))
    assert b.sent_with(StateHeader) == [], "the first answer of NAKACK is of before it was told to go on"
    b.up(Frozen({address("A"): 7}))
    ((state, _),) = b.sent_with(StateHeader)
    assert (state.flush.ballot.round, state.digest) == (10, {address("A"): 7})


def test_members_of_a_ballot_get_the_view_that_another_ballot_decided() -> None:
    members = in_view("ABCDE")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src == "A" and in_flight.has(InstallHeader):
            members.crash("A")                        # its decision reaches C alone
            return (LATENCY_MS,) if in_flight.dest == "C" else ()
        if in_flight.src == "C" and "A" in members.crashed:
            return (10 * LATENCY_MS,) if in_flight.dest == "B" else ()
        return () if in_flight.src in members.crashed else (LATENCY_MS,)
    members.delays_of = delays_of
    members["E"].down(Disconnect())
    members.run(30)
    assert (members.names_in_view("C"), members.names_in_view("D")) == ("ABCD", "ABCDE")
    members.suspect("A", by="B")
    while members.names_in_view("B") != "ABCD":
        members.run(LATENCY_MS)
    members.run(2 * LATENCY_MS)
    assert members.names_in_view("D") == "ABCD", "D answered B before B knew, and waits for the next change"


def test_a_partner_that_fell_silent_after_it_was_ready_is_left_out_of_the_merge() -> None:
    members = in_view("ABCD")
    split(members, "AB", "C", "D")
    silence_ms = members.gms("A").config.silence_ns / NS_PER_MS
    ready_after_ns = members.now_ns + round(0.7 * silence_ms * NS_PER_MS)

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(MergeReady) and in_flight.src == "D":
            members.crash("D")                        # the last that it says
            return (LATENCY_MS,)
        if in_flight.has(MergeReady) and in_flight.src == "C" and members.now_ns < ready_after_ns:
            return ()
        return () if in_flight.src in members.crashed else (LATENCY_MS,)
    members.delays_of = delays_of
    heal(members, "A", "C", "D")
    members.run(silence_ms)
    view = members.view("A")
    assert view is not None
    assert address("C") in view, "the merge took place"
    assert address("D") not in view, "D had not been heard for more than half of silence_ns"


def test_a_merge_that_was_requested_during_a_view_change_begins_right_after_it() -> None:
    members = in_view("ABCD")
    split(members, "ABD", "C")
    members["D"].down(Disconnect())
    while members.gms("A").proposer.flush is None:
        members.run(LATENCY_MS)
    heal(members, "A", "C")
    members.run(100)
    assert members.agree("ABC")


def test_a_partner_that_withdraws_must_get_ready_again() -> None:
    members = in_view("ABCD")
    split(members, "AB", "C", "D")
    released = [False]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(MergeReady) and in_flight.src == "D" and not released[0]:
            return ()                                 # so that C is ready and has to wait
        return members.usual(in_flight)
    members.delays_of = delays_of
    heal(members, "A", "C", "D")
    members.run(20)
    merge, view = members.gms("A").merging.attempt, members.view("C")
    assert merge is not None
    assert view is not None
    assert list(merge.ready) == [address("C")]
    other = ViewId(view.id.counter + 1, address("C"))
    members["A"].up(Batch(address("C"), address("A"), (), (MergeCancel(merge.number, other),)))
    assert list(merge.ready) == []
    assert merge.partners[address("C")] == other
    members["A"].up(Batch(address("C"), address("A"), (), (MergeCancel(merge.number, None),)))
    assert list(merge.partners) == [address("D")]
    released[0] = True
    members.run(3000)
    assert "D" in members.names_in_view("A")


def test_a_partner_completes_a_view_change_of_its_own_before_it_merges() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    view, c = members.view("C"), members["C"]
    assert view is not None
    members.crash("D")
    members.suspect("D", by="C")
    assert members.gms("C").proposer.flush is None, "suspicions are collected for a moment"
    c.up(Batch(address("A"), address("C"), (), (MergeRequest(1, view.id),)))
    assert members.gms("C").proposer.flush is None, "it does not flush for the merge a view in which D still is"
    members.run(100)
    assert members.names_in_view("C") == "C"


def test_a_member_that_never_accepts_is_in_two_ballots_and_then_left_out() -> None:
    members = in_view("ABCD")
    silence_ms = members.gms("A").config.silence_ns / NS_PER_MS
    members.delays_of = lambda in_flight: () if in_flight.src == "B" and in_flight.has(AckHeader) else (LATENCY_MS,)
    members["D"].down(Disconnect())
    members.run(1.2 * silence_ms)
    assert members.names_in_view("A") == "ABCD", "it may have been busy with what it had to fetch"
    members.run(2 * silence_ms)
    assert members.names_in_view("A") == members.names_in_view("C") == "AC"


def test_a_member_that_has_left_sends_no_answer() -> None:
    members = in_view("ABC")
    prepare = prepare_of(members, "A", 9, "C")
    members["C"].down(Disconnect())
    members.run(100)
    assert members.agree("AB")
    c = members["C"]
    c.sent()
    c.up(prepare)
    c.advance(1)
    assert c.sent() == []


def test_when_the_last_partner_that_was_waited_for_withdraws_the_others_are_merged_at_once() -> None:
    members = in_view("ABCD")
    split(members, "AB", "C", "D")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(MergeReady) and in_flight.src == "D":
            return ()                                 # so that C is ready and has to wait for D
        return members.usual(in_flight)
    members.delays_of = delays_of
    heal(members, "A", "C", "D")
    members.run(20)
    merge = members.gms("A").merging.attempt
    assert merge is not None
    assert list(merge.ready) == [address("C")]
    assert members.gms("A").proposer.flush is None
    members["A"].up(Batch(address("D"), address("A"), (), (MergeCancel(merge.number, None),)))
    assert members.gms("A").proposer.flush is not None, "A's own group is flushed last, when no partner is waited for"
    members.run(50)
    assert set(members.names_in_view("A")) == set("ABC")
