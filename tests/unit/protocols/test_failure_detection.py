"""FD_SOCK, FD_ALL, VERIFY_SUSPECT."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect, ExcludedHint, LinkDown, LinkUp, Listening, Suspect, Unsuspect
from jgroups_py.model.outputs import CloseLink, Listen, OpenLink
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.units import millis
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.fd_all.protocol import FdAll, FdAllConfig, Heartbeat
from jgroups_py.protocols.fd_sock.protocol import (
    FdSock,
    FdSockConfig,
    ListenerAddress,
    ListenerLookup,
    ListenerLookupReply,
    ListenerRequest,
    SuspicionHeader,
)
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.protocols.verify_suspect.protocol import AreYouAlive, IAmAlive, VerifyConfig, VerifySuspect
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import Bench, address, change, multicast, unicast, view_of

A, B, C, D = map(address, "ABCD")
ABC = view_of("A", "B", "C")
PLACE_A, PLACE_B, PLACE_C = ("127.0.0.1", 1), ("10.0.0.2", 2), ("10.0.0.3", 3)

# --- FD_SOCK --------------------------------------------------------------------------------------------------------


def ring() -> Bench:
    """Member A of the ring A B C, with a link to B that stands."""
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    bench.up(Listening(PLACE_A))
    bench.down(change(ABC))
    bench.up(unicast("B", "A", headers=(ListenerAddress(PLACE_B),)))
    (opened,) = opened_links(bench)
    assert opened.to == PLACE_B
    bench.up(LinkUp(opened.link, B.raw))
    bench.sent()
    return bench


def opened_links(bench: Bench) -> list[OpenLink]:
    """The links opened since the last call."""
    found = [output for output in bench.outputs if isinstance(output, OpenLink)]
    bench.outputs = [output for output in bench.outputs if not isinstance(output, OpenLink)]
    return found


def test_a_listener_is_opened_on_the_transports_interface() -> None:
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    (asked,) = [output for output in bench.outputs if isinstance(output, Listen)]
    assert (asked.host, asked.port) == ("", 0)


def test_new_members_get_the_listener_and_the_neighbour_gets_a_request_for_its_own() -> None:
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    bench.up(Listening(PLACE_A))
    bench.down(change(ABC))
    sent = bench.sent()
    told = [batch.dest for batch in sent if isinstance(batch.headers[-1], ListenerAddress)]
    assert told == [B, C]
    assert [batch.dest for batch in sent if isinstance(batch.headers[-1], ListenerRequest)] == [B]


def test_a_request_that_arrives_before_the_listener_is_open_is_answered_later() -> None:
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    bench.up(unicast("C", "A", headers=(ListenerRequest(),)))
    assert bench.sent_with(ListenerAddress) == []
    bench.up(Listening(PLACE_A))
    ((header, batch),) = bench.sent_with(ListenerAddress)
    assert (header.physical, batch.dest) == (PLACE_A, C)


def test_behind_a_proxy_the_proxys_address_is_announced() -> None:
    bench = Bench(FdSock(FdSockConfig(external_addr="192.0.2.7", external_port=4711)))
    bench.down(Connect("demo"))
    bench.up(unicast("C", "A", headers=(ListenerRequest(),)))
    bench.up(Listening(PLACE_A))
    ((header, _),) = bench.sent_with(ListenerAddress)
    assert header.physical == ("192.0.2.7", 4711)


def test_a_broken_link_that_is_refused_is_a_certain_suspicion_reported_to_all() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    assert bench.passed_up(Suspect) == []
    bench.up(LinkDown(again.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]
    sent = [(header, batch.dest) for header, batch in bench.sent_with(SuspicionHeader)]
    assert sent == [(SuspicionHeader((B,), True), None)]


def test_another_process_in_its_place_is_a_certain_suspicion() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    bench.up(LinkUp(again.link, D.raw))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]
    assert any(isinstance(output, CloseLink) and output.link == again.link for output in bench.outputs)


def test_a_link_that_is_established_again_is_no_suspicion() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    bench.up(LinkUp(again.link, B.raw))
    bench.advance(5000)
    assert bench.passed_up(Suspect) == []


def test_a_neighbour_that_cannot_be_reached_is_suspected_but_not_for_certain() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    bench.advance(1000)
    bench.up(LinkDown(again.link, refused=False))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=False)]


def test_a_dying_process_that_resets_the_second_link_is_tried_until_it_refuses() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    bench.up(LinkDown(again.link, refused=False))
    assert bench.passed_up(Suspect) == []
    bench.advance(100)
    (third,) = opened_links(bench)
    bench.up(LinkDown(third.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]


def test_a_neighbour_that_never_announces_its_listener_is_suspected() -> None:
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    bench.down(change(ABC))
    bench.advance(1990)
    assert bench.passed_up(Suspect) == []
    bench.advance(20)
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=False)]


def looking() -> Bench:
    """Member A of the ring A B C; B did not say where it listens, C did."""
    bench = Bench(FdSock())
    bench.down(Connect("demo"))
    bench.up(Listening(PLACE_A))
    bench.down(change(ABC))
    bench.up(unicast("C", "A", headers=(ListenerAddress(PLACE_C),)))
    return bench


def test_a_neighbour_that_died_before_it_announced_its_listener_to_this_member_is_found_by_a_lookup() -> None:
    bench = looking()
    bench.advance(240)
    assert bench.sent_with(ListenerLookup) == []
    bench.advance(20)
    assert [(header.member, batch.dest) for header, batch in bench.sent_with(ListenerLookup)] == [(B, None)]
    bench.up(unicast("C", "A", headers=(ListenerLookupReply(B, PLACE_B),)))
    (opened,) = opened_links(bench)
    assert opened.to == PLACE_B
    bench.up(LinkDown(opened.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]


def test_a_lookup_is_answered_only_by_members_that_have_the_listener() -> None:
    bench = looking()
    bench.sent()
    bench.up(multicast("B", headers=(ListenerLookup(C),)))
    replies = [(header, batch.dest) for header, batch in bench.sent_with(ListenerLookupReply)]
    assert replies == [(ListenerLookupReply(C, PLACE_C), B)]
    bench.up(multicast("C", headers=(ListenerLookup(B),)))
    assert bench.sent_with(ListenerLookupReply) == []


def test_a_reply_of_a_non_member_or_about_another_member_or_too_late_is_ignored() -> None:
    bench = looking()
    bench.up(unicast("D", "A", headers=(ListenerLookupReply(B, PLACE_A),)))
    bench.up(unicast("C", "A", headers=(ListenerLookupReply(D, PLACE_A),)))
    assert opened_links(bench) == []
    bench.up(unicast("B", "A", headers=(ListenerAddress(PLACE_B),)))
    bench.up(unicast("C", "A", headers=(ListenerLookupReply(B, PLACE_A),)))
    assert [link.to for link in opened_links(bench)] == [PLACE_B]


def test_neighbours_that_died_together_are_found_one_after_the_other() -> None:
    bench = ring()
    bench.up(multicast("C", headers=(ListenerAddress(PLACE_C),)))
    bench.up(LinkDown(1, refused=True))
    (following,) = opened_links(bench)
    assert following.to == PLACE_C
    bench.up(LinkDown(following.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), True), Suspect((C,), True)]


def test_a_graceful_close_is_no_suspicion_unless_the_member_stays_in_the_view() -> None:
    for leaves in (True, False):
        bench = ring()
        bench.up(LinkDown(1, refused=False, graceful=True))
        if leaves:
            bench.down(change(view_of("A", "C", counter=2), ABC))
        bench.advance(2100)
        certain = [event for event in bench.passed_up(Suspect) if event.certain]
        assert certain == ([] if leaves else [Suspect((B,), True)])


def test_a_certain_suspicion_is_repeated_until_the_view_changes() -> None:
    bench = ring()
    bench.up(LinkDown(1, refused=True))
    bench.advance(2500)
    assert len([header for header, _ in bench.sent_with(SuspicionHeader) if header.certain]) == 3
    bench.down(change(view_of("A", "C", counter=2), ABC))
    bench.sent_with(SuspicionHeader)
    bench.advance(1500)
    assert [header for header, _ in bench.sent_with(SuspicionHeader) if header.certain] == []


def accused(*members: Address, by: str = "B") -> Bench:
    """Member A of the ring, which has the listener of C and receives a report that these are gone."""
    bench = ring()
    bench.up(unicast("C", "A", headers=(ListenerAddress(PLACE_C),)))
    bench.up(multicast(by, headers=(SuspicionHeader(members, True),)))
    return bench


def test_a_suspicion_that_another_member_reports_is_verified_and_a_refusal_is_certain() -> None:
    bench = accused(A, C)                                     # that we are not ourselves, we know
    assert bench.passed_up(Suspect) == []
    (opened,) = opened_links(bench)
    assert opened.to == PLACE_C
    bench.up(LinkDown(opened.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((C,), True)]
    assert bench.sent_with(SuspicionHeader) == []                        # the member that monitors it reports it
    bench.up(multicast("B", headers=(SuspicionHeader((C,), True),)))
    assert bench.passed_up(Suspect) == [Suspect((C,), True)]
    assert opened_links(bench) == []


def test_another_process_at_the_listener_of_the_suspect_is_certain_too() -> None:
    bench = accused(C)
    (opened,) = opened_links(bench)
    bench.up(LinkUp(opened.link, D.raw))
    assert bench.passed_up(Suspect) == [Suspect((C,), True)]


def test_a_falsely_reported_member_is_not_suspected_and_stays_in_the_ring() -> None:
    bench = accused(B, by="C")
    (opened,) = opened_links(bench)
    bench.up(LinkUp(opened.link, B.raw))
    assert bench.passed_up(Suspect) == []
    assert bench.stats()["refuted"] == 1
    assert [out.link for out in bench.outputs if isinstance(out, CloseLink)] == [opened.link]
    (watching,) = [link for link in (1, 2) if link != opened.link]
    bench.up(LinkDown(watching, refused=True))                # we still watch it
    assert bench.passed_up(Suspect) == [Suspect((B,), True)]


def test_a_reported_member_that_gives_no_answer_or_whose_listener_is_unknown_is_left_to_verify_suspect() -> None:
    bench = accused(C)
    (opened,) = opened_links(bench)
    bench.up(LinkDown(opened.link, refused=False))
    assert bench.passed_up(Suspect) == [Suspect((C,), False, accused=True)]
    unknown = ring()
    unknown.up(multicast("B", headers=(SuspicionHeader((C,), True),)))
    assert unknown.passed_up(Suspect) == [Suspect((C,), False, accused=True)]


def test_a_flood_of_reported_suspicions_opens_two_links_a_second() -> None:
    bench = accused(C)
    for _ in range(200):
        bench.advance(10)
        bench.up(multicast("B", headers=(SuspicionHeader((C,), True),)))
        bench.up(multicast("D", headers=(SuspicionHeader((C,), True),)))          # a stranger's word is nothing
    assert len(opened_links(bench)) == 5
    assert bench.stats()["non_member_suspicions_dropped"] == 200


def test_a_verification_ends_when_the_suspect_leaves_the_view() -> None:
    bench = accused(C)
    (opened,) = opened_links(bench)
    bench.down(change(view_of("A", "B", counter=2), ABC))
    assert [out.link for out in bench.outputs if isinstance(out, CloseLink)] == [opened.link]
    bench.up(LinkDown(opened.link, refused=True))
    assert bench.passed_up(Suspect) == []


# --- FD_SOCK with ENCRYPT: links are not sealed -----------------------------------------------------------------------

def sealed_ring() -> Bench:
    """The same ring in a stack with ENCRYPT."""
    bench = ring()
    layer = bench.stack.find(FdSock)
    assert isinstance(layer, FdSock)
    assert layer.links_prove
    layer.links_prove = False
    return bench


def test_a_stack_with_encrypt_does_not_take_links_for_proofs() -> None:
    class Secret(Secrets):
        def draw(self, nbytes: int) -> bytes:
            return bytes(nbytes)

        def keyring(self, path: str) -> object:
            return new_keyring(bytes(32))
    fd_sock = FdSock()
    Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="k")), fd_sock], A, secrets=Secret())
    assert not fd_sock.links_prove


@pytest.mark.parametrize("what", ["refused", "impostor"])
def test_with_encrypt_neither_a_refusal_nor_another_greeting_is_certain(what: str) -> None:
    bench = sealed_ring()
    bench.up(LinkDown(1, refused=False))
    (again,) = opened_links(bench)
    bench.up(LinkDown(again.link, refused=True) if what == "refused" else LinkUp(again.link, D.raw))
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=False)]
    assert [header for header, _ in bench.sent_with(SuspicionHeader)] == [SuspicionHeader((B,), False)]
    bench.advance(1000)
    assert [batch.dest for _, batch in bench.sent_with(ListenerRequest)] == [B], "it is monitored again"


def test_with_encrypt_a_goodbye_that_was_forged_blinds_for_a_moment_only() -> None:
    bench = sealed_ring()
    bench.up(unicast("C", "A", headers=(ListenerAddress(PLACE_C),)))
    bench.up(LinkDown(1, refused=False, graceful=True))
    opened_links(bench)
    bench.advance(2000)
    assert Suspect((B,), certain=False) in bench.passed_up(Suspect)
    assert [opened.to for opened in opened_links(bench)] == [PLACE_B]


def test_with_encrypt_a_reported_suspicion_is_left_to_verify_suspect() -> None:
    bench = sealed_ring()
    bench.up(unicast("C", "A", headers=(ListenerAddress(PLACE_C),)))
    bench.up(multicast("B", headers=(SuspicionHeader((C,), True),)))
    (opened,) = opened_links(bench)
    bench.up(LinkDown(opened.link, refused=True))
    assert bench.passed_up(Suspect) == [Suspect((C,), accused=True)]


def test_listeners_of_non_members_are_bounded() -> None:
    bench = ring()
    for number in range(2000):
        bench.up(unicast(f"X{number}", "A", headers=(ListenerAddress(PLACE_C),)))
    layer = bench.stack.find(FdSock)
    assert isinstance(layer, FdSock)
    assert len(layer.listeners) <= 1003
    bench.up(unicast("C", "A", headers=(ListenerAddress(PLACE_C),)))
    assert layer.listeners[C] == PLACE_C


# --- FD_ALL ---------------------------------------------------------------------------------------------------------


def beating(**properties: object) -> Bench:
    """Member A of A B C, one second between heartbeats, three until suspicion."""
    bench = Bench(FdAll(FdAllConfig(**{"timeout_ns": "3s", "interval_ns": "1s", **properties})))   # type: ignore[arg-type]
    bench.down(change(ABC))
    return bench


def test_a_silent_member_multicasts_a_heartbeat_each_interval() -> None:
    bench = beating()
    bench.advance(10_000)
    assert len(bench.sent_with(Heartbeat)) == 10


def test_own_multicasts_replace_heartbeats() -> None:
    bench = beating()
    for _ in range(20):
        bench.down(multicast("A", b"x"))
        bench.advance(500)
    assert bench.sent_with(Heartbeat) == []


def test_a_silent_member_is_suspected_until_a_frame_of_it_arrives() -> None:
    bench = beating()
    for _ in range(50):
        bench.transport.last_frames[B] = bench.now_ns
        bench.advance(100)
    assert bench.passed_up(Suspect) == [Suspect((C,))]
    bench.transport.last_frames[C] = bench.now_ns
    bench.advance(1000)
    assert bench.passed_up(Unsuspect) == [Unsuspect((C,))]


def test_a_process_that_was_stopped_suspects_no_member_for_that_time() -> None:
    bench = beating()
    for _ in range(30):
        bench.transport.last_frames[B] = bench.transport.last_frames[C] = bench.now_ns
        bench.advance(100)
    bench.stack.advance(bench.now_ns + millis(20_000))             # all timers are late
    bench.advance(2900)
    assert bench.passed_up(Suspect) == []
    bench.advance(2000)
    assert bench.passed_up(Suspect) == [Suspect((B, C))]


def test_a_heartbeat_of_a_non_member_is_a_hint_at_a_bounded_rate() -> None:
    bench = beating()
    for _ in range(10):
        bench.up(multicast("D", headers=(Heartbeat(),)))
        bench.up(multicast("B", headers=(Heartbeat(),)))
        bench.advance(500)
    assert bench.passed_up(ExcludedHint) == [ExcludedHint(D)] * 2


def test_a_timeout_below_two_intervals_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        FdAllConfig(timeout_ns="1s", interval_ns="600ms")


def close(**properties: object) -> Bench:
    """Member A of A B C; A and B, the first two, watch each other every 100 ms, from 500 ms of silence on."""
    return beating(**{"timeout_ns": "1h", "interval_ns": "5s", "accrual_members": 2, **properties})


def beats(bench: Bench, name: str, times: int, every_ms: int = 100) -> None:
    """Heartbeats to A alone."""
    for _ in range(times):
        bench.advance(every_ms)
        bench.transport.last_frames[{"B": B, "C": C}[name]] = bench.now_ns
        bench.up(unicast(name, "A", headers=(Heartbeat(),)))


def accrual_suspects(bench: Bench, within_ms: int) -> int | None:
    """After how many ms of silence the first member is suspected; None: not within that time."""
    for passed_ms in range(10, within_ms + 1, 10):
        bench.advance(10)
        if bench.passed_up(Suspect):
            return passed_ms
    return None


def test_the_first_members_send_each_other_heartbeats_at_the_finer_pace() -> None:
    bench = close()
    bench.advance(3000)
    to = [batch.dest for _, batch in bench.sent_with(Heartbeat)]
    assert (to.count(B), to.count(C)) in ((29, 0), (30, 0))
    bench.down(change(view_of("B", "C", "A", counter=2)))
    bench.advance(1000)
    assert [batch.dest for _, batch in bench.sent_with(Heartbeat)].count(B) == 0, "A is not of the first two"


def test_a_steady_member_is_suspected_after_the_least_silence_and_again_heard_of_is_a_false_alarm() -> None:
    bench = close()
    beats(bench, "B", 50)
    found_ms = accrual_suspects(bench, 2000)
    assert found_ms is not None
    assert 500 <= found_ms <= 610
    assert bench.stats()["accrual_suspected"] == 1
    beats(bench, "B", 2)
    assert bench.passed_up(Unsuspect) == [Unsuspect((B,))]
    assert bench.stats()["false_alarms"] == 1


def test_stalls_of_300_ms_raise_no_alarm_however_often() -> None:
    bench = close()
    for _ in range(200):
        beats(bench, "B", 5)
        beats(bench, "B", 1, every_ms=400)
    assert bench.passed_up(Suspect) == []


def test_a_member_whose_heartbeats_are_often_late_is_given_longer() -> None:
    bench = close()
    for _ in range(40):
        beats(bench, "B", 1)
        beats(bench, "B", 1, every_ms=490)
    assert bench.passed_up(Suspect) == []
    found_ms = accrual_suspects(bench, 5000)
    assert found_ms is not None
    assert 1000 < found_ms < 2000


def test_a_member_that_sends_no_such_heartbeats_is_left_to_the_timeout() -> None:
    """A member of an earlier version: its multicasts are all that comes."""
    bench = close()
    for _ in range(20):
        bench.up(multicast("B", headers=(Heartbeat(),)))
        bench.transport.last_frames[B] = bench.now_ns
        bench.advance(1000)
    assert accrual_suspects(bench, 20_000) is None


def test_any_frame_ends_a_silence() -> None:
    bench = close()
    beats(bench, "B", 50)
    for _ in range(30):
        bench.advance(200)
        bench.transport.last_frames[B] = bench.now_ns
    assert bench.passed_up(Suspect) == []


def test_a_process_that_stood_still_begins_anew_with_the_finer_pace_too() -> None:
    bench = close()
    beats(bench, "B", 50)
    bench.stack.advance(bench.now_ns + millis(5000))
    assert bench.passed_up(Suspect) == []
    assert accrual_suspects(bench, 450) is None
    beats(bench, "B", 50)
    found_ms = accrual_suspects(bench, 2000)
    assert found_ms is not None
    assert found_ms <= 610, "its own pause is not taken for a habit of B"


def test_an_accrual_timeout_below_two_intervals_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="accrual_interval"):
        FdAllConfig(accrual_members=2, accrual_timeout_ns="150ms")


# --- VERIFY_SUSPECT -------------------------------------------------------------------------------------------------


def verifier() -> Bench:
    """Asks three times within a second."""
    bench = Bench(VerifySuspect(VerifyConfig(timeout_ns="1s", num_msgs=3)))
    bench.down(change(ABC))
    return bench


def test_a_certain_suspicion_passes_at_once() -> None:
    bench = verifier()
    bench.up(Suspect((B,), certain=True))
    assert bench.passed_up(Suspect) == [Suspect((B,), True)]


def test_a_member_that_does_not_answer_is_suspected_after_the_timeout() -> None:
    bench = verifier()
    bench.up(Suspect((B,)))
    bench.advance(999)
    assert bench.passed_up(Suspect) == []
    assert [batch.dest for _, batch in bench.sent_with(AreYouAlive)] == [B, B, B]
    bench.advance(1)
    assert bench.passed_up(Suspect) == [Suspect((B,), True)]


def test_a_member_that_another_one_reports_has_half_the_time_to_answer() -> None:
    bench = verifier()
    bench.up(Suspect((B,), accused=True))
    bench.up(Suspect((C,)))
    bench.advance(bench.stack.find(VerifySuspect).config.timeout_ns / 2e6)
    assert bench.passed_up(Suspect) == [Suspect((B,), certain=True)]
    bench.advance(bench.stack.find(VerifySuspect).config.timeout_ns / 2e6)
    assert bench.passed_up(Suspect) == [Suspect((C,), certain=True)]


def test_the_suspicion_of_a_member_that_answers_is_withdrawn() -> None:
    bench = verifier()
    bench.up(Suspect((B, C)))
    bench.up(unicast("B", "A", headers=(IAmAlive(),)))
    bench.advance(1000)
    assert bench.passed_up(Unsuspect) == [Unsuspect((B,))]
    assert bench.passed_up(Suspect) == [Suspect((C,), True)]


def test_any_frame_counts_as_an_answer() -> None:
    bench = verifier()
    bench.up(Suspect((B,)))
    bench.advance(500)
    bench.transport.last_frames[B] = bench.now_ns
    bench.advance(500)
    assert bench.passed_up(Suspect) == []


def test_a_deadline_that_fires_late_because_this_process_was_stopped_begins_anew() -> None:
    bench = verifier()
    bench.up(Suspect((B,)))
    bench.stack.advance(bench.now_ns + millis(20_000))
    assert bench.passed_up(Suspect) == []
    bench.advance(1000)
    assert bench.passed_up(Suspect) == [Suspect((B,), True)]


def test_a_suspicion_is_withdrawn_when_frames_arrive_well_after_it_was_passed_up() -> None:
    bench = verifier()
    bench.up(Suspect((B,), certain=True))
    bench.advance(100)
    bench.transport.last_frames[B] = bench.now_ns                            # a frame that was under way
    bench.advance(1000)
    assert bench.passed_up(Unsuspect) == []
    bench.transport.last_frames[B] = bench.now_ns
    bench.advance(1000)
    assert bench.passed_up(Unsuspect) == [Unsuspect((B,))]


def test_a_request_is_answered() -> None:
    bench = verifier()
    bench.up(unicast("C", "A", headers=(AreYouAlive(),)))
    assert [batch.dest for _, batch in bench.sent_with(IAmAlive)] == [C]
    assert bench.passed_up(ExcludedHint) == []


def test_a_request_of_a_non_member_is_answered_and_a_hint() -> None:
    bench = verifier()
    bench.up(unicast("D", "A", headers=(AreYouAlive(),)))
    assert [batch.dest for _, batch in bench.sent_with(IAmAlive)] == [D]
    assert bench.passed_up(ExcludedHint) == [ExcludedHint(D, asked=True)]


def over_a_long_path(trip_ms: int | None) -> Bench:
    """A verifier that measures round trips; the one to B took so long (None: it was not measured yet)."""
    bench = Bench(VerifySuspect(VerifyConfig(timeout_ns="500ms", num_msgs=3, measure_interval_ns="10s")))
    bench.down(change(ABC))
    if trip_ms is not None:
        bench.advance(500)
        bench.advance(trip_ms)
        bench.up(unicast("B", "A", headers=(IAmAlive(),)))
    bench.sent_with(AreYouAlive)
    return bench


def confirmed_after(bench: Bench) -> int:
    """After how many ms a suspicion of B is passed up, if it does not answer."""
    bench.up(Suspect((B,)))
    for passed_ms in range(50, 6000, 50):
        bench.advance(50)
        if bench.passed_up(Suspect):
            return passed_ms
    raise AssertionError("B is never suspected")


@pytest.mark.parametrize(("trip_ms", "after_ms"), [(100, 500), (800, 1600), (None, 1000), (2500, 1000)])
def test_a_member_far_away_has_two_of_its_round_trips_to_answer(trip_ms: int | None, after_ms: int) -> None:
    assert confirmed_after(over_a_long_path(trip_ms)) == after_ms


def test_each_member_is_measured_soon_after_it_is_in_the_view_and_again_in_each_interval() -> None:
    bench = Bench(VerifySuspect(VerifyConfig(measure_interval_ns="10s")))
    bench.down(change(ABC))
    bench.advance(400)
    assert bench.sent_with(AreYouAlive) == []
    bench.advance(10_200)
    assert [batch.dest for _, batch in bench.sent_with(AreYouAlive)] == [B, C, B, C]
    bench.advance(10_000)
    assert len(bench.sent_with(AreYouAlive)) == 2, "a member that does not answer is measured all the same"


def test_a_shorter_round_trip_counts_little_by_little() -> None:
    bench = over_a_long_path(1600)
    bench.advance(10_500 - bench.now_ns / 1e6)
    for _ in range(60):
        bench.advance(100)
        bench.up(unicast("B", "A", headers=(IAmAlive(),)))
        bench.advance(9900)
    assert confirmed_after(bench) <= 550
