"""GMS acts only on messages of processes that may change a view, and on no number that no group can have reached."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.model.batch import Header
from jgroups_py.model.counter_jumps import MAX_JUMP, TOP
from jgroups_py.model.events import AddressesKnown, MergeNeeded, RaiseView
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.headers import (
    AckHeader,
    Ballot,
    CutHeader,
    FlushId,
    InstallHeader,
    JoinChallenge,
    JoinRequest,
    LeaveRequest,
    MergeProposal,
    MergeReady,
    MergeRequest,
    NackHeader,
    Prepare,
    StateHeader,
)
from jgroups_py.protocols.gms.state import Lifecycle
from jgroups_py.testing.bench import InFlight, address, unicast
from tests.unit.protocols.gms_group import LATENCY_MS, Members, heal, in_view, split

HIGHEST = (1 << 62) - 1                     # what the codec lets through
A, B, C, EVIL = map(address, ("A", "B", "C", "evil"))


def forge(members: Members, src: str, dest: str, *headers: Header) -> None:
    """These arrive at `dest`, one after the other, as if `src` had sent them."""
    for header in headers:
        members[dest].up(unicast(src, dest, headers=(header,)))
        members.settle()


def ballot(members: Members, owner: str, round_: int = 1) -> FlushId:
    """A ballot about the view of A."""
    view = members.view("A")
    assert view is not None
    return FlushId(view.id, Ballot(round_, address(owner)))


def count(members: Members, name: str, counter: str) -> float:
    """A counter of a member's GMS."""
    return members.gms(name).stats().get(counter, 0)


def takeover(members: Members, owner: str, counter: int = 9) -> tuple[Prepare, CutHeader, InstallHeader]:
    """The three messages by which `owner` makes B a member of a view of its own."""
    flush = ballot(members, owner)
    view = View(ViewId(counter, address(owner)), (address(owner), B))
    return (Prepare(flush, (B,), ()), CutHeader(flush, (B,), (), counter, {A: 1, B: 1, C: 1}, {}),
            InstallHeader(view, (flush,), (), {}, {}))


def test_a_ballot_of_a_non_member_has_no_effect() -> None:
    members = in_view("ABC")
    forge(members, "evil", "B", *takeover(members, "evil"))
    assert members.names_in_view("B") == "ABC"
    assert not members.gms("B").acceptor.promises.frozen
    assert count(members, "B", "non_member_ballots_refused") == 2
    members.multicast("A", b"goes on")
    members.run(2)
    assert members["B"].payloads() == [b"goes on"]


def test_a_ballot_of_a_non_member_that_names_a_member_as_owner_has_no_effect() -> None:
    members = in_view("ABC")
    forge(members, "evil", "B", *takeover(members, "C"))
    assert members.names_in_view("B") == "ABC"
    assert not members.gms("B").acceptor.promises.frozen
    assert count(members, "B", "ballots_of_others_refused") == 2


def test_a_flood_of_growing_ballots_of_a_non_member_stops_no_member() -> None:
    members = in_view("ABC")
    for round_ in range(1, 33):
        for name in "ABC":
            forge(members, "evil", name, Prepare(ballot(members, "evil", round_), (A, B, C), ()))
        members.multicast("A", b"%d" % round_)
        members.run(2)
        assert len(members["C"].payloads()) == round_


def test_a_flood_of_growing_ballots_of_a_member_is_healed_when_it_ends() -> None:
    members = in_view("ABC")
    for round_ in range(5, 37, 4):
        for name in "AB":
            forge(members, "C", name, Prepare(ballot(members, "C", round_), (A, B, C), ()))
        members.run(250)
    members.multicast("A", b"x")
    members.run(10_000)
    assert members["B"].payloads() == [b"x"]
    assert "B" in members.names_in_view("A")


