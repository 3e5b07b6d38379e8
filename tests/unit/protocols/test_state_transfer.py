"""STATE_TRANSFER: every member keeps a log of what it was delivered; a state is a log, and logs must agree."""
from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from jgroups_py.model.batch import NO_RELAY, NO_TOTAL_ORDER
from jgroups_py.model.events import Disconnect, GetState, StateBusy, StateChunk
from jgroups_py.model.ports import MulticastNumbers
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.state_transfer import (
    StateCancelHeader,
    StateCutHeader,
    StatePartHeader,
    StateRequestHeader,
    StateTransfer,
    StateTransferConfig,
    StateWindowHeader,
)
from jgroups_py.protocols.state_transfer.transfers import Position
from jgroups_py.protocols.total import Total
from jgroups_py.protocols.total.headers import Tickets
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import InFlight, address, change, multicast, unicast, view_of
from tests.unit.protocols.state_apps import V1, App, Apps, Loop, apps, get_state


def test_a_state_is_installed_and_later_messages_are_delivered_after_it() -> None:
    group = apps()
    for n in range(50):
        group["A"].down(multicast("A", b"a%d" % n))
    group.settle()
    group["C"].log = [b"nonsense"]
    get_state(group, "C")
    group["B"].down(multicast("B", b"b"))
    group.settle()
    assert group["C"].ends == [""]
    assert group["C"].log == group["A"].log
    assert len(group["C"].log) == 51


def test_a_request_to_this_member_itself_is_a_no_op() -> None:
    group = apps()
    get_state(group, "A")
    assert (group["A"].ends, group["A"].begins) == ([""], 0)


def test_a_request_to_a_non_member_fails_at_once() -> None:
    group = apps()
    get_state(group, "A", "X")
    assert group["A"].ends == ["X is not a member of the group"]


def test_before_the_first_view_there_is_no_state() -> None:
    member = App(Loop(), StateTransfer(), me="A")
    member.down(GetState(None, NS_PER_S))
    assert member.ends == ["the member is not in a group"]


def test_the_provider_catches_up_with_the_requester_first() -> None:
    group = apps()
    group.delays_of = lambda in_flight: (50.0,) if in_flight.dest == "A" and in_flight.src == "B" else (1.0,)
    group["B"].down(multicast("B", b"b"))
    group.run(5)                                               # C has b, A has not
    get_state(group, "C", "A")
    group.run(20)
    assert group["C"].begins == 0
    group.run(60)
    assert group["C"].ends == [""]
    assert group["C"].log == group["A"].log == [b"b"]


def test_the_requester_catches_up_with_the_provider_first() -> None:
    group = apps()
    group.delays_of = lambda in_flight: (50.0,) if in_flight.dest == "C" and in_flight.src == "B" else (1.0,)
    group["B"].down(multicast("B", b"b1", b"b2"))
    group.run(5)                                               # A has them, C has not
    get_state(group, "C", "A")
    group["A"].down(multicast("A", b"a"))
    group.run(20)
    assert group["C"].begins == 0
    group.run(60)
    assert group["C"].ends == [""]
    assert group["C"].log == group["A"].log == [b"b1", b"b2", b"a"]


def test_a_provider_that_cannot_catch_up_refuses_and_another_gets_the_request() -> None:
    group = apps(provide_timeout_ns="1s")
    group.delays_of = lambda in_flight: () if in_flight.dest == "A" and in_flight.src == "B" else (1.0,)
    group["B"].down(multicast("B", b"b"))
    group.run(5)
    get_state(group, "C", "A")
    group.run(1500)
    assert group["C"].ends == [""]
    assert group["C"].log == [b"b"]
    assert group["B"].stats()["states_provided"] == 1


