"""Surveys: any member answers for all, within a second, and names who does not answer and who stands still."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.blocks.rpc import Rpc
from jgroups_py.cli import main
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.ops.control import ControlSocket
from jgroups_py.ops.http import HttpEndpoint
from jgroups_py.ops.survey import ANSWER_SECONDS, FRESH_SECONDS, Survey
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Group
from tests.integration.serf_agent import until

pytestmark = pytest.mark.real
STACKS = Path(__file__).parents[2] / "stacks"


def by_name(survey: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {member["name"].partition("@")[0]: member for member in survey["members"]}


def test_a_member_whose_receiver_stands_still_answers_and_is_named():
    port, going_on, got = str(free_range()), threading.Event(), threading.Semaphore(0)

    def stand_still(message: jg.Message) -> None:
        got.release()
        going_on.wait(60)
    with jg.JChannel("udp", "A", {"mcast_port": port}) as a, jg.JChannel("udp", "B", {"mcast_port": port}) as b, \
            jg.JChannel("udp", "C", {"mcast_port": port}) as c:
        surveys = [Survey.of(channel) for channel in (a, b)]
        assert Survey.of(a) is surveys[0]
        with pytest.raises(NotConnectedError):
            surveys[0].take()
        b.receiver = stand_still
        Rpc(c)                                               # has services, but none for surveys
        for channel in (a, b, c):
            channel.connect("chat")
        for channel in (a, b, c):
            channel.wait_for(members=3)
        found = surveys[0].take()
        assert {name: member["state"] for name, member in by_name(found).items()} == {
            "A": "alive", "B": "alive", "C": "silent"}
        assert found["agree"] == {"view": True, "stack": True, "version": True}
        assert (by_name(found)["A"]["coordinator"], by_name(found)["B"]["coordinator"]) == (True, False)
        assert abs(by_name(found)["B"]["clock_offset_ms"]) < 1000
        a.send(b"x")
        a.send(b"y")
        assert got.acquire(timeout=60)
        until(lambda: by_name(surveys[0].take())["B"]["state"] == "blocked", "B is named")
        assert by_name(surveys[1].take())["A"]["state"] == "alive", "and B can ask"
        going_on.set()
        until(lambda: by_name(surveys[0].take())["B"]["state"] == "alive", "B goes on")


@pytest.mark.parametrize("to_all", [True, False], ids=["multicasts", "unicasts"])
def test_a_member_that_waits_for_credits_of_a_blocked_one_asks_and_answers_all_the_same(to_all: bool):
    port, going_on = str(free_range()), threading.Event()
    with jg.JChannel("udp", "A", {"mcast_port": port}) as a, jg.JChannel("udp", "B", {"mcast_port": port}) as b, \
            jg.JChannel("udp", "C", {"mcast_port": port}) as c:
        surveys = [Survey.of(channel) for channel in (a, b, c)]
        b.receiver = lambda message: going_on.wait(120)
        for channel in (a, b, c):
            channel.connect("chat")
        for channel in (a, b, c):
            channel.wait_for(members=3)
        sent = [0]

        def flood() -> None:
            while not going_on.is_set():
                a.send(None if to_all else b.address, bytes(60_000))
                sent[0] += 1
        flooding = threading.Thread(target=flood, daemon=True)
        flooding.start()
        before = [-1]

        def stands() -> bool:
            before[0], now = sent[0], before[0]
            time.sleep(0.5)
            return sent[0] == now
        until(stands, "A waits for credits")
        for survey in surveys:
            states = {name: member["state"] for name, member in by_name(survey.take()).items()}
            assert states == {"A": "alive", "B": "blocked", "C": "alive"}
        assert by_name(surveys[2].take())["A"]["kept_back_bytes"] > 0
        going_on.set()
        flooding.join(60)


def test_all_who_ask_at_once_share_a_survey():
    port = str(free_range())
    with jg.JChannel("udp", "A", {"mcast_port": port}) as a, jg.JChannel("udp", "B", {"mcast_port": port}) as b:
        for channel in (a, b):
            channel.connect("chat")
        a.wait_for(members=2)
        survey, answering = Survey.of(a), Survey.of(b)
        until(lambda: by_name(survey.take())["B"]["state"] == "alive", "B takes part")
        time.sleep(FRESH_SECONDS)
        before = answering.counters["questions_answered"]
        found: list[dict[str, Any]] = []
        threads = [threading.Thread(target=lambda: found.append(survey.take())) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [by_name(each)["B"]["state"] for each in found] == ["alive"] * 50
        assert answering.counters["questions_answered"] - before <= 2


@pytest.fixture
def sites(tmp_path: Path):
    """NYC with A and B, SFO with D; all with a control socket."""
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}],127.0.0.1[{first + 1}]",
              "bridge_name": f"survey-{first}"}
    groups = [Group(str(STACKS / f"{site}.xml"), site, **bridge) for site in ("nyc", "sfo")]
    with groups[0] as nyc, groups[1] as sfo:
        for group, name in ((nyc, "A"), (nyc, "B"), (sfo, "D")):
            group.spawn(name, ["--control", str(tmp_path / f"{name}.sock"), "--http", "0"]).ready()
        nyc.settle("AB")
        yield nyc, sfo


def test_a_stopped_member_is_named_within_a_second_and_the_others_answer_across_sites(
    sites: tuple[Group, Group], tmp_path: Path, capsys: pytest.CaptureFixture[str],
):
    nyc, _ = sites
    control = str(tmp_path / "B.sock")

    def asked() -> dict[str, Any]:
        assert main(["members", "--all", "--json", "--control", control]) == 0
        return json.loads(capsys.readouterr().out)
    until(lambda: {name: member["state"] for name, member in by_name(asked()).items()} == {
        "A": "alive", "B": "alive", "D": "alive"}, "all answer B")
    found = asked()
    assert {member["site"] for member in found["members"]} == {"NYC", "SFO"}
    assert (found["sites"], by_name(found)["D"]["relay"]) == ({"SFO": "UP"}, True)
    assert main(["site", "status", "--all", "--control", control]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in table[1:]] == [["NYC", "A", "SFO", "UP"], ["SFO", "D", "NYC", "UP"]]

    os.kill(nyc["A"].process.pid, signal.SIGSTOP)
    try:
        time.sleep(FRESH_SECONDS)
        began = time.monotonic()
        states = {name: member["state"] for name, member in by_name(asked()).items()}
        assert time.monotonic() - began < 3.0, "a second, and the start of a command on a busy machine"
        assert (states["A"], states["B"]) == ("no answer", "alive")
        assert main(["members", "--all", "--control", control]) == 0
        assert "no answer" in capsys.readouterr().out
    finally:
        os.kill(nyc["A"].process.pid, signal.SIGCONT)
    until(lambda: by_name(asked())["A"]["state"] == "alive", "A goes on")


def test_the_endpoint_answers_for_all_and_goes_on_meanwhile(tmp_path: Path):
    port = str(free_range())
    with jg.JChannel("udp", "A", {"mcast_port": port}) as a, jg.JChannel("udp", "B", {"mcast_port": port}) as b, \
            HttpEndpoint(a, "0") as endpoint, ControlSocket(b, tmp_path / "b.sock"):
        for channel in (a, b):
            channel.connect("chat")
        b.wait_for(members=2)
        until(lambda: by_name(json.load(urllib.request.urlopen(f"{endpoint.url}/v1/cluster")))["B"]["state"] == "alive",
              "B answers")
        a.disconnect()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{endpoint.url}/v1/cluster")


@pytest.mark.slow
def test_thirty_members_of_three_sites_answer_any_member_within_a_second():
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": ",".join(f"127.0.0.1[{first + at}]" for at in range(3)),
              "bridge_name": f"survey-{first}"}
    names = [(site, f"{site}{number}") for site in ("NYC", "SFO", "LON") for number in range(10)]
    ports = {site: {"mcast_port": free_range(), "site": site} for site in ("NYC", "SFO", "LON")}
    going_on, got = threading.Event(), threading.Semaphore(0)

    def stand_still(message: jg.Message) -> None:
        got.release()
        going_on.wait(300)
    with contextlib.ExitStack() as opened:
        channels = {name: opened.enter_context(jg.JChannel(str(STACKS / "nyc.xml"), name, {**ports[site], **bridge}))
                    for site, name in names}
        surveys = {name: Survey.of(channel) for name, channel in channels.items()}
        channels["SFO7"].receiver = stand_still
        for site, name in names:
            channels[name].connect(site, timeout=60)
        for channel in channels.values():
            channel.wait_for(members=10, timeout=120)
        for asking in ("LON9", "NYC0"):
            until(lambda asking=asking: {member["state"] for member in surveys[asking].take()["members"]} == {"alive"}
                  and len(surveys[asking].take()["members"]) == 30, f"all answer {asking}")
        channels["SFO0"].send(b"x")
        channels["SFO0"].send(b"y")
        assert got.acquire(timeout=60)
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            going_on.wait(300)
        channels["LON3"].connection().call(stop)
        assert stopped.wait(60)
        wanted = {name: "alive" for _, name in names} | {"SFO7": "blocked", "LON3": "no answer"}
        try:
            found: dict[str, Any] = {}

            def all_but_one_answer() -> bool:
                nonlocal found
                time.sleep(FRESH_SECONDS)
                found = surveys["LON9"].take()
                return {name: member["state"] for name, member in by_name(found).items()} == wanted
            until(all_but_one_answer, "LON9 names the two")
            began = time.monotonic()
            time.sleep(FRESH_SECONDS)
            surveys["NYC5"].take()
            assert time.monotonic() - began < FRESH_SECONDS + ANSWER_SECONDS + 1.0, "a second, on a busy machine"
        finally:
            going_on.set()
        assert len(json.dumps(found)) < 1 << 20
        assert {member["site"] for member in found["members"]} == {"NYC", "SFO", "LON"}
