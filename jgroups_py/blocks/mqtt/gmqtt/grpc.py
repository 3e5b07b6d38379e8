"""GmqttFederation: the I/O of GmqttLink. Serf for the membership, gRPC by grpcio (extra [gmqtt]) for the events.

    link = GmqttLink(GmqttOptions(name="node3"), Random(), retained)
    server = MqttServer(..., federation=link, retained=retained)
    link.attach(server.broker)
    async with server, GmqttFederation(link, GmqttPlaces(...), server.settle):
        ...

The methods are for the thread of the event loop; Serf's stack has threads of its own and reports through that loop.
Calls use no generated stubs: messages are bytes, which the link encodes and decodes. There is one connection for each
peer and direction, as in gmqttd.
"""
from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic_ns
from types import TracebackType
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.gmqtt.link import (
    EndIncoming,
    EndOutgoing,
    GmqttLink,
    GmqttRefusal,
    RejoinSerf,
    SayHello,
    SendEvents,
)
from jgroups_py.blocks.mqtt.server.dial import LEFT, dial_all, place_text
from jgroups_py.blocks.mqtt.server.rest import JoinFailed
from jgroups_py.blocks.swim_membership import Membership, MembershipListener
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import ChannelError, ConfigError, WireError
from jgroups_py.model.swim_member import Accusation, Member

try:
    import grpc
    import grpc.aio
except ImportError:                                          # reported when a federation is made without the extra
    grpc = None

log = logging.getLogger(__name__)
SERVICE = "gmqtt.federation.api.Federation"
HELLO, EVENT_STREAM = f"/{SERVICE}/Hello", f"/{SERVICE}/EventStream"
NODE_NAME = "node_name"
TAG, GROUP_TAG = "fed_addr", "jg"
STACK = "serf"
CLUSTER = "gmqtt"
HELLO_SECONDS = 5.0
SETTLE_SECONDS = 10.0
"""After joining Serf again, a member that was not seen for so long counts as failed."""
MAX_MESSAGE_BYTES = 256 << 20
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES), ("grpc.max_receive_message_length", 1 << 20))
SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 64), ("grpc.max_metadata_size", 8 << 10))


@attrs.frozen(kw_only=True)
class GmqttPlaces:
    """Addresses of this node, each (host, port); host "": all addresses, which needs an advertised one. advertise_*: as
    given to other nodes, by default the same. join: gossip addresses of other nodes."""

    fed: PhysicalAddress
    gossip: PhysicalAddress
    advertise_fed: PhysicalAddress | None = None
    advertise_gossip: PhysicalAddress | None = None
    join: tuple[PhysicalAddress, ...] = ()
    group: str = ""
    """The group that this node is in too, "" for none: members with this tag need no link of gmqtt."""
    properties: dict[str, object] = attrs.field(factory=dict)
    """More properties of the stack "serf", as encrypt or profile."""

    def __attrs_post_init__(self) -> None:
        for bound, advertised, name in ((self.fed, self.advertise_fed, "fed_addr"),
                                        (self.gossip, self.advertise_gossip, "gossip_addr")):
            if not (advertised or bound)[0]:
                raise ConfigError(f"{name} listens at all addresses: set advertise_{name} to what others can reach")


