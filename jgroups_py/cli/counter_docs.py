"""Documentation that is generated from the declarations of counters: `jgroups counters` and docs/reference/counters.md.

Counters of a transport's sockets and of FD_SOCK's connections appear under these protocols, as in `ch.stats()`. The
parts of a member that are no layer have sections of their own.
"""
from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import attrs

from jgroups_py.config.docs import summary_of
from jgroups_py.model.counters import COUNTER, DROP, FIGURE, Counter, declared_by
from jgroups_py.protocols import KNOWN

SOCKETS: Mapping[str, tuple[str, ...]] = {
    "UDP": ("jgroups_py.runtime.sockets.udp:UdpSockets",),
    "TCP": ("jgroups_py.runtime.sockets.tcp:TcpMesh",),
    "MEMBERLIST": ("jgroups_py.runtime.sockets.udp:UdpSockets", "jgroups_py.runtime.sockets.streams:StreamSockets"),
    "INFLUX": ("jgroups_py.runtime.sockets.udp:UdpSockets",),
    "FD_SOCK": ("jgroups_py.runtime.sockets.links:Links",),
    "ARCHIVE": ("jgroups_py.archive.recorder:Recorder", "jgroups_py.archive.sealer:Sealer"),
}
"""Protocol -> further classes whose counters appear under it in `ch.stats()`."""
OTHERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "channel": ("The channel itself: messages that wait, and messages that the receiver got.",
                ("jgroups_py.runtime.host:Host", "jgroups_py.channel.dispatcher:Dispatcher")),
    "gossip": ("A Gossip peer's dispatcher.", ("jgroups_py.blocks.broadcast.broadcast:Gossip",)),
    "rpc": ("Requests and answers: `Rpc.stats`.",
            ("jgroups_py.blocks.rpc.calls:Calls", "jgroups_py.blocks.rpc.serving:Server")),
    "services": ("Typed services: `AsyncServices.stats()`, which has those of their requests (rpc) too.",
                 ("jgroups_py.blocks.service.base:BaseServices",)),
    "shared table": ("A SharedTable: `SharedTable.stats()`.", ("jgroups_py.blocks.anti_entropy.replica:Replica",)),
    "replicas": ("A member that hosts partitions: `ReplicatedStore.counters`.",
                 ("jgroups_py.blocks.replication.host:PartitionHost",
                  "jgroups_py.blocks.replication.driver:ReplicaDriver")),
    "replica client": ("A client of partitions: `ReplicaClient.counters`.",
                       ("jgroups_py.blocks.replication.routing:Routing",)),
    "coordination": ("A member's sessions at a coordination store: `Coordination.stats()`.",
                     ("jgroups_py.blocks.coordination.core:SessionCore",)),
    "mqtt broker": ("A broker of MQTT and its sockets: `Broker.counters`, `MqttServer.counters`.",
                    ("jgroups_py.blocks.mqtt.broker.broker:Broker", "jgroups_py.blocks.mqtt.server.server:MqttServer")),
    "http": ("A server of HTTP: a member's endpoint, or the REST API of an MQTT broker.",
             ("jgroups_py.runtime.http.server:HttpServer",)),
    "mqtt gmqtt": ("A broker among nodes of gmqtt: `GmqttLink.counters`.",
                   ("jgroups_py.blocks.mqtt.gmqtt.link:GmqttLink",)),
    "mqtt federation": ("The federation of a broker of MQTT: `FederationCore.counters`.",
                        ("jgroups_py.blocks.mqtt.federation.core:FederationCore",)),
    "mqtt mosquitto": ("The link to a mosquitto: `MosquittoLink.counters`.",
                  ("jgroups_py.blocks.mqtt.mosquitto.link:MosquittoLink",)),
    "name service": ("A NameService: its `counters`.", ("jgroups_py.blocks.name_service:NameService",)),
}
"""A part that is no protocol -> its description, and its classes."""
KINDS = (COUNTER, FIGURE, DROP)


@attrs.frozen
class Section:
    """The counters of one protocol, or of another part of a member."""

    name: str
    summary: str
    counters: tuple[Counter, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return attrs.asdict(self)


def section_of(name: str) -> Section:
    """The counters of a protocol (by its name in KNOWN), or of a part that OTHERS names."""
    if name in OTHERS:
        summary, classes = OTHERS[name]
        return Section(name, summary, in_order(map(_load, classes)))
    protocol = KNOWN[name].load()
    return Section(name, summary_of(protocol), in_order([protocol, *map(_load, SOCKETS.get(name, ()))]))


def section_names() -> list[str]:
    """All names that `section_of` accepts."""
    return [*KNOWN, *OTHERS]


def in_order(classes: Iterable[type]) -> tuple[Counter, ...]:
    """The counters, figures and drops that the classes declare, in this order."""
    found = [one for cls in classes for one in
             declared_by(cls, *getattr(cls, "components", ())).values()]
    unique = {one.name: one for one in found}.values()
    return tuple(sorted(unique, key=lambda one: KINDS.index(one.kind)))


def _load(path: str) -> type:
    module, _, name = path.partition(":")
    cls: type = getattr(import_module(module), name)
    return cls


def as_text(section: Section, width: int = 100) -> str:
    """A table for a terminal."""
    lines = [section.name, *textwrap.wrap(section.summary, width, initial_indent="  ", subsequent_indent="  ")]
    for one in section.counters:
        lines += ["", f"  {one.name}   ({one.kind})"]
        lines += textwrap.wrap(one.doc, width, initial_indent="      ", subsequent_indent="      ")
    if not section.counters:
        lines.append("  counts nothing")
    return "\n".join(lines)


def as_page(sections: Iterable[Section]) -> str:
    """The contents of docs/reference/counters.md."""
    lines = [*PAGE_HEAD]
    for section in sections:
        if section.counters:
            lines += ["", f"## {section.name}", "", section.summary, "", "| name | kind | what |", "|---|---|---|"]
            lines += [f"| `{one.name}` | {one.kind} | {_cell(one.doc)} |" for one in section.counters]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGE_HEAD = (
    "# Counters",
    "",
    "<!-- Generated by `jgroups counters --markdown`; change the declarations in the code, not this page. -->",
    "",
    "All names of `ch.stats()`, which is protocol -> name -> number; with RELAY the layers of the bridge stack are "
    "there as `bridge.NAME`. `jgroups counters [PROTOCOL]` prints the same. A *counter* only grows; a *drop* is a "
    "counter of messages or frames that were dropped, each of which the logger `jgroups_py.drops` logs with its reason "
    "at DEBUG; a *figure* is a present value, or a sum. A name appears with its first count. `<...>` stands for a word "
    "of the system, as in `send_ENOBUFS_dropped`.",
)
