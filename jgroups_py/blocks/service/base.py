"""What Services and AsyncServices share: methods that are served, what members offer, failures and their classes."""
from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from jgroups_py.blocks.rpc.calls import NEVER_NS, Answers
from jgroups_py.blocks.rpc.client import BaseRpc
from jgroups_py.blocks.rpc.serving import LATER, Request
from jgroups_py.blocks.service.compared import compared
from jgroups_py.blocks.service.directory import Choice, Directory, Reach
from jgroups_py.blocks.service.interface import MARK, OWNER, MethodSpec, Service, interface_of
from jgroups_py.blocks.service.messages import (
    BAD_ARGUMENTS,
    CALL,
    CALL_HEAD,
    CALL_ONCE,
    CANCEL,
    CANCELLED,
    FAULT,
    FORGOTTEN,
    HEADS,
    MAX_METHODS,
    MAX_MS,
    MAX_OFFERED,
    NO_METHOD,
    NO_STREAM,
    NUMBERED,
    OFFER,
    ONCE_HEAD,
    OPEN,
    OPEN_HEAD,
    OVERLOADED,
    PULL,
    Answerable,
    Offered,
    decode_offer,
    encode_offer,
)
from jgroups_py.blocks.service.once import KeptAnswers, OnceVerdict, Reply
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.dispatcher import EXITS
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Flag
from jgroups_py.model.counters import counter, declare, drop, figure, table
from jgroups_py.model.errors import (
    AnswerError,
    ArgumentsError,
    CallCancelledError,
    CallForgottenError,
    ChannelError,
    ConfigError,
    NoMethodError,
    OverloadedError,
    ReceiversMissingError,
    RemoteError,
    RequestError,
    SendTimeoutError,
    StreamLostError,
    WireError,
)
from jgroups_py.model.outputs import Closed, GlobalViewInstalled, Output, ViewInstalled
from jgroups_py.model.units import NS_PER_MS, NS_PER_S, millis, parse_size
from jgroups_py.model.view import MergeView
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import OneWayRequest

log = logging.getLogger("jgroups_py")

R = TypeVar("R")
T = TypeVar("T", bound=Service)
SERVICE = 0xFFFE                            # the number of blocks/rpc under which all typed services of a channel are
TIMEOUT_SECONDS = 10.0
MAX_BYTES = 8 << 20                         # of the arguments of a call, and of a result or an item
MAX_RUNNING = 1000                          # coroutines of calls that run at once
MAX_STREAMS = 1000                          # streams that are open at once
MAX_ABANDONED = 1000                        # calls that are cancelled when their members are back
WINDOW = 64                                 # items of a stream that a reader takes at a time
NONE_NAMED: dict[str, Any] = {}             # arguments by name, in the short way
RETRY_NS = millis(100)                      # until what could not be queued is tried again
REFUSALS: dict[str, Callable[[str], RequestError]] = {
    NO_METHOD: NoMethodError, BAD_ARGUMENTS: ArgumentsError, OVERLOADED: OverloadedError,
    CANCELLED: CallCancelledError, FORGOTTEN: CallForgottenError, NO_STREAM: StreamLostError,
    "NoHandler": NoMethodError,
}


class CallContext(NamedTuple):
    """The call in which code runs. caller: the member that made it; deadline_ns: by the clock of its channel."""

    caller: Address
    deadline_ns: int


CURRENT: ContextVar[CallContext | Request | None] = ContextVar("jgroups_py_call", default=None)
"""The call that is being handled. A request: that of a function on an event loop, which does not wait, so that its
deadline is still as far off as its head says."""


def caller() -> Address:
    """Inside a method: the member that called it.

    Raises:
        LookupError: no method is running.
    """
    context = CURRENT.get()
    if context is None:
        raise LookupError("caller() is for the methods of a service: no call is being handled here")
    return context.src if isinstance(context, Request) else context.caller


