"""MqttServer: an MQTT broker on sockets of asyncio: TCP, TLS and WebSocket, IPv4 and IPv6.

    async with MqttServer(BrokerOptions(node_name="node1"), [ListenAddress("127.0.0.1", 1883)]) as server:
        await server.ended

Bytes are decoded and given to the pure `Broker`, whose outputs are carried out (`settle`). All packets for one client
in one round of the event loop are one write. Limits keep one client from slowing down the others:

    reading     64 KB at once, given to the broker in pieces; after many deliveries the rest waits for the next round
    writing     with more unsent bytes than `write_high_bytes` messages wait in the session's queue, which is bounded
                by its policy (options.py); above `unread_bytes` nothing is read from the client
    connecting  a number of clients, a time for CONNECT and the TLS handshake, passwords checked in threads
    ending      `close_timeout_s` for what was sent to arrive

An exception that one connection causes closes that connection, and is counted and logged; the process goes on.
"""
from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from secrets import randbits
from time import monotonic_ns
from types import TracebackType

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.counters import SERVER_COUNTERS
from jgroups_py.blocks.mqtt.broker.deadlines import Deadlines
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import (
    CloseConnection,
    MoreToSend,
    Output,
    PauseReading,
    SendAcks,
    SendPacket,
    SendPublish,
)
from jgroups_py.blocks.mqtt.broker.ports import Authorizer, Federation, SlowAuthorizer
from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.broker.retained import RetainedStore
from jgroups_py.blocks.mqtt.codec.decoder import DecodeLimits, Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode, encode_acks
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, MqttError, Packet, ReasonCode
from jgroups_py.blocks.mqtt.server.client_socket import ClientSocket, NotRead
from jgroups_py.blocks.mqtt.server.listen import ListenAddress, SocketLimits
from jgroups_py.blocks.mqtt.server.listeners import bind, guard_half_open, tls_context
from jgroups_py.blocks.mqtt.server.websocket import WebSocketError, WebSocketStream
from jgroups_py.model.counters import Counters, table
from jgroups_py.model.text import place

log = logging.getLogger(__name__)
MUCH_UNFINISHED = 1_000
"""So many bytes of an incomplete packet count for keep alive as a packet does; fewer do not."""