def test_a_joiner_answers_only_ballots_of_the_coordinator_that_it_asked() -> None:
    members = Members("ABC")
    members.join("A")
    members.delays_of = lambda in_flight: () if in_flight.has(Prepare) else (LATENCY_MS,)
    members.connect("B")
    members.run(20)
    forge(members, "evil", "B", Prepare(ballot(members, "evil"), (), (B,)))
    assert members.gms("B").acceptor.promises.promised is None
    forge(members, "A", "B", Prepare(ballot(members, "A"), (A,), (B,)))
    assert members.gms("B").acceptor.promises.promised == ballot(members, "A")


@pytest.mark.parametrize("round_", [MAX_JUMP + 100, TOP, HIGHEST])
def test_a_round_that_jumps_is_refused(round_: int) -> None:
    members = in_view("ABC")
    forge(members, "C", "A", Prepare(ballot(members, "C", round_), (A, B, C), ()))
    assert count(members, "A", "implausible_ballots_refused") == 1
    assert not members.gms("A").acceptor.promises.frozen
    forge(members, "C", "A", NackHeader(ballot(members, "A"), Ballot(round_, C)))
    assert count(members, "A", "nacks_refused") == 1
    assert members.gms("A").acceptor.promises.highest_round < MAX_JUMP


def test_a_nack_of_a_non_member_ends_no_ballot() -> None:
    members = in_view("AB")
    forge(members, "evil", "A", NackHeader(ballot(members, "A"), Ballot(1000, EVIL)))
    assert members.gms("A").acceptor.promises.highest_round < 1000


@pytest.mark.parametrize("counter", [MAX_JUMP + 100, TOP, HIGHEST])
def test_a_cut_with_a_counter_that_jumps_is_refused_and_the_group_changes_its_view_later(counter: int) -> None:
    members = in_view("ABC")
    forge(members, "C", "B", *takeover(members, "C", counter))
    assert count(members, "B", "implausible_counters_refused") == 2          # Cut and Install
    assert members.gms("B").group.counter < 10
    members.suspect("C", by="AB")
    members.crash("C")
    members.run(8000)
    assert members.agree("AB")


def test_a_state_with_a_counter_that_jumps_is_accepted_without_the_counter() -> None:
    members = in_view("ABC")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src == "B" and in_flight.has(StateHeader):
            state = in_flight.batch.headers[-1]
            assert isinstance(state, StateHeader)
            forge(members, "B", "A", StateHeader(state.flush, HIGHEST, state.digest))
            return ()
        return members.usual(in_flight)
    members.delays_of = delays_of
    members.suspect("C", by="AB")
    members.crash("C")
    members.run(500)
    assert members.agree("AB")
    assert count(members, "A", "implausible_counters_refused") == 1
    assert members.gms("B").group.counter < 10


def test_counters_that_are_only_reported_of_non_members_change_nothing() -> None:
    members = in_view("AB")
    forge(members, "evil", "A", MergeProposal(ViewId(MAX_JUMP, EVIL)))
    members["A"].up(MergeNeeded({EVIL: ViewId(MAX_JUMP, EVIL)}))
    assert members.gms("A").group.counter < 10


def test_a_view_is_raised_towards_a_far_counter_by_no_more_than_members_accept() -> None:
    members = in_view("AB")
    members["A"].down(RaiseView(2 * MAX_JUMP))
    members.run(200)
    assert members.agree("AB")
    view = members.view("A")
    assert view is not None
    assert view.id.counter <= MAX_JUMP // 2 + 3
    assert count(members, "A", "counter_steps") == 1


def test_a_group_with_a_counter_near_the_top_still_changes_its_view() -> None:
    members = in_view("ABC")
    for name in "ABC":
        members.gms(name).group.counter = TOP
    members.suspect("C", by="AB")
    members.crash("C")
    members.run(500)
    assert members.agree("AB")
    view = members.view("A")
    assert view is not None
    assert view.id.counter == TOP + 1


