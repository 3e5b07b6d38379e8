"""Acceptance case 3.1: agents of Serf, unchanged, and members of this package are in one membership.

Four small clusters run side by side, because Serf takes its time (a probe a second, three seconds of suspicion):
*friends*: an agent that we joined, one that joined us; *errand*: an agent, us, and a node that the agent cannot reach;
*victim*: an agent and a process of ours that is killed; *sealed*: an agent that encrypts, and us.
"""
from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from jgroups_py.blocks.swim_membership import Membership, MembershipListener
from jgroups_py.protocols.swim.headers import ALIVE, Alive, NodeState, PingHeader, ProbeAck, PushPull
from jgroups_py.protocols.swim.memberlist.messages import CodecContext, address_of, write_message
from jgroups_py.protocols.swim.memberlist.packet import read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Member
from tests.integration.serf_agent import HOW_TO_GET_IT, Agent, ensure_serf, serf_path, until

pytestmark = pytest.mark.real

STACK = str(Path(__file__).parents[2] / "stacks" / "serf.xml")
CONTEXT = CodecContext()
KEY = "T9jncgl9mbLus+baTTa7q7nPSUrXwbDi2dhbtqir37s="
ONE_HOST = {"profile": "memberlist-local", "tags": "role=py,k=v"}
PATIENT = {**ONE_HOST, "probe_timeout": "900ms"}      # on a busy machine an answer may take long
FASTER = {**ONE_HOST, "probe_interval": "500ms", "suspicion_mult": 2, "gossip_interval": "50ms"}


