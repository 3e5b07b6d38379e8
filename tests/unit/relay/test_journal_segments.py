"""The journal stays bounded, brings what it must to the disk itself, and lives through a disk that fails."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.events import JournalFailed
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.journal import journal
from jgroups_py.protocols.relay.journal.segments import segment_name
from tests.unit.relay.journal_disk import address, holder, site_row

BOB, EVE = address("bob"), address("eve")


# --- bounded ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2000)
    monkeypatch.setattr(journal, "MOVE_BYTES", 300)


def test_segments_that_nothing_is_held_of_are_removed(small_segments):
    member = holder()
    for _ in range(40):
        member.multicast(bytes(200))
    assert len(member.disk.files) > 4
    member.trim({member.me: 41}, site_row("SFO", {member.me: 41}))
    assert len(member.disk.files) == 1
    assert not holder(member.disk.copied(), incarnation="2").held()


def test_a_new_segment_has_the_site_table_since_the_older_ones_are_removed(small_segments):
    member = holder()
    member.trim({}, site_row("SFO", {BOB: 7}))
    for _ in range(40):
        member.multicast(bytes(200))
    disk = member.disk.copied()
    newest = max(disk.files)
    for name in [name for name in disk.files if name != newest]:
        del disk.files[name]
    assert holder(disk, incarnation="2").relay.table.sites["SFO"].acked[BOB] == 7


def test_one_old_message_does_not_keep_the_segments_after_it(small_segments):
    member = holder()
    member.receive(EVE, 1, b"precious")
    for _ in range(200):
        member.multicast(bytes(200))
        numbers = {member.me: member.relay.numbering.next_number}
        member.trim(numbers, site_row("SFO", numbers))
    member.wait(seconds(1))
    assert member.disk.nbytes < 8 * 2000
    assert holder(member.disk.copied(), incarnation="2").held() == {(EVE, 1): b"precious"}


@pytest.mark.parametrize("sync", ["none", "interval", "every"])
def test_after_any_multicasts_trims_and_syncs_the_disk_has_what_is_held_and_not_much_more(small_segments, sync):
    for seed in range(12):
        rng = Random(seed)
        member = holder(hold_sync=sync, hold_sync_interval_ns="50ms")
        ends = {member.me: 1, BOB: 1, EVE: 1}
        below = dict(ends)
        for _ in range(120):
            origin = rng.choice(list(ends))
            payloads = [rng.randbytes(rng.choice((1, 20, 150))) for _ in range(rng.randint(1, 4))]
            if origin == member.me:
                member.multicast(*payloads)
            else:
                member.receive(origin, ends[origin], *payloads)
            ends[origin] += len(payloads)
            if rng.random() < 0.3:
                chosen = rng.choice(list(ends))
                below[chosen] = rng.randint(below[chosen], ends[chosen])
                member.trim(dict(below), site_row("SFO", dict(below)))
            if rng.random() < 0.1:
                member.wait(millis(60))
        held = member.held()
        assert held == {key: held[key] for key in held if key[1] >= below[key[0]]}
        again = holder(member.disk.copied(), incarnation="2")
        assert again.held() == held
        member.trim(dict(below), site_row("SFO", dict(below)))
        for _ in range(20):
            member.wait(millis(100))
            member.trim(dict(below), site_row("SFO", {**below, address(f"{_}"): 2}))
        live = sum(len(payload) + 100 for payload in held.values())
        assert member.disk.nbytes < 2 * live + 7 * 2000, f"seed {seed}"
        assert holder(member.disk.copied(), incarnation="2").held() == held


# --- syncs -----------------------------------------------------------------------------------------------------------

def test_every_holds_batches_back_from_other_sites_until_the_disk_has_them():
    member = holder(hold_sync="every")
    member.disk.lazy = True
    member.multicast(b"one", b"two")
    assert member.relay.journal.unsynced(member.me) == 1
    member.wait(0)
    member.multicast(b"three")
    assert member.relay.journal.unsynced(member.me) == 1
    member.finish_sync()
    assert member.relay.journal.unsynced(member.me) == 3       # what came during the sync waits for the next one
    member.wait(0)
    member.finish_sync()
    assert member.relay.journal.unsynced(member.me) is None
    assert member.delivered == [b"one", b"two", b"three"]      # local delivery never waited


def test_many_batches_share_a_sync_of_the_disk_and_none_is_requested_while_one_is_under_way():
    member = holder(hold_sync="every")
    member.wait(0)
    member.disk.lazy = True
    for text in (b"one", b"two", b"three"):
        member.multicast(text)
    member.wait(millis(10))
    assert len(member.disk.syncs) == 1
    member.multicast(b"four")
    member.wait(millis(10))
    assert len(member.disk.syncs) == 1


def test_interval_syncs_that_often_and_holds_nothing_back():
    member = holder(hold_sync="interval", hold_sync_interval_ns="200ms")
    member.wait(seconds(1))
    member.disk.lazy = True
    member.multicast(b"one")
    assert member.relay.journal.unsynced(member.me) is None
    member.wait(millis(199))
    assert not member.disk.syncs
    member.wait(millis(1))
    assert len(member.disk.syncs) == 1


def test_none_never_syncs():
    member = holder()
    member.disk.lazy = True
    for _ in range(5):
        member.multicast(b"one")
        member.wait(seconds(10))
    assert not member.disk.syncs


def test_a_moved_batch_leaves_its_old_segment_only_when_its_copy_is_synced(small_segments):
    member = holder(hold_sync="interval", hold_sync_interval_ns="1s")
    oldest = segment_name(1)
    member.disk.lazy = True
    for number in range(1, 8):
        member.receive(EVE, number, b"precious")
        for _ in range(8):
            member.multicast(bytes(200))
        numbers = {member.me: member.relay.numbering.next_number}
        member.trim(numbers, site_row("SFO", numbers))
    member.wait(seconds(2))
    assert oldest in member.disk.files
    member.finish_sync()
    assert oldest not in member.disk.files
    assert len(holder(member.disk.copied(), incarnation="2").held()) == 7


# --- failures --------------------------------------------------------------------------------------------------------

def test_a_disk_that_fails_is_reported_once_and_the_member_goes_on():
    member = holder()
    member.disk.broken = "no space left on device"
    member.multicast(b"one")
    member.multicast(b"two")
    member.wait(seconds(60))
    assert member.durability == ["no space left on device"]
    assert member.delivered == [b"one", b"two"]
    assert member.relay.stats()["journal_fails"] == 1
    assert sorted(number for _, number in member.held()) == [1, 2]


@pytest.mark.parametrize("sync", ["none", "interval", "every"])
def test_what_the_disk_missed_is_written_once_it_works(sync):
    member = holder(hold_sync=sync)
    member.multicast(b"one")
    member.disk.broken = "no space left on device"
    member.multicast(b"two")
    member.receive(BOB, 7, b"seven")
    member.disk.broken = ""
    member.multicast(b"three")
    member.wait(seconds(11))
    assert member.durability == ["no space left on device", ""]
    assert holder(member.disk.copied(), incarnation="2").held() == member.held()
    assert len(member.held()) == 4


def test_all_is_well_again_only_when_everything_missed_is_written(small_segments):
    member = holder(hold_sync="interval", hold_sync_interval_ns="1ms")
    member.disk.broken = "no space left on device"
    for _ in range(20):
        member.multicast(bytes(200))
    member.disk.broken = ""
    member.wait(seconds(10) + millis(2))
    assert member.durability == ["no space left on device"]        # steps of moving are 5 ms apart, syncs 1 ms
    member.wait(seconds(1))
    assert member.durability == ["no space left on device", ""]
    assert holder(member.disk.copied(), incarnation="2").held() == member.held()


def test_a_failed_disk_holds_nothing_back():
    member = holder(hold_sync="every")
    member.disk.lazy = True
    member.multicast(b"one")
    assert member.relay.journal.unsynced(member.me) == 1
    member.disk.broken = "input/output error"
    member.multicast(b"two")
    assert member.relay.journal.unsynced(member.me) is None


@pytest.mark.parametrize("sync", ["none", "interval"])
def test_what_a_failed_disk_may_not_have_kept_is_written_once_more(sync, monkeypatch):
    """The newest file, where a write broke off, and all that no finished sync covers."""
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2000)
    member = holder(hold_sync=sync, hold_sync_interval_ns="1s")
    member.disk.lazy = True
    member.receive(EVE, 1, bytes(1500))
    member.wait(millis(1500))                                     # a sync is under way for this file,
    member.receive(BOB, 1, bytes(1500))                              # not for this one,
    member.multicast(bytes(1500))                                       # nor for the newest
    member.notify(JournalFailed("input/output error"))
    unsure = [member.me] if sync == "none" else [EVE, BOB, member.me]
    assert sorted(member.relay.journal.missed.spans) == sorted(unsure)
    before = list(member.disk.files)
    member.wait(seconds(12))
    disk = member.disk.copied()
    for name in before if sync != "none" else before[-1:]:
        disk.files.pop(name, None)                                # what was unsure is gone
    assert holder(disk, incarnation="2").held() == member.held()


def test_a_second_failure_of_a_disk_that_failed_changes_nothing():
    """What was under way when it failed fails too: that is no failure of what is tried next."""
    member = holder(hold_sync="every")
    member.disk.lazy = True
    member.multicast(b"one")
    member.notify(JournalFailed("input/output error"))
    member.wait(seconds(9))
    member.notify(JournalFailed("the sync of then failed too"))
    member.wait(seconds(2))
    assert member.relay.journal.writing, "it is tried again 10 s after the first failure, not after the last"
    assert member.durability == ["input/output error"]


def test_segments_are_removed_from_a_full_disk_too(small_segments):
    member = holder()
    for _ in range(40):
        member.multicast(bytes(200))
    member.disk.broken = "no space left on device"
    member.multicast(b"x")
    member.trim({member.me: 41}, site_row("SFO", {member.me: 41}))
    assert len(member.disk.files) <= 1
