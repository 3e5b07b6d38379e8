"""A lock with a fence, a leader, ids, a queue: three members of one process, as three processes would.

    python examples/coordination.py
"""
from __future__ import annotations

import os
import threading

import jgroups_py as jg
from jgroups_py.blocks.coordination import (
    Coordination,
    Fence,
    Grant,
    LockTimeoutError,
    StaleFenceError,
)

FOUNDERS = ("A", "B", "C")
PORT = {"mcast_port": str(20_000 + os.getpid() % 20_000)}
WAIT_S = 30


class Account:
    """What is protected: it refuses whoever comes after a later holder."""

    def __init__(self) -> None:
        self.fence = Fence()
        self.balance = 0

    def add(self, amount: int, grant: Grant) -> None:
        """Read, and write: nobody else is in between."""
        self.fence.admit(grant.fence)
        old = self.balance
        self.fence.admit(grant.fence)
        self.balance = old + amount


def locks(a: Coordination, b: Coordination) -> None:
    """Two members add to one account."""
    account = Account()

    def add(co: Coordination) -> None:
        for _ in range(20):
            with co.lock("account", timeout=WAIT_S) as grant:
                account.add(1, grant)
    threads = [threading.Thread(target=add, args=(co,)) for co in (a, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("balance:", account.balance)
    assert account.balance == 40

    with a.lock("account") as grant:
        try:
            a.lock("account").acquire(timeout=0.1)           # not re-entrant: pass the grant on
        except LockTimeoutError:
            print("a lock is not taken twice, not by its holder either")
        late = grant
    with b.lock("account") as grant:
        account.add(1, grant)
    try:
        account.add(1, late)
    except StaleFenceError:
        print("a late write is refused")
    assert account.balance == 41


def leaders(members: list[Coordination]) -> None:
    """Each is ready to lead; when the leader goes, another one does."""
    led: list[int] = []
    changed = threading.Condition()

    def lead(number: int) -> None:
        @members[number].leader("billing")
        def bill(grant: Grant) -> None:                      # runs where this member leads; it ends: another one leads
            with changed:
                led.append(number)
                changed.notify_all()
    for number in range(len(members)):
        lead(number)
    with changed:
        assert changed.wait_for(lambda: len(led) == len(members), WAIT_S), led
    print("each has led once:", sorted(led))
    assert sorted(led) == [0, 1, 2]


def queues(a: Coordination, b: Coordination, c: Coordination) -> None:
    """An item that is not dealt with goes back."""
    print("ids:", a.counter("id").take(3), b.counter("id").take(3))
    mails = a.queue("mails", str)
    mails.put("to: x")
    try:
        with b.queue("mails", str).take(WAIT_S) as item:
            raise ValueError("the server does not answer")
    except ValueError:
        pass
    with c.queue("mails", str).take(WAIT_S) as item:
        print("item:", item.value, "at attempt", item.attempt)
        assert (item.value, item.attempt) == ("to: x", 2)


def main() -> None:
    """Three members."""
    channels = [jg.JChannel("udp", name, PORT) for name in FOUNDERS]
    members = [Coordination(channel, founders=FOUNDERS) for channel in channels]
    for channel in channels:
        channel.connect("examples")
    members[0].wait_for_store(WAIT_S)
    locks(*members[:2])
    leaders(members)
    queues(*members)
    for channel in channels:
        channel.close()


if __name__ == "__main__":
    main()
