"""The cases of conformance over sockets: against a broker that this process has started, or any other one.

`python -m tests.runtime.mqtt.sockets HOST:PORT [3.1.1|5] [CASE...]` runs them against a broker and prints a line each.
It has to refuse subscriptions to `test/nosubscribe`, and to want a keep-alive of 60 s at most; one that does neither
fails the cases about that.
"""
from __future__ import annotations

import os
import selectors
import socket
import sys
from time import monotonic

import attrs

from jgroups_py.blocks.mqtt.codec.packets import MqttError
from tests.unit.blocks.mqtt import cases_3_1_1, cases_5
from tests.unit.blocks.mqtt.conformance import Link

CASES = {"3.1.1": cases_3_1_1.CASES, "5": cases_5.CASES}
MOST_BYTES = 1 << 16


class SocketLink:
    """A TCP connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(None)
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass                                         # `receive` reports it, after what came before

    def receive(self, within_s: float) -> bytes | None:
        self._socket.settimeout(max(within_s, 0.001))
        try:
            data = self._socket.recv(MOST_BYTES)
        except TimeoutError:
            return None
        except ConnectionResetError:
            data = b""
        if not data:
            self._socket.close()
        return data

    def close(self) -> None:
        self._socket.close()


@attrs.frozen
class SocketServer:
    """A broker at an address."""

    host: str
    port: int
    prefix: str = ""

    def connect(self) -> Link:
        return SocketLink((self.host, self.port))

    def now_s(self) -> float:
        return monotonic()

    def pass_time(self, seconds: float) -> None:
        """Intervals of the standard are whole seconds of the broker's own clock."""
        with selectors.DefaultSelector() as nothing:
            nothing.select(seconds)


def main(words: list[str]) -> int:
    """The command."""
    host, _, port = words[0].rpartition(":")
    wanted = words[1:]
    versions = [version for version in CASES if version in wanted] or list(CASES)
    names = [word for word in wanted if word not in CASES]
    failed = 0
    for version in versions:
        passed = 0
        chosen = [case for case in CASES[version] if not names or case.__name__ in names]
        for case in chosen:
            server = SocketServer(host, int(port), f"{os.getpid()}-{version[0]}-{case.__name__}/")
            began_s = monotonic()
            try:
                case(server)
                outcome = "passed"
                passed += 1
            except (AssertionError, MqttError, OSError) as error:
                outcome = f"FAILED: {type(error).__name__} {error}"
            sys.stdout.write(f"{version:<6} {case.__name__:<26} {monotonic() - began_s:5.1f} s  {outcome[:300]}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{version}: {passed} of {len(chosen)}\n")
        failed += len(chosen) - passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