def test_a_leave_request_in_the_name_of_a_member_does_not_end_it() -> None:
    members = in_view("ABC")
    view = members.view("A")
    assert view is not None
    forge(members, "C", "A", LeaveRequest(view.id))
    members.run(5000)
    assert members.gms("C").group.lifecycle is Lifecycle.MEMBER
    assert count(members, "C", "leaves_not_asked_for") == 1
    assert "AB" in ["".join(map(str, view.members)) for view in members["A"].views]
    assert members.agree("ABC")                               # it was excluded, and merged at once


def test_a_non_members_report_that_the_group_went_on_is_checked_with_the_group() -> None:
    members = in_view("ABC")
    view = members.view("A")
    assert view is not None
    lie = InstallHeader(View(ViewId(view.id.counter + 1, EVIL), (EVIL, A, B)), (ballot(members, "A"),), (), {}, {})
    forge(members, "evil", "C", lie)
    members.run(100)
    assert members.agree("ABC")
    assert count(members, "C", "non_member_views_refused") == 1


def test_a_member_that_was_left_behind_gets_the_view_from_the_group_after_a_non_members_report() -> None:
    members = in_view("ABCD")
    members.delays_of = lambda in_flight: () if in_flight.src == "C" or in_flight.dest == "C" else (LATENCY_MS,)
    members.suspect("C", by="ABD")
    members.run(500)
    assert members.agree("ABD")
    assert members.names_in_view("C") == "ABCD"
    members.delays_of = members.usual
    shown = members.gms("D").group.installed
    assert shown is not None
    forge(members, "evil", "C", shown)
    members.run(5)
    assert count(members, "C", "times_excluded") == 1


def test_a_merged_view_is_accepted_from_a_non_member_only_during_a_merge() -> None:
    members = in_view("ABC")
    flush = ballot(members, "A")
    before = members.view("A")
    assert before is not None
    merged = MergeView(ViewId(9, EVIL), (EVIL, A, B, C), (before,))
    # An ordinary change, and one that a merge's leader decides.
    for counter, name, by in ((8, "B", "evil"), (0, "C", "not in it"), (0, "C", "evil")):
        forge(members, "A", name, Prepare(flush, (A, B, C), ()),
              CutHeader(flush, (A, B, C), (), counter, {A: 1, B: 1, C: 1}, {}))
        members[name].up(unicast(by, name, headers=(InstallHeader(merged, (flush,), (), {}, {}),)))
        assert (members.view(name) == before) == (by != "evil" or counter != 0)
    assert members.view("B") == before
    assert members.view("C") == merged


def test_physical_addresses_are_taken_only_from_views_that_are_accepted() -> None:
    members = in_view("ABC")
    shown = members.gms("A").group.installed
    assert shown is not None
    later = InstallHeader(View(ViewId(9, A), (A, B)), (), (), {A: ("192.0.2.1", 9)}, {})
    members["C"].passed_down(AddressesKnown)
    forge(members, "evil", "C", later)
    assert members["C"].passed_down(AddressesKnown) == []
    forge(members, "A", "C", later)
    assert AddressesKnown(later.book) in members["C"].passed_down(AddressesKnown)


def test_a_joiner_that_accepted_gets_its_first_view_from_any_of_its_members() -> None:
    members = Members("ABC")
    members.join("AB")
    members.delays_of = lambda in_flight: \
        () if in_flight.dest == "C" and in_flight.has(InstallHeader) else (LATENCY_MS,)
    members.connect("C")
    members.run(30)
    assert members.gms("C").acceptor.promises.latest is not None
    shown = members.gms("B").group.installed
    assert shown is not None
    forge(members, "evil", "C", shown)
    assert members.view("C") is None
    forge(members, "B", "C", shown)
    assert members.agree("ABC")


def test_answers_of_processes_that_were_not_asked_change_nothing() -> None:
    members = in_view("ABC")
    before = members.view("A")
    assert before is not None
    forge(members, "evil", "A", StateHeader(ballot(members, "A", 0), 5, {}))
    members.run(200)
    assert members.view("A") == before, "no view change for a stranger that waits for a ballot"
    members.delays_of = lambda _: ()
    members.gms("A").proposer.begin()
    flush = members.gms("A").proposer.flush
    assert flush is not None
    forge(members, "evil", "A", StateHeader(flush.id, 1000, {}))
    assert members.gms("A").group.counter < 1000
    assert count(members, "A", "answers_unasked") == 2


