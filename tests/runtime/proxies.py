"""TCP proxies in front of a port of loopback, on threads: they keep what crosses, reset connections, cut links."""
from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

LINGER_RESET = struct.pack("ii", 1, 0)                   # close() sends RST


class Proxy:
    """A proxy of a port. cut: it ends its connections and takes none. bytes_in: what it passed on to that port, if
    that is to be kept."""

    def __init__(self, to: int, keeps: bool = False) -> None:
        self.to = to
        self.cut = False
        self.bytes_in = bytearray()
        self._keeps = keeps
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    def cut_off(self, on: bool) -> None:
        """End all connections and take no others, or take them again."""
        self.cut = on
        if on:
            self.end_connections()

    def end_connections(self) -> None:
        """Those that are open: both ends read the end of the stream."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def reset(self) -> int:
        """Those that are open: RST to both ends; how many there were. What was on its way is lost."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
                each.shutdown(socket.SHUT_RD)            # wakes the thread that reads; the last close resets
            each.close()
        return len(sockets) // 2

    def close(self) -> None:
        self._listener.close()
        self.end_connections()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.cut:
                    raise OSError
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            self._sockets += [near, far]
            threading.Thread(target=self._pump, args=(near, far, self._keeps), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, keeps: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if keeps:
                    self.bytes_in += data
                sink.sendall(data)
            if source in self._sockets:                  # nobody has ended it here
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
