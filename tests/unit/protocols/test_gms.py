"""GMS on NAKACK: joins, leaves, crashes at every step of a view change, exclusion, merges."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.events import Connect, Disconnect, Left, MergeNeeded, RaiseView, Suspect, ViewChange
from jgroups_py.protocol import Protocol
from jgroups_py.protocols.discovery.ping import Ping
from jgroups_py.protocols.gms import Gms
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import Ack, Cut, Install, MergeReady, Prepare, State
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.view import MergeView, View
from tests.unit.harness import Flying, Group, address, multicast

LATENCY_MS = 0.5


class Members(Group):
    """Groups of GMS on NAKACK; messages take half a millisecond."""

    def __init__(self, names: str, **properties: object) -> None:
        def layers(_: str) -> Sequence[Protocol]:
            return [Ping(), Nakack(), Gms(GmsConfig(**properties))]          # type: ignore[arg-type]
        super().__init__(layers, names)
        self.names = names
        self.sides: list[str] = []                       # who can hear whom, if the net is split
        self.fate = self.usual

    def usual(self, flying: Flying) -> Sequence[float]:
        """One copy, unless the net is split between the two."""
        apart = self.sides and not any(flying.src in side and flying.dest in side for side in self.sides)
        return () if apart else (LATENCY_MS,)

    def connect(self, names: Iterable[str]) -> None:
        """All at once."""
        for name in names:
            self[name].down(Connect("demo"))

    def join(self, names: Iterable[str]) -> None:
        """One after the other."""
        for name in names:
            self.connect(name)
            self.run(1500)

    def gms(self, name: str) -> Gms:
        """The layer."""
        layer = self[name].stack.find(Gms)
        assert isinstance(layer, Gms)
        return layer

    def view(self, name: str) -> View | None:
        """The view of a member."""
        return self.gms(name).current_view()

    def names_in_view(self, name: str) -> str:
        """The members in the view of a member, in order."""
        view = self.view(name)
        return "" if view is None else "".join(str(member) for member in view.members)

    def agree(self, names: str) -> bool:
        """Whether these have one view with exactly these members."""
        return all(self.view(name) == self.view(names[0]) and sorted(self.names_in_view(name)) == sorted(names)
                   for name in names)

    def suspect(self, suspects: str, by: Iterable[str]) -> None:
        """Failure detection speaks up."""
        for name in by:
            self[name].up(Suspect(tuple(map(address, suspects)), certain=True))

    def say(self, name: str, *payloads: bytes) -> None:
        """A multicast of the application."""
        self[name].down(multicast(name, *payloads))


def in_view(names: str, **properties: object) -> Members:
    """A group in which all of `names` are, in this order."""
    members = Members(names, **properties)
    members.join(names)
    assert members.agree(names)
    assert members.names_in_view(names[0]) == names
    return members


# --- joining and leaving ----------------------------------------------------------------------------------------------

def test_the_first_member_is_alone_after_the_join_timeout() -> None:
    members = Members("A")
    members.connect("A")
    members.run(900)
    assert members.view("A") is None
    members.run(200)
    assert members.names_in_view("A") == "A"
    assert members["A"].views[0].id.counter == 1


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

    def fate(_: Flying) -> Sequence[float]:
        lost[0] += 1
        return () if lost[0] % 3 == 0 else (LATENCY_MS,)
    members.fate = fate
    members.connect("ABCDE")
    members.run(6000)
    assert members.agree("ABCDE")


def test_who_joins_while_a_view_is_changing_is_in_the_next_one() -> None:
    members = Members("ABCD")
    members.join("AB")
    members.connect("C")
    members.run(12)                                       # the flush for C has begun
    members.connect("D")
    members.run(100)
    assert members.agree("ABCD")


def test_a_joiner_that_dies_meanwhile_does_not_stop_the_group_for_long() -> None:
    members = Members("ABC")
    members.join("AB")
    members.connect("C")
    members.run(3)                                        # it has asked, and then
    members.crash("C")
    members.say("B", b"x")
    members.run(2500)
    assert members.agree("AB")
    assert members["A"].payloads() == [b"x"]


def test_a_second_request_of_a_member_whose_install_was_lost_is_answered_with_the_view() -> None:
    members = Members("AB")
    members.join("A")

    def deaf(flying: Flying) -> Sequence[float]:
        return () if flying.has(Install) and flying.dest == "B" else (LATENCY_MS,)
    members.fate = deaf
    members.connect("B")
    members.run(300)
    assert members.view("B") is None
    members.fate = members.usual
    members.run(300)
    assert members.agree("AB")


def test_a_leaver_is_out_at_once_and_what_it_said_last_is_delivered() -> None:
    members = in_view("ABC")
    members.say("C", b"goodbye")
    members["C"].down(Disconnect())
    members.run(50)
    assert len(members["C"].told(Left)) == 1
    assert members.agree("AB")
    assert members["A"].payloads() == members["B"].payloads() == [b"goodbye"]


def test_the_coordinator_and_the_next_leave_at_once() -> None:
    members = in_view("ABCD")
    members["A"].down(Disconnect())
    members["B"].down(Disconnect())
    members.run(300)
    assert members.agree("CD")
    assert len(members["A"].told(Left)) == len(members["B"].told(Left)) == 1


def test_everybody_leaves_at_once() -> None:
    members = in_view("ABCDE")
    for name in "ABCDE":
        members[name].down(Disconnect())
    members.run(1500)
    assert [len(members[name].told(Left)) for name in "ABCDE"] == [1] * 5


def test_the_last_member_leaves_without_asking_anybody() -> None:
    members = in_view("A")
    members["A"].down(Disconnect())
    assert len(members["A"].told(Left)) == 1


def test_a_leaver_that_nobody_answers_goes_after_the_leave_timeout() -> None:
    members = in_view("AB", leave_timeout_ns="700ms")
    members.crash("A")
    members["B"].down(Disconnect())
    members.run(650)
    assert members["B"].told(Left) == []
    members.run(100)
    assert len(members["B"].told(Left)) == 1


def test_disconnecting_while_joining_ends_it() -> None:
    members = Members("A")
    members.connect("A")
    members["A"].down(Disconnect())
    members.run(3000)
    assert len(members["A"].told(Left)) == 1
    assert members["A"].views == []


def test_a_joiner_that_changes_its_mind_is_not_waited_for() -> None:
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


# --- crashes ----------------------------------------------------------------------------------------------------------

def test_a_dead_member_is_out_of_the_next_view() -> None:
    members = in_view("ABCD")
    members.crash("C")
    members.suspect("C", by="ABD")
    members.run(50)
    assert members.agree("ABD")


def test_several_suspects_go_in_one_view() -> None:
    members = in_view("ABCDE")
    before = len(members["E"].views)
    for name in "AC":
        members.crash(name)
        members.suspect(name, by="BDE")
    members.run(50)
    assert members.agree("BDE")
    assert len(members["E"].views) == before + 1


def crash_at(members: Members, header: type[Header], reached: int, coordinator: str = "A") -> None:
    """Let the coordinator die while it sends `header`, when so many members have been sent it."""
    count = [0]

    def fate(flying: Flying) -> Sequence[float]:
        if flying.src == coordinator and flying.has(header):
            count[0] += 1
            if count[0] > reached:
                members.crash(coordinator)
        return () if flying.src in members.dead else (LATENCY_MS,)
    members.fate = fate


@pytest.mark.parametrize("reached", range(5))
@pytest.mark.parametrize("header", [Prepare, Cut, Install])
def test_the_coordinator_dies_at_any_step_of_a_view_change(header: type[Header], reached: int) -> None:
    members = in_view("ABCDE")
    members.say("A", b"one")
    members.say("E", b"two")
    crash_at(members, header, reached)
    members["C"].down(Disconnect())
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BCDE")
    members.run(3000)
    assert members.agree("BDE")
    for name in "DE":
        assert sorted(members[name].payloads()) == sorted(members["B"].payloads())


@pytest.mark.parametrize("reached", range(4))
@pytest.mark.parametrize("header", [Prepare, Cut, Install])
def test_the_coordinator_dies_at_any_step_of_letting_a_joiner_in(header: type[Header], reached: int) -> None:
    members = Members("ABCD")
    members.join("ABC")
    crash_at(members, header, reached)
    members.connect("D")
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BC")
    members.run(5000)
    assert members.agree("BCD")


@pytest.mark.parametrize("header", [State, Ack])
def test_a_member_that_dies_in_the_middle_is_left_out(header: type[Header]) -> None:
    members = in_view("ABCD")

    def fate(flying: Flying) -> Sequence[float]:
        if flying.src == "C" and flying.has(header):
            members.crash("C")
        return () if flying.src in members.dead else (LATENCY_MS,)
    members.fate = fate
    members["D"].down(Disconnect())
    members.run(5000)
    assert members.agree("AB")


def test_nobody_stays_frozen_when_the_coordinator_falls_silent_unsuspected() -> None:
    members = in_view("ABC")
    crash_at(members, Cut, 1)
    members["A"].down(RaiseView(10))
    members.run(15_000)
    assert members.agree("BC")
    members.say("B", b"goes on")
    members.run(100)
    assert members["C"].payloads() == [b"goes on"]


def test_a_coordinator_that_is_suspected_falsely_is_back_after_a_merge() -> None:
    members = in_view("ABC")
    members.suspect("A", by="BC")
    members.run(1000)
    assert members.agree("BC")
    members.say("A", b"I live")
    members.run(100)
    assert members.agree("ABC")


# --- virtual synchrony ------------------------------------------------------------------------------------------------

def test_a_message_that_only_one_survivor_has_reaches_all_before_the_next_view() -> None:
    members = in_view("ABCD")

    def fate(flying: Flying) -> Sequence[float]:
        return () if flying.src == "A" and flying.dest != "D" else (LATENCY_MS,)
    members.fate = fate
    members.say("A", b"last words")
    members.run(1)
    members.crash("A")
    members.fate = members.usual
    members.suspect("A", by="BCD")
    members.run(100)
    assert members.agree("BCD")
    assert [members[name].payloads() for name in "BCD"] == [[b"last words"]] * 3


def test_what_is_sent_during_a_change_is_delivered_in_the_next_view_by_all() -> None:
    members = in_view("ABC")
    members["C"].down(Disconnect())
    members.run(11.2)
    members.say("B", b"in between")
    assert members["B"].stack.pending_bytes() > 0
    members.run(50)
    assert members.agree("AB")
    assert members["A"].payloads() == members["B"].payloads() == [b"in between"]
    assert members["C"].payloads() == []


# --- exclusion and merging --------------------------------------------------------------------------------------------

def split(members: Members, *sides: str) -> None:
    """Cut the net and let failure detection notice."""
    members.sides = list(sides)
    for side in sides:
        members.suspect("".join(name for name in members.names if name not in side), by=side)
    members.run(5000)
    for side in sides:
        assert members.agree(side)


def heal(members: Members, *coordinators: str) -> None:
    """Mend the net and let the coordinators hear of each other, as MERGE3 does."""
    members.sides = []
    views = {address(name): view.id for name in coordinators if (view := members.view(name)) is not None}
    for name in coordinators:
        members[name].up(MergeNeeded(views))


@pytest.mark.parametrize("sides", [("ABC", "DE"), ("AE", "B", "CD"), ("A", "B", "C", "D", "E")])
def test_groups_that_were_apart_unite_in_one_merge_view(sides: tuple[str, ...]) -> None:
    members = in_view("ABCDE")
    split(members, *sides)
    before = [members.view(side[0]) for side in sides]
    heal(members, *(side[0] for side in sides))
    members.run(100)
    assert members.agree("ABCDE")
    view = members.view("D")
    assert isinstance(view, MergeView)
    assert sorted(str(group.id) for group in view.subgroups) == sorted(str(group.id) for group in before if group)
    assert view.coordinator == address("A")


@pytest.mark.parametrize("reached", range(4))
@pytest.mark.parametrize("header", [Prepare, Cut, Install])
def test_the_leader_of_a_merge_dies_at_any_step(header: type[Header], reached: int) -> None:
    members = in_view("ABCDE")
    split(members, "ABE", "CD")
    crash_at(members, header, reached)
    heal(members, "A", "C")
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BCDE")
    members.run(12_000)
    for _ in range(3):
        heal(members, *dict.fromkeys(members.names_in_view(name)[0] for name in "BCDE"))
        members.run(3000)
    assert members.agree("BCDE")


def test_a_partner_of_a_merge_goes_on_alone_when_the_leader_is_gone() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")

    def fate(flying: Flying) -> Sequence[float]:
        return () if flying.has(MergeReady) or (flying.src == "A" and flying.dest in "CD" and not flying.has(
            Prepare) and members.now_ns > cut_ns) else (LATENCY_MS,)
    cut_ns = members.now_ns + 2_000_000
    members.fate = fate
    heal(members, "A", "C")
    members.run(9000)
    assert members.names_in_view("D") == "CD"
    members.say("C", b"alive")
    members.run(100)
    assert members["D"].payloads()[-1:] == [b"alive"]


def test_a_member_that_was_excluded_unaware_becomes_a_singleton_and_merges_at_once() -> None:
    members = in_view("ABC")
    members.sides = ["AB", "C"]
    members.suspect("C", by="AB")
    members.run(3000)
    assert members.agree("AB")
    assert members.names_in_view("C") == "ABC"
    members.sides = []
    members.say("C", b"am I still in?")                  # a stranger's multicast is answered by the coordinator
    members.run(100)
    assert members.agree("ABC")
    views = members["C"].views
    assert [len(view) for view in views[-3:]] == [3, 1, 3]


def test_a_member_that_sits_in_two_views_is_sorted_out_before_the_merge() -> None:
    members = in_view("ABC")
    members.sides = ["AB", "C"]
    members.suspect("AB", by="C")                        # only C notices
    members.run(5000)
    assert members.names_in_view("C") == "C"
    assert members.agree("ABC") is False
    heal(members, "A", "C")
    members.run(500)
    for _ in range(2):
        heal(members, "A", "C")
        members.run(500)
    assert members.agree("ABC")
    previous = members["A"].views[-2]
    assert address("C") not in previous                  # S7: A must not come from a view with C, which C left


def test_every_view_change_names_who_joined_and_who_left() -> None:
    members = in_view("ABC")
    seen: list[tuple[tuple[Address, ...], tuple[Address, ...]]] = []
    members["A"].told(ViewChange)
    members["A"].passed_down(ViewChange)
    members.crash("B")
    members.suspect("B", by="AC")
    members.run(100)
    seen += [(change.joined, change.left) for change in members["A"].passed_down(ViewChange)]
    assert seen == [((), (address("B"),))]
