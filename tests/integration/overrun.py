"""A member behind its TCP connections: one peer floods it and is gone by a reset while the rest waits to be read.

A program of its own, because the harm to be shown is that it ends the whole process. The peer speaks ZMTP 3.1 with
its own hands. Ends well if a frame of another peer arrives afterwards.
"""
from __future__ import annotations

import socket
import struct
import threading
from time import sleep

from jgroups_py.model.units import millis
from jgroups_py.protocols.transport.protocol import TcpConfig
from jgroups_py.runtime.sockets.tcp import RECEIVE_QUEUE, TcpMesh, make_hello
from tests.runtime.helpers import OnLoop, eventually

HEARTBEAT_MS = 100
FRAMES = 16 * RECEIVE_QUEUE
FRAME = b"\x00\x05hello"
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def ready(hello: bytes) -> bytes:
    """The handshake's last word of a DEALER."""
    body = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", hello)):
        body += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return bytes([4, len(body)]) + body


def flood_and_reset(to: tuple[str, int]) -> None:
    """Connect, introduce, send more than is read ahead, break off without a goodbye."""
    peer = socket.create_connection(to)
    peer.sendall(GREETING)
    peer.sendall(ready(make_hello(("127.0.0.1", 9))))
    for _ in range(2):
        peer.sendall(FRAME * FRAMES)
        sleep(0.1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def main() -> None:
    """Block the loop while the peer comes and goes, then read on."""
    bench = OnLoop()
    frames: list[object] = []
    config = TcpConfig(bind_port=0, heartbeat_ns=millis(HEARTBEAT_MS))
    mesh = bench.run(lambda: TcpMesh(bench.loop, config, frames.extend, lambda level, text: None))
    free = threading.Event()
    blocked = threading.Thread(target=lambda: bench.run(free.wait))
    blocked.start()
    flood_and_reset(mesh.physical)
    sleep(5 * HEARTBEAT_MS / 1000)
    free.set()
    blocked.join()
    other = bench.run(lambda: TcpMesh(bench.loop, config, list, lambda level, text: None))
    bench.run(lambda: other.send(mesh.physical, [b"still there?"]))
    eventually(lambda: (b"still there?", other.physical) in frames)
    bench.run(other.close)
    bench.run(mesh.close)
    bench.close()


if __name__ == "__main__":
    main()
