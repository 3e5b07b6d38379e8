"""Interests in topics, between the channel, TOPICS and RELAY."""
from __future__ import annotations

import attrs

from jgroups_py.model.events.base import Event
from jgroups_py.model.topics import Interest


@attrs.frozen
class Subscribe(Event):
    """Down, from the channel: the application subscribes to these topics."""

    interest: Interest


@attrs.frozen
class Unsubscribe(Event):
    """Down, from the channel: the application unsubscribes from these topics."""

    interest: Interest


@attrs.frozen
class SiteInterest(Event):
    """Down, from TOPICS at the coordinator: the topics to which members of its view subscribe; all topics while that is
    not known."""

    interest: Interest
