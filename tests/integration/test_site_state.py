"""get_state from another site on real sockets, with all members sending throughout."""
from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

import pytest

import jgroups_py as jg
from jgroups_py.model.address import Address
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports

pytestmark = pytest.mark.real

STACKS = Path(__file__).parents[2] / "stacks"
SITES = {"nyc": "AB", "sfo": "CDE"}
PATIENCE_SECONDS = 120.0


class Ledger:
    """The application's state: everything it was given, once, by sender."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.states = 0

    def receive(self, message: jg.Message) -> None:
        name, number = message.payload.split()
        self.seen[name.decode()].append(int(number))

    def get_state(self, stream: BinaryIO) -> None:
        for name, numbers in self.seen.items():
            for number in numbers:
                stream.write(b"%s %d\n" % (name.encode(), number))

    def set_state(self, stream: BinaryIO) -> None:
        seen: dict[str, list[int]] = defaultdict(list)
        for line in stream:
            name, number = line.split()
            seen[name.decode()].append(int(number))
        self.seen, self.states = seen, self.states + 1


class Sites:
    """Two sites in this process, all members sending until `stop`."""

    def __init__(self) -> None:
        first = free_range(10)
        bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
        self.ledgers, self.channels = dict[str, Ledger](), dict[str, jg.JChannel]()
        self.sent: dict[str, int] = {}
        self.stop = threading.Event()
        for site, names in SITES.items():
            properties = {**free_ports(site), **bridge}
            for name in names:
                self.ledgers[name] = Ledger(name)
                self.channels[name] = jg.JChannel(str(STACKS / f"{site}.xml"), name=name, properties=properties,
                                                  receiver=self.ledgers[name])
                self.channels[name].connect(site)
        self.wait(lambda: all(channel.global_view is not None and sum(map(len, channel.global_view.sites.values())) == 5
                              for channel in self.channels.values()), "views")
        self.threads = [threading.Thread(target=self.talk, args=(name,)) for name in self.channels]

    def talk(self, name: str) -> None:
        while not self.stop.is_set():
            number = self.sent.get(name, 0)
            self.channels[name].send(None, b"%s %d" % (name.encode(), number))
            self.sent[name] = number + 1
            sleep(0.001)

    def proxy(self, of: str, at: str) -> Address:
        """The address of `of` as `at`'s global view shows it."""
        view = self.channels[at].global_view
        assert view is not None
        return next(member for members in view.sites.values() for member in members if member.name == of)

    @staticmethod
    def wait(holds: object, what: str) -> None:
        until = monotonic() + PATIENCE_SECONDS
        while not holds():                                    # type: ignore[operator]
            assert monotonic() < until, what
            sleep(0.01)

    def settle(self) -> None:
        """Stop sending; wait until every member has as much as was sent."""
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.wait(lambda: all(len(ledger.seen[name]) >= count for ledger in self.ledgers.values()
                              for name, count in self.sent.items()), "everything to arrive")
        sleep(0.2)                                            # for what should not come

    def close(self) -> None:
        self.stop.set()
        for channel in self.channels.values():
            channel.close()


@pytest.fixture
def sites() -> Iterator[Sites]:
    with closing(Sites()) as found:
        yield found


def test_all_members_of_a_site_take_the_state_of_another_with_a_flood_running(sites: Sites) -> None:
    for thread in sites.threads:
        thread.start()
    sleep(0.5)
    for asker, provider in ("DB", "CA", "AE"):
        for name in SITES["sfo" if asker in SITES["sfo"] else "nyc"]:
            sites.ledgers[name].seen.clear()                  # only a state brings that back
        sites.channels[asker].get_state(sites.proxy(provider, asker), timeout=PATIENCE_SECONDS)
        sleep(0.3)
    sites.settle()
    for ledger in sites.ledgers.values():
        for name, count in sites.sent.items():
            assert ledger.seen[name] == list(range(count)), f"{ledger.name} about {name}"
    assert [sites.ledgers[name].states for name in "CDE"] == [2, 2, 2]
    assert [sites.ledgers[name].states for name in "AB"] == [1, 1]


def test_a_member_that_cannot_provide_is_named_and_everything_goes_on(sites: Sites) -> None:
    sites.channels["B"].receiver = lambda message: None
    with pytest.raises(jg.StateTransferError, match="has no get_state"):
        sites.channels["D"].get_state(sites.proxy("B", "D"), timeout=PATIENCE_SECONDS)
    sites.channels["B"].receiver = sites.ledgers["B"]
    for thread in sites.threads:
        thread.start()
    sleep(0.3)
    sites.settle()
    for ledger in sites.ledgers.values():
        for name, count in sites.sent.items():
            assert ledger.seen[name] == list(range(count)), f"{ledger.name} about {name}"
