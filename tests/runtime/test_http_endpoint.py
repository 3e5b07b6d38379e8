"""The HTTP endpoint of a real member on loopback."""
from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import jgroups_py as jg
from jgroups_py.model.errors import ConfigError
from jgroups_py.ops.http import HttpAccess, HttpEndpoint
from jgroups_py.system.free_ports import free_range

pytestmark = pytest.mark.real


@pytest.fixture
def channel() -> Iterator[jg.JChannel]:
    with jg.JChannel("udp", "A", {"mcast_port": free_range()}) as made:
        yield made


def ask(endpoint: HttpEndpoint, target: str, **headers: str) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
    client.request("GET", target, headers=headers)
    answer = client.getresponse()
    found = answer.status, answer.read()
    client.close()
    return found


def document(endpoint: HttpEndpoint, target: str) -> tuple[int, Any]:
    status, body = ask(endpoint, target)
    return status, json.loads(body)


def test_health_and_reports_follow_the_channel(channel: jg.JChannel):
    with HttpEndpoint(channel, "0") as endpoint:
        assert document(endpoint, "/livez") == (200, {"live": True})
        assert document(endpoint, "/readyz")[0] == 503
        channel.connect("chat")
        assert document(endpoint, "/readyz") == (200, {"ready": True, "checks": {"connected": True, "loop": True}})
        status, member = document(endpoint, "/v1/member")
        assert (status, member["state"], member["view"], member["coordinator"]) == (200, "CONNECTED", "A|1", True)
        assert member["uuid"] == channel.address.raw.hex()
        assert [each["name"] for each in document(endpoint, "/v1/members")[1]["members"]] == ["A"]
        assert ask(endpoint, "/v1/sites")[0] == 404
        channel.disconnect()
        assert document(endpoint, "/readyz")[0] == 503
        assert document(endpoint, "/livez")[0] == 200


def test_metrics_count_what_is_sent_and_delivered(channel: jg.JChannel):
    got = threading.Semaphore(0)
    channel.receiver = lambda message: got.release()
    channel.connect("chat")
    with HttpEndpoint(channel, "0") as endpoint:
        for _ in range(5):
            channel.send(None, b"x")
        for _ in range(5):
            assert got.acquire(timeout=30)
        time.sleep(0.3)                                      # a snapshot is good for a quarter of a second
        lines = ask(endpoint, "/metrics")[1].decode().splitlines()
    label = '{cluster="chat",member="A"}'
    assert f"jgroups_messages_queued_total{label} 5" in lines
    assert f"jgroups_messages_delivered_total{label} 5" in lines
    assert f"jgroups_view_members{label} 1" in lines


def test_a_blocked_receiver_does_not_keep_a_probe_waiting(channel: jg.JChannel):
    going_on = threading.Event()
    channel.receiver = lambda message: going_on.wait(30)
    channel.connect("chat")
    with HttpEndpoint(channel, "0") as endpoint:
        channel.send(None, b"x")
        assert document(endpoint, "/readyz") == (200, {"ready": True, "checks": {"connected": True, "loop": True}})
        going_on.set()


def test_a_loop_that_stands_still_is_reported_with_the_last_snapshot(channel: jg.JChannel):
    channel.connect("chat")
    going_on, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        stopped.set()
        going_on.wait(30)
    with HttpEndpoint(channel, "0") as endpoint:
        assert document(endpoint, "/readyz")[0] == 200
        channel.connection().call(stop)
        assert stopped.wait(30)
        time.sleep(0.3)                                      # a snapshot is good for a quarter of a second
        assert document(endpoint, "/readyz") == (503, {"ready": False, "checks": {"connected": True, "loop": False}})
        member = document(endpoint, "/v1/member")[1]
        assert (member["state"], member["stale_seconds"] > 1.0) == ("CONNECTED", True)
        assert document(endpoint, "/livez") == (200, {"live": True}), "not for half a minute yet"
        going_on.set()
        assert document(endpoint, "/v1/member")[0] == 200


class State:
    """A state that is given when a test says so."""

    def __init__(self) -> None:
        self.asked, self.given = threading.Event(), threading.Event()

    def get_state(self, out: BinaryIO) -> None:
        self.asked.set()
        assert self.given.wait(60)
        out.write(b"x" * 100_000)

    def set_state(self, source: BinaryIO) -> None:
        assert len(source.read()) == 100_000


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


