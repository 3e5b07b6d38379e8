"""A member's own probes and their paths; pings for other members; what counts as evidence."""
from __future__ import annotations

import pytest

from jgroups_py.model.events import LinkDown, LinkUp, Listening
from jgroups_py.model.outputs import CloseLink, Listen, LogEntry, OpenLink
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_HELPERS, BY_LINK, REFUSED
from jgroups_py.model.units import seconds
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.protocols.swim.headers import Alive, Nack, PingFor, PingHeader, ProbeAck, SuspectedHeader
from tests.unit.protocols.swim.bench import HOST, SwimBench, alive, place

LISTENER = {name: (host, 8000) for name, host in HOST.items()}


def probed(bench: SwimBench) -> tuple[str, PingHeader]:
    """Let time pass until A pings a node: the node's name, and the ping."""
    for _ in range(3000):
        bench.advance(1)
        for to, ping in bench.sent_headers(PingHeader):
            return next(name for name, host in HOST.items() if host == to), ping
    raise AssertionError("no node was probed")


def links(bench: SwimBench) -> list[OpenLink]:
    return [output for output in bench.outputs if isinstance(output, OpenLink)]


def alone_with_b(config: SwimConfig | None = None) -> SwimBench:
    """A with only B in its table, and where B accepts links."""
    bench = SwimBench("", config)
    bench.receive(alive("B", listener=LISTENER["B"]))
    bench.changed()
    return bench


def test_each_node_is_probed_once_in_a_round_of_intervals() -> None:
    bench = SwimBench("BCDE")
    names = []
    for _ in range(12):
        name, ping = probed(bench)
        bench.receive(ProbeAck(ping.number, b""), src=name)
        names.append(name)
    rounds = [sorted(names[start:start + 4]) for start in (4, 8)]    # new nodes may cut the first one short
    assert rounds == [list("BCDE")] * 2
    assert bench.stats()["answered_by_datagram"] == 12


def test_an_answer_gives_the_round_trip_time() -> None:
    bench = SwimBench("B")
    _, ping = probed(bench)
    bench.advance(3)
    bench.receive(ProbeAck(ping.number, b""))
    assert bench.known("B").rtt_ns == pytest.approx(seconds(0.003), abs=seconds(0.001))


def test_a_node_that_does_not_answer_is_probed_through_helpers_that_are_alive() -> None:
    bench = SwimBench("BCDEF", SwimConfig(indirect_checks=3))
    bench.receive(SuspectedHeader(1, "F", "C", 0), src="C")
    name, ping = probed(bench)
    bench.frames()
    bench.advance(500)
    asked = bench.sent_headers(PingFor)
    assert all((request.number, request.node, request.nack) == (ping.number, name, True) for _, request in asked)
    helpers = [host for host, _ in asked]
    assert len(dict.fromkeys(helpers)) == 3
    assert HOST[name] not in helpers
    assert HOST["F"] not in helpers or name == "F"
    bench.receive(ProbeAck(ping.number, b""), src="F" if name != "F" else "B")
    assert bench.stats()["answered_by_helpers"] == 1
    bench.advance(400)
    assert bench.known(name).state == ("suspect" if name == "F" else "alive")


def test_all_means_that_every_live_member_is_asked_to_help() -> None:
    bench = SwimBench("BCDEFGH", SwimConfig(indirect_checks="all"))
    probed(bench)
    bench.advance(500)
    assert len(bench.sent_headers(PingFor)) == 6


def test_no_answer_on_any_path_is_a_suspicion_that_names_the_paths_and_is_spread() -> None:
    bench = SwimBench("BCD", SwimConfig(link_pings=False))
    name, _ = probed(bench)
    bench.frames()
    bench.advance(1000)
    assert bench.changed() == [("suspected", name)]
    bench.advance(200)
    sent = [header for _, header in bench.sent_headers(SuspectedHeader)]
    assert (sent[0].node, sent[0].source, sent[0].tried) == (name, "A", BY_DATAGRAM | BY_HELPERS)


@pytest.mark.parametrize(("nacks", "health"), [("", 2), ("C", 1), ("CD", 0), ("CCDD", 0)])
def test_nacks_of_helpers_keep_health_from_dropping(nacks: str, health: int) -> None:
    bench = SwimBench("BCD", SwimConfig(link_pings=False, indirect_checks=2))
    name, ping = probed(bench)
    helpers = [other for other in "BCD" if other != name]
    bench.advance(600)
    for nack in nacks:
        bench.receive(Nack(ping.number), src=helpers["CD".index(nack)])
    bench.advance(400)
    assert bench.stats()["health"] == health


def test_bad_health_gives_probes_more_time() -> None:
    bench = SwimBench("B", SwimConfig(link_pings=False))
    bench.swim.awareness.change(2)
    probed(bench)
    bench.advance(2990)
    assert bench.changed() == []
    bench.advance(20)
    assert bench.changed() == [("suspected", "B")]


def test_a_member_that_did_not_run_itself_suspects_no_node() -> None:
    bench = SwimBench("BC", SwimConfig(link_pings=False))
    probed(bench)
    bench.stack.advance(bench.now_ns + seconds(20))        # one step, as after SIGSTOP
    bench.advance(0)
    assert bench.changed() == []
    assert (bench.stats()["own_pauses"], bench.stats()["health"]) == (1, 1)


