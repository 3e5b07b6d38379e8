"""Each checker finds the violation planted in a hand-made history, and nothing in a clean one."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_RELAY, NO_RELIABILITY, OOB
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import CHECKERS, check
from jgroups_py.units import seconds
from jgroups_py.view import GlobalView, MergeView, View, ViewId


class Tale:
    """Writes a history in few words; every call is 10 ms after the one before."""

    def __init__(self, **sites: str) -> None:
        """sites: site -> its members' names; none: members A B C D without a site."""
        self.history = h.History()
        self.at_ns = 0
        self.who: dict[str, Address] = {}
        self.views: dict[str, View | None] = {}
        self.proxies: dict[str, str] = {}
        for site, names in (sites or {"": "ABCD"}).items():
            for name in names:
                self.who[name] = Address(name.encode().rjust(16, b"0"), name)
                self.views[name] = None
                self.proxies[name] = site
                self.history.started(0, self.who[name], name, site)

    def tick(self) -> int:
        self.at_ns += seconds(0.01)
        return self.at_ns

    def view(self, counter: int, members: str, subgroups: tuple[View, ...] = ()) -> View:
        addresses = tuple(self.who[name] for name in members)
        view_id = ViewId(counter, addresses[0])
        return MergeView(view_id, addresses, subgroups) if subgroups else View(view_id, addresses)

    def install(self, view: View, at: str) -> View:
        """All of `at` install `view`."""
        for name in at:
            self.history.add(h.Install(self.tick(), self.who[name], view, self.views[name]))
            self.views[name] = view
        return view

    def group(self, counter: int, members: str) -> View:
        return self.install(self.view(counter, members), members)

    def send(self, name: str, *payloads: str, dest: str | None = None, flags: int = 0) -> None:
        to = self.who[dest] if dest else None
        data = tuple(payload.encode() for payload in payloads)
        self.history.add(h.Send(self.tick(), self.who[name], to, data, flags, self.views[name]))

    def deliver(self, src: str | Address, *payloads: str, at: str, unicast: bool = False, flags: int = 0) -> None:
        for name in at:
            dest = self.who[name] if unicast else None
            source = self.who[src] if isinstance(src, str) else src
            data = tuple(payload.encode() for payload in payloads)
            self.history.add(h.Delivery(self.tick(), self.who[name], source, dest, data, flags, self.views[name]))

    def proxy(self, name: str, relay: str, site: str | None = None) -> ProxyUUID:
        return ProxyUUID(self.who[name], self.who[relay], site or self.proxies[name])

    def sees(self, name: str, **sites: str) -> None:
        """A global view."""
        members = {site: tuple(self.who[one] for one in names) for site, names in sites.items()}
        self.history.add(h.GlobalInstall(self.tick(), self.who[name], GlobalView(members)))

    def crash(self, name: str) -> None:
        self.history.add(h.Crash(self.tick(), self.who[name]))

    def heal(self) -> None:
        self.history.add(h.Healed(self.tick()))

    def end(self, live: str, pending: int = 0) -> None:
        self.history.add(h.End(self.tick(), {self.who[name]: pending for name in live}))


def broken(tale: Tale) -> list[str]:
    """The guarantees that the tale breaks, each once."""
    return list(dict.fromkeys(violation.guarantee for violation in check(tale.history)))


# --- clean histories --------------------------------------------------------------------------------------------------

def test_an_ordinary_history_breaks_nothing() -> None:
    tale = Tale()
    tale.group(1, "ABC")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a1", "a2", at="ABC")
    tale.send("B", "b1", dest="C")
    tale.deliver("B", "b1", at="C", unicast=True)
    tale.crash("C")
    tale.group(2, "AB")
    tale.heal()
    tale.send("A", "a3")
    tale.deliver("A", "a3", at="AB")
    tale.end("AB")
    assert check(tale.history) == []


def test_a_split_and_merge_breaks_nothing() -> None:
    tale = Tale()
    tale.group(1, "ABCD")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="AB")
    left = tale.install(tale.view(2, "AB"), "AB")
    right = tale.install(tale.view(2, "CD"), "CD")
    tale.send("C", "c1")
    tale.deliver("C", "c1", at="CD")
    tale.install(tale.view(3, "ABCD", (left, right)), "ABCD")
    assert check(tale.history) == []


def test_unreliable_messages_may_be_lost_and_come_twice_and_oob_ones_overtake() -> None:
    tale = Tale()
    tale.group(1, "AB")
    tale.send("A", "u1", flags=NO_RELIABILITY)
    tale.send("A", "u2", flags=NO_RELIABILITY)
    tale.deliver("A", "u2", "u2", at="B", flags=NO_RELIABILITY)
    tale.send("A", "a1")
    tale.send("A", "o1", flags=OOB)
    tale.deliver("A", "o1", at="AB", flags=OOB)
    tale.deliver("A", "a1", at="AB")
    tale.group(2, "AB")
    assert check(tale.history) == []


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


# --- planted violations -----------------------------------------------------------------------------------------------

def not_in_its_view(tale: Tale) -> None:
    tale.install(tale.view(1, "AB"), "ABC")


def view_goes_back(tale: Tale) -> None:
    tale.group(5, "AB")
    tale.group(4, "AB")


def delivery_before_the_first_view(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="B")


def send_before_the_first_view(tale: Tale) -> None:
    tale.send("A", "a1")


