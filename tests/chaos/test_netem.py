"""netem gets the right command, and where the kernel has none, the forwarder makes the weather."""
from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from tests.chaos import netem
from tests.chaos.forwarder import Weather
from tests.chaos.netns import WAN, Hosts

STORM = Weather(delay_ms=60, jitter_ms=40, loss=0.05, duplicate=0.1, reorder=0.2, corrupt=0.02)


class Tc:
    """In place of tc: keeps the commands, and answers as the test sets."""

    def __init__(self, code: int = 0, stderr: str = "") -> None:
        self.commands: list[list[str]] = []
        self.answer = SimpleNamespace(returncode=code, stderr=stderr)

    def __call__(self, words: list[str], **_: object) -> SimpleNamespace:
        self.commands.append(words)
        return self.answer


class Forwarder(SimpleNamespace):
    """In place of the forwarder's process: keeps the lines that it gets."""

    def __init__(self) -> None:
        super().__init__(stdin=io.StringIO())

    def lines_sent(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stdin.getvalue().splitlines()]


@pytest.fixture
def tc(monkeypatch: pytest.MonkeyPatch) -> Tc:
    fake = Tc()
    monkeypatch.setattr(netem.subprocess, "run", fake)
    return fake


def hosts_with(forwarder: Forwarder, *, kernel: bool) -> Hosts:
    hosts = Hosts()
    hosts._forwarder, hosts.netem = forwarder, kernel                # type: ignore[assignment]
    return hosts


def test_every_part_of_the_weather_is_passed_to_tc():
    assert " ".join(netem.command("ns", "wan", STORM)) == (
        "tc -n ns qdisc replace dev wan root netem delay 60ms 40ms loss 5.0% duplicate 10.0% corrupt 2.0% "
        "reorder 20.0%")


def test_reordering_without_a_delay_is_not_passed_to_tc():
    assert "reorder" not in netem.command("ns", "wan", Weather(reorder=0.2))


def test_a_kernel_without_netem_is_no_error_and_words_unknown_to_tc_are(tc: Tc):
    assert netem.set_weather("ns", "wan", STORM)
    for unknown in ("Error: Specified qdisc kind is unknown.\n", "RTNETLINK answers: No such file or directory\n"):
        tc.answer = SimpleNamespace(returncode=2, stderr=unknown)
        assert not netem.set_weather("ns", "wan", STORM)
    for code, stderr in ((1, 'Illegal "latency"'), (2, "Cannot find device")):
        tc.answer = SimpleNamespace(returncode=code, stderr=stderr)
        with pytest.raises(RuntimeError, match=stderr):
            netem.set_weather("ns", "wan", STORM)


def test_with_netem_the_kernel_makes_the_weather_between_the_sites_in_both_directions(tc: Tc):
    forwarder = Forwarder()
    hosts = hosts_with(forwarder, kernel=True)
    hosts.weather(WAN, STORM)
    assert tc.commands == [netem.command(hosts.namespace(site), WAN, STORM) for site in ("NYC", "SFO")]
    assert forwarder.lines_sent() == []


def test_with_netem_the_forwarder_still_makes_the_weather_of_far_members(tc: Tc):
    forwarder = Forwarder()
    hosts_with(forwarder, kernel=True).weather("C", STORM)
    assert tc.commands == []
    assert [(line["pair"], line["weather"]["loss"]) for line in forwarder.lines_sent()] == [("C", 0.05)]    # type: ignore[index]


def test_without_netem_the_forwarder_makes_all_weather(tc: Tc):
    forwarder = Forwarder()
    hosts_with(forwarder, kernel=False).weather(WAN, STORM)
    assert tc.commands == []
    assert [line["pair"] for line in forwarder.lines_sent()] == [WAN]


@pytest.mark.skipif(shutil.which("tc") is None or os.geteuid() != 0, reason="needs tc and root")
@pytest.mark.parametrize("weather", [Weather(), STORM, Weather(loss=1.0), Weather(delay_ms=0.5, reorder=0.25)])
def test_tc_understands_the_words_whether_or_not_the_kernel_has_netem(weather: Weather):
    words = [word for word in netem.command("", "lo", weather) if word not in ("-n", "")]
    words[words.index("replace")] = "change"             # of what loopback does not have, so nothing comes of it
    commands = subprocess.run(words, capture_output=True, text=True, timeout=netem.TIMEOUT_S)
    assert commands.returncode == netem.REFUSED, commands.stderr
