"""One member of the demo, as a process: sends on command, counts what it receives, writes its copy of the file.

Reads commands and prints events, one JSON object per line (`director` is the other end). A message is
kind "|" tag "|" number "|" text; the tag names the incarnation that sent it ("A", later "A#2").
"""
from __future__ import annotations

import json
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import jgroups_py as jg
from jgroups_py.cli.demo.tally import DeliveryPauses, DemoTally
from jgroups_py.cli.printer import Printer
from jgroups_py.cli.stack_file import recorded
from jgroups_py.model.events import SetPartition
from jgroups_py.model.ports import SiteReporter
from jgroups_py.node.node import Node
from jgroups_py.ops.watch import ask_node
from jgroups_py.protocols.faults.partition import Groups, groups_of

TICK_S = 0.01                # senders wake up this often and send what is due
PROGRESS_S = 0.2
LIVE_PROGRESS_S = 0.1        # with the option `live`
CUT_S = 0.05                 # so soon a bridge that is opened is cut, if it shall be
ANSWER_EVERY = 50            # one line in so many is answered by a unicast


class DeliveryCounter(jg.Receiver):
    """Counts messages per origin, keeps the lines of the file, and with `answers` answers some of them."""

    def __init__(self, worker: DemoWorker, answers: bool) -> None:
        self.worker, self.answers = worker, answers
        self.tallies: dict[str, DemoTally] = {}
        self.unicasts = DemoTally()
        self.gaps = DeliveryPauses()
        self.foreign = 0                      # messages from another sender than their tag names
        self.answered = 0
        self.copy = bytearray()
        self.from_sites: dict[str, DeliveryPauses] = {}      # other site -> pauses of what came from there

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
            tally = self.tallies[name] = DemoTally()
        tally.add(int(number))
        if message.site is not None:
            self.from_site(message.site)
        if kind == b"L":
            self.copy += text
            self.gaps.delivered(time.time())
            if self.answers and int(number) % ANSWER_EVERY == 0:
                self.answer(message)

    def from_site(self, site: str) -> None:
        """Note when a message came from another site."""
        pauses = self.from_sites.get(site)
        if pauses is None:
            pauses = self.from_sites[site] = DeliveryPauses()
        pauses.delivered(time.time())

    def answer(self, message: jg.Message) -> None:
        """Send a unicast back to the origin, which may be at another site."""
        self.worker.channel.send(message.src, b"U|%s|%d|" % (self.worker.tag.encode(), self.answered))
        self.answered += 1

    def view_accepted(self, view: jg.View) -> None:
        """Emit the local view."""
        self.worker.emit("view", id=str(view.id), coordinator=view.coordinator.name,
                        members=[member.name for member in view.members], at=time.time())

    def site_status(self, site: str, status: str) -> None:
        """Emit the status of another site."""
        self.worker.emit("site", site=site, status=status, at=time.time())

    def unreachable(self, dest: jg.Address) -> None:
        """Emit that an answer may be lost."""
        self.worker.emit("unreachable", dest=dest.name)

    def messages_lost(self, loss: Any) -> None:
        """Emit a declared loss."""
        self.worker.emit("lost", site=loss.site, origin=loss.origin.name, first=loss.first, stop=loss.stop)

    def report(self) -> dict[str, Any]:
        """All counts."""
        return {"received": {tag: tally.as_dict() for tag, tally in self.tallies.items()},
                "unicasts": self.unicasts.as_dict(), "answered": self.answered, "foreign": self.foreign,
                "gaps": self.gaps.pauses, "copied": len(self.copy)}