class MqttServer:
    """See the module. All methods are for the thread of the event loop.

    After each call of `broker`, call `settle`. seed: for the client ids that the broker assigns.
    """

    COUNTERS = SERVER_COUNTERS

    def __init__(
        self, options: BrokerOptions | None = None, listeners: Sequence[ListenAddress] = (ListenAddress(),), *,
        limits: SocketLimits | None = None, authorizer: Authorizer | None = None,
        federation: Federation | None = None, retained: RetainedStore | None = None, seed: int | None = None,
    ) -> None:
        self.options = options or BrokerOptions()
        self.limits = limits or SocketLimits()
        self.listeners = tuple(listeners)
        self.broker = Broker(self.options, Random(randbits(64) if seed is None else seed), now_ns=monotonic_ns(),
                             authorizer=authorizer, federation=federation, retained=retained)
        self.counters = Counters(table(SERVER_COUNTERS))
        self.read_buffer = memoryview(bytearray(self.limits.read_bytes))
        self.addresses: list[ListenAddress] = []         # with the ports that were found for port 0
        self._slow = authorizer if isinstance(authorizer, SlowAuthorizer) else None
        self._passwords: ThreadPoolExecutor | None = None
        self._waiting_passwords = 0
        self._decode_limits = DecodeLimits(packet_bytes=self.options.max_packet_bytes)
        self._names: dict[bytes, str] = {}
        self._clients: dict[int, ClientSocket] = {}      # that the broker knows
        self._ending: dict[ClientSocket, None] = {}      # closed by the broker, not yet by the network
        self._numbers = 0
        self._written: list[ClientSocket] = []           # that have something to send in this round
        self._pumped: dict[ClientSocket, None] = {}      # that get more when this has left
        self._is_flush_due = False
        self._round_outputs = 0
        self._piece = self.limits.piece_packets
        self._deadlines = Deadlines()
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_stopping = False

    # --- begin and end ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> MqttServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.addresses[0].port

    async def start(self, *, accepts: bool = True) -> None:
        """Listen. With `accepts` false clients that connect wait, without an answer, until `accept`.

        Raises:
            ConfigError: a port is in use, an address is none of this machine, a certificate cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        try:
            for address in self.listeners:
                await self._listen(address, accepts)
        except BaseException:
            self._stop_listening()
            raise
        self.settle()

    async def accept(self) -> None:
        """Serve the clients that wait, and all that come."""
        for server in self._servers:
            await server.start_serving()

    async def _listen(self, address: ListenAddress, accepts: bool) -> None:
        context = None if address.tls is None else tls_context(address.tls)
        if address.websocket_path is not None:
            WebSocketStream(address.websocket_path, 1, 1)   # now, not at the first client: the library may be missing
        sockets = bind(address)
        found = ListenAddress(address.host, sockets[0].getsockname()[1], address.tls, address.websocket_path)
        for each in sockets:
            self._servers.append(await self._loop.create_server(
                lambda: self._new_client(found), sock=each, ssl=context, start_serving=accepts,
                ssl_handshake_timeout=None if context is None else self.limits.handshake_timeout_s,
                ssl_shutdown_timeout=None if context is None else self.limits.close_timeout_s))
        self.addresses.append(found)

    async def stop(self) -> None:
        """Send all clients DISCONNECT ("server shutting down"), publish wills, and wait until all has arrived."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._stop_listening()
        self.broker.shutdown(monotonic_ns())
        self.settle()
        self._flush()
        if self._ending:
            try:
                await asyncio.wait_for(self._gone.wait(), self.limits.close_timeout_s)
            except TimeoutError:
                self._abort_all()
        for task in list(self._tasks):
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._passwords is not None:
            self._passwords.shutdown(wait=False, cancel_futures=True)
        if not self.ended.done():
            self.ended.set_result(None)

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _abort_all(self) -> None:
        self.counters.add("closed_unsent", len(self._ending))
        for client in list(self._ending):
            client.abort()

    # --- connections --------------------------------------------------------------------------------------------------

    async def connect_inside(self) -> socket.socket:
        """Connect a client inside this process; returns its end of a pair of sockets."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        await self._loop.connect_accepted_socket(lambda: self._new_client(ListenAddress()), ours)
        return theirs

    def _new_client(self, address: ListenAddress) -> ClientSocket:
        """The protocol object of a new connection. `made` follows; with TLS, after the handshake."""
        if address.tls is not None:
            self.counters.add("tls_begun")
        websocket = None
        if address.websocket_path is not None:
            websocket = WebSocketStream(address.websocket_path, self.options.max_packet_bytes,
                                        self._decode_limits.connect_bytes)
        return ClientSocket(self, Decoder(limits=self._decode_limits, names=self._names), websocket)

    def made(self, client: ClientSocket) -> None:
        """A connection is ready."""
        self._numbers += 1
        client.number = self._numbers
        transport = client.transport
        assert transport is not None, "connection_made sets it"
        address = transport.get_extra_info("peername")
        client.peer = place(*address[:2]) if address else ""
        self.counters.add("accepted")
        transport.set_write_buffer_limits(self.limits.write_high_bytes, self.limits.write_low_bytes)
        with suppress(OSError):                          # it may be gone already
            guard_half_open(transport.get_extra_info("socket"))
        if self._is_stopping:
            client.abort()
            return
        self._clients[client.number] = client
        self.broker.connected(client.number, monotonic_ns(), client.peer)
        self.settle()

    def lost(self, client: ClientSocket) -> None:
        """A connection has ended; its end may be reported twice."""
        self._ending.pop(client, None)
        if self._clients.pop(client.number, None) is not None:
            self._guarded(client, lambda: self.broker.lost(client.number, monotonic_ns()))
            self.settle()
        client.backlog.clear()
        client.parts.clear()
        if self._is_stopping and not self._ending:
            self._gone.set()

    def _guarded(self, client: ClientSocket, do: Callable[[], None]) -> None:
        """Run `do`; an exception in it ends this connection only."""
        try:
            do()
        except Exception:
            self.counters.add("exceptions")
            log.exception("the connection of %s is closed: an error in the broker", client.peer)
            self._clients.pop(client.number, None)
            client.abort()
            try:
                self.broker.lost(client.number, monotonic_ns())
            except Exception:
                log.exception("the session of %s could not be put in order", client.peer)

    # --- reading ------------------------------------------------------------------------------------------------------

    def received(self, client: ClientSocket, data: bytes) -> None:
        """Bytes came."""
        if client.number in self._clients:
            self._guarded(client, lambda: self._decode(client, data))
            self.settle()

    def _decode(self, client: ClientSocket, data: bytes) -> None:
        if client.websocket is not None:
            try:
                data = client.websocket.receive(data)
            except WebSocketError as error:
                self._not_websocket(client, error)
                return
            self._will_write(client)                     # the WebSocket may have to answer
            if not data:
                return
        try:
            packets = client.decoder.feed(data)
        except MqttError as error:
            packets, client.error = error.packets, error
        if client.backlog or client.error is not None or not client.is_greeted or len(packets) > self._piece:
            client.backlog += packets
            self._work_off(client)
        elif packets or client.decoder.pending_bytes >= MUCH_UNFINISHED:
            self.broker.received(client.number, packets, monotonic_ns())

    def _not_websocket(self, client: ClientSocket, error: WebSocketError) -> None:
        self.counters.add("websocket_ended")
        log.info("WebSocket of %s: %s", client.peer, error)
        self.broker.lost(client.number, monotonic_ns())
        del self._clients[client.number]
        self._end(client)

    def _work_off(self, client: ClientSocket) -> None:
        """Give the broker the client's backlog, piece by piece, as long as the client is not paused."""
        number = client.number
        while number in self._clients and not client.not_read:
            if client.backlog:
                if not client.is_greeted and self._waits_for_password(client, client.backlog[0]):
                    return
                client.greet()
                piece = client.backlog[:self._piece]
                del client.backlog[:self._piece]
                before = self._round_outputs
                self.broker.received(number, piece, monotonic_ns())
                self.settle()
                made = self._round_outputs - before
                self._piece = _next_piece(self._piece, made, self.limits)
                if self._round_outputs > self.limits.round_outputs and client.backlog:
                    client.pause(NotRead.TURN)
                    self._loop.call_soon(self._next_turn, client)
            elif client.error is not None:
                self.broker.failed(number, client.error, monotonic_ns())
                self.settle()
                return
            else:
                return

    def _next_turn(self, client: ClientSocket) -> None:
        self._flush()
        client.resume(NotRead.TURN)
        self._guarded(client, lambda: self._work_off(client))
        self.settle()

    # --- passwords ----------------------------------------------------------------------------------------------------

    def _waits_for_password(self, client: ClientSocket, connect: Packet) -> bool:
        """Whether a CONNECT has to wait until a thread has checked its password."""
        if self._slow is None or not isinstance(connect, ConnectPacket):
            return False
        work = self._slow.work(connect)
        if work is None:
            return False
        if self._waiting_passwords >= self.limits.waiting_passwords:
            self.counters.add("refused_passwords")
            self.broker.failed(client.number, MqttError(ReasonCode.SERVER_BUSY, "too many passwords to check"),
                               monotonic_ns())
            return True
        self._waiting_passwords += 1
        client.pause(NotRead.PASSWORD)
        self._do_later(self._check_password(client, connect, work))
        return True

    async def _check_password(self, client: ClientSocket, connect: ConnectPacket, work: Callable[[], object]) -> None:
        if self._passwords is None:
            self._passwords = ThreadPoolExecutor(self.limits.password_threads, "mqtt-passwords")
        try:
            result = await self._loop.run_in_executor(self._passwords, work)
        finally:
            self._waiting_passwords -= 1
        assert self._slow is not None, "it gave the work"
        self._slow.worked(connect, result)
        client.greet()
        client.resume(NotRead.PASSWORD)
        self._guarded(client, lambda: self._work_off(client))
        self.settle()

    def _do_later(self, what: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(what)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            self.counters.add("exceptions")
            log.error("an error in the broker", exc_info=task.exception())

    # --- writing ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out the broker's outputs, and set the timer."""
        outputs = self.broker.drain()
        if outputs:
            self._round_outputs += len(outputs)
            self._carry_out(outputs)
            if self._round_outputs > self.limits.round_outputs:
                self._flush()
        next_ns = self.broker.next_deadline_ns()
        if next_ns is not None and (next_ns < self._timer_ns or not self._timer_ns):
            self._set_timer(next_ns)

    def _carry_out(self, outputs: list[Output]) -> None:
        clients, written = self._clients, self._written
        for output in outputs:
            client = clients.get(output.connection)
            if client is None:
                continue
            if output.__class__ is SendPublish:
                data = output.frames.frame(output.qos, output.packet_id, output.retain, output.dup)
            elif output.__class__ is SendPacket:
                data = encode(output.packet, output.version)
            elif output.__class__ is SendAcks:
                data = encode_acks(output.kind, output.packet_ids)
            elif output.__class__ is CloseConnection:
                del clients[output.connection]
                log.debug("closing %s: %s (%s)", client.peer, output.detail, output.reason.name)
                self._end(client)
                continue
            elif output.__class__ is PauseReading:
                client.pause(NotRead.BROKER)
                continue
            elif output.__class__ is MoreToSend:
                self._pumped[client] = None
                self._will_write(client)
                continue
            else:
                client.resume(NotRead.BROKER)
                if client.backlog:
                    self._loop.call_soon(self._next_turn, client)
                continue
            if not client.parts:
                written.append(client)
            client.parts.append(data)
        if written and not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _will_write(self, client: ClientSocket) -> None:
        if not client.parts:
            client.parts.append(b"")
            self._written.append(client)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """The end of a round: one write for each client."""
        self._is_flush_due = False
        self._round_outputs = 0
        written, self._written = self._written, []
        for client in written:
            if client.parts and client.write() > self.limits.unread_bytes and not client.not_read & NotRead.UNREAD:
                self.counters.add("unread_pauses")
                client.pause(NotRead.UNREAD)
            if client in self._ending:
                client.close()
        if self._pumped:
            pumped, self._pumped = self._pumped, {}
            for client in pumped:
                if client.unsent_bytes <= self.limits.write_high_bytes:
                    self.write_ready(client)             # else asyncio calls it

    def _end(self, client: ClientSocket) -> None:
        """Close when all is sent, or after `close_timeout_s`."""
        client.pause(NotRead.ENDING)
        client.backlog.clear()
        self._ending[client] = None
        self._will_write(client)
        at_ns = monotonic_ns() + round(self.limits.close_timeout_s * SECOND)
        self._deadlines.set(at_ns, lambda now_ns: self._cut(client))
        if not self._timer_ns or at_ns < self._timer_ns:
            self._set_timer(at_ns)

    def _cut(self, client: ClientSocket) -> None:
        if client in self._ending:
            self.counters.add("closed_unsent")
            client.abort()

    def write_blocked(self, client: ClientSocket) -> None:
        """More than `write_high_bytes` are unsent: the session queues."""
        self.counters.add("write_pauses")
        self.broker.write_blocked(client.number)

    def write_ready(self, client: ClientSocket) -> None:
        """Few bytes are unsent: the session sends again."""
        client.resume(NotRead.UNREAD)
        self._guarded(client, lambda: self.broker.write_ready(client.number, monotonic_ns()))
        if client.backlog:
            self._loop.call_soon(self._next_turn, client)
        self.settle()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _set_timer(self, at_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = at_ns
        self._timer = self._loop.call_later(max(0, at_ns - monotonic_ns()) / SECOND, self._tick)

    def _tick(self) -> None:
        now_ns = monotonic_ns()
        self._timer, self._timer_ns = None, 0
        self._deadlines.run(now_ns)
        self.broker.tick(now_ns)
        own_ns = self._deadlines.next_ns()
        if own_ns is not None:
            self._set_timer(own_ns)
        self.settle()


def _next_piece(piece: int, outputs: int, limits: SocketLimits) -> int:
    """The number of packets to give to the broker next: fewer while they cause many deliveries.

    >>> limits = SocketLimits(piece_packets=64, round_outputs=1000)
    >>> _next_piece(64, 64_000, limits), _next_piece(1, 1_000_000, limits), _next_piece(16, 10, limits)
    (32, 1, 32)
    """
    if outputs > limits.round_outputs:
        return max(1, piece // 2)
    return min(limits.piece_packets, piece * 2)
