"""Traces of messages, by the SDK's in-memory exporter: threads, asyncio, two sites in two processes."""
from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import jgroups_py as jg
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.ops import open_spans as open_spans_module
from jgroups_py.ops import tracing
from jgroups_py.ops.tracing import SENT_HEADER, TRACE_HEADER, Tracing
from jgroups_py.system.free_ports import free_range
from jgroups_py.wire import AppHeaders
from tests.integration.members import free_ports

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

PORTS = free_ports("udp")
STACKS = Path(__file__).parents[2] / "stacks"
CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """The spans of one member. provider: for its Tracing."""

    def __init__(self) -> None:
        self.provider, self._exporter = TracerProvider(), InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


@pytest.fixture
def pair() -> Iterator[tuple[jg.JChannel, jg.JChannel, list[jg.Message]]]:
    """Two members of a group, and what the second one receives."""
    got: list[jg.Message] = []
    with jg.JChannel("udp", "A", PORTS) as a, jg.JChannel("udp", "B", PORTS) as b:
        b.on_message(got.append)
        a.connect("traced")
        b.connect("traced")
        a.wait_for(members=2, timeout=30)
        yield a, b, got


def test_a_message_is_one_trace_from_its_send_to_its_receiver(pair) -> None:
    a, b, got = pair
    at_a, at_b = Spans(), Spans()
    with Tracing(a, ratio=1, tracer_provider=at_a.provider), Tracing(b, tracer_provider=at_b.provider):
        a.send(None, b"12345", headers={200: b"own"})
        until(lambda: bool(at_b.of(SpanKind.CONSUMER)))
    (sent,), (processed,) = at_a.of(SpanKind.PRODUCER), at_b.of(SpanKind.CONSUMER)
    assert (sent.name, processed.name) == ("send traced", "process traced")
    assert processed.context.trace_id == sent.context.trace_id
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert got[0].headers[200] == b"own", "the application's own headers stay"
    assert (sent.attributes or {})["messaging.message.body.size"] == 5
    attributes = processed.attributes or {}
    assert (attributes["jgroups.source"], attributes["jgroups.member"]) == ("A", "B")
    assert 0 <= attributes["jgroups.delay_ms"] < 60_000      # type: ignore[operator]


def test_without_a_sample_nothing_is_marked_and_without_a_tracing_neither(pair) -> None:
    a, b, got = pair
    at_a, at_b = Spans(), Spans()
    with Tracing(b, tracer_provider=at_b.provider):
        a.send(None, b"no Tracing")
        with Tracing(a, ratio=0, tracer_provider=at_a.provider):
            a.send(None, b"no sample")
        a.send(None, b"closed")
        until(lambda: len(got) == 3)
    assert [dict(message.headers) for message in got] == [{}, {}, {}]
    assert not at_a.of(SpanKind.PRODUCER)
    assert not at_b.of(SpanKind.CONSUMER)


def test_the_span_around_a_send_decides(pair) -> None:
    a, _, got = pair
    spans, unsampled = Spans(), TracerProvider(sampler=ALWAYS_OFF)
    with (Tracing(a, ratio=0, tracer_provider=spans.provider),
          spans.provider.get_tracer("test").start_as_current_span("request") as request):
        a.send(None, b"in a trace")
    with (Tracing(a, ratio=1, tracer_provider=spans.provider),
          unsampled.get_tracer("test").start_as_current_span("request")):
        a.send(None, b"in none")
    until(lambda: len(got) == 2)
    assert [TRACE_HEADER in message.headers for message in got] == [True, False]
    (sent,) = spans.of(SpanKind.PRODUCER)
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id


