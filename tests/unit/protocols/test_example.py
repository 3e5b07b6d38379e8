"""EXAMPLE is a template that runs."""
from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.protocols.example import EchoReply, EchoRequest, Example, ExampleConfig
from jgroups_py.testing.bench import Bench, Group, InFlight, change, multicast, view_of


def group(names: str = "ABC") -> Group:
    """Members that send echo requests every second."""
    made = Group(lambda _: [Example(ExampleConfig(round_ns="1s"))], names)
    made.install(view_of(*names))
    return made


def test_rounds_in_which_all_members_reply_are_counted() -> None:
    g = group()
    g.run(5500)
    assert [bench.stats() for bench in g.running] == [{"rounds": 5, "complete_rounds": 5}] * 3


def test_a_silent_member_spoils_the_rounds_until_the_view_excludes_it() -> None:
    g = group()
    g.crash("C")
    g.run(3500)
    assert g["A"].stats() == {"rounds": 3}
    g.install(view_of("A", "B", counter=2), view_of("A", "B", "C"))
    g.run(2500)
    assert g["A"].stats() == {"rounds": 5, "complete_rounds": 2}


def test_duplicate_and_late_replies_are_not_counted_as_complete() -> None:
    g = group()

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        return (0, 0, 1200) if in_flight.has(EchoReply) else (0,)
    g.delays_of = delays_of
    g.run(2500)
    assert g["A"].stats() == {"rounds": 2, "complete_rounds": 2, "late_replies": 2}


def test_a_request_is_answered_even_before_the_first_view() -> None:
    bench = Bench(Example())
    bench.up(multicast("B", headers=(EchoRequest(7),)))
    [(reply, batch)] = bench.sent_with(EchoReply)
    assert (reply.number, str(batch.dest)) == (7, "B")


def test_a_lone_member_completes_its_rounds_alone() -> None:
    bench = Bench(Example())
    bench.down(change(view_of("A")))
    bench.advance(1000)
    assert bench.stats() == {"rounds": 1, "complete_rounds": 1}
