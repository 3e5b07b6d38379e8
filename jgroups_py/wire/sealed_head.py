"""The head of a sealed frame, which is sent in the clear and authenticated (design/wire.md, design/encrypt.md).

    magic "JP", version 2, stream u8, key id 8, cluster id 8, source 16, salt 16, counter u64, then the sealed text

Magic, version and source stand where they stand in a frame that is not sealed: members without ENCRYPT count it as of a
foreign version, and a member's socket filters its own. Source and salt name the sender: an incarnation, and the time
since its entropy was renewed.
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from jgroups_py.model.address import ADDRESS_BYTES
from jgroups_py.wire.frame import MAGIC, SOURCE_OFFSET

SEALED_VERSION: Final = 2
SALT_BYTES: Final = 16
MULTICAST_STREAM, UNICAST_STREAM, HANDSHAKE_STREAM, DISCOVERY_STREAM, SIGNED_STREAM, TAGGED_STREAM = range(6)
STREAMS: Final = 6
COUNTED_AS: Final = (0, 1, 2, 0, 0, 0)
"""Stream -> the stream whose counters and replay window it shares: all multicasts of a sender are counted together."""
COUNTERS: Final = 3
_HEAD = struct.Struct(">2sBB8s8s32sQ")   # source and salt as one: the sender
HEAD_BYTES: Final = _HEAD.size
COUNTER: Final = struct.Struct(">Q")
COUNTER_OFFSET: Final = HEAD_BYTES - COUNTER.size
SENDER_OFFSET, SENDER_END = SOURCE_OFFSET, SOURCE_OFFSET + ADDRESS_BYTES + SALT_BYTES
SEAL_BYTES: Final = HEAD_BYTES + 16      # head and tag: what a sealed frame has besides its text
assert HEAD_BYTES == SENDER_END + 8, "source and salt stand side by side, and the counter is last"


def sealed_head(stream: int, key_id: bytes, cluster: bytes, sender: bytes, counter: int) -> bytes:
    """The head of a frame. sender: source and salt."""
    return _HEAD.pack(MAGIC, SEALED_VERSION, stream, key_id, cluster, sender, counter)


def head_start(stream: int, key_id: bytes, cluster: bytes, sender: bytes) -> bytes:
    """The heads of all frames of a stream under one key, up to the counter, which COUNTER makes."""
    return sealed_head(stream, key_id, cluster, sender, 0)[:COUNTER_OFFSET]


read_head: Callable[[bytes], tuple[bytes, int, int, bytes, bytes, bytes, int]] = _HEAD.unpack_from
"""(magic, version, stream, key id, cluster id, sender, counter) of at least HEAD_BYTES bytes."""
