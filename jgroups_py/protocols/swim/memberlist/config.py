"""MEMBERLIST's properties, with memberlist's values."""
from __future__ import annotations

import attrs

from jgroups_py.model.units import count, duration, flag, host, parsed, size
from jgroups_py.protocols.swim.memberlist.body import need_msgpack
from jgroups_py.protocols.swim.memberlist.sealing import Key, parse_keys
from jgroups_py.stack.datagrams import BothKinds

LEAST_BYTES, MOST_BYTES = 512, 65507


@attrs.frozen
class MemberlistConfig(BothKinds):
    """Addresses, sizes, encryption, compression."""

    bind_port: int = count(7946, most=65535, doc="First port to try, for datagrams and streams alike; 0: any free one.")
    external_addr: str = host("", also=("advertise_addr",), doc="The address given to other members in place of "
                              "bind_addr, for a proxy or NAT.")
    external_port: int = count(0, most=65535, also=("advertise_port",), doc="The port given to other members; 0: "
                               "the bound one.")
    packet_bytes: int = size("1400", least=LEAST_BYTES, most=MOST_BYTES, name="packet_bytes",
                             also=("udp_buffer_size",), doc="Largest datagram. Above the network's packet size one "
                             "lost packet loses more.")
    stream_timeout_ns: int = duration("10s", least="10ms", also=("tcp_timeout",), doc="How long a stream may take, "
                                      "from the connection to the answer. Higher allows for slow networks and large "
                                      "groups; a peer that hangs costs a connection for so long.")
    keys: tuple[Key, ...] = parsed("", parse=parse_keys, name="encrypt", also=("keyring",), unit="base64,...",
                                   doc="Keys that all members share, as `serf keygen` makes them; the first one "
                                   "encrypts, any decrypts. With keys, frames "
                                   "that are not encrypted are refused.")
    compress: bool = flag(True, doc="Whether what is sent is compressed where that makes it shorter. All members "
                          "read both.")

    trusted_network: bool = flag(False, doc="Whether only trusted machines reach its port. Without keys frames are not "
                                "sealed: in a process with ENCRYPT the stack is refused unless this is true. With keys "
                                "they are, but can be replayed.")

    def __attrs_post_init__(self) -> None:
        need_msgpack()
