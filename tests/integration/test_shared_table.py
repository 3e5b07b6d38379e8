"""SharedTable on real channels: writes show up, late comers catch up, and a bug of the application is only counted."""
from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

import jgroups_py as jg
from jgroups_py.blocks.anti_entropy import Change, SharedTable
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports

pytestmark = pytest.mark.real


def until(holds: Callable[[], bool], timeout: float = 120) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def test_tables_become_equal_and_a_late_comer_catches_up() -> None:
    changes: list[Change] = []
    properties = free_ports("udp")
    with jg.JChannel("udp", "A", properties) as a, jg.JChannel("udp", "B", properties) as b:
        one = SharedTable(a, interval=0.2)
        one.put(b"before", b"connecting")                # no member receives that
        a.connect("tables")
        one.put(b"early", b"1")
        b.connect("tables")
        other = SharedTable(b, interval=0.2, changed=changes.append)
        until(lambda: other.items() == {b"before": b"connecting", b"early": b"1"})
        one.put(b"late", b"2")
        one.delete(b"early")
        until(lambda: one.root == other.root)
        assert other.items() == one.items() == {b"before": b"connecting", b"late": b"2"}
        assert [(change.key, change.after) for change in changes[-2:]] == [(b"late", b"2"), (b"early", None)]
        with pytest.raises(ValueError, match="service 1 is taken"):
            SharedTable(a)
        one.close()
        other.close()


def test_tables_at_two_sites_become_equal_and_topics_cross_the_bridge() -> None:
    """What was written before the sites knew each other is made up for by an exchange, through both relays."""
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
    got: list[tuple[str | None, bytes]] = []
    with ExitStack() as exits:
        tables = []
        for site, topics in (("NYC", "*"), ("SFO", "orders")):
            properties = {"bind_addr": "127.0.0.1", **free_ports(site), **bridge, "site": site, "topics": topics}
            channel = exits.enter_context(jg.JChannel("topics", f"member of {site}", properties))
            table = SharedTable(channel, interval=0.2)
            exits.callback(table.close)
            channel.receiver = lambda message: got.append((message.topic, message.payload))
            channel.connect(f"group of {site}")
            table.put(site.encode(), b"was first")
            tables.append((channel, table))
        (nyc, one), (sfo, other) = tables
        until(lambda: one.items() == other.items() == {b"NYC": b"was first", b"SFO": b"was first"}, 20)
        nyc.discard_own_messages = True
        nyc.send(None, b"1", topic="prices")
        nyc.send(None, b"2", topic="orders")
        until(lambda: bool(got))
        assert got == [("orders", b"2")]
        assert sfo.stats()["TOPICS"]["messages about orders"] == 1