class DemoWorker:
    """The process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.tag: str = options["tag"]
        self.sent = 0
        self.stopping = threading.Event()
        self.sender: threading.Thread | None = None
        self.cutter: threading.Thread | None = None
        self.cut: Groups = ()
        self.emit = Printer()
        self.receiver = DeliveryCounter(self, options["answers"])
        stack = recorded(options["stack"], options["properties"], options["archive"],
                         options["archive_keyring"])
        self.channel = jg.JChannel(stack, name=options["name"])
        self.channel.receiver = self.receiver

    def run(self) -> None:
        """Connect, then execute commands until the end of input."""
        self.channel.connect(self.options["cluster"], timeout=30.0)
        self.emit("ready", name=self.channel.name, at=time.time())
        threading.Thread(target=self.report_progress, daemon=True).start()
        for line in sys.stdin:
            command = json.loads(line)
            getattr(self, "do_" + command.pop("do"))(**command)
        self.do_leave()

    def report_progress(self) -> None:
        """Emit counts and the global view, a few times a second."""
        shown = None
        while not self.stopping.wait(LIVE_PROGRESS_S if self.options["live"] else PROGRESS_S):
            view = self.channel.global_view
            sites = {site: [member.name for member in members] for site, members in view.sites.items()} if view else {}
            if sites != shown:
                shown = sites
                self.emit("global_view", sites=sites)
            self.emit("progress", sent=self.sent, at=time.time(),
                      received={tag: tally.received for tag, tally in list(self.receiver.tallies.items())},
                      **(self.live_facts() if self.options["live"] else {}))

    def live_facts(self) -> dict[str, Any]:
        """What the live page shows besides: numbers that are missing or came twice, when something came from other
        sites, and what is held back for them."""
        tallies = list(self.receiver.tallies.values())
        from_sites = list(self.receiver.from_sites.items())
        try:
            held = ask_node(self.channel, held_by_site)
        except jg.ChannelError:                              # it is leaving
            held = {}
        return {"missing": sum(len(tally.holes) for tally in tallies),
                "twice": sum(tally.duplicated for tally in tallies), "held": held,
                "heard": {site: pauses.last_s for site, pauses in from_sites},
                "pauses": {site: pauses.pauses[-1:] for site, pauses in from_sites}}

    # --- commands ---------------------------------------------------------------------------------------------------

    def do_lines(self, path: str, rate: float) -> None:
        """Multicast the lines of a file."""
        lines = Path(path).read_bytes().splitlines(keepends=True)
        self.start_sending(b"L", rate, lines)

    def do_numbers(self, rate: float) -> None:
        """Multicast numbers until `stop`."""
        self.start_sending(b"N", rate, None)

    def do_stop(self) -> None:
        """Stop sending."""
        self.stop_sender()
        self.emit("stopped", sent=self.sent)

    def do_report(self, copy: str) -> None:
        """Write the copy of the file, emit all counts."""
        Path(copy).write_bytes(self.receiver.copy)
        self.emit("report", **self.receiver.report())

    def do_leave(self) -> None:
        """Leave gracefully and end."""
        self.stop_sender()
        self.emit("leaving", sent=self.sent, at=time.time())
        self.stopping.set()
        self.channel.close()
        self.emit("left", at=time.time())
        sys.exit(0)

    def do_cut(self, groups: str) -> None:
        """Cut the bridge into groups of members as PARTITION takes them, "" to mend it, now and later."""
        self.cut = groups_of(groups)
        if self.cutter is None:
            self.cutter = threading.Thread(target=self.keep_cut, daemon=True)
            self.cutter.start()

    def keep_cut(self) -> None:
        """Set the groups at each bridge that this member opens."""
        done: tuple[int, Groups] | None = None
        while not self.stopping.wait(CUT_S):
            try:
                done = ask_node(self.channel, partial(with_cut, groups=self.cut, done=done))
            except jg.ChannelError:                          # it is leaving
                return

    # --- sending ----------------------------------------------------------------------------------------------------

    def start_sending(self, kind: bytes, rate: float, lines: list[bytes] | None) -> None:
        """Start a paced sender on a thread of its own."""
        self.pace_stop = threading.Event()
        self.sender = threading.Thread(target=self.send_paced, args=(kind, rate, lines), daemon=True)
        self.sender.start()

    def send_paced(self, kind: bytes, rate: float, lines: list[bytes] | None) -> None:
        """Send `rate` messages a second: each tick sends what is due by now."""
        started = time.monotonic()
        prefix = kind + b"|" + self.tag.encode() + b"|"
        while not self.pace_stop.is_set():
            due = int((time.monotonic() - started) * rate)
            while self.sent < due and not self.pace_stop.is_set():
                if lines is not None and self.sent == len(lines):
                    return self.emit("sent_all", sent=self.sent)
                text = b"" if lines is None else lines[self.sent]
                self.channel.send(None, prefix + str(self.sent).encode() + b"|" + text)
                self.sent += 1
            self.pace_stop.wait(TICK_S)
        return None

    def stop_sender(self) -> None:
        """Stop the sender and wait for its thread."""
        if self.sender is not None:
            self.pace_stop.set()
            self.sender.join()


def held_by_site(node: Node, now_ns: int) -> dict[str, int]:
    """On the loop: messages held for each other site."""
    reporter: SiteReporter = node.local.find(SiteReporter)
    return {site: figures["held"] for site, figures in reporter.site_report()["sites"].items()}


def with_cut(node: Node, now_ns: int, groups: Groups, done: tuple[int, Groups] | None) -> tuple[int, Groups] | None:
    """On the loop: set the groups of the bridge, unless that is done. Returns the bridge's number and its groups."""
    wanted = node.bridge_number, groups
    if node.bridge is None or wanted == done:
        return done
    node.bridge.inject(SetPartition(groups), now_ns)
    return wanted


def main() -> None:
    """Run the member that the first argument describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)          # a Ctrl-C is handled by the parent process
    worker = DemoWorker(json.loads(sys.argv[1]))
    try:
        worker.run()
    except (jg.ChannelError, jg.ConfigError) as error:
        worker.emit("error", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
