"""The hold's clock: it shows for how long a site has run, and dates the records on disk.

The age of a held message is the time in which it could have been sent. So time in which no member ran does not count,
and the wall clock, which jumps, is not used (relay rule 2). While a member runs, this clock advances with the member's
own. What it shows is written to the journal each second, and a member that starts goes on from there. SYNC and HAVE
carry it: a member that was away while its site ran on sets it forward, and what it restored from disk is that much
older (relay rule 17, design/journal.md).
"""
from __future__ import annotations

from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import ClockPort, RestorePort
from jgroups_py.stack.component import needs

BEGIN_NS = 1 << 60               # the first date of a new site, so that earlier ones (of copies) are not negative
END_NS = 1 << 61                 # no site runs for 36 years; the wire has room for dates after it
TICK_NS = seconds(1)           # written this often while anything is held; a crash loses no more time than that


class HoldClock(RelayPart, ClockPort):
    """See the module. A member without a journal has one too, since others may follow it."""

    hold: Hold = needs(Hold)
    restore: RestorePort = needs(RestorePort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.offset_ns = BEGIN_NS - self.now_ns         # this clock minus the member's own

    @property
    def shown_ns(self) -> int:
        return self.now_ns + self.offset_ns

    def resume(self, shown_ns: int) -> None:
        self.offset_ns = max(shown_ns, BEGIN_NS) - self.now_ns

    def follow(self, other_ns: int) -> None:
        """SYNC or HAVE shows a later time: the site ran on while this member was away, so what it restored is older.

        What it has held since its start is not. If there is any, the clock stays as it is, since records of this start
        are dated by it; then the restored batches are made older just once.
        """
        behind_ns = other_ns - self.shown_ns
        if behind_ns < TICK_NS:
            return None
        if other_ns > END_NS:
            return self.drop("clocks_refused", None, f"no site has run for {other_ns} ns")
        self.restore.older(behind_ns)
        if not self.hold.has_since(self.restore.over_ns):
            self.offset_ns += behind_ns
        else:
            self.restore.aged()                          # once: the clock will be behind the next time too
        return None
