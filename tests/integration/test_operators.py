"""`jgroups members` and `jgroups events` against running members: of a group with views, and of SWIM alone."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from jgroups_py.blocks.swim_membership import Membership
from jgroups_py.channel.sync import JChannel
from jgroups_py.cli import main
from jgroups_py.cli.events import as_text
from jgroups_py.model.version import __version__
from jgroups_py.ops.control import ControlSocket, follow
from jgroups_py.system.free_ports import free_range
from tests.integration.serf_agent import until

pytestmark = pytest.mark.real
PATIENCE_S = 120.0
FAST = {"probe_interval": "200ms", "probe_timeout": "150ms", "gossip_interval": "50ms", "profile": "memberlist-local"}


class Follower:
    """What `jgroups events` would print, as it comes."""

    def __init__(self, path: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.run, args=(path,), daemon=True)
        self.thread.start()
        self.wait(lambda event: event["event"] == "following")

    def run(self, path: Path) -> None:
        for event in follow(path):
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()

    def wait(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first event that is as wanted."""
        deadline = monotonic() + PATIENCE_S
        with self.changed:
            while True:
                for event in self.events:
                    if holds(event):
                        return event
                assert self.changed.wait(deadline - monotonic()), f"not among {self.events}"

    def of(self, name: str, event: str) -> dict[str, Any]:
        """The first event of this kind about a member."""
        return self.wait(lambda facts: (facts.get("name"), facts["event"]) == (name, event))


def shown(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, dict[str, Any]]:
    """Name -> member, as `jgroups members --json` prints."""
    assert main(["members", "--json", "--control", str(path)]) == 0
    return {member["name"]: member for member in json.loads(capsys.readouterr().out)["members"]}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Callable[[str], JChannel]]:
    """Makes members of one group; the first has a control socket at tmp_path / "a"."""
    channels: list[JChannel] = []
    port = free_range()

    def member(name: str) -> JChannel:
        channel = JChannel("udp", name=name, properties={"mcast_port": port})
        channels.append(channel)
        return channel.connect("operators")

    yield member
    for channel in channels:
        channel.close()


def test_members_and_events_of_a_group_are_those_of_its_views(
    group: Callable[[str], JChannel], tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    first = group("A")
    with ControlSocket(first, tmp_path / "a"):
        follower = Follower(tmp_path / "a")
        second, third = group("B"), group("C")
        follower.of("C", "joined")
        members = shown(capsys, tmp_path / "a")
        assert {name: facts["state"] for name, facts in members.items()} == dict.fromkeys("ABC", "alive")
        assert all(facts["address"].startswith("127.0.0.1:") for facts in members.values())
        second.close()
        follower.of("B", "left")
        assert third._session is not None
        third._session.host.kill("as if the process had been killed")
        follower.of("C", "failed")
        assert follower.wait(lambda event: event.get("members") == ["A"])["coordinator"] == "A"
    follower.thread.join(PATIENCE_S)
    assert not follower.thread.is_alive()
    events = [(event["event"], event.get("name")) for event in follower.events if event["event"] != "view"]
    assert events == [("following", None), ("joined", "B"), ("joined", "C"), ("left", "B"), ("failed", "C")]


def test_members_and_events_of_swim_alone_have_tags_states_and_round_trips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    def member(name: str, swim: dict[str, object]) -> Membership:
        transport = ("MEMBERLIST", {"bind_port": ports[name]})
        return Membership([transport, ("SWIM", {**FAST, **swim}), ("SERF", {})], name=name)

    ports = {name: free_range() for name in ("a", "b")}
    with member("a", {"tags": "role=web"}) as a, ControlSocket(a, tmp_path / "a"):
        a.join("alone")
        follower = Follower(tmp_path / "a")
        b = member("b", {"tags": "zone=1"}).join("alone", [("127.0.0.1", ports["a"])])
        assert follower.of("b", "joined")["tags"] == {"zone": "1"}
        b.set_tags({"zone": "2"})
        assert follower.of("b", "updated")["tags"] == {"zone": "2"}
        b.send_event("deploy", b"4711")
        follower.wait(lambda event: (event["event"], event.get("payload")) == ("user_event", "4711"))
        until(lambda: shown(capsys, tmp_path / "a")["b"]["rtt_ms"], "a has probed b")
        assert main(["members", "--control", str(tmp_path / "a")]) == 0
        head, columns, mine, other = capsys.readouterr().out.splitlines()
        assert head == "alone, as a sees it: 2 members"
        assert columns.split() == ["name", "address", "state", "version", "incarnation", "tags", "rtt"]
        version_of_a = mine.split()[3]
        assert mine.split() == ["a", f"127.0.0.1:{ports['a']}", "alive", version_of_a, "1", "role=web", "-"]
        name, address, state, _, incarnation, tags = other.split()[:6]
        assert (name, address, state, tags) == ("b", f"127.0.0.1:{ports['b']}", "alive", "zone=2")
        assert int(incarnation) >= 2, "its tags are those of its second incarnation; a suspicion makes another one"
        assert version_of_a in (__version__, "-")
        b.leave()
        follower.of("b", "left")
        assert shown(capsys, tmp_path / "a")["b"]["state"] == "left"


def test_a_member_that_is_in_no_group_reports_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ControlSocket(JChannel("udp", name="A"), tmp_path / "a"):
        assert main(["members", "--control", str(tmp_path / "a")]) == 1
        assert "not connected" in capsys.readouterr().err
        assert main(["events", "--control", str(tmp_path / "a")]) == 2
        assert "not connected" in capsys.readouterr().err
    for command in ("members", "events"):
        assert main([command, "--control", str(tmp_path / "a")]) == 2
        assert "no member listens" in capsys.readouterr().err
        assert main([command, "--control", ""]) == 2
        assert "no member is named" in capsys.readouterr().err


def test_an_event_is_a_line_for_a_person() -> None:
    failed = {"event": "failed", "name": "b", "address": "127.0.0.1:1", "tags": {"zone": "1"}, "state": "failed",
              "evidence": ["a: no answer by datagram, link"]}
    assert as_text(failed).split() == ["failed", "b", "127.0.0.1:1", "zone=1", "[a:", "no", "answer", "by",
                                       "datagram,", "link]"]
    assert as_text({"event": "view", "id": "A|2", "members": ["A", "B"]}).split() == ["view", "A|2", "[A,", "B]"]
    assert as_text({"event": "site", "site": "SFO", "status": "DOWN"}).split() == ["site", "SFO", "DOWN"]
