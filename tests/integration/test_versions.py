"""Members of an earlier commit beside members of this one, in one group and across sites: what a rolling upgrade needs.

The earlier commit is pinned (tests/integration/pinned.py); design/wire.md has the rule for moving it.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import sleep

import pytest

from jgroups_py.cli import main
from jgroups_py.system.free_ports import free_range
from jgroups_py.wire import frame
from tests.integration import pinned
from tests.integration.members import STARTING_SECONDS, Group, Member

pytestmark = [pytest.mark.real, pytest.mark.slow]

MESSAGES, SIZE, RATE = 6000, 100, 1000
UNDER_WAY_SECONDS = 1.0
ALL_THERE_SECONDS = 120.0
REFUSED = ("foreign_version_dropped", "unknown_header_dropped", "malformed_dropped")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the pinned commit; a process that is started with them runs nothing else."""
    folder = pinned.fetch(tmp_path_factory.mktemp("earlier"))
    found = subprocess.run([sys.executable, "-c", "import jgroups_py; print(jgroups_py.__file__)"], cwd=folder,
                           env={**os.environ, "PYTHONPATH": str(folder)}, stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    assert Path(found.strip()).is_relative_to(folder)
    return folder


def whole(count: int) -> dict[str, int]:
    """The figures of a member that received a flood once, in order and to the end."""
    return {"count": count, "next": count, "duplicates": 0, "out_of_order": 0}


def got_all(members: Iterable[Member], senders: Iterable[str]) -> None:
    """Each of `members` got everything of `senders`, once."""
    senders = list(senders)
    for member in members:
        stats = member.received_all(dict.fromkeys(senders, MESSAGES), ALL_THERE_SECONDS)
        for name in senders:
            assert stats["received"][name] == whole(MESSAGES), f"{name} at {member.name}\n{member.report()}"


def wait_for_message(members: Iterable[Member], text: str, unicast: bool = False) -> None:
    for member in members:
        member.wait(lambda event: (event.get("payload"), event.get("unicast")) == (text, unicast), f"message {text!r}")


def understood_all(members: Iterable[Member]) -> None:
    """No member dropped a frame because it was of the other commit, or declared a message lost."""
    for member in members:
        for protocol, counters in member.stats()["protocols"].items():
            assert not [name for name in REFUSED if counters.get(name)], f"{protocol} of {member.name}: {counters}"
        assert not [event for event in member.events if event["event"] in ("lost", "unreachable")], member.report()


def test_the_pinned_commit_has_this_version_of_the_wire_format(earlier: Path):
    for path in ("jgroups_py/wire/frame.py", "jgroups_py/wire.py"):
        if (earlier / path).exists():
            assert f"\nVERSION = {frame.VERSION}\n" in (earlier / path).read_text()
            return
    raise AssertionError("the pinned commit has its wire format elsewhere")


def test_a_shallow_clone_gets_an_error_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clone = tmp_path / "clone"
    made = subprocess.run(["git", "clone", "-q", "--depth", "1", pinned.ROOT.as_uri(), str(clone)],
                          capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    monkeypatch.setattr(pinned, "ROOT", clone)
    with pytest.raises(pytest.fail.Exception, match=r"shallow; run: git fetch --unshallow"):
        pinned.fetch(tmp_path)


@pytest.mark.parametrize(("stack", "founder"), [
    ("udp", "this"), ("tcp", "earlier"),
    pytest.param("udp", "earlier", marks=pytest.mark.long), pytest.param("tcp", "this", marks=pytest.mark.long)])
def test_members_of_both_commits_are_one_group(stack: str, founder: str, earlier: Path):
    """A, C and E run one commit, B, D and F the other. F joins, C leaves and A is killed, each under load."""
    odd, even = (earlier, None) if founder == "earlier" else (None, earlier)
    with Group(stack, "versions") as group:
        for name in "ABCD":
            group.spawn(name, sources=odd if name in "AC" else even).ready()
        group.settle("ABCD", STARTING_SECONDS)
        for name in "BCD":
            group[name].command(f"flood {MESSAGES} {SIZE} {RATE}")
        sleep(UNDER_WAY_SECONDS)
        group.spawn("F", sources=even).ready()
        group.settle("ABCDF")
        got_all([group[name] for name in "ABCD"], "BCD")
        for name in "BD":
            group[name].command("sendto C to C alone")
        wait_for_message([group["C"]], "to C alone", unicast=True)

        marks = {name: group[name].mark() for name in "ABDF"}
        group["F"].command(f"flood {MESSAGES} {SIZE} {RATE}")
        sleep(UNDER_WAY_SECONDS)
        assert group["C"].leave() == 0
        for name in "ABDF":
            group[name].view_of("ABDF", marks[name])
        marks = {name: group[name].mark() for name in "BDF"}
        group["A"].kill()                                    # the coordinator, so one of the other commit takes over
        for name in "BDF":
            group[name].view_of("BDF", marks[name])
        got_all([group[name] for name in "BDF"], "F")
        group.spawn("E", sources=odd).ready()
        group.settle("BDEF")
        group["E"].command("send the last word")
        wait_for_message([group[name] for name in "BDEF"], "the last word")
        understood_all([group[name] for name in "BDEF"])


def test_members_of_both_commits_answer_for_all(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
):
    """Whichever is asked. One without a control socket and an endpoint would be `silent`: every `jgroups member` has
    its survey since before the pinned commit."""
    with Group("udp", "surveyed") as group:
        for name, sources in (("A", earlier), ("B", None), ("C", earlier), ("D", None)):
            group.spawn(name, ["--control", str(tmp_path / name)], sources=sources).ready()
        group.settle("ABCD", STARTING_SECONDS)
        for asked in "AB":
            assert main(["members", "--all", "--json", "--control", str(tmp_path / asked)]) == 0
            found = json.loads(capsys.readouterr().out)
            assert {member["name"]: member["state"] for member in found["members"]} == dict.fromkeys("ABCD", "alive")
            assert len({member["view"] for member in found["members"]}) == 1
        group["B"].signal(signal.SIGSTOP)
        try:
            sleep(UNDER_WAY_SECONDS)
            assert main(["members", "--all", "--json", "--control", str(tmp_path / "C")]) == 0
        finally:
            group["B"].signal(signal.SIGCONT)
        states = {member["name"]: member["state"] for member in json.loads(capsys.readouterr().out)["members"]}
        assert states == {"A": "alive", "B": "no answer", "C": "alive", "D": "alive"}
        understood_all(list(group.members.values()))


@pytest.mark.parametrize("first_relay", ["earlier", pytest.param("this", marks=pytest.mark.long)])
def test_relays_of_both_commits_serve_two_sites_and_take_over_from_each_other(first_relay: str, earlier: Path):
    """Each site has a relay of one commit and a backup of the other, and the sites begin with different ones."""
    port = free_range(20)
    bridge = {"bridge_port": port, "bridge_hosts": f"127.0.0.1[{port}]", "bridge_port_range": 19}
    odd, even = (earlier, None) if first_relay == "earlier" else (None, earlier)
    with Group("nyc", "nyc", **bridge) as nyc, Group("sfo", "sfo", **bridge) as sfo:
        for group, names, old in ((nyc, "ABC", odd), (sfo, "DEF", even)):
            other = even if old is odd else odd
            for at, name in enumerate(names):
                group.spawn(name, sources=(old, other, old)[at]).ready()
            group.settle(names, STARTING_SECONDS)
        for member in (*nyc.members.values(), *sfo.members.values()):
            member.wait(lambda event: event["event"] == "global_view" and
                        {site: len(names) for site, names in event["sites"].items()} == {"NYC": 3, "SFO": 3},
                        "global view of both sites")
        assert [nyc["B"].last_view()[0], sfo["E"].last_view()[0]] == ["A", "D"], "A and D are the relays"
        for name, group in (("B", nyc), ("C", nyc), ("E", sfo), ("F", sfo)):
            group[name].command(f"flood {MESSAGES} {SIZE} {RATE}")
        sleep(UNDER_WAY_SECONDS)
        nyc["A"].kill()
        for name in "BC":
            nyc[name].view_of("BC")
        sleep(UNDER_WAY_SECONDS)
        sfo["D"].kill()
        for name in "EF":
            sfo[name].view_of("EF")
        left = [nyc["B"], nyc["C"], sfo["E"], sfo["F"]]
        got_all(left, "BCEF")
        nyc["C"].command("sendto F@SFO across")
        wait_for_message([sfo["F"]], "across", unicast=True)
        understood_all(left)

        mark = sfo["F"].mark()
        assert nyc["B"].leave() == 0                         # a planned change: C, of the other commit, is relay now
        nyc["C"].view_of("C")
        nyc["C"].command("send after the leave")
        sfo["F"].wait(lambda event: event.get("payload") == "after the leave", "message over the new relay", mark)
        understood_all([nyc["C"], sfo["E"], sfo["F"]])
