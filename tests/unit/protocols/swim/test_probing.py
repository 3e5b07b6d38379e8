"""Probes of our own, on which paths; errands for others; what counts as evidence."""
from __future__ import annotations

import pytest

from jgroups_py.events import LinkDown, LinkUp, Listening
from jgroups_py.members import BY_DATAGRAM, BY_HELPERS, BY_LINK, REFUSED
from jgroups_py.outputs import CloseLink, Listen, Note, OpenLink
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.protocols.swim.headers import Ack, Alive, Nack, Ping, PingFor, Suspected
from jgroups_py.units import seconds
from tests.unit.protocols.swim.bench import HOST, SwimBench, alive, place

LISTENER = {name: (host, 8000) for name, host in HOST.items()}


def probed(bench: SwimBench) -> tuple[str, Ping]:
    """Let time pass until A pings somebody: the name of whom, and the ping."""
    for _ in range(3000):
        bench.advance(1)
        for to, ping in bench.all_said(Ping):
            return next(name for name, host in HOST.items() if host == to), ping
    raise AssertionError("nobody was probed")


def links(bench: SwimBench) -> list[OpenLink]:
    return [output for output in bench.outputs if isinstance(output, OpenLink)]


def alone_with_b(config: SwimConfig | None = None) -> SwimBench:
    """A knows B, and where it accepts links."""
    bench = SwimBench("", config)
    bench.hear(alive("B", listener=LISTENER["B"]))
    bench.news()
    return bench


def test_each_node_is_probed_once_in_a_round_of_intervals() -> None:
    bench = SwimBench("BCDE")
    names = []
    for _ in range(12):
        name, ping = probed(bench)
        bench.hear(Ack(ping.number, b""), src=name)
        names.append(name)
    rounds = [sorted(names[start:start + 4]) for start in (4, 8)]    # the first one may be cut short by newcomers
    assert rounds == [list("BCDE")] * 2
    assert bench.stats()["answered_by_datagram"] == 12


def test_an_answer_tells_the_round_trip_time() -> None:
    bench = SwimBench("B")
    _, ping = probed(bench)
    bench.advance(3)
    bench.hear(Ack(ping.number, b""))
    assert bench.known("B").rtt_ns == pytest.approx(seconds(0.003), abs=seconds(0.001))


def test_a_node_that_does_not_answer_is_probed_through_helpers_that_are_alive() -> None:
    bench = SwimBench("BCDEF", SwimConfig(indirect_checks=3))
    bench.hear(Suspected(1, "F", "C", 0), src="C")
    name, ping = probed(bench)
    bench.frames()
    bench.advance(500)
    asked = bench.all_said(PingFor)
    assert all((wish.number, wish.node, wish.nack) == (ping.number, name, True) for _, wish in asked)
    helpers = [host for host, _ in asked]
    assert len(dict.fromkeys(helpers)) == 3
    assert HOST[name] not in helpers
    assert HOST["F"] not in helpers or name == "F"
    bench.hear(Ack(ping.number, b""), src="F" if name != "F" else "B")
    assert bench.stats()["answered_by_helpers"] == 1
    bench.advance(400)
    assert bench.known(name).state == ("suspect" if name == "F" else "alive")


def test_all_means_that_everybody_alive_is_asked_to_help() -> None:
    bench = SwimBench("BCDEFGH", SwimConfig(indirect_checks="all"))
    probed(bench)
    bench.advance(500)
    assert len(bench.all_said(PingFor)) == 6


def test_no_answer_on_any_path_is_a_suspicion_that_names_the_paths_and_is_told_to_all() -> None:
    bench = SwimBench("BCD", SwimConfig(link_pings=False))
    name, _ = probed(bench)
    bench.frames()
    bench.advance(1000)
    assert bench.news() == [("suspected", name)]
    bench.advance(200)
    said = [news for _, news in bench.all_said(Suspected)]
    assert (said[0].node, said[0].source, said[0].tried) == (name, "A", BY_DATAGRAM | BY_HELPERS)


@pytest.mark.parametrize(("nacks", "health"), [("", 2), ("C", 1), ("CD", 0), ("CCDD", 0)])
def test_helpers_that_say_nack_vouch_for_us(nacks: str, health: int) -> None:
    bench = SwimBench("BCD", SwimConfig(link_pings=False, indirect_checks=2))
    name, ping = probed(bench)
    helpers = [other for other in "BCD" if other != name]
    bench.advance(600)
    for nack in nacks:
        bench.hear(Nack(ping.number), src=helpers["CD".index(nack)])
    bench.advance(400)
    assert bench.stats()["health"] == health


def test_bad_health_gives_probes_more_time() -> None:
    bench = SwimBench("B", SwimConfig(link_pings=False))
    bench.swim.awareness.change(2)
    probed(bench)
    bench.advance(2990)
    assert bench.news() == []
    bench.advance(20)
    assert bench.news() == [("suspected", "B")]


def test_a_member_that_did_not_run_itself_accuses_nobody() -> None:
    bench = SwimBench("BC", SwimConfig(link_pings=False))
    probed(bench)
    bench.stack.advance(bench.now_ns + seconds(20))        # one step, as after SIGSTOP
    bench.advance(0)
    assert bench.news() == []
    assert (bench.stats()["overslept"], bench.stats()["health"]) == (1, 1)