@attrs.frozen
class TypedAnswers(Generic[R]):
    """The outcome of a call to all members; see blocks/rpc's Answers. errors: why members gave none."""

    values: dict[Address, R]
    errors: dict[Address, RequestError]
    left: tuple[Address, ...]
    missing: tuple[Address, ...]
    complete: bool


@attrs.frozen(eq=False)
class Served:
    """A method that is served. coroutine: its implementation is one; instance: of the service.

    decode: of the arguments, if the method can be called in the short way: all of them by place, no stream, not once;
    else None.
    """

    spec: MethodSpec
    function: Callable[..., Any]
    coroutine: bool
    instance: Service
    decode: Callable[[bytes], tuple[Any, ...]] | None


class OnceRequest:
    """A request whose answer is kept, and is passed to all that asked for it."""

    needs_answer = True

    def __init__(self, kept: KeptAnswers, request: Request, call: int) -> None:
        self._kept = kept
        self._call = call
        self.src = request.src
        self.number = request.number
        self.payload = request.payload

    def answer(self, payload: bytes = b"") -> None:
        self._end(lambda ticket: ticket.answer(payload))

    def refuse(self, kind: str, text: str) -> None:
        self._end(lambda ticket: ticket.refuse(kind, text))

    def _end(self, reply: Reply) -> None:
        self._kept.ended(self.src, self._call, reply)


class ServicesBlock(Block):
    """Tells the services of a channel about its views."""

    def __init__(self, services: BaseServices) -> None:
        self.services = services

    def begin(self, connection: Connection) -> None:
        self.services.begin(connection)

    def service_report(self) -> list[dict[str, Any]] | None:
        return self.services.compared()

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled | GlobalViewInstalled | Closed):
                self.services.heard(output)
        return outputs


