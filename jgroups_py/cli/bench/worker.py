"""One member of a benchmark, as a process: sends messages or requests on command, checks and times what it receives.

Reads commands and prints events, one JSON object per line (group.py is the other end). Times are CLOCK_MONOTONIC in ns,
which all processes of a machine share.
"""
from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from importlib import import_module
from time import monotonic_ns, process_time
from typing import Any

import jgroups_py as jg
from jgroups_py.blocks.rpc import AsyncRpc, Rpc
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.message import MessageBatch
from jgroups_py.cli.bench.requesters import Requesters, of_coroutines, of_threads
from jgroups_py.cli.load import Counts, InOrder
from jgroups_py.cli.member import rss_mb
from jgroups_py.cli.numbered import NUMBER, maker, numbered
from jgroups_py.cli.printer import Printer

SEND_SECONDS = 120.0
RETRANSMITTED = "retransmitted"


class BenchReceiver(jg.Receiver):
    """Counts messages per sender and checks their numbers; emits `received` once the expected number has arrived."""

    def __init__(self, worker: BenchWorker) -> None:
        self.worker = worker
        self.counts = Counts()
        self.received = 0
        self.expected = -1                                   # in all rounds up to this one; -1: none is under way

    def expect(self, messages: int) -> None:
        """A round begins: `messages` will arrive."""
        self.expected = self.received + messages

    def receive_batch(self, batch: MessageBatch) -> None:
        """Count a batch."""
        self.counts.add(batch)
        self.received += len(batch)
        if self.worker.slow_s:
            time.sleep(len(batch) * self.worker.slow_s)
        if self.received >= self.expected >= 0:
            self.expected = -1
            self.worker.emit("received", at_ns=monotonic_ns())

    def view_accepted(self, view: jg.View) -> None:
        """Emit the members."""
        self.worker.emit("view", members=[str(member) for member in view.members], at_ns=monotonic_ns())

    def global_view_accepted(self, view: jg.GlobalView) -> None:
        """Emit the number of members of all sites."""
        self.worker.emit("global_view", members=len(view.members))

    def messages_lost(self, loss: Any) -> None:
        """A declared loss is a fault of the benchmark."""
        self.worker.emit("error", message=f"messages {loss.first} to {loss.stop} of {loss.origin} were lost")

    def channel_closed(self, reason: str) -> None:
        """A closed channel is a fault of the benchmark."""
        self.worker.emit("error", message=f"the channel closed: {reason}")


class ReceivingSingly(BenchReceiver):
    """As BenchReceiver, with one call per message, as in an application without receive_batch.

    What a call costs here is measured as the group's. So it does what an application would do at least: read the number
    out of the message, look its sender up, compare. What does not fit is left to `counts`.
    """

    def __init__(self, worker: BenchWorker) -> None:
        super().__init__(worker)
        self.counts = InOrder()
        self._next = self.counts.next
        self._left = 0                                       # messages of this round that are still to come
        if worker.slow_s:
            self.receive = self._receive_slowly              # type: ignore[method-assign]

    def expect(self, messages: int) -> None:
        self._left = messages

    def receive(self, message: jg.Message) -> None:
        """Check one message."""
        sender: Any = message.src
        number, = NUMBER.unpack_from(message.payload)
        if self._next.get(sender) == number:
            self._next[sender] = number + 1
        else:
            self.counts.add_one(sender, message.payload)
        self._left -= 1
        if not self._left:
            self.worker.emit("received", at_ns=monotonic_ns())

    def _receive_slowly(self, message: jg.Message) -> None:
        time.sleep(self.worker.slow_s)
        ReceivingSingly.receive(self, message)

    receive_batch = jg.Receiver.receive_batch


