"""MosquittoSidecar: the I/O of MosquittoLink: a connection to mosquitto, one to the broker's server, and the clock.

    retained = WatchedRetained(options.max_retained)
    server = MqttServer(options, [], federation=core, retained=retained)
    core.attach(server.broker)
    options = MosquittoOptions(name="node1")
    link = MosquittoLink(options, server.broker, core.interest_of_peers, Random(), monotonic_ns())
    retained.changed = link.retained_changed
    async with server, MosquittoSidecar(link, server, "127.0.0.1", 1883) as sidecar:
        await sidecar.failed

The connection to the server is a pair of sockets inside the process. While one side's buffer is full, the other side is
not read, so mosquitto or the broker's session queues. All methods are for the thread of the event loop.
"""
from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from types import TracebackType
from typing import cast

from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.codec.decoder import DecodeLimits, Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import MqttError, Packet, ProtocolVersion, SentBy
from jgroups_py.blocks.mqtt.mosquitto.link import (
    CloseBoth,
    LinkFailed,
    MosquittoLink,
    MosquittoState,
    OpenBroker,
    OpenMosquitto,
    ToBroker,
    ToMosquitto,
)
from jgroups_py.blocks.mqtt.server.server import MqttServer
from jgroups_py.model.text import place

log = logging.getLogger(__name__)
V5 = ProtocolVersion.MQTT_5


class LinkEnd(asyncio.Protocol):
    """One of the two connections. Callbacks: `taken` with the packets of a read; `ended` with the reason; `full` with
    whether its write buffer is full."""

    def __init__(
        self, decoder: Decoder, taken: Callable[[list[Packet]], None], ended: Callable[[str], None],
        full: Callable[[bool], None],
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.parts: list[bytes] = []
        self._decoder = decoder
        self._taken = taken
        self._ended = ended
        self._full = full

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            packets = self._decoder.feed(data)
        except MqttError as error:
            self._taken(error.packets)
            self._ended(f"it does not send MQTT 5: {error}")
            return
        if packets:
            self._taken(packets)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended("the connection was closed" if exc is None else str(exc) or type(exc).__name__)

    def pause_writing(self) -> None:
        self._full(True)

    def resume_writing(self) -> None:
        self._full(False)

    def read(self, is_wanted: bool) -> None:
        """Resume or pause reading."""
        transport = self.transport
        if transport is not None and not transport.is_closing() and transport.is_reading() != is_wanted:
            (transport.resume_reading if is_wanted else transport.pause_reading)()

    def flush(self) -> None:
        """Write all packets of a round at once."""
        if self.parts and self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(self.parts))
        self.parts.clear()

    def close(self) -> None:
        """Send what is queued, then close; no callback follows."""
        self._ended = lambda why: None
        self._taken = lambda packets: None
        self._full = lambda is_full: None
        self.flush()
        if self.transport is not None:
            self.transport.close()


class MosquittoSidecar:
    """See the module. failed: resolves with the reason when the link has ended for good. tls: for the connection to
    mosquitto, None: plain TCP."""

    def __init__(
        self, link: MosquittoLink, server: MqttServer, host: str, port: int, tls: ssl.SSLContext | None = None,
    ) -> None:
        self.link = link
        self.server = server
        self.place = place(host, port)
        self._host, self._port, self._tls = host, port, tls
        self._mosquitto: LinkEnd | None = None
        self._broker: LinkEnd | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._is_stopped = False
        self._was_up = False
        self.linked: Callable[[], None] = lambda: None   # is called each time that the link is up

    async def __aenter__(self) -> MosquittoSidecar:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to connect. The server must have been started."""
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[str] = self._loop.create_future()
        self.link.wake = self._wake
        self._tick()

    async def stop(self) -> None:
        """Close both connections. mosquitto keeps the session of the link for a time."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.link.wake = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        self._close()
        if self._opening is not None:
            with suppress(asyncio.CancelledError):
                await self._opening
        self.failed.cancel()

    # --- outputs of the link ------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Settle later in this round of the event loop, once for all calls."""
        if not self._is_due and not self._is_stopped:
            self._is_due = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_due = False
        if self._is_stopped:
            return
        while outputs := self.link.drain(monotonic_ns()):
            for output in outputs:
                if output.__class__ is ToMosquitto:
                    if self._mosquitto is not None:
                        self._mosquitto.parts.append(encode(output.packet, V5))
                elif output.__class__ is ToBroker:
                    if self._broker is not None:
                        self._broker.parts.append(encode(output.packet, V5))
                elif isinstance(output, OpenMosquitto):
                    self._open(self._open_mosquitto())
                elif isinstance(output, OpenBroker):
                    self._open(self._open_broker())
                elif isinstance(output, CloseBoth):
                    log.warning("%s: the link is down: %s", self.place, output.why)
                    self._close()
                elif isinstance(output, LinkFailed) and not self.failed.done():
                    self.failed.set_result(output.why)
        for end in (self._mosquitto, self._broker):
            if end is not None:
                end.flush()
        is_up = self.link.state is MosquittoState.UP
        if is_up is not self._was_up:
            self._was_up = is_up
            if is_up:
                log.info("%s: the link is up", self.place)
                self.linked()
        self.server.settle()

    def _open(self, opening: object) -> None:
        self._opening = self._loop.create_task(opening)  # type: ignore[arg-type]

    async def _open_mosquitto(self) -> None:
        end = self._new_end(lambda packets: self.link.mosquitto_sent(packets, monotonic_ns()), lambda: self._broker)
        try:
            await self._loop.create_connection(lambda: end, self._host, self._port, ssl=self._tls)
        except OSError as error:
            self.link.broke(f"no connection to mosquitto: {error}", monotonic_ns())
        else:
            self._mosquitto = end
            self.link.mosquitto_opened(monotonic_ns())
        self._settle()

    async def _open_broker(self) -> None:
        end = self._new_end(lambda packets: self.link.broker_sent(packets, monotonic_ns()), lambda: self._mosquitto)
        made = await self.server.connect_inside()
        await self._loop.create_connection(lambda: end, sock=made)
        self._broker = end
        self.link.broker_opened(monotonic_ns())
        self._settle()

    def _new_end(self, sent: Callable[[list[Packet]], None], other: Callable[[], LinkEnd | None]) -> LinkEnd:
        def taken(packets: list[Packet]) -> None:
            sent(packets)
            self._settle()

        def ended(why: str) -> None:
            self.link.broke(why, monotonic_ns())
            self._settle()

        def full(is_full: bool) -> None:
            source = other()
            if source is not None:
                source.read(not is_full)
        limits = DecodeLimits(packet_bytes=self.link.options.max_packet_bytes)
        return LinkEnd(Decoder(SentBy.SERVER, V5, limits), taken, ended, full)

    def _close(self) -> None:
        if self._opening is not None and self._opening is not asyncio.current_task(self._loop):
            self._opening.cancel()
        for end in (self._mosquitto, self._broker):
            if end is not None:
                end.close()
        self._mosquitto = self._broker = None

    # --- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_stopped:
            return
        now_ns = monotonic_ns()
        self.link.tick(now_ns)
        self._settle()
        wait_s = max(0.001, (self.link.next_deadline_ns() - monotonic_ns()) / SECOND)
        self._timer = self._loop.call_later(wait_s, self._tick)
