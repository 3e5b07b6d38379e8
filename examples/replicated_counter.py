"""A counter that every member may raise, and that has the same value at all members in the end, whatever fails.

    python examples/replicated_counter.py
    pytest tests/test_replicated_counter.py --jgroups-seeds 200       # the same class under faults, simulated

Each member multicasts its share, the sum of all that it has added so far; a receiver keeps the highest share of each
member. So a share may arrive twice, or after a later one, and after a partition members only need to multicast all
shares that they have.
Source: the grow-only counter of Shapiro et al., "Convergent and Commutative Replicated Data Types" (2011).
"""
import json
import os
import time

import jgroups_py as jg

QUESTION = b"?"                                      # a request for all shares


class Counter(jg.Receiver):
    """One member's copy."""

    def __init__(self, channel) -> None:
        self.shares: dict[str, int] = {}             # member -> what it has added so far
        self.channel = channel
        channel.receiver = self

    @property
    def value(self) -> int:
        return sum(self.shares.values())

    def add(self, amount: int) -> None:
        # Not the logical name: a member that crashed and is back begins with nothing, under a new address.
        me = self.channel.address.raw.hex()
        self.shares[me] = self.shares.get(me, 0) + amount
        self.multicast({me: self.shares[me]})

    def multicast(self, shares: dict[str, int]) -> None:
        if shares:
            self.channel.send(None, json.dumps(shares).encode())

    def receive(self, message: jg.Message) -> None:
        if message.payload == QUESTION:
            self.answer()
            return
        for member, share in json.loads(message.payload).items():
            self.shares[member] = max(self.shares.get(member, 0), share)

    def view_accepted(self, view: jg.View) -> None:
        """A new member has no shares yet, and after a partition the other half has shares that are missing here."""
        self.multicast(self.shares)

    def global_view_accepted(self, view: jg.GlobalView) -> None:
        """The same between sites."""
        self.answer()

    def messages_lost(self, loss) -> None:
        """Shares were lost, as when a site was away for too long: request them from the others."""
        self.channel.send(None, QUESTION)

    def answer(self) -> None:
        """All members of a site have the same shares, so one of them answers."""
        if self.channel.is_coordinator:
            self.multicast(self.shares)


def main() -> None:
    group = f"replicated-counter-{os.getpid()}"
    counters = [Counter(jg.JChannel("udp", name=name)) for name in "ABC"]
    for counter in counters[:2]:
        counter.channel.connect(group)
    for _ in range(100):
        counters[0].add(1)
        counters[1].add(2)
    counters[2].channel.connect(group)                # it receives the shares of the others
    counters[2].add(3)
    deadline = time.monotonic() + 10
    while any(counter.value != 303 for counter in counters) and time.monotonic() < deadline:
        time.sleep(0.01)
    for counter in counters:
        counter.channel.close()
    print("A, B and C have", *[counter.value for counter in counters])
    assert [counter.value for counter in counters] == [303, 303, 303]


if __name__ == "__main__":
    main()
