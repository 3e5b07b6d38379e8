"""GMS: who joins, who leaves."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.model.events import Connect, Disconnect, Left, RaiseView
from jgroups_py.protocols.gms.headers import InstallHeader
from jgroups_py.testing.bench import InFlight
from tests.unit.protocols.gms_group import LATENCY_MS, Members, in_view


def test_the_first_member_is_alone_after_the_join_timeout() -> None:
    members = Members("A")
    members.connect("A")
    members.run(900)
    assert members.view("A") is None
    members.run(200)
    assert members.names_in_view("A") == "A"
    assert members["A"].views[0].id.counter == 1


def test_a_joiner_to_which_others_are_known_begins_no_group_after_one_search_without_an_answer() -> None:
    members = Members("AB", join_timeout_ns="500ms", max_join_attempts=4)
    members.sides = ["A", "B"]
    members["A"].down(Connect("demo"))
    members["B"].down(Connect("demo", expected=True))
    members.run(1400)
    assert members.names_in_view("A") == "A"
    assert members.view("B") is None, "it would have to be merged"
    members.sides = []
    members.run(600)
    assert members.agree("AB")
    assert len(members["B"].views) == 1


def test_a_joiner_to_which_others_are_known_begins_a_group_after_max_join_attempts() -> None:
    members = Members("A", join_timeout_ns="500ms", max_join_attempts=4)
    members["A"].down(Connect("demo", expected=True))
    members.run(1900)
    assert members.view("A") is None
    members.run(200)
    assert members.names_in_view("A") == "A"


def test_a_joiner_whose_round_trip_is_almost_join_timeout_is_let_in_at_its_first_request() -> None:
    members = Members("AB", join_timeout_ns="500ms")
    members.connect("A")
    members.run(600)
    members.delays_of = lambda _: (225,)
    members.connect("B")
    members.run(2400)
    assert members.agree("AB")
    assert members["B"].stats()["requests_sent"] == 4, "after 0, 50, 150 and 350 ms: it did not have to search again"


def test_a_member_joins_within_a_few_round_trips() -> None:
    members = Members("ABCDEFG")
    members.join("ABCDEF")
    members.connect("G")
    members.run(30)
    assert members.agree("ABCDEFG")


@pytest.mark.parametrize("names", ["AB", "ABCDEFGH"])
def test_members_that_start_together_form_one_group(names: str) -> None:
    members = Members(names)
    members.connect(reversed(names))
    members.run(1200)
    assert members.agree(names)
    assert members.names_in_view("A")[0] == "A"          # the lowest address becomes the first member
    assert max(len(members[name].views) for name in names) <= 3


def test_a_group_forms_although_every_third_message_is_lost() -> None:
    members = Members("ABCDE")
    lost = [0]

    def delays_of(_: InFlight) -> Sequence[float]:
        lost[0] += 1
        return () if lost[0] % 3 == 0 else (LATENCY_MS,)
    members.delays_of = delays_of
    members.connect("ABCDE")
    members.run(6000)
    assert members.agree("ABCDE")


def test_a_member_that_joins_while_the_view_changes_is_in_the_next_one() -> None:
    members = Members("ABCD")
    members.join("AB")
    members.connect("C")
    members.run(12)                                       # the flush for C has begun
    members.connect("D")
    members.run(100)
    assert members.agree("ABCD")


def test_a_joiner_that_crashes_does_not_stop_the_group_for_long() -> None:
    members = Members("ABC")
    members.join("AB")
    members.connect("C")
    members.run(3)                                        # it has asked, and then
    members.crash("C")
    members.multicast("B", b"x")
    members.run(2500)
    assert members.agree("AB")
    assert members["A"].payloads() == [b"x"]


def test_a_second_request_of_a_member_whose_install_was_lost_is_answered_with_the_view() -> None:
    members = Members("AB")
    members.join("A")

    def deaf(in_flight: InFlight) -> Sequence[float]:
        return () if in_flight.has(InstallHeader) and in_flight.dest == "B" else (LATENCY_MS,)
    members.delays_of = deaf
    members.connect("B")
    members.run(300)
    assert members.view("B") is None
    members.delays_of = members.usual
    members.run(300)
    assert members.agree("AB")


def test_a_leaver_is_excluded_at_once_and_its_last_messages_are_delivered() -> None:
    members = in_view("ABC")
    members.multicast("C", b"goodbye")
    members["C"].down(Disconnect())
    members.run(50)
    assert len(members["C"].passed_up(Left)) == 1
    assert members.agree("AB")
    assert members["A"].payloads() == members["B"].payloads() == [b"goodbye"]


def test_the_coordinator_and_the_next_member_can_leave_together() -> None:
    members = in_view("ABCD")
    members["A"].down(Disconnect())
    members["B"].down(Disconnect())
    members.run(300)
    assert members.agree("CD")
    assert len(members["A"].passed_up(Left)) == len(members["B"].passed_up(Left)) == 1


def test_all_members_can_leave_together() -> None:
    members = in_view("ABCDE")
    for name in "ABCDE":
        members[name].down(Disconnect())
    members.run(1500)
    assert [len(members[name].passed_up(Left)) for name in "ABCDE"] == [1] * 5


def test_the_last_member_leaves_without_a_request() -> None:
    members = in_view("A")
    members["A"].down(Disconnect())
    assert len(members["A"].passed_up(Left)) == 1


def test_a_leaver_that_gets_no_answer_ends_after_the_leave_timeout() -> None:
    members = in_view("AB", leave_timeout_ns="700ms")
    members.crash("A")
    members["B"].down(Disconnect())
    members.run(650)
    assert members["B"].passed_up(Left) == []
    members.run(100)
    assert len(members["B"].passed_up(Left)) == 1


def test_a_leaver_that_ends_without_an_answer_announces_it() -> None:
    members = in_view("ABC", leave_timeout_ns="10ms")
    members["C"].down(Disconnect())
    members.run(50)
    assert members.agree("AB")


def test_a_disconnect_while_joining_ends_the_join() -> None:
    members = Members("A")
    members.connect("A")
    members["A"].down(Disconnect())
    members.run(3000)
    assert len(members["A"].passed_up(Left)) == 1
    assert members["A"].views == []


def test_a_joiner_that_disconnects_is_not_waited_for() -> None:
    members = Members("AB")
    members.join("A")
    members.connect("B")
    members.run(12)
    members["B"].down(Disconnect())
    members.run(100)
    assert members.agree("A")


def test_a_raised_view_has_the_same_members_and_a_counter_above_the_wish() -> None:
    members = in_view("ABC")
    members["A"].down(RaiseView(41))
    members.run(50)
    assert members.agree("ABC")
    view = members.view("B")
    assert view is not None
    assert view.id.counter == 42
