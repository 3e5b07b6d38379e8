"""A member whose application handles 1,000 messages a second. Run by test_pressure.py.

Arguments: stack, cluster, messages to expect, NAME=VALUE properties. Prints one JSON object when it has them all.
"""
from __future__ import annotations

import json
import sys
import threading
import time

import jgroups_py as jg
from jgroups_py.cli.member import rss_mb

HANDLING_SECONDS = 0.001


class Slow(jg.Receiver):
    """Checks the order of numbered messages, slowly."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.next = 0
        self.wrong = 0
        self.largest_mb = 0.0
        self.done = threading.Event()

    def receive(self, message: jg.Message) -> None:
        time.sleep(HANDLING_SECONDS)
        self.wrong += int.from_bytes(message.payload[:8], "big") != self.next
        self.next += 1
        if self.next % 100 == 0:
            self.largest_mb = max(self.largest_mb, rss_mb())
        if self.next == self.expected:
            self.done.set()


def main() -> None:
    stack, cluster, expected, *properties = sys.argv[1:]
    slow = Slow(int(expected))
    filled = dict(word.partition("=")[::2] for word in properties)
    with jg.JChannel(stack, name="S", properties=filled, receiver=slow) as channel:
        channel.connect(cluster)
        slow.done.wait(100)
        print(json.dumps({"received": slow.next, "wrong": slow.wrong, "largest_mb": slow.largest_mb,    # noqa: T201  this is its result
                          "view": [member.name for member in channel.view.members] if channel.view else []}))


if __name__ == "__main__":
    main()
