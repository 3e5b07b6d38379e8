"""Keeps the application's multicasts back, before they are numbered.

There are two reasons, which may hold at once. With `on_full=block`, the hold is full: senders wait for other sites,
against R5, for applications to which a lost message is worse than a late one (relay rule 14). And while a state of
another site is on its way, nothing may be multicast that the state neither contains nor is followed by (relay rule 16).

What waits counts as pending bytes, so the channel's send queue fills up behind it and `send` blocks, as with flow
control.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import GatePort, NumberingPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on

FULL = "full hold"


class SendGate(RelayPart, GatePort):
    """See the module. Multicasts wait in order; those that stay in this site (NO_RELAY) too."""

    group: LocalGroup = needs(LocalGroup)
    numbering: NumberingPort = needs(NumberingPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.closed = False
        self.reasons: dict[str, None] = {}
        self.waiting: deque[Batch] = deque()
        self.nbytes = 0
        self.unnumbered = 0                       # messages that wait and will be numbered: NO_RELAY ones are not

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new relay reports by TRIM whether its hold is full; what the old one reported is void."""
        if self.group.relay_changed:
            self.shut(False, FULL)

    def multicast(self, batch: Batch) -> None:
        """A reliable multicast of the application: numbered now, or kept back in order."""
        if not self.closed:
            return self.numbering.multicast(batch)
        # NO_RELAY multicasts wait too: they keep their place among the others of this sender.
        self.waiting.append(batch)
        self.nbytes += batch.nbytes
        self.unnumbered += 0 if batch.flags & NO_RELAY else batch.count
        return None

    def shut(self, closed: bool, why: str) -> None:
        """Close the gate for a reason, or take that reason away: the last one opens it."""
        if closed:
            self.reasons[why] = None
        else:
            self.reasons.pop(why, None)
        self.closed = bool(self.reasons)
        while self.waiting and not self.closed:
            batch = self.waiting.popleft()
            self.nbytes -= batch.nbytes
            self.unnumbered -= 0 if batch.flags & NO_RELAY else batch.count
            self.numbering.multicast(batch)
