"""Filters a member's own multicasts: the system drops them before they reach the socket.

Other processes of this host must get them, so the system loops them back, to this process too. The transport would
ignore them, but they would take a third of a three-member group's receive buffer and of the reading. A classic BPF
program on the socket drops datagrams whose frame has this member as its source. Linux only; elsewhere nothing is
filtered.
"""
from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import sys

from jgroups_py.wire import SOURCE_END, SOURCE_OFFSET

SO_ATTACH_FILTER = 26
UDP_HEADER_BYTES = 8                        # the program sees the datagram from its UDP header on
LOAD_WORD, LOAD_LENGTH = 0x20, 0x80         # BPF_LD|BPF_W|BPF_ABS, BPF_LD|BPF_W|BPF_LEN
IF_EQUAL, IF_AT_LEAST, RETURN = 0x15, 0x35, 0x06
ALL_BYTES = 0xFFFFFFFF
WORD_BYTES = 4

Instruction = tuple[int, int, int, int]     # code, jump if true, jump if false, constant


def program(me: bytes) -> list[Instruction]:
    """Accept everything but frames from `me`; a datagram too short for a frame is accepted, so that it is counted."""
    start = UDP_HEADER_BYTES + SOURCE_OFFSET
    words = struct.unpack(">4I", me)
    accept = 2 + 2 * len(words)                              # index of the last but one instruction
    found: list[Instruction] = [(LOAD_LENGTH, 0, 0, 0),
                                (IF_AT_LEAST, 0, accept - 2, UDP_HEADER_BYTES + SOURCE_END)]
    for number, word in enumerate(words):
        found.append((LOAD_WORD, 0, 0, start + WORD_BYTES * number))
        found.append((IF_EQUAL, int(number == len(words) - 1), accept - len(found) - 1, word))
    return [*found, (RETURN, 0, 0, ALL_BYTES), (RETURN, 0, 0, 0)]


def ignore_own(sock: socket.socket, me: bytes) -> None:
    """Filter frames with source `me` from a multicast socket, where the system supports it."""
    if not sys.platform.startswith("linux"):
        return
    instructions = program(me)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(instructions),
                                                                         ctypes.addressof(code)))
