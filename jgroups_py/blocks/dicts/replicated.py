"""ReplicatedDict: a dict on a channel with TOTAL, with the same contents at all members after the same place.

Reads are local. A write is one ordered multicast, and returns when it was carried out at this member, so a member reads
its own writes, and all members see two writes of one key in the same order. It is sequentially consistent, not
linearizable: a member that is slow, or cut off and not excluded yet, reads old values. After a split only the part with
the majority writes (on_split="primary"), or both parts write, and at the merge the writes of one part are taken back
and reported ("keep"), or merged ("merge").

The copies agree inside the rounds of the channel; there is no thread. Listeners are called there too: they must not
block, and must not write with `put`, which waits.
"""
from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar, cast

import attrs

from jgroups_py.blocks.dicts.core import (
    MAX_TTL_MS,
    Answered,
    Changed,
    Conflict,
    DictCore,
    NotANumber,
    Refused,
    Reloaded,
    Send,
)
from jgroups_py.blocks.dicts.messages import COMPARE, DELETE, INCREMENT, POP, PUT, SET_DEFAULT, Operation
from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.outputs import Closed, Deliver, Output, ViewInstalled
from jgroups_py.model.units import NS_PER_MS, parse_duration
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.wire.block_headers import BlockHeader, DictCopy

log = logging.getLogger("jgroups_py")

K = TypeVar("K")
V = TypeVar("V")
WRITE_SECONDS = 10.0


class MinorityError(ChannelError):
    """The write was not carried out: this part of the group does not have the majority."""


class WriteTimeoutError(ChannelError, TimeoutError):
    """The write was not carried out in time. It may still be carried out later."""


@attrs.frozen
class DictChange(Generic[K, V]):
    """A key has changed. old, new: None: no value. place: in the order of the view; by: the member that wrote."""

    key: K
    old: V | None
    new: V | None
    place: int
    by: Address


@attrs.frozen
class TakenBack(Generic[K, V]):
    """A merge took back a change of `key` that this member had written.

    value: what it wrote; None: it deleted the key. other: the value that is there now, None: there is none. added: it
    was an increment, and `value` is by how much.
    """

    key: K
    value: V | None
    other: V | None
    added: bool = False


@attrs.frozen
class DictCodec(Generic[V]):
    """Encodes keys or values as bytes, and decodes them. Equal keys must have equal bytes."""

    encode: Callable[[V], bytes]
    decode: Callable[[bytes], V]


CODECS: Mapping[type, DictCodec[Any]] = {
    bytes: DictCodec(bytes, bytes),
    str: DictCodec(lambda value: value.encode(), lambda data: data.decode()),
    int: DictCodec(lambda value: b"%d" % value, int),
    float: DictCodec(lambda value: repr(float(value)).encode(), float),
    bool: DictCodec(lambda value: b"1" if value else b"", bool),
}
"""The types that can be given in place of a codec."""


def codec_of(kind: type | DictCodec[Any]) -> DictCodec[Any]:
    """The codec of a type.

    Raises:
        TypeError: it has none.
    """
    found = kind if isinstance(kind, DictCodec) else CODECS.get(kind)
    if found is None:
        known = ", ".join(sorted(known.__name__ for known in CODECS))
        raise TypeError(f"keys and values are {known}, or a DictCodec(encode, decode); not {kind!r}")
    return found


class Write(ABC):
    """A write of this member that is under way."""

    def __init__(self) -> None:
        self.answer: Answered | None = None
        self.error: Exception | None = None

    def finish(self, answer: Answered | None, error: Exception | None) -> None:
        self.answer, self.error = answer, error
        self.wake()

    @abstractmethod
    def wake(self) -> None:
        """It is done; from any thread."""

    def result(self) -> Answered:
        """The answer.

        Raises:
            MinorityError, ChannelError: the write was not carried out.
        """
        if self.error is not None:
            raise self.error
        assert self.answer is not None, "it is done"
        return self.answer


class BlockingWrite(Write):
    """A thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()

    def wake(self) -> None:
        self.done.set()


class AwaitedWrite(Write):
    """A task of the running event loop waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.done: asyncio.Future[None] = self.loop.create_future()

    def wake(self) -> None:
        if threading.get_ident() == self._thread:            # the other way writes to a socket
            self._set()
        else:
            self.loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self.done.done():                             # the task may have been cancelled
            self.done.set_result(None)


