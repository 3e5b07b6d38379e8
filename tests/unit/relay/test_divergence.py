"""What the other half of a split site multicast is reported by number after the merge (RELAY, S9)."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.events import Event, OutputEmitted, OutputInOrder, SendUntil
from jgroups_py.model.outputs import MessagesLost, SiteReceipt
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Ends
from jgroups_py.protocols.relay.inbound.synchronizer import RELIABLE
from jgroups_py.protocols.relay.origin.divergence import Divergence
from tests.unit.relay.sites import Member, Sites, reported


def missed(member: Member) -> list[tuple[str, str, int, int]]:
    """(site, origin, first, stop) of the losses that were reported to the member's application."""
    return [(loss.site, loss.origin.name, loss.first, loss.stop) for loss in reported(member, MessagesLost)
            if loss.dest_site is None]


def split_and_merged(order: str = "ABC") -> Sites:
    """C alone multicasts c1 c2, A and B have b1 meanwhile; all had c0 before."""
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].multicast("c0")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.install(["A", "B"])
    nyc.install(["C"])
    world["C"].multicast("c1", "c2")
    world["B"].multicast("b1")
    world.run(seconds(1))
    nyc.install(list(order))
    return world


def test_to_each_half_the_numbers_that_only_the_other_half_delivered_are_reported() -> None:
    world = split_and_merged()
    world.run(seconds(1))
    assert {name: missed(world[name]) for name in "ABC"} == {
        "A": [("NYC", "C", 2, 4)], "B": [("NYC", "C", 2, 4)], "C": [("NYC", "B", 1, 2)]}
    assert not missed(world["E"])


def test_a_later_multicast_of_the_origin_shows_the_same_loss_which_is_reported_once() -> None:
    world = split_and_merged()
    world["C"].multicast("c3")
    world.run(seconds(1))
    assert missed(world["A"]) == [("NYC", "C", 2, 4)]
    assert world["A"].texts("c") == ["c0", "c3"]


def test_the_relay_may_be_the_one_that_was_apart() -> None:
    world = split_and_merged("CAB")
    world.run(seconds(1))
    assert missed(world["C"]) == [("NYC", "B", 1, 2)]
    assert missed(world["A"]) == missed(world["B"]) == [("NYC", "C", 2, 4)]


def test_no_multicasts_from_before_its_join_are_reported_missed_to_a_joiner() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["A"].multicast("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "C", "X"])                     # by an ordinary join
    nyc.members["Y"] = Member(nyc, "Y")
    nyc.install(["Y"])                                    # founds a group of its own first
    world.run(millis(100))
    nyc.install(["A", "B", "C", "X", "Y"])
    world["A"].multicast("a2")
    world.run(seconds(1))
    assert missed(world["X"]) == missed(world["Y"]) == []
    assert world["X"].texts("a") == world["Y"].texts("a") == ["a2"]


def test_only_losses_after_its_join_are_reported_to_a_member_that_joined_and_was_cut_off_later() -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    world["A"].multicast("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "X"])
    world.run(millis(100))
    nyc.install(["A", "B"])
    nyc.install(["X"])
    world["A"].multicast("a2")
    world.run(millis(100))
    nyc.install(["A", "B", "X"])
    world.run(seconds(1))
    assert missed(world["X"]) == [("NYC", "A", 3, 4)]


def test_the_next_relay_declares_losses_if_the_first_crashes_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_ends_of_members_other_than_the_relay_are_dropped() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].multicast("c0")
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
    world["C"].multicast("c0")
    world["C"].multicast("c1", "c2")
    world.run(millis(100))
    return world, archived


def test_what_no_member_retains_is_reported_once_and_by_the_numbers_of_relay() -> None:
    world, archived = forgetting()
    assert missed(world["B"]) == [], "reported before the next multicast showed which numbers were lost"
    assert [loss.site for loss in archived] == [""], "ARCHIVE did not get the loss at once, in its place"
    world["C"].multicast("c3")
    world["C"].multicast("c4")
    world.run(seconds(1))
    world.sites["NYC"].install(["A", "B", "C"])
    world.sites["NYC"].install(["A", "B"])
    world.run(seconds(1))
    assert missed(world["B"]) == [("NYC", "C", 2, 4)]
    assert [(loss.site, loss.first, loss.stop) for loss in archived] == [("", 7, 9), ("NYC", 2, 4)]
    assert world["B"].texts("c") == ["c0", "c3", "c4"]
    assert not missed(world["A"])


def test_losses_that_relay_did_not_number_are_reported_as_nakack_counts_them() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    archived = loses(world["B"], b"in the site only")
    world["C"].multicast("c0")
    world["C"].stack.inject(Batch(world["C"].me, None, (b"in the site only",), (), NO_RELAY), world.now_ns)
    world["C"].drain()
    world.run(millis(100))
    assert missed(world["B"]) == []
    world["C"].multicast("c1")
    world["C"].multicast("c2")
    world.run(seconds(1))
    assert missed(world["B"]) == [FORGOTTEN]
    assert len(archived) == 1


def test_losses_of_an_origin_that_is_gone_are_reported_as_nakack_counts_them() -> None:
    world, archived = forgetting()
    world.sites["NYC"].install(["A", "B", "C"])
    assert missed(world["B"]) == [], "reported although C, a member, may still multicast what shows the numbers"
    world.sites["NYC"].crash("C")
    world.run(seconds(1))
    assert missed(world["B"]) == [FORGOTTEN]
    assert len(archived) == 1


def test_after_a_merge_losses_of_an_origin_that_is_gone_are_reported_by_ends_and_not_by_nakack() -> None:
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


def test_a_member_does_not_answer_check_until_it_is_certain_what_it_lost() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    loses(world["B"], b"until")
    world["C"].multicast("c0")
    world.run(millis(100))
    world["C"].stack.inject(SendUntil(1, ("NYC",), b"until"), world.now_ns)
    world["C"].drain()
    world.run(seconds(1))
    world.sites["NYC"].install(["A", "B", "C"])
    world.run(seconds(1))
    assert reported(world["C"], SiteReceipt) == []
    world["C"].multicast("c2")
    world.run(seconds(2))
    assert [receipt.lost_for for receipt in reported(world["C"], SiteReceipt)] == ["NYC"]
