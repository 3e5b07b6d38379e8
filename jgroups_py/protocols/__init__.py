"""The known protocols: XML name, where its class is, its wire id, and other names under which it is accepted.

Wire ids are given once and never used again for anything else (design/wire.md). Id 1 is the application's headers.

Pure. Ring 2.
"""
from __future__ import annotations

from functools import cache
from importlib import import_module

import attrs

from jgroups_py.stack.protocol import Protocol


@attrs.frozen
class Known:
    """One protocol: `module:Class` below jgroups_py.protocols, its wire id (0: no header), accepted other names."""

    name: str
    where: str
    wire_id: int
    also: tuple[str, ...] = ()

    def load(self) -> type[Protocol]:
        """The protocol class."""
        return _load(self.name, self.where)


@cache
def _load(name: str, where: str) -> type[Protocol]:
    module, _, cls = where.partition(":")
    found: type[Protocol] = getattr(import_module(f"jgroups_py.protocols.{module}"), cls)
    found.name = name
    return found


KNOWN: dict[str, Known] = {known.name: known for known in (
    Known("UDP", "transport:Udp", 2),
    Known("TCP", "transport:Tcp", 2, ("TCP_NIO2",)),
    Known("ENCRYPT", "encrypt:Encrypt", 26),
    Known("AUTH", "auth:Auth", 0),
    Known("NAMES", "name_service:Names", 25),
    Known("PING", "discovery.ping:Ping", 3),
    Known("TCPPING", "discovery.tcpping:TcpPing", 3),
    Known("DNS_PING", "discovery.dns_ping:DnsPing", 3, ("dns.DNS_PING",)),
    Known("KUBE_PING", "discovery.kube_ping:KubePing", 3, ("kubernetes.KUBE_PING",)),
    Known("FILE_PING", "discovery.file_ping:FilePing", 3),
    Known("PEX", "discovery.pex:Pex", 3),
    Known("INFLUX", "discovery.pex.transport:InfluxUdp", 0),
    Known("MERGE3", "merge:Merge", 4, ("MERGE2",)),
    Known("FD_SOCK", "fd_sock:FdSock", 5, ("FD_SOCK2",)),
    Known("FD_ALL", "fd_all:FdAll", 6, ("FD_ALL2", "FD_ALL3")),
    Known("VERIFY_SUSPECT", "verify_suspect:VerifySuspect", 7, ("VERIFY_SUSPECT2",)),
    Known("NAKACK", "nakack:Nakack", 8, ("NAKACK2", "NAKACK3", "NAKACK4", "pbcast.NAKACK", "pbcast.NAKACK2",
                                         "pbcast.NAKACK3", "pbcast.NAKACK4")),
    Known("UNICAST", "unicast:Unicast", 9, ("UNICAST2", "UNICAST3", "UNICAST4")),
    Known("STABLE", "stable:Stable", 10, ("pbcast.STABLE",)),
    Known("GMS", "gms:Gms", 11, ("pbcast.GMS",)),
    Known("MFC", "flow:Mfc", 12, ("MFC_NB",)),
    Known("UFC", "flow:Ufc", 13, ("UFC_NB",)),
    Known("FLOW", "flow:FlowControl", 24),
    Known("FRAG", "frag:Frag", 14, ("FRAG2", "FRAG3", "FRAG4")),
    Known("TOTAL", "total:Total", 27, ("SEQUENCER", "SEQUENCER2")),
    Known("STATE_TRANSFER", "state_transfer:StateTransfer", 15, ("pbcast.STATE_TRANSFER", "pbcast.STATE",
                                                                "STATE", "STATE_SOCK", "pbcast.STATE_SOCK")),
    Known("RELAY", "relay:Relay", 16, ("relay.RELAY",)),
    Known("SWIM", "swim:Swim", 17),
    Known("MEMBERLIST", "swim.memberlist:Memberlist", 0),
    Known("SERF", "swim.memberlist:Serf", 0),
    Known("TOPICS", "topics:Topics", 18),
    Known("ARCHIVE", "archive:Archive", 19),
    Known("DISCARD", "faults:Discard", 0),
    Known("DELAY", "faults:Delay", 0),
    Known("DUPLICATE", "faults:Duplicate", 0, ("DUPL",)),
    Known("SHUFFLE", "faults:Shuffle", 0),
    Known("PARTITION", "faults:Partition", 31),
    Known("EXAMPLE", "example:Example", 30),
)}

MEANINGLESS: dict[str, str] = {
    "BARRIER": "state transfer here needs no closed stack: the state is cut by message numbers",
    "RED": "there is no queue of the transport to thin out; flow control slows senders",
    "NON_BLOCKING_SENDS": "no send blocks the loop; each peer's queue is bounded",
    "THREAD_COUNT": "there is one loop thread",
    "MAKE_BATCH": "everything is a batch already",
    "UNBATCH": "everything is a batch",
}
"""Protocols of JGroups' own files that are accepted and left out, with the reason."""

ALIASES: dict[str, str] = {other: known.name for known in KNOWN.values() for other in known.also}