class ReceivingSteadily(BenchReceiver):
    """As BenchReceiver; also measures the longest time between two deliveries. last_ns: of the last one, 0: none."""

    def __init__(self, worker: BenchWorker) -> None:
        super().__init__(worker)
        self.last_ns = self.longest_ns = 0

    def receive_batch(self, batch: MessageBatch) -> None:
        """Time a batch, and count it."""
        now_ns = monotonic_ns()
        if self.last_ns:
            self.longest_ns = max(self.longest_ns, now_ns - self.last_ns)
        self.last_ns = now_ns
        super().receive_batch(batch)


class BenchWorker:
    """The process. options: name, cluster, stack, properties, singly (one call per message), slow_us (per message)."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.slow_s = options.get("slow_us", 0.0) / 1e6
        self.emit = Printer()
        self.receiving = self.make_receiver()
        self.dripping = False
        self.sent = 0
        self.cpu_s = 0.0
        self.requesters: Requesters | None = None
        self.channel: Any = None
        self.make_channel()

    def make_receiver(self) -> BenchReceiver:
        """What is measured of deliveries, by the options."""
        if self.options.get("steady"):
            return ReceivingSteadily(self)
        return (ReceivingSingly if self.options.get("singly") else BenchReceiver)(self)

    def make_channel(self) -> None:
        """A JChannel with a service that answers with as many bytes as it gets."""
        options = self.options
        self.channel = jg.JChannel(options["stack"], options["name"], options["properties"], self.receiving)
        self.channel.send_timeout = SEND_SECONDS
        self.rpc = Rpc(self.channel, lambda request: request.payload)

    def run(self) -> None:
        """Execute commands until the end of input."""
        self.emit("loaded")
        for line in sys.stdin:
            command = json.loads(line)
            getattr(self, "do_" + command.pop("do"))(**command)
        self.close()

    def do_connect(self) -> None:
        """Join, and emit `ready`."""
        self.connect()
        self.emit("ready")

    def connect(self) -> None:
        """Join the group; returns once it has."""
        self.channel.connect(self.options["cluster"], timeout=60.0)

    def do_expect(self, messages: int) -> None:
        """Begin a round in which `messages` messages will arrive."""
        self.receiving.expect(messages)
        self.cpu_s = process_time()
        self.emit("armed")

    def do_send(self, count: int, size: int, piece: int) -> None:
        """Multicast numbered messages, `piece` at a time; 1: by `send`."""
        threading.Thread(target=self.send, args=(count, size, piece), name="send", daemon=True).start()

    def send(self, count: int, size: int, piece: int) -> None:
        """Multicast numbered messages."""
        channel, first = self.channel, self.sent
        self.sent += count
        at_ns = monotonic_ns()
        try:
            if piece == 1:
                send, make = channel.send, maker(size)
                for number in range(first, first + count):
                    send(None, make(number))
            else:
                for start in range(first, first + count, piece):
                    stop = min(start + piece, first + count)
                    channel.send_batch(None, numbered(start, stop, size))
        except jg.ChannelError as error:
            self.emit("error", message=f"{type(error).__name__}: {error}")
        self.emit("sent", at_ns=at_ns, done_ns=monotonic_ns())

    def do_drip(self, every_s: float, size: int) -> None:
        """Multicast a numbered message every `every_s` until `do_drip_end`."""
        self.dripping = True
        threading.Thread(target=self.drip, args=(every_s, size), name="drip", daemon=True).start()

    def drip(self, every_s: float, size: int) -> None:
        """Multicast numbered messages at a pace."""
        make = maker(size)
        while self.dripping:
            self.channel.send(None, make(self.sent))
            self.sent += 1
            time.sleep(every_s)
        self.emit("dripped", sent=self.sent)

    def do_drip_end(self) -> None:
        """End it."""
        self.dripping = False

    def do_gap(self) -> None:
        """Emit the longest time between two deliveries since the last of these commands."""
        receiving = self.receiving
        assert isinstance(receiving, ReceivingSteadily), "started with the option steady"
        self.emit("gap", longest_ns=receiving.longest_ns)
        receiving.longest_ns = 0

    def do_counters(self, names: list[str]) -> None:
        """Emit the sums of these counters over all layers, the bridge's included."""
        stats = self.stats()
        self.emit("counters", counters={name: sum(int(layer.get(name, 0)) for layer in stats.values())
                                        for name in names})

    def do_ask(self, requesters: int, size: int, seconds: float) -> None:
        """Send requests to the other members, `requesters` at a time."""
        self.cpu_s = process_time()
        self.requesters = of_threads(self.rpc, self.others(), requesters, size, seconds,
                                     lambda **fields: self.emit("asked", **fields))

    def others(self) -> list[jg.Address]:
        """The other members in the order of the view, from the next one on: the load of requests is even."""
        members = list(self.channel.view.members)
        at = members.index(self.channel.address)
        return members[at + 1:] + members[:at]

    def do_report(self) -> None:
        """Emit the CPU time since the round began, the memory now, and the counts of all rounds."""
        stats = self.stats()
        self.emit("report", cpu_s=process_time() - self.cpu_s, rss_mb=rss_mb(), sent=self.sent,
                 received=self.receiving.counts.as_dict(),
                 retransmitted=sum(int(figures.get(RETRANSMITTED, 0)) for figures in stats.values()))

    def stats(self) -> dict[str, dict[str, float]]:
        """The channel's counters."""
        return self.channel.stats()                          # type: ignore[no-any-return]

    def do_leave(self) -> None:
        """Leave gracefully."""
        self.close()
        self.emit("left", at_ns=monotonic_ns())

    def close(self) -> None:
        """Leave."""
        self.channel.close()


