"""Which spans of this process are open, as far as the SDK of OpenTelemetry tells: only then may a send be inside one.

Asking OpenTelemetry for the present span costs a twentieth of a message. A Tracing is told here when there is any, on
whichever thread, and asks only then.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
except ImportError:                                          # the SDK is the application's choice
    SpanProcessor = object                                   # type: ignore[assignment, misc]
    TracerProvider = None                                    # type: ignore[assignment, misc]
if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.trace import SpanContext

LOCK = threading.RLock()
"""Of all there is here: two providers may tell one Tracing. The garbage collector may end a span inside of it."""


class OpenSpans(SpanProcessor):
    """The open spans of a provider that were begun after it was added to the provider."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()    # not those that are forgotten
        self._watchers: dict[object, Callable[[], None]] = {}

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._open)

    def watch(self, who: object, changed: Callable[[], None] | None) -> None:
        """Call `changed` when there may be the first one, or none any more; None: no longer."""
        with LOCK:
            if changed is None:
                self._watchers.pop(who, None)
            else:
                self._watchers[who] = changed

    def add(self, span: Any) -> None:
        """One that is open."""
        with LOCK:
            first = not self._open
            self._open[identity(span.get_span_context())] = span
            if first:
                self._tell()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Of the SDK: on the thread that begins it, before it is any thread's present span."""
        self.add(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Of the SDK: on any thread."""
        context = span.get_span_context()
        with LOCK:
            if context is not None and self._open.pop(identity(context), None) is not None and not self._open:
                self._tell()

    def _tell(self) -> None:
        for changed in tuple(self._watchers.values()):
            changed()


def identity(context: SpanContext) -> tuple[int, int]:
    """What no other span has."""
    return context.trace_id, context.span_id


_KNOWN: WeakKeyDictionary[object, OpenSpans] = WeakKeyDictionary()


def open_spans(provider: object) -> tuple[OpenSpans, ...] | None:
    """Those of a provider and of the global one; None: they do not tell, as they are not the SDK's.

    provider: None: the global one alone. A span of yet another provider is not found.
    """
    if TracerProvider is None:
        return None
    globally = trace.get_tracer_provider()
    found = []
    for one in {id(each): each for each in (provider or globally, globally)}.values():
        if not isinstance(one, TracerProvider):
            if one is globally and provider is not None:
                continue                                     # there is no global one
            return None
        with LOCK:
            if one not in _KNOWN:
                _KNOWN[one] = OpenSpans()
                one.add_span_processor(_KNOWN[one])
            found.append(_KNOWN[one])
    present = trace.get_current_span()
    if present.is_recording():                               # begun before this one was there to be told
        found[0].add(present)
    return tuple(found)
