"""Safeguards of RELAY's journal."""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.journal import records, seals
from jgroups_py.protocols.relay.journal.journal import HoldJournal
from jgroups_py.protocols.relay.journal.records import SEALED
from jgroups_py.protocols.relay.journal.restore import HoldRestore
from jgroups_py.protocols.relay.journal.seals import HoldSeals
from jgroups_py.protocols.relay.origin.divergence import Divergence
from jgroups_py.protocols.relay.sites.table import SiteTable
from jgroups_py.sealing.keyring import new_keyring
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

finish, added, trimmed = HoldRestore.finish, HoldJournal.added, HoldJournal.trimmed
read_whole, preamble, begin, opener = records._read_whole, seals.preamble, HoldSeals.begin, HoldSeals.opener


def without_the_table(self: HoldRestore) -> None:
    self.state = None
    finish(self)


def later(self: HoldJournal, origin: Any, first: int, batch: Any, since_ns: int) -> None:
    """Only with the next TRIM, as a writer that collects would."""
    self.__dict__.setdefault("late", []).append((origin, first, batch, since_ns))


def write_late(self: HoldJournal) -> None:
    for late in self.__dict__.pop("late", ()):
        added(self, *late)
    trimmed(self)


def clear_records_too(data: bytes, found: Any, addresses: Any, damage: Any, cipher: Any) -> Any:
    """A record in clear in a sealed segment is read as one of a clear segment."""
    return read_whole(data, found, addresses, damage, cipher if found.kind == SEALED else None)


def same_key_for_all(key: Any, salt: bytes) -> bytes:
    """All files of one key have one sub-key."""
    return preamble(key, bytes(len(salt)))


def sealed_in_name(self: HoldSeals, segment: Any) -> bytes:
    """The file says that it is sealed, and its records are not."""
    head = begin(self, segment)
    segment.end()
    return head


def active_key_only(self: HoldSeals, segment: Any, data: bytes) -> Any:
    """Of several keys only the one that seals opens."""
    assert self.keyring is not None
    whole, self.keyring = self.keyring, new_keyring(self.keyring.active.secret)
    try:
        return opener(self, segment, data)
    finally:
        self.keyring = whole


JOURNAL_SAFEGUARDS = (
    Safeguard("the journal is read back", "hold_dir", "a member that starts again holds nothing",
              (Patch(HoldRestore, "take_batch", nothing),), "site-crash", "R11"),
    Safeguard("the site table is kept with the hold", "hold_dir",
              "batches come back without the sites that they are for",
              (Patch(HoldRestore, "finish", without_the_table),), "site-crash", "R11"),
    Safeguard("a batch is written before it is delivered", "hold_dir", "batches are written when something is trimmed",
              (Patch(HoldJournal, "added", later), Patch(HoldJournal, "trimmed", write_late)), "site-crash", "R11"),
    Safeguard("a site that is known only from disk", "hold_dir", "messages that others dropped before count as owed",
              (Patch(SiteTable, "never_owed_outside", nothing),), "interleavings", "R9"),
    Safeguard("who starts again joins", "hold_dir", "what its group sent while it was down counts as missed",
              (Patch(Divergence, "restored", nothing),), "site-crash", "S9"),
    Safeguard("a sealed segment has no record in clear", "hold_keyring", "records in clear are read from it",
              (Patch(records, "_read_whole", clear_records_too),), "sealed-disks", "S1"),
    Safeguard("each file has a key of its own", "hold_keyring", "sub-keys follow from the key alone",
              (Patch(seals, "preamble", same_key_for_all),), "sealed-disks", "K13"),
    Safeguard("records are sealed", "hold_keyring", "only the beginning of a file says that they are",
              (Patch(HoldSeals, "begin", sealed_in_name),), "sealed-disks", "K1"),
    Safeguard("keys before the active one open", "hold_keyring", "after a change of keys a member reads nothing",
              (Patch(HoldSeals, "opener", active_key_only),), "sealed-disks", "R10"),
)
