"""Safeguards of RELAY's journal."""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.journal import Journal
from jgroups_py.protocols.relay.restore import Restore
from jgroups_py.protocols.relay.sites import SiteTable
from tests.sim.planted_bugs.group import nothing
from tests.sim.planted_bugs.safeguard import Patch, Safeguard

finish, added, trimmed = Restore.finish, Journal.added, Journal.trimmed


def without_the_table(self: Restore) -> None:
    self.state = None
    finish(self)


def later(self: Journal, origin: Any, first: int, batch: Any, since_ns: int) -> None:
    """Only with the next TRIM, as a writer that collects would."""
    self.__dict__.setdefault("late", []).append((origin, first, batch, since_ns))


def write_late(self: Journal) -> None:
    for run in self.__dict__.pop("late", ()):
        added(self, *run)
    trimmed(self)


JOURNAL_SAFEGUARDS = (
    Safeguard("the journal is read back", "hold_dir", "a member that starts again holds nothing",
              (Patch(Restore, "take_run", nothing),), "site-crash", "R11"),
    Safeguard("the site table is kept with the hold", "hold_dir", "runs come back, for whom they are does not",
              (Patch(Restore, "finish", without_the_table),), "site-crash", "R11"),
    Safeguard("a run is written before it is delivered", "hold_dir", "runs are written when something is trimmed",
              (Patch(Journal, "added", later), Patch(Journal, "trimmed", write_late)), "site-crash", "R11"),
    Safeguard("who knows a site only from disk", "hold_dir", "what others dropped before counts as owed",
              (Patch(SiteTable, "not_known_by", nothing),), "site-crash", "R9"),
)
