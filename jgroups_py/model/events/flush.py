"""Stopping, filling up and starting again around a view change, and what is stable."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.digest import Digest
from jgroups_py.model.events.base import Event


@attrs.frozen
class Freeze(Event):
    """Down, from GMS: send and deliver no more multicasts in this view; answer with Frozen."""


@attrs.frozen
class Frozen(Event):
    """Up, from NAKACK: member of the view -> its reach: all messages below are here, delivered or not."""

    digest: Digest


@attrs.frozen
class FlushTo(Event):
    """Down, from GMS: fetch and deliver everything below `cut`.

    holders: per sender, the member that can retransmit it.
    """

    cut: Digest
    holders: dict[Address, Address]


@attrs.frozen
class Filled(Event):
    """Up, from NAKACK: everything below `cut` was passed up."""

    cut: Digest


@attrs.frozen
class MessagesStable(Event):
    """Down, from STABLE: every member has delivered all messages below `digest[member]` from each member."""

    digest: Digest


@attrs.frozen
class MessagesKnown(Event):
    """Down, from STABLE: some member has delivered all messages below `digest[member]`, so they exist."""

    digest: Digest
