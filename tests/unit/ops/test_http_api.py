"""The HTTP endpoint of a member without its sockets: who is answered, what health means, and the metrics."""
from __future__ import annotations

import json
import os
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import attrs
import pytest

from jgroups_py.channel.base import BaseChannel
from jgroups_py.cli.counter_docs import section_of
from jgroups_py.model.counters import declaration, observe, table
from jgroups_py.model.errors import ConfigError, NotConnectedError
from jgroups_py.ops.http import api as api_module
from jgroups_py.ops.http.access import HttpAccess, check_place, parse_place
from jgroups_py.ops.http.api import EndpointApi
from jgroups_py.ops.http.metrics import MemberFacts, Metric, member_metrics, render
from jgroups_py.ops.http.snapshot import DEAD_SECONDS, MemberReport, Snapshot
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest

FACTS = MemberFacts(member="A", site="NYC", transport="UDP", version="1.2", wire=1, started_at=1000.5)
REPORT = MemberReport(
    uuid="ab" * 16, view="A|2", coordinator=True,
    members={"member": "A", "cluster": "chat", "view": "A|2", "members": [
        {"name": "A", "state": "alive", "uuid": "ab" * 16}, {"name": "B", "state": "alive", "uuid": "cd" * 16}]},
    sites={"site": "NYC", "relay": "A", "is_relay": True, "held_bytes": 640, "hold_limit_bytes": 10_000, "sites": {
        "SFO": {"status": "DOWN", "members": ["D"], "numbered": 12, "acknowledged": 2, "lost": 0, "held": 10,
                "oldest_held_seconds": 2.5}}},
    stats={"UDP": {"frames_sent": 7, "malformed_dropped": 2}, "NAKACK": {"kept_bytes": 5, "requests_sent": 3},
           "UNICAST": {"requests_sent": 1}, "GMS": {"views_installed": 2}, "RELAY": {},
           "bridge.TCP": {"frames_sent": 4},
           "channel": {"send_queue_bytes": 1, "backlog_bytes": 0, "kept_back_bytes": 0, "delivered": 20}})
SNAPSHOT = Snapshot(state="CONNECTED", cluster="chat", report=REPORT, at=2000.0)
ALONE = Snapshot(state="OPEN", cluster=None, report=None, at=2000.0)


class Events:
    followers = 0

    def newest(self, most: int) -> list[tuple[int, dict[str, Any]]]:
        return [(7, {"at": 1999.0, "event": "site", "site": "SFO", "status": "DOWN"})]


class Api:
    """An endpoint's API over a channel that is not connected; the snapshot is what a test says."""

    def __init__(self, snapshot: Snapshot = SNAPSHOT, token: bytes | None = None, **options: Any) -> None:
        self.channel = BaseChannel("nyc", "A", {"site": "NYC"})
        self.snapshot = snapshot

        async def take() -> Snapshot:
            return self.snapshot
        events: Any = Events()

        async def survey() -> dict[str, Any]:
            if snapshot.report is None:
                raise NotConnectedError("the member is in no group")
            return {"v": 1, "members": []}
        self.api = EndpointApi(self.channel, FACTS, take, survey, events, token=token,
                               **{"hosts": (), "is_local": False, **options})

    def ask(self, target: str, method: str = "GET", **headers: str) -> HttpAnswer:
        given = {"host": "127.0.0.1:7580", **headers}
        return run(self.api.answer(HttpRequest(method, target, given, b"")))

    def get(self, target: str, **headers: str) -> tuple[int, Any]:
        answer = self.ask(target, **headers)
        return answer.status, json.loads(answer.body)


def run(what: Coroutine[Any, Any, Any]) -> Any:
    """Run what waits for nothing."""
    try:
        what.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


# --- who is answered --------------------------------------------------------------------------------------------------

def test_only_reading_is_possible():
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = Api().ask("/v1/member", method)
        assert (answer.status, ("Allow", "GET, HEAD") in answer.headers) == (405, True)
    assert Api().ask("/v1/member", "HEAD").status == 200


@pytest.mark.parametrize("path", ["/metrics", "/v1/member", "/v1/sites", "/v1/events", "/v1/live", "/v1", "/nothing"])
@pytest.mark.parametrize("given", [
    "", "Bearer", "Bearer wrong-token-wrong", "Basic a-token-of-sixteen", "a-token-of-sixteen"])
