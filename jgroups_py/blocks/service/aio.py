"""AsyncServices: the services of an AsyncChannel, and calls of those of other members.

    services = AsyncServices(ch)
    services.serve(Orders())
    orders = services.any(Orders, timeout=2.0)               # to mypy an Orders, whose methods are called at a member
    order = await orders.find(7)

A handler runs as a task, unless it is declared with plain `def`: then it runs at once, in order with the receiver's
calls, and must not take long. Its task is cancelled when its caller gives up, leaves, or has no time left.
"""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from jgroups_py.blocks.rpc.aio import AsyncRpc
from jgroups_py.blocks.rpc.calls import NEVER_NS, Call, Mode
from jgroups_py.blocks.rpc.hub import SWEEP_NS
from jgroups_py.blocks.rpc.serving import LATER, Request
from jgroups_py.blocks.service.base import (
    CURRENT,
    MAX_BYTES,
    MAX_RUNNING,
    MAX_STREAMS,
    SERVICE,
    TIMEOUT_SECONDS,
    WINDOW,
    BaseServices,
    CallContext,
    OnceRequest,
    Served,
    T,
    TypedAnswers,
    cancel_bytes,
    flags_of,
    milliseconds,
    pull_bytes,
    seconds_of,
    spec_of_function,
    stub_of,
)
from jgroups_py.blocks.service.directory import PAUSE_NS, CallPlan, Choice, Reach
from jgroups_py.blocks.service.interface import MethodSpec
from jgroups_py.blocks.service.messages import (
    CALL,
    CALL_HEAD,
    CALL_ONCE,
    CANCELLED,
    NO_STREAM,
    OPEN,
    OPEN_HEAD,
    OVERLOADED,
    PULL,
    decode_items,
)
from jgroups_py.blocks.service.streams import StreamBuffer
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import (
    AnswerError,
    ChannelError,
    ConfigError,
    MemberLeftError,
    RemoteError,
    RequestError,
    RequestTimeoutError,
    WireError,
)
from jgroups_py.model.units import NS_PER_S
from jgroups_py.runtime.send_queue import NOW

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
CallKey = tuple[Address, int]                # the member that called, and the number of its request
GIVEN_UP = (asyncio.CancelledError, RequestTimeoutError, MemberLeftError)        # nothing waits for an answer any more


class Begun:
    """What a coroutine awaits to be resumed by the task that is made of it, as with `asyncio.sleep(0)`."""

    def __await__(self) -> Generator[None, None, None]:
        yield


BEGUN = Begun()


class CallingRpc(AsyncRpc):
    """AsyncRpc whose requests are cancelled at the other member when nothing waits for them any more."""

    tell: Callable[[Address | None, bytes], None]
    give_up: Callable[[Address, int], None]

    async def ask(self, dest: Address, payload: bytes, timeout: float | None, flags: int) -> tuple[bytes, int]:
        """The answer of a request, and its number."""
        if not self._async_channel.connection().sends.has_room():
            timeout = await self.room_within(timeout)
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call = self._send_one(dest, payload, flags, timeout, waiter, NOW)
        try:
            return await waiter, call.numbers[0]
        except GIVEN_UP:
            self.given_up(dest, payload, call)
            raise

    def given_up(self, dest: Address, payload: bytes, call: Call) -> None:
        """Nothing waits for the answer any more."""
        self._calls.forget(call)
        if payload[0] != CALL_ONCE:                          # which outlives that its caller is away
            self.give_up(dest, call.numbers[0])

    async def ask_all(self, payload: bytes, mode: Mode, timeout: float | None, flags: int) -> Any:
        """The Answers of a request to all members of the group."""
        if not self._async_channel.connection().sends.has_room():
            timeout = await self.room_within(timeout)
        waiter = asyncio.get_running_loop().create_future()
        call = self._send_many(None, payload, flags, mode, timeout, waiter, NOW)
        assert call is not None, "all members are destinations"
        try:
            return await waiter
        except asyncio.CancelledError:
            self._calls.forget(call)
            for number in call.numbers:
                self.tell(None, cancel_bytes(number))
            raise

    async def room_within(self, timeout: float | None) -> float | None:
        """Await room in the send queue; returns what is left of the timeout."""
        channel, events = self._async_channel, asyncio.get_running_loop()
        began_s, limits = events.time(), [one for one in (timeout, channel.send_timeout) if one is not None]
        await channel.room(min(limits, default=None))
        return None if timeout is None else max(0.0, timeout - (events.time() - began_s))


