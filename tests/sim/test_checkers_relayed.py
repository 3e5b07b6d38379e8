"""The checkers of what is guaranteed across sites find planted violations, and nothing in clean histories."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELAY
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import CHECKERS, check
from jgroups_py.sim.checkers.relayed import GRACE_NS, RESENT_NS
from jgroups_py.units import seconds
from jgroups_py.view import ViewId
from tests.sim.tale import Tale, broken


def relayed() -> Tale:
    """A message of A at NYC, delivered there and at SFO; everybody has the same global view."""
    tale = Tale(NYC="AB", SFO="DE")
    tale.group(1, "AB")
    tale.group(1, "DE")
    for name in "ABDE":
        tale.sees(name, NYC="AB", SFO="DE")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a1", "a2", at="AB")
    tale.deliver(tale.proxy("A", "D"), "a1", "a2", at="DE")
    tale.send("A", "local", flags=NO_RELAY)
    tale.deliver("A", "local", at="AB", flags=NO_RELAY)
    return tale


def test_a_relayed_history_breaks_nothing() -> None:
    tale = relayed()
    tale.send("D", "d1", dest="B")
    tale.deliver(tale.proxy("D", "A"), "d1", at="B", unicast=True)
    tale.heal()
    tale.end("ABDE")
    assert check(tale.history) == []


def test_a_message_that_a_failover_brings_again_is_delivered_by_those_who_lacked_it() -> None:
    tale = relayed()
    left, right = tale.group(2, "D"), tale.group(2, "E")
    tale.send("B", "b1")
    tale.deliver("B", "b1", at="AB")
    tale.deliver(tale.proxy("B", "D"), "b1", at="D")
    tale.install(tale.view(3, "DE", (left, right)), "DE")
    tale.deliver(tale.proxy("B", "D"), "b1", at="E")
    tale.group(4, "DE")
    tale.heal()
    tale.end("ABDE")
    assert check(tale.history) == []


def test_a_declared_loss_is_no_hole() -> None:
    tale = relayed()
    tale.send("A", "a3", "a4")
    tale.deliver("A", "a3", "a4", at="AB")
    for name in "DE":
        tale.history.add(h.Lost(tale.tick(), tale.who[name], "NYC", tale.who["A"], 3, 4))
    tale.deliver(tale.proxy("A", "D"), "a4", at="DE")
    tale.heal()
    tale.end("ABDE")
    assert check(tale.history) == []


def test_what_is_sent_before_the_other_site_was_ever_met_is_owed_to_nobody() -> None:
    tale = Tale(NYC="AB", SFO="DE")
    tale.group(1, "AB")
    tale.group(1, "DE")
    tale.at_ns += 2 * GRACE_NS                            # D and E are there for long
    for name in "ABDE":
        tale.sees(name, **({"NYC": "AB"} if name in "AB" else {"SFO": "DE"}))
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="AB")
    tale.heal()
    tale.end("ABDE")
    assert "R3" not in broken(tale)


def reborn(*, spoken: bool, given_up: bool = False, before: bool = False) -> Tale:
    """SFO died as a whole, and D is back, which knows NYC from its disk; A sends before, or after, they speak again.

    given_up: A is told that this is lost for SFO; before: A sends before D dies, which delivers it in its first life.
    """
    tale = Tale(NYC="A", SFO="D")
    tale.group(1, "A")
    tale.sees("A", NYC="A", SFO="D")
    if before:
        tale.group(1, "D")
        tale.send("A", "a1")
        tale.deliver("A", "a1", at="A")
        tale.deliver(tale.proxy("A", "D"), "a1", at="D")
    tale.crash("D")
    tale.who["D"] = Address(b"D2".rjust(16, b"0"), "D")
    tale.views["D"] = None
    tale.history.started(tale.tick(), tale.who["D"], "D#2", "SFO")
    tale.group(1, "D")
    tale.sees("D", NYC="A", SFO="D")
    tale.at_ns += 2 * GRACE_NS
    if spoken:
        tale.history.add(h.Obeyed(tale.tick(), tale.who["D"], "NYC", ViewId(1, tale.who["A"])))
    if not before:
        tale.send("A", "a1")
        tale.deliver("A", "a1", at="A")
    if given_up:
        tale.history.add(h.Lost(tale.tick(), tale.who["A"], "NYC", tale.who["A"], 1, 2, "SFO"))
    if not spoken:
        tale.history.add(h.Obeyed(tale.tick(), tale.who["D"], "NYC", ViewId(1, tale.who["A"])))
    tale.heal()
    tale.end("AD")
    return tale


def test_a_site_that_died_as_a_whole_is_owed_what_nobody_was_told_is_lost_for_it() -> None:
    assert "R3" in broken(reborn(spoken=False))
    assert "R3" not in broken(reborn(spoken=False, given_up=True))
    assert "R3" in broken(reborn(spoken=True))
    assert "R3" in broken(reborn(spoken=True, given_up=True))


def test_a_site_that_died_as_a_whole_is_not_owed_again_what_its_dead_members_had() -> None:
    assert "R3" not in broken(reborn(spoken=False, before=True))


def test_a_site_that_is_torn_itself_may_wait_for_its_members_and_one_of_which_the_bridge_is_cut_may_not() -> None:
    for sides, breaks in (("A | B", False), ("A B | D E", True), ("D | E", True)):
        tale = relayed()
        tale.at_ns += seconds(20)
        tale.history.add(h.Remark(tale.tick(), f"partition {sides}"))
        tale.send("A", "a3")
        tale.at_ns += seconds(3)
        tale.deliver("A", "a3", at="AB")
        assert ("R5" in broken(tale)) == breaks


# --- planted violations -----------------------------------------------------------------------------------------------

def wrong_site(tale: Tale) -> None:
    tale.send("B", "b1")
    tale.deliver(tale.proxy("B", "D", site="LON"), "b1", at="D")


def no_proxy(tale: Tale) -> None:
    tale.send("B", "b1")
    tale.deliver("B", "b1", at="D")


def relayed_though_asked_not_to(tale: Tale) -> None:
    tale.deliver(tale.proxy("A", "D"), "local", at="D")


def echo(tale: Tale) -> None:
    tale.deliver(tale.proxy("A", "A"), "a1", at="B")


def remote_twice(tale: Tale) -> None:
    tale.deliver(tale.proxy("A", "D"), "a2", at="E")


def remote_never(tale: Tale) -> None:
    tale.send("A", "a3")
    tale.deliver("A", "a3", at="AB")
    tale.deliver(tale.proxy("A", "D"), "a3", at="D")
    tale.heal()
    tale.end("ABDE")


def remote_out_of_order(tale: Tale) -> None:
    tale.send("A", "a3", "a4")
    tale.deliver(tale.proxy("A", "D"), "a4", "a3", at="D")


def remote_hole(tale: Tale) -> None:
    tale.send("A", "a3", "a4")
    tale.deliver(tale.proxy("A", "D"), "a4", at="D")


def local_send_waits(tale: Tale) -> None:
    tale.at_ns += seconds(20)
    tale.send("A", "a3")
    tale.at_ns += seconds(3)
    tale.deliver("A", "a3", at="AB")


def reply_vanishes(tale: Tale) -> None:
    tale.send("D", "d1", dest="B")
    tale.heal()
    tale.end("ABDE")


def reply_is_given_up_though_all_had_healed(tale: Tale) -> None:
    tale.send("D", "d1", dest="B")
    tale.heal()
    tale.at_ns += RESENT_NS
    tale.history.add(h.Unreached(tale.tick(), tale.who["D"], tale.who["B"]))
    tale.end("ABDE")


def global_view_goes_back(tale: Tale) -> None:
    tale.group(2, "D")
    tale.sees("A", NYC="AB", SFO="D")
    tale.sees("A", NYC="AB", SFO="DE")


def global_view_never_was(tale: Tale) -> None:
    tale.sees("A", NYC="AB", SFO="E")


def global_view_does_not_converge(tale: Tale) -> None:
    tale.crash("E")
    tale.group(2, "D")
    tale.heal()
    tale.end("ABD")


def stale_relay_is_obeyed(tale: Tale) -> None:
    tale.send("B", "b1")
    tale.deliver(tale.proxy("B", "E"), "b1", at="E")


def a_lower_epoch_is_obeyed(tale: Tale) -> None:
    for counter in (3, 2):
        epoch = ViewId(counter, tale.who["A"])
        tale.history.add(h.Obeyed(tale.tick(), tale.who["D"], "NYC", epoch))


def a_ledger_does_not_add_up(tale: Tale) -> None:
    tale.history.add(h.Unbalanced(tale.tick(), tale.who["A"], "for SFO ((1, 2),) are neither settled nor held"))


def what_a_disk_had_never_comes(tale: Tale) -> None:
    tale.sees("A", NYC="AB", SFO="DE")
    tale.send("A", "a3")
    tale.crash("A")
    tale.history.add(h.OnDisk(tale.tick(), tale.who["A"], (b"a3",), complete=False))
    tale.heal()
    tale.end("ABDE")


def what_a_disk_had_is_forgotten(tale: Tale) -> None:
    tale.sees("A", NYC="AB", SFO="DE")
    tale.send("A", "a3")
    tale.crash("A")
    tale.history.add(h.OnDisk(tale.tick(), tale.who["A"], (b"a3",), complete=True))
    tale.history.add(h.Ledger(tale.tick(), tale.who["B"], "SFO", {}, {}, {}))
    tale.crash("D")
    tale.crash("E")
    tale.heal()
    tale.end("AB")


def what_a_disk_had_is_lost_in_silence(tale: Tale) -> None:
    tale.sees("A", NYC="AB", SFO="DE")
    tale.send("A", "a3")
    tale.crash("A")
    tale.history.add(h.OnDisk(tale.tick(), tale.who["A"], (b"a3",), complete=True))
    me = tale.who["A"]
    tale.history.add(h.Ledger(tale.tick(), tale.who["B"], "SFO", {me: 4}, {me: 4}, {me: ((3, 4),)}))
    tale.crash("D")
    tale.crash("E")
    tale.heal()
    tale.end("AB")


def a_relay_sends_nothing_any_more(tale: Tale) -> None:
    tale.history.add(h.Stalled(tale.tick(), tale.who["A"], "towards SFO: nothing has moved"))


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
def test_a_violation_between_sites_is_found(guarantee: str, plant: Callable[[Tale], None]) -> None:
    tale = relayed()
    plant(tale)
    assert guarantee in broken(tale)


def test_what_a_disk_had_and_was_declared_lost_is_no_violation() -> None:
    tale = relayed()
    what_a_disk_had_is_lost_in_silence(tale)
    lost = h.Lost(0, tale.who["B"], "NYC", tale.who["A"], 3, 4, "SFO")
    tale.history.entries.insert(0, lost)
    assert "R11" not in broken(tale)


def test_survivors_of_two_common_views_got_the_same_remote_messages() -> None:
    tale = relayed()
    tale.group(2, "DE")
    tale.send("A", "a3")
    tale.deliver("A", "a3", at="AB")
    tale.deliver(tale.proxy("A", "D"), "a3", at="D")
    tale.group(3, "DE")
    assert broken(tale) == ["S5"]


def test_every_checker_between_sites_has_a_planted_violation() -> None:
    planted = dict.fromkeys(guarantee for guarantee, _ in PLANTED_REMOTE)
    elsewhere = ("R10",)                                   # test_checkers_receipts.py
    assert sorted([*planted, *elsewhere]) == sorted(name for name in CHECKERS if name.startswith("R"))
