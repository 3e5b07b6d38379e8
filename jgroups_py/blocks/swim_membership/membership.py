"""Membership without views: joins, failures and tags of thousands of members.

A stack of a transport and SWIM on its own host: no channel, no messages, no GMS. What one member detects reaches the
others within a second or two, in no common order; for agreement use a JChannel. One thread runs the loop, another one
calls the listener, one call at a time, so that a slow listener delays no probe.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from jgroups_py.blocks.standalone import Standalone
from jgroups_py.config.load import Source
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ChannelClosedError, ConfigError
from jgroups_py.model.events import ForceLeave, JoinPlaces, SendUserEvent, SetTags
from jgroups_py.model.outputs import MemberChanged, Output, UserEvent
from jgroups_py.model.ports import MemberTable
from jgroups_py.model.swim_member import CONFLICT, FAILED, JOINED, MEMBER_LEFT, Accusation, Member
from jgroups_py.node.reports import members_report
from jgroups_py.protocols.swim.config import parse_places
from jgroups_py.protocols.swim.metadata import pack_tags

log = logging.getLogger("jgroups_py")

Watcher = Callable[[Output], None]
Places = str | Iterable[PhysicalAddress]


class MembershipListener:
    """The callbacks of a Membership, one call at a time. Any object with some of these methods is a listener."""

    def joined(self, member: Member) -> None:
        """A member is alive: new, or back."""

    def suspected(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        """A member does not answer; `failed` or `refuted` follows."""

    def refuted(self, member: Member) -> None:
        """A suspected member is alive."""

    def failed(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        """A member failed. accusations: which members had no answer from it, and on which paths."""

    def left(self, member: Member) -> None:
        """A member left gracefully."""

    def updated(self, member: Member) -> None:
        """The tags, the weight or the address of a member changed."""

    def conflict(self, member: Member) -> None:
        """Another process claims the name of this member, which is alive; it is refused."""

    def user_event(self, name: str, payload: bytes) -> None:
        """With SERF in the stack: an event that a member sent, perhaps this one."""


EVIDENT = ("suspected", "failed")
LEVELS = {FAILED: logging.WARNING, CONFLICT: logging.WARNING, JOINED: logging.INFO, MEMBER_LEFT: logging.INFO}
"""Change -> log level. The others, suspicions among them, are logged at DEBUG, since they are frequent."""


class Membership(Standalone):
    """One member, from `join` to `leave`. Any thread may call it."""

    begins = "join"
    leave_seconds = 10.0                 # more than SWIM's leave_timeout

    def __init__(
        self, stack: Source = "membership", name: str | None = None, properties: Mapping[str, object] | None = None,
        listener: object = None,
    ) -> None:
        super().__init__(stack, properties, name)
        if not any(issubclass(layer.protocol(), MemberTable) for layer in self.spec.layers):
            raise ConfigError(f"{self.spec.source}: a membership needs SWIM in its stack")
        self.listener = listener if listener is not None else MembershipListener()
        self._watchers: list[Watcher] = []
        self._inbox.early = self._early

    def join(self, cluster: str, places: Places = ()) -> Self:
        """Join `cluster`, and discover other members: at `places` ("host:port,host:port", or pairs), at the stack's
        initial_hosts and by its discovery protocol. Returns as soon as the sockets are open; members follow over time.

        Raises:
            ChannelClosedError: the sockets cannot be opened; or it has joined before: make another Membership.
            ConfigError: `places` are malformed; nothing was started.
        """
        found = parse_places(places)
        self._begin(cluster)
        self.look_at(found)
        return self

    def look_at(self, places: Iterable[PhysicalAddress]) -> None:
        """Try to discover members at these places, too."""
        found = tuple(places)
        if found:
            self._inject(JoinPlaces(found))

    def leave(self) -> None:
        """Leave and stop; the listener is not called any more once this returns. Leaving twice does nothing."""
        self._end()

    # --- members ------------------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """All known members, this one first; failed members and those that left stay listed for a while.

        Raises:
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        known = self._ask(lambda node: node.local.find(MemberTable).known_members())
        return known if known is not None else ()

    def alive(self) -> tuple[Member, ...]:
        """The members that are alive as far as is known, this one included."""
        return tuple(member for member in self.members() if member.state in ("alive", "suspect"))

    def report(self) -> dict[str, Any]:
        """The members as JSON-compatible values: what `jgroups members --json` prints."""
        found: dict[str, Any] | None = self._ask(members_report)
        if found is None:
            raise ChannelClosedError(self._reason)
        return found

    # --- tags and events ----------------------------------------------------------------------------------------------

    def set_tags(self, tags: Mapping[str, str], weight: float = 1.0) -> None:
        """Replace the tags and the weight of this member.

        Raises:
            ConfigError: the tags exceed 512 bytes, or the weight is not a positive number.
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        pack_tags(tags, weight)
        self._inject(SetTags(dict(tags), weight))

    def send_event(self, name: str, payload: bytes = b"", coalesce: bool = False) -> None:
        """Send an event to all members, by Serf's rules. coalesce: receivers may keep only the newest of a name.

        Raises:
            ConfigError: the stack has no SERF.
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        if self.spec.config_of("SERF") is None:
            raise ConfigError(f"{self.spec.source}: user events need SERF in the stack")
        self._inject(SendUserEvent(name, payload, coalesce))

    def force_leave(self, name: str) -> None:
        """Count a member that failed as left, at all members; it is forgotten sooner, and no member tries to reach it.

        Raises:
            ConfigError: the stack has no SERF.
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        if self.spec.config_of("SERF") is None:
            raise ConfigError(f"{self.spec.source}: to force a member to leave needs SERF in the stack")
        self._inject(ForceLeave(name))

    # --- out of the loop ----------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with every output of the stack, inside rounds of the loop: it may neither wait nor raise.

        Returns a function that ends this.
        """
        self._watchers = [*self._watchers, watcher]
        return lambda: self._unwatch(watcher)

    def _unwatch(self, watcher: Watcher) -> None:
        self._watchers = [other for other in self._watchers if other is not watcher]

    def _early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for watcher in self._watchers:
            for output in outputs:
                watcher(output)
        return outputs

    def _call(self, output: Output) -> None:
        match output:
            case MemberChanged(change, member, accusations):
                self._log(change, member, accusations)
                self._call_listener(change, *((member, accusations) if change in EVIDENT else (member,)))
            case UserEvent(name, payload):
                self._call_listener("user_event", name, payload)

    def _log(self, change: str, member: Member, accusations: tuple[Accusation, ...]) -> None:
        evidence = f" ({'; '.join(map(str, accusations))})" if accusations else ""
        log.log(LEVELS.get(change, logging.DEBUG), "%s@%s: %s %s%s", self.name, self._cluster, change, member.name,
                evidence)

    def _call_listener(self, method_name: str, *facts: object) -> None:
        method = getattr(self.listener, method_name, None)
        if method is None:
            return
        try:
            method(*facts)
        except Exception:
            log.exception("%s: the listener's %s raised", self.name, method_name)