def test_a_cut_without_a_promise_is_not_accepted() -> None:
    members = in_view("ABC")
    members.delays_of = lambda _: ()
    forge(members, "A", "B", CutHeader(ballot(members, "A"), (A, B, C), (), 9, {A: 5, B: 1, C: 1}, {A: A}))
    assert count(members, "B", "cuts_without_promise") == 1
    assert members.gms("B").acceptor.promises.filling is None
    forge(members, "A", "B", Prepare(ballot(members, "A", 2), (A, B, C), ()),
          CutHeader(ballot(members, "A", 3), (A, B, C), (), 9, {A: 1, B: 1, C: 1}, {}))
    assert members.gms("B").acceptor.promises.latest is None


def test_a_view_that_arrives_during_a_ballot_is_passed_on_to_the_members_of_the_ballot() -> None:
    members = in_view("ABC")
    members.delays_of = lambda in_flight: () if in_flight.src == "A" else (LATENCY_MS,)
    flush = ballot(members, "A")
    digest = {A: 1, B: 1, C: 1}
    for name in "BC":
        forge(members, "A", name, Prepare(flush, (A, B, C), ()), CutHeader(flush, (A, B, C), (), 8, digest, {}))
    members.gms("B").proposer.begin()
    members.crash("A")                                        # it told B alone what it decided
    decided = InstallHeader(View(ViewId(8, A), (A, B, C)), (flush,), (), {}, {})
    members["B"].up(unicast("A", "B", headers=(decided,)))
    members.run(1)
    assert members.view("B") == members.view("C") == decided.view


def test_a_partner_that_was_ready_and_fell_silent_is_not_in_the_merged_view() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    deaf, before = [True], len(members["A"].views)

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src in "CD" and in_flight.has(MergeReady):
            return (LATENCY_MS,) if not members.gms("A").merging.attempt.ready else ()      # type: ignore[union-attr]
        late = deaf[0] and in_flight.src == "B" and in_flight.has(AckHeader)
        return () if late else (LATENCY_MS,)
    members.delays_of = delays_of
    heal(members, "A", "C")
    members.run(100)
    merge = members.gms("A").merging.attempt
    assert merge is not None
    assert list(merge.ready) == [C]
    members.run(1200)                                         # more than half of view_ack_collection_timeout
    deaf[0] = False
    members.run(500)
    assert "".join(map(str, members["A"].views[before].members)) == "AB", "the view that this merge came to"


def test_leaders_of_merges_that_fall_silent_stop_the_group_only_a_small_part_of_the_time() -> None:
    members = in_view("BC")
    delivered = 0
    for number in range(6000):                                # 2 min, each 20 ms a request to get ready for a merge
        view = members.view("B")
        assert view is not None
        forge(members, "A0", "B", MergeRequest(number, view.id))
        before = len(members["B"].payloads())
        members.multicast("C", b"x")
        members.run(20)
        delivered += len(members["B"].payloads()) - before == 1
    assert delivered > 3600                                   # without the pauses: less than one in a hundred
    assert members.agree("BC")


def test_a_merge_that_succeeds_ends_the_backoff() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    members.gms("C").merging.abandoned = 2
    heal(members, "A", "C")
    members.run(3000)
    assert members.agree("ABCD")
    assert members.gms("C").merging.abandoned == 0


def test_only_few_groups_that_do_not_exist_are_kept() -> None:
    members = in_view("AB")
    crowd = [address(f"X{number}") for number in range(3000)]
    members["A"].up(MergeNeeded({member: ViewId(5, member) for member in crowd}))
    merging = members.gms("A").merging
    assert len(merging.candidates) + (len(merging.attempt.partners) if merging.attempt is not None else 0) == 1000


# --- joining ----------------------------------------------------------------------------------------------------------

