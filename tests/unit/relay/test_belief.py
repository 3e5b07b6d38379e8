"""Whose word counts: RELAY's headers come from members of the view, numbered, in a view; statuses are known ones."""
from __future__ import annotations

from typing import Any

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import BridgeDelivered
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.headers import (
    TABLE,
    Disseminate,
    Goodbye,
    Numbered,
    RefusedHeader,
    SiteRow,
    SiteUnicastSeen,
    StandingHeader,
    Sync,
    Trim,
    ViewHeader,
)
from jgroups_py.protocols.relay.origin.hold import MESSAGE_BYTES, Hold
from jgroups_py.protocols.relay.sites.table import OFFLINE, UP
from jgroups_py.wire.codec import Interner, Reader
from tests.unit.relay.sites import Member, Sites, numbered, reported, statuses
from tests.wire.collect import collected

STRANGER = Address(b"stranger........", "evil")
LOCAL = [header for header, _ in collected() if type(header) in Relay.receivers]


def two_sites() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def state_of(member: Member) -> tuple[Any, ...]:
    relay = member.relay
    return (member.got, member.unicasts, member.reported, relay.table.rows(), relay.numbering.numbers,
            relay.hold.messages, relay.hold.trimmed, relay.delivery.seen, relay.send_gate.closed,
            relay.state_transfer.attempt,
            relay.state_provider.waiting)


def test_every_header_that_members_send_each_other_has_an_example() -> None:
    assert {type(header) for header in LOCAL} == set(Relay.receivers)


@pytest.mark.parametrize("header", LOCAL, ids=lambda header: type(header).__name__)
@pytest.mark.parametrize("flags", [0, NO_RELAY | NO_FC, NO_RELIABILITY])
def test_nothing_counts_before_the_first_view(header: Header, flags: int) -> None:
    world = two_sites()
    early = Member(world.sites["NYC"], "Z")
    before = state_of(early)
    for dest in (None, early.me):
        early.receive(Batch(world["A"].me, dest, (b"x",), (header,), flags))
    assert early.relay.stats()["non_member_dropped"] == 2
    assert state_of(early) == before
    assert early.stack.outputs == []


@pytest.mark.parametrize("header", LOCAL, ids=lambda header: type(header).__name__)
def test_messages_of_non_members_and_without_a_number_have_no_effect(header: Header) -> None:
    world = two_sites()
    world["C"].multicast("c0")
    world.run(millis(200))
    for member in (world["A"], world["B"], world["C"]):
        before, sent = repr(state_of(member)), len(world.sites["NYC"].sent)
        member.receive(Batch(STRANGER, member.me, (b"x",), (header,), 0))
        for src in (STRANGER, world["A"].me, member.me):
            for dest in (None, member.me):
                member.receive(Batch(src, dest, (b"x",), (header,), NO_RELIABILITY))
        assert member.relay.stats()["non_member_dropped"] == 7
        assert repr(state_of(member)) == before
        assert (len(world.sites["NYC"].sent), list(world.on_bridge)) == (sent, [])


def test_headers_of_members_take_effect() -> None:
    world = two_sites()
    a, b = world["A"], world["B"]
    b.receive(Batch(a.me, None, (b"x",), (Disseminate("SFO", world["E"].me, 1, 1, 0),), NO_RELAY))
    assert b.texts("x") == ["x"]
    assert "non_member_dropped" not in b.relay.stats()


def test_a_trim_of_a_non_member_drops_nothing() -> None:
    world = two_sites()
    world.lose = lambda src, batch: True
    world["A"].multicast(*numbered(0, 5))
    world.run(millis(100))
    a = world["A"]
    trim = Trim((), {a.me: 4}, False)
    for src, dest, flags in ((STRANGER, a.me, 0), (a.me, None, NO_RELIABILITY), (a.me, a.me, NO_RELIABILITY)):
        a.receive(Batch(src, dest, (), (trim,), flags))
    assert a.relay.hold.ranges(a.me) == ((1, 6),)


# --- the bridge -------------------------------------------------------------------------------------------------------

def test_headers_that_are_not_from_a_relay_on_the_bridge_have_no_effect() -> None:
    world = two_sites()
    world["A"].multicast("a0")
    world.run(millis(200))
    a, d = world["A"], world["D"]
    epoch = ViewId(99, STRANGER)
    rows = a.relay.table.rows()
    headers = (ViewHeader("SFO", epoch, (STRANGER,)), ViewHeader("LON", epoch, (STRANGER,)), RefusedHeader(epoch, None),
               Goodbye("SFO", epoch, True, True), SiteUnicastSeen(a.me, "NYC", d.me, 9, True))
    for header in headers:
        a.notify(BridgeDelivered(Batch(STRANGER, a.bridge, (), (header,), 0)))
        a.notify(BridgeDelivered(Batch(d.bridge, a.bridge, (), (header,), NO_RELIABILITY)))
    world.run(seconds(1))
    assert a.relay.stats()["non_peer_dropped"] == 2 * len(headers)
    assert (a.relay.table.rows(), a.relay.introducer.early_views, world.sites["NYC"].raises) == (rows, {}, 0)
    assert statuses(a) == ["UP"]


# --- values -----------------------------------------------------------------------------------------------------------

def read_row(row: SiteRow) -> tuple[SiteRow, ...]:
    out = bytearray()
    TABLE.write((row,), out)
    return TABLE.read(Reader(bytes(out), Interner()))


@pytest.mark.parametrize("status", [3, 127, 255])
def test_a_row_with_an_unknown_status_is_no_row(status: int) -> None:
    row = SiteRow("SFO", OFFLINE, None, (), {}, {})
    assert read_row(row) == (row,)
    with pytest.raises(WireError, match=f"status {status} is unknown"):
        read_row(attrs.evolve(row, status=status))


def test_an_unknown_standing_is_no_standing() -> None:
    [field] = [field for field in attrs.fields(StandingHeader) if field.name == "status"]
    codec = field.metadata["codec"]
    assert codec.read(Reader(bytes([UP]), Interner())) == UP
    with pytest.raises(WireError, match="status 3 is unknown"):
        codec.read(Reader(b"\3", Interner()))


# --- the hold ---------------------------------------------------------------------------------------------------------

def test_a_held_batch_without_payloads_is_one_message() -> None:
    hold = Hold()
    hold.add(STRANGER, 1, Batch(STRANGER, None), 0)
    hold.add(STRANGER, 2, Batch(STRANGER, None, (b"a" * 100, b"b" * 100)), 0)
    for number, stop in ((1, 2), (2, 3), (3, 4)):
        held = hold.batch_from(STRANGER, number, 1)
        assert held is not None
        assert (held.first, held.stop) == (number, stop)


def test_a_multicast_without_payloads_crosses_like_any_other_where_the_window_is_almost_full() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(window_bytes="64K")
    first = bytes((64 << 10) - MESSAGE_BYTES - 10)
    for payloads in ((first,), (), (b"after",)):
        world["C"].stack.inject(Batch(world["C"].me, None, payloads), world.now_ns)
        world["C"].drain()
    world.run(seconds(1))
    assert all(world[name].texts("after") == ["after"] for name in "ABCDEF")
    assert not reported(world["F"], MessagesLost)


def test_examples_are_what_they_are_for() -> None:
    """The tests above would be empty if the examples changed their kind."""
    assert {Numbered, Sync, Trim, Disseminate} <= {type(header) for header in LOCAL}
