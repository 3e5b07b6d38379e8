"""An Aeron media driver in this process, and a receiver of raw frames that answers it as Aeron's receivers do."""
from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyaeron

RES = "AERON_DRIVER_RESOLVER_"
STATUS, SETUP = 3, 5
SEND_SETUP = 0x80
_STATUS = struct.Struct("<iBBHiiiiiq")
_SETUP = struct.Struct("<iBBHiiiiiiii")


@contextmanager
def driver(**resolver: str) -> Iterator[Any]:
    """A driver and its client; with name, interface and bootstrap_neighbor it resolves names by gossip."""
    settings = {RES + key.upper(): value for key, value in resolver.items()}
    if settings:
        settings["AERON_NAME_RESOLVER_SUPPLIER"] = "driver"
    os.environ.update(settings)
    client = pyaeron.Aeron(embedded=True)
    try:
        yield client
    finally:
        client.close()
        for key in settings:
            del os.environ[key]


class RawReceiver:
    """One socket that stands for any number of receivers of one publication, by their ids."""

    def __init__(self, control: tuple[str, int], publication: Any) -> None:
        self.control = control
        self.publication = publication
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(5)
        self.initial_term, self.term_bytes = 0, 0

    def ask_for_setup(self) -> None:
        """Read the stream's first term from the SETUP frame that the driver sends on request."""
        self._send(SEND_SETUP, 0, 0, 0)
        while True:
            data = self.socket.recv(2048)
            if len(data) >= _SETUP.size and _SETUP.unpack_from(data)[3] == SETUP:
                fields = _SETUP.unpack_from(data)
                self.initial_term, self.term_bytes = fields[7], fields[9]
                return

    def status(self, receiver: int, position: int, window: int) -> None:
        """Receiver `receiver` has consumed up to `position` and can take `window` more."""
        self._send(0, receiver, position, window)

    def _send(self, flags: int, receiver: int, position: int, window: int) -> None:
        term, offset = divmod(position, self.term_bytes) if self.term_bytes else (0, 0)
        self.socket.sendto(_STATUS.pack(
            _STATUS.size, 0, flags, STATUS, self.publication.session_id, self.publication.stream_id,
            self.initial_term + term, offset, window, receiver), self.control)

    def close(self) -> None:
        self.socket.close()