def test_the_ping_of_a_suspect_brings_the_suspicion() -> None:
    bench = SwimBench("B")
    bench.receive(SuspectedHeader(1, "B", "C", 0))
    bench.advance(2000)
    pings = [headers for _, headers in bench.frames() if any(isinstance(header, PingHeader) for header in headers)]
    assert isinstance(pings[-1][-1], SuspectedHeader)        # read before the ping, so that the answer can refute it


# --- links ------------------------------------------------------------------------------------------------------------

def test_a_listener_is_opened_and_announced() -> None:
    bench = SwimBench("B")
    assert [(asked.host, asked.port) for asked in bench.outputs if isinstance(asked, Listen)] == [("", 0)]
    bench.up(Listening(LISTENER["A"]))
    bench.advance(300)
    told = next(header.listener for _, header in bench.sent_headers(Alive) if header.node == "A")
    assert told == ("127.0.0.1", LISTENER["A"][1]), "the host is the one that the transport tells"


def test_without_link_pings_no_listener_is_opened_and_no_link_is_tried() -> None:
    bench = alone_with_b(SwimConfig(link_pings=False))
    probed(bench)
    bench.advance(900)
    assert [output for output in bench.outputs if isinstance(output, Listen | OpenLink)] == []


def test_a_member_that_answers_on_a_link_only_is_alive_and_a_warning_is_logged_once_a_minute() -> None:
    bench = alone_with_b()
    for _ in range(5):
        probed(bench)
        bench.advance(500)
        (link, *_) = links(bench)
        assert link.to == LISTENER["B"]
        bench.up(LinkUp(link.link, bench.known("B").address.raw))
        bench.outputs = [output for output in bench.outputs if not isinstance(output, OpenLink)]
        assert any(isinstance(output, CloseLink) and output.link == link.link for output in bench.outputs)
    assert bench.changed() == []
    assert bench.stats()["answered_by_link"] == 5
    assert len([output for output in bench.outputs if isinstance(output, LogEntry)]) == 1


@pytest.mark.parametrize("other_process", [False, True])
def test_a_refused_link_is_evidence_and_a_failure_at_once_only_where_that_is_trusted(other_process: bool) -> None:
    for trusted in (False, True):
        bench = alone_with_b(SwimConfig(trust_refusal=trusted))
        probed(bench)
        bench.advance(500)
        (link,) = links(bench)
        bench.up(LinkUp(link.link, bytes(16)) if other_process else LinkDown(link.link, refused=True))
        assert bench.changed() == ([("failed", "B")] if trusted else [])
        bench.advance(510)
        tried = [] if trusted else [change.accusations[0].tried for change in bench.changes()]
        assert tried == ([] if trusted else [BY_DATAGRAM | BY_LINK | REFUSED])


def test_a_link_that_breaks_or_belongs_to_an_earlier_probe_is_no_evidence() -> None:
    bench = alone_with_b(SwimConfig(trust_refusal=True))
    _, ping = probed(bench)
    bench.advance(500)
    (link,) = links(bench)
    bench.receive(ProbeAck(ping.number, b""))
    bench.up(LinkDown(link.link, refused=True))
    bench.up(LinkUp(link.link, bytes(16)))
    assert bench.known("B").state == "alive"


# --- for other members ------------------------------------------------------------------------------------------------

def test_a_ping_is_answered_at_its_reply_address_and_one_for_another_node_is_not() -> None:
    bench = SwimBench("BC")
    bench.receive(PingHeader(7, "A", "B", ("10.5.5.5", 1)))
    assert [(to, ack.number) for to, ack in bench.sent_headers(ProbeAck)] == [("10.5.5.5", 7)]
    bench.receive(PingHeader(8, "X", "B", place("B")))
    assert bench.sent_headers(ProbeAck) == []
    assert bench.stats()["pings_for_others"] == 1


def test_an_indirect_ping_is_answered_under_the_requesters_number() -> None:
    bench = SwimBench("BC")
    bench.receive(PingFor(7, "C", place("C"), bench.known("C").address, True, "B", place("B")))
    ((to, ping),) = bench.sent_headers(PingHeader)
    assert (to, ping.node, ping.source) == (HOST["C"], "C", "A")
    bench.receive(ProbeAck(ping.number, b"rtt"), src="C")
    assert [(to, ack) for to, ack in bench.sent_headers(ProbeAck)] == [(HOST["B"], ProbeAck(7, b"rtt"))]
    bench.swim.cancel_timer("probe")
    bench.advance(600)
    assert bench.sent_headers(Nack) == []


@pytest.mark.parametrize("wanted", [True, False])
def test_an_indirect_ping_without_an_answer_ends_with_a_nack_if_one_is_wanted(wanted: bool) -> None:
    bench = SwimBench("BC")
    bench.receive(PingFor(7, "C", place("C"), bench.known("C").address, wanted, "B", place("B")))
    bench.advance(600)
    assert bench.sent_headers(Nack) == ([(HOST["B"], Nack(7))] if wanted else [])


def test_a_request_to_ping_an_earlier_start_is_answered_with_the_alive_of_the_later_one() -> None:
    bench = SwimBench("BC")
    bench.receive(PingFor(7, "C", ("10.0.7.7", 1), bench.me, True, "B", place("B")))
    assert (HOST["B"], alive("C")) in bench.sent_headers(Alive)
