"""The base of all events."""
from __future__ import annotations


class Event:
    """A fact."""

    __slots__ = ()
