"""What a host wants done, and who may watch it."""
from __future__ import annotations

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.log import Entry
from jgroups_py.blocks.replicas.messages import Reply
from jgroups_py.blocks.replicas.state import ReplicaState, Ticket


@attrs.frozen(eq=False)
class Send:
    """To a member of the view, or to all (None), ourselves included."""

    dest: Address | None
    data: bytes


@attrs.frozen(eq=False)
class Answer:
    """To whoever holds the ticket."""

    ticket: Ticket
    reply: Reply


@attrs.frozen(eq=False)
class Health:
    """A partition that we lead has fewer living replicas than it should, or all of them again."""

    partition: int
    live: int
    wanted: int


Output = Send | Answer | Health


class Watcher:
    """Hears what happens at a host; for checkers."""

    def applied(self, replica: ReplicaState, number: int, entry: Entry) -> None:
        """An entry was committed and carried out."""

    def loaded(self, replica: ReplicaState, stop: int) -> None:
        """A state up to an entry took the place of the content."""

    def answered(self, replica: ReplicaState, ticket: Ticket) -> None:
        """A request was answered with OK."""

    def led(self, replica: ReplicaState) -> None:
        """It leads, and has an entry of its epoch committed."""
