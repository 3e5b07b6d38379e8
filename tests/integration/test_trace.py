"""Why a message was not delivered, found in the log of running members (docs/how-to/find-a-lost-message.md)."""
from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

import pytest

import jgroups_py as jg
from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.protocols import KNOWN
from tests.integration.members import Group, Member, free_ports
from tests.integration.test_partition import stack as with_partition
from tests.integration.test_topics import until

pytestmark = pytest.mark.real
__all__ = ["with_partition"]


def spec(ports: dict[str, object], topics: str) -> StackSpec:
    """The packaged udp stack with TOPICS on top."""
    loaded = load("udp", ports)
    return StackSpec((*loaded.layers, LayerSpec("TOPICS", KNOWN["TOPICS"].load().Config(interests=topics))), "test")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[str, str], list[str]]:
    """The lines of a log (the last word of its name) about a member."""
    def of(log: str, member: str) -> list[str]:
        return [record.getMessage().removeprefix(f"{member}@trace: ") for record in caplog.records
                if record.name == f"jgroups_py.{log}" and record.getMessage().startswith(f"{member}@")]
    return of


def three(channels: ExitStack) -> dict[str, jg.JChannel]:
    """A has subscribed to all topics, B to orders, C to none."""
    ports = free_ports("udp")
    members = {name: channels.enter_context(jg.JChannel(spec(ports, topics), name, receiver=jg.Receiver()))
               for name, topics in (("A", "*"), ("B", "orders"), ("C", ""))}
    for channel in members.values():
        channel.connect("trace")
    until(lambda: all(channel.view is not None and len(channel.view.members) == 3 for channel in members.values()))
    return members


def test_the_way_of_one_message_ends_where_it_was_dropped(lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JGROUPS_TRACE", "C:2")
    with ExitStack() as channels:
        members = three(channels)
        for topic in ("orders", "prices", "orders"):
            members["C"].send(None, b"about " + topic.encode(), topic=topic)
        until(lambda: members["A"].stats()["channel"].get("delivered") == 3)
        until(lambda: "TOPICS drops" in " ".join(lines("trace", "B")))
    assert lines("trace", "A")[-1] == "stack delivers C to all, 1 message, TopicName"
    assert lines("trace", "B")[0] == "UDP receives C to all, 1 message, TopicName, MulticastData 2"
    assert "NAKACK passes up C to all, 1 message, TopicName" in lines("trace", "B")
    assert lines("trace", "B")[-1] == \
        "TOPICS drops C to all, 1 message, TopicName: no interest in topic 'prices' (filtered)"
    assert any(line.startswith("UDP sends C to all") for line in lines("trace", "C"))
    for member in "ABC":
        assert not [line for line in lines("trace", member) if "MulticastData 1" in line or "MulticastData 3" in line]


def test_every_drop_is_in_the_log_while_its_level_is_debug(lines, caplog: pytest.LogCaptureFixture):
    with ExitStack() as channels:
        members = three(channels)
        members["C"].send(None, b"unheard", topic="prices")
        until(lambda: members["B"].stats()["TOPICS"].get("filtered") == 1)
        assert not [line for line in lines("drops", "B") if "TOPICS" in line], "the log is not at DEBUG"
        with caplog.at_level(logging.DEBUG, "jgroups_py.drops"):
            def is_logged() -> bool:
                members["C"].send(None, b"unheard", topic="prices")
                return any("no interest in topic 'prices' (filtered)" in line for line in lines("drops", "B"))
            until(is_logged)                                     # a member looks at the level at intervals
        assert lines("trace", "B") == []


def logged_in_order(member: Member, *words: str) -> bool:
    """Whether the lines on stderr have these words, in this order."""
    at = 0
    for word in words:
        at = member.errors.find(word, at)
        if at < 0:
            return False
    return True


def test_a_process_prints_how_a_message_that_was_cut_off_came_after_all(
    with_partition: str, monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("JGROUPS_TRACE", "A:1-100000")
    with Group(with_partition) as group:
        a, b = group.start("A B")
        b.command("partition B|A")

        def cut_off() -> bool:
            a.command("send something")
            return "A is in another group (separated)" in b.errors
        until(cut_off)
        b.command("heal")
        a.command("send the last")
        b.wait(lambda event: event.get("payload") == "the last", "message")
        until(lambda: logged_in_order(
            b, "PARTITION drops A to all, 1 message, MulticastData ", "another group (separated)",
            "UDP receives A to B, ", "Retransmission ", "NAKACK passes up A to all, ", "stack delivers A to all, "))


def test_a_running_process_prints_why_it_drops_messages_from_the_command_on(with_partition: str):
    with Group(with_partition) as group:
        a, b = group.start("A B")
        b.command("partition B|A")

        def separated() -> int:
            a.command("send something")
            counted: int = b.stats()["protocols"]["PARTITION"].get("separated", 0)
            return counted
        until(lambda: separated() > 0)
        assert "jgroups_py.drops" not in b.errors
        b.command("drops please")
        b.wait(lambda event: event.get("message") == "drops takes on or off", "error")
        b.command("drops on")

        def explained() -> bool:
            a.command("send something")
            return any("PARTITION drops A to all, 1 message, MulticastData " in line
                       and line.endswith("A is in another group (separated)") for line in b.errors.splitlines())
        until(explained)


def test_a_senseless_trace_setting_is_reported_when_connecting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JGROUPS_TRACE", "A:9-3")
    with jg.JChannel("udp", "A", free_ports("udp")) as channel, \
            pytest.raises(jg.ChannelError, match="the range ends before it begins"):
        channel.connect("trace")
