"""Names on real sockets: a stack by name, a resolver that hangs, a member that restarts on another address."""
from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

import jgroups_py as jg
from jgroups_py.resolver import NameResolver
from tests.unit.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(60)]
FOUND_SECONDS = 8.0


class Stuck(NameResolver):
    """A name server that does not answer."""

    go = threading.Event()
    asked = threading.Event()

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        self.asked.set()
        self.go.wait(30)
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def channel(name: str, port: int, **properties: object) -> jg.JChannel:
    return jg.JChannel("names", name, {"bind_port": port, "port_range": 0, "bootstrap": "", **properties},
                       lambda message: got.append((name, message.payload)))


got: list[tuple[str, bytes]] = []


def test_accept_4_8_a_resolver_that_hangs_stops_no_message() -> None:
    got.clear()
    Stuck.go.clear()
    port = free_port()
    hosts = f"127.0.0.1[{port}],somewhere[1],elsewhere[2]"
    with ExitStack() as channels:
        resolver = f"{__name__}:Stuck"
        a = channels.enter_context(channel("A", port, initial_hosts=hosts, resolver=resolver))
        b = channels.enter_context(channel("B", free_port(), initial_hosts=hosts, resolver=resolver))
        a.connect("names")
        b.connect("names")
        assert Stuck.asked.wait(5)
        slowest = 0.0
        for number in range(200):
            before, began = len(got), monotonic()
            a.send(None, b"%d" % number)
            eventually(lambda before=before: len(got) == before + 2)
            slowest = max(slowest, monotonic() - began)
        Stuck.go.set()
    assert slowest < 1.0                                      # the resolver takes 30 s; a busy machine takes a while


def test_accept_4_5_a_member_that_restarts_on_another_address_is_found_by_its_name(tmp_path: Path) -> None:
    got.clear()
    port, table = free_port(), tmp_path / "names.csv"
    table.write_text(f"orders,127.0.0.2:{port}\n")
    by_name = {"reresolve": "1s", "initial_hosts": "orders[1]", "resolver": f"file:{table}"}
    with ExitStack() as channels:
        b = channels.enter_context(channel("B", free_port(), **by_name))
        first = channels.enter_context(channel("orders", port, bind_addr="127.0.0.2", initial_hosts=""))
        first.connect("names")
        b.connect("names")
        eventually(lambda: len(b.view) == 2)
        first.close()
        eventually(lambda: len(b.view) == 1)
        table.write_text(f"orders,127.0.0.9:{port}\n")
        again = channels.enter_context(channel("orders", port, bind_addr="127.0.0.9", initial_hosts=""))
        again.connect("names")
        began = monotonic()
        while len(b.view) < 2:
            assert monotonic() - began < FOUND_SECONDS + 1
            threading.Event().wait(0.05)
        b.send(None, b"here you are")
        eventually(lambda: ("orders", b"here you are") in got)
