"""Claim: a name server that does not answer changes no message's delay.

    python -m benchmarks.names                      # 20 times 500 messages each way, below a minute

Two groups of two members in one process, on real sockets: both look for hosts that they are given by name, all the
time; one group's resolver answers at once, the other's not at all while it is measured. A message goes out in one
group and in the other in turn, so that whatever else the machine does hits both alike. Where the system puts a group's
threads makes it a little slower or faster than the other for as long as it lives; so groups are made anew many times.
"""
from __future__ import annotations

import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from time import perf_counter

import jgroups_py as jg
from jgroups_py.model.name_resolution import NameResolver
from jgroups_py.system.free_ports import free_range

MESSAGES = 500
ARRIVAL_S = 20.0
HOSTS = "127.0.0.1[{}],somewhere[1],elsewhere[2]"


class Quick(NameResolver):
    """Knows nobody, and says so at once."""

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        return None


class Stuck(NameResolver):
    """A name server that does not answer. over: nobody needs it any more; asked: somebody waits for it."""

    over = threading.Event()
    asked = threading.Event()

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        self.asked.set()
        self.over.wait()
        return None


class Pair(jg.Receiver):
    """Two members of a group; what the second one received."""

    def __init__(self, channels: ExitStack, resolver: type[NameResolver]) -> None:
        self.arrived: SimpleQueue[bytes] = SimpleQueue()
        ports = free_range(), free_range()
        given = {"port_range": 0, "bootstrap": "", "initial_hosts": HOSTS.format(ports[0]),
                 "resolver": f"{resolver.__module__}:{resolver.__name__}"}
        self.one, other = (channels.enter_context(jg.JChannel("names", name, {**given, "bind_port": port}))
                           for name, port in zip("AB", ports, strict=True))
        self.met = threading.Event()
        other.receiver = self
        for channel in (self.one, other):
            channel.connect(resolver.__name__)
        assert self.met.wait(ARRIVAL_S), "the two do not meet"

    def receive(self, message: jg.Message) -> None:
        """The second one's."""
        self.arrived.put(message.payload)

    def view_accepted(self, view: jg.View) -> None:
        """Likewise."""
        if len(view) == 2:
            self.met.set()

    def delay(self) -> float:
        """Send a message; seconds until it is there."""
        began = perf_counter()
        self.one.send(None, b"x")
        self.arrived.get(timeout=ARRIVAL_S)
        return perf_counter() - began


@contextmanager
def pairs() -> Iterator[tuple[Pair, Pair]]:
    """One with the quick resolver, one with the stuck one, which is being asked."""
    Stuck.over.clear()
    Stuck.asked.clear()
    with ExitStack() as channels:
        channels.callback(Stuck.over.set)
        made = Pair(channels, Quick), Pair(channels, Stuck)
        assert Stuck.asked.wait(ARRIVAL_S), "nobody asks for the names"
        yield made


def delays(messages: int) -> tuple[list[float], list[float]]:
    """Seconds that so many messages took, beside the quick resolver and beside the stuck one."""
    with pairs() as (quick, stuck):
        without, beside = [], []
        for number in range(messages):
            for pair, found in ((quick, without), (stuck, beside))[::1 if number % 2 else -1]:
                found.append(pair.delay())
    return without, beside


def p99(found: list[float]) -> float:
    """The delay that one in a hundred exceeds."""
    return sorted(found)[len(found) * 99 // 100]


def share_of_slowest(found: list[float], others: list[float], number: int) -> float:
    """Of so many slowest of both, the share that is in `found`: half, if both are alike."""
    limit = sorted((*found, *others))[-number]
    slow = [delay for delay in found if delay >= limit]
    return len(slow) / number


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(prog="benchmarks.names", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=20)
    without, beside = [], []
    for _ in range(parser.parse_args().times):
        for found, more in zip((without, beside), delays(MESSAGES), strict=True):
            found += more
    for name, found in (("answers at once", without), ("does not answer", beside)):
        print(f"a resolver that {name:15}: median {sorted(found)[len(found) // 2] * 1e6:7.0f} us, "
              f"p99 {p99(found) * 1e6:7.0f} us")
    slowest = len(without) // 50
    share = share_of_slowest(beside, without, slowest)
    print(f"of the {slowest} slowest messages {share:.0%} went beside the one that does not")


if __name__ == "__main__":
    main()
