"""Cache: values of a source of the application's, kept at each member, and forgotten at all members when they change.

    pages = Cache(channel, "pages", str, bytes, max_bytes="64M", ttl="5m")
    channel.connect("shop")
    page = pages.get_or_load("index", lambda key: database.read(key))
    database.write("index", new)
    pages.invalidate("index", until="handled")           # with RELAY "handled@*": at all sites that are not OFFLINE

Only notices travel: a reliable multicast, which RELAY carries to the other sites and holds for those that are away. The
source must show a write before `invalidate` is called. Then, once it has returned with a receipt, no member that the
receipt names returns an older value to a call that begins (N1). Where notices cannot arrive, or none is sent, a value
is at most `ttl` old (N2). A member forgets everything when it may have missed a notice: at a merge, when messages were
declared lost, when a site is UP that was not known or OFFLINE, and at each connection. A member that has had a notice
when it meets such a site has all forget everything: that site may have known the other half of this one alone.
"""
from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic_ns
from typing import Any, ClassVar, Generic, TypeVar

from jgroups_py.blocks.cache.core import CacheCore, CacheLoad
from jgroups_py.blocks.cache.messages import MESSAGES, CacheMessage, ForgetAll, ForgetKeys, encode
from jgroups_py.blocks.dicts.replicated import DictCodec, codec_of
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.receipt import Receipt
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.errors import ChannelError, WireError
from jgroups_py.model.outputs import (
    Closed,
    Deliver,
    MessagesLost,
    MessagesSkipped,
    Output,
    SiteStatusChanged,
    ViewInstalled,
)
from jgroups_py.model.units import parse_duration, parse_size
from jgroups_py.model.view import MergeView
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.wire.block_headers import BlockHeader, CacheNotice
from jgroups_py.wire.codec import Interner

log = logging.getLogger("jgroups_py")
K = TypeVar("K")
V = TypeVar("V")
KEY_COST = 8                             # of a notice, for each key beside its bytes


class Flight(CacheLoad):
    """A load with those that wait for it. Settled once."""

    def __init__(self, key: bytes, began_ns: int) -> None:
        super().__init__(key, began_ns)
        self.owner = threading.get_ident()
        self.value: Any = None
        self.error: Exception | None = None
        self.given_up = False                                # whoever loads was stopped: another one must
        self.task: asyncio.Task[None] | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []

    def settle(self) -> None:
        """The fields have their values."""
        with self._lock:
            self._done.set()
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def wait(self) -> None:
        """Wait in a thread.

        Raises:
            RuntimeError: this thread loads it.
        """
        if self.owner == threading.get_ident() and not self._done.is_set():
            raise RuntimeError("a loader asks the cache for the key that it is loading")
        self._done.wait()

    async def awaited(self) -> None:
        """Wait on an event loop."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(over.set)
        with self._lock:
            if self._done.is_set():
                return
            self._calls.append(wake)
        await over.wait()

    def result(self) -> Any:
        """The value, or the loader's exception is raised."""
        if self.error is not None:
            raise self.error
        return self.value


NO_FLIGHT = Flight(b"", 0)


