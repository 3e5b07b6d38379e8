"""FRAG: large messages, their neighbours, views in the middle, implausible headers."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.batch import NO_RELIABILITY, NO_TOTAL_ORDER, OOB, Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Frozen, MessageDropped, ViewChange
from jgroups_py.model.ports import LargeMulticasts
from jgroups_py.protocols.frag import Frag, FragConfig, Fragment
from jgroups_py.stack.protocol import Protocol, on
from jgroups_py.testing.bench import Bench, Group, address, change, multicast, unicast, view_of
from jgroups_py.wire import AppHeaders

CONFIG = FragConfig(frag_size_bytes=1000, window_bytes=10_000, max_message_bytes="2M", max_reassembly_bytes="4M")
V1 = view_of("A", "B")
W = view_of("A", "B", "J", counter=2)


class Loop(Protocol):
    """Turns our own multicasts round, as NAKACK does; while `held` they wait, without a number."""

    def start(self) -> None:
        self.held: list[Batch] | None = None
        self.at_once = False
        self.large_multicasts: LargeMulticasts = self.stack.find(LargeMulticasts)
        self.view, self.joined = b"", False

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.view, self.joined = event.view.id.raw, bool(event.joined)
        if self.at_once:
            self.release()                                          # as NAKACK, before FRAG has the view

    def down(self, batch: Batch) -> None:
        if self.held is not None and batch.dest is None:
            self.held.append(batch)
            return
        if batch.dest is None:
            batch = self.large_multicasts.with_attempt(batch, self.view, self.joined)
        self.pass_down(batch)
        if batch.dest is None:
            self.pass_up(batch)

    def release(self, number: int | None = None) -> None:
        """Let the first `number` batches go, and hold the rest; None: all, and hold no longer."""
        assert self.held is not None
        held, self.held = self.held, None
        going, rest = (held, None) if number is None else (held[:number], held[number:])
        for batch in going:
            self.down(batch)
        self.held = rest
        if not self.at_once:
            self.stack.run()


def member(name: str, **changes: object) -> tuple[Bench, Loop]:
    loop = Loop()
    bench = Bench(loop, Frag(FragConfig(**changes) if changes else CONFIG), me=name)
    bench.up(change(V1))
    return bench, loop


def pair() -> Group:
    made = Group(lambda name: [Loop(), Frag(CONFIG)], "AB")
    made.install(V1)
    return made


def body(nbytes: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(nbytes)


@pytest.mark.parametrize("nbytes", [1001, 2000, 9999, 1_000_000])
@pytest.mark.parametrize("cast", [multicast("A"), unicast("A", "B")])
def test_a_large_message_arrives_whole(cast: Batch, nbytes: int) -> None:
    both = pair()
    both["A"].down(cast.replaced(payloads=(body(nbytes),)))
    both.settle()
    assert both["B"].payloads() == [body(nbytes)]
    assert both["A"].payloads() == ([body(nbytes)] if cast.dest is None else [])


def test_small_messages_pass_untouched() -> None:
    a, _ = member("A")
    batch = unicast("A", "B", body(1000), b"", b"x")
    a.down(batch)
    assert a.sent() == [batch]


@pytest.mark.parametrize("cast", [multicast("A"), unicast("A", "B")])
def test_neighbours_of_a_large_message_keep_their_order(cast: Batch) -> None:
    both = pair()
    payloads = [b"a", b"b", body(5000), b"c", body(30_000, 1), body(2000, 2), b"d"]
    both["A"].down(cast.replaced(payloads=tuple(payloads)))
    both["A"].down(cast.replaced(payloads=(b"e",)))
    both.settle()
    assert both["B"].payloads() == [*payloads, b"e"]


def test_flags_and_application_headers_survive() -> None:
    both = pair()
    mine = AppHeaders({200: b"x"})
    both["A"].down(unicast("A", "B", body(5000), flags=OOB, headers=(mine,)))
    both.settle()
    [batch] = both["B"].delivered
    assert (batch.flags, batch.headers, batch.payloads) == (OOB, (mine,), (body(5000),))


def test_fragments_of_oob_messages_are_not_oob() -> None:
    a, _ = member("A")
    a.down(unicast("A", "B", body(5000), flags=OOB))
    assert [batch.flags for batch in a.sent()] == [0]


def test_fragments_leave_room_for_large_application_headers() -> None:
    a, _ = member("A", frag_size_bytes=60_000)
    a.down(unicast("A", "B", body(59_000), headers=(AppHeaders({200: bytes(20_000)}),)))
    [batch] = a.sent()
    assert len(batch) == 2
    assert all(len(payload) < 44_000 for payload in batch.payloads)


def test_only_a_window_of_a_large_multicast_is_under_way() -> None:
    a, loop = member("A")
    loop.held = []
    a.down(multicast("A", body(100_000)))
    a.down(multicast("A", b"behind"))
    assert sum(batch.nbytes for batch in loop.held) == 10_000
    assert a.stack.pending_bytes() == 90_006


def test_unicasts_and_unreliable_multicasts_do_not_wait_behind_a_large_multicast() -> None:
    a, loop = member("A")
    loop.held = []
    a.down(multicast("A", body(100_000)))
    a.down(multicast("A", b"now", flags=NO_RELIABILITY))
    a.down(unicast("A", "B", b"you"))
    assert loop.held[-1].payloads == (b"now",)
    assert [batch.payloads for batch in a.sent()] == [(b"you",)]


def test_an_incomplete_multicast_begins_again_when_a_member_joins() -> None:
    both = Group(lambda name: [Loop(), Frag(CONFIG)], "ABJ")
    both.install(V1)
    loop = both["A"].stack.find(Loop)
    loop.held = []
    both["A"].down(multicast("A", body(50_000)))
    both["A"].down(multicast("A", b"behind"))
    for _ in range(2):
        loop.release(1)
    both.settle()
    for name in "ABJ":
        both[name].up(change(W, None if name == "J" else V1))
    loop.release()
    both.settle()
    for name in "ABJ":
        assert both[name].payloads() == [body(50_000), b"behind"]
        assert both[name].stats()["reassembly_bytes"] == 0
    assert both["A"].stats()["restarted"] == 1
    assert both["J"].stats()["headless_fragments_dropped"] > 0


def test_a_multicast_that_waited_for_the_view_does_not_come_twice() -> None:
    a, loop = member("A")
    loop.held = []
    a.down(multicast("A", body(5000)))
    a.up(change(W, V1))
    loop.release()
    a.advance(0)
    assert a.payloads() == [body(5000)]
    assert "restarted" not in a.stats()


def test_a_view_that_only_loses_members_does_not_restart_anything() -> None:
    three = view_of("A", "B", "C", counter=2)
    both = Group(lambda name: [Loop(), Frag(CONFIG)], "ABC")
    both.install(three)
    both.crash("C")
    loop = both["A"].stack.find(Loop)
    loop.held = []
    both["A"].down(multicast("A", body(50_000)))
    loop.release(1)
    both.settle()
    both.install(view_of("A", "B", counter=3), three)
    loop.release()
    both.settle()
    assert both["B"].payloads() == [body(50_000)]
    assert "restarted" not in both["A"].stats()


def test_what_a_departed_member_sent_in_part_is_dropped() -> None:
    b, _ = member("B")
    b.up(unicast("A", "B", body(1000), headers=(Fragment(1, 0, 3, 3000, 0),)))
    assert b.stats()["reassembly_bytes"] == 1000
    b.up(change(view_of("B", counter=2), V1))
    assert b.stats()["reassembly_bytes"] == 0


def test_a_restarted_message_replaces_its_first_attempt() -> None:
    b, _ = member("B")
    b.up(multicast("A", body(1000), headers=(Fragment(1, 0, 2, 2000, 0),)))
    b.up(multicast("A", body(1000), headers=(Fragment(2, 0, 2, 2000, 0),)))
    b.up(multicast("A", body(1000), headers=(Fragment(2, 1, 2, 2000, 0),)))
    assert b.payloads() == [body(1000) * 2]


@pytest.mark.parametrize("header", [
    Fragment(1, 0, 0, 5000, 0), Fragment(1, 0, 5, 4, 0), Fragment(1, 0, 5000, 1 << 31, 0), Fragment(1, 2, 5, 5000, 0),
    Fragment(1, 0, 1, 2000, 0), Fragment(1, 0, 1, 500, 0),
])
def test_an_implausible_header_is_dropped_and_counted(header: Fragment) -> None:
    b, _ = member("B")
    b.up(unicast("A", "B", body(1000), headers=(header,)))
    stats = b.stats()
    assert b.payloads() == []
    assert sum(stats.get(name, 0) for name in ("implausible_dropped", "headless_fragments_dropped",
                                               "inconsistent_messages_dropped")) == 1
    assert stats["reassembly_bytes"] == 0


def test_reassembly_is_bounded() -> None:
    b, _ = member("B", max_message_bytes=10_000, max_reassembly_bytes=15_000)
    b.up(change(W, V1))
    for index in range(10):
        for src in ("A", "J"):
            if index < 9 or src == "A":
                b.up(unicast(src, "B", body(1000), headers=(Fragment(1, index, 10, 10_000, 0),)))
    assert b.stats()["no_room_dropped"] == 1
    assert b.payloads("A") == [body(1000) * 10]
    assert b.stats()["reassembly_bytes"] == 0
    assert [note.level for note in b.outputs] == ["error"]


def test_small_fragments_of_members_are_bounded_by_the_memory_that_they_take() -> None:
    """One byte each: they would take 60 times of what they count."""
    b, _ = member("B", max_message_bytes="1M", max_reassembly_bytes="1M")
    layer = b.stack.find(Frag)
    assert isinstance(layer, Frag)
    most = 0
    for index in range(20_000):
        b.up(unicast("A", "B", b"x", headers=(Fragment(1, index, 1 << 20, 1 << 20, 0),)))
        most = max(most, sum(one.memory_bytes for one in layer.reassemblies.values()))
    assert most <= (1 << 20) * 5 // 4
    assert b.stats()["no_room_dropped"] == 1
    assert layer.memory_bytes == layer.kept_bytes == 0


# --- non-members ------------------------------------------------------------------------------------------------------

def first_fragment(src: str, nbytes: int, announced: int = 1 << 20, index: int = 0) -> Batch:
    """The first fragment of a large message."""
    return unicast(src, "B", bytes(nbytes), headers=(Fragment(1, index, 1000, announced, 0),))


def test_what_non_members_announce_takes_no_memory() -> None:
    b, _ = member("B", max_message_bytes="2M", max_reassembly_bytes="2M")
    for number in range(5):
        b.up(first_fragment(f"X{number}", 10, 2 << 20))
    for index in range(200):
        b.up(unicast("A", "B", body(1000), headers=(Fragment(1, index, 200, 200_000, 0),)))
    assert b.payloads("A") == [body(1000) * 200]
    assert b.stats()["reassembly_bytes"] == 50


def test_non_members_share_a_small_bound_of_memory() -> None:
    b, _ = member("B", max_non_member_bytes="64K")
    for number in range(1000):
        b.up(first_fragment(f"X{number}", 1))
    assert b.stats()["no_room_for_non_members_dropped"] == 1000 - (64 << 10) // 577
    assert b.outputs == [], "not a line in the log for each"
    b.up(first_fragment("Y", 100_000))
    assert b.stats()["reassembly_bytes"] < 200


def test_small_fragments_of_a_non_member_count_with_the_memory_that_they_take() -> None:
    b, _ = member("B", max_non_member_bytes="64K")
    for index in range(1000):
        b.up(first_fragment("X", 2, index=index))
    assert b.stats()["no_room_for_non_members_dropped"] == 1
    assert b.stats()["reassembly_bytes"] == 0


def test_a_small_message_of_a_non_member_arrives() -> None:
    b, _ = member("B")
    for index in range(3):
        b.up(unicast("X", "B", body(1000), headers=(Fragment(1, index, 3, 3000, 0),)))
    assert b.payloads("X") == [body(1000) * 3]


def test_incomplete_messages_of_non_members_are_dropped_each_after_its_own_timeout() -> None:
    b, _ = member("B", non_member_timeout_ns="10s")
    b.up(first_fragment("X", 100))
    b.up(first_fragment("A", 100))
    b.advance(6000)
    b.up(first_fragment("Y", 100))
    b.advance(4000)
    assert b.stats()["timed_out_messages_dropped"] == 1
    assert b.stats()["reassembly_bytes"] == 200
    b.advance(6000)
    assert b.stats()["timed_out_messages_dropped"] == 2
    b.advance(60_000)
    assert b.stats()["reassembly_bytes"] == 100, "a member's message is kept"


def test_a_message_that_a_non_member_began_is_completed_when_it_is_a_member() -> None:
    b, _ = member("B", max_non_member_bytes="64K")
    b.up(first_fragment("J", 1000, 100_000))
    b.up(change(W, V1))
    b.advance(60_000)
    for index in range(1, 1000):
        b.up(unicast("J", "B", bytes(1000 if index < 100 else 0), headers=(Fragment(1, index, 1000, 100_000, 0),)))
    assert b.payloads("J") == [bytes(100_000)]
    layer = b.stack.find(Frag)
    assert isinstance(layer, Frag)
    assert (layer.non_member_bytes, layer.kept_bytes) == (0, 0)


def test_while_the_view_changes_non_members_may_be_members_already() -> None:
    b, _ = member("B", max_non_member_bytes="64K")
    b.up(Frozen({}))
    for src in ("J", "X"):
        for index in range(10):
            b.up(unicast(src, "B", bytes(20_000), headers=(Fragment(1, index, 11, 220_000, 0),)))
    b.up(change(W, V1))
    assert b.stats()["no_room_for_non_members_dropped"] == 1
    for src in ("J", "X"):
        b.up(unicast(src, "B", bytes(20_000), headers=(Fragment(1, 10, 11, 220_000, 0),)))
    assert b.payloads() == [bytes(220_000)]
    assert b.delivered[0].src == address("J")


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_message_that_is_too_large_is_refused_with_a_log_entry() -> None:
    a, _ = member("A")
    a.down(unicast("A", "B", b"1", bytes(3_000_000), b"2"))
    assert [batch.payloads for batch in a.sent()] == [(b"1",), (b"2",)]
    [note] = a.outputs
    assert note.level == "error"
    assert "max_message_size" in note.text


def test_a_fragment_must_fit_a_frame() -> None:
    with pytest.raises(ConfigError, match="max_bundle_size"):
        Bench(Frag(FragConfig(frag_size_bytes="64K")), me="A")


def test_messages_to_this_member_itself_stay_whole() -> None:
    bench = Bench(Frag(CONFIG), me="A")
    bench.down(unicast("A", "A", body(5000)))
    assert bench.payloads() == [body(5000)]
    assert address("A") == bench.delivered[0].src


@pytest.mark.parametrize("at_once", [False, True])
def test_a_large_multicast_that_is_begun_again_counts_once_and_where_it_is_delivered(at_once: bool) -> None:
    a, loop = member("A")
    loop.held = []
    a.down(multicast("A", body(5000)))
    [fragments] = loop.held
    loop.held = [fragments.cut(0, 2), fragments.cut(2, 5)]      # as flow control does
    loop.release(1)
    loop.at_once = at_once
    a.up(change(W, V1))                                         # the last fragment still waits below, and goes out
    if not at_once:
        loop.release(1)
        assert not a.payloads()
        assert sum(batch.messages for batch in a.sent()) == 0, "a message counts that no member has"
        loop.release()
    a.advance(0)
    assert a.stats()["restarted"] == 1
    assert a.payloads() == [body(5000)]
    assert sum(batch.messages for batch in a.sent()) == 1


def test_a_multicast_without_room_is_reported_with_its_last_fragment_and_tickets_do_not_wait() -> None:
    b, loop = member("B", frag_size_bytes=1000, max_reassembly_bytes="64K", max_message_bytes="64K")
    for index in range(40):
        b.up(unicast("A", "B", body(1000), headers=(Fragment(1, index, 60, 60_000, 0),)))
    for index in range(40):
        b.up(multicast("A", body(1000), headers=(Fragment(2, index, 40, 40_000, 0),)))
        assert len(b.passed_up(MessageDropped)) == (index == 39)
    loop.held = []
    b.down(multicast("B", body(50_000)))
    b.down(multicast("B", b"waits", flags=NO_TOTAL_ORDER))
    b.down(multicast("B", flags=NO_TOTAL_ORDER, headers=(AppHeaders({}),)))
    assert [batch.payloads for batch in loop.held[1:]] == [()]
