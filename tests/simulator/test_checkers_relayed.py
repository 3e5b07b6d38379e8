"""The checkers of what is guaranteed across sites find planted violations, and nothing in clean histories."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import CHECKERS, check
from jgroups_py.simulator.checkers.relayed import GRACE_NS, RESENT_NS, UNDER_WAY_NS
from tests.simulator.history_writer import HistoryWriter, broken


def relayed() -> HistoryWriter:
    """A message of A at NYC, delivered there and at SFO; all members have the same global view."""
    writer = HistoryWriter(NYC="AB", SFO="DE")
    writer.group(1, "AB")
    writer.group(1, "DE")
    for name in "ABDE":
        writer.global_view(name, NYC="AB", SFO="DE")
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a1", "a2", at="AB")
    writer.deliver(writer.proxy("A", "D"), "a1", "a2", at="DE")
    writer.send("A", "local", flags=NO_RELAY)
    writer.deliver("A", "local", at="AB", flags=NO_RELAY)
    return writer


def test_a_relayed_history_breaks_nothing() -> None:
    writer = relayed()
    writer.send("D", "d1", dest="B")
    writer.deliver(writer.proxy("D", "A"), "d1", at="B", unicast=True)
    writer.heal()
    writer.end("ABDE")
    assert check(writer.history) == []


def test_a_reply_that_is_on_its_way_at_the_end_is_no_violation() -> None:
    writer = relayed()
    writer.heal()
    writer.at_ns += RESENT_NS
    writer.send("D", "d1", dest="B")
    writer.end("ABDE")
    assert check(writer.history) == []


def test_a_message_that_a_failover_replays_is_delivered_by_members_that_lacked_it() -> None:
    writer = relayed()
    left, right = writer.group(2, "D"), writer.group(2, "E")
    writer.send("B", "b1")
    writer.deliver("B", "b1", at="AB")
    writer.deliver(writer.proxy("B", "D"), "b1", at="D")
    writer.install(writer.view(3, "DE", (left, right)), "DE")
    writer.deliver(writer.proxy("B", "D"), "b1", at="E")
    writer.group(4, "DE")
    writer.heal()
    writer.end("ABDE")
    assert check(writer.history) == []


def test_a_declared_loss_is_no_hole() -> None:
    writer = relayed()
    writer.send("A", "a3", "a4")
    writer.deliver("A", "a3", "a4", at="AB")
    for name in "DE":
        writer.history.add(h.Lost(writer.tick(), writer.addresses[name], "NYC", writer.addresses["A"], 3, 4))
    writer.deliver(writer.proxy("A", "D"), "a4", at="DE")
    writer.heal()
    writer.end("ABDE")
    assert check(writer.history) == []


def test_what_is_sent_before_the_sites_have_met_is_owed_to_no_member() -> None:
    writer = HistoryWriter(NYC="AB", SFO="DE")
    writer.group(1, "AB")
    writer.group(1, "DE")
    writer.at_ns += 2 * GRACE_NS                            # D and E are there for long
    for name in "ABDE":
        writer.global_view(name, **({"NYC": "AB"} if name in "AB" else {"SFO": "DE"}))
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="AB")
    writer.heal()
    writer.end("ABDE")
    assert "R3" not in broken(writer)


def reborn(*, spoken: bool, given_up: bool = False, before: bool = False) -> HistoryWriter:
    """SFO died as a whole; D is back, with NYC from its disk; A sends before, or after, the sites meet again.

    given_up: A gets the report that this is lost for SFO; before: A sends before D dies, and D delivers it before.
    """
    writer = HistoryWriter(NYC="A", SFO="D")
    writer.group(1, "A")
    writer.global_view("A", NYC="A", SFO="D")
    if before:
        writer.group(1, "D")
        writer.send("A", "a1")
        writer.deliver("A", "a1", at="A")
        writer.deliver(writer.proxy("A", "D"), "a1", at="D")
    writer.crash("D")
    writer.addresses["D"] = Address(b"D2".rjust(16, b"0"), "D")
    writer.views["D"] = None
    writer.history.started(writer.tick(), writer.addresses["D"], "D#2", "SFO")
    writer.group(1, "D")
    writer.global_view("D", NYC="A", SFO="D")
    writer.at_ns += 2 * GRACE_NS
    if spoken:
        writer.history.add(h.EpochAccepted(writer.tick(), writer.addresses["D"], "NYC", ViewId(1,
                                                                                               writer.addresses["A"])))
    if not before:
        writer.send("A", "a1")
        writer.deliver("A", "a1", at="A")
    if given_up:
        writer.history.add(h.Lost(writer.tick(), writer.addresses["A"], "NYC", writer.addresses["A"], 1, 2, "SFO"))
    if not spoken:
        writer.history.add(h.EpochAccepted(writer.tick(), writer.addresses["D"], "NYC", ViewId(1,
                                                                                               writer.addresses["A"])))
    writer.heal()
    writer.end("AD")
    return writer


def test_a_site_that_died_as_a_whole_is_owed_what_was_not_declared_lost_for_it() -> None:
    assert "R3" in broken(reborn(spoken=False))
    assert "R3" not in broken(reborn(spoken=False, given_up=True))
    assert "R3" in broken(reborn(spoken=True))
    assert "R3" in broken(reborn(spoken=True, given_up=True))


def test_a_site_that_died_as_a_whole_is_not_owed_again_what_its_dead_members_had() -> None:
    assert "R3" not in broken(reborn(spoken=False, before=True))


def test_a_site_that_is_torn_itself_may_wait_for_its_members_and_one_of_which_the_bridge_is_cut_may_not() -> None:
    for sides, breaks in (("A | B", False), ("A B | D E", True), ("D | E", True)):
        writer = relayed()
        writer.at_ns += seconds(20)
        writer.history.add(h.Remark(writer.tick(), f"partition {sides}"))
        writer.send("A", "a3")
        writer.at_ns += seconds(3)
        writer.deliver("A", "a3", at="AB")
        assert ("R5" in broken(writer)) == breaks


# --- planted violations -----------------------------------------------------------------------------------------------

def wrong_site(writer: HistoryWriter) -> None:
    writer.send("B", "b1")
    writer.deliver(writer.proxy("B", "D", site="LON"), "b1", at="D")


def no_proxy(writer: HistoryWriter) -> None:
    writer.send("B", "b1")
    writer.deliver("B", "b1", at="D")


def relayed_though_asked_not_to(writer: HistoryWriter) -> None:
    writer.deliver(writer.proxy("A", "D"), "local", at="D")


def echo(writer: HistoryWriter) -> None:
    writer.deliver(writer.proxy("A", "A"), "a1", at="B")


def remote_twice(writer: HistoryWriter) -> None:
    writer.deliver(writer.proxy("A", "D"), "a2", at="E")


def remote_never(writer: HistoryWriter) -> None:
    writer.send("A", "a3")
    writer.deliver("A", "a3", at="AB")
    writer.deliver(writer.proxy("A", "D"), "a3", at="D")
    writer.heal()
    writer.end("ABDE")


def remote_out_of_order(writer: HistoryWriter) -> None:
    writer.send("A", "a3", "a4")
    writer.deliver(writer.proxy("A", "D"), "a4", "a3", at="D")


def remote_hole(writer: HistoryWriter) -> None:
    writer.send("A", "a3", "a4")
    writer.deliver(writer.proxy("A", "D"), "a4", at="D")


def local_send_waits(writer: HistoryWriter) -> None:
    writer.at_ns += seconds(20)
    writer.send("A", "a3")
    writer.at_ns += seconds(3)
    writer.deliver("A", "a3", at="AB")


def reply_vanishes(writer: HistoryWriter) -> None:
    writer.send("D", "d1", dest="B")
    writer.heal()
    writer.at_ns += UNDER_WAY_NS
    writer.end("ABDE")


def reply_is_given_up_though_all_had_healed(writer: HistoryWriter) -> None:
    writer.send("D", "d1", dest="B")
    writer.heal()
    writer.at_ns += RESENT_NS
    writer.history.add(h.Unreached(writer.tick(), writer.addresses["D"], writer.addresses["B"]))
    writer.end("ABDE")


def global_view_goes_back(writer: HistoryWriter) -> None:
    writer.group(2, "D")
    writer.global_view("A", NYC="AB", SFO="D")
    writer.global_view("A", NYC="AB", SFO="DE")


def global_view_never_was(writer: HistoryWriter) -> None:
    writer.global_view("A", NYC="AB", SFO="E")


def global_view_does_not_converge(writer: HistoryWriter) -> None:
    writer.crash("E")
    writer.group(2, "D")
    writer.heal()
    writer.end("ABD")


def stale_relay_is_obeyed(writer: HistoryWriter) -> None:
    writer.send("B", "b1")
    writer.deliver(writer.proxy("B", "E"), "b1", at="E")


def a_lower_epoch_is_obeyed(writer: HistoryWriter) -> None:
    for counter in (3, 2):
        epoch = ViewId(counter, writer.addresses["A"])
        writer.history.add(h.EpochAccepted(writer.tick(), writer.addresses["D"], "NYC", epoch))


def a_ledger_does_not_add_up(writer: HistoryWriter) -> None:
    writer.history.add(h.Unbalanced(writer.tick(), writer.addresses["A"],
                                    "for SFO ((1, 2),) are neither settled nor held"))


def what_a_disk_had_never_comes(writer: HistoryWriter) -> None:
    writer.global_view("A", NYC="AB", SFO="DE")
    writer.send("A", "a3")
    writer.crash("A")
    writer.history.add(h.OnDisk(writer.tick(), writer.addresses["A"], (b"a3",), complete=False))
    writer.heal()
    writer.end("ABDE")


def what_a_disk_had_is_forgotten(writer: HistoryWriter) -> None:
    writer.global_view("A", NYC="AB", SFO="DE")
    writer.send("A", "a3")
    writer.crash("A")
    writer.history.add(h.OnDisk(writer.tick(), writer.addresses["A"], (b"a3",), complete=True))
    writer.history.add(h.LedgerReading(writer.tick(), writer.addresses["B"], "SFO", {}, {}, {}))
    writer.crash("D")
    writer.crash("E")
    writer.heal()
    writer.end("AB")


def what_a_disk_had_is_lost_in_silence(writer: HistoryWriter) -> None:
    writer.global_view("A", NYC="AB", SFO="DE")
    writer.send("A", "a3")
    writer.crash("A")
    writer.history.add(h.OnDisk(writer.tick(), writer.addresses["A"], (b"a3",), complete=True))
    me = writer.addresses["A"]
    writer.history.add(h.LedgerReading(writer.tick(), writer.addresses["B"], "SFO", {me: 4}, {me: 4}, {me: ((3, 4),)}))
    writer.crash("D")
    writer.crash("E")
    writer.heal()
    writer.end("AB")


def a_relay_sends_nothing_any_more(writer: HistoryWriter) -> None:
    writer.history.add(h.Stalled(writer.tick(), writer.addresses["A"], "towards SFO: nothing has moved"))


PLANTED_REMOTE = [
    ("R1", wrong_site), ("R1", no_proxy), ("R1", relayed_though_asked_not_to), ("R2", echo), ("R3", remote_twice),
    ("R3", remote_never), ("R4", remote_out_of_order), ("R4", remote_hole), ("R5", local_send_waits),
    ("R6", reply_vanishes), ("R6", reply_is_given_up_though_all_had_healed), ("R7", global_view_goes_back),
    ("R7", global_view_never_was),
    ("R7", global_view_does_not_converge), ("R8", stale_relay_is_obeyed),
    ("R8", a_lower_epoch_is_obeyed), ("R9", a_ledger_does_not_add_up),
    ("R11", what_a_disk_had_never_comes), ("R11", what_a_disk_had_is_forgotten),
    ("R11", what_a_disk_had_is_lost_in_silence), ("R12", a_relay_sends_nothing_any_more),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED_REMOTE, ids=lambda x: getattr(x, "__name__", x))
def test_a_violation_between_sites_is_found(guarantee: str, plant: Callable[[HistoryWriter], None]) -> None:
    writer = relayed()
    plant(writer)
    assert guarantee in broken(writer)


def test_what_a_disk_had_and_was_declared_lost_is_no_violation() -> None:
    writer = relayed()
    what_a_disk_had_is_lost_in_silence(writer)
    lost = h.Lost(0, writer.addresses["B"], "NYC", writer.addresses["A"], 3, 4, "SFO")
    writer.history.entries.insert(0, lost)
    assert "R11" not in broken(writer)


def test_survivors_of_two_common_views_got_the_same_remote_messages() -> None:
    writer = relayed()
    writer.group(2, "DE")
    writer.send("A", "a3")
    writer.deliver("A", "a3", at="AB")
    writer.deliver(writer.proxy("A", "D"), "a3", at="D")
    writer.group(3, "DE")
    assert broken(writer) == ["S5"]


def test_every_checker_between_sites_has_a_planted_violation() -> None:
    planted = dict.fromkeys(guarantee for guarantee, _ in PLANTED_REMOTE)
    elsewhere = ("R10",)                                   # test_checkers_receipts.py
    assert sorted([*planted, *elsewhere]) == sorted(name for name in CHECKERS if name.startswith("R"))
