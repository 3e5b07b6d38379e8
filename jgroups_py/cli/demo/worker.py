"""One member of the demo, as a process: sends what it is told, counts what it receives, writes its copy of the file.

Reads commands and prints events, one JSON object a line (`director` is the other end). A message is
kind "|" tag "|" number "|" text; the tag names the incarnation that sent it ("A", later "A#2").
"""
from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jgroups_py as jg
from jgroups_py.cli.demo.tally import Gaps, Tally
from jgroups_py.cli.printer import Printer
from jgroups_py.cli.stackfile import recorded

TICK_S = 0.01                # senders wake up this often and send what is due
PROGRESS_S = 0.2
ANSWER_EVERY = 50            # one of so many lines is answered by a unicast


class Counter(jg.Receiver):
    """Counts every message, per origin; keeps the lines of the file; answers some of them if asked to."""

    def __init__(self, worker: Worker, answers: bool) -> None:
        self.worker, self.answers = worker, answers
        self.tallies: dict[str, Tally] = {}
        self.unicasts = Tally()
        self.gaps = Gaps()
        self.foreign = 0                      # messages whose sender is not whom their tag names
        self.answered = 0
        self.copy = bytearray()

    def receive(self, message: jg.Message) -> None:
        """Count one message."""
        kind, tag, number, text = message.payload.split(b"|", 3)
        name = tag.decode()
        assert message.src is not None, "a received message has a sender"
        if message.src.name != name.partition("#")[0]:
            self.foreign += 1
        if kind == b"U":
            self.unicasts.add(int(number))
            return
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = Tally()
        tally.add(int(number))
        if kind == b"L":
            self.copy += text
            self.gaps.delivered(time.time())
            if self.answers and int(number) % ANSWER_EVERY == 0:
                self.answer(message)

    def answer(self, message: jg.Message) -> None:
        """A unicast back to the origin, wherever it is."""
        self.worker.channel.send(message.src, b"U|%s|%d|" % (self.worker.tag.encode(), self.answered))
        self.answered += 1

    def view_accepted(self, view: jg.View) -> None:
        """A new local view."""
        self.worker.say("view", id=str(view.id), coordinator=view.coordinator.name,
                        members=[member.name for member in view.members], at=time.time())

    def site_status(self, site: str, status: str) -> None:
        """Another site came or went."""
        self.worker.say("site", site=site, status=status, at=time.time())

    def unreachable(self, dest: jg.Address) -> None:
        """An answer is not known to have arrived."""
        self.worker.say("unreachable", dest=dest.name)

    def messages_lost(self, loss: Any) -> None:
        """A declared gap."""
        self.worker.say("lost", site=loss.site, origin=loss.origin.name, first=loss.first, stop=loss.stop)

    def report(self) -> dict[str, Any]:
        """All counts."""
        return {"received": {tag: tally.as_dict() for tag, tally in self.tallies.items()},
                "unicasts": self.unicasts.as_dict(), "answered": self.answered, "foreign": self.foreign,
                "gaps": self.gaps.pauses, "copied": len(self.copy)}


class Worker:
    """The process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.tag: str = options["tag"]
        self.sent = 0
        self.stopping = threading.Event()
        self.sender: threading.Thread | None = None
        self.say = Printer()
        self.receiver = Counter(self, options["answers"])
        stack = recorded(options["stack"], options["properties"], options["archive"])
        self.channel = jg.JChannel(stack, name=options["name"])
        self.channel.receiver = self.receiver

    def run(self) -> None:
        """Connect, then do as told until the end of input."""
        self.channel.connect(self.options["cluster"], timeout=30.0)
        self.say("ready", name=self.channel.name, at=time.time())
        threading.Thread(target=self.tell_progress, daemon=True).start()
        for line in sys.stdin:
            command = json.loads(line)
            getattr(self, "do_" + command.pop("do"))(**command)
        self.do_leave()

    def tell_progress(self) -> None:
        """Counts and the global view, a few times a second."""
        shown = None
        while not self.stopping.wait(PROGRESS_S):
            view = self.channel.global_view
            sites = {site: [member.name for member in members] for site, members in view.sites.items()} if view else {}
            if sites != shown:
                shown = sites
                self.say("global_view", sites=sites)
            self.say("progress", sent=self.sent,
                     received={tag: tally.received for tag, tally in list(self.receiver.tallies.items())})

    # --- commands ---------------------------------------------------------------------------------------------------

    def do_lines(self, path: str, rate: float) -> None:
        """Multicast the lines of a file."""
        lines = Path(path).read_bytes().splitlines(keepends=True)
        self.start_sending(b"L", rate, lines)

    def do_numbers(self, rate: float) -> None:
        """Multicast numbers until stopped."""
        self.start_sending(b"N", rate, None)

    def do_stop(self) -> None:
        """Send no more."""
        self.stopping_sender()
        self.say("stopped", sent=self.sent)

    def do_report(self, copy: str) -> None:
        """Write the copy of the file, tell all counts."""
        Path(copy).write_bytes(self.receiver.copy)
        self.say("report", **self.receiver.report())

    def do_leave(self) -> None:
        """Leave gracefully and end."""
        self.stopping_sender()
        self.say("leaving", sent=self.sent, at=time.time())
        self.stopping.set()
        self.channel.close()
        self.say("left", at=time.time())
        sys.exit(0)

    # --- sending ----------------------------------------------------------------------------------------------------

    def start_sending(self, kind: bytes, rate: float, lines: list[bytes] | None) -> None:
        """A paced sender on a thread of its own."""
        self.pace_stop = threading.Event()
        self.sender = threading.Thread(target=self.send_paced, args=(kind, rate, lines), daemon=True)
        self.sender.start()

    def send_paced(self, kind: bytes, rate: float, lines: list[bytes] | None) -> None:
        """`rate` messages a second: each tick sends what is due by now."""
        started = time.monotonic()
        prefix = kind + b"|" + self.tag.encode() + b"|"
        while not self.pace_stop.is_set():
            due = int((time.monotonic() - started) * rate)
            while self.sent < due and not self.pace_stop.is_set():
                if lines is not None and self.sent == len(lines):
                    return self.say("sent_all", sent=self.sent)
                text = b"" if lines is None else lines[self.sent]
                self.channel.send(None, prefix + str(self.sent).encode() + b"|" + text)
                self.sent += 1
            self.pace_stop.wait(TICK_S)
        return None

    def stopping_sender(self) -> None:
        """Stop the sender and wait for it."""
        if self.sender is not None:
            self.pace_stop.set()
            self.sender.join()


def main() -> None:
    """Run the member that the first argument describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)          # Ctrl-C is the director's; it ends us
    worker = Worker(json.loads(sys.argv[1]))
    try:
        worker.run()
    except (jg.ChannelError, jg.ConfigError) as error:
        worker.say("error", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
