"""A process that floods a group with one order and prints what it delivered: python ordered_member.py NAME PORT NUMBER.

It prints "ready" and the coordinator in a view of three, and begins at a line on stdin. Once it is in a view of two and
has all messages of itself and of the other member there, it prints the hash of the whole sequence, and its length.
"""
from __future__ import annotations

import hashlib
import sys
import threading

import jgroups_py as jg

LIMIT_S = 60


def say(*words: object) -> None:
    """A line on stdout."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Log(jg.Receiver):
    """What is delivered. number: the messages of each member."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.full, self.complete = threading.Event(), threading.Event()
        self.members: list[str] = []
        self.counts: dict[str, int] = {}
        self.sequence: list[bytes] = []

    def view_accepted(self, view: jg.View) -> None:
        self.members = [str(member) for member in view.members]
        if len(view) == 3:
            self.full.set()
        self.look()

    def receive_batch(self, batch: jg.MessageBatch) -> None:
        self.sequence += batch.payloads
        self.counts[str(batch.src)] = self.counts.get(str(batch.src), 0) + len(batch)
        self.look()

    def look(self) -> None:
        if self.full.is_set() and len(self.members) == 2 and all(
                self.counts.get(member, 0) == self.number for member in self.members):
            self.complete.set()


def main(own: str, port: int, count: int) -> None:
    """Run the member."""
    log = Log(count)
    with jg.JChannel("udp-total", own, {"mcast_port": port}, log) as ch:
        ch.connect("ordered")
        if not log.full.wait(LIMIT_S):
            sys.exit("there are not three members")
        say("ready", log.members[0])
        sys.stdin.readline()
        for number in range(count):
            ch.send(None, f"{own}{number}".encode())
        if not log.complete.wait(LIMIT_S):
            sys.exit(f"{own} has {log.counts} in {log.members}")
        per_sender = {name: [p for p in log.sequence if p.startswith(name.encode())] for name in "ABC"}
        for name, payloads in per_sender.items():
            assert payloads == [f"{name}{number}".encode() for number in range(len(payloads))], name
        say(hashlib.sha256(b"\n".join(log.sequence)).hexdigest(), len(log.sequence))
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
