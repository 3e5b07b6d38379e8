"""NameService: names among processes without a group, on UDP ports of its own."""
from __future__ import annotations

import socket

import pytest

from jgroups_py.blocks.name_service import NameService
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols.name_service.res import NameEntry, encode_frames
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]
FAST = {"self_ns": "20ms", "neighbours_ns": "40ms", "timeout_ns": "300ms"}


def test_names_go_round_through_one_another_and_go_with_their_owners() -> None:
    ports = [free_range() for _ in range(3)]
    a = NameService("A", f"127.0.0.1:{ports[0]}", **FAST)
    b = NameService("B", f"127.0.0.1:{ports[1]}", bootstrap=f"localhost:{ports[0]}", **FAST)
    c = NameService("C", f"127.0.0.1:{ports[2]}", bootstrap=f"just:wrong,127.0.0.1:{ports[1]}", **FAST)
    with a, c:
        eventually(lambda: a.find("C") == ("127.0.0.1", ports[2]) and c.find("A") == ("127.0.0.1", ports[0]))
        assert c.problems == ["'just:wrong' is no host:port with a port of 1 to 65535"]
        b.close()
        eventually(lambda: list(a.known()) == [("C", ports[2])] and a.neighbours() == [("127.0.0.1", ports[2])])


def test_names_go_round_by_ipv6() -> None:
    ports = [free_range() for _ in range(3)]
    with NameService("A", f"[::1]:{ports[0]}", **FAST) as a, \
            NameService("B", f"[::]:{ports[1]}", bootstrap=f"[::1]:{ports[0]}", **FAST) as b, \
            NameService("C", f"[::1]:{ports[2]}", bootstrap=f"[::1]:{ports[1]}", **FAST) as c:
        eventually(lambda: a.find("C") == ("::1", ports[2]) and c.find("A") == ("::1", ports[0]))
        eventually(lambda: a.find("B") == ("::1", ports[1]) and b.find("C") == ("::1", ports[2]))
        assert set(a.neighbours()) == {("::1", ports[1]), ("::1", ports[2])}


def test_a_name_of_the_other_ip_version_is_known_and_gets_no_frames() -> None:
    ports = [free_range() for _ in range(2)]
    with NameService("A", f"[::1]:{ports[0]}", bootstrap=f"127.0.0.1:{ports[1]}", **FAST) as a, \
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        [frame] = encode_frames([NameEntry("X", "10.0.0.9", 9, 0)])
        other.sendto(frame, ("::1", ports[0]))
        eventually(lambda: a.find("X") == ("10.0.0.9", 9) and a.counters.get("other_ip_version_dropped", 0) > 1)
        assert "not_sent" not in a.counters


def test_an_address_that_no_interface_has_is_refused() -> None:
    for bind, error in (("[2001:db8::1]:7000", OSError), ("no-such-host.invalid:7000", ConfigError)):
        with pytest.raises(error):
            NameService("A", bind)


def test_accept_4_6_a_wildcard_becomes_the_address_that_the_frame_came_from() -> None:
    port = free_range()
    with NameService("A", f"127.0.0.1:{port}", **FAST) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.3", 0))
        [frame] = encode_frames([NameEntry("X", "0.0.0.0", 9, 0, True)])
        other.sendto(frame, ("127.0.0.1", port))
        other.sendto(b"no frame", ("127.0.0.1", port))
        eventually(lambda: a.find("X") == ("127.0.0.3", 9) and a.counters.get("frames_malformed") == 1)


def test_a_service_without_a_name_or_on_a_taken_port_is_refused() -> None:
    with pytest.raises(ConfigError, match="has a name"):
        NameService("", "127.0.0.1:1")
    with pytest.raises(ConfigError, match="21 entries"):
        NameService("A", "127.0.0.1:1", bootstrap=",".join(f"h{n}:1" for n in range(21)))
    port = free_range()
    with NameService("A", f"127.0.0.1:{port}"), pytest.raises(OSError):
        NameService("B", f"127.0.0.1:{port}")
