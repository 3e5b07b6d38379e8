"""The base of all outputs."""
from __future__ import annotations


class Output:
    """For the environment of the node, or for the application."""

    __slots__ = ()


LOCAL, BRIDGE = 0, 1
