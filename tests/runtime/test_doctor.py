"""The doctor on one host and over loopback: each planted fault is found, and a healthy stack has none."""
from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import jgroups_py as jg
from jgroups_py.cli import main
from jgroups_py.config.load import load
from jgroups_py.model.errors import ChannelError
from jgroups_py.ops.control import ControlSocket
from jgroups_py.ops.doctor import host, pair
from jgroups_py.ops.doctor.finding import BAD, OK, WARN, Diagnosis
from jgroups_py.system.free_ports import free_range

pytestmark = pytest.mark.real


def examined(stack: str = "udp", **properties: object) -> dict[str, Diagnosis]:
    """The worst finding of each check."""
    worst: dict[str, Diagnosis] = {}
    for finding in host.examined(load(stack, properties)):
        before = worst.get(finding.check)
        if before is None or (OK, WARN, BAD).index(finding.level) >= (OK, WARN, BAD).index(before.level):
            worst[finding.check] = finding
    return worst


@contextmanager
def taken(port: int = 0) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server.getsockname()[1]


def test_a_stack_on_loopback_is_healthy_and_alone():
    found = examined(mcast_port=free_range())
    assert {check for check, finding in found.items() if finding.level == BAD} == set()
    assert found["multicast"].level == OK
    assert (found["reach"].level, "site_local" in found["reach"].remedy) == (WARN, True)


def test_an_address_of_another_host_is_bad():
    assert [finding.level for finding in examined(bind_addr="192.0.2.77").values()] == [BAD]
    assert [finding.level for finding in examined(bind_addr="match-interface:none").values()] == [BAD]


def test_a_stack_on_the_loopback_of_ipv6_is_examined_there():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        found = examined("tcp", bind_addr="::1", bind_port=port, initial_hosts=f"[::1]:{port}")
        assert (found["port"].level, f"[::1]:{port} is in use" in found["port"].what) == (WARN, True)
        assert found["initial_hosts"].what == f"something listens at [::1]:{port}"
    found = examined("tcp", bind_addr="::1", bind_port=port, initial_hosts=f"[::1]:{port}")
    assert {check for check, finding in found.items() if finding.level == BAD} == set()
    assert found["initial_hosts"].what == f"[::1]:{port} is reached; nothing listens there now"


def test_ports_that_are_taken():
    with taken() as port:
        assert examined("tcp", bind_port=port)["port"].level == WARN
    assert examined("tcp", bind_port=port)["port"].level == OK
    with taken() as port:
        spec = load("tcp", {"bind_port": port})
        transport = attrs.evolve(spec.layers[0], config=attrs.evolve(spec.layers[0].config, port_range=0))
        worst = list(host._port(attrs.evolve(spec, layers=(transport, *spec.layers[1:])), "127.0.0.1"))
        assert [finding.level for finding in worst] == [BAD]


def test_a_multicast_that_nobody_hears_is_bad(monkeypatch: pytest.MonkeyPatch):
    transport = load("udp", {"mcast_port": free_range()}).layers[0].config
    monkeypatch.setattr(host, "HEAR_SECONDS", 0.0)
    assert host._multicast(transport, "127.0.0.1").level == BAD


def test_a_member_that_listens_at_the_port_gets_nothing_from_the_doctor():
    port = free_range()
    with jg.JChannel("udp", "A", {"mcast_port": port}) as channel:
        channel.connect("chat")
        assert examined(mcast_port=port)["multicast"].level == OK
        assert sum(number for name, number in channel.stats()["UDP"].items() if name.endswith("_dropped")) == 0


def test_small_buffers(monkeypatch: pytest.MonkeyPatch):
    transport = load("udp").layers[0].config
    assert [f.level for f in host._buffers(attrs.evolve(transport, ucast_recv_buf_bytes=1 << 30))] == [WARN]
    small = attrs.evolve(transport, ucast_recv_buf_bytes=4096, mcast_recv_buf_bytes=4096)
    assert [f.level for f in host._buffers(small)] == [OK]


def test_a_name_that_is_on_loopback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host.socket, "gethostname", lambda: "thishost")
    monkeypatch.setattr(host, "host_address", lambda name, wanted: {4: "127.0.1.1", 6: "::1"}[wanted])
    assert [f.level for f in host._own_name("thishost", "::1")] == [BAD]
    assert [f.level for f in host._own_name("fd00::1", "fd00::1")] == [OK]
    assert [f.level for f in host._own_name("thishost", "127.0.1.1")] == [BAD]
    assert [f.level for f in host._own_name("10.0.0.1", "10.0.0.1")] == [OK]


def test_initial_hosts(tmp_path: Path):
    with taken() as port:
        assert examined("tcp", initial_hosts=f"127.0.0.1[{port}]")["initial_hosts"].what.startswith("something listens")
    assert "nothing listens" in examined("tcp", initial_hosts=f"127.0.0.1[{port}]")["initial_hosts"].what
    unknown = examined("tcp", initial_hosts="no-such-host.invalid[7800]")
    assert (unknown["initial_hosts"].level, "no address" in unknown["initial_hosts"].what) == (BAD, True)