def test_after_a_view_change_before_the_cut_the_state_is_requested_again() -> None:
    group = apps()
    group["A"].slow = True
    group.delays_of = lambda in_flight: () if in_flight.has(StateRequestHeader) else (0.0,)
    get_state(group, "C", "A")
    group["B"].down(multicast("B", b"old view"))
    group.settle()
    assert group["C"].log == []
    group.delays_of = lambda in_flight: (0.0,)
    W = view_of("A", "B", "C", counter=2)
    group.see(W, V1)
    assert group["C"].log == [b"old view"]
    group["A"].write()
    group.settle()
    assert group["C"].ends == [""]
    assert group["C"].log == [b"old view"]


def test_the_crash_of_the_provider_starts_over_at_another() -> None:
    group = apps()
    group["A"].down(multicast("A", *[b"%d" % n for n in range(30)]))
    group.settle()
    group["A"].slow = True
    get_state(group, "C", "A")
    group.settle()
    [(request, state)] = group["A"].requests
    group["A"].down(StateChunk(request, state[:20]))
    group["B"].down(multicast("B", b"in between"))
    group.settle()
    assert group["C"].begins == 1
    group.crash("A")
    W = view_of("B", "C", counter=2)
    group.see(W, V1)
    assert group["C"].begins == 2
    assert group["C"].ends == [""]
    assert group["C"].log == group["B"].log


def test_a_view_change_while_the_state_arrives_changes_nothing() -> None:
    group = apps()
    group["A"].down(multicast("A", *[b"%d" % n for n in range(30)]))
    group.settle()
    group["A"].slow = True
    get_state(group, "C", "A")
    group.settle()
    W = view_of("A", "C", counter=2)
    group.crash("B")
    group.see(W, V1)
    group["A"].down(multicast("A", b"next view"))
    group["A"].slow = False
    group["A"].write()
    group.run(10)
    assert (group["C"].begins, group["C"].ends) == (1, [""])
    assert group["C"].log == group["A"].log


def test_several_requesters_get_states_from_one_provider() -> None:
    group = apps(view_of("A", "B", "C", "D"))
    for n in range(20):
        group["A"].down(multicast("A", b"%d" % n))
    for name in "BCD":
        group[name].log = []
        get_state(group, name)
    group.settle()
    assert [group[name].ends for name in "BCD"] == [[""]] * 3
    assert group["B"].log == group["C"].log == group["D"].log == group["A"].log


def test_two_members_that_request_each_others_state_fail_after_the_timeout() -> None:
    group = apps(view_of("A", "B"))
    group.delays_of = lambda in_flight: (1.0,)
    get_state(group, "A", "B", 1)
    get_state(group, "B", "A", 1)
    group["A"].down(multicast("A", b"life goes on"))
    group.run(3000)
    assert [len(group[name].ends) for name in "AB"] == [1, 1]
    assert all("refused" in group[name].ends[0] for name in "AB")
    assert [group[name].log for name in "AB"] == [[b"life goes on"]] * 2


def test_the_applications_failure_reaches_the_requester() -> None:
    group = apps()
    group["A"].slow = True
    get_state(group, "C")
    group.settle()
    [(request, _)] = group["A"].requests
    group["A"].down(StateChunk(request, b"", last=True, error="get_state raised ValueError: no"))
    group.settle()
    assert group["C"].ends == ["get_state raised ValueError: no"]


def test_without_an_answer_the_transfer_fails_and_the_messages_follow() -> None:
    group = apps()
    group["A"].slow = True
    get_state(group, "C", timeout_s=1)
    group.settle()
    group["B"].down(multicast("B", b"b"))
    group.run(1500)
    assert group["C"].ends == ["no answer from A"]
    assert group["C"].log == [b"b"]
    [(request, _)] = group["A"].requests
    group["A"].down(StateChunk(request, b"too late"))
    assert group["A"].stats()["unwanted_chunks_dropped"] == 1
    assert group["A"].stack.pending_bytes() == 0