def same_id_other_order(tale: Tale) -> None:
    tale.install(View(ViewId(1, tale.who["A"]), (tale.who["A"], tale.who["B"])), "A")
    tale.install(View(ViewId(1, tale.who["A"]), (tale.who["B"], tale.who["A"])), "B")


def message_from_nowhere(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.deliver("A", "ghost", at="B")


def delivered_before_it_was_sent(tale: Tale) -> None:
    tale.group(1, "A")
    tale.deliver("A", "early", at="A")
    tale.send("A", "early")


def wrong_sender(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("B", "a1", at="AB")


def unicast_to_somebody_else(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("A", "a1", dest="B")
    tale.deliver("A", "a1", at="C", unicast=True)


def delivered_twice(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="AA")


def delivered_in_two_views(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="A")
    tale.group(2, "AB")
    tale.deliver("A", "a1", at="B")


def survivor_lacks_a_message(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("C", "c1")
    tale.deliver("C", "c1", at="A")
    tale.crash("C")
    tale.group(2, "AB")


def survivor_came_another_way(tale: Tale) -> None:
    tale.group(1, "AB")
    alone = tale.install(tale.view(2, "B"), "B")
    other = tale.view(1, "AB")
    tale.install(tale.view(3, "AB", (other, alone)), "AB")


def merge_names_a_wrong_subgroup(tale: Tale) -> None:
    left, right = tale.group(1, "AB"), tale.group(1, "CD")
    tale.install(tale.view(2, "CD"), "CD")
    tale.install(tale.view(3, "ABCD", (left, right)), "ABCD")


def merge_that_is_no_merge_view(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.group(1, "CD")
    tale.group(2, "ABCD")


def merge_names_a_group_that_is_not_in_it(tale: Tale) -> None:
    left, right = tale.group(1, "AB"), tale.group(1, "CD")
    tale.install(tale.view(3, "AB", (left, right)), "AB")


def out_of_order(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a2", "a1", at="A")


def hole(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1", "a2", "a3")
    tale.deliver("A", "a1", "a3", at="A")


def unicast_hole(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1", "a2", "a3", dest="B")
    tale.deliver("A", "a1", "a3", at="B", unicast=True)


def no_exact_view(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.crash("C")
    tale.heal()
    tale.end("AB")


def own_message_never_comes(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.heal()
    tale.end("A")


def final_message_never_comes(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="A")
    tale.heal()
    tale.end("AB")


def final_unicast_never_comes(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1", dest="B")
    tale.heal()
    tale.end("AB")


def a_send_never_ends(tale: Tale) -> None:
    tale.group(1, "A")
    tale.heal()
    tale.end("A", pending=7)


PLANTED = [
    ("M1", not_in_its_view), ("M2", view_goes_back), ("M3", delivery_before_the_first_view),
    ("M3", send_before_the_first_view), ("M4", same_id_other_order), ("S1", message_from_nowhere),
    ("S1", delivered_before_it_was_sent), ("S1", wrong_sender), ("S1", unicast_to_somebody_else),
    ("S2", delivered_twice), ("S4", delivered_in_two_views), ("S5", survivor_lacks_a_message),
    ("S7", survivor_came_another_way), ("S8", merge_names_a_wrong_subgroup), ("S8", merge_that_is_no_merge_view),
    ("S8", merge_names_a_group_that_is_not_in_it), ("F", out_of_order), ("F", hole), ("F", unicast_hole),
    ("L", no_exact_view), ("L", own_message_never_comes), ("L", final_message_never_comes),
    ("L", final_unicast_never_comes), ("L", a_send_never_ends),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_planted_violation_is_found(guarantee: str, plant: Callable[[Tale], None]) -> None:
    tale = Tale()
    plant(tale)
    assert guarantee in broken(tale)


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


PLANTED_REMOTE = [
    ("R1", wrong_site), ("R1", no_proxy), ("R1", relayed_though_asked_not_to), ("R2", echo), ("R3", remote_twice),
    ("R3", remote_never), ("R4", remote_out_of_order), ("R4", remote_hole), ("R5", local_send_waits),
    ("R6", reply_vanishes), ("R7", global_view_goes_back), ("R7", global_view_never_was),
    ("R7", global_view_does_not_converge), ("R8", stale_relay_is_obeyed),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED_REMOTE, ids=lambda x: getattr(x, "__name__", x))
def test_a_violation_between_sites_is_found(guarantee: str, plant: Callable[[Tale], None]) -> None:
    tale = relayed()
    plant(tale)
    assert guarantee in broken(tale)


def test_survivors_of_two_common_views_got_the_same_remote_messages() -> None:
    tale = relayed()
    tale.group(2, "DE")
    tale.send("A", "a3")
    tale.deliver("A", "a3", at="AB")
    tale.deliver(tale.proxy("A", "D"), "a3", at="D")
    tale.group(3, "DE")
    assert broken(tale) == ["S5"]


def test_every_checker_has_a_planted_violation() -> None:
    planted = dict.fromkeys(guarantee for guarantee, _ in PLANTED + PLANTED_REMOTE)
    assert sorted(planted) == sorted(CHECKERS)


def test_a_violation_says_who_and_what() -> None:
    tale = Tale()
    hole(tale)
    (found,) = check(tale.history)
    assert str(found) == ("F at 0.030000 s: A delivered a1 and then a3 in A|1, without 1 that A sent between "
                          "them")
