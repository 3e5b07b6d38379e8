"""MEMBERLIST and SERF below and above SWIM, node against node in their own frames."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ForceLeave, SendUserEvent, StreamClosed, StreamData, StreamOpened
from jgroups_py.model.outputs import Closed
from jgroups_py.protocols.swim.headers import PingHeader, ProbeAck, PushPull, UserMessage
from jgroups_py.protocols.swim.memberlist import serf
from jgroups_py.protocols.swim.memberlist.intents import Serf
from jgroups_py.protocols.swim.memberlist.messages import CodecContext, StreamFailure, write_message
from jgroups_py.protocols.swim.memberlist.packet import read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from tests.unit.protocols.memberlist.town import Town

CONTEXT = CodecContext()
SEED = "10.0.0.1[7946]"
OUTSIDE = ("10.0.9.9", 1)


def town_of(*names: str, loss: float = 0.0, **options: object) -> Town:
    """A group of nodes that joined through the first one."""
    town = Town(loss)
    for name in names:
        town.start(name, SEED, **options)
    town.run(10)
    for name in names:
        assert town.states(name) == dict.fromkeys(names, "alive"), name
    return town


def alone() -> Town:
    """One node."""
    town = Town()
    town.start("a")
    town.run(1)
    return town


def serf_of(town: Town, name: str) -> Serf:
    return town.nodes[town.place_of(name)].local.find(Serf)


def stats(town: Town, name: str) -> dict[str, float]:
    return town.nodes[town.place_of(name)].stats()["MEMBERLIST"]


def send(town: Town, name: str, *headers: object) -> None:
    """Give a node a datagram from outside the group."""
    data = write_packet([write_message(header, CONTEXT) for header in headers], compress=True, check=False)
    town.nodes[town.place_of(name)].receive([(data, OUTSIDE)], town.now_ns)
    town.settle(town.place_of(name))


# --- membership -------------------------------------------------------------------------------------------------------

def test_all_members_find_all_others_with_their_tags():
    town = town_of("a", "b", "c", "d", "e")
    assert {name: member.tags for name, member in town.members("e").items()} == {name: {"is": name} for name in "abcde"}


@pytest.mark.slow
def test_all_members_find_all_others_though_a_third_of_the_datagrams_is_lost():
    town = Town(loss=0.33, seed=3)
    for name in "abcdef":
        town.start(name, SEED)
    town.run(60)
    assert all(town.members(name).keys() == set("abcdef") for name in "abcdef")


def test_members_without_serf_form_a_group_too():
    assert town_of("a", "b", serf=False).members("a")["b"].tags == {"is": "b"}


def test_a_killed_member_has_failed_and_a_leaving_one_has_left():
    town = town_of("a", "b", "c", "d")
    town.kill("b")
    town.leave("c")
    town.run(40)
    assert any(isinstance(output, Closed) for output in town.told["c"])
    for name in "ad":
        assert town.states(name) == {"a": "alive", "b": "failed", "c": "left", "d": "alive"}
        assert serf_of(town, name).intents.of["c"].leaving
        assert not serf_of(town, name).intents.of["a"].leaving


def test_a_member_that_starts_again_at_once_under_its_name_appears_with_its_new_tags():
    town = town_of("a", "b", "c")
    town.kill("b")
    town.start("b", SEED, tags="is=new")
    town.run(20)
    for name in "abc":
        assert town.states(name) == {"a": "alive", "b": "alive", "c": "alive"}
        assert town.members(name)["b"].tags == {"is": "new"}, name
    assert town.members("b")["b"].incarnation < 10


def test_a_member_spreads_its_leave_intent_before_it_leaves():
    town = town_of("a", "b")
    place = town.place_of("b")
    before = len(town.frames)
    town.leave("b")
    town.run(10)
    sent = [type(message).__name__ for source, _, data in town.frames[before:] if source == place
            for message in read_packet(data, CONTEXT) if type(message).__name__ in ("UserMessage", "Dead")]
    assert sent[0] == "UserMessage"
    assert "Dead" in sent


def test_a_member_that_fails_after_its_leave_intent_has_left():
    town = town_of("a", "b", "c")
    town.leave("b")
    town.run(0.5)
    town.kill("b")
    town.run(40)
    assert town.states("a") == town.states("c") == {"a": "alive", "b": "left", "c": "alive"}


def test_a_failed_node_has_left_after_an_operators_force_leave():
    town = town_of("a", "b", "c")
    town.kill("b")
    town.run(40)
    assert town.states("a")["b"] == town.states("c")["b"] == "failed"
    send(town, "a", UserMessage(serf.write_message(serf.SerfLeave(40, "b"))))
    town.run(5)
    assert town.states("a")["b"] == town.states("c")["b"] == "left"
    assert town.changes("c")[-2:] == [("failed", "b"), ("left", "b")]


def test_an_operator_here_forces_a_failed_node_to_leave():
    town = town_of("a", "b", "c")
    town.kill("b")
    town.run(40)
    town.inject("a", ForceLeave("b"))
    town.inject("a", ForceLeave("a"))                    # itself: ignored, it leaves by Disconnect
    town.inject("a", ForceLeave("nobody"))
    town.run(5)
    assert town.states("a")["b"] == town.states("c")["b"] == "left"
    assert town.states("c")["a"] == "alive"
    town.inject("a", ForceLeave("c"))                    # which is alive, and refutes
    town.run(5)
    assert town.states("a")["c"] == "alive"
    assert serf_of(town, "c").stats()["leaves_refuted"] == 1


def test_a_leave_intent_about_a_live_member_is_refuted():
    town = town_of("a", "b", "c")
    send(town, "a", UserMessage(serf.write_message(serf.SerfLeave(40, "b"))))
    town.run(5)
    assert serf_of(town, "b").stats()["leaves_refuted"] == 1
    for name in "abc":
        latest = serf_of(town, name).intents.of["b"]
        assert not latest.leaving
        assert latest.ltime > 40


# --- user events ------------------------------------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_an_event_is_delivered_once_at_every_member(loss):
    town = Town(loss)
    names = "abcdefgh"
    for name in names:
        town.start(name, SEED)
    town.run(15)
    town.inject("c", SendUserEvent("deploy", b"1"))
    town.inject("c", SendUserEvent("deploy", b"2"))
    town.run(40)
    for name in names:
        assert sorted(town.events(name)) == [("deploy", b"1"), ("deploy", b"2")], name


def test_an_event_from_before_a_members_first_exchange_is_not_delivered_to_it():
    town = town_of("a", "b")
    town.inject("a", SendUserEvent("old", b""))
    town.run(5)
    town.start("c", SEED)
    town.run(60)
    town.inject("b", SendUserEvent("new", b""))
    town.run(5)
    assert town.events("c") == [("new", b"")]
    assert town.events("a") == [("old", b""), ("new", b"")]


def test_a_query_is_passed_on_once_and_malformed_messages_not_at_all():
    town = town_of("a", "b", "c")
    query = b"\x04\x83\xa5LTime\x09\xa2ID\x05\xa4Name\xa4load"
    before = len(town.frames)
    for _ in range(3):
        send(town, "a", UserMessage(query), UserMessage(b"\x63"), UserMessage(b"\x03\xc1"))
    town.run(5)
    passed_on = [message.payload for _, _, data in town.frames[before:] for message in read_packet(data, CONTEXT)
             if isinstance(message, UserMessage)]
    assert set(passed_on) == {query}
    assert all(serf_of(town, name).queries.clock.time == 10 for name in "abc")
    assert serf_of(town, "a").stats()["malformed_dropped"] == 3


# --- what non-members send --------------------------------------------------------------------------------------------

def test_a_ping_of_a_non_member_is_answered_where_it_came_from():
    town = alone()
    send(town, "a", PingHeader(7, "a", "", None))
    (_, to, data) = town.frames[-1]
    assert (to, read_packet(data, CONTEXT)[0]) == (OUTSIDE, ProbeAck(7, b""))
    send(town, "a", PingHeader(8, "another node", "", None))
    assert len(town.frames) == 1


def test_a_malformed_datagram_is_counted_and_logged_once():
    town = alone()
    node = town.nodes[town.place_of("a")]
    for data in (b"", b"\x63", b"\x0c\0\0\0\0\0", b"\x07\xff"):
        node.receive([(data, OUTSIDE)], town.now_ns)
    town.settle(town.place_of("a"))
    assert stats(town, "a")["malformed_dropped"] == 4
    assert town.notes("a") == ["bytes from 10.0.9.9:1 are not memberlist's: an empty message"]


def stream_to(town: Town, name: str, *pieces: bytes, number: int = -1) -> bytes:
    """Open a stream to a node and write to it; returns what the node writes back."""
    place = town.place_of(name)
    town.ends[place, number] = OUTSIDE, 1
    answers: list[bytes] = []
    town.nodes[OUTSIDE] = Listener(answers)               # type: ignore[assignment]
    town.nodes[place].notify(StreamOpened(number, OUTSIDE), town.now_ns)
    for piece in pieces:
        town.nodes[place].notify(StreamData(number, piece), town.now_ns)
    town.settle(place)
    town.run(1)
    del town.nodes[OUTSIDE]
    return b"".join(answers)


class Listener:
    """The other end of a stream."""

    next_deadline_ns = None

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers

    def notify(self, event: object, now_ns: int) -> None:
        if isinstance(event, StreamData):
            self.answers.append(event.data)
        elif isinstance(event, StreamClosed):
            self.answers.append(b"")

    def advance(self, now_ns: int) -> None:
        """Nothing to do."""

    def drain(self) -> list[object]:
        return []


def test_a_ping_over_a_stream_is_answered_there_wherever_its_sender_receives():
    town = alone()
    data = write_stream(PingHeader(7, "a", "x", OUTSIDE), CONTEXT, compress=True)
    assert StreamReader(CONTEXT).feed(stream_to(town, "a", data)) == ProbeAck(7, b"")
    assert not town.frames
    assert not town.nodes[town.place_of("a")].local.transport.exchanges


def test_a_push_pull_is_answered_with_the_whole_table():
    town = town_of("a", "b")
    data = write_stream(PushPull(0, False, True, (), b""), CONTEXT, compress=False)
    answer = StreamReader(CONTEXT).feed(stream_to(town, "a", data[:3], data[3:]))
    assert isinstance(answer, PushPull)
    assert sorted(state.alive.node for state in answer.states) == ["a", "b"]
    assert serf.read_state(answer.user).joined.keys() == {"a", "b"}


def test_a_malformed_stream_is_answered_with_the_reason():
    town = alone()
    found = StreamReader(CONTEXT).feed(stream_to(town, "a", b"\x63"))
    assert found == StreamFailure("a message of type 99 over a stream")
    assert stats(town, "a")["malformed_dropped"] == 1


def test_a_silent_stream_is_closed_in_the_end_and_their_number_is_limited():
    town = Town()
    node = town.start("a", stream_timeout="2s")
    for number in range(300):
        node.notify(StreamOpened(-1 - number, OUTSIDE), town.now_ns)
    assert stats(town, "a")["streams_refused"] == 300 - 256
    town.run(3)
    assert stats(town, "a")["streams_timed_out"] == 256
    assert not node.local.transport.exchanges


def test_a_node_that_cannot_be_reached_by_a_stream_is_tried_again():
    town = Town()
    town.start("a", "10.0.0.2[7946]")
    town.run(5)
    assert stats(town, "a")["streams_failed"] >= 2
    town.start("b")
    town.run(20)
    assert town.states("a") == {"a": "alive", "b": "alive"}


# --- configuration ----------------------------------------------------------------------------------------------------

def test_nothing_but_swim_and_serf_stands_on_memberlist():
    with pytest.raises(ConfigError, match="UNICAST cannot stand on MEMBERLIST, whose frames carry"):
        load([("MEMBERLIST", {}), ("SWIM", {}), ("UNICAST", {})])


@pytest.mark.slow                           # the error names all that could help, so it looks at all protocols
def test_serf_needs_swim():
    with pytest.raises(ConfigError, match="SERF needs a protocol that provides Swim"):
        load([("MEMBERLIST", {}), ("SERF", {})])


def test_keys_without_cryptography_are_refused_with_the_extra(monkeypatch):
    monkeypatch.setattr("jgroups_py.protocols.swim.memberlist.sealing.AESGCM", None)
    with pytest.raises(ConfigError, match=r"encryption needs cryptography: pip install 'jgroups_py\[memberlist\]'"):
        load([("MEMBERLIST", {"encrypt": "b" * 43 + "="}), ("SWIM", {})])
