"""What is in the log of members on real sockets: nothing after a start, a failed member by name."""
from __future__ import annotations

import logging
import os
from pathlib import Path
from time import monotonic, sleep

import pytest

import jgroups_py as jg
from jgroups_py.blocks.swim_membership import Membership
from jgroups_py.config.load import packaged, stacks_folder
from jgroups_py.ops.control import ControlSocket, ask
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring

pytestmark = pytest.mark.real

PATIENCE_SECONDS = 60.0
ALONE = ("membership", "serf")
NO_STACKS = ("bridge", "sealed-bridge", "gossip", "influx")         # below another one; of blocks without a group


def places() -> dict[str, object]:
    """Free ports, for stacks with properties for ports."""
    first, two = free_range(10), free_range(10)
    return {"mcast_port": free_range(), "bind_port": two, "initial_hosts": f"127.0.0.1[{two}]", "bridge_port": first,
            "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}", "bootstrap": "", "swim_port": two}


def above_debug(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records
            if record.name.startswith("jgroups_py") and record.levelno > logging.DEBUG]


def wait_for(holds, what) -> None:
    until = monotonic() + PATIENCE_SECONDS
    while not holds():
        assert monotonic() < until, what()
        sleep(0.01)


@pytest.mark.parametrize("stack", [name for name in packaged() if name not in NO_STACKS])
def test_the_start_of_a_packaged_stack_logs_nothing_above_debug(
    stack: str, caplog: pytest.LogCaptureFixture, tmp_path: Path,
):
    text = (stacks_folder() / f"{stack}.xml").read_text()
    mine = {name: value for name, value in places().items() if f"${{{name}" in text}
    for name in {"sealed": ("keyring",), "sealed-site": ("keyring", "bridge_keyring")}.get(stack, ()):
        write_keyring(tmp_path / name, new_keyring(SECRETS.draw(32)), new=True)
        mine[name] = tmp_path / name
    with caplog.at_level(logging.DEBUG, "jgroups_py"):
        if stack in ALONE:
            with Membership(stack, "A", mine) as member:
                member.join("start")
        else:
            with jg.JChannel(stack, "A", mine) as channel:
                channel.connect("start")
                channel.send(None, b"x")
    assert above_debug(caplog) == []


def test_a_member_that_fails_is_a_warning_that_names_it_and_the_cluster(caplog: pytest.LogCaptureFixture):
    port = free_range()
    with jg.JChannel("udp", "A", {"mcast_port": port}) as a, jg.JChannel("udp", "B", {"mcast_port": port}) as b:
        a.connect("shop")
        b.connect("shop")
        wait_for(lambda: len(a.view or ()) == 2, lambda: f"A has {a.view}")
        assert b._session is not None
        b._session.host.kill("as a crash does")
        wait_for(lambda: len(a.view or ()) == 1, lambda: f"A has {a.view}")
        wait_for(lambda: any("failed: B" in record.getMessage() for record in caplog.records),
                 lambda: caplog.text)
    (line,) = [record for record in caplog.records if "failed: B" in record.getMessage()]
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith("A@shop: view ")


def test_an_operator_s_order_is_logged_with_the_member_that_got_it(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with jg.JChannel("nyc", "A", {name: value for name, value in places().items() if name != "bootstrap"}) as a, \
            ControlSocket(a, tmp_path / "a.sock"):
        a.connect("shop")
        ask(tmp_path / "a.sock", {"command": "online", "site": "SFO"}, PATIENCE_SECONDS)   # refused: not known
    order = f"WARNING A@shop: operator's order: online SFO (process {os.getpid()} (user {os.getuid()}))"
    assert order in above_debug(caplog)
