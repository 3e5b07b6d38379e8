"""Safeguards of RELAY's journal."""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.journal.journal import HoldJournal
from jgroups_py.protocols.relay.journal.restore import HoldRestore
from jgroups_py.protocols.relay.sites.table import SiteTable
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

finish, added, trimmed = HoldRestore.finish, HoldJournal.added, HoldJournal.trimmed


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
)
