"""TOTAL: one order of several senders, its rest at a view change, what is refused, bounds, the safe order."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.batch import NO_FC, NO_RELIABILITY, NO_TOTAL_ORDER, Batch
from jgroups_py.model.events import AppBusy, Frozen, MessageDropped, OutputInOrder, RaiseView
from jgroups_py.model.outputs import MessagesLost, OrderUncertain
from jgroups_py.model.ports import MulticastNumbers
from jgroups_py.model.view import View
from jgroups_py.protocols.total import Total, TotalConfig
from jgroups_py.protocols.total.headers import NewViewWanted, Reached, Tickets
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import Bench, Group, address, change, multicast, unicast, view_of

V1 = view_of("A", "B", "C")
SAFE = TotalConfig(order="safe")


class Loop(Protocol):
    """Turns own multicasts round, as NAKACK does, and notes what comes down."""

    def down(self, batch: Batch) -> None:
        self.pass_down(batch)
        if batch.dest is None:
            self.pass_up(batch)


class Numbering(Protocol, MulticastNumbers):
    """A layer that numbers all multicasts."""

    def numbers(self, flags: int) -> bool:
        return True


def three(config: TotalConfig | None = None) -> Group:
    group = Group(lambda name: [Loop(), Total(config)], "ABC")
    group.install(V1)
    return group


def alone(name: str, config: TotalConfig | None = None, view: View = V1) -> Bench:
    bench = Bench(Loop(), Total(config), me=name)
    bench.up(change(view))
    return bench


def ticket(
    *runs: tuple[int, int], src: str = "A", view: View = V1, flags: int = NO_TOTAL_ORDER, safe: int = 0,
) -> Batch:
    return multicast(src, flags=flags, headers=(Tickets(view.id.raw, safe, runs),))


def places(bench: Bench) -> list[tuple[bytes, int]]:
    return [(payload, batch.place and batch.place + number)
            for batch in bench.delivered for number, payload in enumerate(batch.payloads)]


def uncertain(bench: Bench) -> list[int]:
    return [output.messages for output in bench.outputs if isinstance(output, OrderUncertain)]


# --- the order --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("config", [None, SAFE], ids=["agreed", "safe"])
def test_all_members_deliver_in_one_order_though_messages_overtake_each_other(config: TotalConfig | None) -> None:
    group, rng = three(config), Random(7)
    arrivals: dict[tuple[str, str], float] = {}

    def in_order_of_each_sender(in_flight: object) -> tuple[float]:
        key = in_flight.src, in_flight.dest                              # type: ignore[attr-defined]
        now_ms = group.now_ns / 1e6
        arrivals[key] = max(arrivals.get(key, 0.0), now_ms + rng.random() * 5) + 0.001
        return (arrivals[key] - now_ms,)
    group.delays_of = in_order_of_each_sender
    for number in range(30):
        for name in "ABC":
            group[name].down(multicast(name, f"{name}{number}".encode(), f"{name}{number}'".encode()))
        group.run(1)
    group.run(100)
    assert len(places(group["A"])) == 180
    assert places(group["A"]) == places(group["B"]) == places(group["C"])
    assert [place for _, place in places(group["A"])] == list(range(1, 181))


def test_the_coordinators_own_messages_need_no_ticket() -> None:
    group = three()
    group["A"].down(multicast("A", b"1", b"2"))
    group.settle()
    assert group["A"].stats().get("tickets_sent", 0) == 0
    assert places(group["B"]) == [(b"1", 1), (b"2", 2)]


def test_one_ticket_is_told_for_all_that_came_in_a_round() -> None:
    a = alone("A")
    for batch in (multicast("B", b"b1"), multicast("C", b"c1", b"c2"), multicast("B", b"b2")):
        a.transport.pass_up(batch)
    a.stack.run()
    a.advance(0)
    [(order, batch)] = a.sent_with(Tickets)
    assert order.runs == ((1, 2), (2, 2))
    assert batch.flags & (NO_FC | NO_TOTAL_ORDER | NO_RELIABILITY) == NO_FC | NO_TOTAL_ORDER
    assert a.payloads() == [b"b1", b"b2", b"c1", b"c2"]


def test_a_ticket_may_come_before_its_messages_and_covers_a_part_of_a_batch() -> None:
    b = alone("B")
    b.up(ticket((2, 2)))
    assert b.payloads() == []
    b.up(multicast("C", b"c1", b"c2", b"c3"))
    assert places(b) == [(b"c1", 1), (b"c2", 2)]
    b.up(multicast("A", b"a1"))
    b.up(ticket((2, 1)))
    assert places(b) == [(b"c1", 1), (b"c2", 2), (b"a1", 3), (b"c3", 4)]


def test_messages_of_the_coordinator_wait_for_those_that_stand_before_them() -> None:
    b = alone("B")
    b.up(ticket((2, 1)))
    b.up(multicast("A", b"a1"))
    assert b.payloads() == []
    b.up(multicast("C", b"c1"))
    assert b.payloads() == [b"c1", b"a1"]


def test_a_message_without_an_order_waits_for_nothing() -> None:
    b = alone("B")
    b.up(multicast("C", b"c1"))
    b.up(multicast("C", b"free", flags=NO_TOTAL_ORDER))
    b.up(multicast("C", b"unreliable", flags=NO_RELIABILITY))
    assert places(b) == [(b"free", 0), (b"unreliable", 0)]


def test_what_a_layer_above_numbers_is_ordered_whatever_its_flags() -> None:
    b = Bench(Loop(), Total(), Numbering(), me="B")
    b.up(change(V1))
    b.up(multicast("C", b"c1", flags=NO_TOTAL_ORDER))
    assert b.payloads() == []
    b.up(ticket((2, 1)))
    assert places(b) == [(b"c1", 1)]


def test_unicasts_pass() -> None:
    b = alone("B")
    b.up(unicast("C", "B", b"hello"))
    assert places(b) == [(b"hello", 0)]


# --- views ------------------------------------------------------------------------------------------------------------

def test_the_rest_of_a_view_comes_in_view_order_those_that_go_on_first() -> None:
    view = view_of("A", "B", "C", "D")
    d = alone("D", view=view)
    for name in "CBAD":
        d.up(multicast(name, name.encode()))
    assert d.payloads() == [b"A"]                                        # A's stream is the order
    after = view_of("C", "D", counter=2)
    d.up(change(after, view))
    assert places(d) == [(b"A", 1), (b"C", 2), (b"D", 3), (b"B", 4)]
    assert uncertain(d) == [3]
    d.up(multicast("C", b"new"))
    assert places(d)[-1] == (b"new", 1)                                  # C is the coordinator now; places begin anew


def test_a_view_without_a_rest_is_certain() -> None:
    b = alone("B")
    b.up(multicast("A", b"a1"))
    b.up(change(view_of("A", "B", counter=2), V1))
    assert uncertain(b) == []


def test_tickets_of_another_view_are_dropped() -> None:
    b = alone("B")
    b.up(multicast("C", b"c1"))
    b.up(ticket((2, 1), view=view_of("A", "B", "C", counter=9)))
    assert b.payloads() == []
    assert b.stats()["old_tickets_dropped"] == 1


def test_while_a_view_changes_nothing_is_told() -> None:
    a = alone("A")
    a.up(Frozen({}))
    a.up(multicast("B", b"b1"))
    assert a.sent_with(Tickets) == []
    a.up(change(view_of("A", "B", counter=2), V1))
    assert a.payloads() == [b"b1"]


# --- what is refused --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("forged", [
    ticket((2, 1), src="C"), ticket((2, 1), flags=NO_RELIABILITY),
    unicast("A", "B", headers=(Tickets(V1.id.raw, 0, ((2, 1),)),)),
])
def test_only_reliable_multicasts_of_the_coordinator_are_tickets(forged: Batch) -> None:
    b = alone("B")
    b.up(multicast("C", b"c1"))
    b.up(forged)
    assert b.payloads() == []
    assert b.stats()["tickets_refused"] == 1


@pytest.mark.parametrize("run", [(0, 1), (3, 1), (65535, 1), (2, 0)])
def test_implausible_tickets_are_dropped_whole(run: tuple[int, int]) -> None:
    b = alone("B")
    b.up(multicast("C", b"c1"))
    b.up(ticket((2, 1), run))
    assert b.payloads() == []
    assert b.stats()["implausible_dropped"] == 1


def test_a_ticket_for_ever_so_many_messages_takes_no_memory_and_ends_with_the_view() -> None:
    b = alone("B")
    b.up(ticket((2, 0xFFFF_FFFF)))
    b.up(multicast("A", b"a1"))
    b.up(change(view_of("A", "B", counter=2), V1))
    assert b.payloads() == [b"a1"]


def test_multicasts_of_non_members_are_dropped() -> None:
    b = alone("B")
    b.up(multicast("X", b"x"))
    assert b.stats()["non_member_dropped"] == 1


# --- losses -----------------------------------------------------------------------------------------------------------

def test_a_message_that_was_dropped_below_leaves_its_place_empty() -> None:
    b = alone("B")
    b.up(MessageDropped(address("C")))
    b.up(multicast("C", b"c2"))
    b.up(ticket((2, 2)))
    assert places(b) == [(b"c2", 2)]
    b.up(MessageDropped(address("A")))
    b.up(multicast("A", b"a2"))
    assert places(b)[-1] == (b"a2", 4)


def test_a_member_that_lost_messages_asks_for_a_new_view_and_waits_for_it() -> None:
    b = alone("B")
    b.up(OutputInOrder(MessagesLost("", address("C"), 1, 3)))
    b.up(multicast("C", b"c3"))
    b.up(ticket((2, 1)))
    assert b.payloads() == []
    [(wanted, batch)] = b.sent_with(NewViewWanted)
    assert (wanted.view, batch.dest) == (V1.id.raw, address("A"))
    b.up(change(view_of("A", "B", "C", counter=2), V1))
    assert b.payloads() == [b"c3"]


def test_the_coordinator_raises_the_view_for_a_member_that_lost_messages() -> None:
    a = alone("A")
    a.up(unicast("B", "A", headers=(NewViewWanted(V1.id.raw),)))
    a.up(unicast("X", "A", headers=(NewViewWanted(V1.id.raw),)))
    a.up(unicast("B", "A", headers=(NewViewWanted(view_of("A", counter=9).id.raw),)))
    assert [event.above for event in a.passed_down(RaiseView)] == [V1.id.counter]
    assert a.stats()["reports_dropped"] == 2


# --- bounds -----------------------------------------------------------------------------------------------------------

SMALL = TotalConfig(max_unplaced_bytes=1 << 16)


def test_too_much_without_a_place_stops_credit_and_own_sends_until_places_come() -> None:
    b = alone("B", SMALL)
    b.down(multicast("B", bytes(70_000)))
    assert [(event.on, event.why) for event in b.passed_down(AppBusy)] == [(True, "total")]
    b.down(multicast("B", b"waits"))
    b.down(multicast("B", b"free", flags=NO_TOTAL_ORDER))
    assert b.stack.pending_bytes() == len(b"waits")
    assert b.payloads() == [b"free"]
    b.up(ticket((1, 1)))
    assert [event.on for event in b.passed_down(AppBusy)] == [False]
    assert b.stack.pending_bytes() == 0
    assert b.stats()["unplaced"] == 1                                    # it was sent, and waits for its place


def test_messages_of_others_stop_credit_but_not_own_sends() -> None:
    b = alone("B", SMALL)
    b.up(multicast("C", bytes(70_000)))
    b.down(multicast("B", b"b1"))
    assert b.stats()["waited_too_long"] == 1
    assert b.stack.pending_bytes() == 0


def test_how_long_own_messages_wait_is_measured() -> None:
    b = alone("B")
    b.down(multicast("B", b"b1"))
    b.advance(7)
    b.up(ticket((1, 1)))
    assert b.stats()["waited_ms"] == 7.0


# --- the safe order ---------------------------------------------------------------------------------------------------

def test_a_safe_message_is_delivered_when_all_have_it() -> None:
    b = alone("B", SAFE)
    b.up(multicast("A", b"a1", b"a2"))
    [(reached, batch)] = b.sent_with(Reached)
    assert (reached.place, batch.dest) == (3, address("A"))
    assert b.payloads() == []
    b.up(ticket(safe=2))
    assert places(b) == [(b"a1", 1)]
    b.up(ticket(safe=3))
    assert places(b) == [(b"a1", 1), (b"a2", 2)]
    assert b.stats()["unplaced_bytes"] == 0


def test_the_coordinator_tells_the_lowest_report() -> None:
    a = alone("A", SAFE)
    a.down(multicast("A", b"a1", b"a2"))
    for name, place in (("B", 3), ("C", 2)):
        a.up(unicast(name, "A", headers=(Reached(V1.id.raw, place),)))
    assert [order.safe for order, _ in a.sent_with(Tickets)] == [2]
    assert a.payloads() == [b"a1"]
    a.up(unicast("C", "A", headers=(Reached(V1.id.raw, 3),)))
    assert a.payloads() == [b"a1", b"a2"]


def test_implausible_and_strange_reports_are_dropped() -> None:
    a = alone("A", SAFE)
    a.down(multicast("A", b"a1"))
    a.up(unicast("B", "A", headers=(Reached(V1.id.raw, 99),)))
    a.up(unicast("X", "A", headers=(Reached(V1.id.raw, 2),)))
    a.up(unicast("B", "A", headers=(Reached(view_of("A", counter=9).id.raw, 2),)))
    assert (a.stats()["implausible_dropped"], a.stats()["reports_dropped"]) == (1, 2)
    b = alone("B", SAFE)
    b.up(multicast("A", b"a1"))
    b.up(ticket(safe=1 << 40))
    assert places(b) == [(b"a1", 1)]


def test_a_report_to_a_coordinator_with_another_order_is_counted_and_logged() -> None:
    a = alone("A")
    a.up(unicast("B", "A", headers=(Reached(V1.id.raw, 1),)))
    assert a.stats()["reports_dropped"] == 1
    assert any("all members must have the same" in getattr(output, "text", "") for output in a.outputs)


def test_what_was_kept_back_comes_before_the_rest_and_is_uncertain() -> None:
    c = alone("C", SAFE)
    c.up(multicast("B", b"b1"))
    c.up(multicast("A", b"a1"))
    c.up(change(view_of("B", "C", counter=2), V1))
    assert places(c) == [(b"a1", 1), (b"b1", 2)]
    assert uncertain(c) == [2]
