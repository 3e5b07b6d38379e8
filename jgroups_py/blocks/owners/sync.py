"""Owners: partitions of a set for the members of a JChannel's group.

    owners = Owners(co, "orders", partitions=64, gained=begin, lost=finish)      # co: a Coordination

    def begin(partition, grant): ...       # this member owns it: from now on work, with grant.fence
    def finish(partition, grant): ...      # it has to go, or is lost: nobody else has it before this returns, if
                                           # grant.valid
"""
from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Literal

import attrs

from jgroups_py.blocks.coordination.errors import UnavailableError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.messages import OwnersTable
from jgroups_py.blocks.coordination.sync import Coordination
from jgroups_py.blocks.owners.base import BaseOwners, OwnerGrant, Ownership, OwnershipTable
from jgroups_py.channel.base import ChannelState
from jgroups_py.model.errors import ChannelError

log = logging.getLogger("jgroups_py")

LOOK_SECONDS = 1.0                         # how often the thread looks whether the channel was closed
PartitionCallback = Callable[[int, OwnerGrant], object]


@attrs.frozen
class OwnerEvent:
    """What the thread of the callbacks is to do. "back": let go, and give it back; "lost": it is not held any more."""

    kind: Literal["gained", "back", "lost"]
    partition: int
    grant: OwnerGrant


class Owners(BaseOwners):
    """A set of partitions, each of which belongs to one member that takes part in it; see the module.

    co: where it is decided; the same founders and service at all members. name, partitions: of the set, the same at
    all. weight: the share of this member is in proportion to it. label: what the placement draws for, the name of the
    channel by default: a member that comes back under its label gets, as far as the others allow, what it had.

    gained(partition, grant): this member owns a partition. lost(partition, grant): it has to give it back, or
    (grant.valid is False) has lost it; called once for each `gained`, before the next one of that partition. As long as
    grant.valid, no other member owns it before `lost` has returned. Both are called on one thread of this object, one
    at a time, and may block; one that raises is logged, and counts as returned.

    What is promised leans on clocks as locks do: a member that was stopped for longer than the `ttl` of `co`, or cut
    off, has lost its partitions, and may go on for a moment; the fence of a grant keeps its writes out, where it is
    checked (Fence).
    """

    _co: Coordination

    def __init__(
        self, co: Coordination, name: str, partitions: int = 64, *, gained: PartitionCallback | None = None,
        lost: PartitionCallback | None = None, weight: int = 1, label: str | None = None,
    ) -> None:
        super().__init__(co, name, partitions, weight, label)
        self._gained = gained
        self._lost = lost
        self._events: SimpleQueue[OwnerEvent | None] = SimpleQueue()
        self._over = threading.Event()                       # the store has heard that this member takes part no more
        self._refused: Exception | None = None
        co._driver.join(self._set)
        self._thread = threading.Thread(target=self._run, name=f"owners of {name}", daemon=True)
        self._thread.start()

    # --- from any thread ----------------------------------------------------------------------------------------------

    def owner_of(self, key: str | bytes) -> Ownership | None:
        """The owner of the partition of a key now (linearizable); None: it has none at this moment.

        Raises:
            UnavailableError: no answer in time. NotConnectedError, ChannelClosedError, ChannelError: of the channel.
        """
        return self.table().owners.get(self.partition_of(key))

    def table(self) -> OwnershipTable:
        """The owners of all partitions now (linearizable). Raises: as `owner_of`."""
        found = self._co._ask(self.name, self._query())
        assert isinstance(found, OwnersTable), "the answer to that"
        return self._table(found)

    @property
    def has_left(self) -> bool:
        """Whether this member takes part no more: after `close`, or because it was refused."""
        return self._over.is_set()

    def check(self) -> None:
        """Whether this member takes part.

        Raises:
            MismatchError: others use the set with other arguments.
        """
        if self._refused is not None:
            raise self._refused

    def close(self, timeout: float = 10.0) -> None:
        """Give all partitions back, and take part no more; returns when others may have them.

        Raises:
            UnavailableError: not in time; they are given back as soon as that is possible.
            ChannelError: this is a callback of the channel, or of this object.
        """
        if threading.current_thread() is self._thread:
            raise ChannelError("a callback of Owners is to return before its partition can go: close it elsewhere")
        self._co._check_outside()
        self._co._driver.leave(self._set)
        self._co._channel.work_until(self._over.is_set, timeout)
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise UnavailableError(f"the partitions of {self.name!r} were not given back in time")

    # --- inside rounds ------------------------------------------------------------------------------------------------

    def _gained_in_round(self, partition: int, held: HeldGrant) -> None:
        grant = self._owned(partition, held)
        self._events.put(OwnerEvent("gained", partition, grant))
        grant.when_lost(lambda _: self._events.put(OwnerEvent("lost", partition, grant)))

    def _revoked_in_round(self, partition: int, held: HeldGrant) -> None:
        self._events.put(OwnerEvent("back", partition, self._grants[held.fence]))

    def _ended_in_round(self, error: Exception | None) -> None:
        self._refused = error
        if error is not None:
            log.error("this member owns nothing of %r: %s", self.name, error)
        self._over.set()
        self._events.put(None)

    # --- the thread of the callbacks ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not (self._over.is_set() and not self._grants):
            try:
                event = self._events.get(timeout=LOOK_SECONDS)
            except Empty:
                if self._co._channel.state is ChannelState.CLOSED:
                    return
                continue
            if event is None:
                continue
            if event.kind == "gained":
                self._begin(event.partition, event.grant)
                continue
            self._finish(event.partition, event.grant)
            if event.kind == "back":
                self._give_back(event.grant._held)
            self._grants.pop(event.grant.fence, None)

    def _begin(self, partition: int, grant: OwnerGrant) -> None:
        if grant.valid:
            self._mine[partition] = grant
            self._tell(self._gained, partition, grant)

    def _finish(self, partition: int, grant: OwnerGrant) -> None:
        if self._mine.get(partition) is grant:
            self._tell(self._lost, partition, grant)
            del self._mine[partition]

    def _tell(self, callback: PartitionCallback | None, partition: int, grant: OwnerGrant) -> None:
        try:
            if callback is not None:
                callback(partition, grant)
        except Exception:
            log.exception("a callback for partition %d of %r raised", partition, self.name)