def test_without_the_token_nothing_but_health_is_shown(path: str, given: str):
    api = Api(token=b"a-token-of-sixteen")
    assert api.ask(path, authorization=given).status == 401
    assert api.get("/livez", authorization=given) == (200, {"live": True})
    assert api.get("/readyz", authorization=given) == (200, {"ready": True}), "no names of checks or sites"


def test_with_the_token_all_is_shown():
    api = Api(token=b"a-token-of-sixteen")
    assert api.ask("/metrics", authorization="bearer a-token-of-sixteen").status == 200
    assert "checks" in api.get("/readyz", authorization="Bearer a-token-of-sixteen")[1]


@pytest.mark.parametrize(("host", "status"), [
    ("evil.example", 421), ("", 421), ("127.0.0.1.evil.example:7580", 421), ("localhost:7580", 200), ("[::1]", 200),
    ("10.0.0.1", 200), ("member.example:7580", 200)])
def test_a_name_that_is_not_configured_is_refused(host: str, status: int):
    assert Api(hosts=("member.example",)).ask("/metrics", host=host).status == status


def test_at_a_unix_socket_no_host_is_needed():
    assert Api(is_local=True).ask("/metrics", host="").status == 200


def test_the_page_has_no_facts_so_it_needs_no_token_and_lets_nothing_but_its_own_script_run():
    answer = Api(token=b"a-token-of-sixteen").ask("/")
    policy = dict(answer.headers)["Content-Security-Policy"]
    assert (answer.status, b"<!DOCTYPE html>" in answer.body) == (200, True)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert Api().ask("/", "POST").status == 405


def test_the_live_pictures_of_a_member_have_its_group_and_other_sites():
    answer = Api().ask("/v1/live")
    assert answer.stream is not None
    text = run(anext(answer.stream))
    head, data = text.decode().splitlines()[:2]
    picture = json.loads(data.removeprefix("data: "))
    assert head == "event: picture"
    assert [(site["name"], site["status"]) for site in picture["sites"]] == [("NYC", ""), ("SFO", "DOWN")]
    assert [member["name"] for member in picture["sites"][0]["members"]] == ["A", "B"]
    assert [(member["coordinator"], member["relay"]) for member in picture["sites"][0]["members"]] == [
        (True, True), (False, False)]
    assert picture["flows"] == [{"src": "NYC", "dest": "SFO", "held": 10, "rate": 0.0}]
    assert (picture["delivered"], picture["lost"], picture["twice"], picture["orders"]) == (20, 0, None, [])
    assert picture["log"][0]["text"] == "site SFO is DOWN"


def test_a_member_in_no_group_has_a_picture_that_says_so():
    data = run(anext(Api(ALONE).ask("/v1/live").stream)).decode().splitlines()[1]
    picture = json.loads(data.removeprefix("data: "))
    assert (picture["title"], picture["sites"]) == ("A is in no group", [])


def test_a_member_that_has_delivered_nothing_yet_has_a_picture():
    report = attrs.evolve(REPORT, stats={**REPORT.stats, "channel": {"send_queue_bytes": 0}})
    data = run(anext(Api(attrs.evolve(SNAPSHOT, report=report)).ask("/v1/live").stream)).decode().splitlines()[1]
    assert json.loads(data.removeprefix("data: "))["delivered"] == 0


def test_no_more_than_sixteen_follow_the_pictures():
    api = Api()
    streams = [api.ask("/v1/live").stream for _ in range(16)]
    for stream in streams:
        run(anext(stream))
    assert api.ask("/v1/live").status == 503
    run(streams[0].aclose())
    assert api.ask("/v1/live").status == 200


# --- health -----------------------------------------------------------------------------------------------------------

def test_a_member_without_its_group_lives_and_is_not_ready():
    api = Api(ALONE)
    assert api.get("/livez") == (200, {"live": True})
    assert api.get("/readyz") == (503, {"ready": False, "checks": {"connected": False, "loop": True}})
    status, document = api.get("/v1/members")
    assert (status, document["error"]) == (503, "the member is in no group")


def test_a_loop_that_does_not_answer_is_not_ready_at_once_and_dead_after_half_a_minute():
    stale = attrs.evolve(SNAPSHOT, stale_seconds=2.0, silent_seconds=1.5)
    assert Api(stale).get("/livez")[0] == 200
    assert Api(stale).get("/readyz") == (503, {"ready": False, "checks": {"connected": True, "loop": False}})
    assert Api(stale).get("/v1/member")[1]["stale_seconds"] == 2.0
    dead = attrs.evolve(SNAPSHOT, silent_seconds=DEAD_SECONDS + 1)
    assert Api(dead).get("/livez") == (503, {"live": False, "reason": "the loop ran no round for 31 s"})


