"""One member process of a test under chaos: the public API only, and everything that happens goes to its history file.

A record is a line of JSON, [time, kind, ...], the time of the monotonic clock that all processes of a machine share.
Each line is one write to an open file, so a kill -9 loses none that was written; a send is recorded before it is
made, a delivery while its callback runs. Commands come from stdin, a JSON object a line; events go to stdout.
"""
from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import jgroups_py as jg
from jgroups_py.cli.printer import Printer
from jgroups_py.system.child_processes import end_with_parent
from tests.chaos import growth, payloads

TICK_S = 0.02                        # the sender wakes up so often and sends what is due
LATE_S = 0.5                         # later than this it counts as paused: the machine did not run it
LATE_COUNTS_S = 10.0                 # for so long after, a loop that does not answer is no error
UNKNOWN = -1
REPLY_EVERY = 7                      # so many-th messages of other sites are answered by a unicast
LOCAL_EVERY = 11                     # and after so many multicasts a local member gets a unicast
SIZES = (0, 100, 400, 1000)          # bytes, by turns
LARGE_EVERY, LARGE_BYTES = 400, 150_000      # one of so many goes in fragments
CONNECT_S = 60.0


class Recorder:
    """The history file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def write(self, kind: str, *fields: Any) -> None:
        """One record, with the time of now; times in a file never go back."""
        with self._lock:
            line = json.dumps([time.monotonic_ns(), kind, *fields], separators=(",", ":"))
            os.write(self._file, line.encode() + b"\n")


class Watcher(jg.Receiver):
    """Records what the channel delivers and reports; passes on what the sender has to answer."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.record = worker.record
        self.last: dict[str, int] = {}           # prefix -> the highest number delivered

    def receive_batch(self, batch: jg.MessageBatch) -> None:
        """A run."""
        src = batch.src
        relay = src.relay if isinstance(src, jg.ProxyUUID) else None
        runs = payloads.runs_of(batch.payloads)
        self.record.write("deliver", src.raw.hex(), batch.site, relay.raw.hex() if relay is not None else None,
                          batch.dest is not None, runs, int(batch.flags))
        for run in runs:
            if len(run) == 4:
                prefix, stop = str(run[0]), int(run[1]) + int(run[2])
                self.last[prefix] = max(self.last.get(prefix, -1), stop - 1)
                if batch.is_relayed and batch.dest is None:
                    for number in range(int(run[1]), stop):
                        if number % REPLY_EVERY == 0:
                            self.worker.errands.put(src)

    def view_accepted(self, view: jg.View) -> None:
        """A local view."""
        self.worker.begin()
        self.worker.view = view
        subgroups = view.subgroups if isinstance(view, jg.MergeView) else None
        missed = {member.raw.hex(): n for member, n in view.missed.items()} if isinstance(view, jg.MergeView) else {}
        self.record.write("view", *plain(view), None if subgroups is None else [plain(group) for group in subgroups],
                          missed)
        self.worker.report("view", members=plain(view)[1])

    def global_view_accepted(self, view: jg.GlobalView) -> None:
        """A view of all sites; the first one comes before the first local view."""
        self.worker.begin()
        sites = {site: [member.raw.hex() for member in members] for site, members in view.sites.items()}
        self.record.write("global", sites)
        self.worker.report("global_view", sites=sites)

    def site_status(self, site: str, status: str) -> None:
        """An opinion of another site."""
        self.record.write("site", site, status)

    def unreachable(self, dest: jg.Address) -> None:
        """A unicast is not known to have arrived."""
        self.record.write("unreachable", dest.raw.hex())

    def messages_lost(self, loss: Any) -> None:
        """A declared gap."""
        self.record.write("lost", loss.site, loss.origin.raw.hex(), loss.first, loss.stop)

    def channel_closed(self, reason: str) -> None:
        """The channel ended by itself."""
        self.record.write("closed", reason)
        self.worker.report("error", message=f"the channel closed: {reason}")


def plain(view: jg.View) -> tuple[str, list[str]]:
    """(id, members) in hex."""
    return view.id.raw.hex(), [member.raw.hex() for member in view.members]