def stranger(number: int) -> str:
    """The name of somebody that does not exist."""
    return f"X{number}"


def test_a_flood_of_joiners_that_do_not_exist_stops_no_member_and_a_real_one_is_admitted() -> None:
    members = Members("ABC")
    members.join("AB")
    for number in range(300):
        name = stranger(number)
        forge(members, name, "A", JoinRequest(address(name), ("192.0.2.1", 9), 0))
        members.multicast("B", b"%d" % number)
        members.run(2)
        assert len(members["A"].payloads()) == number + 1
        if number == 150:
            members.connect("C")
    assert members.agree("ABC")
    assert count(members, "A", "joiners_challenged") >= 300
    assert len(members.gms("A").admission.joiners) == 0


def test_a_token_is_valid_for_one_joiner_at_one_physical_address() -> None:
    members = in_view("AB")
    place = ("192.0.2.1", 9)
    members["A"].up(unicast("X", "A", headers=(JoinRequest(address("X"), place, 0),)))
    [(challenge, _)] = members["A"].sent_with(JoinChallenge)
    for name, where in (("Y", place), ("X", ("192.0.2.2", 9))):
        forge(members, name, "A", JoinRequest(address(name), where, challenge.token))
    assert not members.gms("A").admission.joiners
    forge(members, "Y", "A", JoinRequest(address("X"), place, challenge.token))
    assert count(members, "A", "joins_of_others_refused") == 1
    assert not members.gms("A").admission.joiners
    forge(members, "X", "A", JoinRequest(address("X"), place, challenge.token))
    assert list(members.gms("A").admission.joiners) == [address("X")]


def test_a_joiner_answers_only_the_challenge_of_the_coordinator_that_it_asked() -> None:
    members = Members("AB")
    members.join("A")
    members.delays_of = lambda in_flight: () if in_flight.src == "A" and in_flight.has(JoinChallenge) else (LATENCY_MS,)
    members.connect("B")
    members.run(20)
    forge(members, "evil", "B", JoinChallenge(7))
    joining = members.gms("B").joining
    assert (joining.coordinator, joining.token) == (A, 0)
    members.delays_of = members.usual
    members.run(500)
    assert members.agree("AB")


def test_the_joiners_in_a_ballot_and_those_that_wait_are_bounded() -> None:
    members = in_view("AB")
    admission = members.gms("A").admission
    for number in range(1100):
        request = JoinRequest(address(stranger(number)), ("192.0.2.1", 9), 0)
        members["A"].up(unicast(stranger(number), "A", headers=(
            JoinRequest(request.member, request.physical, admission.token(request)),)))
    assert len(members.gms("A").admission.joiners) == 1024
    assert count(members, "A", "joiners_refused") == 76
    assert len(admission.next_joiners()) == 256


def test_joiners_that_fall_silent_stop_the_group_only_a_small_part_of_the_time() -> None:
    members = in_view("AB")
    place = ("192.0.2.1", 9)
    delivered = 0
    for number in range(1000):                                # 20 s, one joiner after another
        name = stranger(number)
        token = members.gms("A").admission.token(JoinRequest(address(name), place, 0))
        forge(members, name, "A", JoinRequest(address(name), place, token))
        before = len(members["A"].payloads())
        members.multicast("B", b"x")
        members.run(20)
        delivered += len(members["A"].payloads()) - before == 1
    assert delivered > 600                                    # in a closed group: 1000; before there was a pause: 0
    assert members.agree("AB")


def test_failures_of_joiners_are_forgotten_after_one_was_admitted() -> None:
    members = Members("ABC", join_pause_ns=100_000_000)
    members.join("AB")
    name = "X"
    token = members.gms("A").admission.token(JoinRequest(address(name), ("192.0.2.1", 9), 0))
    forge(members, name, "A", JoinRequest(address(name), ("192.0.2.1", 9), token))
    members.run(1500)
    assert members.gms("A").admission.failures == 1
    members.join("C")
    assert members.agree("ABC")
    assert members.gms("A").admission.failures == 0
