"""Services: the services of a JChannel, for threads; see AsyncServices, of which it has the names.

    services = Services(ch)
    services.serve(Orders())
    order = services.any(Orders, timeout=2.0).find(7)        # any thread

A method runs on the thread of the channel's callbacks, in order with the receiver's calls, so it must not take long. A
stream is a generator there; it runs while its items are pulled.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from jgroups_py.blocks.rpc.calls import Mode
from jgroups_py.blocks.rpc.serving import LATER, Request
from jgroups_py.blocks.rpc.sync import Rpc
from jgroups_py.blocks.service.base import (
    CURRENT,
    MAX_BYTES,
    MAX_STREAMS,
    SERVICE,
    TIMEOUT_SECONDS,
    WINDOW,
    BaseServices,
    CallContext,
    Served,
    T,
    TypedAnswers,
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
    NO_STREAM,
    OPEN,
    OPEN_HEAD,
    OVERLOADED,
    PULL,
    decode_items,
)
from jgroups_py.blocks.service.streams import StreamBuffer
from jgroups_py.channel.sync import JChannel
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
from jgroups_py.model.units import NS_PER_S, millis

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
LONG_NS = millis(10)                        # a pull that has an item waits no longer than this for more


class StreamIterator:
    """A stream that this member gives: a generator, which runs while a pull is answered."""

    def __init__(
        self, services: Services, served: Served, items: Iterator[Any], context: CallContext, window: int,
    ) -> None:
        self.buffer = StreamBuffer(window)
        self.served = served
        self._services = services
        self._items = items
        self._context = context

    def pulled(self, request: Request, clock_ns: Callable[[], int]) -> bool:
        """Answer with items; False: its deadline has passed, or it has ended."""
        if clock_ns() >= self._context.deadline_ns or not self.buffer.pulled(request):
            return False
        until_ns = clock_ns() + LONG_NS
        token = CURRENT.set(self._context)
        try:
            while not self.buffer.full:
                self.buffer.add(self._services.encoded(self.served, next(self._items)))
                if clock_ns() >= until_ns:
                    break
        except StopIteration:
            self.buffer.end(None)
        except Exception as error:                           # noqa: BLE001  of the application
            raised = error
            self.buffer.end(lambda pull: self._services.raised(pull, self.served, raised))
        finally:
            CURRENT.reset(token)
        self.buffer.flush()
        return True


class Services(BaseServices):
    """The services of a JChannel: those that it serves, and stubs for those of all members. Any thread may call it.

    max_bytes, number: see AsyncServices.
    """

    def __init__(self, channel: JChannel, *, max_bytes: int | str = MAX_BYTES, number: int = SERVICE) -> None:
        """May be made before or after the channel connects; lives as long as the channel.

        Raises:
            ValueError: the channel has services of this number already.
        """
        self.rpc: Rpc = Rpc(channel, self.handle, number)
        self._lock = threading.Lock()
        self._streams: dict[tuple[Address, int], StreamIterator] = {}
        self._waiting: dict[threading.Event, None] = {}      # threads that wait for a member to ask
        super().__init__(channel, number, max_bytes)

    def all(
        self, function: Callable[Concatenate[S, P], R], *, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS,
    ) -> Callable[P, TypedAnswers[R]]:
        """A method of all members of the group at once: `services.all(Orders.find)(7)`; see AsyncServices.all."""
        spec, wanted = spec_of_function(function), Mode(mode)
        if wanted is Mode.NONE:
            raise ValueError("a call has answers: mode FIRST, MAJORITY or ALL")
        self._check(spec)

        def call(*args: P.args, **named: P.kwargs) -> TypedAnswers[R]:
            data = spec.arguments.encode(args, named)
            now_ns = self._channel.connection().clock_ns()
            left_ns = self.deadline_ns(timeout, now_ns) - now_ns
            payload = CALL_HEAD.pack(CALL, spec.key, milliseconds(left_ns)) + data
            return self.answers(spec, self.rpc.request_many(
                None, payload, wanted, seconds_of(left_ns), flags_of(spec)))
        return call

    def stats(self) -> dict[str, int]:
        """Counters: calls_served, calls_refused, streams, ..., and those of the requests."""
        return self.statistics(0, len(self._streams))

    def stub(self, interface: type[T], choice: Choice, timeout: float | None) -> T:
        def method_of(spec: MethodSpec) -> Callable[..., Any]:
            self._check(spec)
            if spec.stream:
                return lambda stub, *args, **named: self._read(
                    spec, choice, timeout, spec.arguments.encode(args, named))
            if choice.reach is Reach.AT and not spec.options.once:
                member = choice.member
                assert member is not None, "at() has one"
                return lambda stub, *args, **named: self._ask(
                    spec, member, timeout, spec.arguments.encode(args, named))
            return lambda stub, *args, **named: self._plan(
                spec, choice, timeout, spec.arguments.encode(args, named))
        return stub_of(interface, method_of)

    def _check(self, spec: MethodSpec) -> None:
        if spec.coroutine:
            raise ConfigError(f"{spec.label} is a coroutine: stubs on a JChannel are of an interface with plain `def` "
                              "(streams: Iterator); the server's class may differ in that")

    # --- calls ------------------------------------------------------------------------------------------------------

    def _ask(self, spec: MethodSpec, member: Address, timeout: float | None, data: bytes) -> Any:
        """A call of one member, tried once."""
        now_ns = self._channel.connection().clock_ns()
        left_ns = self.deadline_ns(timeout, now_ns) - now_ns
        payload = CALL_HEAD.pack(CALL, spec.key, milliseconds(left_ns)) + data
        try:
            answer = self.rpc.request(member, payload, seconds_of(left_ns), flags_of(spec))
        except RemoteError as error:
            raise self.fault(spec, error) from None
        return self.result(spec, answer)

    def _plan(self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes) -> Any:
        """A call that may be tried at several members, or again."""
        def head(plan: CallPlan, member: Address, left_ms: int) -> bytes:
            return self.head(plan, spec, member, left_ms)
        answer, _, _ = self._tried(spec, choice, timeout, data, head)
        return self.result(spec, answer)

    def _tried(
        self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes,
        head: Callable[[CallPlan, Address, int], bytes],
    ) -> tuple[bytes, Address, int]:
        """The first answer, its member, and the number of the request."""
        directory, clock_ns = self.directory, self._channel.connection().clock_ns
        plan = CallPlan(directory, spec, choice, self.deadline_ns(timeout, clock_ns()), self.next_once)
        while True:
            now_ns = clock_ns()
            with self._lock:
                member = plan.next(now_ns)
                if member is not None:
                    directory.began(member)
            if member is None:
                self._change(min(PAUSE_NS, plan.deadline_ns - now_ns))
                continue
            left_ns = plan.attempt_ends_ns(now_ns) - now_ns
            rtt_ns = None
            try:
                payload = head(plan, member, milliseconds(left_ns)) + data
                reply = self.rpc.start(member, payload, seconds_of(left_ns), flags_of(spec))
                try:
                    answer = reply.result()
                except (MemberLeftError, RequestTimeoutError):
                    if not spec.options.once:
                        self.give_up(member, reply.number)
                    raise
                rtt_ns = clock_ns() - now_ns
                return answer, member, reply.number
            except RemoteError as error:
                failure: RequestError = self.fault(spec, error)
            except RequestError as error:
                failure = error
            except ChannelError as error:
                plan.ends(error)
                raise
            finally:
                with self._lock:
                    directory.ended(member, rtt_ns)
            plan.failed(member, failure)

    def _change(self, within_ns: int) -> None:
        """Wait for a change of the directory."""
        self._channel.connection()                           # raises
        changed, within_s = threading.Event(), within_ns / NS_PER_S
        self._waiting[changed] = None
        try:
            self._channel.work_until(changed.is_set, within_s)
            changed.wait(within_s)
        finally:
            self._waiting.pop(changed, None)

    def _read(self, spec: MethodSpec, choice: Choice, timeout: float | None, data: bytes) -> Iterator[Any]:
        """The items of a stream."""
        def left_ns() -> int:                                # a stream ends by the deadline of the call that reads it
            return self.deadline_ns(None, clock_ns()) - clock_ns()

        def head(plan: CallPlan, member: Address, left_ms: int) -> bytes:
            return OPEN_HEAD.pack(OPEN, spec.key, milliseconds(left_ns()), WINDOW)
        clock_ns = self._channel.connection().clock_ns
        _, member, number = self._tried(spec, choice, timeout, data, head)
        over, more = False, True
        try:
            while more:
                answer = self.rpc.request(member, pull_bytes(number), seconds_of(left_ns()), 0)
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

    def open(
        self, request: Request, served: Served, args: Any, named: Any, context: CallContext, window: int,
    ) -> Any:
        if len(self._streams) >= MAX_STREAMS:
            return self.refuse(request, OVERLOADED, f"{MAX_STREAMS} streams are open")
        try:
            items = iter(served.function(*args, **named))
        except Exception as error:                           # noqa: BLE001  of the application
            self.raised(request, served, error)
            return LATER
        self._streams[request.src, request.number] = StreamIterator(self, served, items, context, window)
        return b""

    def numbered(self, kind: int, request: Request, number: int) -> Any:
        key, connection = (request.src, number), self._connection
        if kind != PULL:                                     # CANCEL; calls run to their end on this thread
            self._streams.pop(key, None)
            return LATER
        stream = self._streams.get(key)
        if stream is None or connection is None or not stream.pulled(request, connection.clock_ns):
            request.refuse(NO_STREAM, "the member has no such stream of this caller")
        elif stream.buffer.closed:
            self._streams.pop(key, None)
        return LATER

    def stop(self, which: Callable[[Address, Served], bool]) -> None:
        for key, stream in list(self._streams.items()):
            if which(key[0], stream.served):
                self._streams.pop(key, None)

    def changed(self) -> None:
        for waiting in list(self._waiting):
            waiting.set()
        for key in [key for key in list(self._streams) if not self.directory.present(key[0])]:
            self._streams.pop(key, None)                     # its generator is closed with the last reference
