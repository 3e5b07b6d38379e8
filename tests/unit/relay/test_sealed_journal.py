"""The journal with `hold_keyring`: what is on disk tells nothing, what was changed is not believed, and damage costs
what it costs without."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import KeyringRead
from jgroups_py.model.outputs import LogEntry, ReadKeyring
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.journal.records import HEAD_BYTES, JournalDamage, Written, heads, read_records
from jgroups_py.protocols.relay.journal.segments import segment_name
from jgroups_py.sealing.keyring import GroupKeyring, new_keyring
from jgroups_py.sealing.primitives import Cipher
from tests.unit.relay.journal_disk import Disk, Holder, address, holder

BOB = address("bob")
KEYS = new_keyring(b"1" * 32)
OTHER = new_keyring(b"2" * 32)
PATH = "hold.keys"
NAME = segment_name(1)
TEXTS = (b"first secret", b"second secret", b"third secret")


def sealed(disk: Disk | None = None, keys: GroupKeyring = KEYS, incarnation: str = "1", **options: object) -> Holder:
    return holder(disk, keyrings={PATH: keys}, hold_keyring=PATH, incarnation=incarnation, **options)


def started(disk: Disk, keys: GroupKeyring = KEYS, **options: object) -> Holder:
    """A member that starts, and finds no group: it may refuse to."""
    return Holder(disk, keyrings={PATH: keys}, incarnation="2", **{"hold_keyring": PATH, **options})


def written() -> Holder:
    """A member that holds TEXTS."""
    first = sealed()
    for text in TEXTS:
        first.multicast(text)
    return first


def test_what_is_held_comes_back_and_the_disk_shows_neither_payloads_nor_names():
    first = written()
    first.receive(BOB, 5, b"of bob")
    data = bytes(first.disk.files[NAME])
    assert not any(word in data for word in (*TEXTS, b"bob", b"NYC", b"SFO", b"demo", b"JGHOLD", KEYS.active.secret))
    again = sealed(first.disk.copied(), incarnation="2")
    assert again.held() == {**{(first.me, 1 + at): text for at, text in enumerate(TEXTS)}, (BOB, 5): b"of bob"}
    assert not again.warnings
    assert list(again.disk.files) == [NAME, segment_name(2)], "a file is never continued by another process"


def test_a_sealed_journal_cut_at_any_byte_gives_the_prefix_that_a_clear_one_gives():
    first = written()
    data = first.disk.files[NAME]
    ends = [found.stop for found in heads(bytes(data))]
    batches = ends[-3:]
    for cut in range(len(data)):
        disk = first.disk.copied()
        del disk.files[NAME][cut:]
        again = sealed(disk, incarnation="2")
        assert len(again.held()) == sum(end <= cut for end in batches), f"cut at {cut}"
        last = max((end for end in ends if end <= cut), default=0)
        assert again.relay.stats().get("journal_cut_bytes", 0) == cut - last, f"cut at {cut}"
        assert (f"{NAME} at {last}" in again.warnings) == (cut > last), f"cut at {cut}"
        assert not again.relay.stats().get("journal_records_not_opened")


@pytest.mark.long
@pytest.mark.slow
def test_no_flipped_bit_gives_anything_that_was_not_written():
    first = written()
    whole = first.held()
    for bit in range(8 * len(first.disk.files[NAME])):
        disk = first.disk.copied()
        disk.files[NAME][bit // 8] ^= 1 << bit % 8
        again = started(disk)
        found = again.held()
        assert found.items() <= whole.items(), f"bit {bit}"
        assert again.failure or again.relay.stats()["journal_damaged_files"] == 1, f"bit {bit}"


def changed(disk: Disk, at: int, body: bytes) -> Disk:
    """With the record at `at` replaced by one with right checksums."""
    data = bytes(disk.files[NAME])
    found = next(found for found in heads(data) if found.at == at)
    disk.files[NAME] = bytearray(data[:at] + bytes(Written(found.kind, body)) + data[found.stop:])
    return disk


def test_a_record_that_somebody_changed_and_gave_right_checksums_is_left_out_and_the_log_says_where():
    first = written()
    data = bytes(first.disk.files[NAME])
    one, two = list(heads(data))[-3:-1]
    for body in (data[two.body_at:two.stop - 1] + b"x", data[one.body_at:one.stop], b"", bytes(30)):
        again = sealed(changed(first.disk.copied(), two.at, body), incarnation="2")
        left = {number for _, number in again.held()}
        assert 1 in left
        assert 2 not in left, "a record was believed at another place than its own"
        assert again.relay.stats()["journal_records_not_opened"] >= 1
        assert f"{NAME} at {two.at}" in again.warnings
        assert "changed without the key" in again.warnings


def test_a_record_in_clear_is_not_believed_in_a_sealed_segment():
    first, plain = written(), holder()
    plain.receive(BOB, 1, b"planted")
    data = bytes(plain.disk.files[NAME])
    planted = list(heads(data))[-1]
    disk = first.disk.copied()
    disk.files[NAME] += data[planted.at:planted.stop]
    again = sealed(disk, incarnation="2")
    assert b"planted" not in again.held().values()
    assert again.relay.stats()["journal_records_not_opened"] == 1


def test_nothing_is_believed_of_a_segment_whose_key_cannot_be_read():
    plain = holder()
    plain.receive(BOB, 1, b"planted")
    broken = bytearray(bytes(Written(5, b"JGSEAL")))
    broken[HEAD_BYTES] ^= 1
    disk = Disk()
    disk.files[NAME] = broken + plain.disk.files[NAME]
    nbytes = len(disk.files[NAME])
    again = sealed(disk, incarnation="2")
    assert not again.held()
    assert again.relay.stats()["journal_cut_bytes"] == nbytes


def test_segments_do_not_open_under_another_name():
    first = written()
    disk = first.disk.copied()
    disk.files[segment_name(9)] = disk.files.pop(NAME)
    again = sealed(disk, incarnation="2")
    assert not again.held()
    records = list(heads(bytes(first.disk.files[NAME])))
    assert again.relay.stats()["journal_records_not_opened"] == len(records) - 1


def test_a_segment_in_clear_is_refused_with_a_keyring_and_a_sealed_one_without():
    clear, shut = holder(), written()
    clear.multicast(b"one")
    with_keys = started(clear.disk.copied())
    assert f"/hold/A/{NAME}: not encrypted, so it is not believed" in with_keys.failure
    without = started(shut.disk.copied(), hold_keyring="")
    assert f"/hold/A/{NAME}: encrypted; set hold_keyring" in without.failure
    assert not with_keys.ground.connected
    assert not without.ground.connected


def test_a_wrong_key_is_told_with_the_file_and_the_ids_and_changes_nothing():
    first = written()
    disk = first.disk.copied()
    before = disk.copied().files
    again = started(disk, OTHER)
    assert f"/hold/A/{NAME}: encrypted with key {KEYS.active.name}, which is not in the keyring {PATH}" in again.failure
    assert f"it has {OTHER.active.name}" in again.failure
    assert not again.ground.connected
    assert disk.files == before


def test_a_retired_key_opens_nothing():
    both = KEYS.with_key(b"3" * 32)
    retired = both.activated(both.keys[-1].name).without(KEYS.active.name)
    assert "is retired there" in started(written().disk.copied(), retired).failure


def test_after_a_change_of_the_active_key_the_next_record_begins_a_segment_under_it():
    first = written()
    assert [each.path for each in first.outputs_of(ReadKeyring)] == []
    first.wait(seconds(11))
    assert [each.path for each in first.outputs_of(ReadKeyring)] == [PATH, PATH]
    both = KEYS.with_key(b"3" * 32)
    first.notify(KeyringRead(PATH, both))
    first.multicast(b"still the first key")
    assert list(first.disk.files) == [NAME]
    first.notify(KeyringRead(PATH, both.activated(both.keys[-1].name)))
    first.multicast(b"the second key")
    assert list(first.disk.files) == [NAME, segment_name(2)]
    assert first.relay.stats()["journal_former_keys"] == 1
    again = sealed(first.disk.copied(), first.relay.restore.seals.keyring, incarnation="2")
    assert list(again.held().values())[-2:] == [b"still the first key", b"the second key"]
    assert again.relay.stats()["journal_former_keys"] == 1
    again.trim({first.me: 6})
    assert again.relay.stats()["journal_former_keys"] == 0, "nothing under the first key is held any more"


def test_a_keyring_that_cannot_be_read_is_reported_and_the_former_keys_stay():
    first = written()
    first.notify(KeyringRead(PATH, None, "no such file"))
    first.notify(KeyringRead("other.keys", OTHER))
    first.multicast(b"four")
    assert len(sealed(first.disk.copied(), incarnation="2").held()) == 4
    assert first.relay.stats()["hold_keyrings_refused_dropped"] == 1
    assert [note.level for note in first.outputs_of(LogEntry)][-1] == "error"


def test_no_nonce_comes_twice_with_one_key(monkeypatch):
    """Over restarts, crashes in a record, copies of a folder that go on both, a fork, and a disk that was full."""
    used: dict[tuple[bytes, bytes], None] = {}
    init = Cipher.__init__

    def noting_init(self: Cipher, key: bytes) -> None:
        init(self, key)
        seal = self.seal

        def noting_seal(nonce: bytes, text: bytes, clear: bytes) -> bytes:
            assert (key, nonce) not in used
            used[key, nonce] = None
            return seal(nonce, text, clear)

        self.seal = noting_seal

    monkeypatch.setattr(Cipher, "__init__", noting_init)
    first = written()
    torn = first.disk.copied()
    del torn.files[NAME][-3:]
    for number, disk in enumerate((first.disk, torn, first.disk.copied()), 2):
        for life in ("a", "b"):
            member = sealed(disk, incarnation=f"{number}{life}")
            member.multicast(b"more")
    assert len(list(first.disk.files)) == 3
    before = list(member.disk.files)
    member.secrets.forks += 1
    member.multicast(b"in the child")
    assert len(member.disk.files) == len(before) + 1, "the child of a fork writes where its parent does"
    member.disk.broken = "no space left on device"
    member.multicast(b"lost by the disk")
    member.disk.broken = ""
    member.wait(seconds(12))
    member.multicast(b"after")
    assert b"lost by the disk" in sealed(member.disk.copied(), incarnation="9").held().values()
    assert len(used) > 40


def test_a_keyring_needs_a_folder_and_a_source_of_keys():
    with pytest.raises(ConfigError, match="hold_dir, which is empty"):
        sealed(hold_dir="")
    with pytest.raises(KeyError):
        holder(hold_keyring="missing.keys")


def test_without_a_cipher_sealed_records_are_of_an_unknown_kind():
    damage, data = JournalDamage(), bytes(written().disk.files[NAME])
    assert not list(read_records(data, wire.Interner(), damage))
    assert damage.places == [found.at for found in heads(data)]