def test_a_channel_that_closed_by_itself_is_dead():
    api = Api(ALONE)
    api.channel._status.closed_because = "an assertion failed"
    assert api.get("/livez") == (503, {"live": False, "reason": "an assertion failed"})


@pytest.mark.parametrize(("query", "status", "checks"), [
    ("members=2", 200, {"members": True}), ("members=3", 503, {"members": False}),
    ("sites=SFO", 503, {"site SFO": False}), ("sites=LON", 503, {"site LON": False}), ("sites=", 200, {})])
def test_a_probe_may_ask_for_members_and_sites(query: str, status: int, checks: dict[str, bool]):
    found = Api().get(f"/readyz?{query}")
    assert found == (status, {"ready": status == 200, "checks": {"connected": True, "loop": True, **checks}})


@pytest.mark.parametrize("query", ["members=x", "members=-1", "members=99999999", "site=SFO"])
def test_a_condition_that_makes_no_sense_is_refused(query: str):
    assert Api().ask(f"/readyz?{query}").status == 400


def test_all_members_are_asked_for_those_who_may_ask():
    assert Api().get("/v1/cluster") == (200, {"v": 1, "members": []})
    assert Api(ALONE).get("/v1/cluster") == (503, {"v": 1, "error": "the member is in no group"})
    assert Api(token=b"a-token-of-sixteen").ask("/v1/cluster").status == 401


def test_the_configuration_is_shown_as_a_stack_file_has_it():
    document = Api().get("/v1/config")[1]
    relay = next(each for each in document["protocols"] if each["protocol"] == "RELAY")
    assert (relay["properties"]["site"], document["v"]) == ("NYC", 1)


# --- metrics ----------------------------------------------------------------------------------------------------------

def text_of(snapshot: Snapshot) -> list[str]:
    return render(member_metrics(FACTS, snapshot), {"cluster": "chat", "member": 'A"\\'}).decode().splitlines()


def test_metrics_have_their_heads_and_labels_once_and_escaped():
    lines = text_of(SNAPSHOT)
    label = r'cluster="chat",member="A\"\\"'
    assert f'jgroups_site_status{{{label},site="SFO",status="DOWN"}} 1' in lines
    assert f'jgroups_site_status{{{label},site="SFO",status="UP"}} 0' in lines
    assert f'jgroups_frames_sent_total{{{label},net="bridge"}} 4' in lines
    assert f'jgroups_frames_dropped_total{{{label},net="local",reason="malformed"}} 2' in lines
    assert f'jgroups_retransmit_requests_total{{{label},net="local"}} 4' in lines
    heads = [line for line in lines if line.startswith("# ")]
    assert len(heads) == len(set(heads)) == 2 * len({line.split()[2] for line in heads})
    names = {line.split("{")[0] for line in lines if not line.startswith("#")}
    plain = {line.split()[2] for line in heads if not line.endswith(" histogram")}
    histograms = {line.split()[2] for line in heads if line.endswith(" histogram")}
    assert len(histograms) == 3
    assert names == plain - histograms | {name + end for name in histograms for end in ("_bucket", "_sum", "_count")}


def test_a_histogram_has_what_is_below_each_bound_and_the_sum_in_seconds():
    counted: dict[str, int] = {}

    def count(name: str, number: int) -> None:
        counted[name] = counted.get(name, 0) + number
    for duration_ms in (0.5, 1, 3, 20, 90_000):
        observe(count, "frozen", int(duration_ms * 1_000_000))
    report = attrs.evolve(REPORT, stats={**REPORT.stats, "NAKACK": counted})
    lines = [line for line in text_of(attrs.evolve(SNAPSHOT, report=report)) if "jgroups_view_change_seconds_" in line]
    below = {re.search('le="(.*?)"', line)[1]: float(line.split()[-1]) for line in lines if "_bucket{" in line}
    assert list(below) == ["0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5",
                           "10", "30", "60", "+Inf"]
    assert [below[bound] for bound in ("0.001", "0.0025", "0.005", "0.01", "0.025", "60", "+Inf")] == [
        2, 2, 3, 3, 4, 4, 5]
    assert [float(line.split()[-1]) for line in lines[-2:]] == [90.0245, 5]


