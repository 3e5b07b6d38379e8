"""What the other half of a split site multicast is reported by number after the merge (RELAY, S9)."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.events import Event, OutputEmitted, OutputInOrder, SendUntil
from jgroups_py.model.outputs import MessagesLost, Receipt
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Ends
from jgroups_py.protocols.relay.inbound.synchronizer import RELIABLE
from jgroups_py.protocols.relay.origin.divergence import Divergence
from tests.unit.relay.sites import Member, Sites, told


def missed(member: Member) -> list[tuple[str, str, int, int]]:
    """(site, origin, first, stop) of the losses that were reported to the member's application."""
    return [(loss.site, loss.origin.name, loss.first, loss.stop) for loss in told(member, MessagesLost)
            if loss.dest_site is None]


def split_and_merged(order: str = "ABC") -> Sites:
    """C alone multicasts c1 c2, A and B have b1 meanwhile; all had c0 before."""
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].say("c0")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.install(["A", "B"])
    nyc.install(["C"])
    world["C"].say("c1", "c2")
    world["B"].say("b1")
    world.run(seconds(1))
    nyc.install(list(order))
    return world


def test_each_half_is_told_the_numbers_that_the_other_half_delivered() -> None:
    world = split_and_merged()
    world.run(seconds(1))
    assert {name: missed(world[name]) for name in "ABC"} == {
        "A": [("NYC", "C", 2, 4)], "B": [("NYC", "C", 2, 4)], "C": [("NYC", "B", 1, 2)]}
    assert not missed(world["E"])


def test_a_later_multicast_of_the_origin_tells_the_same_and_it_is_told_once() -> None:
    world = split_and_merged()
    world["C"].say("c3")
    world.run(seconds(1))
    assert missed(world["A"]) == [("NYC", "C", 2, 4)]
    assert world["A"].texts("c") == ["c0", "c3"]


def test_the_relay_may_be_the_one_that_was_apart() -> None:
    world = split_and_merged("CAB")
    world.run(seconds(1))
    assert missed(world["C"]) == [("NYC", "B", 1, 2)]
    assert missed(world["A"]) == missed(world["B"]) == [("NYC", "C", 2, 4)]


