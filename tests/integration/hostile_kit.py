"""Hostile frames for real members: what the simulator's attacker makes, sent over sockets of the loopback interface.

A Besieger captures what members multicast, and sends frames with the same headers and edge values, replays, and many
frames from new addresses. It uses addresses of its own only: against forged members' addresses only authentication
helps. For TCP it opens ZeroMQ connections as a member would; there it captures nothing, and draws all values.
"""
from __future__ import annotations

import socket
import struct
import threading
from random import Random
from time import monotonic, sleep
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import zmq

from jgroups_py import wire
from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.unicast.headers import UnicastData as Unicast
from jgroups_py.runtime.sockets.tcp import make_hello
from jgroups_py.simulator.attack.attacker import join_of, written
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.attack.value_pool import ValuePool
from tests.integration.members import Group

LOOPBACK = "127.0.0.1"
MCAST_ADDR = "239.8.8.8"
PACE_SECONDS = 0.005
KINDS = ("edges", "edges", "edges", "replays", "fragments", "unicasts", "joins")


class Besieger:
    """Attacks the members of a group until it is closed. frames: how many it sent."""

    def __init__(self, group: Group, per_second: int = 2000, seed: int = 1) -> None:
        self.rng = Random(seed)
        self.pool = ValuePool(Random(seed + 1))
        self.pool.large_ratio = 0.002
        self.forger = Forger(self.rng, claims_members=False)
        self.per_pace = max(1, round(per_second * PACE_SECONDS))
        spec = load(group.stack, group.properties)
        self.stack: Any = SimpleNamespace(layers=spec.build(), me=Address(bytes(16)), transport=SimpleNamespace(
            cluster=wire.cluster_id(group.cluster)))
        self.frames = 0
        self.over = threading.Event()
        self.context: zmq.Context[Any] | None = None
        self.dealers: list[zmq.Socket[bytes]] = []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if "mcast_port" in group.properties:
            self._listen(int(str(group.properties["mcast_port"])))
        else:
            self._connect(int(str(group.properties["bind_port"])), len(group.members))
        self.thread = threading.Thread(target=self._attack, daemon=True)

    def _listen(self, port: int) -> None:
        self.group = (MCAST_ADDR, port)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(self.group)
        joined = struct.pack("4s4s", socket.inet_aton(MCAST_ADDR), socket.inet_aton(LOOPBACK))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        self.sock.setblocking(False)

    def _connect(self, first: int, members: int) -> None:
        self.context = zmq.Context()
        for port in range(first, first + members):
            dealer = self.context.socket(zmq.DEALER)
            dealer.set(zmq.ROUTING_ID, make_hello((LOOPBACK, 9)))
            dealer.set(zmq.LINGER, 0)
            dealer.connect(f"tcp://{LOOPBACK}:{port}")
            self.dealers.append(dealer)

    # --- a block of attack --------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self.thread.join()
        for dealer in self.dealers:
            dealer.close()
        if self.context is not None:
            self.context.term()
        self.sock.close()

    def _attack(self) -> None:
        kind, until = "edges", 0.0
        while not self.over.is_set():
            if monotonic() > until:
                kind, until = self.rng.choice(KINDS), monotonic() + 0.5
            if not self.dealers:
                self._capture()
            for _ in range(self.per_pace):
                self._send(self.make(kind))
            sleep(PACE_SECONDS)

    def _capture(self) -> None:
        for _ in range(50):
            try:
                data = self.sock.recv(1 << 16)
                batch = wire.decode_frame(data, self.stack.transport.cluster, self.pool.addresses)
            except (BlockingIOError, WireError):
                return
            self.pool.raw.append(data)
            self.pool.record(batch)
            if batch.src not in self.pool.members:
                self.pool.members = [*self.pool.members[-20:], batch.src]

    def make(self, kind: str) -> bytes:
        """One frame."""
        non_member = Address(self.rng.randbytes(16), "non-member")
        match kind:
            case "replays" if self.pool.raw:
                return self.forger.replayed(self.pool)
            case "fragments":
                headers = (Fragment(self.rng.getrandbits(31), 0, 4096, 256 << 20, 0),)
                return written(self.pool, self.stack, non_member.raw, None, headers, (b"x" * 40,))
            case "unicasts" if self.pool.members:
                dest = self.rng.choice(self.pool.members).raw
                return written(self.pool, self.stack, non_member.raw, dest, (Unicast(1, 1, 1),), (b"x" * 100,))
            case "joins" if self.pool.members:
                dest = self.rng.choice(self.pool.members).raw
                return written(self.pool, self.stack, non_member.raw, dest, (join_of(non_member, (LOOPBACK, 9)),), ())
        return self.forger.frame(self.pool, self.stack)

    def _send(self, frame: bytes) -> None:
        try:
            if self.dealers:
                self.rng.choice(self.dealers).send(frame, zmq.NOBLOCK)
            else:
                self.sock.sendto(frame[:65_507], self.group)
            self.frames += 1
        except (zmq.Again, OSError):
            pass                                         # a full buffer: attackers lose frames too
