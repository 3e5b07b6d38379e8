"""`jgroups site` against running members of two sites: commands of an operator, and their effects."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.receiver import Receiver
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.errors import ConfigError, SiteOrderError
from jgroups_py.ops.control import ControlSocket, SiteControl
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Group, Member

pytestmark = pytest.mark.real

STACKS = Path(__file__).parents[2] / "stacks"
PATIENCE_S = 120.0


class Operator:
    """`jgroups site ... --control PATH` at one member."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "jgroups_py", "site", *words, "--control", str(self.path)],
                              capture_output=True, text=True, check=False)

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Request the status until `holds` is true of SFO."""
        until = monotonic() + PATIENCE_S
        while not holds(sfo := self.status()["sites"].get("SFO", {})):
            assert monotonic() < until, sfo
            sleep(0.1)
        return sfo


class TwoSites:
    """NYC with A and B, SFO with D; A and B have control sockets. properties: of the stacks of both."""

    def __init__(self, folder: Path, properties: dict[str, object]) -> None:
        first = free_range(10)
        bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}",
                  **properties}
        self.nyc, self.sfo = (Group(str(STACKS / f"{site}.xml"), site, **bridge) for site in ("nyc", "sfo"))
        self.operators = {name: Operator(folder / f"{name}.sock") for name in "AB"}
        for name, operator in self.operators.items():
            self.nyc.spawn(name, ["--control", str(operator.path)]).ready()
        self.nyc.settle("AB")
        self.sfo.spawn("D").ready()
        self.operators["B"].until(lambda sfo: sfo.get("status") == "UP" and sfo["members"] == ["D"])

    def close(self) -> None:
        for group in (self.nyc, self.sfo):
            for member in group.members.values():
                member.close()

    def received(self, member: Member, text: str) -> bool:
        return any(event["event"] == "message" and event["payload"] == text for event in member.events)


@pytest.fixture
def sites(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TwoSites]:
    sites = TwoSites(tmp_path, getattr(request, "param", {}))
    yield sites
    sites.close()


def test_an_operator_sees_the_ledger_and_takes_a_site_offline_and_online_again(sites: TwoSites) -> None:
    a, b, d = sites.nyc["A"], sites.nyc["B"], sites.sfo["D"]
    operator = sites.operators["B"]                        # not the coordinator
    for number in range(5):
        b.command(f"send hello {number}")
    sfo = operator.until(lambda sfo: sfo["acknowledged"] == 5)
    assert (sfo["numbered"], sfo["held"], sfo["lost"]) == (5, 0, 0)
    assert [entry["origin"] for entry in sfo["origins"]] == ["B"]
    shown = operator.run("status").stdout.split("\n")
    assert shown[0].startswith("NYC, as B sees it (relay A): 0 messages kept")
    assert shown[2].split() == ["SFO", "UP", "5", "5", "0", "0", "D"]

    done = operator.run("offline", "SFO")
    assert (done.returncode, done.stdout, done.stderr) == (0, "SFO is OFFLINE\n", "")
    for member in (a, b):
        member.wait(lambda event: event == {**event, "event": "site", "site": "SFO", "status": "OFFLINE"}, "OFFLINE")
    b.command("send into the void")
    sfo = operator.until(lambda sfo: sfo["lost"] == 1)
    assert sfo["forbidden"]
    assert "OFFLINE (by order)" in operator.run("status", "SFO").stdout

    assert sites.operators["A"].run("online", "SFO").returncode == 0
    operator.until(lambda sfo: sfo["status"] == "UP")
    b.command("send back again")
    d.wait(lambda event: event["event"] == "message" and event["payload"] == "back again", "message after the return")
    assert not sites.received(d, "into the void")
    for member, dest_site in ((a, "SFO"), (b, "SFO"), (d, None)):
        lost = member.wait(lambda event: event["event"] == "lost", "notice of the loss")
        assert (lost["origin"], lost["first"], lost["stop"], lost["dest_site"]) == ("B", 6, 7, dest_site)


def test_a_drain_under_load_loses_nothing_of_what_was_held(sites: TwoSites) -> None:
    b, d = sites.nyc["B"], sites.sfo["D"]
    b.command("flood 200000 100 1000")                          # longer than the test takes on any machine
    d.wait(lambda event: event["event"] == "progress", "flood")
    done = sites.operators["A"].run("drain", "SFO", "--timeout", "100", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {})
    received = d.stats()["received"]["B"]
    assert received["duplicates"] == received["out_of_order"] == 0
    book = sites.operators["B"].until(lambda sfo: sfo["lost"] > 0)
    assert book["status"] == "OFFLINE"
    assert book["acknowledged"] == received["next"] == d.stats()["received"]["B"]["count"]
    assert book["numbered"] == book["acknowledged"] + book["held"] + book["lost"]


def test_a_drain_of_a_site_that_does_not_answer_is_given_up_without_loss(sites: TwoSites) -> None:
    b, d = sites.nyc["B"], sites.sfo["D"]
    d.kill()
    b.command("send held")
    sites.operators["B"].until(lambda sfo: sfo["held"] == 1)
    done = sites.operators["B"].run("drain", "SFO", "--timeout", "0.5")
    assert done.returncode == 1
    assert done.stderr == "jgroups site: SFO has not acknowledged 1 messages in time; it stays as it was\n"
    assert sites.operators["B"].status()["sites"]["SFO"]["held"] == 1


def test_maintenance_with_drain_hold_loses_nothing(sites: TwoSites) -> None:
    b, operator = sites.nyc["B"], sites.operators["B"]
    b.command("send before")
    done = operator.run("drain", "SFO", "--hold")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing is sent to SFO until it is ordered online; messages for it are held\n"
    assert sites.received(sites.sfo["D"], "before")
    assert sites.sfo["D"].leave() == 0
    for number in range(5):
        b.command(f"send meanwhile {number}")
    assert operator.until(lambda sfo: sfo["held"] == 5)["on_hold"]
    assert "DOWN (on hold by order)" in operator.run("status", "SFO").stdout
    sites.sfo.spawn("D").ready()
    operator.until(lambda sfo: sfo["status"] == "UP")
    d = sites.sfo["D"]
    sleep(1)
    assert not sites.received(d, "meanwhile 0")
    assert sites.operators["A"].run("online", "SFO").returncode == 0
    for number in range(5):
        d.wait(lambda event, wanted=f"meanwhile {number}": event.get("payload") == wanted, "message of the maintenance")
    book = operator.until(lambda sfo: sfo["held"] == 0)
    assert (book["numbered"], book["acknowledged"], book["lost"], book["on_hold"]) == (6, 6, 0, False)
    assert Operator.run(operator, "offline", "SFO", "--hold").returncode == 2


WAITS_LONG: dict[str, object] = {"site_down_after": "1h"}


@pytest.mark.parametrize(("sites", "how"), [(WAITS_LONG, "leave"), (WAITS_LONG, "SIGTERM"), ({}, "SIGKILL")],
                         indirect=["sites"], ids=["leave", "SIGTERM", "SIGKILL"])
def test_a_site_that_stops_gets_what_was_sent_meanwhile(sites: TwoSites, how: str) -> None:
    """A planned stop is announced: it does not wait for site_down_after."""
    a, d, operator = sites.nyc["A"], sites.sfo["D"], sites.operators["A"]
    if how == "leave":
        assert d.leave() == 0
    else:
        d.signal(signal.Signals[how])
        d.process.wait(PATIENCE_S)
    for number in range(5):
        a.command(f"send meanwhile {number}")
    operator.until(lambda sfo: sfo["held"] == 5)
    if how != "SIGKILL":
        assert operator.until(lambda sfo: sfo["status"] != "UP")["status"] == "DOWN"
    sites.sfo.spawn("D").ready()
    d = sites.sfo["D"]
    for number in range(5):
        d.wait(lambda event, wanted=f"meanwhile {number}": event.get("payload") == wanted, "message sent meanwhile")
    assert operator.until(lambda sfo: sfo["held"] == 0)["lost"] == 0


def test_a_site_that_leaves_for_good_is_forgotten_at_once(sites: TwoSites) -> None:
    a, d, operator = sites.nyc["A"], sites.sfo["D"], sites.operators["A"]
    d.command("leave for ever")
    d.wait(lambda event: event["event"] == "error" and "leave forget" in event["message"], "error")
    d.command("leave forget")
    assert d.process.wait(PATIENCE_S) == 0
    assert operator.until(lambda sfo: sfo["status"] != "UP")["status"] == "OFFLINE"
    a.command("send into the void")
    assert operator.until(lambda sfo: sfo["lost"] == 1)["held"] == 0
    sites.sfo.spawn("D").ready()
    operator.until(lambda sfo: sfo["status"] == "UP")
    a.command("send back again")
    sites.sfo["D"].wait(lambda event: event.get("payload") == "back again", "message after the return")


def test_wrong_orders_are_refused_with_reasons(sites: TwoSites, tmp_path: Path) -> None:
    operator = sites.operators["A"]
    for words, code, text in (
        (("offline", "LON"), 1, "LON is no site that was ever heard of; known: SFO"),
        (("drain", "NYC"), 1, "NYC is our own site; known: SFO"),
        (("status", "LON"), 1, "NYC does not know site LON; known: SFO"),
        (("offline",), 2, "offline needs a SITE"),
    ):
        done = operator.run(*words)
        assert done.returncode == code, done
        assert text in done.stderr
    no_member = Operator(tmp_path / "no-member.sock").run("status")
    assert no_member.returncode == 2
    assert "no member listens" in no_member.stderr


def test_only_its_user_can_open_the_control_socket(sites: TwoSites) -> None:
    mode = sites.operators["A"].path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert sites.nyc["A"].leave() == 0
    assert not sites.operators["A"].path.exists()


def test_garbage_on_the_socket_is_answered_and_harms_no_member(sites: TwoSites) -> None:
    questions = (b"{", b"[]", b"{}", b'{"command": "offline"}', b'{"command": "drain", "site": "SFO", "timeout": true}',
                 b'{"command": "offline", "site": 7}', b'{"command": "drain", "site": "SFO", "hold": 1}',
                 b'{"command": "offline", "site": "SFO", "hold": true}', b'{"command": "status", "timeout": -1}',
                 b"\xff\xfe" * 40_000)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE_S)
        caller.connect(str(sites.operators["A"].path))
        with caller.makefile("rb") as answers:
            for question in questions:
                caller.sendall(question + b"\n")
                assert json.loads(answers.readline())["ok"] is False
    assert sites.operators["A"].status()["sites"]["SFO"]["status"] == "UP"


# --- in the process itself ------------------------------------------------------------------------------------------

def test_a_socket_is_not_put_in_the_place_of_something_else(tmp_path: Path) -> None:
    channel = JChannel(str(STACKS / "nyc.xml"), name="A")
    taken = tmp_path / "file"
    taken.write_text("precious")
    with pytest.raises(ConfigError, match="something else"):
        ControlSocket(channel, taken)
    assert taken.read_text() == "precious"
    with ControlSocket(channel, tmp_path / "s"), pytest.raises(ConfigError, match="another member"):
        ControlSocket(channel, tmp_path / "s")
    with pytest.raises(ConfigError, match="at most"):
        ControlSocket(channel, tmp_path / ("x" * 120))
    with pytest.raises(ConfigError, match="no control socket"):
        ControlSocket(channel, tmp_path / "missing" / "s")


def test_a_member_without_relay_has_no_orders_to_take(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no RELAY"):
        SiteControl(JChannel("udp", name="A"))
    with pytest.raises(ValueError, match="needs RELAY"):
        JChannel("udp", name="A").close(forget=True)
    with ControlSocket(JChannel("udp", name="A"), tmp_path / "s"):
        done = Operator(tmp_path / "s").run("status")
    assert done.returncode == 1
    assert "no RELAY" in done.stderr


def test_a_socket_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with ControlSocket(JChannel(str(STACKS / "nyc.xml"), name="A"), path):
        done = Operator(path).run("status")
    assert done.returncode == 1
    assert "not connected" in done.stderr
    assert not os.path.lexists(path)


def test_a_program_may_send_requests_on_its_own_channel_also_from_an_event_loop(sites: TwoSites) -> None:
    async def orders() -> tuple[str, dict[str, str], list[tuple[str, str]]]:
        events: list[tuple[str, str]] = []
        channel = AsyncChannel(sites.nyc.stack, name="C", properties=dict(sites.nyc.properties))
        control = SiteControl(channel)
        channel.receiver = SiteEvents(events)
        async with channel:
            await channel.connect("nyc")
            with pytest.raises(SiteOrderError, match="known: SFO"):
                await asyncio.to_thread(control.offline, "LON")
            await asyncio.to_thread(control.offline, "SFO")
            report = await asyncio.to_thread(control.status)
            return report["sites"]["SFO"]["status"], channel.sites, events

    assert asyncio.run(orders()) == ("OFFLINE", {"SFO": "OFFLINE"}, [("SFO", "UP"), ("SFO", "OFFLINE")])
    sites.operators["A"].until(lambda sfo: sfo["forbidden"])


class SiteEvents(Receiver):
    """Keeps the reported changes of sites."""

    def __init__(self, events: list[tuple[str, str]]) -> None:
        self.events = events

    async def site_status(self, site: str, status: str) -> None:       # type: ignore[override]
        self.events.append((site, status))