class BaseServices:
    """See AsyncServices. A subclass has the rpc, runs what is called, and waits for answers."""

    COUNTERS = declare(
        counter("calls_served", "Calls of methods that began."),
        counter("calls_asked_again", "Calls with once=True that came again, since their answer had been lost."),
        counter("method_exceptions", "Exceptions of methods that they do not declare."),
        drop("calls_refused", "Calls that did not begin: no such method, wrong arguments, too many at once."),
        drop("malformed_messages", "Messages to services that have no form that is known."),
        figure("running", "Coroutines of calls that run now."),
        figure("streams", "Streams that are open now."),
    )
    takes_coroutines = False

    def __init__(self, channel: BaseChannel, number: int, max_bytes: int | str) -> None:
        self.directory = Directory()
        self.max_bytes = parse_size(max_bytes) if isinstance(max_bytes, str) else max_bytes
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._channel = channel
        self._number = number
        self._one_way = (OneWayRequest(number),)
        self._served: dict[bytes, Served] = {}
        self._offers: dict[str, Offered] = {}
        self._kept = KeptAnswers()
        self._connection: Connection | None = None
        self._abandoned: dict[tuple[Address, int], None] = {}      # given up, at members that were out of view then
        self._in_short = 0                                   # calls served in the short way
        self._limit = min(self.max_bytes, channel.max_message_bytes)
        self._once = 0
        channel.attach(ServicesBlock(self))

    rpc: BaseRpc

    # --- stubs ------------------------------------------------------------------------------------------------------

    def at(self, member: Address, interface: type[T], *, timeout: float | None = TIMEOUT_SECONDS) -> T:
        """The service of one member, also of another site. timeout: seconds of each call, None: no limit.

        The methods of a stub are those of the interface. They raise a RequestError if there is no result, and what
        `send` raises. On an AsyncChannel they are declared with `async def`, on a JChannel with plain `def`.

        Raises:
            ConfigError: a method of the interface is declared in the other way; see interface_of, too.
        """
        if not isinstance(member, Address):
            raise TypeError(f"a member is an Address, not {type(member).__name__}")
        return self.stub(interface, Choice(Reach.AT, member=member), timeout)

    def any(self, interface: type[T], *, prefer: str = "least", timeout: float | None = TIMEOUT_SECONDS) -> T:
        """The service of some member of the group that offers it, chosen for each call; waits until there is one.

        prefer: "least": where the fewest calls of this member are under way; "local": this member itself, if it offers
        it; "hash:KEY": the same member for the same key, as long as the members are the same.
        """
        return self.stub(interface, Choice(Reach.ANY, prefer), timeout)

    def site(
        self, site: str, interface: type[T], *, prefer: str = "least", timeout: float | None = TIMEOUT_SECONDS,
    ) -> T:
        """As `any`, of the members of a site (RELAY)."""
        return self.stub(interface, Choice(Reach.SITE, prefer, site=site), timeout)

    def nearest(self, interface: type[T], *, prefer: str = "least", timeout: float | None = TIMEOUT_SECONDS) -> T:
        """As `any`; if no member of the own site offers it, of the site that has answered soonest."""
        return self.stub(interface, Choice(Reach.NEAREST, prefer), timeout)

    def stub(self, interface: type[T], choice: Choice, timeout: float | None) -> T:
        """An object of the type of the interface, whose methods are calls."""
        raise NotImplementedError

    # --- what this member offers ------------------------------------------------------------------------------------

    def serve(self, service: Service) -> None:
        """Offer the methods of a service to all members, also of other sites. Before or after connecting.

        Raises:
            ConfigError: see interface_of; the methods need coroutines, and this channel has none.
            ValueError: a service of this name is served here.
        """
        specs = interface_of(type(service))
        name = service.service_name
        if name in self._offers:
            raise ValueError(f"a service named {name!r} is served on this channel already")
        if len(self._offers) >= MAX_OFFERED or len(self._served) + len(specs) > MAX_METHODS:
            raise ValueError(f"a channel serves at most {MAX_OFFERED} services with {MAX_METHODS} methods")
        made = {spec.key: self.served(spec, service) for spec in specs.values()}
        self._served = {**self._served, **made}
        self._offers = {**self._offers, name: Offered(name, service.service_version, tuple(made))}
        self._announce_soon()

    def withdraw(self, service: Service) -> None:
        """Offer a service no more; its calls that run are cancelled, later ones are refused."""
        offers = dict(self._offers)
        offers.pop(service.service_name, None)
        self._served = {key: one for key, one in self._served.items() if one.instance is not service}
        self._offers = offers
        self.stop(lambda src, served: served.instance is service)
        self._announce_soon()

    def offers(self) -> dict[Address, dict[str, str]]:
        """What members offer, as far as is known here: member -> name of the service -> its version."""
        return {member: {offer.name: offer.version for offer in offers}
                for member, offers in list(self.directory.offers.items()) if self.directory.present(member)}

    def compared(self) -> list[dict[str, Any]]:
        """What members offer, as far as is known here, compared: see compared.py; `jgroups rpc check` shows it."""
        directory = self.directory
        offers = {str(member): offers for member, offers in list(directory.offers.items()) if directory.present(member)}
        if directory.me is not None and self._offers:
            offers[str(directory.me)] = tuple(self._offers.values())
        return compared(offers, {key: served.spec.label for key, served in self._served.items()})

    def served(self, spec: MethodSpec, service: Service) -> Served:
        """The implementation of a method."""
        function = getattr(service, spec.name)
        coroutine = is_coroutine(function, spec)
        if coroutine and not self.takes_coroutines:
            raise ConfigError(f"{type(service).__name__}.{spec.name} is a coroutine: a service on a JChannel has "
                              "methods that are declared with `def`, and streams that are Iterators")
        plain = not (spec.stream or spec.options.once or spec.arguments.optional)
        return Served(spec, function, coroutine, service, spec.arguments.decode_required if plain else None)

    def _announce_soon(self) -> None:
        connection = self._connection
        if connection is not None and not connection.ended:
            connection.call(self._announce)

    def _announce(self) -> None:
        if self.directory.members:
            self.tell(None, encode_offer(self._offers.values()))

    def tell(self, dest: Address | None, payload: bytes) -> None:
        """Send what is not answered; again a little later if there is no room for it now."""
        connection = self._connection
        if connection is None or connection.ended:
            return
        try:
            connection.sends.put(dest, payload, 0, self._one_way, -1.0)
        except (SendTimeoutError, ReceiversMissingError):
            again = payload if payload[0] != OFFER else None

            def retry() -> None:
                self._announce() if again is None else self.tell(dest, again)
            connection.call(lambda: _later(connection, retry))
        except ChannelError:
            log.debug("the connection ends: services tell nothing more")

    def give_up(self, member: Address, number: int) -> None:
        """Cancel a call or stream at its member; once that is back, if it is out of view: it may get the call then."""
        if self.directory.present(member):
            self.tell(member, cancel_bytes(number))
        else:
            self._abandoned[member, number] = None
            while len(self._abandoned) > MAX_ABANDONED:
                self._abandoned.pop(next(iter(list(self._abandoned)), (member, number)), None)

    def _cancel_abandoned(self) -> None:
        for member, number in [key for key in list(self._abandoned) if self.directory.present(key[0])]:
            self._abandoned.pop((member, number), None)
            self.tell(member, cancel_bytes(number))

    # --- the group, inside rounds -----------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """A connection begins, or this was attached to one."""
        self._connection = connection
        if connection.view is not None:
            self.directory.me = connection.address
            self.directory.view(connection.view.members)
            connection.call(self._announce)

    def heard(self, output: Output) -> None:
        """The members of the group or of other sites changed, or the connection ended."""
        directory, connection = self.directory, self._connection
        if isinstance(output, ViewInstalled):
            directory.me = None if connection is None else connection.address
            if directory.view(output.view.members) or isinstance(output.view, MergeView):
                self._announce()
                self._cancel_abandoned()
        elif isinstance(output, GlobalViewInstalled):
            if directory.global_view(output.view.sites, self._channel.site or ""):
                self._announce()
                self._cancel_abandoned()
        elif isinstance(output, Closed):
            directory.view(())
            directory.global_view({}, "")
        self.changed()

    def changed(self) -> None:
        """The directory changed: calls that wait for a member look again, calls of members that are gone end."""
        raise NotImplementedError

    # --- requests ---------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Any:
        """Handle a request, on the thread of the channel's callbacks."""
        payload = request.payload
        served = self._served.get(payload[1:9])
        if (served is not None and served.decode is not None and payload[0] == CALL
                and len(payload) <= self.max_bytes and request.src in self.directory.known and request.needs_answer):
            try:                                             # most calls: the short way of what follows below
                args = served.decode(payload[CALL_HEAD.size:])
            except Exception:                                # noqa: BLE001  the long way refuses it
                pass
            else:
                self._in_short += 1
                if served.coroutine:
                    return self.start(request, served, args, NONE_NAMED, self._context(
                        request, int.from_bytes(payload[9:CALL_HEAD.size], "big")))
                token = CURRENT.set(self.context_of(request))
                try:
                    data = served.spec.result.encode(served.function(*args))
                except EXITS:
                    raise
                except Exception as error:                   # noqa: BLE001  of the application
                    self.raised(request, served, error)
                    return LATER
                finally:
                    CURRENT.reset(token)
                if len(data) <= self._limit:
                    return data
                self.raised(request, served, self._too_large(served, data))
                return LATER
        kind = payload[0] if payload else 0
        head = HEADS.get(kind)
        if head is None or len(payload) < head.size:
            return self._other(request, kind)
        if kind == CALL:
            _, key, left_ms = CALL_HEAD.unpack_from(payload)
            return self._call(request, key, left_ms, payload[CALL_HEAD.size:])
        if kind == CALL_ONCE:
            return self._call_once(request)
        _, number, *rest = head.unpack_from(payload)
        if kind == OPEN:
            return self._open(request, number, *rest)
        return self.numbered(kind, request, number)

    def _other(self, request: Request, kind: int) -> Any:
        if kind == OFFER and not request.needs_answer:
            try:
                self.directory.offered(request.src, decode_offer(request.payload))
            except WireError as error:
                self.counters.drop("malformed_messages", f"of {request.src}: {error}")
            else:
                self.changed()
        else:
            self.counters.drop("malformed_messages", f"of {request.src}: kind {kind}")
            self.refuse(request, NO_METHOD, "a message that is no call")
        return LATER

    def refuse(self, request: Answerable, kind: str, text: str) -> Any:
        """Answer that a call does not begin."""
        self.counters.drop("calls_refused", f"of {request.src}: {text}")
        request.refuse(kind, text)
        return LATER

    def _begin(self, request: Request | OnceRequest, key: bytes, data: bytes) -> tuple[Served, Any] | None:
        """The method and the arguments of a call; None: it was refused."""
        served = self._served.get(key)
        if self.is_gone(request.src):
            self.refuse(request, CANCELLED, "the caller has left")
        elif served is None:
            self.refuse(request, NO_METHOD, "the member has no such method, or one with other parameters or another "
                                            "result")
        elif len(data) > self.max_bytes:
            self.refuse(request, BAD_ARGUMENTS, f"{served.spec.label}: {len(data)} bytes of arguments; at most "
                                                f"{self.max_bytes} are taken")
        elif not request.needs_answer:
            self.counters.drop("malformed_messages", f"of {request.src}: a call without an answer")
        else:
            try:
                arguments = served.spec.arguments.decode(data)
            except Exception as error:                       # noqa: BLE001  of msgspec, and of classes of the application
                self.refuse(request, BAD_ARGUMENTS, f"{served.spec.label}: {error}"[:1000])
            else:
                self.counters.add("calls_served")
                return served, arguments
        return None

    def is_gone(self, member: Address) -> bool:
        """Whether a caller has left: views are heard before calls that came earlier are handled.

        A member of another site may call before the view of all sites has it.
        """
        return not isinstance(member, ProxyUUID) and not self.directory.present(member)

    def _call(self, request: Request | OnceRequest, key: bytes, left_ms: int, data: bytes) -> Any:
        begun = self._begin(request, key, data)
        if begun is None:
            return LATER
        served, (args, named) = begun
        if served.spec.stream:
            return self.refuse(request, NO_METHOD, f"{served.spec.label} gives a stream")
        context = self._context(request, left_ms)
        if served.coroutine:
            return self.start(request, served, args, named, context)
        return self._run(request, served, args, named, context)

    def _run(self, request: Request | OnceRequest, served: Served, args: Any, named: Any, context: CallContext) -> Any:
        """Run a method that does not wait; what it gives is the answer."""
        token = CURRENT.set(context)
        try:
            return self.encoded(served, served.function(*args, **named))
        except EXITS:
            raise
        except Exception as error:                           # noqa: BLE001  of the application
            self.raised(request, served, error)
            return LATER
        finally:
            CURRENT.reset(token)

    def _call_once(self, request: Request) -> Any:
        _, key, left_ms, call, again = ONCE_HEAD.unpack_from(request.payload)
        if again:
            self.counters.add("calls_asked_again")
        verdict = self._kept.arrived(request.src, call, bool(again), request)
        if verdict is OnceVerdict.FORGOTTEN:
            return self.refuse(request, FORGOTTEN, "the member keeps the answer no more, or came anew")
        if verdict is OnceVerdict.RUN:
            ticket = OnceRequest(self._kept, request, call)
            made = self._call(ticket, key, left_ms, request.payload[ONCE_HEAD.size:])
            if made is not LATER:
                ticket.answer(made)
        return LATER

    def _open(self, request: Request, key: bytes, left_ms: int, window: int) -> Any:
        begun = self._begin(request, key, request.payload[OPEN_HEAD.size:])
        if begun is None:
            return LATER
        served, (args, named) = begun
        if not served.spec.stream or not window > 0:
            return self.refuse(request, NO_METHOD, f"{served.spec.label} gives no stream, or the window is 0")
        return self.open(request, served, args, named, self._context(request, left_ms), window)

    def context_of(self, request: Request) -> CallContext | Request:
        """What CURRENT is during a call in the short way."""
        return self._context(request, int.from_bytes(request.payload[9:CALL_HEAD.size], "big"))

    def _context(self, request: Request | OnceRequest, left_ms: int) -> CallContext:
        connection = self._connection
        assert connection is not None, "a request came by it"
        return CallContext(request.src, connection.clock_ns() + left_ms * NS_PER_MS if left_ms else NEVER_NS)

    def start(self, request: Any, served: Served, args: Any, named: Any, context: CallContext) -> Any:
        """Run a method that is a coroutine."""
        raise NotImplementedError

    def open(
        self, request: Request, served: Served, args: Any, named: Any, context: CallContext, window: int,
    ) -> Any:
        """Open a stream, whose number is that of the request."""
        raise NotImplementedError

    def numbered(self, kind: int, request: Request, number: int) -> Any:
        """PULL: answer with items of a stream of this caller; CANCEL: end its stream or call of this number."""
        raise NotImplementedError

    def stop(self, which: Callable[[Address, Served], bool]) -> None:
        """End the calls and streams of which this holds."""
        raise NotImplementedError

    def encoded(self, served: Served, result: Any) -> bytes:
        """A result as bytes.

        Raises:
            ValueError, TypeError: it is too large, or has no encoding.
        """
        data = served.spec.result.encode(result)
        if len(data) > self._limit:
            raise self._too_large(served, data)
        return data

    def _too_large(self, served: Served, data: bytes) -> ValueError:
        return ValueError(f"{served.spec.label} gave {len(data)} bytes; more than {self._limit} go as a stream")

    def raised(self, request: Answerable, served: Served, error: BaseException) -> None:
        """Answer with what a method raised: a declared fault as such, all else by name and text."""
        name = type(error).__name__
        codec = served.spec.faults.get(name)
        if codec is not None and type(error) is codec.kind:
            try:
                request.refuse(FAULT, f"{name}\n{codec.encode(error)}")
                return
            except Exception as failed:                      # noqa: BLE001  a field has no encoding
                error, name = failed, type(failed).__name__
        self.counters.add("method_exceptions")
        log.warning("%s raised; the call fails at %s", served.spec.label, request.src, exc_info=error)
        request.refuse(name, str(error)[:4000])

    # --- the calling side -------------------------------------------------------------------------------------------

    def deadline_ns(self, timeout: float | None, now_ns: int) -> int:
        """When a call that begins now has to end: a call inside a method ends no later than that one."""
        own = NEVER_NS if timeout is None else now_ns + int(timeout * 1e9)
        context = CURRENT.get()
        if context is None:
            return own
        if isinstance(context, Request):
            context = self._context(context, int.from_bytes(context.payload[9:CALL_HEAD.size], "big"))
        return min(own, context.deadline_ns)

    def head(self, plan: Any, spec: MethodSpec, member: Address, left_ms: int) -> bytes:
        """The head of a call."""
        if not spec.options.once:
            return CALL_HEAD.pack(CALL, spec.key, left_ms)
        return ONCE_HEAD.pack(CALL_ONCE, spec.key, left_ms, plan.number, plan.again == member)

    def next_once(self) -> int:
        """The number of a call that is sent for the first time."""
        self._once += 1
        return self._once

    def result(self, spec: MethodSpec, data: bytes) -> Any:
        """A result or an item.

        Raises:
            AnswerError: it is too large, or of another type.
        """
        if len(data) > self.max_bytes:
            raise AnswerError(f"{spec.label}: {len(data)} bytes; at most {self.max_bytes} are taken here (max_bytes)")
        try:
            return spec.result.decode(data)
        except Exception as error:
            raise AnswerError(f"{spec.label}: {error}") from error

    def fault(self, spec: MethodSpec, error: RemoteError) -> RequestError:
        """The class that a failure has here."""
        if error.kind == FAULT:
            name, _, text = error.text.partition("\n")
            codec = spec.faults.get(name)
            if codec is None:
                return RemoteError(error.member, name[:255], text)
            try:
                return codec.decode(text)
            except Exception as failed:                      # noqa: BLE001  of msgspec, and of classes of the application
                return AnswerError(f"{spec.label}: {name}: {failed}")
        known = REFUSALS.get(error.kind)
        return error if known is None else known(f"{error.member}: {error.text}")

    def answers(self, spec: MethodSpec, found: Answers) -> TypedAnswers[Any]:
        """The answers of all, with types."""
        values: dict[Address, Any] = {}
        errors: dict[Address, RequestError] = {
            member: self.fault(spec, error) for member, error in found.errors.items()}
        for member, data in found.values.items():
            try:
                values[member] = self.result(spec, data)
            except AnswerError as error:
                errors[member] = error
        complete = found.complete and len(values) == len(found.values)
        return TypedAnswers(values, errors, found.left, found.missing, complete)

    def statistics(self, running: int, streams: int) -> dict[str, int]:
        """All counters."""
        served = self.counters.get("calls_served", 0) + self._in_short
        return {**self.rpc.stats, **self.counters, "calls_served": served, "running": running, "streams": streams}


