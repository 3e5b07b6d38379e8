"""The demo on the live page without members: orders, refusals, who may give them, pictures. Ports are looked for."""
from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.demo import options
from jgroups_py.cli.demo.director import DemoPlan
from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.demo.web import director as director_module
from jgroups_py.cli.demo.web.director import FREEZE_S, MOST_ORDERS, LiveDirector, bridge_that_can_be_cut
from jgroups_py.cli.demo.web.pictures import DemoPictures
from jgroups_py.cli.demo.web.server import WebView
from jgroups_py.config.load import load
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest


class Quiet:
    """A view that keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_line(self, text: str) -> None:
        self.lines.append(text.partition(" s  ")[2])

    def show(self, director: LiveDirector) -> None:
        """Nothing."""


class Run:
    """A director with six members that are up: A B C in NYC, D E F in SFO; the first of each site is relay."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, view: Any = None) -> None:
        self.signals: list[tuple[int, str]] = []
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.view = view or Quiet()
        self.director = LiveDirector(DemoPlan(b"x\n" * 100, folder, 10, 3, 2, 1, True), self.view)
        monkeypatch.setattr(director_module.os, "kill", lambda pid, number: self.signals.append((pid, number.name)))
        monkeypatch.setattr(self.director, "start", self.start)
        for number, name in enumerate("ABCDEF"):
            self.start(name, "NYC" if name in "ABC" else "SFO", number).state = "up"
        self.relays("A", "D")

    def start(self, tag: str, site: str, pid: int = 99) -> DemoMember:
        said = SimpleNamespace(
            write=lambda line: self.told.setdefault(tag, []).append(json.loads(line)), flush=lambda: None)
        member = DemoMember(tag, site, SimpleNamespace(pid=pid, stdin=said))  # type: ignore[arg-type]
        self.director.group.workers.append(member)
        return member

    def __getitem__(self, tag: str) -> DemoMember:
        return next(member for member in self.director.group.workers if member.tag == tag)

    def relays(self, nyc: str, sfo: str) -> None:
        for member in self.director.group.workers:
            member.coordinator = nyc if member.site == "NYC" else sfo

    def order(self, verb: str, site: str = "") -> None:
        assert self.director.order(verb, site)
        self.director._obey()

    def refusals(self) -> dict[tuple[str, str], str]:
        return {(offer.order, offer.site): offer.refusal for offer in self.director.offers()}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_the_bridge_of_the_page_has_partition_above_its_transport_and_is_else_the_packaged_one(tmp_path: Path):
    ours = [layer.name for layer in load(str(bridge_that_can_be_cut(tmp_path))).layers]
    assert ours == ["TCP", "PARTITION", *[layer.name for layer in load("bridge").layers[1:]]]


def test_a_relay_is_killed_and_comes_back_as_another_incarnation(run: Run):
    assert run.refusals()["return", "NYC"] == "all members of NYC are there"
    run["A"].process.pid = 4711
    run.order("kill", "NYC")
    assert (run.signals, run["A"].state) == ([(4711, "SIGKILL")], "killed")
    assert run.refusals()["kill", "NYC"] == "NYC has no relay just now"
    run.relays("B", "D")
    run.order("return", "NYC")
    assert run.refusals()["return", "NYC"] == "all members of NYC are there", "it is starting"
    run.director.on_ready(run["A#2"], {"event": "ready"})
    assert [told["do"] for told in run.told["A#2"]] == ["numbers"]


@pytest.mark.parametrize(("relay", "site"), [("C", "NYC"), ("F", "SFO")])
def test_who_sends_and_who_answers_is_not_killed(run: Run, relay: str, site: str):
    run.relays("C", "F")
    assert run.refusals()["kill", site].endswith("to the end")
    run.order("kill", site)
    assert (run.signals, run[relay].state) == ([], "up")
    assert run.view.lines[-1].startswith(f"not done: kill {site}")


def test_a_frozen_relay_goes_on_when_its_time_is_over_and_not_before(run: Run, monkeypatch: pytest.MonkeyPatch):
    now = time.monotonic()
    monkeypatch.setattr(director_module.time, "monotonic", lambda: now)
    run.order("freeze", "SFO")
    assert run.refusals()["kill", "SFO"] == run.refusals()["freeze", "SFO"] == "D is frozen"
    run.director._thaw(now + FREEZE_S - 0.1)
    assert run.signals == [(3, "SIGSTOP")]
    run.director._thaw(now + FREEZE_S)
    assert run.signals == [(3, "SIGSTOP"), (3, "SIGCONT")]
    assert run.refusals()["freeze", "SFO"] == ""


def test_a_cut_bridge_is_cut_for_those_that_return_too(run: Run):
    run.order("cut")
    assert [run.told[tag][-1] for tag in "AF"] == [{"do": "cut", "groups": "A,B,C|D,E,F"}] * 2
    assert ("cut", "") not in run.refusals()
    run.order("kill", "SFO")
    run.order("return", "SFO")
    run.director.on_ready(run["D#2"], {"event": "ready"})
    assert run.told["D#2"][0] == {"do": "cut", "groups": "A,B,C|D,E,F"}
    run.order("mend")
    assert run.told["D#2"][-1] == run.told["A"][-1] == {"do": "cut", "groups": ""}


