"""ARCHIVE: numbers what is sent, records what passes, joins when the recorder is ready, goes on without it."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY, Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import (
    AppBusy,
    ArchiveBusy,
    ArchiveFailed,
    ArchiveOpened,
    Connect,
    MessageRun,
    OutputEmitted,
    OutputInOrder,
    RecordMessages,
    SendUntil,
    ViewChange,
)
from jgroups_py.model.outputs import (
    ArchiveDurability,
    Deliver,
    LogEntry,
    MessagesLost,
    NodeFailed,
    OpenArchive,
    Record,
    SiteStatusChanged,
    SkipMulticasts,
    StateEnd,
)
from jgroups_py.model.topics import interest_in
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.archive import Archive, ArchiveConfig
from jgroups_py.stack.protocol import Protocol, on
from jgroups_py.stack.stack import Stack
from jgroups_py.wire.archive_header import Archived, view_text
from jgroups_py.wire.topic_headers import PassedBy

ME, BOB = Address(bytes(16), "me"), Address(bytes(range(16)), "bob")
FAR = ProxyUUID(Address(b"f" * 16, "far"), BOB, "SFO")
VIEW = View(ViewId(2, BOB), (BOB, ME))


class Ground(Protocol):
    """What lies below; keeps what comes down."""

    def start(self) -> None:
        self.batches: list[Batch] = []
        self.events: list[object] = []

    def down(self, batch: Batch) -> None:
        self.batches.append(batch)

    @on(Connect)
    def connect(self, event: Connect) -> None:
        self.events.append(event)

    @on(AppBusy)
    def busy(self, event: AppBusy) -> None:
        self.events.append(event)

    @on(SendUntil)
    def send_until(self, event: SendUntil) -> None:
        self.events.append(event)


class Member:
    """ARCHIVE above nothing."""

    def __init__(self, *, payload: bool = False) -> None:
        self.ground = Ground()
        self.archive = Archive(ArchiveConfig(directory="dir", payload=payload))
        self.stack = Stack([self.ground, self.archive], ME)

    def opened(self) -> Member:
        self.stack.inject(Connect("demo"), 0)
        self.stack.notify(ArchiveOpened(), 0)
        self.stack.outputs.clear()
        self.ground.events.clear()
        return self

    def send(self, *payloads: bytes, dest: Address | None = None, flags: int = 0) -> None:
        self.stack.inject(Batch(ME, dest, payloads, (), flags), self.stack.now_ns)

    def get(self, batch: Batch) -> None:
        self.ground.pass_up(batch)
        self.stack.run()

    def recorded(self) -> list[Record]:
        return [output for output in self.stack.outputs if isinstance(output, Record)]

    def outputs(self, kind: type) -> list:
        return [output for output in self.stack.outputs if isinstance(output, kind)]


@pytest.fixture
def member() -> Member:
    return Member().opened()


# --- the recorder ---------------------------------------------------------------------------------------------------

def test_the_group_is_joined_when_the_recorder_is_ready_and_not_before():
    member = Member()
    member.stack.inject(Connect("demo"), 0)
    [asked] = member.outputs(OpenArchive)
    assert (asked.cluster, asked.site, asked.member, asked.incarnation) == ("demo", "", "me", "00" * 16)
    assert member.ground.events == []
    member.stack.notify(ArchiveOpened(), 0)
    assert member.ground.events == [Connect("demo")]


def test_a_recorder_that_cannot_begin_fails_the_member():
    member = Member()
    member.stack.inject(Connect("demo"), 0)
    member.stack.notify(ArchiveFailed("no pyarrow"), 0)
    assert [output.reason for output in member.outputs(NodeFailed)] == ["ARCHIVE: no pyarrow"]
    assert member.ground.events == []


def test_a_later_failure_of_the_recorder_is_reported_and_the_member_continues(member):
    member.stack.notify(ArchiveFailed("disk full"), 0)
    member.stack.notify(ArchiveOpened(), 0)
    assert [output.reason for output in member.outputs(ArchiveDurability)] == ["disk full", ""]
    assert [note.level for note in member.outputs(LogEntry)] == ["error", "info"]
    assert member.outputs(NodeFailed) == []
    assert member.ground.events == []


def test_with_on_slow_block_the_group_waits_for_the_disk(member):
    member.stack.notify(ArchiveBusy(5 << 20), 0)
    assert member.stack.pending_bytes() == 5 << 20
    member.stack.notify(ArchiveBusy(0), 0)
    assert member.stack.pending_bytes() == 0
    assert member.ground.events == [AppBusy(True, "archive"), AppBusy(False, "archive")]


# --- messages -------------------------------------------------------------------------------------------------------

def test_sent_messages_are_numbered_per_stream_and_destination(member):
    member.send(b"a", b"b")
    member.send(b"c")
    member.send(b"d", flags=NO_RELAY)
    member.send(b"e", flags=NO_RELIABILITY)
    member.send(b"f", dest=BOB)
    member.send(b"g", dest=FAR)
    member.send(b"h", dest=BOB)
    found = [(record.stream, record.dest, record.first, record.rows) for record in member.recorded()]
    assert found == [("all", None, 1, 2), ("all", None, 3, 1), ("local", None, 1, 1), ("unreliable", None, 1, 1),
                     ("unicast", BOB, 1, 1), ("unicast", FAR, 1, 1), ("unicast", BOB, 2, 1)]
    assert [batch.headers[-1].first for batch in member.ground.batches] == [first for _, _, first, _ in found]


def test_delivered_batches_are_recorded_with_their_number_and_passed_on_without_header(member):
    member.get(Batch(FAR, None, (b"x", b"yy"), (Archived(7),), 0))
    [record] = member.recorded()
    assert (record.kind, record.origin, record.origin_site, record.first, record.rows, record.sizes) == (
        "delivered", FAR, "SFO", 7, 2, (1, 2))
    [delivered] = member.outputs(Deliver)
    assert (delivered.batch.headers, delivered.batch.payloads) == ((), (b"x", b"yy"))


def test_the_record_of_a_batch_comes_before_its_delivery(member):
    member.get(Batch(BOB, None, (b"x",), (Archived(1),), 0))
    assert [type(output) for output in member.stack.outputs] == [Record, Deliver]


def test_a_message_of_a_member_without_archive_is_recorded_without_number(member):
    member.get(Batch(BOB, None, (b"x",), (), 0))
    [record] = member.recorded()
    assert (record.first, record.rows) == (None, 1)
    assert member.archive.stats()["delivered_without_number"] == 1


def test_numbers_of_topics_without_a_subscription_are_recorded_as_passed(member):
    batch = Batch(FAR, None, (b"", b""), (Archived(4), PassedBy(interest_in("a"))), 0)
    member.get(batch)
    [record] = member.recorded()
    assert (record.kind, record.first, record.count, record.rows) == ("passed", 4, 2, 1)
    assert member.outputs(Deliver)[0].batch is batch


@pytest.mark.parametrize("payload", [False, True])
def test_payloads_are_recorded_once_a_member_and_only_if_wanted(payload):
    member = Member(payload=payload).opened()
    member.send(b"to all")
    member.send(b"to bob", dest=BOB)
    member.send(b"to me", dest=ME)
    member.get(Batch(BOB, None, (b"got",), (Archived(1),), 0))
    assert [record.payloads for record in member.recorded()] == (
        [(), (b"to bob",), (), (b"got",)] if payload else [(), (), (), ()])


def test_a_multicast_with_a_receipt_is_numbered_with_the_others(member):
    member.send(b"a")
    member.stack.inject(SendUntil(1, ("SFO",), b"b"), 0)
    member.send(b"c")
    assert [record.first for record in member.recorded()] == [1, 2, 3]
    [event] = member.ground.events
    assert event.headers == (Archived(2),)


# --- facts ----------------------------------------------------------------------------------------------------------

def test_a_view_is_recorded_and_what_follows_stands_in_it(member):
    member.stack.notify(ViewChange(VIEW, None, (BOB, ME), ()), 0)
    member.send(b"x")
    view, sent = member.recorded()
    assert (view.kind, view.view_id, sent.view_id) == ("view", VIEW.id, VIEW.id)
    assert view.detail == {"members": [[BOB.raw.hex(), "bob"], ["00" * 16, "me"]], "previous": None,
                           "joined": [BOB.raw.hex(), "00" * 16], "left": [], "subgroups": [], "missed": {}}
    member.stack.notify(ViewChange(View(ViewId(3, BOB), (BOB, ME)), VIEW, (), ()), 0)
    assert member.recorded()[-1].detail["previous"] == view_text(VIEW.id)


def test_what_relay_reports_is_recorded(member):
    member.stack.notify(OutputEmitted(SiteStatusChanged("SFO", "DOWN")), 0)
    member.stack.notify(OutputEmitted(MessagesLost("SFO", FAR, 5, 9, None)), 0)
    site, lost = member.recorded()
    assert (site.kind, site.detail) == ("site", {"site": "SFO", "status": "DOWN"})
    assert (lost.kind, lost.origin, lost.origin_site, lost.first, lost.count, lost.rows) == (
        "lost", FAR, "SFO", 5, 4, 1)


def test_messages_that_no_member_keeps_are_recorded_without_a_number_of_a_stream(member):
    member.stack.notify(OutputEmitted(MessagesLost("", BOB, 5, 9)), 0)
    for relayed, rows in ((True, 1), (False, 2)):
        member.archive.site = "NYC" if relayed else None     # RELAY has reported it
        member.stack.notify(OutputInOrder(MessagesLost("", BOB, 5, 9)), 0)
        assert len(member.recorded()) == rows
    for record in member.recorded():
        assert (record.kind, record.origin, record.first, record.stream, record.count, record.detail) == (
            "forgotten", BOB, None, None, 4, {"first": 5, "stop": 9})


def test_begin_and_end_of_shedding_are_recorded(member):
    member.stack.notify(OutputInOrder(SkipMulticasts(BOB, True)), 0)
    member.stack.notify(OutputInOrder(SkipMulticasts(BOB, False)), 0)
    assert [(record.kind, record.origin, record.detail) for record in member.recorded()] == [
        ("skipping", BOB, {"on": True}), ("skipping", BOB, {"on": False})]


def test_what_a_state_of_another_site_contains_is_recorded_as_covered(member):
    member.stack.notify(OutputInOrder(StateEnd("", (("SFO", FAR, 3, 9),))), 0)
    [record] = member.recorded()
    assert (record.kind, record.origin, record.origin_site, record.first, record.count) == ("covered", FAR, "SFO", 3, 6)


# --- configuration --------------------------------------------------------------------------------------------------

def test_archive_stands_above_relay():
    with pytest.raises(ConfigError, match="ARCHIVE must stand above all others"):
        load([*load("udp").layers[:-1], ("ARCHIVE", {"directory": "x"}), load("udp").layers[-1]])


@pytest.mark.parametrize(("settings", "message"), [
    ({"directory": ""}, "ARCHIVE needs directory"),
    ({"directory": "x", "retain_bytes": "1M"}, "retain_size must be at least segment_size 64M"),
    ({"directory": "x", "fsync": "often"}, "'often' is not one of none, interval, every"),
    ({"directory": "x", "queue_bytes": "1K"}, "out of range: at least 2M"),
])
def test_bad_settings_name_what_is_allowed(settings, message):
    with pytest.raises(ConfigError, match=message):
        ArchiveConfig(**settings)


# --- messages of blocks ---------------------------------------------------------------------------------------------

def test_messages_inside_others_are_recorded_and_go_no_further(member):
    member.stack.notify(ViewChange(VIEW, None, (), ()), 5)
    member.stack.outputs.clear()
    member.stack.inject(RecordMessages("mqtt", (
        MessageRun("sent", 3, None, "a/b", 7, [10, 20]), MessageRun("delivered", 4, FAR, "c", 1, [5]))), 9)
    assert [(each.kind, each.now_ns, each.origin, each.origin_site, each.stream, each.first, each.rows, each.sizes,
             each.topic, each.view_id) for each in member.recorded()] == [
        ("sent", 3, ME, None, "mqtt", 7, 2, (10, 20), "a/b", VIEW.id),
        ("delivered", 4, FAR, "SFO", "mqtt", 1, 1, 5, "c", VIEW.id)]
    assert member.ground.batches == []
