"""A member of a group of compiled and uncompiled members: sends messages one by one, and checks what all three sent.

    python -m tests.compiled.member CLUSTER MULTICAST_PORT NAME
"""
from __future__ import annotations

import struct
import sys
import threading
import time

import jgroups_py as jg

MEMBERS = 3
MESSAGES = 20_000
SIZES = (8, 100, 1_000, 9_000)              # in turn, so that messages of one length and of several share frames
LIMIT_SECONDS = 60.0
NUMBER = struct.Struct(">Q")


class Reader:
    """Messages of each member must come once and in order."""

    def __init__(self) -> None:
        self.next: dict[jg.Address, int] = {}
        self.wrong = ""
        self.all_here = threading.Event()

    def receive(self, message: jg.Message) -> None:
        (number,) = NUMBER.unpack_from(message.payload)
        assert message.src is not None
        expected = self.next.get(message.src, 0)
        size = SIZES[number // 50 % len(SIZES)]
        if (number, len(message.payload)) != (expected, size) and not self.wrong:
            self.wrong = f"{number} of {len(message.payload)} bytes came in place of {expected} of {size}"
        self.next[message.src] = number + 1
        if len(self.next) == MEMBERS and min(self.next.values()) == MESSAGES:
            self.all_here.set()


def main() -> None:
    cluster, port, name = sys.argv[1:]
    reader = Reader()
    with jg.JChannel("udp", name, {"mcast_port": port}, reader) as channel:
        channel.connect(cluster)
        until = time.monotonic() + LIMIT_SECONDS
        while channel.view is None or len(channel.view.members) < MEMBERS:
            assert time.monotonic() < until, f"{name} sees {channel.view}"
            time.sleep(0.02)
        for number in range(MESSAGES):
            channel.send(None, NUMBER.pack(number).ljust(SIZES[number // 50 % len(SIZES)], b"."))
        arrived = reader.all_here.wait(LIMIT_SECONDS)
        time.sleep(1.0)                     # the others may miss something that this member has to send again
    counts = ", ".join(f"{member} {count}" for member, count in reader.next.items())
    sys.stdout.write(f"{name} compiled={jg.__compiled__} {counts} {reader.wrong}\n")
    sys.exit(0 if arrived and not reader.wrong else 1)


if __name__ == "__main__":
    main()
