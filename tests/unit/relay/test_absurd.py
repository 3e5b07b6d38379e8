"""Implausible values in valid headers of members: counted, dropped, and never sent on."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counter_jumps import MAX_JUMP
from jgroups_py.model.events import BridgeDelivered, RaiseView
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import (
    Copy,
    Disseminate,
    Forward,
    Goodbye,
    Have,
    HelloHeader,
    Numbered,
    RefusedHeader,
    SiteRow,
    SiteUnicast,
    Trim,
    ViewHeader,
)
from jgroups_py.protocols.relay.inbound.synchronizer import SYNC_AGAIN_NS
from jgroups_py.protocols.relay.part import RELIABLE
from jgroups_py.protocols.relay.sites.table import LAST_ORDER_COUNT, MAX_ORDERS_AHEAD, UP, Site
from jgroups_py.wire.codec import Interner, Reader
from tests.unit.relay.sites import Member, Sites, answers, numbered, reported, statuses

TOP = (1 << 62) - 1                          # what the wire lets through
ORIGIN = Address(b"origin..........", "O")


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def readable(header: Header) -> bool:
    """Whether other members can read it."""
    out = bytearray()
    wire.encode_headers((header,), out)
    return wire.decode_headers(Reader(bytes(out), Interner()), 1) == (header,)


def bridged(src: Member, to: Member, header: Header, *payloads: bytes) -> None:
    to.notify(BridgeDelivered(Batch(src.bridge, to.bridge, payloads, (header,), 0)))


# --- numbers ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("first", [TOP, TOP - 1, 1 << 61, (1 << 33)])
def test_a_multicast_with_an_implausible_number_is_not_delivered(world: Sites, first: int) -> None:
    world["C"].multicast("c0")
    world.run(millis(100))
    for name in "ABC":
        world[name].receive(Batch(world["C"].me, None, (b"x",), (Numbered(first),), 0))
    world["C"].multicast("c1")
    world.run(seconds(20))
    for name in "ABCDEF":
        assert [text for _, text in world[name].got] == [b"c0", b"c1"]
        assert not reported(world[name], MessagesLost)
    assert [world[name].relay.stats()["implausible_dropped"] for name in "ABC"] == [1, 1, 1]
    assert world["A"].relay.numbering.numbers[world["C"].me] == 3


def test_of_an_unknown_origin_the_first_number_may_be_high_up_to_a_limit(world: Sites) -> None:
    a, unknown = world["A"], world["D"].me
    a.receive(Batch(unknown, None, (b"x",), (Numbered(1 << 40),), 0))
    assert a.relay.numbering.numbers[unknown] == (1 << 40) + 1
    a.receive(Batch(world["E"].me, None, (b"x",), (Numbered(TOP),), 0))
    assert world["E"].me not in a.relay.numbering.numbers
    assert a.relay.numbering.current_numbers().get(world["E"].me, 1) == 1


def test_a_copy_with_an_implausible_number_is_not_held(world: Sites) -> None:
    a, b = world["A"], world["B"]
    world.lose = lambda src, batch: True
    b.multicast("b0")
    world.run(millis(50))
    for origin in (b.me, ORIGIN):
        a.receive(Batch(b.me, a.me, (b"x",), (Copy(origin, TOP, 0, 0),), RELIABLE))
    a.receive(Batch(b.me, a.me, (b"x",), (Copy(b.me, 2, TOP, 0),), RELIABLE))
    assert a.relay.stats()["implausible_dropped"] == 2
    assert (a.relay.hold.ranges(b.me), a.relay.hold.ranges(ORIGIN)) == (((1, 3),), ())
    [*_, held] = a.relay.hold.batches[b.me]
    assert world.now_ns - held.since_ns == 1 << 60, "its age cannot be sent on"


def test_implausible_numbers_of_another_site_are_neither_disseminated_nor_delivered(world: Sites) -> None:
    a, d = world["A"], world["D"]
    epoch = d.relay.group.view.id
    bridged(d, a, Forward("SFO", epoch, ORIGIN, TOP, TOP, 0), b"x")
    assert "disseminated" not in a.relay.stats()
    for name in "AB":
        world[name].receive(Batch(a.me, None, (b"x",), (Disseminate("SFO", ORIGIN, TOP, TOP, 0),), RELIABLE))
        assert (world[name].got, world[name].relay.delivery.seen.get("SFO", {}).get(ORIGIN)) == ([], None)
        assert world[name].relay.stats()["implausible_dropped"] == 1 + (name == "A")


def test_unicasts_with_implausible_numbers_are_dropped_and_do_not_block_later_ones(world: Sites) -> None:
    b, d = world["B"], world["D"]
    nobody = Address(b"nobody..........", "N")
    letters = (SiteUnicast(d.me, "SFO", b.me, "NYC", TOP, 1, 0, None),
               SiteUnicast(d.me, "SFO", b.me, "NYC", 1 << 61, TOP, 0, None),
               SiteUnicast(d.me, "SFO", nobody, "NYC", TOP, 1, 0, None))
    for letter in letters:
        b.receive(Batch(world["A"].me, b.me, (b"x",), (letter,), RELIABLE))
    world.run(seconds(1))
    assert b.relay.stats()["implausible_dropped"] == 2
    d.unicast(b.me, "real")
    world.run(seconds(1))
    assert b.unicasts == [("D@SFO", b"real")]


def test_a_clock_that_shows_centuries_is_not_followed(world: Sites) -> None:
    a, b = world["A"], world["B"]
    before_ns = b.relay.clock.offset_ns
    a.relay.clock.follow(TOP)
    b.relay.clock.follow(TOP)
    for member in (a, b):
        assert member.relay.clock.offset_ns == before_ns
        assert member.relay.stats()["clocks_refused"] == 1


# --- epochs -----------------------------------------------------------------------------------------------------------

def absurd(world: Sites, counter: int) -> Iterator[Header]:
    d = world["D"]
    epoch = ViewId(counter, d.me)
    yield ViewHeader("SFO", epoch, (d.me,))
    yield HelloHeader("SFO", epoch, {}, True)
    yield Forward("SFO", epoch, d.me, 1, 1, 0)
    yield Goodbye("SFO", epoch, False, False)


@pytest.mark.parametrize("counter", [TOP, 1 << 61, (1 << 40) + 1])
def test_no_site_is_fenced_off_by_an_epoch_that_it_cannot_have(world: Sites, counter: int) -> None:
    a, d = world["A"], world["D"]
    epoch = a.relay.table.sites["SFO"].epoch
    for header in absurd(world, counter):
        bridged(d, a, header, b"x")
    row = SiteRow("SFO", UP, ViewId(counter, d.me), (d.me,), {}, {})
    for member in (world["B"], world["C"]):
        member.receive(Batch(a.me, None, (), (Trim((row,), {}, False),), RELIABLE))
    assert {world[name].relay.table.sites["SFO"].epoch for name in "ABC"} == {epoch}
    d.multicast("d0")
    world["A"].multicast("a0")
    world.run(seconds(2))
    assert all(world[name].texts("d") == ["d0"] and world[name].texts("a") == ["a0"] for name in "ABCDEF")


def test_an_unknown_site_is_not_added_with_an_implausible_epoch(world: Sites) -> None:
    a = world["A"]
    epoch = ViewId(TOP, ORIGIN)
    for header in (HelloHeader("LON", epoch, {}, True), ViewHeader("LON", epoch, (ORIGIN,))):
        bridged(world["D"], a, header)
    assert "LON" not in a.relay.table.sites
    a.relay.table.combine([SiteRow("LON", UP, ViewId(TOP, ORIGIN), (ORIGIN,), {}, {})], {}, {})
    assert a.relay.table.sites["LON"].epoch is None


def test_an_epoch_far_above_ours_is_reached_in_steps() -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    a, d = world["A"], world["D"]
    counter = a.relay.group.view.id.counter
    raised: list[int] = []
    a.relay.introducer.pass_down = lambda item: raised.append(item.above) if isinstance(item, RaiseView) else None
    bridged(d, a, RefusedHeader(ViewId(1 << 40, d.me), None))
    assert raised == [counter + MAX_JUMP], "the view was not raised by the largest jump that GMS accepts"


@pytest.mark.parametrize("known", [5, 1 << 40, 1 << 50])
def test_from_a_known_epoch_on_a_site_may_raise_its_own(known: int) -> None:
    site = Site("SFO", epoch=ViewId(known, ORIGIN))
    assert site.accepts(ViewId(known + MAX_JUMP, ORIGIN))
    assert not site.accepts(ViewId(TOP, ORIGIN))


# --- orders -----------------------------------------------------------------------------------------------------------

def test_orders_work_after_rows_with_implausible_order_counts(world: Sites) -> None:
    a, b = world["A"], world["B"]
    for order_count in (LAST_ORDER_COUNT, MAX_ORDERS_AHEAD + 1):
        row = SiteRow("SFO", UP, None, (), {}, {}, order_count=order_count)
        for name in "BC":
            world[name].receive(Batch(a.me, None, (), (Trim((row,), {}, False),), RELIABLE))
        a.relay.table.combine([row], {}, {})
    assert {world[name].relay.table.sites["SFO"].order_count for name in "ABC"} == {0}
    b.order("offline", "SFO")
    world.run(seconds(1))
    b.order("online", "SFO")
    world.run(seconds(1))
    assert (answers(b), statuses(b)) == (["", ""], ["UP", "OFFLINE", "UP"])


def test_the_highest_order_count_can_be_written_and_says_what_the_order_says() -> None:
    site = Site("SFO", order_count=LAST_ORDER_COUNT - 3)
    for _ in range(4):
        site.forbid()
        assert site.forbidden
        assert readable(Trim((site.row(),), {}, False))
        site.allow()
        assert not site.forbidden
        assert readable(Trim((site.row(),), {}, False))


# --- SYNC -------------------------------------------------------------------------------------------------------------

def test_where_an_answer_to_sync_is_lost_it_comes_another_way(world: Sites) -> None:
    """A connection is broken once somebody has used up its numbers; what crosses the bridge must not hang on that."""
    site = world.sites["NYC"]

    class Lossy(deque[tuple[Member, Batch]]):
        def append(self, item: tuple[Member, Batch]) -> None:
            batch = item[1]
            if not (item[0] is world["B"] and batch.dest is not None and isinstance(batch.headers[-1], Have)):
                super().append(item)
    site.sent = Lossy(site.sent)
    site.install(["A", "B", "C"])
    world.run(SYNC_AGAIN_NS - millis(100))
    synchronizer = world["A"].relay.synchronizer
    assert (synchronizer.complete, list(synchronizer.awaited)) == (False, [world["B"].me])
    world["C"].multicast(*numbered(0, 3))
    world.run(seconds(1))
    assert world["A"].relay.synchronizer.complete
    assert world["A"].relay.stats()["syncs_again"] == 1
    assert all(world[name].texts("c") == numbered(0, 3) for name in "ABCDEF")
    world.run(2 * SYNC_AGAIN_NS)
    assert world["A"].relay.stats()["syncs_again"] == 1, "SYNC was repeated although all had answered"