def test_a_member_without_its_state_or_on_its_way_out_is_not_ready(channel: jg.JChannel):
    state, going_on, stopped = State(), threading.Event(), threading.Event()
    channel.receiver = state
    channel.connect("chat")

    def stand_still() -> None:
        stopped.set()
        assert going_on.wait(60)
    port = {"mcast_port": channel.spec.config_of("UDP").mcast_port}
    with jg.JChannel("udp", "B", port, State()) as joiner, HttpEndpoint(joiner, "0") as endpoint, \
            ThreadPoolExecutor() as pool:
        connecting = pool.submit(joiner.connect, "chat", 60, channel.address)
        assert state.asked.wait(60)
        lacking = (503, {"ready": False, "checks": {"connected": True, "loop": True, "state": False}})
        assert document(endpoint, "/readyz") == lacking
        assert document(endpoint, "/livez") == (200, {"live": True})
        state.given.set()
        connecting.result(60)
        ready = (200, {"ready": True, "checks": {"connected": True, "loop": True}})
        until(lambda: document(endpoint, "/readyz") == ready)
        state.given.clear()
        fetching = pool.submit(joiner.get_state, channel.address)
        until(lambda: document(endpoint, "/readyz") == lacking)
        state.given.set()
        fetching.result(60)
        until(lambda: document(endpoint, "/readyz") == ready)
        channel.connection().call(stand_still)               # the coordinator, which has to consent
        assert stopped.wait(60)
        leaving = pool.submit(joiner.disconnect)
        until(lambda: document(endpoint, "/readyz") != ready)
        assert document(endpoint, "/readyz") == (503, {"ready": False, "checks": {"connected": False, "loop": True}})
        going_on.set()
        leaving.result(60)


def test_events_are_followed_from_the_last_one_that_a_client_has(channel: jg.JChannel):
    with HttpEndpoint(channel, "0") as endpoint:
        channel.connect("chat")
        found = follow(endpoint, 2, "0")
        assert [event for _, event, _ in found] == ["view", "joined"]
        assert found[0][2]["members"] == ["A"]
        assert follow(endpoint, 1, found[0][0]) == [found[1]], "what it has does not come again"
        assert follow(endpoint, 1, "999")[0] == found[0], "a number of an earlier process: all that is kept"
        assert follow(endpoint, 1, "")[0][1] == "tick", "only news, and a sign of life"


def test_an_endpoint_with_followers_ends_without_a_word(channel: jg.JChannel, caplog: pytest.LogCaptureFixture):
    channel.connect("chat")
    with HttpEndpoint(channel, "0") as endpoint:
        clients = [http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30) for _ in range(3)]
        for client in clients:
            client.request("GET", "/v1/live")
            assert client.getresponse().status == 200
    for client in clients:
        client.close()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def follow(endpoint: HttpEndpoint, number: int, last: str) -> list[tuple[str, str, Any]]:
    """(id, event, data) of the next events."""
    client = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
    client.request("GET", "/v1/events", headers={"Last-Event-ID": last} if last else {})
    answer = client.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    found, event = [], {"id": ""}
    while len(found) < number:
        name, _, value = answer.readline().decode().strip().partition(": ")
        if name in ("id", "event", "data"):
            event[name] = value
        if name == "data":
            found.append((event["id"], event["event"], json.loads(value)))
            event = {"id": ""}
    client.close()
    return found


def test_a_token_opens_it_to_other_hosts_and_is_asked_for(channel: jg.JChannel, tmp_path: Path):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("0123456789abcdef")
    with HttpEndpoint(channel, "0.0.0.0:0", HttpAccess(token_file=path)) as endpoint:
        assert ask(endpoint, "/metrics")[0] == 401
        assert ask(endpoint, "/metrics", Authorization="Bearer 0123456789abcdef")[0] == 200
        assert ask(endpoint, "/livez")[0] == 200
    with pytest.raises(ConfigError, match="can be reached from other hosts"):
        HttpEndpoint(channel, "0.0.0.0:0")


def test_a_port_that_is_taken_is_said_at_once_and_nothing_is_left(channel: jg.JChannel):
    with HttpEndpoint(channel, "0") as endpoint:
        before = threading.active_count()
        with pytest.raises(ConfigError, match=rf"HTTP: 127\.0\.0\.1:{endpoint.port}: the port is in use"):
            HttpEndpoint(channel, str(endpoint.port))
        assert threading.active_count() == before


def test_a_unix_socket_serves_its_user(channel: jg.JChannel, tmp_path: Path):
    with HttpEndpoint(channel, f"unix:{tmp_path / 'a.sock'}") as endpoint:
        assert endpoint.url == f"unix:{tmp_path / 'a.sock'}"
        assert os.stat(tmp_path / "a.sock").st_mode & 0o777 == 0o600
    assert not (tmp_path / "a.sock").exists()
