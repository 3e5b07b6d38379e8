"""Byte streams between members (TCP): what a layer asks for, and what it hears of them.

A stream is known by a number within one stack: those that we open have the numbers we give them, from 1 on, those
that others open to us have numbers below 0. Deadlines and limits are the layer's business.
"""
from __future__ import annotations

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.events import Event
from jgroups_py.outputs import Output
from jgroups_py.units import count, host, text


@attrs.frozen
class Datagrams:
    """A transport's configuration that asks for datagrams, without multicast."""

    bind_addr: str = text("127.0.0.1", doc="The IP address of the interface to send and receive on; also "
                          "\"loopback\" and \"site_local\", \"global\", \"match-interface:NAME\".")
    bind_port: int = count(0, most=65535, doc="First port to try; 0: any free one.")
    port_range: int = count(0, doc="How many more ports to try above bind_port when it is taken.")
    external_addr: str = host("", doc="The address told to others in place of bind_addr, for a proxy or NAT.")
    external_port: int = count(0, most=65535, doc="The port told to others; 0: the bound one.")


@attrs.frozen
class BothKinds(Datagrams):
    """One that asks for datagrams and streams on one port."""


# --- outputs --------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class OpenStream(Output):
    """Connect to `to`; bytes may be written at once. StreamClosed follows if that fails."""

    net: int
    stream: int
    to: PhysicalAddress


@attrs.frozen(eq=False)
class WriteStream(Output):
    """Send `data` on a stream; nothing happens if it is closed already."""

    net: int
    stream: int
    data: bytes


@attrs.frozen(eq=False)
class CloseStream(Output):
    """Close a stream; no StreamClosed follows. What was written before is sent, unless `at_once`."""

    net: int
    stream: int
    at_once: bool = False


# --- events ---------------------------------------------------------------------------------------------------------

@attrs.frozen
class StreamTo(Event):
    """Down, from SWIM to a transport with the port Streams: send `batch` to `place` over a connection of its own.

    What is answered on it comes up as a batch like any other.
    """

    place: PhysicalAddress
    batch: Batch


@attrs.frozen
class StreamOpened(Event):
    """Up: somebody at `place` opened a stream to us."""

    stream: int
    place: PhysicalAddress


@attrs.frozen
class StreamData(Event):
    """Up: bytes arrived."""

    stream: int
    data: bytes


@attrs.frozen
class StreamClosed(Event):
    """Up: the other end closed the stream; or it broke, or could not be opened, for `error`."""

    stream: int
    error: str = ""
