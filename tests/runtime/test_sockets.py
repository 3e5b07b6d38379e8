"""UDP and TCP sockets, on the loopback interface."""
from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator

import attrs
import pytest
import zmq

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.transport.protocol import TcpConfig, UdpConfig
from jgroups_py.runtime.sockets import tcp
from jgroups_py.runtime.sockets.interfaces import host_address, interfaces, resolve
from jgroups_py.runtime.sockets.tcp import TcpMesh, make_hello, parse_hello
from jgroups_py.runtime.sockets.udp import READS_PER_ROUND, UdpSockets, bound_in_range
from jgroups_py.system.free_ports import free_range
from jgroups_py.wire import SOURCE_OFFSET
from tests.runtime.helpers import OnLoop, eventually
from tests.runtime.proxies import Proxy

pytestmark = pytest.mark.real

Frames = list[tuple[bytes, PhysicalAddress | None]]


@attrs.define
class End:
    """One member's sockets and what they received."""

    sockets: UdpSockets | TcpMesh
    frames: Frames
    notes: list[tuple[str, str]]

    def datas(self) -> list[bytes]:
        return [data for data, _ in self.frames]


class Bench(OnLoop):
    """Sockets of any kind on one loop."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[End] = []

    def open(self, make: Callable[[Frames, list[tuple[str, str]]], UdpSockets | TcpMesh]) -> End:
        frames: Frames = []
        notes: list[tuple[str, str]] = []
        end = End(self.run(lambda: make(frames, notes)), frames, notes)     # type: ignore[arg-type]
        self.ends.append(end)
        return end

    def udp(self, me: bytes = bytes(16), **properties: object) -> End:
        config = UdpConfig(**properties)                     # type: ignore[arg-type]
        return self.open(lambda frames, notes: UdpSockets(
            self.loop, config, me, frames.extend, lambda level, text: notes.append((level, text))))

    def tcp(self, **properties: object) -> End:
        config = TcpConfig(**{"bind_port": 0, **properties})         # type: ignore[arg-type]
        return self.open(lambda frames, notes: TcpMesh(
            self.loop, config, frames.extend, lambda level, text: notes.append((level, text))))

    def send(self, end: End, to: tuple[str, int] | None, *buffers: bytes) -> None:
        self.run(lambda: end.sockets.send(to, list(buffers)))

    def close(self) -> None:
        for end in self.ends:
            self.run(end.sockets.close)
        super().close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()
    assert made.host.errors == []


# --- UDP ------------------------------------------------------------------------------------------------------------

def test_a_unicast_arrives_whole_with_the_senders_address(bench):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    bench.send(a, b.sockets.physical, b"head", b"", b"tail")
    eventually(lambda: b.frames)
    assert b.frames == [(b"headtail", a.sockets.physical)]


def test_a_multicast_arrives_at_all_members_on_this_host(bench):
    port = free_range()
    ends = [bench.udp(mcast_port=port) for _ in range(3)]
    bench.send(ends[0], None, b"to all")
    eventually(lambda: all(end.frames for end in ends))
    assert [end.frames for end in ends] == [[(b"to all", ends[0].sockets.physical)]] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system's filter is Linux's")
def test_own_multicasts_do_not_come_back_but_all_others_and_all_garbage_do(bench):
    port, mine, other = free_range(), b"A" * 16, b"A" * 15 + b"B"
    a, b = bench.udp(mine, mcast_port=port), bench.udp(other, mcast_port=port)
    frames = [bytes(SOURCE_OFFSET) + source + b"rest" for source in (mine, other)]
    short = [bytes(SOURCE_OFFSET) + mine[:15], b"", b"x"]
    for data in (*frames, *short):
        bench.send(a, None, data)
    eventually(lambda: len(a.frames) == 4 and len(b.frames) == 4)
    assert a.datas() == [frames[1], *short]
    assert b.datas() == [frames[0], *short]


def test_frames_of_another_group_on_the_same_port_are_dropped(bench):
    port = free_range()
    a, b = bench.udp(mcast_port=port), bench.udp(mcast_port=port, mcast_addr="239.8.8.9")
    bench.send(b, None, b"theirs")
    bench.send(a, None, b"ours")
    eventually(lambda: a.frames and b.frames)
    assert (a.datas(), b.datas()) == ([b"ours"], [b"theirs"])


def test_more_buffers_than_the_system_gathers_still_make_one_datagram(bench):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    pieces = [bytes([n % 256]) for n in range(5000)]
    bench.send(a, b.sockets.physical, *pieces)
    eventually(lambda: b.frames)
    assert b.datas() == [b"".join(pieces)]


def test_many_datagrams_are_read_in_few_rounds(bench):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    number = 3 * READS_PER_ROUND
    bench.run(lambda: [a.sockets.send(b.sockets.physical, [str(n).encode()]) for n in range(number)])
    eventually(lambda: len(b.frames) == number)
    assert b.datas() == [str(n).encode() for n in range(number)]


def test_a_datagram_to_a_closed_port_harms_no_member(bench):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        nowhere = gone.getsockname()
    for _ in range(3):
        bench.send(a, nowhere, b"lost")
    bench.send(a, b.sockets.physical, b"found")
    eventually(lambda: b.frames)


def test_what_cannot_be_sent_is_counted_and_noted_once(bench):
    a = bench.udp(ip_mcast=False)
    for _ in range(3):
        bench.send(a, ("127.0.0.1", 9), bytes(70_000))
    assert a.sockets.counters == {"send_EMSGSIZE_dropped": 3}
    assert len([text for level, text in a.notes if level == "warning"]) == 1


def test_a_buffer_that_the_system_does_not_give_is_noted(bench):
    a = bench.udp(ip_mcast=False, ucast_recv_buf_bytes=1 << 30)
    assert any("ucast_recv_buf_size" in text for _, text in a.notes)


def test_a_taken_port_is_passed_over_within_the_range_and_an_error_beyond(bench):
    with bound_in_range(socket.SOCK_DGRAM, "127.0.0.1", 0, 0) as taken:
        port = taken.getsockname()[1]
        a = bench.udp(ip_mcast=False, bind_port=port, port_range=20)
        assert a.sockets.physical[1] > port
        with pytest.raises(OSError, match="cannot bind"):
            bench.udp(ip_mcast=False, bind_port=port, port_range=0)


def test_the_external_address_is_announced_to_others(bench):
    a = bench.udp(ip_mcast=False, external_addr="192.0.2.7", external_port=4711)
    assert a.sockets.physical == ("192.0.2.7", 4711)


# --- TCP ------------------------------------------------------------------------------------------------------------

def test_a_frame_opens_the_connection_that_it_needs(bench):
    a, b = bench.tcp(), bench.tcp()
    bench.send(a, b.sockets.physical, b"head", b"tail")
    eventually(lambda: b.frames)
    assert b.frames == [(b"headtail", a.sockets.physical)]


def test_frames_keep_their_order_while_the_connection_comes_up_and_after(bench):
    a, b = bench.tcp(), bench.tcp()
    for number in range(200):
        bench.send(a, b.sockets.physical, str(number).encode())
    eventually(lambda: len(b.frames) == 200)
    assert b.datas() == [str(number).encode() for number in range(200)]


def test_a_peer_that_is_not_there_does_not_hold_up_the_others(bench):
    a, b = bench.tcp(), bench.tcp()
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        nowhere = gone.getsockname()
    for _ in range(50):
        bench.send(a, nowhere, bytes(100_000))
    bench.send(a, b.sockets.physical, b"found")
    eventually(lambda: b.frames)
    assert a.sockets.counters["send_queue_full_dropped"] > 30


def test_a_peer_that_comes_back_on_the_same_port_is_reached_again(bench):
    a, b = bench.tcp(), bench.tcp()
    where = b.sockets.physical
    bench.send(a, where, b"1")
    eventually(lambda: b.frames)
    bench.run(b.sockets.close)
    bench.ends.remove(b)
    eventually(lambda: is_free(where))                       # ZeroMQ closes its listener on its own thread
    c = bench.tcp(bind_port=where[1], port_range=0)

    def reached() -> bool:
        bench.send(a, where, b"2")
        return bool(c.frames)

    eventually(reached)
    assert c.datas()[0] == b"2"


def test_a_port_that_was_dead_is_reached_at_once_when_its_new_owner_connects_to_us(bench):
    a = bench.tcp(reconnect_ns=seconds(60), reconnect_max_ns=seconds(60))
    with bound_in_range(socket.SOCK_STREAM, "127.0.0.1", 0, 0) as reserved:
        where = reserved.getsockname()
        bench.send(a, where, b"too early")
        eventually(lambda: a.sockets.counters.get("connections_opened"))
    c = bench.tcp(bind_port=where[1], port_range=0)
    bench.send(c, a.sockets.physical, b"I am here")
    eventually(lambda: a.frames)
    bench.send(a, where, b"welcome")
    eventually(lambda: b"welcome" in c.datas())


def test_a_connection_that_is_no_members_is_refused_and_counted(bench):
    a = bench.tcp()
    with zmq.Context() as context, context.socket(zmq.DEALER) as outside:
        outside.set(zmq.LINGER, 0)
        outside.connect("tcp://{}:{}".format(*a.sockets.physical))
        outside.send(b"no hello")
        eventually(lambda: a.sockets.counters.get("refused_messages_dropped"))
    assert a.frames == []
    assert a.sockets.counters["foreign_connections_refused"] == 1


def test_bytes_that_are_not_even_a_handshake_are_counted(bench):
    a, b = bench.tcp(), bench.tcp()
    with socket.create_connection(a.sockets.physical) as outside:
        outside.sendall(b"\xff" + bytes(8) + b"\x7f\x03" + bytes(60))
    eventually(lambda: a.sockets.counters.get("handshakes_failed"))
    bench.send(b, a.sockets.physical, b"still alive")
    eventually(lambda: a.frames)


def test_frames_pass_a_tcp_proxy(bench):
    b = bench.tcp()
    with Proxy(b.sockets.physical[1]) as proxy:
        a = bench.tcp()
        bench.send(a, ("127.0.0.1", proxy.port), b"through")
        eventually(lambda: b.frames)
    assert b.frames == [(b"through", a.sockets.physical)]


def test_both_ways_to_a_peer_may_be_used_at_once(bench):
    b = bench.tcp()
    with Proxy(b.sockets.physical[1]) as proxy:
        a = bench.tcp()
        for _ in range(20):
            bench.send(a, ("127.0.0.1", proxy.port), b"proxy")
            bench.send(a, b.sockets.physical, b"direct")
        eventually(lambda: len(b.frames) == 40)


def test_tcp_passes_over_a_taken_port_within_the_range(bench):
    a = bench.tcp()
    port = a.sockets.physical[1]
    b = bench.tcp(bind_port=port, port_range=20)
    assert b.sockets.physical[1] > port
    with pytest.raises(OSError, match="cannot bind"):
        bench.tcp(bind_port=port, port_range=0)


@pytest.mark.parametrize("routing_id", [b"", b"\0abcd", b"JP1", b"JP1xxxx", b"JP1xxxxhost", b"JP1xxxxhost:x",
                                        b"JP1xxxx:7800", b"JP1xxxxhost:70000", b"JP1xxxx\xff\xfe:7800"])
def test_a_routing_id_without_meaning_is_no_hello(routing_id):
    assert parse_hello(routing_id) is None


def test_two_connections_of_one_member_have_different_routing_ids():
    assert make_hello(("10.0.0.1", 7800)) != make_hello(("10.0.0.1", 7800))


# --- addresses ------------------------------------------------------------------------------------------------------

def test_symbolic_addresses_are_those_of_an_interface():
    for name, address in interfaces():
        assert resolve(f"match-interface:{name}") in [found for other, found in interfaces() if other == name]
        assert resolve(f"match-address:{address.partition('%')[0].replace('.', '[.]')}") == address
    assert resolve("nothing.invalid,127.0.0.1") == "127.0.0.1"


def test_an_address_that_no_interface_has_is_an_error_that_lists_the_addresses():
    with pytest.raises(ConfigError, match=r"there are: .*127\.0\.0\.1"):
        resolve("match-interface:no-such-interface")
    assert host_address("no.such.host.invalid") is None


def is_free(where: tuple[str, int]) -> bool:
    try:
        bound_in_range(socket.SOCK_STREAM, *where, 0).close()
    except OSError:
        return False
    return True


def test_frames_that_no_connection_took_in_time_are_dropped(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tcp, "WAIT_NS", millis(100))
    one = bench.tcp()
    closed = ("127.0.0.1", free_range())
    bench.send(one, closed, b"lost")
    eventually(lambda: one.sockets.counters.get("not_connected_dropped") == 1)