def test_the_folder_of_the_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "SLOW_SYNC_SECONDS", 60.0)
    assert examined("nyc", hold_dir=tmp_path / "hold", hold_bytes="1M")["hold_dir"].level == OK
    monkeypatch.setattr(host, "SLOW_SYNC_SECONDS", 0.0)
    slow = examined("nyc", hold_dir=tmp_path / "hold", hold_bytes="1M")["hold_dir"]
    assert (slow.level, "through to disk took" in slow.what) == (WARN, True)
    assert list((tmp_path / "hold").iterdir()) == []
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert examined("nyc", hold_dir=in_the_way)["hold_dir"].level == BAD
    monkeypatch.setattr(host.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1 << 20}))
    full = examined("nyc", hold_dir=tmp_path / "hold", hold_bytes="2M")["hold_dir"]
    assert (full.level, "1,048,576 bytes left" in full.what) == (BAD, True)


def test_two_members_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    port = str(free_range())
    with jg.JChannel("udp", "A", {"mcast_port": port}) as one, jg.JChannel("udp", "A", {"mcast_port": port}) as two, \
            ControlSocket(one, tmp_path / "a.sock"):
        one.connect("chat")
        arguments = ["doctor", "udp", "-p", f"mcast_port={port}", "--control", str(tmp_path / "a.sock"), "--json"]
        assert main(arguments) == 0
        two.connect("chat")
        one.wait_for(members=2)
        assert main(arguments) == 1
    document = json.loads(capsys.readouterr().out.partition("\n{")[2].join(("{", "")))
    assert [f["what"] for f in document["findings"] if f["level"] == BAD] == ["chat has several members named A"]


# --- two hosts, here both on loopback ---------------------------------------------------------------------------------

class Listening:
    """`listen` on a thread."""

    def __init__(self, stack: str = "udp", host: str = "127.0.0.1", **properties: object) -> None:
        self.spec = load(stack, {"mcast_port": free_range(), **properties} if stack == "udp" else properties)
        self.host = host
        with taken() as self.port:
            pass
        self.found: list[str] = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.found.append(pair.listen(self.spec, self.port, 30))
        except (ChannelError, OSError) as error:
            self.found.append(str(error))

    def examined(self, spec: Any = None) -> dict[str, list[str]]:
        deadline = time.monotonic() + 30
        while True:                                          # until it listens
            found = list(pair.examined(spec or self.spec, self.host, self.port))
            if found[0].level == OK or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.thread.join(30)
        levels: dict[str, list[str]] = {}
        for finding in found:
            levels.setdefault(finding.check, []).append(finding.level)
        return levels


def test_a_healthy_pair():
    listening = Listening()
    assert listening.examined() == {
        "peer": [OK], "clock": [OK], "datagrams": [OK], "multicast": [OK, OK]}
    assert listening.found == ["127.0.0.1"]


def test_a_pair_that_speaks_ipv6():
    with taken() as free:
        pass
    listening = Listening("tcp", "::1", bind_addr="::1", bind_port=free)
    assert listening.examined() == {"peer": [OK], "clock": [OK], "transport": [OK], "datagrams": [OK]}
    assert listening.found == ["::1"]


def test_a_pair_in_two_multicast_groups():
    assert Listening().examined(load("udp", {"mcast_port": free_range()}))["multicast"] == [BAD, BAD]


def test_datagrams_that_are_cut_off_at_a_size(monkeypatch: pytest.MonkeyPatch):
    whole = pair._hears
    monkeypatch.setattr(pair, "HEAR_SECONDS", 0.2)
    sizes: list[int] = []

    class Short(socket.socket):
        def sendto(self, data: bytes, *where: Any) -> int:
            sizes.append(len(data))
            return len(data) if len(data) > 1472 else super().sendto(data, *where)
    made = pair.ExaminationSockets.__init__

    def init(self: Any, spec: Any) -> None:
        made(self, spec)
        short = Short(fileno=os.dup(self.datagrams.fileno()))
        self.datagrams.close()
        self.datagrams = short
    monkeypatch.setattr(pair.ExaminationSockets, "__init__", init)
    assert Listening().examined()["datagrams"] == [BAD]
    assert max(sizes) == 8900, "larger ones are not tried"
    assert pair._hears is whole


def test_a_clock_that_is_five_seconds_off(monkeypatch: pytest.MonkeyPatch):
    answer = pair._answer
    monkeypatch.setattr(pair, "_answer", lambda question, *rest: {"clock": time.time() + 5}
                        if question == {"ask": "clock"} else answer(question, *rest))
    assert Listening().examined()["clock"] == [WARN]


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b'{"ask": "clock"' + b" " * 5000 + b"}\n"])
def test_a_stranger_ends_the_listening_with_a_reason(line: bytes):
    listening = Listening()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", listening.port)) as client:
                client.sendall(line)
                client.recv(1)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    listening.thread.join(30)
    assert listening.found == ["127.0.0.1 does not speak the doctor's language"]


@pytest.mark.parametrize("question", [{}, {"ask": "datagram", "token": "short", "port": 1, "bytes": 1}, {"ask": 7},
                                      {"ask": "multicast", "token": ["x"]}])
def test_questions_that_make_no_sense_send_nothing(question: dict[str, Any]):
    sockets = pair.ExaminationSockets(load("udp", {"mcast_port": free_range()}))
    try:
        assert pair._answer(question, sockets, "127.0.0.1") == {"error": "unknown question"}
    finally:
        sockets.close()
