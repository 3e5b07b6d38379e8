"""What this member holds for other sites (relay rule 2), in memory and, with `hold_dir`, on disk."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.announcements import OriginForgotten
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import JournalPort
from jgroups_py.stack.component import needs


class Retention(RelayPart, Hold):
    """The member's hold. Batches leave it on TRIM only (`drop_below`), never because a view changed.

    A member that is no holder any more keeps what it has: the new holders may crash before they have their copies.
    """

    journal: JournalPort = needs(JournalPort)

    def __init__(self, layer: RelayPort) -> None:
        RelayPart.__init__(self, layer)
        Hold.__init__(self)

    def keep(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        """Hold messages of this site until all other sites have them; with a journal, on disk too."""
        self.add(origin, first, batch, since_ns)
        self.journal.added(origin, first, batch, since_ns)

    @on_announcement(OriginForgotten)
    def forget_origin(self, event: OriginForgotten) -> None:
        self.forget(event.origin)
