"""SWIM on real sockets: as failure detector of a group, and alone as a membership."""
from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jgroups_py.blocks.swim_membership import Membership, MembershipListener
from jgroups_py.model.errors import ChannelClosedError, ConfigError
from jgroups_py.model.swim_member import Accusation, Member
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Group
from tests.integration.members import Member as MemberProcess

pytestmark = [pytest.mark.real, pytest.mark.slow]
QUICK = {"probe_interval": "200ms", "probe_timeout": "80ms", "gossip_interval": "50ms", "suspicion_max_mult": "2"}
PATIENCE_SECONDS = 120.0


def quick(first: int) -> list[object]:
    """SWIM alone, five times as fast as by default, from port `first` on."""
    return [("UDP", {"ip_mcast": "false", "bind_port": first, "port_range": 9}),
            ("SWIM", {**QUICK, "initial_hosts": f"127.0.0.1[{first}]", "tags": "role=test"})]


class Listener(MembershipListener):
    """Keeps the reported changes, and waits for them."""

    def __init__(self, stack: list[object], name: str) -> None:
        self.events: list[tuple[str, str]] = []
        self.evidence: tuple[Accusation, ...] = ()
        self.changed = threading.Condition()
        self.membership = Membership(stack, name=name, listener=self)
        self.membership.join("test")

    def note(self, change: str, member: Member) -> None:
        with self.changed:
            self.events.append((change, member.name))
            self.changed.notify_all()

    def joined(self, member: Member) -> None:
        self.note("joined", member)

    def updated(self, member: Member) -> None:
        self.note("updated", member)

    def left(self, member: Member) -> None:
        self.note("left", member)

    def failed(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        self.evidence = accusations
        self.note("failed", member)

    def wait_for(self, *changes: tuple[str, str]) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: all(item in self.events for item in changes), PATIENCE_SECONDS), self.events


def test_members_meet_spread_their_tags_and_leave() -> None:
    stack = quick(free_range(10))
    listeners = [Listener(stack, name) for name in "abc"]
    a, b, c = listeners
    for listener in listeners:
        listener.wait_for(*[("joined", name) for name in "abc" if name != listener.membership.name])
    c.membership.set_tags({"role": "web", "zone": "eu"}, weight=2.5)
    for listener in (a, b):
        listener.wait_for(("updated", "c"))
        seen = next(member for member in listener.membership.members() if member.name == "c")
        assert (seen.tags, seen.weight, seen.state) == ({"role": "web", "zone": "eu"}, 2.5, "alive")
        assert seen.address == c.membership.address
    c.membership.leave()
    for listener in (a, b):
        listener.wait_for(("left", "c"))
        assert sorted(member.name for member in listener.membership.alive()) == ["a", "b"]
        assert ("failed", "c") not in listener.events
    with pytest.raises(ChannelClosedError):
        c.membership.members()
    with pytest.raises(ConfigError, match="at most 512"):
        a.membership.set_tags({"text": "x" * 600})
    a.membership.leave()
    b.membership.leave()


def test_a_killed_process_fails_with_evidence_and_is_back_under_its_name(tmp_path: Path) -> None:
    stack = quick(free_range(10))
    path = tmp_path / "quick.yaml"
    path.write_text("".join(f"- {name}: {{{', '.join(f'{key}: {value!r}' for key, value in properties.items())}}}\n"
                            for name, properties in stack))          # type: ignore[attr-defined]
    listener = Listener(stack, "a")
    process = MemberProcess("b", str(path), "test", {})
    try:
        listener.wait_for(("joined", "b"))
        process.kill()
        listener.wait_for(("failed", "b"))
        assert listener.evidence[0].by == "a"
        assert listener.evidence[0].paths == ("datagram", "link", "link refused")
        listener.events.clear()
        process.close()
        process = MemberProcess("b", str(path), "test", {})
        listener.wait_for(("joined", "b"))
    finally:
        process.close()
        listener.membership.leave()


def test_a_listener_that_raises_or_calls_back_disturbs_no_member() -> None:
    stack = quick(free_range(10))
    asked: list[int] = []
    done = threading.Event()

    class Curious(MembershipListener):
        def joined(self, member: Member) -> None:
            asked.append(len(first.members()))
            done.set()
            raise ValueError("the listener's own")

    first = Membership(stack, name="a", listener=Curious())
    with first.join("test"), Membership(stack, name="b").join("test"):
        assert done.wait(PATIENCE_SECONDS)
        assert asked == [2]
        assert [member.name for member in first.alive()] == ["a", "b"]


def test_a_group_with_swim_excludes_a_killed_member_and_one_that_leaves() -> None:
    with Group("swim") as group:
        group.start("A B C")
        marks = {name: group[name].mark() for name in "AC"}
        group["B"].kill()
        for name in "AC":
            group[name].view_of("AC", marks[name])
        assert group["C"].leave() == 0
        group["A"].view_of("A", marks["A"])


def test_a_port_that_is_taken_is_an_error_of_join_and_of_the_member_process() -> None:
    first = free_range(10)
    taken = {"bind_port": first, "port_range": 0}
    with Membership(properties=taken).join("test"):
        with pytest.raises(ChannelClosedError, match=f"cannot bind 127.0.0.1:{first}"):
            Membership(properties=taken).join("test")
        process = MemberProcess("b", "membership", "test", taken)
        assert process.process.wait(PATIENCE_SECONDS) == 1
        error = process.wait(lambda event: event["event"] == "error", "error")
        assert f"cannot bind 127.0.0.1:{first}" in error["message"]