class GmqttFederation(MembershipListener):
    """See the module. settle: carries out the broker's outputs after a call of it."""

    def __init__(self, link: GmqttLink, places: GmqttPlaces, settle: Callable[[], None]) -> None:
        if grpc is None:
            raise ConfigError("the link to gmqtt needs gRPC: pip install 'jgroups_py[gmqtt]'")
        self.link = link
        self.places = places
        self.rejoining: asyncio.Task[None] | None = None
        self.has_left = False                            # for good, by `leave`
        self.changed: Callable[[], None] = lambda: None  # is called when members have come or gone
        self._settle = settle
        self._membership: Membership | None = None
        self._last_members: tuple[Member, ...] = ()
        self._server: Any = None
        self._calls: dict[str, OutgoingCall] = {}
        self._streams: dict[int, asyncio.Task[Any]] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    # --- begin and end ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> GmqttFederation:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, and join Serf.

        Raises:
            ConfigError, ChannelClosedError: an address cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {
            "Hello": grpc.unary_unary_rpc_method_handler(self._on_hello),
            "EventStream": grpc.stream_stream_rpc_method_handler(self._on_stream)}),))
        host, port = self.places.fed
        try:
            bound = self._server.add_insecure_port(place_text((host or "0.0.0.0", port)))
        except RuntimeError as error:
            raise ConfigError(f"fed_addr {place_text(self.places.fed)}: {error}") from None
        if port not in (0, bound):
            raise ConfigError(f"fed_addr {place_text(self.places.fed)}: it is in use by another process")
        self.fed_port = bound
        await self._server.start()
        self.link.wake = self.wake
        try:
            await self._join_serf(self.places.join)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave Serf, end all calls."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.link.wake = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        await self._leave_serf()
        for call in self._calls.values():
            call.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(0.5)

    async def _join_serf(self, places: Iterable[PhysicalAddress]) -> None:
        host, port = self.places.gossip
        fed_host, fed_port = self.places.advertise_fed or self.places.fed
        fed = fed_host, fed_port or self.fed_port
        own_group = f",{GROUP_TAG}={self.places.group}" if self.places.group else ""
        properties: dict[str, object] = {
            "bind_addr": host or "0.0.0.0", "bind_port": port, "tags": f"{TAG}={place_text(fed)}{own_group}",
            **self.places.properties}
        if self.places.advertise_gossip is not None:
            host, port = self.places.advertise_gossip
            properties |= {"external_addr": host, "external_port": port}
        made = Membership(STACK, self.link.options.name, properties, self)
        await self._loop.run_in_executor(None, lambda: made.join(CLUSTER, tuple(places)))
        self._membership = made

    async def _leave_serf(self) -> None:
        membership, self._membership = self._membership, None
        if membership is not None:
            with suppress(ChannelError):
                self._last_members = membership.members()
            await self._loop.run_in_executor(None, membership.leave)

    # --- for operators ------------------------------------------------------------------------------------------------

    async def members(self) -> list[dict[str, Any]]:
        """All members that Serf knows, this one first: name, addr, tags, status, as gmqtt's REST has them."""
        membership = self._membership
        if membership is not None:
            with suppress(ChannelError):                 # it leaves
                self._last_members = await self._loop.run_in_executor(None, membership.members)
        return [{
            "name": member.name, "addr": place_text(member.place), "tags": dict(member.tags),
            "status": "STATUS_LEFT" if self.has_left and member.name == self.link.options.name
            else STATUSES[member.state]} for member in self._last_members]

    async def join(self, places: Sequence[PhysicalAddress]) -> None:
        """Join the federation that the nodes at these gossip places are in; one that answers is enough.

        Raises:
            JoinFailed: none of them can be reached.
        """
        if self._membership is None:
            raise JoinFailed(LEFT)
        self._membership.look_at(list(await dial_all(places)))

    async def leave(self) -> None:
        """Leave Serf for good: other nodes see it as left. It can be joined again after a restart only."""
        self.has_left = True
        await self._leave_serf()
        now_ns = monotonic_ns()
        for name in list(self.link.peers):
            self.link.member_left(name, now_ns)
        self.changed()
        self.wake()

    def force_leave(self, name: str) -> None:
        """A member that failed counts as left."""
        if self._membership is not None:
            self._membership.force_leave(name)

    def report(self) -> list[dict[str, Any]]:
        """Each peer, for JSON."""
        return self.link.report()

    def where(self, client_id: str) -> dict[str, Any] | None:
        """None: nodes of gmqtt do not exchange where sessions are."""
        return None

    async def sites(self, topic: str) -> dict[str, Any]:
        """Empty: gmqtt has no sites."""
        return {"site": "", "relay": None, "sites": []}

    def sites_for(self, topic: str) -> dict[str, Any]:
        """There are no sites."""
        return {}

    def interest_in(self, topic: str) -> Mapping[str, Sequence[str]]:
        """Peer -> its filters that match."""
        return self.link.interest_in(topic)

    @property
    def counters(self) -> Counters:
        """Counters of the link."""
        return self.link.counters

    # --- Serf, on a thread of its own ---------------------------------------------------------------------------------

    def joined(self, member: Member) -> None:
        self._later(self._member_up, member)

    def updated(self, member: Member) -> None:
        self._later(self._member_up, member)

    def failed(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        self._later(self.link.member_failed, member.name)

    def left(self, member: Member) -> None:
        self._later(self.link.member_left, member.name)

    def _later(self, what: Callable[[Any, int], None], about: object) -> None:
        def now() -> None:
            if not self._is_stopped:
                what(about, monotonic_ns())
                self.changed()
                self.wake()
        with suppress(RuntimeError):                         # the loop is closed
            self._loop.call_soon_threadsafe(now)

    def _member_up(self, member: Member, now_ns: int) -> None:
        address = member.tags.get(TAG, "")
        is_in_group = self.places.group and member.tags.get(GROUP_TAG) == self.places.group
        if address and not is_in_group:
            self.link.member_up(member.name, address, now_ns)

    async def _rejoin(self, why: str) -> None:
        log.warning("%s leaves Serf and joins again: %s", self.link.options.name, why)
        await self._leave_serf()
        known = [member.place for member in self._last_members if member.state in UP and member.place is not None
                 and member.name != self.link.options.name]
        await self._join_serf(dict.fromkeys([*known, *self.places.join]))
        await asyncio.sleep(SETTLE_SECONDS)
        if self._membership is not None:
            alive = [member["name"] for member in await self.members() if member["status"] == "STATUS_ALIVE"]
            for name in [name for name in self.link.peers if name not in alive]:
                self.link.member_failed(name, monotonic_ns())
            self.wake()

    # --- outputs of the link ------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Carry out the link's outputs later in this round of the event loop."""
        if not self._is_due and not self._is_stopped:
            self._is_due = True
            self._loop.call_soon(self._carry_out)

    def _carry_out(self) -> None:
        self._is_due = False
        if self._is_stopped:
            return
        now_ns = monotonic_ns()
        due_ns = self.link.next_deadline_ns()
        if due_ns is not None and due_ns <= now_ns:
            self.link.tick(now_ns)
        for output in self.link.drain(now_ns):
            match output:
                case SayHello():
                    call = self._calls[output.peer] = OutgoingCall(self, output)
                    self._do(call.run())
                case SendEvents(peer, attempt, events):
                    if peer in self._calls and self._calls[peer].attempt == attempt:
                        self._calls[peer].send(events)
                case EndOutgoing(peer, attempt):
                    if peer in self._calls and self._calls[peer].attempt == attempt:
                        self._calls.pop(peer).close()
                case EndIncoming(_, stream):
                    task = self._streams.pop(stream, None)
                    if task is not None:
                        task.cancel()
                case RejoinSerf(why):
                    if (self.rejoining is None or self.rejoining.done()) and not self.has_left:
                        self.rejoining = self._do(self._rejoin(why))
        self._set_timer()
        self._settle()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self.link.next_deadline_ns()
        if due_ns is not None:
            self._timer = self._loop.call_later(max(0, due_ns - monotonic_ns()) / SECOND, self.wake)

    def _do(self, what: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(what)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s: an error in the link to gmqtt", self.link.options.name, exc_info=task.exception())

    # --- the server ---------------------------------------------------------------------------------------------------

    async def _on_hello(self, request: bytes, context: Any) -> bytes:
        name = await self._node_name(context)
        try:
            answer = self.link.hello(name, request, monotonic_ns())
        except GmqttRefusal as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        except WireError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        self.wake()
        return answer

    async def _on_stream(self, events: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        name = await self._node_name(context)
        try:
            stream = self.link.stream_began(name, monotonic_ns())
        except GmqttRefusal as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._streams[stream] = task
        self.wake()
        try:
            async for data in events:
                ack = self.link.event(name, stream, data, monotonic_ns())
                self.wake()
                if ack is not None:
                    yield ack
        except GmqttRefusal as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        finally:
            self._streams.pop(stream, None)
            self.link.stream_ended(name, stream, monotonic_ns())
            self.wake()

    async def _node_name(self, context: Any) -> str:
        for key, value in context.invocation_metadata() or ():
            if key == NODE_NAME and value:
                return str(value)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "EventStream: missing node_name metadata")
        raise AssertionError("abort raises")


class OutgoingCall:
    """One attempt of the link: Hello, then the stream, until it breaks or is closed."""

    def __init__(self, federation: GmqttFederation, wanted: SayHello) -> None:
        self.peer, self.attempt = wanted.peer, wanted.attempt
        self._federation = federation
        self._wanted = wanted
        self._waiting: deque[bytes] = deque()
        self._is_open = False
        self._more = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def send(self, events: Iterable[bytes]) -> None:
        """Write these events; the first call opens the stream."""
        self._waiting.extend(events)
        self._is_open = True
        self._more.set()

    def close(self) -> None:
        """Cancel the call."""
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Run the attempt until it ends, and report why."""
        self._task = asyncio.current_task()
        link = self._federation.link
        metadata = ((NODE_NAME, link.options.name),)
        why = "it ended the stream"
        try:
            async with grpc.aio.insecure_channel(self._wanted.address, options=CHANNEL_OPTIONS) as channel:
                answer = await channel.unary_unary(HELLO)(self._wanted.hello, metadata=metadata, timeout=HELLO_SECONDS)
                link.greeted(self.peer, self.attempt, answer, monotonic_ns())
                self._federation.wake()
                await self._more.wait()
                stream = channel.stream_stream(EVENT_STREAM)(metadata=metadata)
                await self._both(self._write(stream), self._read(stream))
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name}: {error.details()}"
        except (grpc.aio.UsageError, asyncio.InvalidStateError, OSError) as error:
            why = str(error)
        finally:                                             # in every case, else the link would be dead for good
            link.broke(self.peer, self.attempt, why, monotonic_ns())
            self._federation.wake()

    async def _both(self, *halves: Awaitable[None]) -> None:
        """Run both directions until one of them ends."""
        tasks = [asyncio.ensure_future(half) for half in halves]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, stream: Any) -> None:
        while True:
            while self._waiting:
                await stream.write(self._waiting.popleft())
            self._more.clear()
            await self._more.wait()

    async def _read(self, stream: Any) -> None:
        async for ack in stream:
            self._federation.link.acknowledged(self.peer, self.attempt, ack, monotonic_ns())
            self._federation.wake()


UP = ("alive", "suspect")
STATUSES = {"alive": "STATUS_ALIVE", "suspect": "STATUS_ALIVE", "left": "STATUS_LEFT", "failed": "STATUS_FAILED"}
