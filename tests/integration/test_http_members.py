"""The endpoints of `jgroups member` processes: what listens, and what probes see of stopped members and partitions."""
from __future__ import annotations

import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from jgroups_py.config.load import stacks_folder
from tests.integration.members import Group
from tests.integration.serf_agent import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
LISTENING = "0A"                            # a state in /proc/net/tcp
PROBE_SECONDS = 0.1
UNANSWERED_SECONDS = 1.0
PARTITION_SECONDS = 60.0


def listeners(pid: int) -> set[tuple[str, int]]:
    """The addresses and ports at which a process listens by TCP, over IPv4 and IPv6."""
    inodes = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{number}")):
            inodes.add(found[1])
    places = set()
    for version, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{version}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and words[9] in inodes:
                host, port = words[1].split(":")
                raw = b"".join(struct.pack("=I", int(host[at:at + 8], 16)) for at in range(0, len(host), 8))
                places.add((socket.inet_ntop(family, raw), int(port, 16)))
    return places


def status(url: str, path: str, timeout: float = 30.0) -> int:
    """The status of an answer; 0: none came within `timeout` seconds."""
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_of_six_members_those_that_were_asked_to_listen_for_http_at_one_more_place_on_loopback():
    with Group("udp", "sockets") as group:
        for name in "ABC":
            group.spawn(name)
        asked = {name: group.spawn(name, ["--http", "0"]).ready()["http"] for name in "DEF"}
        group.settle("ABCDEF")
        found = {name: listeners(member.process.pid) for name, member in group.members.items()}
    usual = {len(found[name]) for name in "ABC"}             # FD_SOCK
    assert usual == {1}
    for name, url in asked.items():
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        assert place in found[name]
        assert len(found[name] - {place}) == 1
    assert not {port for places in found.values() for _, port in places} & {7580}, "the default is only for --http"


class Probe:
    """Asks a member for /livez all the time; with: until the end of it. answers: what came, 0: nothing in time."""

    def __init__(self, url: str) -> None:
        self.answers: list[int] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self.answers

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            self.answers.append(status(self._url, "/livez"))


def test_a_stopped_member_answers_no_probe_and_one_that_is_cut_off_lives_on():
    with Group("udp", "probed") as group:
        urls = {name: group.spawn(name, ["--http", "0"]).ready()["http"] for name in "ABC"}
        group.settle("ABC")
        until(lambda: status(urls["A"], "/readyz?members=3") == 200, "A is ready")
        with Probe(urls["A"]) as answers:
            for name in "BC":
                group[name].signal(signal.SIGSTOP)
            since = group["A"].mark()
            assert status(urls["B"], "/readyz", UNANSWERED_SECONDS) == 0
            assert status(urls["C"], "/livez", UNANSWERED_SECONDS) == 0
            group["A"].view_of("A", since)
            until(lambda: status(urls["A"], "/readyz?members=3") == 503, "A says what it lacks")
            assert status(urls["A"], "/readyz") == 200, "it is no fault of its own"
            alone = len(answers)
            time.sleep(2)
            since = group["A"].mark()
            for name in "BC":
                group[name].signal(signal.SIGCONT)
            group["A"].view_of("ABC", since)
            until(lambda: all(status(urls[name], "/readyz?members=3") == 200 for name in "ABC"), "all are ready again")
            assert [status(urls[name], "/livez") for name in "ABC"] == [200] * 3
        assert len(answers) > alone
        assert set(answers) == {200}


@pytest.mark.long
def test_every_member_lives_through_a_minute_of_partition_and_merges_then(tmp_path: Path):
    """/livez is 200 at both sides, all the time; so is /readyz, unless it is asked for members."""
    stack = tmp_path / "udp.xml"
    stack.write_text((stacks_folder() / "udp.xml").read_text().replace("<PING", "<PARTITION/>\n    <PING", 1))
    with Group(str(stack), "partitioned") as group, ExitStack() as probes:
        urls = {name: group.spawn(name, ["--http", "0"]).ready()["http"] for name in "ABC"}
        group.settle("ABC")
        answers = {name: probes.enter_context(Probe(url)) for name, url in urls.items()}
        since = {name: group[name].mark() for name in "ABC"}
        for name in "ABC":
            group[name].command("partition A|B,C")
        for name, others in (("A", "A"), ("B", "BC"), ("C", "BC")):
            group[name].view_of(others, since[name])
        until(lambda: status(urls["A"], "/readyz?members=2") == 503, "the endpoint has a picture of the new view")
        began, counts = time.monotonic(), {name: len(found) for name, found in answers.items()}
        while time.monotonic() - began < PARTITION_SECONDS:
            assert [status(urls[name], "/readyz") for name in "ABC"] == [200] * 3
            assert status(urls["A"], "/readyz?members=2") == 503
            time.sleep(1)
        for name, found in answers.items():
            assert len(found) - counts[name] > PARTITION_SECONDS, f"{name} was asked all the time"
        since = {name: group[name].mark() for name in "ABC"}
        for name in "ABC":
            group[name].command("heal")
        for name in "ABC":
            group[name].view_of("ABC", since[name])
        probes.close()
        assert {name: set(found) for name, found in answers.items()} == {name: {200} for name in "ABC"}
