"""For authors of protocols: everything that a layer of your own imports, in one module.

    from jgroups_py.spi import Header, Protocol, duration, on, receives, timer, wire

protocols/example.py is a template that imports nothing else; docs/how-to/write-a-protocol.md explains the steps. A
stack file names your class as `package.module.Class`. jgroups_py.testing.bench runs a layer without sockets or a clock.

Pure. Ring 1.
"""
from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress, ProxyUUID
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, OOB, Batch, Flag, Header
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.digest import Digest, Ranges
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import Connect, Disconnect, Event, MergeNeeded, Suspect, Unsuspect, ViewChange
from jgroups_py.model.outputs import Output
from jgroups_py.model.ports import (
    AddressBook,
    DigestSource,
    FrameRoom,
    LastFrames,
    MulticastCounts,
    SiteReporter,
    ViewSource,
)
from jgroups_py.model.units import (
    choice,
    count,
    duration,
    flag,
    host,
    millis,
    parsed,
    ratio,
    seconds,
    size,
    text,
)
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.stack.component import Component
from jgroups_py.stack.protocol import CONTROL, MULTICASTS, STOP, UNICASTS, Protocol, on, only, receives, timer

__all__ = [
    "CONTROL", "MULTICASTS", "NO_FC", "NO_RELAY", "NO_RELIABILITY", "OOB", "STOP", "UNICASTS", "Address",
    "AddressBook", "Batch", "Component", "ConfigError", "Connect", "Digest", "DigestSource", "Disconnect", "Event",
    "Flag", "FrameRoom", "Header", "LastFrames", "MergeNeeded", "MergeView", "MulticastCounts", "Output",
    "PhysicalAddress", "Protocol", "ProxyUUID", "Ranges", "SiteReporter", "Suspect", "Unsuspect", "View",
    "ViewChange", "ViewId", "ViewSource", "WireError", "choice", "count", "counter", "declare", "drop", "duration",
    "figure", "flag", "host", "millis", "on", "only", "parsed", "ratio", "receives", "seconds", "size", "text", "timer",
    "wire",
]