def _later(connection: Connection, function: Callable[[], None]) -> None:
    connection.later(RETRY_NS, function)


def is_coroutine(function: Callable[..., Any], spec: MethodSpec) -> bool:
    """Whether an implementation needs an event loop."""
    if spec.stream and not inspect.isasyncgenfunction(function):
        return spec.coroutine
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def milliseconds(left_ns: int) -> int:
    """What is left of a deadline, for the wire: at least 1, 0 without one."""
    return 0 if left_ns >= NEVER_NS >> 1 else max(1, min(MAX_MS, left_ns // NS_PER_MS))


def seconds_of(left_ns: int) -> float | None:
    """As a timeout of a request."""
    return None if left_ns >= NEVER_NS >> 1 else max(0.0, left_ns / NS_PER_S)


def flags_of(spec: MethodSpec) -> int:
    """The flags of a call's message."""
    return Flag.bits(Flag.OOB) if spec.options.unordered else 0


def spec_of_function(function: Callable[..., Any]) -> MethodSpec:
    """The method that `Orders.find` is.

    Raises:
        TypeError: it is none, or gives a stream.
    """
    owner = getattr(function, OWNER, None)
    if owner is None or not hasattr(function, MARK):
        raise TypeError(f"all() takes a method of a Service class, as in all(Orders.find); not {function!r}")
    spec = interface_of(owner)[function.__name__]
    if spec.stream:
        raise TypeError(f"{spec.label} gives a stream: it is asked of one member")
    return spec


def stub_of(kind: type[T], call: Callable[[MethodSpec], Callable[..., Any]]) -> T:
    """An object of the type of an interface, whose methods are calls."""
    methods = {name: call(spec) for name, spec in interface_of(kind).items()}
    made: T = object.__new__(type(f"{kind.__name__}Stub", (kind,), methods))
    return made


def cancel_bytes(number: int) -> bytes:
    """The message that ends a call or a stream."""
    return NUMBERED.pack(CANCEL, number)


def pull_bytes(number: int) -> bytes:
    """The message that asks for items of a stream."""
    return NUMBERED.pack(PULL, number)
