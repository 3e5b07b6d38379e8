"""Sockets of both IP versions: the loopback interface of IPv6, addresses in the forms that people write, scopes."""
from __future__ import annotations

import socket

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import LinkUp, Listening
from jgroups_py.model.outputs import LOCAL, Listen
from jgroups_py.runtime.sockets.interfaces import interfaces, resolve
from jgroups_py.runtime.sockets.ip import socket_address, split_scope
from jgroups_py.runtime.sockets.tcp import make_hello, parse_hello
from tests.runtime.helpers import eventually
from tests.runtime.test_links import B, two
from tests.runtime.test_sockets import bench

pytestmark = pytest.mark.real
__all__ = ["bench", "two"]


def test_a_mesh_of_ipv6_carries_frames_both_ways(bench):
    a, b = bench.tcp(bind_addr="::1"), bench.tcp(bind_addr="[0:0:0:0:0:0:0:1]")
    assert (a.sockets.physical[0], b.sockets.physical[0]) == ("::1", "::1")
    bench.send(a, b.sockets.physical, b"there")
    eventually(lambda: b.frames)
    assert b.frames == [(b"there", a.sockets.physical)]
    bench.send(b, a.sockets.physical, b"back")
    eventually(lambda: a.frames)
    assert a.frames == [(b"back", b.sockets.physical)]


def test_tcp_connects_to_both_versions_whatever_it_has_bound(bench):
    four, six = bench.tcp(), bench.tcp(bind_addr="::1")
    bench.send(four, six.sockets.physical, b"to six")
    bench.send(six, four.sockets.physical, b"to four")
    eventually(lambda: six.frames and four.frames)
    assert (six.frames, four.frames) == ([(b"to six", four.sockets.physical)], [(b"to four", six.sockets.physical)])


def test_datagrams_of_ipv6_show_where_they_come_from_by_host_and_port(bench):
    a, b = (bench.udp(bind_addr="::1", ip_mcast=False) for _ in range(2))
    bench.send(a, b.sockets.physical, b"head", b"tail")
    eventually(lambda: b.frames)
    assert b.frames == [(b"headtail", a.sockets.physical)]
    assert a.sockets.physical[0] == "::1"


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1"])
def test_a_datagram_to_the_other_version_is_dropped_and_counted(bench, bound):
    a, b = bench.udp(bind_addr=bound, ip_mcast=False), bench.udp(bind_addr=bound, ip_mcast=False)
    other = "::1" if bound == "127.0.0.1" else "127.0.0.1"
    bench.send(a, (other, 7800), b"lost")
    assert a.sockets.counters["other_ip_version_dropped"] == 1
    bench.send(a, b.sockets.physical, b"found")
    eventually(lambda: b.frames)
    assert b.datas() == [b"found"]


def test_an_ipv4_address_written_as_one_of_ipv6_is_reached_by_ipv4(bench):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    bench.send(a, (f"::ffff:{b.sockets.physical[0]}", b.sockets.physical[1]), b"found")
    eventually(lambda: b.frames)
    assert b.datas() == [b"found"]


def test_links_are_opened_over_ipv6_too(two):
    two.run(lambda: two.b.listen(Listen(LOCAL, "::1", 0, 0)))
    listening = two.events_b[-1]
    assert isinstance(listening, Listening)
    assert listening.physical[0] == "::1"
    two.open(listening.physical)
    eventually(lambda: two.events_a)
    assert two.events_a == [LinkUp(7, B)]


def test_multicasts_of_ipv6_on_the_loopback_interface_are_a_wrong_configuration(bench):
    with pytest.raises(ConfigError, match=r"loopback interface has no IPv6 multicast; bind_addr=127\.0\.0\.1 with"):
        bench.udp(bind_addr="::1", mcast_addr="ff15::8:8:8")
    with pytest.raises(ConfigError, match="loopback interface has no IPv6 multicast"):
        bench.udp(bind_addr="loopback", mcast_addr="ff15::8:8:8")


@pytest.mark.parametrize(("bind_addr", "problem"), [
    ("fe80::1%nowhere", "no interface 'nowhere' .there are: .*lo"),
    ("fe80::dead:beef", "link-local and is an address of no interface of this machine; write it with its interface"),
    ("2001:db8::77%lo", None),
])
def test_a_wrong_address_of_ipv6_is_an_error_that_says_what_is_there(bench, bind_addr, problem):
    with pytest.raises(ConfigError if problem else OSError, match=problem or "cannot bind .*2001:db8::77"):
        bench.tcp(bind_addr=bind_addr)


@pytest.mark.parametrize(("written", "meant"), [
    ("::1", "::1"), ("[::1]", "::1"), ("0::0:1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"),
    ("loopback", "127.0.0.1"), ("nothing.invalid, ::1", "::1"),
])
def test_an_address_is_taken_in_every_form_and_ipv4_comes_first(written, meant):
    assert resolve(written) == meant


def test_a_version_can_be_asked_for():
    assert (resolve("loopback", 6), resolve("loopback", 4)) == ("::1", "127.0.0.1")
    with pytest.raises(ConfigError, match="no interface of this machine has such an IPv6 address"):
        resolve("127.0.0.1", 6)


def test_the_interfaces_show_their_addresses_of_both_versions():
    assert ("lo", "127.0.0.1") in interfaces()
    assert ("lo", "::1") in interfaces()


def test_a_scope_is_of_this_host_and_given_to_link_local_addresses_only():
    index = socket.if_nametoindex("lo")
    assert split_scope("fe80::1%lo") == ("fe80::1", index)
    assert socket_address("fe80::1", 7, index) == ("fe80::1", 7, 0, index)
    assert socket_address("fd00::1", 7, index) == ("fd00::1", 7, 0, 0)


def test_the_routing_id_of_a_connection_carries_it_without_brackets() -> None:
    assert make_hello(("fd00::1", 7800))[7:] == b"fd00::1:7800"
    assert parse_hello(make_hello(("fd00::1", 7800))) == ("fd00::1", 7800)
