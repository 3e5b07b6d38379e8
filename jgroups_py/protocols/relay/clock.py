"""The hold's clock: it shows for how long a site has run, and dates on disk are its own.

How long a message has been held is how long it could have been sent. So time in which no member ran does not count, and
the wall clock, which jumps, is never asked. While a member runs the clock goes with the member's own; what it shows is
written to the journal now and then, and a member that starts goes on from there. SYNC and HAVE carry it: a member that
was away while its site ran on sets it forward, and what it brought from disk is that much older (design/journal.md).
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.units import seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

BEGIN_NS = 1 << 60               # what a site's first clock shows: dates before it (of copies) are no negative numbers
END_NS = 1 << 61                 # no site runs for 36 years; there is room on the wire for what passes since
STROKE_NS = seconds(1)           # written this often while anything is held; a crash sets the clock back by no more


class HoldClock:
    """One member's, with or without a journal."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.offset_ns = BEGIN_NS - relay.now_ns         # from our own clock to this one

    @property
    def now_ns(self) -> int:
        """What it shows."""
        return self.relay.now_ns + self.offset_ns

    def resume(self, shown_ns: int) -> None:
        """At the start: go on from what it showed last."""
        self.offset_ns = max(shown_ns, BEGIN_NS) - self.relay.now_ns

    def heard(self, theirs_ns: int) -> None:
        """Another member's, in SYNC or HAVE: the site ran on while we were away, so what we restored is older.

        What we took in ourselves since then is not. Where there is such, the clock stays as it is: what stands on our
        disk already is dated by it.
        """
        relay, restore = self.relay, self.relay.journal.restore
        behind_ns = theirs_ns - self.now_ns
        if behind_ns < STROKE_NS:
            return
        if theirs_ns > END_NS:
            relay.count("clocks_refused")
            return
        restore.older(behind_ns)
        if not relay.hold.has_since(restore.over_ns):
            self.offset_ns += behind_ns
        else:
            restore.origins.clear()                      # aged once
