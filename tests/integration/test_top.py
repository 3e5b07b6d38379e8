"""`jgroups top` on a pseudo terminal over real members: what it shows, and that it leaves the terminal as it was."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.cli import main
from jgroups_py.cli.top.terminal import OTHER_SCREEN, OWN_SCREEN
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Group

pytestmark = pytest.mark.real
STACKS = Path(__file__).parents[2] / "stacks"
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
WAIT_SECONDS = 60.0
NAMES = {"A": "NYC", "B": "NYC", "D": "SFO", "E": "SFO"}


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[dict[str, Group]]:
    """NYC with A and B, SFO with D and E; all with a control socket."""
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}],127.0.0.1[{first + 1}]",
              "bridge_name": f"top-{first}", "verify_timeout": "4s"}       # so that a survey falls into a suspicion
    nyc, sfo = (Group(str(STACKS / f"{site}.xml"), site, **bridge) for site in ("nyc", "sfo"))
    with nyc, sfo:
        groups = {"NYC": nyc, "SFO": sfo}
        for name, site in NAMES.items():
            groups[site].spawn(name, ["--control", str(tmp_path / f"{name}.sock")]).ready()
        nyc.settle("AB")
        sfo.settle("DE")
        yield groups


class Terminal:
    """`jgroups top` on a pseudo terminal. screens: what it drew, one after the other, without sequences."""

    def __init__(self, columns: int, lines: int, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.settings = termios.tcgetattr(slave)
        self.slave = slave
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py", "top", *arguments], stdin=slave, stdout=slave, stderr=slave,
            env=environment, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.text = ""

    def read(self, seconds: float = 0.1) -> None:
        """Take what was drawn."""
        while select.select([self.master], [], [], seconds)[0]:
            self.text += os.read(self.master, 1 << 16).decode()
            seconds = 0.0

    @property
    def screens(self) -> list[list[str]]:
        """The lines of each screen that was drawn."""
        drawn = self.text.split("\x1b[H")[1:]
        return [SEQUENCE.sub("", each.split("\x1b[J")[0]).split("\r\n") for each in drawn]

    def until(self, holds: Callable[[list[str]], object], what: str) -> list[str]:
        """The first screen, the last one drawn at each moment, of which it holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            self.read()
            if "\x1b[J" in self.text and holds(self.screens[-1]):
                return self.screens[-1]
        raise AssertionError(f"{what}; drawn last:\n" + "\n".join(self.screens[-1] if self.screens else [self.text]))

    def ended(self) -> int:
        """The exit code; the terminal has to be as it was."""
        code = self.process.wait(WAIT_SECONDS)
        self.read(0.5)
        assert termios.tcgetattr(self.slave) == self.settings, "the terminal has other settings than before"
        assert self.text.count(OTHER_SCREEN) == 1
        assert self.text.endswith(OWN_SCREEN), "the other screen was left behind"
        return code

    def close(self) -> None:
        """End the process, if it runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def opened() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_(columns: int, lines: int, *arguments: str) -> Terminal:
        terminals.append(Terminal(columns, lines, *arguments))
        return terminals[-1]
    yield open_
    for terminal in terminals:
        terminal.close()


def rows(screen: list[str]) -> dict[str, dict[str, str]]:
    """Member -> its cells by column. The heads of texts stand at their left, those of numbers at their right."""
    at = next((at for at, line in enumerate(screen) if line.startswith("site")), None)
    if at is None:
        return {}
    heads = list(re.finditer(r"suspected by|\S+", screen[at]))
    found = {}
    for line in screen[at + 1:]:
        cells = line.split()
        if len(cells) > 2 and cells[0] in ("NYC", "SFO"):
            found[cells[1].partition("@")[0]] = {
                head[0]: re.split(" {2,}", (line[:head.end()] if head[0] in NUMBERS else line[head.start():]).strip())[
                    -1 if head[0] in NUMBERS else 0] for head in heads}
    return found


NUMBERS = ("sent", "recv", "sent/s", "recv/s", "outB/s", "inB/s", "held", "waitB", "backB")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (150, 40)])
def test_all_members_of_both_sites_are_shown_with_their_counts_and_a_stopped_one_is_named(
    sites: dict[str, Group], tmp_path: Path, opened: Callable[..., Terminal], columns: int, lines: int,
):
    terminal = opened(columns, lines, "--control", str(tmp_path / "B.sock"), "--interval", "0.5")
    terminal.until(lambda screen: set(rows(screen)) == set(NAMES)
                   and all(row["state"] == "alive" for row in rows(screen).values()), "all four answer")
    sites["NYC"]["A"].command("flood 50000 100")
    if columns > 80:
        terminal.until(lambda screen: rows(screen)["A"]["sent"] == "50.0k" and
                       all(row["recv"] == "50.0k" for row in rows(screen).values()), "all received what A sent")
    else:
        terminal.until(lambda screen: rows(screen)["A"]["sent/s"] not in ("0", "-"), "the rate of A")
    found = rows(terminal.screens[-1])
    assert (found["A"]["role"], found["B"]["role"]) == ("coord+relay", "-")
    os.kill(sites["SFO"]["E"].process.pid, signal.SIGSTOP)
    try:
        screen = terminal.until(lambda screen: rows(screen).get("E", {}).get("state") == "no answer", "E is named")
        assert "answered" in screen[0]
        suspected = terminal.until(lambda screen: rows(screen).get("E", {}).get("suspected by", "-") != "-",
                                   "E is suspected")
        assert rows(suspected)["E"]["suspected by"].startswith("D")
    finally:
        os.kill(sites["SFO"]["E"].process.pid, signal.SIGCONT)
    os.write(terminal.master, b"s")
    terminal.until(lambda screen: "by sent/s" in screen[0], "sorted by what is sent")
    os.write(terminal.master, b"p")
    terminal.until(lambda screen: "paused" in screen[0], "paused")
    for screen in terminal.screens:
        assert len(screen) <= lines, "the screen does not fit"
        assert max(map(len, screen)) <= columns, "a line does not fit"
    os.write(terminal.master, b"q")
    assert terminal.ended() == 0


@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"", 128 + signal.SIGTERM)], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_leaves_the_terminal_as_it_was(
    sites: dict[str, Group], tmp_path: Path, opened: Callable[..., Terminal], key: bytes, code: int,
):
    terminal = opened(80, 24, "--control", str(tmp_path / "A.sock"))
    terminal.until(rows, "a table")
    if key:
        os.write(terminal.master, key)
    else:
        terminal.process.terminate()
    assert terminal.ended() == code
    assert "Traceback" not in terminal.text


def test_while_the_asked_member_is_gone_the_last_table_stays_with_the_reason(
    sites: dict[str, Group], tmp_path: Path, opened: Callable[..., Terminal],
):
    terminal = opened(200, 24, "--control", str(tmp_path / "B.sock"), "--interval", "0.5")
    terminal.until(lambda screen: "A" in rows(screen), "a table")
    sites["NYC"]["B"].process.kill()
    screen = terminal.until(lambda screen: "B.sock" in screen[0], "the reason")
    assert "A" in rows(screen)
    os.write(terminal.master, b"q")
    assert terminal.ended() == 0


def test_without_a_member_there_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["top", "--once", "--control", str(tmp_path / "no.sock")]) == 2
    assert "no.sock" in capsys.readouterr().err


def test_one_document_has_the_sum_of_what_the_members_answer(
    sites: dict[str, Group], tmp_path: Path, capsys: pytest.CaptureFixture[str],
):
    sites["NYC"]["A"].command("flood 1000 100")
    deadline = time.monotonic() + WAIT_SECONDS
    found: dict[str, Any] = {"total": {"delivered": -1}}
    while found["total"]["delivered"] != 4000:
        assert time.monotonic() < deadline, f"not all messages arrive: {found}"
        assert main(["top", "--once", "--json", "--interval", "0.5", "--control", str(tmp_path / "D.sock")]) == 0
        found = json.loads(capsys.readouterr().out)
    assert main(["members", "--all", "--json", "--control", str(tmp_path / "A.sock")]) == 0
    own = json.loads(capsys.readouterr().out)["members"]
    assert {name: found["total"][name] for name in ("sent", "delivered", "sent_bytes", "delivered_bytes")} == {
        "sent": 1000, "delivered": 4000, "sent_bytes": 100_000, "delivered_bytes": 400_000}
    assert sum(member["sent"] for member in own) == 1000
    assert sum(member["delivered_bytes"] for member in own) == 400_000
