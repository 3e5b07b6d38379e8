"""Names on real sockets: a resolver that hangs, a member that restarts on another address."""
from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import jgroups_py as jg
from benchmarks.names import MESSAGES, Stuck, pairs
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


def channel(name: str, port: int, **properties: object) -> jg.JChannel:
    return jg.JChannel("names", name, {"bind_port": port, "port_range": 0, "bootstrap": "", **properties},
                       lambda message: got.append((name, message.payload)))


got: list[tuple[str, bytes]] = []


def test_accept_4_8_no_message_waits_for_a_resolver_that_hangs() -> None:
    """It answers no request before the last message is there (its delays: `python -m benchmarks.names`)."""
    with pairs() as (_, stuck):
        for _ in range(MESSAGES):
            stuck.delay()
        assert not Stuck.over.is_set()


def test_accept_4_5_a_member_that_restarts_on_another_address_is_found_by_its_name(tmp_path: Path) -> None:
    got.clear()
    port, table = free_range(), tmp_path / "names.csv"
    table.write_text(f"orders,127.0.0.2:{port}\n")
    by_name = {"reresolve": "1s", "initial_hosts": "orders[1]", "resolver": f"file:{table}"}
    with ExitStack() as channels:
        b = channels.enter_context(channel("B", free_range(), **by_name))
        first = channels.enter_context(channel("orders", port, bind_addr="127.0.0.2", initial_hosts=""))
        first.connect("names")
        b.connect("names")
        eventually(lambda: len(b.view) == 2)
        first.close()
        eventually(lambda: len(b.view) == 1)
        table.write_text(f"orders,127.0.0.9:{port}\n")
        again = channels.enter_context(channel("orders", port, bind_addr="127.0.0.9", initial_hosts=""))
        again.connect("names")
        eventually(lambda: len(b.view) == 2)
        b.send(None, b"here you are")
        eventually(lambda: ("orders", b"here you are") in got)
