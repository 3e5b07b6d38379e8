"""Traces of messages by OpenTelemetry (extra `otel`): from the send at one member to the receivers of others.

A Tracing observes a channel. A send that is sampled becomes a span `send CLUSTER`, or `send TOPIC`, and its message
carries the span's context, as W3C's `traceparent`, in the application's header 4242. Each receiver that has a Tracing
makes a span `process ...` of it, whose parent is the span of the send; headers cross sites, so spans do too. No
protocol takes part.

What is not sampled carries nothing, and gets no span. That matters: neighbouring messages travel as one batch only if
their headers are equal, so a context of its own for every message would cost ten times the message.

OpenTelemetry's API makes the spans; what becomes of them is up to the SDK that the application configures.
"""
from __future__ import annotations

import contextvars
import inspect
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.message import Message, MessageBatch
from jgroups_py.channel.streams import DeliveryStream
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import ConfigError
from jgroups_py.ops.open_spans import LOCK, open_spans
from jgroups_py.wire import AppHeaders
from jgroups_py.wire.topic_headers import topic_of

try:
    from opentelemetry import trace
    from opentelemetry.context import Context, attach, detach, get_current
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:                                          # the extra is not installed: said when it is needed
    trace = None                                             # type: ignore[assignment]
if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, TracerProvider

TRACE_HEADER = 4242                         # the application's header with `traceparent`, 55 ASCII characters
SENT_HEADER = 4243                           # the wall clock at the send: nanoseconds since 1970, 8 bytes, big-endian
SENT_BYTES = 8
PARENT = "traceparent"
NEVER = 1 << 62                             # messages
MOST_THINNED = 8