def test_the_programme_is_played_in_its_order_and_only_once_at_a_time(run: Run, monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    monkeypatch.setattr(director_module.time, "monotonic", lambda: now[0])
    run.order("play")
    assert run.refusals()["play", ""] == "it is being played"
    for _ in range(60):
        run.director._obey()
        run.director._thaw(now[0])
        run.relays(*(run.director.group.up(site)[0].name for site in ("NYC", "SFO")))
        now[0] += 0.5
    assert [incident["what"] for incident in run.director.incidents] == ["killed", "killed", "frozen", "cut"]
    assert (run.director.is_cut, run.director.frozen, run.refusals()["play", ""]) == (False, {}, "")


def test_orders_that_wait_are_bounded(run: Run):
    assert [run.director.order("end", "") for _ in range(MOST_ORDERS + 1)] == [True] * MOST_ORDERS + [False]


# --- the server -------------------------------------------------------------------------------------------------------

class Page:
    """The page's server, asked without a socket."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view = WebView(0)
        self.run = Run(folder, monkeypatch, self.view)
        self.view.director = self.run.director
        self.view.show(self.run.director)
        self.token = self.view.url.partition("#")[2]

    def ask(self, method: str, target: str, body: object = None, **headers: str) -> HttpAnswer:
        given = {"host": "127.0.0.1:1", "authorization": f"Bearer {self.token}", **headers}
        try:
            self.view.answer(HttpRequest(method, target, given, json.dumps(body).encode())).send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(tmp_path, monkeypatch)


KILL = {"order": "kill", "site": "NYC"}


def test_an_order_of_the_page_reaches_the_director(page: Page):
    assert page.ask("POST", "/v1/orders", KILL, origin="http://127.0.0.1:1").status == 202
    page.run.director._obey()
    assert page.run["A"].state == "killed"


@pytest.mark.parametrize(("headers", "status"), [
    ({"authorization": ""}, 401), ({"authorization": "Bearer wrong"}, 401), ({"host": "evil.example"}, 421),
    ({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403)])
def test_nobody_else_gives_orders(page: Page, headers: dict[str, str], status: int):
    assert page.ask("POST", "/v1/orders", KILL, **headers).status == status
    page.run.director._obey()
    assert page.run["A"].state == "up"


@pytest.mark.parametrize("body", [None, [], "kill", {}, {"order": "kill"}, {"order": "kill", "site": "LON"},
                                  {"order": ["kill"], "site": "NYC"}, {"order": "_obey", "site": ""}])
def test_what_is_no_order_is_refused(page: Page, body: object):
    assert page.ask("POST", "/v1/orders", body).status == 400


def test_an_order_that_cannot_be_carried_out_is_refused_with_the_reason(page: Page):
    answer = page.ask("POST", "/v1/orders", {"order": "return", "site": "NYC"})
    assert (answer.status, answer.body) == (409, b"all members of NYC are there\n")


@pytest.mark.parametrize(("method", "target", "status"), [
    ("GET", "/v1/orders", 405), ("POST", "/", 405), ("POST", "/v1/live", 405), ("GET", "/etc/passwd", 404),
    ("GET", "/v1/live", 200), ("GET", "/", 200)])
def test_there_is_nothing_else(page: Page, method: str, target: str, status: int):
    assert page.ask(method, target, KILL).status == status


# --- pictures ---------------------------------------------------------------------------------------------------------

def test_a_picture_counts_what_receivers_miss_and_how_long_nothing_came_across(run: Run):
    run["B"].received = {"A": 5, "D": 7}
    run["B"].progress = {"at": 100.0, "heard": {"SFO": 99.0}, "missing": 2, "twice": 1, "pauses": {}, "held": {}}
    run["A"].progress = {"at": 100.0, "heard": {"SFO": 98.0}, "missing": 0, "twice": 0, "held": {"SFO": 40},
                         "pauses": {"SFO": [(run.director.started_s, 0.25)]}}
    picture = DemoPictures().take(run.director)
    nyc, sfo = picture.sites
    assert (picture.delivered, picture.lost, picture.twice) == (12, 2, 1)
    assert (nyc.silent_seconds, nyc.longest_seconds, sfo.silent_seconds) == (1.0, 0.25, 0.0)
    assert [(flow.src, flow.dest, flow.held) for flow in picture.flows] == [("NYC", "SFO", 40), ("SFO", "NYC", 0)]
    assert [member.name for member in nyc.members if member.relay] == ["A"]


def test_a_killed_member_and_its_next_incarnation_are_one_in_the_picture(run: Run):
    run.order("kill", "NYC")
    assert states(run) == {"A": "killed", "B": "alive", "C": "alive"}
    run.order("return", "NYC")
    assert states(run) == {"A": "starting", "B": "alive", "C": "alive"}
    run["A#2"].state = "up"
    assert states(run) == {"A": "alive", "B": "alive", "C": "alive"}


def states(run: Run) -> dict[str, str]:
    return {member.name: member.state for member in DemoPictures().take(run.director).sites[0].members}


def test_help_needs_nothing_but_the_standard_library():
    file = Path(options.__file__)
    shown = subprocess.run([sys.executable, "-I", "-S", str(file)], capture_output=True, text=True, check=True).stdout
    parser = ArgumentParser()
    options.add_options(parser, within)
    assert shown.startswith("usage: ./demo")
    assert [action.option_strings[-1] for action in parser._actions if action.option_strings[-1] not in shown] == []
