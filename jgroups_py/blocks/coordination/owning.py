"""SessionOwning: the part of a member's session that has the sets of partitions it takes part in. Pure.

What the session owns, and what is asked back, comes as outcomes of no command: as notices, and with renewals until the
store has heard that they are known; so each is taken once, by its place. News that a partition is asked back may come
before the news that it is owned; it is taken when it comes again.

A member that is to give a partition back keeps it until the application has let go of it; `give_back` ends that. When
the session is lost, all is lost with it, and the member takes part again in its next session.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from jgroups_py.blocks.coordination.errors import MismatchError
from jgroups_py.blocks.coordination.grants import HeldGrant, Lease
from jgroups_py.blocks.coordination.messages import (
    CoordinationMessage,
    JoinOwners,
    LeaveOwners,
    PartitionGranted,
    PartitionRevoked,
    SessionCommand,
)

Done = Callable[[CoordinationMessage | HeldGrant | None, Exception | None], object]


@attrs.define(eq=False)
class OwnedSet:
    """A set that this member takes part in. gained, revoked: called inside a round with a partition and its grant; what
    is lost is told by the grant. ended: called once, when it takes part no more: with the error, if it was refused."""

    name: str
    partitions: int
    weight: int
    label: str
    gained: Callable[[int, HeldGrant], object]
    revoked: Callable[[int, HeldGrant], object]
    ended: Callable[[Exception | None], object]
    joining: bool = False
    leaving: bool = False


class OwningSessionPort(Protocol):
    """What is needed of the session."""

    lease: Lease
    session: int | None
    grants: dict[int, HeldGrant]

    def command(self, make: Callable[[tuple[int, int, int, int]], SessionCommand], done: Done, now_ns: int) -> None:
        """Send a command of the session until it is answered."""

    def release(self, grant: HeldGrant, back: bool, done: Done, now_ns: int) -> None:
        """Give a grant back."""

    def unwanted(self, grant: HeldGrant, now_ns: int) -> None:
        """Give back a grant that nobody waits for."""


class SessionOwning:
    """See the module. sets: name -> set, also those that are being left."""

    def __init__(self, port: OwningSessionPort) -> None:
        self.sets: dict[str, OwnedSet] = {}
        self._port = port
        self._owned: dict[int, tuple[OwnedSet, int]] = {}  # fence -> set, partition
        self._known: dict[int, None] = {}                  # places of news that came since `heard`

    def join(self, owned: OwnedSet, now_ns: int) -> None:
        """Take part, as soon as there is a session."""
        self.sets[owned.name] = owned
        if self._port.session is not None:
            self._join(owned, now_ns)

    def leave(self, owned: OwnedSet, now_ns: int) -> None:
        """Take part no more. The store asks back what is owned, as ever; what comes from now on is given back."""
        if self.sets.get(owned.name) is not owned or owned.leaving:
            return
        owned.leaving = True
        if self._port.session is None:
            self._left(owned, None)
        elif not owned.joining:                            # else once that is answered: it must not come after this
            self._leave(owned, now_ns)

    def give_back(self, grant: HeldGrant, done: Done, now_ns: int) -> None:
        """The application has let go of a partition."""
        self._owned.pop(grant.fence, None)
        self._port.release(grant, True, done, now_ns)

    def opened(self, now_ns: int) -> None:
        """There is a session."""
        for owned in list(self.sets.values()):
            self._join(owned, now_ns)

    def dropped(self) -> None:
        """The session is over, and with it its part in all sets."""
        self._owned, self._known = {}, {}
        for owned in list(self.sets.values()):
            owned.joining = False
            if owned.leaving:
                self._left(owned, None)

    def news(self, place: int, heard: int, news: CoordinationMessage, now_ns: int) -> None:
        """An outcome of no command. heard: the member knows all outcomes up to this place."""
        if place <= heard or place in self._known:
            return
        if isinstance(news, PartitionGranted):
            self._known[place] = None
            self._granted(news, now_ns)
        elif isinstance(news, PartitionRevoked) and news.fence in self._owned:
            self._known[place] = None
            owned, partition = self._owned[news.fence]
            owned.revoked(partition, self._port.grants[news.fence])

    def heard(self, place: int) -> None:
        """All outcomes up to this place are known."""
        self._known = {one: None for one in self._known if one > place}

    def _granted(self, news: PartitionGranted, now_ns: int) -> None:
        port, owned = self._port, self.sets.get(news.name)
        grant = port.grants[news.fence] = HeldGrant(news.fence, port.lease)
        if owned is None or owned.leaving:
            port.unwanted(grant, now_ns)
        else:
            self._owned[news.fence] = owned, news.partition
            owned.gained(news.partition, grant)

    def _join(self, owned: OwnedSet, now_ns: int) -> None:
        """What ends with the session, and so has neither result nor error, ends in `dropped`."""
        owned.joining = True
        session = self._port.session

        def joined(result: object, error: Exception | None) -> None:
            if session != self._port.session or self.sets.get(owned.name) is not owned:
                return
            if isinstance(error, MismatchError):
                self._left(owned, error)
            elif result is not None:
                owned.joining = False
                if owned.leaving:
                    self._leave(owned, now_ns)
        self._port.command(lambda head: JoinOwners(*head, owned.name, owned.partitions, owned.weight, owned.label),
                           joined, now_ns)

    def _leave(self, owned: OwnedSet, now_ns: int) -> None:
        session = self._port.session

        def left(result: object, error: Exception | None) -> None:
            if session == self._port.session and result is not None:
                self._left(owned, None)
        self._port.command(lambda head: LeaveOwners(*head, owned.name), left, now_ns)

    def _left(self, owned: OwnedSet, error: Exception | None) -> None:
        if self.sets.get(owned.name) is owned:
            del self.sets[owned.name]
            owned.ended(error)
