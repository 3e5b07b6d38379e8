"""Who is there, how it is and what it is for: joins, failures and tags of thousands of members, without views.

A stack of a transport and SWIM, on a host of its own: no channel, no messages, no GMS. What one member learns the
others learn within a second or two, in no common order; whoever needs agreement needs a JChannel. A thread of its own
runs the loop, another one calls the listener, one call at a time, so a slow listener delays nobody's probes.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from jgroups_py.address import PhysicalAddress
from jgroups_py.blocks.standalone import Standalone
from jgroups_py.config.load import Source
from jgroups_py.errors import ChannelClosedError, ConfigError
from jgroups_py.members import CONFLICT, FAILED, JOINED, MEMBER_LEFT, Accusation, Member
from jgroups_py.outputs import MemberChanged, Output
from jgroups_py.ports import MemberTable
from jgroups_py.protocols.swim.config import parse_places
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.reports import members_report
from jgroups_py.swim_events import JoinPlaces, SetTags
from jgroups_py.userevents import SendUserEvent, UserEvent

log = logging.getLogger("jgroups_py")

Watcher = Callable[[Output], None]
Places = str | Iterable[PhysicalAddress]


class MembershipListener:
    """What a Membership calls, one call at a time. Override what is wanted; any object with some of these will do."""

    def joined(self, member: Member) -> None:
        """It is there: new, or back."""

    def suspected(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        """It does not answer; `failed` or `refuted` follows."""

    def refuted(self, member: Member) -> None:
        """It is there after all."""

    def failed(self, member: Member, accusations: tuple[Accusation, ...]) -> None:
        """It is gone without a word. accusations: who had no answer, and on which paths."""

    def left(self, member: Member) -> None:
        """It said goodbye."""

    def updated(self, member: Member) -> None:
        """Its tags, its weight or its place changed."""

    def conflict(self, member: Member) -> None:
        """Somebody else claims the name of this member, which is there; it is not let in."""

    def user_event(self, name: str, payload: bytes) -> None:
        """With SERF in the stack: an event that some member spread, we perhaps."""


EVIDENT = ("suspected", "failed")
LEVELS = {FAILED: logging.WARNING, CONFLICT: logging.WARNING, JOINED: logging.INFO, MEMBER_LEFT: logging.INFO}
"""Of the log. Suspicions come and go, so they are DEBUG, and so is the rest."""


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
        """Be a member of `cluster` from now on, and look for others: at `places` ("host:port,host:port", or pairs),
        at the stack's initial_hosts and by its discovery protocol. Returns as soon as the sockets stand; who is there
        comes by and by.

        Raises:
            ChannelClosedError: the sockets cannot be opened; or it has joined before: make another Membership.
            ConfigError: `places` are none; nothing was begun.
        """
        found = parse_places(places)
        self._begin(cluster)
        self.look_at(found)
        return self

    def look_at(self, places: Iterable[PhysicalAddress]) -> None:
        """There may be members at these places too."""
        found = tuple(places)
        if found:
            self._inject(JoinPlaces(found))

    def leave(self) -> None:
        """Say goodbye and stop; the listener is called no more once this returns. Leaving twice does nothing."""
        self._end()

    # --- what it knows ------------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """All that are known, ourselves first; failed ones and those that left until they are forgotten.

        Raises:
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        known = self._ask(lambda node: node.local.find(MemberTable).known_members())
        return known if known is not None else ()

    def alive(self) -> tuple[Member, ...]:
        """Those that are there as far as is known, ourselves included."""
        return tuple(member for member in self.members() if member.state in ("alive", "suspect"))

    def report(self) -> dict[str, Any]:
        """The same for an operator, as what JSON can say: what `jgroups members --json` prints."""
        found: dict[str, Any] | None = self._ask(members_report)
        if found is None:
            raise ChannelClosedError(self._reason)
        return found

    # --- what it says -------------------------------------------------------------------------------------------------

    def set_tags(self, tags: Mapping[str, str], weight: float = 1.0) -> None:
        """Our tags and weight from now on, in place of those before.

        Raises:
            ConfigError: they are larger than 512 bytes, or the weight is no positive number.
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        pack_tags(tags, weight)
        self._inject(SetTags(dict(tags), weight))

    def send_event(self, name: str, payload: bytes = b"", coalesce: bool = False) -> None:
        """Spread an event to all members, by Serf's rules. coalesce: of several with one name the newest is enough.

        Raises:
            ConfigError: the stack has no SERF.
            NotConnectedError, ChannelClosedError: not joined yet, or not any more.
        """
        if self.spec.config_of("SERF") is None:
            raise ConfigError(f"{self.spec.source}: user events need SERF in the stack")
        self._inject(SendUserEvent(name, payload, coalesce))

    # --- out of the loop ----------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with all that SWIM tells from now on, inside rounds of the loop: it may not wait or raise.

        Returns what ends that.
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
                self._tell(change, *((member, accusations) if change in EVIDENT else (member,)))
            case UserEvent(name, payload):
                self._tell("user_event", name, payload)

    def _log(self, change: str, member: Member, accusations: tuple[Accusation, ...]) -> None:
        evidence = f" ({'; '.join(map(str, accusations))})" if accusations else ""
        log.log(LEVELS.get(change, logging.DEBUG), "%s@%s: %s %s%s", self.name, self._cluster, change, member.name,
                evidence)

    def _tell(self, what: str, *facts: object) -> None:
        method = getattr(self.listener, what, None)
        if method is None:
            return
        try:
            method(*facts)
        except Exception:
            log.exception("%s: the listener's %s raised", self.name, what)