def test_delays_are_counted_for_each_site():
    stats = {**REPORT.stats, "RELAY": {"delay_SFO_within_5": 3, "delay_SFO_us": 9000, "delay_SFO_x_within_5": 4}}
    lines = text_of(attrs.evolve(SNAPSHOT, report=attrs.evolve(REPORT, stats=stats)))
    [number] = [line.split()[-1] for line in lines if line.startswith("jgroups_site_delay_seconds_count")]
    assert number == "3"


def test_the_ledger_adds_up_in_the_metrics():
    figures = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text_of(SNAPSHOT)
               if line.startswith("jgroups_site_") and "status" not in line}
    assert figures["jgroups_site_numbered_messages_total"] == sum(figures[f"jgroups_site_{name}"] for name in (
        "acknowledged_messages_total", "lost_messages_total", "held_messages"))


def test_a_member_in_no_group_has_its_state_only():
    lines = text_of(ALONE)
    assert any(line.startswith("jgroups_member_state{") and 'state="OPEN"} 1' in line for line in lines)
    assert not any(line.startswith("jgroups_view") for line in lines)


class Asked(dict[str, float]):
    """Figures of a layer that record which were asked for."""

    def __init__(self, layer: str, asked: set[tuple[str, str]]) -> None:
        super().__init__()
        self._layer, self._asked = layer, asked

    def get(self, name: str, default: Any = None) -> Any:
        self._asked.add((self._layer, name))
        return default


def test_a_report_is_made_once_for_each_snapshot(monkeypatch: pytest.MonkeyPatch):
    made: list[Snapshot] = []

    def counted(facts: MemberFacts, snapshot: Snapshot) -> list[Metric]:
        made.append(snapshot)
        return member_metrics(facts, snapshot)
    monkeypatch.setattr(api_module, "member_metrics", counted)
    api = Api()
    first, second = api.ask("/metrics"), api.ask("/metrics")
    assert second.body is first.body
    assert api.ask("/v1/members").body != first.body
    later = attrs.evolve(SNAPSHOT, at=SNAPSHOT.at + 1, silent_seconds=1.0)
    api.snapshot = later
    assert b"jgroups_loop_silence_seconds{" in api.ask("/metrics").body
    assert made == [SNAPSHOT, later]


def test_every_figure_that_is_shown_is_declared_by_its_protocol():
    asked: set[tuple[str, str]] = set()
    layers = ("UDP", "NAKACK", "UNICAST", "GMS", "VERIFY_SUSPECT", "MFC", "UFC", "FLOW", "RELAY", "channel")
    member_metrics(FACTS, attrs.evolve(SNAPSHOT, report=attrs.evolve(
        REPORT, stats={layer: Asked(layer, asked) for layer in layers})))
    assert asked
    assert not {(layer, name) for layer, name in asked if declaration(name, table(section_of(layer).counters)) is None}


# --- where it listens -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", [
    "a.example", "unix:", "127.0.0.1:", "127.0.0.1:70000", "[::1", "[::1]x", "1.2.3.4.5:1"])
def test_a_place_that_is_none_is_refused(text: str):
    with pytest.raises(ConfigError, match="HTTP: "):
        parse_place(text)


def test_other_hosts_need_a_token_or_a_decision():
    check_place(("127.0.0.1", 1), HttpAccess())
    check_place(("::1", 1), HttpAccess())
    check_place(Path("/run/a.sock"), HttpAccess())
    for host in ("0.0.0.0", "10.0.0.1", "::"):
        with pytest.raises(ConfigError, match="can be reached from other hosts"):
            check_place((host, 1), HttpAccess())
        check_place((host, 1), HttpAccess(is_open=True))
        check_place((host, 1), HttpAccess(token_file="token"))


def test_a_token_is_for_this_user_and_long_enough(tmp_path: Path):
    path = tmp_path / "token"
    with pytest.raises(ConfigError, match="No such file"):
        HttpAccess(token_file=path).token()
    path.write_text("0123456789abcdef\n")
    os.chmod(path, 0o640)
    with pytest.raises(ConfigError, match=f"can be used by others; chmod 600 {path}"):
        HttpAccess(token_file=path).token()
    os.chmod(path, 0o600)
    assert HttpAccess(token_file=path).token() == b"0123456789abcdef"
    path.write_text("short")
    with pytest.raises(ConfigError, match="has 5 bytes; 16 are the least"):
        HttpAccess(token_file=path).token()
