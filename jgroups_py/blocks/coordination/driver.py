"""The driver of coordination on a channel: its rounds run the sessions of this member, beside those of the store.

Applications call from any thread; what they ask for is queued, and taken by the next round. There is no thread here.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from jgroups_py.blocks.coordination.core import CoordinationRequest, Make, Result, SessionCore, StoreCall
from jgroups_py.blocks.coordination.errors import MismatchError, UnavailableError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.machine import CoordinationMachine, GrantWatcher
from jgroups_py.blocks.coordination.messages import CoordinationMessage, decode, encode
from jgroups_py.blocks.coordination.owning import OwnedSet
from jgroups_py.blocks.replication.calls import PartitionCall
from jgroups_py.blocks.replication.driver import ReplicaDriver
from jgroups_py.blocks.replication.founding import Founding, birth_of
from jgroups_py.blocks.replication.messages import Verb
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.routing import partition_of
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.counters import Counters, table
from jgroups_py.model.errors import ChannelError, WireError
from jgroups_py.model.outputs import Closed, Output
from jgroups_py.runtime.loop import Task

log = logging.getLogger("jgroups_py")

NS_PER_US = 1000
LEAVE_SECONDS = 0.25                        # that a channel which leaves waits, at most, until the store has been told
CellListener = Callable[[int, bytes | None], object]
"""(version, value): a cell has changed."""


class CoordinationDriver(Block):
    """See the module. ttl_ns: of sessions; partitions: of the store."""

    def __init__(
        self, channel: BaseChannel, ttl_ns: int, options: Options, service: int, founding: Founding | None,
        partitions: int, watcher: GrantWatcher | None = None,
    ) -> None:
        self.ttl_ns = ttl_ns
        self.partitions = partitions
        self.cores: dict[int, SessionCore] = {}
        self.listeners: dict[str, list[CellListener]] = {}           # cell -> callbacks
        self.sets: dict[str, OwnedSet] = {}                          # that this member takes part in
        self.counters = Counters(table(SessionCore.COUNTERS))        # of all sessions so far
        self._channel = channel
        self._connection: Connection | None = None
        self._owner: Address | None = None
        self._timer: Task | None = None
        self._timer_ns = 0
        channel.attach(self)                                 # first: it hears of the end before the store does
        self.replicas = ReplicaDriver(channel, lambda _: CoordinationMachine(watcher), options, service, founding,
                                      self._resolved, None, None, self._notified)

    # --- from any thread ----------------------------------------------------------------------------------------------

    def clock_ns(self) -> int:
        """The clock of leases."""
        connection = self._connection
        return 0 if connection is None else connection.boot_ns()

    def valid(self, grant: HeldGrant) -> bool:
        """Whether a grant is held. The first look finds out; then the loss is told in the next round."""
        connection = self._connection
        if grant.why or connection is None:
            return False
        if connection.ended:
            return False
        if grant.valid(connection.boot_ns()):
            return True
        with suppress(ChannelError):
            self.put(lambda now_ns: None)
        return False

    def put(self, job: Callable[[int], None]) -> None:
        """Call `job` with the time of leases inside the next round.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        def run(_: int) -> None:
            now_ns = self.clock_ns()
            job(now_ns)
            for core in list(self.cores.values()):
                core.advance(now_ns)
            self._pump()
        self.replicas.put(run)

    def submit(self, name: str, request: CoordinationRequest, timeout: float | None) -> None:
        """Begin a request about a name. timeout: seconds until its deadline.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        def job(now_ns: int) -> None:
            if timeout is not None:
                request.deadline_ns = now_ns + round(timeout * 1e9)
            core = self._core(partition_of(name, self.partitions), now_ns)
            if core is None:
                request.finish(None, UnavailableError("this member is in no view yet"))
            elif self._mismatch():
                request.finish(None, MismatchError(self._mismatch()))
            else:
                core.submit(request, now_ns)
        self.put(job)

    def cancel(self, name: str, request: CoordinationRequest) -> None:
        """A request is not wanted any more."""
        def job(now_ns: int) -> None:
            core = self.cores.get(partition_of(name, self.partitions))
            if core is not None:
                core.cancel(request, now_ns)
        with suppress(ChannelError):                         # it is over anyway
            self.put(job)

    def release(
        self, name: str, grant: HeldGrant, back: bool, done: Callable[[Result | None, Exception | None], object],
    ) -> None:
        """Give a grant back; done: see SessionCore.release.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        self._let_go(name, done, lambda core, now_ns: core.release(grant, back, done, now_ns))

    def ask(
        self, name: str, query: CoordinationMessage, timeout: float,
        done: Callable[[Result | None, Exception | None], object],
    ) -> None:
        """A strong read about a name.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        def job(_: int) -> None:
            self._begin(partition_of(name, self.partitions), StoreCall(
                True, encode(query), round(timeout * 1e9), lambda result, error, at_ns: done(result, error)))
        self.put(job)

    def watch(self, name: str, listener: CellListener) -> None:
        """Call `listener` inside rounds when the cell changes, while this member's session watches it."""
        self.listeners.setdefault(name, []).append(listener)

    def join(self, owned: OwnedSet) -> None:
        """Take part in a set of partitions, in this connection and in those to come.

        Raises:
            ValueError: this member takes part in it already.
        """
        if self.sets.setdefault(owned.name, owned) is not owned:
            raise ValueError(f"this member takes part in the set {owned.name!r} already")
        ended = owned.ended

        def over(error: Exception | None) -> None:
            if self.sets.get(owned.name) is owned:
                del self.sets[owned.name]
                ended(error)
        owned.ended = over
        with suppress(ChannelError):                         # else once there is a connection
            self.put(lambda _: self.replicas.when(lambda host: True, self._join_sets))

    def leave(self, owned: OwnedSet) -> None:
        """Take part in a set no more; `ended` is called once the store has heard it, or there is nothing to leave."""
        def job(now_ns: int) -> None:
            if self.sets.get(owned.name) is not owned:
                return
            core = self.cores.get(partition_of(owned.name, self.partitions))
            if core is None or owned.name not in core.owning.sets:
                owned.ended(None)
            else:
                core.owning.leave(owned, now_ns)
        try:
            self.put(job)
        except ChannelError:
            owned.ended(None)

    def give_back(
        self, name: str, grant: HeldGrant, done: Callable[[Result | None, Exception | None], object],
    ) -> None:
        """The application has let go of a partition of a set; done: as of `release`.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        self._let_go(name, done, lambda core, now_ns: core.owning.give_back(grant, done, now_ns))

    def _let_go(
        self, name: str, done: Callable[[Result | None, Exception | None], object],
        give: Callable[[SessionCore, int], None],
    ) -> None:
        """Have the core of a name give something back; without one there is nothing to give."""
        def job(now_ns: int) -> None:
            core = self.cores.get(partition_of(name, self.partitions))
            if core is None:
                done(None, None)
            else:
                give(core, now_ns)
        self.put(job)

    def close(self) -> None:
        """Take part no more: this member has no part of the store, and no grants. The channel stays connected."""
        self.leaving()
        self.replicas.close()

    # --- inside rounds: Block -----------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        self._timer = None
        if self.sets:
            connection.call(lambda: self.replicas.when(lambda host: True, self._join_sets))

    def leaving(self) -> None:
        """All grants end before others can get them, and the store is told."""
        for core in list(self.cores.values()):
            core.lease.end()
        if isinstance(self._channel, JChannel):
            over = Event()
            with suppress(ChannelError):
                self.put(lambda _: self._close_cores(over))
                self._channel.work_until(over.is_set, LEAVE_SECONDS)
                over.wait(LEAVE_SECONDS)
        else:                                                # this is the thread of its rounds
            self._close_cores()
            self.replicas.settle()

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if output.__class__ is Closed:
                self._close_cores()
        return outputs

    def _close_cores(self, over: Event | None = None) -> None:
        now_ns = self.clock_ns()
        for core in self.cores.values():
            core.close(now_ns)
        self._pump()
        self.cores = {}
        if over is not None:
            over.set()

    def _core(self, partition: int, now_ns: int) -> SessionCore | None:
        connection = self._connection
        owner = None if connection is None else connection.address
        if owner is None or self.replicas.host is None:
            return None
        core = self.cores.get(partition)
        if core is None:
            core = self.cores[partition] = SessionCore(owner, self.ttl_ns, self.counters)
            core.changed = self._cell_changed
            self.replicas.when(lambda host: host.store is not None, lambda: self._store_known(core))
        return core

    def _join_sets(self) -> None:
        """Every set is at the session of its partition of the store."""
        now_ns = self.clock_ns()
        for owned in list(self.sets.values()):
            core = self._core(partition_of(owned.name, self.partitions), now_ns)
            if core is None:
                return
            if self._mismatch():
                owned.ended(MismatchError(self._mismatch()))
            elif owned.name not in core.owning.sets:
                core.join(owned, now_ns)
        self._pump()

    def _store_known(self, core: SessionCore) -> None:
        host = self.replicas.host
        if self._mismatch():
            self._join_sets()                                # which refuses them
        elif host is not None and host.store is not None:
            core.store_known(birth_of(host.store[0]) // NS_PER_US, self.clock_ns())
            self._pump()

    def _mismatch(self) -> str:
        """What is wrong with the store, if anything is."""
        store = None if self.replicas.host is None else self.replicas.host.store
        if store is None or store[1] == self.partitions:
            return ""
        return (f"the store of this group has {store[1]} partitions, this member was configured for {self.partitions}; "
                "all members need the same number")

    def _notified(self, partition: int, data: bytes) -> None:
        core = self.cores.get(partition)
        if core is not None:
            try:
                notice = decode(data)
            except WireError:
                return
            core.notified(notice, self.clock_ns())
            self._pump()

    def _cell_changed(self, name: str, version: int, value: bytes | None) -> None:
        for listener in list(self.listeners.get(name, ())):
            guarded("a listener of a cell", listener, version, value)

    # --- the store ----------------------------------------------------------------------------------------------------

    def _begin(self, partition: int, call: StoreCall) -> None:
        connection = self._connection
        assert connection is not None, "there is one inside a round"
        self.replicas.calls.begin(partition, Verb.STRONG if call.strong else Verb.WRITE, call.data, call.timeout_ns,
                                  call, connection.now_ns)

    def _resolved(self, calls: list[PartitionCall]) -> None:
        now_ns = self.clock_ns()
        for call in calls:
            waiter: StoreCall = call.waiter
            result, error = None, call.error
            if call.reply is not None:
                try:
                    result = decode(call.reply)
                except WireError as wrong:
                    error = wrong
            waiter.answered(result, error, now_ns)
        self._pump()

    def _pump(self) -> None:
        """Pass on what the sessions ask of the store, and plan their next deadline."""
        due_ns: int | None = None
        for partition, core in self.cores.items():
            calls, core.calls = core.calls, []
            for call in calls:
                self._begin(partition, call)
            core_ns = core.next_deadline_ns
            if core_ns is not None and (due_ns is None or core_ns < due_ns):
                due_ns = core_ns
        connection = self._connection
        if due_ns is None or connection is None or connection.ended:
            return
        if self._timer is not None and self._timer_ns <= due_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = connection.later(max(0, due_ns - connection.boot_ns()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        connection = self._connection
        if connection is None or connection.ended:
            return
        now_ns = self.clock_ns()
        for core in self.cores.values():
            core.advance(now_ns)
        self._pump()
        self.replicas.settle()


def guarded(what: str, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function of the application inside a round; what it raises is logged."""
    try:
        function(*arguments)
    except Exception:
        log.exception("%s raised", what)


def request_of(
    make: Make, done: Callable[[Result | None, Exception | None], object], *, waits: bool = False, grants: bool = False,
) -> CoordinationRequest:
    """A request; `CoordinationDriver.submit` sets its deadline."""
    return CoordinationRequest(make, done, None, waits=waits, grants=grants)
