"""The journal: what a holder holds is on its disk, and comes back when it starts again."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.events import LeaveRequested
from jgroups_py.model.outputs import AppendSegment, Deliver, MessagesLost
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.journal.records import _OWNER, OWNER, VERSION, Written, owner_record
from jgroups_py.protocols.relay.journal.segments import segment_name, segment_number
from jgroups_py.protocols.relay.sites.table import DOWN, OFFLINE, UP
from tests.unit.relay.journal_disk import Disk, Holder, address, holder, site_row

BOB = address("bob")


# --- starting --------------------------------------------------------------------------------------------------------

def test_a_member_connects_only_when_its_journal_is_read():
    first = holder()
    first.multicast(b"one")
    again = Holder(first.disk.copied(), incarnation="2")
    opened = again.outputs[0]
    assert again.ground.connected == ["demo"]
    assert type(opened).__name__ == "OpenJournal"
    assert opened.folder == "/hold/A"


def test_without_hold_dir_nothing_is_written_and_connect_is_not_kept_back():
    plain = holder(hold_dir="")
    plain.multicast(b"one")
    assert plain.ground.connected == ["demo"]
    assert not plain.disk.files
    assert "journal_bytes" not in plain.relay.stats()


def test_a_member_that_leaves_while_its_journal_is_read_does_not_connect():
    disk = holder().disk
    late = Holder(disk.copied())
    late.ground.connected.clear()
    late.stack.notify_layer(late.relay, LeaveRequested(), 0)
    late.relay.restore.finish()
    assert not late.ground.connected


@pytest.mark.parametrize(("options", "why"), [
    ({"site": "LON"}, "belongs to site NYC of cluster demo, not to site LON of cluster demo"),
    ({"cluster": "other"}, "belongs to site NYC of cluster demo, not to site NYC of cluster other")])
def test_a_folder_of_another_site_or_cluster_is_refused(options, why):
    disk = holder().disk
    before = disk.copied().files
    other = Holder(disk, **options)
    assert why in other.failure
    assert not other.ground.connected
    assert disk.files == before


def test_a_folder_in_a_later_format_is_refused_and_left_alone():
    disk = Disk()
    later = bytes(Written(OWNER, _OWNER.pack(b"JGHOLD", VERSION + 1) + b"\0\4demo\0\3NYC"))
    disk.files[segment_name(7)] = bytearray(later)
    assert f"is of format {VERSION + 1}, this program writes format {VERSION}" in Holder(disk).failure
    assert disk.files == {segment_name(7): bytearray(later)}


def test_files_that_are_no_segments_are_ignored():
    assert segment_number(segment_name(0xabc)) == 0xabc
    assert [segment_number(name) for name in ("lock", "12.hold", "zz.hold", "00000000000000ab.tmp")] == [0, 0, 0, 0]


# --- what is written -------------------------------------------------------------------------------------------------

def test_a_batch_is_written_before_it_is_delivered():
    member = holder()
    member.outputs.clear()
    member.multicast(b"one")
    kinds = [type(output) for output in member.outputs]
    assert kinds.index(AppendSegment) < kinds.index(Deliver)


def test_everything_held_comes_back_with_its_numbers_flags_and_age():
    first = holder()
    first.multicast(b"mine")
    first.receive(BOB, 5, b"five", b"six")
    first.wait(seconds(100))
    again = holder(first.disk.copied(), incarnation="2", now_ns=seconds(3))
    assert again.held() == {(first.me, 1): b"mine", (BOB, 5): b"five", (BOB, 6): b"six"}
    (held,) = again.relay.hold.batches[BOB]
    assert again.stack.now_ns - held.since_ns == seconds(100)
    assert not again.delivered                     # old origins are not delivered to the new incarnation
    assert again.relay.stats()["restored_messages"] == 3


def test_what_was_restored_comes_back_again_and_once():
    first = holder()
    first.multicast(b"one", b"two")
    second = holder(first.disk.copied(), incarnation="2")
    second.multicast(b"three")
    third = holder(second.disk.copied(), incarnation="3")
    assert third.held() == {(first.me, 1): b"one", (first.me, 2): b"two", (second.me, 1): b"three"}


def test_a_member_that_starts_again_joins_like_any_other_and_is_told_of_no_losses_from_before():
    first = holder()
    first.receive(BOB, 5, b"five", b"six")
    again = Holder(first.disk.copied(), incarnation="2")
    again.join(0, {BOB: 95})                               # where the relay is, which came from another half
    again.receive(BOB, 100, b"hundred")
    assert not again.outputs_of(MessagesLost)
    again.receive(BOB, 103, b"later")                      # what it misses from now on it is told
    assert [(loss.origin, loss.first, loss.stop) for loss in again.outputs_of(MessagesLost)] == [(BOB, 101, 103)]


def test_the_site_table_comes_back_without_members_and_epoch():
    first = holder()
    first.receive(BOB, 1, *[b"x"] * 10)
    first.trim({BOB: 3}, site_row("SFO", {BOB: 5}), site_row("LON", {BOB: 3}, DOWN), site_row("PAR", {}, OFFLINE))
    again = holder(first.disk.copied(), incarnation="2")
    assert {site.name: (site.status, site.acked.get(BOB), site.epoch, site.members) for site in again.relay.table
            if site.name != "PAR"} == {"SFO": (UP, 5, None, ()), "LON": (DOWN, 3, None, ())}
    assert again.relay.table.sites["PAR"].status == OFFLINE
    assert sorted(number for _, number in again.held()) == list(range(3, 11))
    assert again.relay.numbering.current_numbers()[BOB] == 11


# --- ages -----------------------------------------------------------------------------------------------------------

def age_ns(member: Holder, origin: Address) -> int:
    """How long the first run of an origin has been held."""
    return member.stack.now_ns - member.relay.hold.batches[origin][0].since_ns


def test_the_age_of_a_held_batch_rises_while_its_holder_runs_and_not_between_its_runs():
    member = holder()
    member.receive(BOB, 1, b"old")
    for life in range(2, 6):
        member.wait(seconds(100))
        member = holder(member.disk.copied(), incarnation=str(life), now_ns=seconds(10_000 * life))
    assert seconds(396) <= age_ns(member, BOB) <= seconds(400), "a crash costs what passed since the last stroke"


def test_a_planned_stop_costs_nothing_of_an_age():
    first = holder()
    first.receive(BOB, 1, b"old")
    first.wait(seconds(100) + millis(700))
    first.stack.notify_layer(first.relay, LeaveRequested(), first.stack.now_ns)
    first.drain()
    first.wait(first.relay.config.leave_timeout_ns)        # SFO is not to be reached
    again = holder(first.disk.copied(), incarnation="2")
    assert age_ns(again, BOB) == seconds(102) + millis(200), "to the moment, not to the last stroke"


def test_what_reaches_hold_age_over_several_lives_is_declared_lost_by_range_and_stays_in_the_ledger():
    member = holder(hold_age_ns="10m")
    member.receive(BOB, 1, *[b"x"] * 13)
    for life in range(2, 4):
        member.wait(seconds(250))
        member = holder(member.disk.copied(), incarnation=str(life), hold_age_ns="10m")
    assert member.relay.table.sites["SFO"].status == DOWN, "held for"
    member.wait(seconds(110))
    assert member.relay.table.sites["SFO"].status == OFFLINE
    assert [(loss.origin, loss.first, loss.stop, loss.dest_site) for loss in member.outputs_of(MessagesLost)] == [
        (BOB, 1, 14, "SFO")]
    book = member.relay.reports.ledger()["SFO"][BOB]
    assert (book.numbered, book.acknowledged, book.held, book.lost) == (13, 0, 0, 13)


def away(age_s: int, **options: object) -> Holder:
    """A member that starts again with something held for `age_s`, and is in no group yet."""
    first = holder()
    first.receive(BOB, 1, b"one", b"two")
    first.wait(seconds(age_s))
    return Holder(first.disk.copied(), incarnation="2", **options)


def test_what_a_member_restored_is_older_by_the_time_its_site_ran_on_without_it():
    again = away(100)
    again.join(again.relay.clock.shown_ns + seconds(60))
    assert age_ns(again, BOB) == seconds(160)
    again.wait(seconds(40))
    third = holder(again.disk.copied(), incarnation="3")
    assert age_ns(third, BOB) == seconds(200)


def test_what_is_too_old_because_the_site_ran_on_is_not_sent_by_the_member_that_comes_back_and_the_log_says_so():
    again = away(100).found_group()
    again.wait(seconds(1))
    again.receive(address("carol"), 1, b"young")
    again.join(again.relay.clock.shown_ns + seconds(30 * 60))
    assert list(again.held().values()) == [b"young"], "what it took in itself is as young as before"
    assert "2 messages held on disk are not sent" in again.warnings
    assert "bob 1..2" in again.warnings
    assert BOB not in again.relay.numbering.current_numbers(), "as relay it must not miss them, and declare them lost"
    assert again.relay.stats()["journal_messages_expired"] == 2


def test_a_clock_that_lags_is_set_forward_once():
    again = away(100).found_group()
    again.wait(seconds(1))
    again.receive(address("carol"), 1, b"young")
    site_clock_ns = again.relay.clock.shown_ns + seconds(60)
    again.join(site_clock_ns)
    again.join(site_clock_ns)
    assert age_ns(again, BOB) == seconds(161)
    again.join(again.relay.clock.shown_ns - seconds(500))
    assert age_ns(again, BOB) == seconds(161), "another member's clock that is behind was followed"


# --- damage ---------------------------------------------------------------------------------------------------------

def test_of_a_damaged_journal_the_records_with_right_checksums_are_restored_and_the_damage_is_logged():
    first = holder()
    for text in (b"one", b"two", b"three"):
        first.multicast(text)
    disk = first.disk.copied()
    (name,) = disk.files
    del disk.files[name][-2:]
    at = disk.files[name].index(b"two")
    disk.files[name][at] ^= 1
    again = holder(disk, incarnation="2")
    assert again.held() == {(first.me, 1): b"one"}
    assert "were incomplete and 1 records damaged" in again.warnings
    stats = again.relay.stats()
    assert [stats[f"journal_{name}"] for name in ("damaged_files", "records_skipped")] == [1, 1]
    assert stats["journal_cut_bytes"] > 0


def test_a_journal_cut_at_any_byte_gives_a_prefix():
    first = holder()
    for text in (b"one", b"two", b"three"):
        first.multicast(text)
    (name,) = first.disk.files
    whole = [(first.me, number) for number in (1, 2, 3)]
    for cut in range(len(first.disk.files[name])):
        disk = first.disk.copied()
        del disk.files[name][cut:]
        found = list(holder(disk, incarnation="2").held())
        assert found == whole[:len(found)]


# --- holes -----------------------------------------------------------------------------------------------------------

def with_a_hole(*others: str) -> Holder:
    """A member that starts again and lacks what came before its held run; it was in a group with `others`."""
    first = Holder(Disk()).found_group(*others)
    first.receive(BOB, 5, b"five")
    again = holder(first.disk.copied(), incarnation="2", hold_age_ns="10m", lost_after_ns="30s")
    again.relay.table.combine((site_row("SFO", {BOB: 3}),), {}, {})
    return again


def test_a_hole_is_given_up_soon_if_all_holders_are_back():
    again = with_a_hole()
    again.wait(seconds(28))
    assert again.relay.table.sites["SFO"].acked[BOB] == 3
    again.wait(seconds(5))
    assert tuple(again.relay.table.sites["SFO"].lost[BOB]) == ((3, 5),)


def test_a_holder_that_is_absent_stays_in_the_journal_through_another_crash():
    again = with_a_hole("B", "C")
    assert sorted(again.relay.journal.absent) == ["B", "C"]
    third = Holder(again.disk.copied(), incarnation="3").found_group("C")
    assert list(third.relay.journal.absent) == ["B"]


def test_a_hole_waits_for_holders_that_start_late_as_long_as_the_rest_can_be_sent_in_time():
    again = with_a_hole("B")
    again.wait(seconds(9 * 60))
    assert again.relay.table.sites["SFO"].acked[BOB] == 3
    again.wait(seconds(35))
    assert again.relay.table.sites["SFO"].acked[BOB] == 5
    assert tuple(again.relay.table.sites["SFO"].lost[BOB]) == ((3, 5),)


def test_a_relay_with_an_empty_disk_takes_the_list_of_holders_from_its_members():
    journal = Holder(Disk()).found_group("B").relay.journal
    journal.add_holders(())
    assert not journal.has_holders, "holders were added though no journal names any"
    journal.add_holders(("A", "B", "C"))
    assert (journal.has_holders, list(journal.absent)) == (True, ["C"])


def test_the_owner_of_a_segment_is_its_first_record():
    member = holder()
    assert bytes(*member.disk.files.values()).startswith(bytes(owner_record("demo", "NYC")))