class StreamTask:
    """A stream that this member gives: a task that produces items as far as they are pulled."""

    def __init__(self, services: AsyncServices, served: Served, items: Any, window: int) -> None:
        self.buffer = StreamBuffer(window)
        self.served = served
        self._services = services
        self._items = items
        self._room = asyncio.Event()
        self._flushing = False

    async def run(self, context: CallContext) -> None:
        """Produce the items."""
        CURRENT.set(context)
        buffer, items = self.buffer, self._items
        try:
            async for item in items:
                buffer.add(self._services.encoded(self.served, item))
                self.flush_soon()
                while buffer.full:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:                           # noqa: BLE001  of the application
            raised = error
            buffer.end(lambda pull: self._services.raised(pull, self.served, raised))
        else:
            buffer.end(None)
        finally:
            self.flush_soon()
            if hasattr(items, "aclose"):
                await items.aclose()

    def cancelled(self) -> None:
        """Its task was cancelled, perhaps before it began."""
        self.buffer.end(lambda pull: pull.refuse(CANCELLED, "the member cancelled the stream"))
        self.flush()

    def pulled(self, request: Request) -> bool:
        """The caller wants items; False: it waits for some already."""
        if not self.buffer.pulled(request):                
            return False
        self.flush()
        return True

    def flush_soon(self) -> None:
        """Answer a pull that waits with all that is produced in this turn of the event loop."""
        if self.buffer.waits and not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Answer the pull that waits."""
        self._flushing = False
        self.buffer.flush()
        if not self.buffer.full:
            self._room.set()
        if self.buffer.closed:
            self._services.stream_closed(self)


class AsyncServices(BaseServices):
    """The services of an AsyncChannel: those that it serves, and stubs for those of all members.

    max_bytes: of the arguments of a call that is served, and of a result or an item that is taken; larger ones are
    refused before they are decoded. number: of blocks/rpc, the same at all members; for two of these on one channel.
    """

    takes_coroutines = True
    _sweeper: asyncio.TimerHandle | None

    def __init__(self, channel: AsyncChannel, *, max_bytes: int | str = MAX_BYTES, number: int = SERVICE) -> None:
        """May be made before or after the channel connects; lives as long as the channel.

        Raises:
            ValueError: the channel has services of this number already.
        """
        self.rpc: CallingRpc = CallingRpc(channel, self.handle, number)
        self.rpc.tell, self.rpc.give_up = self.tell, self.give_up
        self._async = channel
        self._running: dict[CallKey, tuple[asyncio.Task[None], Served, bool]] = {}
        self._streams: dict[CallKey, tuple[asyncio.Task[None], StreamTask]] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}             # calls that wait for a member to ask
        self._ends: dict[CallKey, int] = {}                  # of what has a deadline
        self._sweep_ns, self._sweeper = NEVER_NS, None
        super().__init__(channel, number, max_bytes)

    # --- calling ----------------------------------------------------------------------------------------------------

    def all(
        self, function: Callable[Concatenate[S, P], Awaitable[R]], *, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS,
    ) -> Callable[P, Awaitable[TypedAnswers[R]]]:
        """A method of all members of the group at once: `await services.all(Orders.find)(7)`.

        mode: whose answers are waited for, see blocks/rpc; members that fail do not count. Nothing is tried again.

        Raises:
            TypeError: it is no method of a Service class, or gives a stream.
        """
        spec, wanted = spec_of_function(function), Mode(mode)
        if wanted is Mode.NONE:
            raise ValueError("a call has answers: mode FIRST, MAJORITY or ALL")

        async def call(*args: P.args, **named: P.kwargs) -> TypedAnswers[R]:
            data = spec.arguments.encode(args, named)
            now_ns = self._async.connection().clock_ns()
            left_ns = self.deadline_ns(timeout, now_ns) - now_ns
            payload = CALL_HEAD.pack(CALL, spec.key, milliseconds(left_ns)) + data
            found = await self.rpc.ask_all(payload, wanted, seconds_of(left_ns), flags_of(spec))
            return self.answers(spec, found)
        return call

    def context_of(self, request: Request) -> CallContext | Request:
        return request

    def stats(self) -> dict[str, int]:
        """Counters: calls_served, calls_refused, running, streams, ..., and those of the requests."""
        return self.statistics(len(self._running), len(self._streams))

    def stub(self, interface: type[T], choice: Choice, timeout: float | None) -> T:
        def method_of(spec: MethodSpec) -> Callable[..., Any]:
            if not spec.coroutine:
                raise ConfigError(f"{spec.label} is declared with `def`: stubs on an AsyncChannel are of an interface "
                                  "with `async def` (streams: AsyncIterator); the server's class may differ in that")
            if spec.stream:
                return lambda stub, *args, **named: self._read(
                    spec, choice, timeout, spec.arguments.encode(args, named))
            if choice.reach is Reach.AT and not spec.options.once:
                member = choice.member
                assert member is not None, "at() has one"
                return self._direct(spec, member, timeout)
            return lambda stub, *args, **named: self._plan(
                spec, choice, timeout, spec.arguments.encode(args, named))
        return stub_of(interface, method_of)

    # --- calls ------------------------------------------------------------------------------------------------------

    def _direct(self, spec: MethodSpec, member: Address, timeout: float | None) -> Callable[..., Any]:
        """The method of a stub of one member: a call is tried once."""
        arguments, flags, rpc, channel = spec.arguments, flags_of(spec), self.rpc, self._async
        encode, count, decode, limit = arguments.encode_required, arguments.count, spec.result.decode, self.max_bytes
        usual = CALL_HEAD.pack(CALL, spec.key, 0 if timeout is None else milliseconds(int(timeout * NS_PER_S)))

        async def call(stub: object, *args: Any, **named: Any) -> Any:
            try:
                data = arguments.encode(args, named) if named or len(args) != count else encode(args)
            except OverflowError:
                data = arguments.encode(args, named)         # raises what is promised
            payload, within = usual + data, timeout
            connection = channel.connection()
            if CURRENT.get() is not None:
                now_ns = connection.clock_ns()
                left_ns = self.deadline_ns(timeout, now_ns) - now_ns
                within = seconds_of(left_ns)
                payload = CALL_HEAD.pack(CALL, spec.key, milliseconds(left_ns)) + payload[CALL_HEAD.size:]
            if not connection.sends.has_room():
                within = await rpc.room_within(within)
            waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            sent = rpc._send_one(member, payload, flags, within, waiter, NOW)
            try:
                answer = await waiter
            except RemoteError as error:
                raise self.fault(spec, error) from None
            except GIVEN_UP:
                rpc.given_up(member, payload, sent)
                raise
            if len(answer) <= limit:
                try:
                    return decode(answer)
                except Exception:                            # noqa: BLE001  the long way names it
                    pass
            return self.result(spec, answer)
        return call

    async def _plan(self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes) -> Any:
        """A call that may be tried at several members, or again."""
        def head(plan: CallPlan, member: Address, left_ms: int) -> bytes:
            return self.head(plan, spec, member, left_ms)
        answer, _, _ = await self._tried(spec, choice, timeout, data, head)
        return self.result(spec, answer)

    async def _tried(
        self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes,
        head: Callable[[CallPlan, Address, int], bytes],
    ) -> tuple[bytes, Address, int]:
        """The first answer, its member, and the number of the request."""
        directory, clock_ns = self.directory, self._async.connection().clock_ns
        plan = CallPlan(directory, spec, choice, self.deadline_ns(timeout, clock_ns()), self.next_once)
        while True:
            now_ns = clock_ns()
            member = plan.next(now_ns)
            if member is None:
                await self._change(min(PAUSE_NS, plan.deadline_ns - now_ns))
                continue
            left_ns = plan.attempt_ends_ns(now_ns) - now_ns
            rtt_ns = None
            directory.began(member)
            try:
                payload = head(plan, member, milliseconds(left_ns)) + data
                answer, number = await self.rpc.ask(member, payload, seconds_of(left_ns), flags_of(spec))
                rtt_ns = clock_ns() - now_ns
                return answer, member, number
            except RemoteError as error:
                failure: RequestError = self.fault(spec, error)
            except RequestError as error:
                failure = error
            except ChannelError as error:
                plan.ends(error)
                raise
            finally:
                directory.ended(member, rtt_ns)
            plan.failed(member, failure)

    async def _change(self, within_ns: int) -> None:
        """Wait for a change of the directory."""
        self._async.connection()                             # raises
        changed = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        try:
            await asyncio.wait((changed,), timeout=within_ns / NS_PER_S)
        finally:
            self._waiting.pop(changed, None)

    async def _read(self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes) -> AsyncIterator[Any]:
        """The items of a stream."""
        def left_ns() -> int:                                # a stream ends by the deadline of the call that reads it
            return self.deadline_ns(None, clock_ns()) - clock_ns()

        def head(plan: CallPlan, member: Address, left_ms: int) -> bytes:
            return OPEN_HEAD.pack(OPEN, spec.key, milliseconds(left_ns()), WINDOW)
        clock_ns = self._async.connection().clock_ns
        _, member, number = await self._tried(spec, choice, timeout, data, head)
        over, more = False, True
        try:
            while more:
                answer, _ = await self.rpc.ask(member, pull_bytes(number), seconds_of(left_ns()), 0)
                items, more = decode_items(answer, WINDOW)
                for item in items:
                    yield self.result(spec, item)
            over = True
        except RemoteError as error:
            over = True
            raise self.fault(spec, error) from None
        except WireError as error:
            raise AnswerError(f"{spec.label}: {error}") from error
        finally:
            if not over:
                self.give_up(member, number)

    # --- serving ----------------------------------------------------------------------------------------------------

    def start(self, request: Any, served: Served, args: Any, named: Any, context: CallContext) -> Any:
        if len(self._running) >= MAX_RUNNING:
            return self.refuse(request, OVERLOADED, f"{MAX_RUNNING} calls are running")
        key = request.src, request.number
        work = self._work(key, request, served, args, named, context)
        work.send(None)                                      # up to BEGUN
        self._running[key] = (asyncio.get_running_loop().create_task(work), served,
                              request.__class__ is OnceRequest)
        self._cancel_at(key, context.deadline_ns)
        return LATER

    async def _work(
        self, key: CallKey, request: Request | OnceRequest, served: Served, args: Any, named: Any, context: CallContext,
    ) -> None:
        """A call that runs as a task. Its first step is done before there is a task, so that one that is cancelled
        before its turn ends here as well."""
        try:
            await BEGUN
            CURRENT.set(context)
            data = self.encoded(served, await served.function(*args, **named))
        except asyncio.CancelledError:
            request.refuse(CANCELLED, f"{served.spec.label} was cancelled")
            raise
        except Exception as error:                           # noqa: BLE001  of the application
            self.raised(request, served, error)
        else:
            request.answer(data)
        finally:
            self._running.pop(key, None)
            self._ends.pop(key, None)

    def _cancel_at(self, key: CallKey, deadline_ns: int) -> None:
        """Cancel a task at its deadline; one timer serves all, as most tasks end long before."""
        if deadline_ns < NEVER_NS >> 1:
            self._ends[key] = deadline_ns
            if deadline_ns < self._sweep_ns:
                self._sweep_at(deadline_ns)

    def _sweep_at(self, due_ns: int) -> None:
        connection = self._connection
        assert connection is not None, "a request came by it"
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_ns = due_ns
        left_s = max(0.0, (due_ns - connection.clock_ns()) / NS_PER_S)
        self._sweeper = asyncio.get_running_loop().call_later(left_s, self._sweep)

    def _sweep(self) -> None:
        """Cancel what is over; at most once in SWEEP_NS."""
        self._sweeper, self._sweep_ns, connection = None, NEVER_NS, self._connection
        assert connection is not None, "a request came by it"
        now_ns, soonest_ns = connection.clock_ns(), NEVER_NS
        for key, end_ns in list(self._ends.items()):
            if end_ns <= now_ns:
                del self._ends[key]
                for found in (self._running.get(key), self._streams.get(key)):
                    if found is not None:
                        found[0].cancel()
            else:
                soonest_ns = min(soonest_ns, end_ns)
        if self._ends:
            self._sweep_at(max(soonest_ns, now_ns + SWEEP_NS))

    def open(
        self, request: Request, served: Served, args: Any, named: Any, context: CallContext, window: int,
    ) -> Any:
        if len(self._streams) >= MAX_STREAMS:
            return self.refuse(request, OVERLOADED, f"{MAX_STREAMS} streams are open")
        try:
            items = served.function(*args, **named)
            if not served.coroutine:
                items = _in_turns(items)
        except Exception as error:                           # noqa: BLE001  of the application
            self.raised(request, served, error)
            return LATER
        key = request.src, request.number
        stream = StreamTask(self, served, items, window)
        task = asyncio.get_running_loop().create_task(stream.run(context))
        self._streams[key] = task, stream
        self._cancel_at(key, context.deadline_ns)

        def done(_: object) -> None:
            self._ends.pop(key, None)
            if task.cancelled():
                stream.cancelled()
        task.add_done_callback(done)
        return b""

    def stream_closed(self, stream: StreamTask) -> None:
        """Its caller has had the end."""
        for key in [key for key, (_, one) in self._streams.items() if one is stream]:
            del self._streams[key]

    def numbered(self, kind: int, request: Request, number: int) -> Any:
        key = request.src, number
        if kind == PULL:
            found = self._streams.get(key)
            if found is None or not found[1].pulled(request):
                request.refuse(NO_STREAM, "the member has no such stream of this caller")
            return LATER
        running, open_stream = self._running.get(key), self._streams.pop(key, None)
        if running is not None:
            running[0].cancel()
        if open_stream is not None:
            open_stream[0].cancel()
        return LATER

    def stop(self, which: Callable[[Address, Served], bool]) -> None:
        for (src, _), (task, served, _) in list(self._running.items()):
            if which(src, served):
                task.cancel()
        for key, (task, stream) in list(self._streams.items()):
            if which(key[0], stream.served):
                task.cancel()

    def changed(self) -> None:
        self._async.call(self._changed)

    def _changed(self) -> None:
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_result(None)
        present = self.directory.present
        for (src, _), (task, _, once) in list(self._running.items()):
            if not present(src) and not once:                # what runs once outlives that its caller is away
                task.cancel()
        for key, (task, _) in list(self._streams.items()):
            if not present(key[0]):
                del self._streams[key]
                task.cancel()


async def _in_turns(items: Any) -> AsyncIterator[Any]:
    """The items of a plain iterator; other tasks get their turn between two."""
    try:
        for item in items:
            yield item
            await asyncio.sleep(0)
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