@pytest.mark.parametrize("provider", ["its own", "the global one", "one that tells nothing"])
def test_a_span_on_one_thread_is_noticed_whenever_it_begins(
    pair, provider: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 1,000 sends those inside of a span are traced, whichever thread began it, and no other one is."""
    a, _, got = pair
    spans, others = Spans(), Spans()
    if provider == "the global one":
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: others.provider)
    if provider == "one that tells nothing":
        monkeypatch.setattr(open_spans_module, "TracerProvider", None)
    tracer = (others if provider == "the global one" else spans).provider.get_tracer("test")
    with Tracing(a, ratio=0, max_per_second=1e9, tracer_provider=spans.provider) as traced:
        for number in range(1000):
            if number % 100:
                a.send(None, b"%d" % number)
                continue
            with ThreadPoolExecutor(1) as pool:
                begun = pool.submit(tracer.start_span, "request").result()
            with trace.use_span(begun, end_on_exit=True):
                a.send(None, b"%d" % number)
        until(lambda: len(got) == 1000)
        assert a._status.watched is traced.watching is (provider == "one that tells nothing")
    marked = [int(message.payload) for message in got if TRACE_HEADER in message.headers]
    assert marked == list(range(0, 1000, 100))
    assert [message.payload for message in got] == [b"%d" % number for number in range(1000)]


def test_a_tracing_that_is_made_inside_of_a_span_follows_it(pair) -> None:
    a, _, got = pair
    spans = Spans()
    with spans.provider.get_tracer("test").start_as_current_span("main"):
        traced = Tracing(a, ratio=0, tracer_provider=spans.provider)
        a.send(None, b"inside")
    a.send(None, b"outside")
    assert not a._status.watched
    traced.close()
    until(lambda: len(got) == 2)
    assert [TRACE_HEADER in message.headers for message in got] == [True, False]


def test_spans_that_never_end_are_forgotten_and_those_of_others_do_not_reopen_a_closed_tracing(pair) -> None:
    a, _, _ = pair
    spans = Spans()
    tracer = spans.provider.get_tracer("test")
    with Tracing(a, ratio=0, tracer_provider=spans.provider):
        lost = tracer.start_span("never ended")
        assert a._status.watched
        del lost
        gc.collect()
        tracer.start_span("another one").end()
        assert not a._status.watched
    tracer.start_span("after it").end()
    held = tracer.start_span("after it")
    assert not a._status.watched, "nobody observes the channel"
    held.end()


class EachTenth:
    """An observer that lets nine plain messages pass, and marks the next one."""

    def __init__(self) -> None:
        self.passing = 9
        self.watching = False
        self.wants: Callable[[], object] = bool              # never
        self.seen: list[bytes] = []

    def asks(self) -> bool:
        self.passing -= 1
        return self.passing < 0

    def sending(
        self, dest: Address | None, payloads: Sequence[bytes], wired: tuple[Header, ...],
    ) -> AbstractContextManager[tuple[Header, ...]]:
        self.seen += payloads
        self.passing = 9
        return nullcontext((AppHeaders({300: b"seen"}), *wired))

    def receiving(self, method: Callable[..., Any]) -> Callable[..., Any]:
        return method


def test_an_observer_is_told_of_as_many_messages_as_it_asked_for_and_all_stay_in_order(pair) -> None:
    a, _, got = pair
    tenth = EachTenth()
    a.observe(tenth)
    sent = [b"%d" % number for number in range(100)]
    for payload in sent:
        a.send(None, payload)
    until(lambda: len(got) == 100)
    a.observe(None)
    a.send(None, b"unobserved")
    until(lambda: len(got) == 101)
    assert [message.payload for message in got[:-1]] == sent
    assert tenth.seen == sent[9::10] == [message.payload for message in got if 300 in message.headers]


def test_one_in_twenty_is_sampled_wherever_it_stands(pair) -> None:
    a, _, got = pair
    spans = Spans()
    with Tracing(a, ratio=0.05, max_per_second=1e9, tracer_provider=spans.provider):
        for number in range(4000):
            a.send(None, b"%d" % number)
        until(lambda: len(got) == 4000)
    marked = [int(message.payload) for message in got if TRACE_HEADER in message.headers]
    assert [message.payload for message in got] == [b"%d" % number for number in range(4000)]
    assert len(spans.of(SpanKind.PRODUCER)) == len(marked)
    assert 110 < len(marked) < 290, "200, and a standard deviation of 14"
    gaps = {second - first for first, second in pairwise(marked)}
    assert 1 in gaps or 2 in gaps or 3 in gaps, "they are drawn, not counted out"
    assert len(gaps) > 20


def test_with_a_context_of_another_kind_opentelemetry_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracing._context_getter() is not tracing.get_current
    monkeypatch.setattr(tracing, "attach", lambda context: object())      # it keeps it where contextvars do not see it
    monkeypatch.setattr(tracing, "detach", lambda token: None)
    assert tracing._context_getter() is tracing.get_current


def test_what_the_sdk_does_not_sample_is_not_marked(pair) -> None:
    a, _, got = pair
    with Tracing(a, ratio=1, tracer_provider=TracerProvider(sampler=ALWAYS_OFF)):
        a.send(None, b"1")
        until(lambda: len(got) == 1)
    assert not got[0].headers


def test_no_more_than_so_many_spans_a_second_and_all_messages(pair) -> None:
    a, _, got = pair
    spans = Spans()
    with Tracing(a, ratio=1, max_per_second=30, tracer_provider=spans.provider):
        begin = time.monotonic()
        for _ in range(200):
            a.send(None, b"x")
        seconds = time.monotonic() - begin
    until(lambda: len(got) == 200)
    assert 15 <= len(spans.of(SpanKind.PRODUCER)) <= 15 + 30 * seconds


def test_a_batch_and_a_receipt_are_one_span(pair) -> None:
    a, b, got = pair
    at_a, at_b = Spans(), Spans()
    with Tracing(a, ratio=1, tracer_provider=at_a.provider), Tracing(b, tracer_provider=at_b.provider):
        a.send_batch(None, [b"1", b"22", b"333"])
        a.send(b.me, b"handled", flags=jg.Flag.DONT_BUNDLE)
        a.send(None, b"4", until="handled")
        until(lambda: len(got) == 5)
    batch, one, receipt = at_a.of(SpanKind.PRODUCER)
    assert (batch.attributes or {})["messaging.batch.message_count"] == 3
    assert (batch.attributes or {})["messaging.message.body.size"] == 6
    assert (one.attributes or {})["jgroups.destination"] == "B"
    last = at_b.of(SpanKind.CONSUMER)[-1]
    assert receipt.end_time is not None
    assert last.start_time is not None
    assert receipt.end_time >= last.start_time, "the span lasts until the receipt is there"


def test_an_error_of_the_receiver_is_in_its_span_and_that_of_a_send_too(pair) -> None:
    a, b, got = pair
    at_a, at_b = Spans(), Spans()

    def fail(message: jg.Message) -> None:
        got.append(message)
        raise RuntimeError("of the application")

    b.receiver = None
    b.receiver = fail
    with Tracing(a, ratio=1, tracer_provider=at_a.provider), Tracing(b, tracer_provider=at_b.provider):
        a.send(None, b"x")
        until(lambda: b.stats()["channel"].get("receiver_exceptions") == 1)
        with pytest.raises(ValueError, match="needs RELAY in the stack"):
            a.send(None, b"x", until="stable@SFO")
    (processed,), (_, refused) = at_b.of(SpanKind.CONSUMER), at_a.of(SpanKind.PRODUCER)
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.events[0].name == "exception"
    assert refused.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("headers", [
    {TRACE_HEADER: b""}, {TRACE_HEADER: b"\xff\x00 no trace"}, {TRACE_HEADER: CONTEXT[:-3]},
    {TRACE_HEADER: CONTEXT, SENT_HEADER: b"soon"}, {TRACE_HEADER: b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"}])
def test_what_is_no_context_is_counted_and_its_message_delivered(pair, headers) -> None:
    a, b, got = pair
    spans = Spans()
    with Tracing(b, tracer_provider=spans.provider) as traced:
        a.send(None, b"x", headers=headers)
        until(lambda: len(got) == 1)
    assert traced.malformed == 1
    assert not spans.of(SpanKind.CONSUMER)


def test_a_loop_over_messages_says_what_it_processes(pair) -> None:
    a, b, _ = pair
    b.receiver = None
    spans = Spans()
    with Tracing(a, ratio=1, tracer_provider=spans.provider), Tracing(b, tracer_provider=spans.provider) as traced:
        loop = b.messages(timeout=30)
        a.send(None, b"x")
        message = next(loop)
        assert not spans.of(SpanKind.CONSUMER), "that it came to the loop is not its processing"
        with traced.processing(message):
            inside = trace.get_current_span().get_span_context()
    (processed,) = spans.of(SpanKind.CONSUMER)
    assert inside.span_id == processed.context.span_id


def test_asyncio_the_span_lasts_as_long_as_the_coroutine() -> None:
    spans = Spans()

    async def run() -> None:
        done = asyncio.Event()

        async def receive(message: jg.Message) -> None:
            await asyncio.sleep(0.05)
            done.set()

        async with AsyncChannel("udp", "C", PORTS, receive) as ch:
            await ch.connect("traced-asyncio")
            with Tracing(ch, ratio=1, tracer_provider=spans.provider):
                await ch.send(None, b"x")
                await asyncio.wait_for(done.wait(), 30)
                await ch.send_batch(None, [b"1", b"2"])
                await asyncio.sleep(0)
            tenth = EachTenth()
            ch.observe(tenth)
            for number in range(20):
                await ch.send(None, b"%d" % number)
            assert tenth.seen == [b"9", b"19"]
    asyncio.run(run())
    processed = spans.of(SpanKind.CONSUMER)[0]
    assert processed.end_time is not None
    assert processed.start_time is not None
    assert processed.end_time - processed.start_time >= 50_000_000
    counts = [(span.attributes or {}).get("messaging.batch.message_count") for span in spans.of(SpanKind.PRODUCER)]
    assert counts == [None, 2]


def test_two_tracings_of_one_channel_are_refused_and_numbers_that_make_no_sense() -> None:
    channel = jg.JChannel("udp", "A", PORTS)
    with Tracing(channel), pytest.raises(jg.ChannelError, match="has an observer of its messages already"):
        Tracing(channel)
    for ratio, most in ((-0.1, 1), (1.1, 1), (1, 0)):
        with pytest.raises(jg.ConfigError, match=r"ratio=|max_per_second="):
            Tracing(channel, ratio=ratio, max_per_second=most)
    Tracing(channel).close()


def test_between_two_sites_and_processes_it_is_one_trace() -> None:
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
    spans = Spans()
    other = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.traced_member", str(STACKS / "sfo.xml"), "sfo", "E",
         *(f"{name}={value}" for name, value in {**free_ports("sfo"), **bridge}.items())],
        stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "connected\n"
        with jg.JChannel(str(STACKS / "nyc.xml"), "B", {**free_ports("nyc"), **bridge}) as b:
            b.connect("nyc")
            until(lambda: b.sites.get("SFO") == "UP")
            with Tracing(b, ratio=1, tracer_provider=spans.provider):
                b.send(None, b"traced")
            found = json.loads(other.stdout.readline())
    finally:
        other.kill()
        other.wait()
    (sent,) = spans.of(SpanKind.PRODUCER)
    assert (found["name"], found["kind"], found["trace"], found["parent"]) == (
        "process sfo", "CONSUMER", sent.context.trace_id, sent.context.span_id)
    attributes = found["attributes"]
    assert [attributes[f"jgroups.{name}"] for name in ("origin_site", "site", "member")] == ["NYC", "SFO", "E"]
