"""Byte streams between members (TCP): the events of one.

A stream has a number within its stack: those opened here the numbers given to OpenStream, from 1 on; those opened by
other members numbers below 0.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events.base import Event


@attrs.frozen
class StreamTo(Event):
    """Down, from SWIM to a transport with the port Streams: send `batch` to `place` over a connection of its own.

    An answer on it comes up as a batch like any other.
    """

    place: PhysicalAddress
    batch: Batch


@attrs.frozen
class StreamOpened(Event):
    """Up: a peer at `place` opened a stream to this member."""

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