def test_a_state_that_keeps_arriving_may_take_longer_than_the_timeout() -> None:
    group = apps()
    group["A"].slow = True
    get_state(group, "C", timeout_s=1)
    group.settle()
    [(request, _)] = group["A"].requests
    for n in range(10):
        group["A"].down(StateChunk(request, b"%d" % n))
        group.run(500)
    group["A"].down(StateChunk(request, b"", last=True))
    group.settle()
    assert group["C"].ends == [""]
    assert group["C"].log == [b"0123456789"]


def test_only_a_window_of_a_state_is_under_way() -> None:
    provider = App(Loop(), StateTransfer(StateTransferConfig(window_bytes="64K")), me="A")
    provider.up(change(V1))
    provider.up(unicast("C", "A", headers=(StateRequestHeader(1, V1.id.raw, {}, {}),)))
    provider.requests.clear()
    for _ in range(10):
        provider.down(StateChunk(1, bytes(30_000)))
    assert provider.sent_with(StatePartHeader) == []
    assert provider.stack.pending_bytes() == 300_000
    provider.up(unicast("C", "A", headers=(StateWindowHeader(1, 65536),)))
    assert sum(batch.nbytes for _, batch in provider.sent_with(StatePartHeader)) == 65536
    provider.up(unicast("C", "A", headers=(StateCancelHeader(1),)))
    assert provider.stack.pending_bytes() == 0


def test_an_application_that_reads_slowly_gets_no_further_parts() -> None:
    group = apps(window_bytes="64K")
    group["A"].slow = True
    get_state(group, "C")
    group.settle()
    [(request, _)] = group["A"].requests
    group["C"].down(StateBusy(True))
    for _ in range(10):
        group["A"].down(StateChunk(request, bytes(30_000)))
    group.run(60_000)
    assert sum(map(len, group["C"].arriving or [])) == 65536
    group["C"].down(StateBusy(False))
    group["A"].down(StateChunk(request, b"", last=True))
    group.settle()
    assert group["C"].ends == [""]


def test_messages_that_are_held_back_are_bounded() -> None:
    group = apps(max_buffer_bytes=1000)
    group.delays_of = lambda in_flight: () if in_flight.has(StateRequestHeader) else (0.0,)
    get_state(group, "C")
    group["A"].down(multicast("A", *[bytes(100)] * 20))
    group.settle()
    [error] = group["C"].ends
    assert "max_buffer" in error
    assert len(group["C"].log) == 20


def test_a_member_that_leaves_gets_no_state() -> None:
    group = apps()
    group["A"].slow = True
    get_state(group, "C")
    group.settle()
    group["C"].down(Disconnect())
    group.settle()
    assert group["C"].ends == ["the member leaves"]
    assert group["A"].stack.pending_bytes() == 0


def test_unicasts_are_not_held_back() -> None:
    group = apps()
    group.delays_of = lambda in_flight: () if in_flight.has(StateRequestHeader) else (0.0,)
    get_state(group, "C")
    group["B"].down(unicast("B", "C", b"hello"))
    group.settle()
    assert group["C"].log == [b"hello"]


def test_stale_answers_are_dropped() -> None:
    group = apps()
    get_state(group, "C")
    group.settle()
    for header in (StateCutHeader(1, {}, {}), StatePartHeader(1, True, "")):
        group["C"].up(unicast("A", "C", headers=(header,)))
    assert group["C"].stats()["stale_dropped"] == 2
    assert group["C"].ends == [""]


