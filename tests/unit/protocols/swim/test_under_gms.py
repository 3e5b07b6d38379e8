"""SWIM in place of the other failure detectors: the members are the view's, failures go up to GMS."""
from __future__ import annotations

from jgroups_py.model.events import ExcludedHint, Left, LinkDown, Listening, Suspect, Unsuspect
from jgroups_py.model.outputs import MemberChanged, OpenLink
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_LINK, REFUSED
from jgroups_py.model.units import millis
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.headers import Alive, Dead, PingHeader, ProbeAck, PushPull, SuspectedHeader
from jgroups_py.testing.bench import Bench, StubPorts, address, change, unicast, view_of

A, B, C, D = map(address, "ABCD")
ABC = view_of("A", "B", "C")
QUICK = SwimConfig(probe_interval_ns=millis(500), probe_timeout_ns=millis(200), trust_refusal=True)


def in_view(*names: str, config: SwimConfig = QUICK) -> Bench:
    """Member A of a view."""
    bench = Bench(Swim(config), StubPorts())
    bench.down(change(view_of(*(names or ("A", "B", "C")))))
    bench.advance(1)
    bench.sent()
    return bench


def digits(name: str) -> str:
    return address(name).raw.hex()


def receive(bench: Bench, *headers: object, src: str = "B") -> None:
    bench.up(unicast(src, "A", headers=headers))           # type: ignore[arg-type]


def evidence(bench: Bench) -> list[MemberChanged]:
    return [output for output in bench.outputs if isinstance(output, MemberChanged)]


def test_nothing_is_sent_before_the_first_view() -> None:
    bench = Bench(Swim(QUICK), StubPorts())
    receive(bench, PingHeader(1, digits("A"), digits("B"), None))
    bench.advance(5000)
    assert bench.sent() == []


def test_the_members_of_the_view_are_probed_as_unicasts_under_the_digits_of_their_addresses() -> None:
    bench = in_view()
    bench.advance(1000)
    pings = [(ping.node, batch.dest) for ping, batch in bench.sent_with(PingHeader)]
    assert (digits("B"), B) in pings
    assert all(node == dest.raw.hex() for node, dest in pings if dest is not None)


def test_a_failed_member_is_a_certain_suspicion_and_the_evidence_has_logical_names() -> None:
    bench = in_view()
    receive(bench, SuspectedHeader(0, digits("B"), digits("C"), BY_DATAGRAM), src="C")
    receive(bench, Dead(0, digits("B"), digits("C")), src="C")
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]
    assert [(output.change, output.member.name, str(output.accusations[0])) for output in evidence(bench)] == [
        ("suspected", "B", "C: no answer by datagram"), ("failed", "B", "C: no answer by datagram")]


def test_a_failed_member_that_refutes_is_unsuspected() -> None:
    bench = in_view()
    receive(bench, Dead(0, digits("B"), digits("C")), src="C")
    receive(bench, Alive(5, digits("B"), None, B, None, b""))
    assert bench.passed_up(Unsuspect) == [Unsuspect((B,))]


def test_a_mere_suspicion_is_not_passed_up() -> None:
    bench = in_view()
    receive(bench, SuspectedHeader(0, digits("B"), digits("C"), BY_DATAGRAM), src="C")
    receive(bench, Alive(5, digits("B"), None, B, None, b""))
    assert bench.passed_up(Suspect) == bench.passed_up(Unsuspect) == []


def test_a_killed_process_is_found_by_its_refused_link_within_a_probe() -> None:
    bench = in_view("A", "B")
    receive(bench, Alive(1, digits("B"), None, B, ("10.0.0.2", 8000), b""))
    while not (opened := [output for output in bench.outputs if isinstance(output, OpenLink)]):
        bench.advance(10)
    bench.up(LinkDown(opened[0].link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]
    assert evidence(bench)[-1].accusations[0].tried == BY_DATAGRAM | BY_LINK | REFUSED


def test_only_members_of_the_view_are_in_the_table_and_joiners_get_the_listener() -> None:
    bench = in_view()
    bench.up(Listening(("10.0.0.1", 9000)))
    receive(bench, Alive(3, digits("D"), None, D, None, b""))
    assert digits("D") not in [member.name for member in bench.stack.find(Swim).known_members()]
    bench.down(change(view_of("A", "B", "C", "D", counter=2), ABC))
    bench.advance(600)
    sent = [header for batch in bench.sent() for header in batch.headers if isinstance(header, Alive)]
    assert ("127.0.0.1", 9000) in [header.listener for header in sent if header.member == A]


def test_a_joiner_gets_the_listeners_of_the_others_by_an_exchange() -> None:
    bench = Bench(Swim(QUICK), StubPorts())
    bench.down(change(ABC))
    assert len(bench.sent_with(PushPull)) == 1


def test_a_member_that_left_the_view_is_forgotten_and_no_longer_probed() -> None:
    bench = in_view()
    receive(bench, SuspectedHeader(0, digits("B"), digits("C"), 0), src="C")
    bench.down(change(view_of("A", "C", counter=2), ABC))
    for _ in range(100):
        bench.advance(100)
        for ping, batch in bench.sent_with(PingHeader):
            assert batch.dest == C
            receive(bench, ProbeAck(ping.number, b""), src="C")
    assert bench.passed_up(Suspect) == []


def test_frames_of_a_non_member_are_reported_to_gms_at_a_limited_rate() -> None:
    bench = in_view()
    for _ in range(5):
        receive(bench, PingHeader(1, digits("A"), digits("D"), None), src="D")
    assert bench.passed_up(ExcludedHint) == [ExcludedHint(D, asked=True)]
    bench.advance(3000)
    receive(bench, PingHeader(1, digits("A"), digits("D"), None), src="D")
    assert bench.passed_up(ExcludedHint) == [ExcludedHint(D, asked=True)]


def test_a_member_outside_the_group_sends_nothing() -> None:
    bench = in_view()
    bench.up(Left())
    bench.sent()
    bench.advance(10_000)
    assert bench.sent() == []
