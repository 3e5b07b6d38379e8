"""One member of ours as a process: `python -m benchmarks.versus_jgroups.peer KIND STACK CLUSTER NAME PIECE [K=V]...`.

The counterpart of java/Driver.java: same commands, same events, same messages, so that one and the same program
measures both. KIND: whether requests are made by threads over a JChannel ("threads") or by coroutines over an
AsyncChannel ("asyncio", "uvloop"), both with blocks/rpc. PIECE: how many messages a flood hands to the channel at once.
Times are of the monotonic clock.

    command                                         events
    (start)                                         ready pid ns; then view members ns, at every view
    count TRIAL STREAMS EACH GAPS SINGLY            counting, then counted once STREAMS x EACH messages are here;
                                                    SINGLY 1: by a receiver that gets them one by one
    flood TRIAL EACH SIZE RATE THREADS [SINGLY]     flooded start_ns end_ns; EACH messages a thread, RATE 0: at will;
                                                    SINGLY 1: by `send` one by one
    request TRIAL THREADS SECONDS SIZE OOB TARGET   requested requests timeouts start_ns end_ns p50_ns p99_ns;
                                                    TARGET: a place in the view, or "others" in turn
    tally                                           tally, with the fields of counted: messages distinct duplicates
                                                    out_of_order strays done_ns last_ns gap_ns
    leave, end of input                             the process ends
"""
from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from time import monotonic_ns, sleep
from typing import Any

from benchmarks.versus_jgroups.streams import FLOOD, TAG, TAG_BYTES, Counts, InOrder, tag_of
from jgroups_py import JChannel
from jgroups_py.blocks.rpc import AsyncRpc, Rpc
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.message import Message, MessageBatch
from jgroups_py.channel.receiver import Receiver
from jgroups_py.cli.bench.figures import percentile
from jgroups_py.cli.bench.requesters import of_coroutines, of_threads
from jgroups_py.cli.numbered import maker, numbered
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.view import View

JOIN_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 60.0
TICK_S = 0.0005