@pytest.mark.parametrize("seed", range(60))
def test_logs_agree_after_transfers_during_a_flood_with_views_and_crashes(seed: int) -> None:
    rng = Random(seed)
    names = "ABCDE"
    view = view_of(*names)
    group = apps(view, window_bytes="64K")
    delays = {(a, b): rng.choice([0.0, 1.0, 7.0]) for a in names for b in names}
    group.delays_of = lambda in_flight: delay(in_flight, delays)
    requester = rng.choice("CDE")
    sent = 0
    asked = False
    for step in range(60):
        for name in names:
            if name not in group.crashed and rng.random() < 0.5:
                number = rng.randrange(1, 4)
                group[name].down(multicast(name, *[b"%s%d" % (name.encode(), sent + n) for n in range(number)]))
                sent += number
        if not asked and step > 10:
            asked = True
            get_state(group, requester, "B" if address("B") in view and rng.random() < 0.5 else None)
        if rng.random() < 0.08 and len(view) > 2:
            group.run(20)
            before, gone = view, rng.choice([None, *(m.name for m in view.members if m.name != requester)])
            view = view_of(*(m.name for m in view.members if m.name != gone), counter=view.id.counter + 1)
            if gone is not None:
                group.crash(gone)
            group.see(view, before)
        group.run(rng.choice([0, 1, 5]))
    group.run(500)
    assert group[requester].ends == [""]
    survivors = [member.name for member in view.members]
    for name in survivors:
        assert sorted(group[name].log) == sorted(group[survivors[0]].log)
        for sender in names:
            mine = [entry for entry in group[name].log if entry.startswith(sender.encode())]
            assert mine == [entry for entry in group[survivors[0]].log if entry.startswith(sender.encode())]


def delay(in_flight: InFlight, delays: dict[tuple[str, str], float]) -> Sequence[float]:
    return (delays[in_flight.src, in_flight.dest],)


def test_a_position_counts_what_has_no_order_by_itself() -> None:
    mine, its = Position(), Position()
    mine.counts(is_ordered=True)[address("A")] = 2
    its.counts(is_ordered=False)[address("A")] = 1
    assert not mine.covers(its)                       # its first free one may be after both of mine
    mine.counts(is_ordered=False)[address("A")] = 1
    assert mine.covers(its)


class Numbering(Protocol, MulticastNumbers):
    """A layer that numbers what leaves its site, as RELAY does."""

    def numbers(self, flags: int) -> bool:
        return not flags & NO_RELAY


class OrderedApps(Apps):
    """Members with one order of what they multicast."""

    def member(self, name: str, seed: str, config: dict[str, object]) -> App:
        return App(Loop(), Total(), StateTransfer(), Numbering(), me=name, seed=seed)


def test_what_is_numbered_has_its_place_in_a_state_though_its_sender_needs_no_order() -> None:
    group = OrderedApps("ABCD")
    group.see(view_of("A", "B", "C", "D"))
    group.delays_of = lambda sent: (50.0,) if (sent.src, sent.dest) == ("A", "D") else (1.0,)
    group["B"].down(multicast("B", b"numbered", flags=NO_TOTAL_ORDER))
    group.run(5)                                               # C has it; D has not, as A has not told its place there
    group.delays_of = lambda sent: (50.0,) if (sent.src, sent.dest) in (("A", "D"), ("B", "C")) else (1.0,)
    group["B"].down(multicast("B", b"free", flags=NO_TOTAL_ORDER | NO_RELAY))
    group.run(5)
    assert (group["C"].log, group["D"].log) == ([b"numbered"], [b"free"])
    get_state(group, "C", "D")
    group.run(200)
    assert group["C"].ends == [""]
    assert sorted(group["C"].log) == sorted(group["D"].log) == [b"free", b"numbered"]


def test_the_rest_of_a_view_keeps_its_order_while_a_state_is_awaited() -> None:
    """C hears no order any more, and knows up to where A has delivered: that is no position in C's own order."""
    group = OrderedApps("ABC")
    V = view_of("A", "B", "C")
    group.see(V)
    group["A"].slow = True
    group.delays_of = lambda sent: () if sent.dest == "C" and sent.has(Tickets) else (1.0,)
    group["C"].down(multicast("C", b"c1"))
    group["B"].down(multicast("B", b"b1"))
    group.run(5)
    assert sorted(group["A"].log) == [b"b1", b"c1"]
    assert group["C"].log == []
    get_state(group, "C", "A")
    group["C"].down(multicast("C", b"c2"))
    group.run(6.5)
    group["C"].up(change(view_of("C", counter=2), V))
    assert group["C"].log == [b"c1", b"c2", b"b1"], "the own messages first, as C goes on alone"
