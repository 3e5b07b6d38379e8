"""A member that traces what it receives. Run by test_tracing.py.

Arguments: stack, cluster, name, NAME=VALUE properties. Prints "connected", and a JSON object for the span it made.
"""
from __future__ import annotations

import json
import sys
import threading

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import jgroups_py as jg
from jgroups_py.ops.tracing import Tracing


def main() -> None:
    stack, cluster, name, *properties = sys.argv[1:]
    provider, exporter, arrived = TracerProvider(), InMemorySpanExporter(), threading.Event()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    filled = dict(word.partition("=")[::2] for word in properties)
    channel = jg.JChannel(stack, name=name, properties=filled)
    with channel, Tracing(channel, ratio=0, tracer_provider=provider):
        channel.on_message(lambda message: arrived.set() if message.payload == b"traced" else None)
        channel.connect(cluster)
        print("connected", flush=True)                       # noqa: T201  the test waits for it
        arrived.wait(60)
    (span,) = exporter.get_finished_spans()
    context, parent = span.get_span_context(), span.parent
    assert context is not None, "a finished span has a context"
    print(json.dumps({"name": span.name, "kind": span.kind.name, "trace": context.trace_id,      # noqa: T201  its result
                      "parent": None if parent is None else parent.span_id, "attributes": dict(span.attributes or {})}))


if __name__ == "__main__":
    main()