class OverdueWrites:
    """Ends writes that tasks wait for for too long: one timer of the event loop for all, since a timer for each costs
    more than the rest of a write's wake-up. what: of the error."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._until: dict[AwaitedWrite, tuple[float, float]] = {}    # -> (when it is overdue, timeout), in order
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None              # where it is set

    def watch(self, write: AwaitedWrite, timeout: float) -> None:
        """It may take `timeout` seconds from now on."""
        until = write.loop.time() + timeout
        self._until[write] = until, timeout
        if self._timer is None or until < self._timer.when() or write.loop is not self._loop:
            self._set(write.loop, until)

    def forget(self, write: AwaitedWrite) -> None:
        """Nobody waits for it any more."""
        self._until.pop(write, None)

    def _set(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._loop = loop.call_at(until, self._look, loop), loop

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._timer = loop.time(), None
        for write, (until, timeout) in list(self._until.items()):
            if until <= now:
                self.forget(write)
                write.finish(None, WriteTimeoutError(f"{self._what} did not carry out a write within {timeout:g} s"))
        if self._until:
            self._set(loop, min(until for until, _ in self._until.values()))


class DictHub(Block):
    """All dicts of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (DictCopy,)

    @classmethod
    def of(cls, channel: BaseChannel) -> DictHub:
        """The block of a channel, made and attached if it has none."""
        found = next((block for block in channel.blocks if isinstance(block, DictHub)), None)
        if found is None:
            found = cls()
            channel.attach(found)
        return found

    def __init__(self) -> None:
        self.dicts: dict[str, ReplicatedDict[Any, Any]] = {}

    def begin(self, connection: Connection) -> None:
        for one in self.dicts.values():
            one.begin_connection(connection)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        if not self.dicts:
            return outputs
        kept = []
        for output in outputs:
            if isinstance(output, Deliver) and output.batch.headers and isinstance(output.batch.headers[0], DictCopy):
                one = self.dicts.get(output.batch.headers[0].name)
                if one is not None:
                    one.receive(output)
                continue
            if isinstance(output, ViewInstalled | Closed):
                for one in self.dicts.values():
                    one.heard(output)
            kept.append(output)
        for one in self.dicts.values():
            one.settle()
        return kept