class Worker:
    """The process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tag: str = options["tag"]
        self.site: str = options["site"]
        self.cluster: str = options["cluster"]
        self.rng = Random(f"{options['seed']}/{self.tag}")
        self.record = Recorder(options["history"])
        self.errands: queue.SimpleQueue[jg.Address] = queue.SimpleQueue()    # members to which a unicast is due
        self.view: jg.View | None = None
        self.begun = False
        self.late_s = -LATE_COUNTS_S             # when the machine last did not run the sender in time
        self.stacks = Path(options["history"]).with_suffix(".stacks")
        self.sent: dict[str, int] = {}           # prefix -> how many were sent
        self.rate = 0.0                          # multicasts a second
        self.ending = threading.Event()
        self.sending = threading.Lock()
        self.report = Printer()
        self.watcher = Watcher(self)
        self.channel = jg.JChannel(options["stack"], name=self.tag.partition("#")[0], properties=options["properties"])
        self.channel.receiver = self.watcher

    def begin(self) -> None:
        """Once, before anything else is recorded: name and address of this member."""
        if not self.begun:
            self.begun = True
            address = self.channel.address
            assert address is not None, "a channel that is in a view has an address"
            self.record.write("start", address.raw.hex(), self.tag, self.site)
            self.report("address", address=address.raw.hex())

    def run(self) -> None:
        """Connect, then carry out commands until the end of input."""
        self.channel.connect(self.cluster, timeout=CONNECT_S)
        self.report("ready")
        threading.Thread(target=self.send_on, daemon=True).start()
        for line in sys.stdin:
            command = json.loads(line)
            getattr(self, "do_" + command.pop("do"))(**command)
        self.do_leave()

    # --- commands ---------------------------------------------------------------------------------------------------

    def do_load(self, rate: float) -> None:
        """Multicast at this rate from now on; 0 ends it."""
        self.rate = rate

    def do_final(self, count: int, to: str) -> None:
        """Send the final messages: so many multicasts, and a unicast to a member by its address."""
        with self.sending:
            counts = [self.send(None, count)]
            if to:
                counts.append(self.send(self.known(to), 1))
        self.report("final", sent=dict(counts))

    def do_report(self) -> None:
        """How things stand."""
        stats = self.channel.stats() or self.channel.stats()          # a busy machine gets a second chance
        if not stats and time.monotonic() - self.late_s > LATE_COUNTS_S:
            with self.stacks.open("a") as file:
                faulthandler.dump_traceback(file)
            self.report("error", message=f"its loop does not answer; its threads stand in {self.stacks.name}")
        self.report("report", last=self.watcher.last, sent=self.sent, at=time.monotonic(),
                 kept_back=stats.get("channel", {}).get("kept_back_bytes", 0 if stats else UNKNOWN),
                 letters=stats.get("RELAY", {}).get("unicasts_waiting", 0),
                 rss_mb=growth.settled_mb(), descriptors=len(os.listdir("/proc/self/fd")))

    def do_leave(self) -> None:
        """Leave gracefully and end."""
        self.ending.set()
        with self.sending:
            self.record.write("leaving")
        self.channel.close()
        self.record.write("left")
        self.report("left")
        sys.exit(0)

    # --- sending ----------------------------------------------------------------------------------------------------

    def send_on(self) -> None:
        """The sender: what is due by its rate, and the errands. All sends of the load come from here, in order."""
        due, before = 0.0, time.monotonic()
        while not self.ending.wait(TICK_S):
            now = time.monotonic()
            if now - before > LATE_S:
                self.record.write("late", round(now - before, 1))
                self.late_s = now
            due, before = min(due + (now - before) * self.rate, self.rate), now
            with self.sending:
                while due >= 1 and not self.ending.is_set():
                    due -= 1
                    self.multicast()
                self.run_errands()

    def multicast(self) -> None:
        """One more of the load; now and then a unicast to a local member."""
        _, number = self.send(None, 1)
        if number % LOCAL_EVERY == 0 and self.view is not None:
            self.send(self.rng.choice(self.view.members), 1)

    def run_errands(self) -> None:
        """Answer messages of other sites."""
        for _ in range(self.errands.qsize()):
            self.send(self.errands.get(), 1)

    def send(self, dest: jg.Address | None, count: int) -> tuple[str, int]:
        """Record and send `count` messages; the prefix and how many of it were sent by now."""
        prefix = f"{self.tag}>{'*' if dest is None else dest.raw.hex()[:8]}/"
        first = self.sent.get(prefix, 0)
        self.sent[prefix] = first + count
        size = LARGE_BYTES if first % LARGE_EVERY == LARGE_EVERY - 1 else SIZES[first % len(SIZES)]
        view, to = self.view, None if dest is None else dest.raw.hex()
        assert view is not None, "a channel that is connected has a view"
        self.record.write("send", to, [[prefix, first, count, size]], 0, view.id.raw.hex())
        for number in range(first, first + count):
            try:
                self.channel.send(dest, payloads.make(prefix, number, size))
            except jg.ChannelError as error:              # nothing was sent
                self.record.write("unsent", [[prefix, number, 1, size]], str(error))
        return prefix, first + count

    def known(self, address: str) -> jg.Address:
        """The member of the view with this address."""
        assert self.view is not None, "a channel that is connected has a view"
        return next(member for member in self.view.members if member.raw.hex() == address)


def main() -> None:
    """Run the member that the first argument describes."""
    end_with_parent()
    faulthandler.enable()                # a process that aborts prints where
    options = json.loads(sys.argv[1])
    if options["trace"]:
        growth.trace(Path(options["trace"]))
    worker = Worker(options)
    try:
        worker.run()
    except (jg.ChannelError, jg.ConfigError) as error:
        worker.report("error", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