def test_a_suspect_is_told_of_it_with_the_ping() -> None:
    bench = SwimBench("B")
    bench.hear(Suspected(1, "B", "C", 0))
    bench.advance(2000)
    pings = [headers for _, headers in bench.frames() if any(isinstance(header, Ping) for header in headers)]
    assert isinstance(pings[-1][-1], Suspected)            # read before the ping, so that the answer can refute it


# --- links ------------------------------------------------------------------------------------------------------------

def test_a_listener_is_opened_and_announced() -> None:
    bench = SwimBench("B")
    assert [(asked.host, asked.port) for asked in bench.outputs if isinstance(asked, Listen)] == [("127.0.0.1", 0)]
    bench.up(Listening(LISTENER["A"]))
    bench.advance(300)
    assert next(said.listener for _, said in bench.all_said(Alive) if said.node == "A") == LISTENER["A"]


def test_without_link_pings_nobody_listens_and_no_link_is_tried() -> None:
    bench = alone_with_b(SwimConfig(link_pings=False))
    probed(bench)
    bench.advance(900)
    assert [output for output in bench.outputs if isinstance(output, Listen | OpenLink)] == []


def test_a_member_that_answers_on_a_link_only_is_alive_and_warned_of_once_a_minute() -> None:
    bench = alone_with_b()
    for _ in range(5):
        probed(bench)
        bench.advance(500)
        (link, *_) = links(bench)
        assert link.to == LISTENER["B"]
        bench.up(LinkUp(link.link, bench.known("B").address.raw))
        bench.outputs = [output for output in bench.outputs if not isinstance(output, OpenLink)]
        assert any(isinstance(output, CloseLink) and output.link == link.link for output in bench.outputs)
    assert bench.news() == []
    assert bench.stats()["answered_by_link"] == 5
    assert len([output for output in bench.outputs if isinstance(output, Note)]) == 1


@pytest.mark.parametrize("somebody_else", [False, True])
def test_a_refused_link_is_evidence_and_a_failure_at_once_only_where_that_is_trusted(somebody_else: bool) -> None:
    for trusted in (False, True):
        bench = alone_with_b(SwimConfig(trust_refusal=trusted))
        probed(bench)
        bench.advance(500)
        (link,) = links(bench)
        bench.up(LinkUp(link.link, bytes(16)) if somebody_else else LinkDown(link.link, refused=True))
        assert bench.news() == ([("failed", "B")] if trusted else [])
        bench.advance(510)
        said = [] if trusted else [change.accusations[0].tried for change in bench.changes()]
        assert said == ([] if trusted else [BY_DATAGRAM | BY_LINK | REFUSED])


def test_a_link_that_breaks_or_belongs_to_an_earlier_probe_says_nothing() -> None:
    bench = alone_with_b(SwimConfig(trust_refusal=True))
    _, ping = probed(bench)
    bench.advance(500)
    (link,) = links(bench)
    bench.hear(Ack(ping.number, b""))
    bench.up(LinkDown(link.link, refused=True))
    bench.up(LinkUp(link.link, bytes(16)))
    assert bench.known("B").state == "alive"


# --- for others -------------------------------------------------------------------------------------------------------

def test_a_ping_is_answered_where_it_asks_for_and_one_for_somebody_else_is_not() -> None:
    bench = SwimBench("BC")
    bench.hear(Ping(7, "A", "B", ("10.5.5.5", 1)))
    assert [(to, ack.number) for to, ack in bench.all_said(Ack)] == [("10.5.5.5", 7)]
    bench.hear(Ping(8, "X", "B", place("B")))
    assert bench.all_said(Ack) == []
    assert bench.stats()["pings_for_others"] == 1


def test_an_errand_brings_the_answer_under_the_askers_number() -> None:
    bench = SwimBench("BC")
    bench.hear(PingFor(7, "C", place("C"), bench.known("C").address, True, "B", place("B")))
    ((to, ping),) = bench.all_said(Ping)
    assert (to, ping.node, ping.source) == (HOST["C"], "C", "A")
    bench.hear(Ack(ping.number, b"rtt"), src="C")
    assert [(to, ack) for to, ack in bench.all_said(Ack)] == [(HOST["B"], Ack(7, b"rtt"))]
    bench.swim.cancel_timer("probe")
    bench.advance(600)
    assert bench.all_said(Nack) == []


@pytest.mark.parametrize("wanted", [True, False])
def test_an_errand_in_vain_ends_with_a_nack_if_one_is_wanted(wanted: bool) -> None:
    bench = SwimBench("BC")
    bench.hear(PingFor(7, "C", place("C"), bench.known("C").address, wanted, "B", place("B")))
    bench.advance(600)
    assert bench.all_said(Nack) == ([(HOST["B"], Nack(7))] if wanted else [])


def test_who_wants_an_earlier_start_probed_is_told_of_the_later_one() -> None:
    bench = SwimBench("BC")
    bench.hear(PingFor(7, "C", ("10.0.7.7", 1), bench.me, True, "B", place("B")))
    assert (HOST["B"], alive("C")) in bench.all_said(Alive)