def test_a_newcomer_is_told_nothing_of_what_was_sent_before_it_came() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["A"].say("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "C", "X"])                     # by an ordinary join
    nyc.members["Y"] = Member(nyc, "Y")
    nyc.install(["Y"])                                    # founds a group of its own first
    world.run(millis(100))
    nyc.install(["A", "B", "C", "X", "Y"])
    world["A"].say("a2")
    world.run(seconds(1))
    assert missed(world["X"]) == missed(world["Y"]) == []
    assert world["X"].texts("a") == world["Y"].texts("a") == ["a2"]


def test_who_joined_after_a_message_and_was_apart_later_is_told_only_of_what_came_then() -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    world["A"].say("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "X"])
    world.run(millis(100))
    nyc.install(["A", "B"])
    nyc.install(["X"])
    world["A"].say("a2")
    world.run(millis(100))
    nyc.install(["A", "B", "X"])
    world.run(seconds(1))
    assert missed(world["X"]) == [("NYC", "A", 3, 4)]


def test_a_relay_that_dies_before_it_said_so_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        quiet = [True]
        send_ends = Divergence.send_ends
        patch.setattr(Divergence, "send_ends", lambda self, event: None if quiet else send_ends(self, event))
        world = split_and_merged()
        world.run(seconds(1))
        quiet.clear()
    assert not missed(world["B"]), "losses were reported before ENDS"
    world.sites["NYC"].crash("A")
    world.run(seconds(1))
    assert missed(world["B"]) == [("NYC", "C", 2, 4)]
    assert missed(world["C"]) == [("NYC", "B", 1, 2)]


def test_ends_of_anybody_but_the_relay_are_not_believed() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].say("c0")
    world.run(millis(100))
    relay = world["B"].relay
    for src in (world["C"].me, world["D"].me):
        world["B"].receive(Batch(src, None, (), (Ends(relay.group.view.id, {world["C"].me: 9}),), RELIABLE))
    assert not missed(world["B"])
    assert relay.counters["ends_of_no_coordinator"] == 2


# --- what NAKACK lost within a view -----------------------------------------------------------------------------------

FORGOTTEN = ("", "C", 7, 9)                  # as NAKACK tells it, by its own numbers


def loses(member: Member, text: bytes) -> list[MessagesLost]:
    """NAKACK here reports that no member retains what has this payload; gives the losses that ARCHIVE gets."""
    receive, stack, archived = member.receive, member.stack, []

    def told_up(event: Event) -> None:
        if isinstance(event, OutputEmitted) and isinstance(event.output, MessagesLost):
            archived.append(event.output)
    stack.surface = told_up                     # type: ignore[method-assign]

    def lossy(batch: Batch) -> None:
        if text not in batch.payloads:
            return receive(batch)
        stack.notify(OutputInOrder(MessagesLost("", batch.src, *FORGOTTEN[2:])), member.site.world.now_ns)
        return member.drain()
    member.receive = lossy                      # type: ignore[method-assign]
    return archived


def forgetting() -> tuple[Sites, list[MessagesLost]]:
    """B lacks c1 and c2, which no member retains any more."""
    world = Sites(NYC="ABC", SFO="DE").build()
    archived = loses(world["B"], b"c1")
    world["C"].say("c0")
    world["C"].say("c1", "c2")
    world.run(millis(100))
    return world, archived


def test_what_nobody_keeps_any_more_is_told_once_and_by_the_numbers_of_relay() -> None:
    world, archived = forgetting()
    assert missed(world["B"]) == [], "reported before the next multicast showed which numbers were lost"
    assert [loss.site for loss in archived] == [""], "ARCHIVE did not get the loss at once, in its place"
    world["C"].say("c3")
    world["C"].say("c4")
    world.run(seconds(1))
    world.sites["NYC"].install(["A", "B", "C"])
    world.sites["NYC"].install(["A", "B"])
    world.run(seconds(1))
    assert missed(world["B"]) == [("NYC", "C", 2, 4)]
    assert [(loss.site, loss.first, loss.stop) for loss in archived] == [("", 7, 9), ("NYC", 2, 4)]
    assert world["B"].texts("c") == ["c0", "c3", "c4"]
    assert not missed(world["A"])


def test_what_relay_does_not_number_is_told_as_nakack_tells_it_when_the_next_multicast_shows_no_hole() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    archived = loses(world["B"], b"in the site only")
    world["C"].say("c0")
    world["C"].stack.inject(Batch(world["C"].me, None, (b"in the site only",), (), NO_RELAY), world.now_ns)
    world["C"].drain()
    world.run(millis(100))
    assert missed(world["B"]) == []
    world["C"].say("c1")
    world["C"].say("c2")
    world.run(seconds(1))
    assert missed(world["B"]) == [FORGOTTEN]
    assert len(archived) == 1


def test_of_an_origin_that_is_gone_it_is_told_as_nakack_tells_it() -> None:
    world, archived = forgetting()
    world.sites["NYC"].install(["A", "B", "C"])
    assert missed(world["B"]) == [], "reported although C, a member, may still multicast what shows the numbers"
    world.sites["NYC"].crash("C")
    world.run(seconds(1))
    assert missed(world["B"]) == [FORGOTTEN]
    assert len(archived) == 1


def test_after_a_merge_ends_tells_it_of_an_origin_that_is_gone_and_nakack_does_not() -> None:
    world, _ = forgetting()
    nyc = world.sites["NYC"]
    nyc.install(["A"])
    nyc.install(["B"])
    world.run(millis(100))
    assert missed(world["B"]) == [FORGOTTEN], "only what NAKACK reported is certain before ENDS"
    world, _ = forgetting()
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B", "C"])
    nyc.install(["A", "B"])
    world.run(seconds(1))
    assert missed(world["B"]) == [("NYC", "C", 2, 4)]


def test_who_does_not_know_what_it_lost_does_not_say_for_a_receipt_that_it_has_all() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    loses(world["B"], b"until")
    world["C"].say("c0")
    world.run(millis(100))
    world["C"].stack.inject(SendUntil(1, ("NYC",), b"until"), world.now_ns)
    world["C"].drain()
    world.run(seconds(1))
    world.sites["NYC"].install(["A", "B", "C"])
    world.run(seconds(1))
    assert told(world["C"], Receipt) == []
    world["C"].say("c2")
    world.run(seconds(2))
    assert [receipt.lost_for for receipt in told(world["C"], Receipt)] == ["NYC"]