class Tracing:
    """Traces the application's messages of a channel, sent and received, until `close`; connected or not.

    malformed: headers 4242 and 4243 that came and could not be read; their messages are delivered without a span.
    """

    def __init__(
        self, channel: BaseChannel, *, ratio: float = 0.01, max_per_second: float = 20.0,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        """Begin.

        ratio: of the sends outside of any span, the share that begins a trace, 0 to 1. A send inside a sampled span
        is always traced, one inside an unsampled span never. With a provider of the SDK that is a span of this provider
        or of the global one which was begun after this call, or around it, and has not ended; a send in another one,
        as in a context that came from elsewhere and was attached as it is, counts as outside until it is its turn.
        max_per_second: spans of sends, and of receptions, in a second, at most; what comes above has none, and the next
        one is looked for in up to 8 times as many sends. tracer_provider: None: OpenTelemetry's global one.

        Raises:
            ConfigError: OpenTelemetry is not installed, or a number makes no sense. ChannelError: the channel has a
            Tracing already.
        """
        if trace is None:
            raise ConfigError("Tracing needs opentelemetry-api: pip install 'jgroups_py[otel]'")
        if not 0 <= ratio <= 1:
            raise ConfigError(f"ratio={ratio}: the share of sends that begin a trace is 0 to 1")
        if not max_per_second > 0:
            raise ConfigError(f"max_per_second={max_per_second}: a number of spans above 0")
        self.malformed = 0
        self._channel: BaseChannel | None = channel
        self._ratio = ratio
        self._tracer = trace.get_tracer("jgroups_py", tracer_provider=tracer_provider)
        self._propagator = TraceContextTextMapPropagator()
        self._sends, self._receptions = SpanBudget(max_per_second), SpanBudget(max_per_second)
        self._draw = random.Random().random
        self.wants: Callable[[], object] = _context_getter() # see MessageObserver: inside of a span, which is rare
        self.passing = self._gap()                           # see MessageObserver
        self._thinned = 1                                    # how many gaps one is made of
        self._spans = open_spans(tracer_provider)
        self.watching = self._spans is None                  # see MessageObserver
        channel.observe(self)
        for spans in self._spans or ():
            spans.watch(self, self._spans_changed)
        self._spans_changed()

    def close(self) -> None:
        """Trace no more; idempotent."""
        channel, self._channel = self._channel, None
        for spans in self._spans or ():
            spans.watch(self, None)
        if channel is not None:
            channel.observe(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- sends --------------------------------------------------------------------------------------------------------

    def _spans_changed(self) -> None:
        """Be asked about each message while a span is open on some thread."""
        with LOCK:
            channel = self._channel                          # `close` may be under way
            if channel is not None and self._spans is not None:
                channel.watch(any(spans.any for spans in self._spans))

    def asks(self) -> bool:
        """See MessageObserver."""
        if self.passing > 0 and not self.wants():
            self.passing -= 1
            return False
        return True

    def _gap(self) -> int:
        """How many messages outside of spans pass until one begins a trace; drawn as if for each message by itself."""
        if self._ratio in (0, 1):
            return 0 if self._ratio else NEVER
        return int(math.log(1 - self._draw()) / math.log(1 - self._ratio))

    def sending(
        self, dest: Address | None, payloads: Sequence[bytes], wired: tuple[Header, ...],
    ) -> AbstractContextManager[tuple[Header, ...]]:
        """See MessageObserver. The span lasts until `send` returns: with `until`, until the receipt is there."""
        current = trace.get_current_span().get_span_context() if self.wants() else None
        if current is not None and current.is_valid:
            chosen = current.trace_flags.sampled and self._sends.take(time.monotonic())
        else:
            chosen = self._begins_a_trace()
        return self._send_span(dest, payloads, wired) if chosen else nullcontext(wired)

    def _begins_a_trace(self) -> bool:
        """Whether a send outside of any span does. What is above max_per_second is asked for more seldom."""
        if self.passing > 0:                                 # in a context without a span
            self.passing -= 1
            return False
        chosen = self._sends.take(time.monotonic())
        self._thinned = 1 if chosen else min(2 * self._thinned, MOST_THINNED)
        self.passing = self._gap() * self._thinned
        return chosen

    @contextmanager
    def _send_span(
        self, dest: Address | None, payloads: Sequence[bytes], wired: tuple[Header, ...],
    ) -> Iterator[tuple[Header, ...]]:
        attributes = self._attributes("send", topic_of(wired), payloads)
        if dest is not None:
            attributes["jgroups.destination"] = str(dest)
        # It is not the thread's present span: with `until` callbacks may run inside of the send, for other messages.
        span = self._tracer.start_span(f"send {attributes['messaging.destination.name']}",
                                       kind=trace.SpanKind.PRODUCER, attributes=attributes)
        context = span.get_span_context()
        try:
            yield self._marked(wired, context) if context.trace_flags.sampled else wired
        except Exception as error:
            span.record_exception(error)
            span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
            raise
        finally:
            span.end()

    def _marked(self, wired: tuple[Header, ...], context: SpanContext) -> tuple[Header, ...]:
        """The headers, and the context of a span: version 00 of W3C's `traceparent`."""
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        mark = {TRACE_HEADER: parent.encode("ascii"), SENT_HEADER: time.time_ns().to_bytes(SENT_BYTES, "big")}
        if wired and isinstance(wired[0], AppHeaders):
            return (AppHeaders({**wired[0].items, **mark}), *wired[1:])
        return (AppHeaders(mark), *wired)

    # --- receptions ---------------------------------------------------------------------------------------------------

    def receiving(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """See MessageObserver. A loop over messages() takes a message after its delivery: see `processing`."""
        if isinstance(getattr(method, "__self__", None), DeliveryStream):
            return method

        def observed(item: Message | MessageBatch) -> Any:
            return self._process(method, item) if TRACE_HEADER in item.headers else method(item)
        return observed

    @contextmanager
    def processing(self, item: Message | MessageBatch) -> Iterator[None]:
        """For loops over `messages()` and `events()`: what is done inside is the processing of `item`."""
        span = self._reception(item)
        if span is None:
            yield
            return
        with trace.use_span(span, end_on_exit=True):
            yield

    def _process(self, method: Callable[..., Any], item: Message | MessageBatch) -> Any:
        span = self._reception(item)
        if span is None:
            return method(item)
        try:
            with trace.use_span(span):
                result = method(item)
        except BaseException:
            span.end()
            raise
        if inspect.isawaitable(result):                      # of an AsyncChannel, which awaits it at once
            return self._awaited(span, result)
        span.end()
        return result

    async def _awaited(self, span: Span, result: Awaitable[Any]) -> Any:
        with trace.use_span(span, end_on_exit=True):
            return await result

    def _reception(self, item: Message | MessageBatch) -> Span | None:
        """The span of what a member received; None: it has none, it cannot be read, or there were too many."""
        mark = item.headers.get(TRACE_HEADER)
        if mark is None or not self._receptions.take(time.monotonic()):
            return None
        context = self._propagator.extract({PARENT: mark.decode("ascii", "replace")})
        parent, sent = trace.get_current_span(context).get_span_context(), item.headers.get(SENT_HEADER, b"")
        if not parent.is_valid or len(sent) not in (0, SENT_BYTES):
            self.malformed += 1
            return None
        payloads = item.payloads if isinstance(item, MessageBatch) else (item.payload,)
        attributes = self._attributes("process", item.topic, payloads)
        attributes["jgroups.source"] = str(item.src)
        if item.site is not None:
            attributes["jgroups.origin_site"] = item.site
        if sent:
            attributes["jgroups.delay_ms"] = round((time.time_ns() - int.from_bytes(sent, "big")) / 1e6, 3)
        return self._tracer.start_span(f"process {attributes['messaging.destination.name']}", context=context,
                                       kind=trace.SpanKind.CONSUMER, attributes=attributes)

    def _attributes(
        self, operation: str, topic: str | None, payloads: Sequence[bytes],
    ) -> dict[str, str | int | float]:
        """Those of OpenTelemetry's conventions for messaging, and our own."""
        channel = self._channel
        found: dict[str, str | int | float] = {
            "messaging.system": "jgroups", "messaging.operation.name": operation, "messaging.operation.type": operation,
            "messaging.destination.name": topic or (channel.cluster if channel is not None else None) or "",
            "messaging.message.body.size": sum(map(len, payloads))}
        if len(payloads) != 1:
            found["messaging.batch.message_count"] = len(payloads)
        if channel is not None:
            found["jgroups.member"] = channel.name
            if channel.site is not None:
                found["jgroups.site"] = channel.site
        return found


def _context_getter() -> Callable[[], object]:
    """What gives OpenTelemetry's present context, which is empty outside of spans.

    It keeps the context in a variable of contextvars, unless it was told otherwise, and asking that one takes a fifth
    of the time that `get_current` takes, which is called for each message. The variable has no public name, so it is
    found by its value.
    """
    mark = Context({PARENT: ""})
    token = attach(mark)
    try:
        found = [variable for variable, value in contextvars.copy_context().items() if value is mark]
    finally:
        detach(token)
    try:
        [variable] = found
        if contextvars.Context().run(variable.get) == {}:    # it has a default
            return variable.get
    except (ValueError, LookupError):
        pass
    return get_current


class SpanBudget:
    """At most so many spans a second, half of them at once. Threads that meet in it may get a few more."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = self._left = max(1.0, per_second / 2)
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether there is one more at `now`, in seconds of a clock that only grows.

        >>> budget = SpanBudget(4)
        >>> [budget.take(second) for second in (0.0, 0.0, 0.0, 0.25, 0.25)]
        [True, True, False, True, False]
        """
        if self._at is not None:
            self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
