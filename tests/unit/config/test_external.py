"""The address that others are told in place of the bound one: where it is of use, and what else it needs."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect, Listening
from jgroups_py.protocols.fd_sock import FdSock
from jgroups_py.testing.bench import Bench


@pytest.mark.parametrize("properties", [{"external_addr": "192.0.2.7"}, {"external_port": 4711}])
def test_multicast_with_an_external_address_is_refused(properties: dict[str, object]) -> None:
    _, *rest = load("udp").layers
    with pytest.raises(ConfigError, match=r"of no use with IP multicast.*use TCP, or ip_mcast=false"):
        load([("UDP", properties), *rest])


def test_without_multicast_it_is_allowed() -> None:
    _, _, *rest = load("udp").layers
    transport = ("UDP", {"external_addr": "192.0.2.7", "ip_mcast": False})
    assert load([transport, ("TCPPING", {"initial_hosts": "a:1"}), *rest]).config_of("UDP").external_addr == "192.0.2.7"


def warnings(**properties: str) -> list[str]:
    return [warning for warning in load("tcp", properties).warnings if "FD_SOCK" in warning]


def test_a_listener_on_any_port_behind_nat_is_warned_of_and_one_on_a_port_that_is_set_is_not() -> None:
    (warning,) = warnings(external_addr="192.0.2.7")
    assert "which no proxy or NAT passes on; set start_port" in warning
    assert warnings(external_addr="192.0.2.7", watch_port="7850") == []
    assert warnings() == []


def test_the_listener_of_fd_sock_is_told_at_the_address_that_the_transport_tells() -> None:
    bench = Bench(FdSock())
    bench.transport.book[bench.me] = ("192.0.2.7", 17800)
    bench.down(Connect("demo"))
    bench.up(Listening(("10.0.0.1", 7850)))
    assert bench.stack.find(FdSock).listener == ("192.0.2.7", 7850)
