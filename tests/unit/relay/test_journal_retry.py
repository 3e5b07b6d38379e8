"""The journal on a disk that fails: when it tries again; and what a restart knows of numbers."""
from __future__ import annotations

from jgroups_py.model.events import JournalFailed
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.journal.journal import RETRY_NS
from tests.unit.relay.journal_disk import Holder, address, holder

BOB = address("bob")


def test_late_failures_of_earlier_writes_do_not_delay_the_next_attempt():
    member = holder()
    member.disk.broken = "no space left on device"
    member.multicast(b"one")
    member.disk.broken = ""
    member.wait(RETRY_NS * 2 // 3)
    member.notify(JournalFailed("input/output error"))         # of something begun before the first failure
    member.wait(RETRY_NS // 3 + seconds(1))
    assert member.durability == ["no space left on device", ""]
    assert member.relay.stats()["journal_failures"] == 1
    assert holder(member.disk.copied(), incarnation="2").held() == member.held()


def test_after_a_restart_the_numbers_go_on_behind_what_is_held():
    first = holder()
    first.multicast(b"one", b"two")
    first.receive(BOB, 5, b"five", b"six")
    again = Holder(first.disk.copied(), incarnation="2")
    assert again.relay.numbering.numbers == {first.me: 3, BOB: 7}
