"""One member of ours as a process: `python -m benchmarks.versus_jgroups.peer STACK CLUSTER NAME PIECE [K=V]...`.

The counterpart of java/Driver.java: same commands, same events, same messages, so that one and the same program
measures both. PIECE: how many messages a flood hands to the channel at once. Times are of the monotonic clock.

    command                                         events
    (start)                                         ready pid ns; then view members, at every view
    count TRIAL STREAMS EACH GAPS                   counting, then counted once STREAMS x EACH messages are here
    flood TRIAL EACH SIZE RATE THREADS              flooded start_ns end_ns; EACH messages a thread, RATE 0: at will
    request TRIAL THREADS SECONDS SIZE OOB TARGET   requested requests timeouts start_ns end_ns p50_ns p99_ns;
                                                    TARGET: a place in the view, or "others" in turn
    tally                                           tally, with the fields of counted: messages distinct duplicates
                                                    out_of_order strays done_ns last_ns gap_ns
    leave, end of input                             the process ends
"""
from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from time import monotonic_ns, sleep

from benchmarks.versus_jgroups.streams import (
    ANSWER,
    FLOOD,
    KIND_SHIFT,
    REQUEST,
    TAG_BYTES,
    THREAD_SHIFT,
    Counts,
    read_tag,
    tag_of,
)
from jgroups_py import JChannel
from jgroups_py.address import Address
from jgroups_py.errors import ChannelError
from jgroups_py.message import MessageBatch
from jgroups_py.receiver import Receiver
from jgroups_py.view import View

ANSWER_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 60.0
TICK_S = 0.0005
TAG_REST = (1 << KIND_SHIFT) - 1


def tell(event: str, **fields: object) -> None:
    """One event on stdout."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")     # one write: whole lines from any thread
    sys.stdout.flush()


def quantile(ordered: list[int], share: float) -> int:
    """Of what is sorted; 0 of nothing."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


class Requester(threading.Thread):
    """Asks, waits for the answer, asks the next member."""

    def __init__(self, peer: Peer, words: list[str], thread: int, until_ns: int) -> None:
        super().__init__(daemon=True)
        self.took: list[int] = []
        self.timeouts = 0
        self._peer = peer
        self._thread = thread
        self._first = tag_of(REQUEST, thread, int(words[0]), 0)
        self._padding = bytes(max(0, int(words[3]) - TAG_BYTES))
        self._flags = int(words[4] == "1")                      # Flag.OOB
        self._targets = peer.targets(words[5])
        self._until_ns = until_ns
        self._wanted = 0
        self._arrived = threading.Semaphore(0)

    def answered(self, tag: int) -> None:
        """Called with each answer for this thread; late ones are none."""
        if tag & TAG_REST == self._wanted & TAG_REST:
            self._arrived.release()

    def run(self) -> None:
        """Until the time is over."""
        number = 0
        while (start := monotonic_ns()) < self._until_ns:
            self._wanted = self._first + number
            target = self._targets[(self._thread + number) % len(self._targets)]
            self._peer.channel.send(target, self._wanted.to_bytes(TAG_BYTES, "big") + self._padding, self._flags)
            if self._arrived.acquire(timeout=ANSWER_TIMEOUT_S):
                self.took.append(monotonic_ns() - start)
            else:
                self.timeouts += 1
            number += 1