def tell(event: str, **fields: object) -> None:
    """One event on stdout."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")     # one write: whole lines from any thread
    sys.stdout.flush()


class Peer(Receiver):
    """The member."""

    group: BaseChannel

    def __init__(self, stack: str, name: str, piece: int, properties: dict[str, str]) -> None:
        self.piece = piece
        self.counts = Counts()
        self.open(stack, name, properties)
        self.commands: dict[str, Callable[[list[str]], None]] = {
            "count": self.count, "tally": self.tally,
            "flood": lambda words: self._background(self.flood, words),
            "request": lambda words: self._background(self.request, words)}

    def open(self, stack: str, name: str, properties: dict[str, str]) -> None:
        """Make the channel, with a service that answers with what it gets."""
        self.group = self.channel = JChannel(stack, name=name, properties=properties, receiver=self)
        self.channel.send_timeout = SEND_TIMEOUT_S
        self.rpc = Rpc(self.channel, lambda request: request.payload)

    def connect(self, cluster: str) -> None:
        """Join."""
        self.channel.connect(cluster, JOIN_TIMEOUT_S)

    def close(self) -> None:
        """Leave."""
        self.channel.close()

    def run(self, cluster: str) -> None:
        """Join, obey, leave."""
        self.connect(cluster)
        tell("ready", pid=os.getpid(), ns=monotonic_ns())
        for line in sys.stdin:
            command, *words = line.split()
            if command == "leave":
                break
            self.commands[command](words)
        self.close()

    def _background(self, work: Callable[[list[str]], None], words: list[str]) -> None:
        def guarded() -> None:
            try:
                work(words)
            except ChannelError as error:
                tell("error", message=str(error))
        threading.Thread(target=guarded, daemon=True).start()

    # --- what comes in ----------------------------------------------------------------------------------------------

    def view_accepted(self, view: View) -> None:
        """Tell it."""
        tell("view", members=len(view.members), ns=monotonic_ns())

    def receive_batch(self, batch: MessageBatch) -> None:
        """Count; requests and answers are the service's."""
        if self.counts.add(batch.src, batch.payloads):
            tell("counted", **self.counts.figures())

    # --- commands ---------------------------------------------------------------------------------------------------

    def count(self, words: list[str]) -> None:
        """Count from now on."""
        trial, streams, each, gaps, singly = map(int, words)
        if singly:
            last = tag_of(FLOOD, 0, trial, each - 1)
            self.counts = InOrder(trial, streams, each, bool(gaps), last=last)
            self.group.receiver = Singly(self, self.counts)
        else:
            self.counts = Counts(trial, streams, each, bool(gaps))
            self.group.receiver = self
        tell("counting", trial=trial)

    def tally(self, _: list[str]) -> None:
        """Tell what was counted so far."""
        tell("tally", **self.counts.figures())

    def flood(self, words: list[str]) -> None:
        """Send, by one or more threads."""
        trial, each, size, rate, threads = int(words[0]), int(words[1]), int(words[2]), float(words[3]), int(words[4])
        target = self._flood_singly if words[5:] == ["1"] else self._flood
        start = monotonic_ns()
        senders = [threading.Thread(target=target, args=(tag_of(FLOOD, thread, trial, 0), each, size, rate),
                                    daemon=True) for thread in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        tell("flooded", trial=trial, start_ns=start, end_ns=monotonic_ns())

    def _flood(self, first: int, each: int, size: int, rate: float) -> None:
        start, sent = monotonic_ns(), 0
        while sent < each:
            due = each if not rate else min(each, int((monotonic_ns() - start) / 1e9 * rate) + 1)
            if due <= sent:
                sleep(TICK_S)
                continue
            stop = min(due, sent + self.piece)
            self.channel.send_batch(None, numbered(first + sent, first + stop, max(size, TAG_BYTES)))
            sent = stop

    def _flood_singly(self, first: int, each: int, size: int, rate: float) -> None:
        assert not rate, "floods one by one are at will"
        send, make = self.channel.send, maker(max(size, TAG_BYTES))
        for tag in range(first, first + each):
            send(None, make(tag))

    def request(self, words: list[str]) -> None:
        """Ask, with several requesters at once."""
        trial, number, seconds, size, out_of_band, target = words
        self.ask(self.targets(target), int(number), int(size), float(seconds), int(out_of_band == "1"),
                 lambda **figures: requested(int(trial), **figures))

    def ask(
        self, members: list[Address], number: int, size: int, seconds: float, flags: int, told: Callable[..., None],
    ) -> None:
        """Have `number` requesters ask the members in turn."""
        of_threads(self.rpc, members, number, size, seconds, told, flags)

    def targets(self, target: str) -> list[Address]:
        """Who is asked."""
        view = self.group.view
        assert view is not None, "requests are made by members"
        if target == "others":
            return [member for member in view.members if member != self.group.address]
        return [view.members[int(target)]]


class Singly(Receiver):
    """What receives the messages of a trial one by one, with the least that an application would do for each."""

    def __init__(self, peer: Peer, counts: InOrder) -> None:
        self.view_accepted = peer.view_accepted          # type: ignore[method-assign]
        self._counts = counts
        self._next = counts.next
        self._last = counts.last

    def receive(self, message: Message) -> None:
        """Check one message."""
        sender = message.src
        tag, = TAG.unpack_from(message.payload)
        if self._next.get(sender) == tag != self._last:
            self._next[sender] = tag + 1
        elif self._counts.add_one(sender, message.payload):
            tell("counted", **self._counts.figures())


class AsyncPeer(Peer):
    """The same on an AsyncChannel, with an event loop of its own."""

    event_loop = "asyncio"                               # the package that has it

    def open(self, stack: str, name: str, properties: dict[str, str]) -> None:
        self.events: asyncio.AbstractEventLoop = import_module(self.event_loop).new_event_loop()
        threading.Thread(target=self.events.run_forever, name="asyncio", daemon=True).start()
        self.group = self.async_channel = AsyncChannel(stack, name=name, properties=properties, receiver=self)
        self.async_channel.send_timeout = SEND_TIMEOUT_S
        self.async_rpc = AsyncRpc(self.async_channel, lambda request: request.payload)

    def connect(self, cluster: str) -> None:
        self.wait(self.async_channel.connect(cluster, JOIN_TIMEOUT_S))

    def close(self) -> None:
        self.wait(self.async_channel.close())

    def ask(
        self, members: list[Address], number: int, size: int, seconds: float, flags: int, told: Callable[..., None],
    ) -> None:
        told(**self.wait(of_coroutines(self.async_rpc, members, number, size, seconds, flags)))

    def _flood_singly(self, first: int, each: int, size: int, rate: float) -> None:
        async def flood() -> None:
            send, make = self.async_channel.send, maker(max(size, TAG_BYTES))
            for tag in range(first, first + each):
                await send(None, make(tag))
        self.wait(flood())

    def wait(self, coroutine: Any) -> Any:
        """Run a coroutine on the event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.events).result()


class UvloopPeer(AsyncPeer):
    """The same on uvloop."""

    event_loop = "uvloop"


KINDS: dict[str, type[Peer]] = {"threads": Peer, "asyncio": AsyncPeer, "uvloop": UvloopPeer}


def requested(
    trial: int, requests: int, errors: list[str], start_ns: int, end_ns: int, samples_us: list[float], **_: object,
) -> None:
    """Tell what the requesters found; who got no answer in time counts as one timeout, as it stopped asking."""
    tell("requested", trial=trial, requests=requests, start_ns=start_ns, end_ns=end_ns, timeouts=len(errors),
         p50_ns=percentile(samples_us, 0.5) * 1e3, p99_ns=percentile(samples_us, 0.99) * 1e3)


def main(words: list[str]) -> None:
    """Be a member."""
    kind, stack, cluster, name, piece, *properties = words
    KINDS[kind](stack, name, int(piece), dict(word.split("=", 1) for word in properties)).run(cluster)


if __name__ == "__main__":
    main(sys.argv[1:])