class AsyncWorker(BenchWorker):
    """As BenchWorker, on an AsyncChannel with an event loop of its own. options: event_loop, the package of that."""

    def make_channel(self) -> None:
        options = self.options
        self.events: asyncio.AbstractEventLoop = import_module(options["event_loop"]).new_event_loop()
        threading.Thread(target=self.events.run_forever, name="asyncio", daemon=True).start()
        self.channel = AsyncChannel(options["stack"], options["name"], options["properties"], self.receiving)
        self.channel.send_timeout = SEND_SECONDS
        self.async_rpc = AsyncRpc(self.channel, lambda request: request.payload)

    def connect(self) -> None:
        self.wait(self.channel.connect(self.options["cluster"], timeout=60.0))

    def do_send(self, count: int, size: int, piece: int) -> None:
        asyncio.run_coroutine_threadsafe(self.send_async(count, size, piece), self.events)

    async def send_async(self, count: int, size: int, piece: int) -> None:
        """As `send`."""
        channel, first = self.channel, self.sent
        self.sent += count
        at_ns = monotonic_ns()
        try:
            if piece == 1:
                send, make = channel.send, maker(size)
                for number in range(first, first + count):
                    await send(None, make(number))
            else:
                for start in range(first, first + count, piece):
                    await channel.send_batch(None, numbered(start, min(start + piece, first + count), size))
        except jg.ChannelError as error:
            self.emit("error", message=f"{type(error).__name__}: {error}")
        self.emit("sent", at_ns=at_ns, done_ns=monotonic_ns())

    def do_ask(self, requesters: int, size: int, seconds: float) -> None:
        self.cpu_s = process_time()
        asking = of_coroutines(self.async_rpc, self.others(), requesters, size, seconds)
        future = asyncio.run_coroutine_threadsafe(asking, self.events)
        future.add_done_callback(lambda done: self.emit("asked", **done.result()))

    def stats(self) -> dict[str, dict[str, float]]:
        return self.wait(self.channel.stats())               # type: ignore[no-any-return]

    def close(self) -> None:
        self.wait(self.channel.close())

    def wait(self, coroutine: Any) -> Any:
        """Run a coroutine on the event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.events).result()


def main() -> None:
    """Run the member that the first argument describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)             # a Ctrl-C is handled by the parent process
    options = json.loads(sys.argv[1])
    try:
        worker = AsyncWorker(options) if options.get("event_loop") else BenchWorker(options)
        worker.run()
    except (jg.ChannelError, jg.ConfigError) as error:
        Printer()("error", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
