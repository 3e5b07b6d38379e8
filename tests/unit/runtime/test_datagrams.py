"""When datagrams are read: one by one, as they are dealt with, and all of them."""
from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from typing import Any

import attrs
import pytest

from jgroups_py.address import PhysicalAddress
from jgroups_py.protocols.transport import UdpConfig
from jgroups_py.runtime.udp import UdpSockets

pytestmark = pytest.mark.real


@attrs.define
class Round:
    """In place of a Loop, whose round finds something to read without waiting."""

    waited: bool = False

    def watch(self, *_: object) -> None:
        """We read when the test says."""

    unwatch = watch


def unwatched(received: Callable[..., None]) -> AbstractContextManager[UdpSockets]:
    """Sockets that read when they are told to."""
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


def test_what_nobody_wants_is_read_all_the_same_for_else_the_socket_stays_readable():
    heard: list[bytes] = []
    wanted = [False]

    def received(frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        heard.extend(data for data, _ in (frames if wanted[0] else ()))
    with unwatched(received) as sockets:
        to_myself(sockets, 3)
        sockets._read_unicast()
        wanted[0] = True
        sockets._read_unicast()
        assert heard == []
        later = to_myself(sockets, 2)
        sockets._read_unicast()
        assert heard == later
