"""The base class of RELAY's parts: a component with handlers for bridge headers and for announcements of other parts.

    @receives(Sync)                      a header in the local group, from a member of the view
    @receives_from_bridge(SeenHeader)    a header on the bridge, from a relay in the bridge view
    @on_announcement(PrefixDelivered)    a fact that another part announces (announcements.py)
"""
from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, Header
from jgroups_py.model.events import OutputEmitted
from jgroups_py.model.outputs import Output
from jgroups_py.model.secrets import Secrets
from jgroups_py.protocols.relay.announcements import RelayAnnouncement
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.stack.component import Component, F, LayerPort, mark, marked

RELIABLE = NO_RELAY | NO_FC
"""Flags of RELAY's own messages in the local group: in order with the data, not numbered by RELAY, not delayed by flow
control, since acknowledgements, which free memory, depend on them."""

Handler = Callable[[Any], object]


def receives_from_bridge(header: type[Header]) -> Callable[[F], F]:
    """Mark the handler of a header that relays send each other: handler(header, batch without it)."""
    return mark("_receives_from_bridge", header)


def on_announcement(announcement: type[RelayAnnouncement]) -> Callable[[F], F]:
    """Mark the handler of an announcement: handler(announcement)."""
    return mark("_on_announcement", announcement)


class RelayPort(LayerPort, typing.Protocol):
    """What a part may ask of RELAY as a whole."""

    @property
    def secrets(self) -> Secrets:
        """Random bytes and keyrings."""

    def announce(self, announcement: RelayAnnouncement) -> None:
        """Call all handlers of this announcement, in the order of RELAY's parts, before this returns."""

    def read_trusted_file(self, path: str) -> bytes:
        """The contents of a file that no other user may change.

        Raises:
            ConfigError: there is none, or others may change it.
        """

    def operator_refusal(self, member: Address) -> str:
        """Why the orders of a member of this group are not obeyed; "": they are."""

    def shown_identity(self, member: Address) -> str:
        """A member of this group as logs name it: by its verified identity, if there is AUTH."""


class RelayPart(Component):
    """One part of RELAY."""

    announcement_handlers: ClassVar[dict[type[RelayAnnouncement], str]] = {}    # both are read from the marks
    bridge_receivers: ClassVar[dict[type[Header], str]] = {}

    config: RelayConfig
    layer: RelayPort

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.announcement_handlers = marked(cls, "_on_announcement")
        cls.bridge_receivers = marked(cls, "_receives_from_bridge")

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.announce = layer.announce
        self.read_trusted_file = layer.read_trusted_file
        self.operator_refusal = layer.operator_refusal
        self.shown_identity = layer.shown_identity

    def set_timer_once(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        """Set a timer unless it is set: the first reason to wait decides when it fires."""
        if not self.timer_is_set(name, about):
            self.set_timer(name, delay_ns, about)

    def notify(self, output: Output) -> None:
        """Emit an output for the application, and pass it up, so that ARCHIVE records it in order with the messages."""
        self.emit(output)
        self.pass_up(OutputEmitted(output))


def announcement_handlers_of(parts: Iterable[RelayPart]) -> dict[type[RelayAnnouncement], tuple[Handler, ...]]:
    """Announcement -> its handlers, in the order of the parts."""
    found: dict[type[RelayAnnouncement], tuple[Handler, ...]] = {}
    for part in parts:
        for announcement, method in part.announcement_handlers.items():
            found[announcement] = (*found.get(announcement, ()), getattr(part, method))
    return found


def bridge_receivers_of(parts: Iterable[RelayPart]) -> dict[type[Header], Callable[[Any, Any], object]]:
    """Header -> the part's handler of it on the bridge. Raises TypeError where two parts claim a header."""
    found: dict[type[Header], Callable[[Any, Any], object]] = {}
    for part in parts:
        for header, method in part.bridge_receivers.items():
            if header in found:
                raise TypeError(f"{type(part).__name__} and another part both claim {header.__name__} on the bridge")
            found[header] = getattr(part, method)
    return found