class CacheHub(Block):
    """All caches of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (CacheNotice,)

    @classmethod
    def of(cls, channel: JChannel | AsyncChannel) -> CacheHub:
        """The block of a channel, made and attached if it has none."""
        found = next((block for block in channel.blocks if isinstance(block, CacheHub)), None)
        if found is None:
            found = cls()
            channel.attach(found)
        return found

    def __init__(self) -> None:
        self.caches: dict[str, Cache[Any, Any]] = {}
        self._sites: dict[str, str] = {}
        self._connection: Connection | None = None
        self._noticed: dict[str, None] = {}                  # caches of which this connection has had a notice

    def begin(self, connection: Connection) -> None:
        self._sites, self._noticed, self._connection = {}, {}, connection
        for cache in self.caches.values():
            cache.connection_changed(False)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        kept = []
        for output in outputs:
            if isinstance(output, Deliver):
                header = output.batch.headers[0] if output.batch.headers else None
                if isinstance(header, CacheNotice):
                    cache = self.caches.get(header.name)
                    if cache is not None:
                        self.noticed(header.name)
                        cache.receive(output.batch.payloads)
                    continue
            else:
                self._heard(output)
            kept.append(output)
        return kept

    def noticed(self, name: str) -> None:
        """A notice for a cache was sent, or has come; from any thread."""
        self._noticed[name] = None

    def _heard(self, output: Output) -> None:
        caches = self.caches.values()
        if isinstance(output, ViewInstalled):
            for cache in caches:
                if isinstance(output.view, MergeView):
                    cache.missed_notices()
                cache.connection_changed(True)
        elif isinstance(output, Closed):
            for cache in caches:
                cache.connection_changed(False)
        elif (isinstance(output, MessagesLost) and output.dest_site is None) or isinstance(output, MessagesSkipped):
            for cache in caches:
                cache.missed_notices()
        elif isinstance(output, SiteStatusChanged):
            before, self._sites[output.site] = self._sites.get(output.site), output.status
            if output.status == "UP" and before in (None, "OFFLINE"):
                for cache in caches:                         # it may have sent notices that this site never gets
                    cache.missed_notices()
                self._repeat()

    def _repeat(self) -> None:
        """A site was met: no notice from before is owed to it, and it may not miss them, as it was UP for another half
        of this site all the time. So each member that has one tells it to forget everything; any may crash."""
        if self._connection is None:
            return
        for name in tuple(self._noticed):
            try:
                self._connection.sends.put(None, encode(ForgetAll()), 0, (CacheNotice(name),), NOW)
            except ChannelError:                             # this member leaves
                log.debug("a notice for the cache %r was not repeated", name, exc_info=True)


class Cache(Generic[K, V]):
    """See the module. Any thread may call it; with an AsyncChannel use `aget_or_load`, `ainvalidate`, `aclear`.

    name: the same at all members; key, value: bytes, str, int, float, bool, or a DictCodec. max_bytes: of all that
    this member keeps (the least recently used go first); ttl: the longest time for which a value is kept.
    """

    def __init__(
        self, channel: JChannel | AsyncChannel, name: str, key: type[K] | DictCodec[K], value: type[V] | DictCodec[V],
        *, max_bytes: int | str = "64M", ttl: str | float = "5m",
    ) -> None:
        hub = CacheHub.of(channel)
        if not name or name in hub.caches:
            raise ValueError(f"a cache named {name!r} is there already, or the name is empty")
        ttl_ns = parse_duration(ttl if isinstance(ttl, str) else f"{ttl:f}s")
        nbytes = parse_size(max_bytes) if isinstance(max_bytes, str) else max_bytes
        if ttl_ns <= 0 or nbytes <= 0:
            raise ValueError(f"ttl ({ttl!r}) and max_bytes ({max_bytes!r}) are above 0")
        self.name = name
        self._keys: DictCodec[K] = codec_of(key)
        self._values: DictCodec[V] = codec_of(value)
        self._channel = channel
        self._lock = threading.Lock()
        self._core = CacheCore(nbytes, ttl_ns)
        self._interner = Interner()
        if channel.view is not None:
            self._core.connected()
        self._hub = hub
        hub.caches[name] = self

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, key: K) -> V | None:
        """The value that is kept here, if there is one."""
        with self._lock:
            found = self._core.get(self._keys.encode(key), monotonic_ns())
        return None if found is None else self._values.decode(found)

    def peek(self, key: K) -> V | None:
        """`get` for tests and reports: it counts nothing, and does not look at the age."""
        with self._lock:
            entry = self._core.entries.get(self._keys.encode(key))
        return None if entry is None else self._values.decode(entry.value)

    def get_or_load(self, key: K, load: Callable[[K], V | None]) -> V | None:
        """The value that is kept here, or what `load(key)` returns, which is kept then; None: there is none.

        One thread loads a key at a time, the others wait for it. An exception of the loader reaches all of them, and
        nothing is kept.
        """
        packed = self._keys.encode(key)
        while True:
            found, flight, mine = self._look(packed)
            if found is not None:
                return self._values.decode(found)
            if mine:
                return self._load(flight, key, load)
            flight.wait()
            if not flight.given_up:
                value: V | None = flight.result()
                return value

    async def aget_or_load(self, key: K, load: Callable[[K], Awaitable[V | None]]) -> V | None:
        """`get_or_load` with a loader that is awaited, in a task of its own: a caller that is cancelled takes nothing
        from others that wait for it."""
        packed = self._keys.encode(key)
        while True:
            found, flight, mine = self._look(packed)
            if found is not None:
                return self._values.decode(found)
            if mine:
                flight.owner = 0
                flight.task = asyncio.create_task(self._aload(flight, key, load), name=f"load-{self.name}")
            await flight.awaited()
            if not flight.given_up:
                value: V | None = flight.result()
                return value

    def _look(self, packed: bytes) -> tuple[bytes | None, Flight, bool]:
        """The value, or a load to wait for, and whether the caller must carry it out."""
        now_ns = monotonic_ns()
        with self._lock:
            found = self._core.get(packed, now_ns)
            if found is not None:
                return found, NO_FLIGHT, False
            flight = Flight(packed, now_ns)
            joined = self._core.begin(flight)
        assert isinstance(joined, Flight), "begun here"
        return None, joined, joined is flight

    def _load(self, flight: Flight, key: K, load: Callable[[K], V | None]) -> V | None:
        data: bytes | None = None
        flight.given_up = True
        try:
            value = load(key)
            data = None if value is None else self._values.encode(value)
            flight.value, flight.given_up = value, False
        except Exception as error:
            flight.error, flight.given_up = error, False
            raise
        finally:
            self._settle(flight, data)
        return value

    async def _aload(self, flight: Flight, key: K, load: Callable[[K], Awaitable[V | None]]) -> None:
        data: bytes | None = None
        flight.given_up = True
        try:
            value = await load(key)
            data = None if value is None else self._values.encode(value)
            flight.value, flight.given_up = value, False
        except Exception as error:                           # noqa: BLE001  it reaches those that wait
            flight.error, flight.given_up = error, False
        finally:
            self._settle(flight, data)

    def _settle(self, flight: Flight, data: bytes | None) -> None:
        with self._lock:
            self._core.loaded(flight, data)
        flight.settle()

    # --- writing ----------------------------------------------------------------------------------------------------

    def invalidate(
        self, *keys: K, until: str | Iterable[str] | None = None, timeout: float | None = None,
    ) -> Receipt | None:
        """Have all members forget these keys. Call it when the source shows the new values.

        until, timeout: see `JChannel.send`; without `until` it returns when the notice is queued.

        Raises:
            what `JChannel.send` raises. This member has forgotten the keys in any case; whether others have is not
            known then: call it again, or values stay for up to `ttl`.
        """
        return self._send(self._forgotten(keys), until, timeout)

    def clear(self, *, until: str | Iterable[str] | None = None, timeout: float | None = None) -> Receipt | None:
        """`invalidate` for all keys."""
        self.missed_notices()
        self._hub.noticed(self.name)
        return self._send(encode(ForgetAll()), until, timeout)

    async def ainvalidate(
        self, *keys: K, until: str | Iterable[str] | None = None, timeout: float | None = None,
    ) -> Receipt | None:
        """`invalidate` on an AsyncChannel."""
        return await self._asend(self._forgotten(keys), until, timeout)

    async def aclear(
        self, *, until: str | Iterable[str] | None = None, timeout: float | None = None,
    ) -> Receipt | None:
        """`clear` on an AsyncChannel."""
        self.missed_notices()
        self._hub.noticed(self.name)
        return await self._asend(encode(ForgetAll()), until, timeout)

    def _forgotten(self, keys: Iterable[K]) -> bytes:
        packed = tuple(map(self._keys.encode, keys))
        if not packed:
            raise ValueError("invalidate which keys? For all there is clear()")
        self._channel.check_size(sum(map(len, packed)) + KEY_COST * len(packed))
        with self._lock:
            self._core.forget(packed)
        self._hub.noticed(self.name)
        return encode(ForgetKeys(packed))

    def _send(self, data: bytes, until: str | Iterable[str] | None, timeout: float | None) -> Receipt | None:
        channel, headers = self._channel, (CacheNotice(self.name),)
        if not isinstance(channel, JChannel):
            raise TypeError("with an AsyncChannel: await cache.ainvalidate(...), cache.aclear()")
        left = channel.send_timeout if timeout is None else timeout
        if until is not None:
            return channel.send_until(channel.checked_until(until, None, 0), data, 0, headers, left, True)
        channel.connection().sends.put(None, data, 0, headers, left)
        return None

    async def _asend(self, data: bytes, until: str | Iterable[str] | None, timeout: float | None) -> Receipt | None:
        channel, headers = self._channel, (CacheNotice(self.name),)
        if not isinstance(channel, AsyncChannel):
            raise TypeError("with a JChannel: cache.invalidate(...), cache.clear()")
        if until is not None:
            return await channel.send_until(channel.checked_until(until, None, 0), data, 0, headers, timeout, True)
        await channel.room(timeout)
        channel.connection().sends.put(None, data, 0, headers, NOW)
        return None

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """Counters; `bytes` and `values` that are kept."""
        return {**self._core.counters, "bytes": self._core.nbytes, "values": len(self._core.entries)}

    # --- inside rounds ----------------------------------------------------------------------------------------------

    def receive(self, payloads: Iterable[bytes]) -> None:
        """Notices of members, of this one too."""
        for payload in payloads:
            try:
                message: CacheMessage = MESSAGES.decode(payload, self._interner)
            except WireError as error:
                self._core.counters.drop("malformed", f"a notice for the cache {self.name!r}: {error}")
                self.missed_notices()                        # it may have named any key
                continue
            with self._lock:
                if isinstance(message, ForgetKeys):
                    self._core.forget(message.keys)
                elif isinstance(message, ForgetAll):
                    self._core.clear()

    def missed_notices(self) -> None:
        """Forget everything."""
        with self._lock:
            self._core.clear()

    def connection_changed(self, connected: bool) -> None:
        """Notices arrive from now on, or not any more."""
        with self._lock:
            if connected:
                self._core.connected()
            elif self._core.open:
                self._core.disconnected()
