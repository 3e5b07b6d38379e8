"""`jgroups rpc check` at a running group."""
from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.blocks.service import Service, Services, method
from jgroups_py.cli import main
from jgroups_py.ops.control import ControlSocket

pytestmark = pytest.mark.real
WAIT_S = 30


class Orders(Service, name="orders", version="2"):
    """As new members have it."""

    @method()
    def find(self, id: bytes) -> bytes:
        return id

    @method()
    def place(self, order: bytes) -> bytes:
        return order


class OldOrders(Service, name="orders", version="1"):
    """As members of the version before have it."""

    @method()
    def find(self, id: bytes) -> bytes:
        return id


def test_members_with_another_interface_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = {"mcast_port": str(random.SystemRandom().randrange(20_000, 60_000))}
    path = str(tmp_path / "a.sock")
    with jg.JChannel("udp", "A", port) as a, jg.JChannel("udp", "B", port) as b, ControlSocket(a, path):
        assert main(["rpc", "check", "--control", path]) == 1
        assert "no typed services" in capsys.readouterr().err
        served = [Services(a), Services(b)]
        served[0].serve(Orders())
        for channel in (a, b):
            channel.connect("rpc-check")
        assert main(["rpc", "check", "--control", path]) == 0
        assert "1 service, all fit" in capsys.readouterr().out
        served[1].serve(OldOrders())
        until = time.monotonic() + WAIT_S
        while sum("orders" in offered for offered in served[0].offers().values()) < 2:   # B told first that it has none
            assert time.monotonic() < until, "B has told nothing of its service"
            time.sleep(0.02)
        assert main(["rpc", "check", "--control", path]) == 1
        shown = capsys.readouterr().out
        assert "orders: DOES NOT FIT" in shown
        assert "2 methods; version 2: A" in shown
        assert "1 method; version 1: B" in shown
        assert "lacks orders.place" in shown
        assert main(["rpc", "check", "--control", path, "--json"]) == 1
        interfaces = json.loads(capsys.readouterr().out)["services"][0]["interfaces"]
        assert sorted(str(one["versions"]) for one in interfaces) == ["{'1': ['B']}", "{'2': ['A']}"]


def test_without_a_member_there_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rpc", "check", "--control", str(tmp_path / "none.sock")]) == 2
    assert capsys.readouterr().err.startswith("jgroups rpc: ")