class Events(MembershipListener):
    """User events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, bytes]] = []

    def user_event(self, name: str, payload: bytes) -> None:
        self.events.append((name, payload))


class Mute:
    """A node that answers pings of one place only, and no connection at all."""

    def __init__(self, host: str, only: tuple[str, int], agent: tuple[str, int]) -> None:
        self.only = only
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        place = self.socket.getsockname()
        me = Alive(1, "mute", place, address_of("mute", place), None, b"")
        with socket.create_connection(agent) as stream:
            stream.sendall(write_stream(PushPull(0, False, True, (NodeState(me, ALIVE),), b""), CONTEXT, compress=True))
            reader = StreamReader(CONTEXT)
            while reader.feed(stream.recv(65536)) is None:
                pass
        self.thread = threading.Thread(target=self.answer, daemon=True)
        self.thread.start()

    def answer(self) -> None:
        while True:
            data, place = self.socket.recvfrom(65536)
            if not data:
                return
            for message in read_packet(data, CONTEXT):
                if isinstance(message, PingHeader) and place == self.only:
                    ack = write_message(ProbeAck(message.number, b""), CONTEXT)
                    self.socket.sendto(write_packet([ack], compress=False, check=False), place)

    def close(self) -> None:
        self.socket.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()


@attrs.define
class Scene:
    """All that runs."""

    joined: Agent                             # we joined it
    joining: Agent                            # it joined us
    us: Membership
    events: Events
    asking: Agent                             # it asks this member for indirect pings
    helper: Membership
    watching: Agent                           # it saw our process, which was killed
    sealed: Agent                             # it encrypts
    sealing: Membership                       # so do we


def ours(
    place: tuple[str, int], name: str, swim: dict[str, object], listener: object = None, encrypt: str = "",
) -> Membership:
    transport = ("MEMBERLIST", {"bind_addr": place[0], "bind_port": place[1], "encrypt": encrypt})
    return Membership([transport, ("SWIM", swim), ("SERF", {})], name=name, listener=listener)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if serf_path() is None and not os.environ.get("CI"):
        pytest.skip(HOW_TO_GET_IT)
    ensure_serf()
    folder = tmp_path_factory.mktemp("serf")
    with ExitStack() as stack:
        here, helping = ("127.0.0.3", free_range(host="127.0.0.3")), ("127.0.0.5", free_range(host="127.0.0.5"))
        victim_port = free_range(host="127.0.0.8")
        joined = stack.enter_context(Agent("joined", "127.0.0.2", folder, "-tag", "role=web"))
        asking = stack.enter_context(Agent("asking", "127.0.0.4", folder))
        watching = stack.enter_context(Agent("watching", "127.0.0.7", folder))
        victim = Member("victim", STACK, "serf", {
            "bind_addr": "127.0.0.8", "bind_port": victim_port, "tags": "role=victim", "profile": "memberlist-local",
            "initial_hosts": f"{watching.place[0]}[{watching.place[1]}]"})
        stack.callback(victim.kill)
        # An agent that was joined tries an unanswered place again only every 15 s.
        until(lambda: joined.shows("joined", "alive"), "the agent that we join answers")
        events = Events()
        us = stack.enter_context(ours(here, "us", FASTER, events)).join("serf", [joined.place])
        helper = stack.enter_context(ours(helping, "helper", PATIENT)).join("serf", [asking.place])
        joining = stack.enter_context(Agent("joining", "127.0.0.6", folder, f"-retry-join={here[0]}:{here[1]}",
                                            "-retry-interval=1s"))
        sealed = stack.enter_context(Agent("sealed", "127.0.0.10", folder, f"-encrypt={KEY}"))
        there = ("127.0.0.11", free_range(host="127.0.0.11"))
        sealing = stack.enter_context(ours(there, "sealing", ONE_HOST, encrypt=KEY)).join("serf", [sealed.place])
        until(lambda: watching.shows("victim", "alive", {"role": "victim"}),
              "the agent lists the process of this package")
        os.kill(victim.process.pid, signal.SIGKILL)
        until(lambda: asking.shows("helper", "alive"), "the agent lists the helper")
        mute = Mute("127.0.0.9", helping, asking.place)
        stack.callback(mute.close)
        yield Scene(joined, joining, us, events, asking, helper, watching, sealed, sealing)


def states(membership: Membership) -> dict[str, str]:
    return {member.name: member.state for member in membership.members()}


def test_accept_3_1_an_agent_joins_a_member_and_a_member_an_agent_and_serf_members_shows_its_tags(scene: Scene) -> None:
    for agent in (scene.joined, scene.joining):
        until(lambda agent=agent: agent.shows("us", "alive", {"role": "py", "k": "v"}), f"{agent.name} shows us")
        assert "[ERR]" not in agent.log
    until(lambda: states(scene.us) == {"us": "alive", "joined": "alive", "joining": "alive"},
          "the member lists both agents")
    assert next(m.tags for m in scene.us.members() if m.name == "joined") == {"role": "web"}


def test_accept_3_1_an_event_of_an_agent_arrives_at_a_member_once_and_a_members_at_the_agent(scene: Scene) -> None:
    assert scene.joining.ask("event", "deploy", "4711").returncode == 0
    until(lambda: scene.events.events, "the event arrives")
    scene.us.send_event("answer", b"42")
    until(lambda: "Received event: user-event: answer" in scene.joined.log, "the agent receives the member's event")
    assert scene.events.events == [("deploy", b"4711"), ("answer", b"42")]


def test_accept_3_1_new_tags_of_a_member_are_shown_at_the_agent(scene: Scene) -> None:
    scene.us.set_tags({"role": "py", "version": "2"})
    until(lambda: scene.joined.shows("us", "alive", {"role": "py", "version": "2"}), "the agent shows them")


def test_accept_3_1_an_agent_that_is_killed_is_failed_here(scene: Scene) -> None:
    until(lambda: states(scene.us).get("joining") == "alive", "it is there")
    scene.joining.kill()
    until(lambda: states(scene.us)["joining"] == "failed", "we notice")


def test_accept_3_1_a_killed_process_of_this_package_is_failed_at_the_agent(scene: Scene) -> None:
    until(lambda: scene.watching.shows("victim", "failed"), "the agent notices")


def test_accept_3_1_a_member_answers_an_agents_indirect_pings(scene: Scene) -> None:
    def indirect_pings() -> float:
        return scene.helper.stats()["SWIM"].get("indirect_pings", 0)

    # The agent has judged all its indirect pings but the last; it suspects the node after each one without an answer.
    # A busy machine may be late with one; without any answer of ours each that was judged would be a suspicion.
    until(lambda: indirect_pings() >= 2 + scene.asking.log.count("Suspect mute"),
          "the agent asks us to ping the node that it cannot reach, and counts our answer")
    assert scene.asking.shows("mute", "alive")


def test_an_agent_that_encrypts_and_a_member_list_each_other(scene: Scene) -> None:
    until(lambda: scene.sealed.shows("sealing", "alive", {"role": "py", "k": "v"}), "the agent shows us")
    until(lambda: states(scene.sealing) == {"sealing": "alive", "sealed": "alive"}, "the member lists the agent")
    scene.sealing.send_event("secret", b"1")
    until(lambda: "Received event: user-event: secret" in scene.sealed.log, "the agent receives the member's event")
    scene.sealing.leave()
    until(lambda: scene.sealed.shows("sealing", "left"), "the agent shows that we left")


def test_accept_3_1_a_member_that_leaves_has_left_at_the_agent(scene: Scene) -> None:
    scene.us.leave()
    until(lambda: scene.joined.shows("us", "left"), "the agent shows that we left")