class Peer(Receiver):
    """The member."""

    def __init__(self, stack: str, name: str, piece: int, properties: dict[str, str]) -> None:
        self.channel = JChannel(stack, name=name, properties=properties, receiver=self)
        self.piece = piece
        self.counts = Counts()
        self.requesters: list[Requester] = []
        self.commands: dict[str, Callable[[list[str]], None]] = {
            "count": self.count, "tally": self.tally,
            "flood": lambda words: self._background(self.flood, words),
            "request": lambda words: self._background(self.request, words)}

    def run(self, cluster: str) -> None:
        """Join, obey, leave."""
        self.channel.connect(cluster, JOIN_TIMEOUT_S)
        tell("ready", pid=os.getpid(), ns=monotonic_ns())
        for line in sys.stdin:
            command, *words = line.split()
            if command == "leave":
                break
            self.commands[command](words)
        self.channel.close()

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
        tell("view", members=len(view.members))

    def receive_batch(self, batch: MessageBatch) -> None:
        """Count, answer, or hand to the requester."""
        payloads = batch.payloads
        if batch.dest is None:
            if self.counts.add(batch.src, payloads):
                tell("counted", **self.counts.figures())
            return
        answers = []
        for payload in payloads:
            tag = read_tag(payload)
            if tag >> KIND_SHIFT == REQUEST:
                answers.append((tag & TAG_REST | ANSWER << KIND_SHIFT).to_bytes(TAG_BYTES, "big") + payload[TAG_BYTES:])
            elif (thread := tag >> THREAD_SHIFT & 0xFF) < len(self.requesters):
                self.requesters[thread].answered(tag)
        if answers:
            self.channel.send_batch(batch.src, answers, int(batch.flags))

    # --- commands ---------------------------------------------------------------------------------------------------

    def count(self, words: list[str]) -> None:
        """Count from now on."""
        trial, streams, each, gaps = map(int, words)
        self.counts = Counts(trial, streams, each, bool(gaps))
        tell("counting", trial=trial)

    def tally(self, _: list[str]) -> None:
        """Tell what was counted so far."""
        tell("tally", **self.counts.figures())

    def flood(self, words: list[str]) -> None:
        """Send, by one or more threads."""
        trial, each, size, rate, threads = int(words[0]), int(words[1]), int(words[2]), float(words[3]), int(words[4])
        start = monotonic_ns()
        senders = [threading.Thread(target=self._flood, args=(tag_of(FLOOD, thread, trial, 0), each, size, rate),
                                    daemon=True) for thread in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        tell("flooded", trial=trial, start_ns=start, end_ns=monotonic_ns())

    def _flood(self, first: int, each: int, size: int, rate: float) -> None:
        padding = bytes(max(0, size - TAG_BYTES))
        start, sent = monotonic_ns(), 0
        while sent < each:
            due = each if not rate else min(each, int((monotonic_ns() - start) / 1e9 * rate) + 1)
            if due <= sent:
                sleep(TICK_S)
                continue
            stop = min(due, sent + self.piece)
            self.channel.send_batch(None, [tag.to_bytes(TAG_BYTES, "big") + padding
                                           for tag in range(first + sent, first + stop)], timeout=SEND_TIMEOUT_S)
            sent = stop

    def request(self, words: list[str]) -> None:
        """Ask, with several threads at once."""
        start = monotonic_ns()
        until_ns = start + int(float(words[2]) * 1e9)
        requesters = [Requester(self, words, thread, until_ns) for thread in range(int(words[1]))]
        self.requesters = requesters
        for requester in requesters:
            requester.start()
        for requester in requesters:
            requester.join()
        end = monotonic_ns()
        took = sorted(ns for requester in requesters for ns in requester.took)
        tell("requested", trial=int(words[0]), requests=len(took), start_ns=start, end_ns=end,
             timeouts=sum(requester.timeouts for requester in requesters),
             p50_ns=quantile(took, 0.5), p99_ns=quantile(took, 0.99))

    def targets(self, target: str) -> list[Address]:
        """Who is asked."""
        view = self.channel.view
        assert view is not None, "requests are made by members"
        if target == "others":
            return [member for member in view.members if member != self.channel.address]
        return [view.members[int(target)]]


def main(words: list[str]) -> None:
    """Be a member."""
    stack, cluster, name, piece, *properties = words
    Peer(stack, name, int(piece), dict(word.split("=", 1) for word in properties)).run(cluster)


if __name__ == "__main__":
    main(sys.argv[1:])
