"""Three members in one process: each of them receives every message, those of one sender in order.

    python examples/first_group.py
"""
import os
import time

import jgroups_py as jg

GROUP = f"first-group-{os.getpid()}"


class Printer(jg.Receiver):
    """Keeps what it receives and prints it."""

    def __init__(self, name: str) -> None:
        self.name, self.got = name, []

    def receive(self, message: jg.Message) -> None:
        self.got.append(message.payload)
        print(f"{self.name} received {message.payload.decode()!r} from {message.src}")

    def view_accepted(self, view: jg.View) -> None:
        print(f"{self.name} sees {view}")


printers = [Printer(name) for name in "ABC"]
channels = [jg.JChannel("udp", name=printer.name, receiver=printer) for printer in printers]
for channel in channels:
    channel.connect(GROUP)

channels[1].send(None, b"hello, all")                              # to every member, B included
channels[1].send(channels[2].address, b"hello, C")                 # to one

deadline = time.monotonic() + 5
while [len(printer.got) for printer in printers] != [1, 1, 2] and time.monotonic() < deadline:
    time.sleep(0.01)
for channel in channels:
    channel.close()
# Multicasts are in order among themselves, and so are unicasts; which of the two kinds is first is open.
assert [sorted(printer.got) for printer in printers] == [[b"hello, all"], [b"hello, all"], [b"hello, C", b"hello, all"]]
