"""Who is there, how it is and what it is for: joins, failures and tags of thousands of members, without views.

A stack of a transport and SWIM, on a host of its own: no channel, no messages, no GMS. What one member learns the
others learn within a second or two, in no common order; whoever needs agreement needs a JChannel. A thread of its own
runs the loop, another one calls the listener, one call at a time, so a slow listener delays nobody's probes.
"""
from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.config.load import Source, load
from jgroups_py.duty import LoopThread
from jgroups_py.errors import ChannelClosedError, ConfigError, NotConnectedError
from jgroups_py.events import Event, JoinPlaces, SetTags
from jgroups_py.members import Accusation, Member
from jgroups_py.outputs import Closed, MemberChanged, Output
from jgroups_py.ports import MemberTable
from jgroups_py.protocols.swim.config import parse_places
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.reports import members_report
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.session import default_name
from jgroups_py.userevents import SendUserEvent, UserEvent

log = logging.getLogger("jgroups_py")

LEAVE_SECONDS = 10.0                     # more than SWIM's leave_timeout
ANSWER_SECONDS = 10.0                    # the loop is asked for what SWIM knows

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


class Membership:
    """One member, from `join` to `leave`. Any thread may call it."""

    def __init__(
        self, stack: Source = "membership", name: str | None = None, properties: Mapping[str, object] | None = None,
        listener: object = None,
    ) -> None:
        self.spec = load(stack, properties)
        if not any(issubclass(layer.protocol(), MemberTable) for layer in self.spec.layers):
            raise ConfigError(f"{self.spec.source}: a membership needs SWIM in its stack")
        self.name = name or default_name()
        self.listener = listener if listener is not None else MembershipListener()
        self._host: Host | None = None
        self._inbox = Inbox()
        self._reason = ""
        self._ended = threading.Event()
        self._caller: threading.Thread | None = None
        self._watchers: list[Watcher] = []
        self._inbox.early = self._early

    def join(self, cluster: str, places: Places = ()) -> Self:
        """Be a member of `cluster` from now on, and look for others: at `places` ("host:port,host:port", or pairs),
        at the stack's initial_hosts and by its discovery protocol. Returns at once; who is there comes by and by.

        Raises:
            ChannelClosedError: it has joined before; make another Membership.
        """
        if self._host is not None:
            raise ChannelClosedError("a Membership joins once; make another one")
        self._host = Host(self.spec, cluster, self.name, self._inbox, self._host_ended)
        self._host.start()
        LoopThread(self.name, self._host.loop).start()
        self._caller = threading.Thread(target=self._deliver, name=f"jgroups-{self.name}-listener", daemon=True)
        self._caller.start()
        self.look_at(parse_places(places))
        return self

    def look_at(self, places: Iterable[PhysicalAddress]) -> None:
        """There may be members at these places too."""
        found = tuple(places)
        if found:
            self._inject(JoinPlaces(found))

    def leave(self) -> None:
        """Say goodbye and stop; the listener is called no more once this returns. Leaving twice does nothing."""
        host = self._host
        if host is None:
            return
        host.leave()
        if not self._ended.wait(LEAVE_SECONDS):
            host.kill("left without having told everybody")
            self._ended.wait(LEAVE_SECONDS)
        host.loop.join()
        if self._caller is not None and self._caller is not threading.current_thread():
            self._caller.join(LEAVE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.leave()

    # --- what it knows ------------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """All that are known, ourselves first; failed ones and those that left until they are forgotten."""
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

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""
        host = self._host
        return {} if host is None else self._ask(host.stats) or {}

    @property
    def address(self) -> Address | None:
        """Who we are; None before `join` has taken effect."""
        return None if self._host is None or self._host.node is None else self._host.node.me

    # --- what it says -------------------------------------------------------------------------------------------------

    def set_tags(self, tags: Mapping[str, str], weight: float = 1.0) -> None:
        """Our tags and weight from now on, in place of those before.

        Raises:
            ConfigError: they are larger than 512 bytes, or the weight is no positive number.
        """
        pack_tags(tags, weight)
        self._inject(SetTags(dict(tags), weight))

    def send_event(self, name: str, payload: bytes = b"", coalesce: bool = False) -> None:
        """Spread an event to all members, by Serf's rules. coalesce: of several with one name the newest is enough.

        Raises:
            ConfigError: the stack has no SERF.
        """
        if self.spec.config_of("SERF") is None:
            raise ConfigError(f"{self.spec.source}: user events need SERF in the stack")
        self._inject(SendUserEvent(name, payload, coalesce))

    # --- in and out of the loop ---------------------------------------------------------------------------------------

    def _running(self) -> Host:
        if self._host is None:
            raise NotConnectedError("join first")
        if self._ended.is_set():
            raise ChannelClosedError(self._reason)
        return self._host

    def _inject(self, event: Event) -> None:
        self._running().sends.put_event(event, 0, None)

    def _ask(self, question: Any) -> Any:
        answered, found = threading.Event(), list[Any]()

        def answer(what: Any) -> None:
            found.append(what)
            answered.set()

        host = self._running()
        host.ask(question, answer)
        while not answered.wait(0.1):
            if self._ended.is_set():
                return None
        return found[0]

    def _host_ended(self, reason: str, unasked: bool) -> None:
        self._reason = reason
        self._ended.set()

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

    def _deliver(self) -> None:
        while True:
            for output in self._inbox.take(None):
                if isinstance(output, Closed):
                    return
                self._call(output)

    def _call(self, output: Output) -> None:
        match output:
            case MemberChanged(change, member, accusations):
                self._tell(change, *((member, accusations) if change in EVIDENT else (member,)))
            case UserEvent(name, payload):
                self._tell("user_event", name, payload)

    def _tell(self, what: str, *facts: object) -> None:
        method = getattr(self.listener, what, None)
        if method is None:
            return
        try:
            method(*facts)
        except Exception:
            log.exception("%s: the listener's %s raised", self.name, what)
