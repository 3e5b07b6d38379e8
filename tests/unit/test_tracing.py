"""The way of one message through the layers, and the log of drops."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.address import ProxyUUID
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import Traced
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.nakack.headers import MulticastData, Retransmission
from jgroups_py.stack.tracing import Trace, TraceFilter
from jgroups_py.testing.bench import Bench, address, change, multicast, unicast, view_of

Nakack, Frag = KNOWN["NAKACK"].load(), KNOWN["FRAG"].load()
VIEW = view_of("A", "B", "C")
OTHER = view_of("A", "B", "C", counter=2)


def traced(wish: str, *layers, **options) -> Bench:
    bench = Bench(Nakack(), *layers, trace=Trace(TraceFilter.parse(wish)) if wish else None, **options)
    bench.down(change(VIEW))
    bench.sent()
    return bench


def trace_of(bench: Bench) -> list[str]:
    lines = [str(output) for output in bench.outputs if isinstance(output, Traced)]
    bench.outputs.clear()
    return lines


def data(number: int, *payloads: bytes, view=VIEW, src: str = "B"):
    return multicast(src, *payloads, headers=(MulticastData(view.id.raw, number),))


@pytest.mark.parametrize(("text", "wanted"), [
    ("A:17", TraceFilter("A", 17, 18)), ("A:17-20", TraceFilter("A", 17, 21)), ("A", TraceFilter("A")),
    ("db:1:5", TraceFilter("db:1", 5, 6)),
])
def test_a_filter_is_a_source_and_numbers(text, wanted):
    assert TraceFilter.parse(text) == wanted


@pytest.mark.parametrize("text", ["", "A:20-17"])
def test_a_wish_that_means_nothing_is_an_error(text):
    with pytest.raises(ConfigError, match="JGROUPS_TRACE"):
        TraceFilter.parse(text)


def test_a_source_is_a_name_a_name_at_a_site_or_the_beginning_of_an_address():
    proxy = ProxyUUID(address("B"), None, "sfo")
    assert TraceFilter("B").names(proxy, "B")
    assert TraceFilter("B@sfo").names(proxy, "B")
    assert not TraceFilter("B@nyc").names(proxy, "B")
    assert TraceFilter(address("B").raw.hex()[:8]).names(address("B"), "")
    assert not TraceFilter("4").names(address("B"), "")


def test_a_message_behind_a_hole_is_kept_and_goes_up_when_the_hole_is_closed():
    bench = traced("B:2")
    bench.up(data(2, b"two"))
    assert trace_of(bench) == ["NAKACK keeps B to all, 1 message, MulticastData 2"]
    bench.up(data(1, b"one"))
    assert trace_of(bench) == ["NAKACK passes up B to all, 1 message", "stack delivers B to all, 1 message"]
    assert bench.payloads() == [b"one", b"two"]


def test_other_messages_leave_no_trace():
    bench = traced("B:2")
    bench.up(data(1, b"one"))
    bench.up(data(2, b"two", src="C"))
    assert trace_of(bench) == []


def test_a_drop_is_logged_with_numbers_and_the_reason():
    bench = traced("B:1-9")
    bench.down(change(OTHER, VIEW))
    bench.up(data(3, b"a", b"b"))
    assert trace_of(bench)[-1] == ("NAKACK drops B to all, 2 messages, MulticastData 3..4: it was sent in an earlier "
                               "view (old_view_dropped)")


def test_an_own_multicast_is_followed_down_and_back_up_though_the_application_sends_one_object_twice():
    bench = traced("A:1")
    payload = b"the same object"
    bench.down(multicast("A", payload))
    assert trace_of(bench) == [
        "NAKACK passes down A to all, 1 message, MulticastData 1", "NAKACK passes up A to all, 1 message",
        "RecordingTransport keeps A to all, 1 message, MulticastData 1", "stack delivers A to all, 1 message"]
    bench.down(multicast("A", payload))
    assert trace_of(bench) == []


def test_a_message_that_another_member_sends_again_is_followed_too():
    bench = traced("B:1")
    bench.up(data(2, b"two"))
    bench.up(unicast("C", "A", b"one", headers=(Retransmission(VIEW.id.raw, address("B"), 1),)))
    assert trace_of(bench) == ["NAKACK passes up B to all, 1 message", "stack delivers B to all, 1 message"]
    assert bench.payloads("B") == [b"one", b"two"]


def test_a_large_message_is_followed_from_one_of_its_pieces():
    sender, receiver = traced("", Frag(), me="B"), traced("B:2", Frag())
    whole = bytes(range(256)) * 600
    sender.down(multicast("B", whole))
    for batch in sender.sent():
        for at in range(batch.count):
            receiver.up(batch.cut(at, at + 1))
    assert trace_of(receiver) == [
        "NAKACK passes up B to all, 1 message, Fragment", "FRAG keeps B to all, 1 message, Fragment",
        "FRAG passes up B to all, 1 message", "stack delivers B to all, 1 message"]
    assert receiver.payloads() == [whole]


def test_drops_are_logged_without_a_trace_while_the_log_is_at_debug():
    bench = traced("", explains=True)
    bench.up(data(1, b"x", src="D"))
    assert trace_of(bench) == [
        "NAKACK drops D to all, 1 message, MulticastData 1: its source is not in the view (non_member_dropped)"]
    bench.stack.explain(False)
    bench.up(data(2, b"x", src="D"))
    assert trace_of(bench) == []
    assert bench.stats()["non_member_dropped"] == 2


def test_without_a_wish_no_layer_is_wired_with_a_hop(monkeypatch):
    def hop(*_):
        raise AssertionError("a hop without a trace setting")
    for name in ("handling", "passing", "concerns", "delivered"):
        monkeypatch.setattr(Trace, name, hop)
    bench = traced("")
    bench.up(data(1, b"one"))
    assert bench.payloads() == [b"one"]


@pytest.mark.parametrize("seed", range(20))
def test_a_traced_stack_does_what_another_does(seed):
    rng = Random(seed)
    plain, watched = traced("", Frag()), traced("B:3-9", Frag())
    for _ in range(60):
        item = data(rng.randrange(1, 12), *[b"%d" % rng.random() * rng.randrange(3)] * rng.randrange(1, 4),
                    view=rng.choice((VIEW, VIEW, OTHER)), src=rng.choice("BCD"))
        for bench in (plain, watched):
            bench.up(item)
            bench.advance(20)
    assert [(b.src, b.payloads) for b in plain.delivered] == [(b.src, b.payloads) for b in watched.delivered]
    assert [(b.dest, b.headers) for b in plain.sent()] == [(b.dest, b.headers) for b in watched.sent()]
    assert plain.stats() == watched.stats()
