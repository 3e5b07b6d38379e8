"""When datagrams are read: one by one, as they are dealt with, and all of them."""
from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from typing import Any

import attrs
import pytest

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.protocols.transport.protocol import UdpConfig
from jgroups_py.runtime.sockets.udp import UdpSockets

pytestmark = pytest.mark.real


@attrs.define
class Round:
    """In place of a Loop, whose round finds something to read without waiting."""

    waited: bool = False

    def watch(self, *_: object) -> None:
        """Reading is done when the test calls for it."""

    unwatch = watch


def unwatched(received: Callable[..., None]) -> AbstractContextManager[UdpSockets]:
    """Sockets that read when the test calls for it."""
    loop: Any = Round()
    return closing(UdpSockets(loop, UdpConfig(ip_mcast=False), bytes(16), received, lambda *_: None))


def to_myself(sockets: UdpSockets, number: int) -> list[bytes]:
    """Datagrams that wait to be read."""
    datas = [bytes([at]) for at in range(number)]
    for data in datas:
        sockets.send(sockets.physical, [data])
    return datas


def test_a_datagram_is_read_when_the_one_before_it_was_dealt_with():
    waiting: list[int] = []

    def received(frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        for _ in frames:
            with socket.socket(fileno=os.dup(sockets._unicast.fileno())) as other:
                waiting.append(len(other.recv(1, socket.MSG_PEEK)) if len(waiting) < 2 else 0)
    with unwatched(received) as sockets:
        to_myself(sockets, 3)
        sockets._read_unicast()
    assert waiting == [1, 1, 0], "the second and the third still waited while the one before was dealt with"


def test_unwanted_datagrams_are_read_too_since_else_the_socket_stays_readable():
    read: list[bytes] = []
    wanted = [False]

    def received(frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        read.extend(data for data, _ in (frames if wanted[0] else ()))
    with unwatched(received) as sockets:
        to_myself(sockets, 3)
        sockets._read_unicast()
        wanted[0] = True
        sockets._read_unicast()
        assert read == []
        later = to_myself(sockets, 2)
        sockets._read_unicast()
        assert read == later
