"""The port through which the devices of a simulated world (disks, links, recorders) use its engine."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jgroups_py.model.events import Event
from jgroups_py.simulator.process import Process


class DevicePort(Protocol):
    """Virtual time, and access to nodes."""

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def tick_ns(self) -> int:
        """The step of the virtual time."""

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later (at the next tick at the earliest)."""

    def notify(self, process: Process, event: Event, net: int) -> None:
        """Pass a node an event of its sockets, disks or links, once its process is awake."""

    def remark(self, text: str) -> None:
        """Add a line to the history, for the reader."""

    def free_port(self) -> int:
        """A port that no process has used before."""