class ReplicatedDict(MutableMapping[K, V]):
    """See the module. Made before the channel connects. Any thread may call it.

    name: the same at all members; key, value: bytes, str, int, float, bool, or a DictCodec. on_split: "primary",
    "keep" or "merge"; merge: for "merge", a pure function (key, mine, its) -> value. timeout: seconds that a write may
    take.
    """

    def __init__(
        self, channel: BaseChannel, name: str, key: type[K] | DictCodec[K], value: type[V] | DictCodec[V], *,
        on_split: str = "primary", merge: Callable[[K, V, V], V] | None = None, timeout: float = WRITE_SECONDS,
    ) -> None:
        if channel.spec.config_of("TOTAL") is None:
            raise ConfigError(f"{channel.spec.source}: a ReplicatedDict needs TOTAL in the stack, as in udp-total")
        hub = DictHub.of(channel)
        if not name or name in hub.dicts:
            raise ValueError(f"a dict named {name!r} is there already, or the name is empty")
        if channel.state is not ChannelState.OPEN:
            raise ValueError(f"the dict {name!r} must be made before the channel connects: it misses nothing then")
        self.name = name
        self.timeout = timeout
        self._overdue = OverdueWrites(f"the dict {name!r}")
        self._keys: DictCodec[K] = codec_of(key)
        self._values: DictCodec[V] = codec_of(value)
        self._merge = None if merge is None else self._merger(merge)
        self._policy = on_split
        self._channel = channel
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._core = DictCore(Address(bytes(16)), on_split, self._merge)     # also checks the policy
        self._ready = threading.Event()
        self._awaiting: dict[Callable[[], object], None] = {}    # called once there is a copy
        self._begun: deque[tuple[tuple[Operation, ...], Write]] = deque()    # by any thread; the next round sends them
        self._scheduled = False
        self._writes: dict[int, Write] = {}
        self._timer_ns = 0
        self._on_change: list[Callable[[DictChange[K, V]], object]] = []
        self._on_conflict: list[Callable[[TakenBack[K, V]], object]] = []
        self._on_reload: list[Callable[[], object]] = []
        hub.dicts[name] = self

    def _merger(self, merge: Callable[[K, V, V], V]) -> Callable[[bytes, bytes, bytes], bytes]:
        keys, values = self._keys, self._values
        return lambda key, mine, its: values.encode(
            merge(keys.decode(key), values.decode(mine), values.decode(its)))

    # --- reading ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        with self._lock:
            found = self._core.get(self._keys.encode(key))
        if found is None:
            raise KeyError(key)
        return self._values.decode(found)

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            keys = list(self._core.entries)
        return map(self._keys.decode, keys)

    def __len__(self) -> int:
        return len(self._core.entries)

    def copy(self) -> dict[K, V]:
        """All keys with their values, at one place."""
        with self._lock:
            items = self._core.items()
        return {self._keys.decode(key): self._values.decode(value) for key, value in items.items()}

    def wait_ready(self, timeout: float = 10.0) -> bool:
        """Wait until this member has a copy; False: not in `timeout` seconds."""
        self._channel.work_until(self._ready.is_set, timeout)
        return self._ready.wait(timeout)

    async def await_ready(self, timeout: float = 10.0) -> bool:
        """`wait_ready` on an AsyncChannel."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(came.set)
        self._awaiting[wake] = None
        try:
            if not self._ready.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(came.wait(), timeout)
        finally:
            del self._awaiting[wake]
        return self._ready.is_set()

    @property
    def ready(self) -> bool:
        """Whether this member has a copy with which its part of the group goes on."""
        return self._core.settled and self._core.decided

    @property
    def is_primary(self) -> bool:
        """Whether this part of the group may write."""
        return self._core.can_write

    def stats(self) -> dict[str, float]:
        """Counters: writes carried out, sent again, copies sent and taken, ..."""
        with self._lock:
            return {**self._core.counters, "entries": len(self._core.entries), "waiting": len(self._core.waiting)}

    # --- writing ----------------------------------------------------------------------------------------------------

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        if self._one(DELETE, key) is None:
            raise KeyError(key)

    def put(self, key: K, value: V, ttl: str | float | None = None) -> int:
        """Set a key; returns its place. ttl: after that time it vanishes, at one place ("10s", or seconds).

        Raises:
            MinorityError: on_split="primary", and this part of the group has no majority: nothing was written.
            WriteTimeoutError: no answer in time; it may still be carried out.
            NotConnectedError, ChannelClosedError: see JChannel.send.
        """
        return self._wait([self._operation(PUT, key, value, ttl=ttl)]).place

    def update(self, *others: Any, **more: Any) -> None:
        """Set several keys at one place: a member has all of them or none. Arguments and errors: see dict, `put`."""
        operations = [self._operation(PUT, key, value) for key, value in dict(*others, **more).items()]
        if operations:
            self._wait(operations)

    @contextlib.contextmanager
    def batch(self) -> Iterator[dict[K, V | None]]:
        """Collect writes in a dict, and carry them out at one place at the end; None deletes a key."""
        writes: dict[K, V | None] = {}
        yield writes
        operations = [self._operation(DELETE, key) if value is None else self._operation(PUT, key, value)
                      for key, value in writes.items()]
        if operations:
            self._wait(operations)

    def setdefault(self, key: K, default: V = None) -> V:    # type: ignore[assignment]
        """The value of a key, which is set to `default` at this place if there is none."""
        found = self._one(SET_DEFAULT, key, default)
        return self._values.decode(found)

    def pop(self, key: K, *default: Any) -> Any:
        """Delete a key; returns its value, of all members that pop it at once exactly one gets it."""
        found = self._one(POP, key)
        if found is not None:
            return self._values.decode(found)
        if not default:
            raise KeyError(key)
        return default[0]

    def clear(self) -> None:
        """Delete all keys that are there now, at one place."""
        operations = [self._operation(DELETE, key) for key in self]
        if operations:
            self._wait(operations)

    def increment(self, key: K, by: int = 1) -> int:
        """Add to a number (values are int); a missing key counts as 0. Returns the sum.

        Raises:
            ValueError: the value is no number.
        """
        found = self._one(INCREMENT, key, by)                # type: ignore[arg-type]
        if isinstance(found, NotANumber):
            raise found
        return int(found)

    def compare_and_set(self, key: K, expected: V | None, value: V) -> bool:
        """Set a key if it has the expected value (None: none) at that place; whether it had."""
        return bool(self._one(COMPARE, key, value, expected))

    def _one(self, verb: int, key: K, value: V | None = None, argument: V | None = None) -> Any:
        return self._wait([self._operation(verb, key, value, argument)]).results[0]

    def _operation(
        self, verb: int, key: K, value: V | None = None, argument: V | None = None, ttl: str | float | None = None,
    ) -> Operation:
        ttl_ms = 0
        if ttl is not None:
            ttl_ms = parse_duration(ttl if isinstance(ttl, str) else f"{ttl:f}s") // NS_PER_MS
            if not 1 <= ttl_ms <= MAX_TTL_MS:
                raise ValueError(f"a time to live of {ttl!r} is not within 1 ms to {MAX_TTL_MS} ms")
        return (verb, self._keys.encode(key), b"" if value is None else self._values.encode(value),
                None if argument is None else self._values.encode(argument), ttl_ms)

    def begin(self, operations: Sequence[Operation], write: Write) -> None:
        """Send a write; inside a round, soon."""
        self._channel.check_size(sum([len(key) + len(value) + len(argument or b"") + 64
                                      for _, key, value, argument, _ in operations]))
        connection = cast(Connection, self._channel.connection())
        self._begun.append((tuple(operations), write))
        if not self._scheduled:
            self._scheduled = True
            connection.call(self._send_begun)

    def _send_begun(self) -> None:
        self._scheduled = False                              # first: what begins from now on schedules a round again
        with self._lock:
            while self._begun:
                operations, write = self._begun.popleft()
                self._writes[self._core.write(operations)] = write
        self.settle()

    def _wait(self, operations: Sequence[Operation]) -> Answered:
        """Send a write, and wait until it was carried out."""
        write = BlockingWrite()
        self.begin(operations, write)
        until = monotonic() + self.timeout
        self._channel.work_until(write.done.is_set, self.timeout)
        if not write.done.wait(max(0.0, until - monotonic())):
            raise WriteTimeoutError(f"the dict {self.name!r} did not carry out a write within {self.timeout:g} s")
        return write.result()

    async def aput(self, key: K, value: V, ttl: str | float | None = None) -> int:
        """`put` on an AsyncChannel."""
        return (await self.carried_out([self._operation(PUT, key, value, ttl=ttl)])).place

    async def aupdate(self, *others: Any, **more: Any) -> None:
        """`update` on an AsyncChannel."""
        await self.carried_out([self._operation(PUT, key, value) for key, value in dict(*others, **more).items()])

    async def apop(self, key: K, default: Any = None) -> Any:
        """`pop` on an AsyncChannel; `default` if there is none."""
        found = (await self.carried_out([self._operation(POP, key)])).results[0]
        return default if found is None else self._values.decode(found)

    async def aincrement(self, key: K, by: int = 1) -> int:
        """`increment` on an AsyncChannel."""
        found = (await self.carried_out([self._operation(INCREMENT, key, by)])).results[0]   # type: ignore[arg-type]
        if isinstance(found, NotANumber):
            raise found
        return int(found)

    async def acompare_and_set(self, key: K, expected: V | None, value: V) -> bool:
        """`compare_and_set` on an AsyncChannel."""
        return bool((await self.carried_out([self._operation(COMPARE, key, value, expected)])).results[0])

    async def carried_out(self, operations: Sequence[Operation]) -> Answered:
        """Send a write and await that it was carried out."""
        write = AwaitedWrite()
        self.begin(operations, write)
        self._overdue.watch(write, self.timeout)
        try:
            await write.done
        finally:
            self._overdue.forget(write)
        return write.result()

    # --- listening --------------------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[DictChange[K, V]], object]) -> Callable[[DictChange[K, V]], object]:
        """A decorator: call it with every DictChange, in the order of the dict, inside a round of the channel."""
        self._on_change.append(listener)
        self._core.tells_changes = True
        return listener

    def on_conflict(self, listener: Callable[[TakenBack[K, V]], object]) -> Callable[[TakenBack[K, V]], object]:
        """A decorator: call it with every own write that a merge took back."""
        self._on_conflict.append(listener)
        return listener

    def on_reload(self, listener: Callable[[], object]) -> Callable[[], object]:
        """A decorator: call it when the whole copy was replaced by that of another member."""
        self._on_reload.append(listener)
        return listener

    # --- inside rounds ----------------------------------------------------------------------------------------------

    def begin_connection(self, connection: Connection) -> None:
        self._connection = connection
        self._begun.clear()                                  # of a connection that ended before they were sent
        self._scheduled = False

    def heard(self, output: ViewInstalled | Closed) -> None:
        """A view was installed, or the connection ended."""
        with self._lock:
            if isinstance(output, Closed):
                self._end(output.reason)
                return
            connection = self._connection
            assert connection is not None, "a view belongs to a connection"
            me = connection.address
            assert me is not None, "a member has an address"
            if self._core.me != me:
                self._core = DictCore(me, self._policy, self._merge)
                self._core.tells_changes = bool(self._on_change)
            self._core.view_installed(output.view, output.failed)

    def _end(self, reason: str) -> None:
        self._ready.clear()
        writes, self._writes = [*self._writes.values(), *(write for _, write in self._begun)], {}
        self._begun.clear()
        for write in writes:
            write.finish(None, ChannelError(f"the channel closed before the write was carried out: {reason}"))

    def receive(self, output: Deliver) -> None:
        """A batch of another copy, or an own one that came back."""
        connection, batch = self._connection, output.batch
        assert connection is not None, "a batch belongs to a connection"
        with self._lock:
            for number, payload in enumerate(batch.payloads):
                self._core.receive(batch.src, payload, batch.place and batch.place + number, connection.now_ns)

    def settle(self) -> None:
        """Carry out the outputs of the core, and plan its next deadline."""
        with self._lock:
            outputs, self._core.outputs = self._core.outputs, []
            if self.ready:
                self._ready.set()
                for wake in list(self._awaiting):
                    wake()
            else:
                self._ready.clear()
            for output in outputs:
                self._carry_out(output)
            self._plan()

    def _carry_out(self, output: object) -> None:
        connection = self._connection
        if isinstance(output, Send):
            if connection is not None and not connection.ended:
                with contextlib.suppress(ChannelError):      # it ends: the next view begins anew
                    connection.sends.put(output.dest, output.data, 0, (DictCopy(self.name),), NOW)
        elif isinstance(output, Answered):
            self._finish(output.number, output, None)
        elif isinstance(output, Refused):
            self._finish(output.number, None, MinorityError(
                f"the dict {self.name!r} is read-only here: this part of the group has no majority"))
        elif isinstance(output, Changed):
            self._call(self._on_change, lambda: DictChange(
                self._keys.decode(output.key), self._decoded(output.old), self._decoded(output.new), output.place,
                output.by))
        elif isinstance(output, Conflict):
            self._call(self._on_conflict, lambda: TakenBack(
                self._keys.decode(output.key), None if output.verb == DELETE else self._values.decode(output.value),
                self._decoded(output.other), output.verb == INCREMENT))
        elif isinstance(output, Reloaded):
            for listener in self._on_reload:
                self._guarded(listener)

    def _finish(self, number: int, answer: Answered | None, error: Exception | None) -> None:
        write = self._writes.pop(number, None)
        if write is not None:
            write.finish(answer, error)

    def _decoded(self, value: bytes | None) -> V | None:
        return None if value is None else self._values.decode(value)

    def _call(self, listeners: Sequence[Callable[[Any], object]], made: Callable[[], Any]) -> None:
        for listener in listeners:
            self._guarded(listener, made())

    def _guarded(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:
            log.exception("a listener of the dict %s raised", self.name)

    def _plan(self) -> None:
        connection, due_ns = self._connection, self._core.next_deadline_ns
        if connection is None or due_ns is None or connection.ended or (self._timer_ns and self._timer_ns <= due_ns):
            return
        self._timer_ns = due_ns
        connection.later(max(0, due_ns - connection.now_ns), self._wake)

    def _wake(self) -> None:
        self._timer_ns = 0
        connection = self._connection
        if connection is not None and not connection.ended:
            with self._lock:
                self._core.advance(connection.now_ns)
            self.settle()
