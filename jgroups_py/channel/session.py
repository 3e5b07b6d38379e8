"""One connection of a channel to a group, from connect to its end: what JChannel and AsyncChannel have in common."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.channel.environment import ChannelHost, NewHost
from jgroups_py.channel.log import ChannelLog
from jgroups_py.config.reach import why_alone
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import GetState
from jgroups_py.model.outputs import (
    Closed,
    GlobalViewInstalled,
    MemberAlone,
    Output,
    SiteStatusChanged,
    StateAdvised,
    ViewInstalled,
)
from jgroups_py.model.ports import NamesAsked, ViewSource
from jgroups_py.model.units import seconds
from jgroups_py.model.view import GlobalView, View
from jgroups_py.node.node import Node
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.loop import Task, clock

ALONE_NS = seconds(5)                       # a member that has been alone for so long is told why
ADVISED_STATE_NS = seconds(10)              # how long a state that RELAY advises may not move


class ChannelListener(Protocol):
    """What a session reports to its channel, in order and before the receiver is called, on the consumer's thread."""

    def view_installed(self, session: Session, view: View) -> None:
        """The membership changed."""

    def global_view_installed(self, session: Session, view: GlobalView) -> None:
        """With RELAY: the membership of some site changed."""

    def site_status_changed(self, session: Session, site: str, status: str) -> None:
        """With RELAY: another site is "UP", "DOWN" or "OFFLINE" now."""

    def closed_itself(self, session: Session, reason: str) -> None:
        """The connection ends although the application did not ask for it; from any thread."""


class Session(Connection):
    """What exists between one connect and its end.

    changed: called inside a round or on the consumer's thread whenever `joined` or `ended` may have become true, and
    after each view.
    """

    def __init__(
        self, spec: StackSpec, cluster: str, name: str, listener: ChannelListener, changed: Callable[[], None],
        new_host: NewHost,
    ) -> None:
        self.cluster = cluster
        self.inbox = Inbox()
        self.view: View | None = None                        # that of the messages that are being delivered now
        self.joined = False                                  # the first view was delivered
        self.ended = False                                   # the node is gone
        self.leaving = False                                 # it was asked to leave
        self.state_due = False                               # `connect` fetches a state, and does not have it yet
        self.reason = ""
        self._name = name
        self._spec = spec
        self._listener = listener
        self._changed = changed
        self._global_view: GlobalView | None = None
        self.host: ChannelHost = new_host(spec, cluster, name, self.inbox, self._host_ended)
        self.sends = self.host.sends
        self.dispatcher = Dispatcher(name, self.inbox, lambda: self.host.sends, self._before, self._after)
        self.dispatcher.on_exit = self._application_exits
        self._log = ChannelLog(name, cluster, clock)
        self._blocks: tuple[Block, ...] = ()

    def attach(self, block: Block) -> None:
        """Pass outputs and batches to a building block from now on."""
        self._blocks = (*self._blocks, block)
        self.dispatcher.attach(block)
        self.inbox.early = self._early
        block.begin(self)

    def _early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for block in self._blocks:
            outputs = block.early(outputs)
        return outputs

    def start(self) -> None:
        """Start the node, which joins the group or founds it."""
        self.host.start()

    def leave(self, forget: bool) -> None:
        """Leave the group gracefully."""
        self.leaving = True
        for block in self._blocks:
            block.leaving()
        self.host.leave(forget)

    @property
    def lacks_state(self) -> bool:
        """A state is on its way to this member, by `connect` or `get_state`, or because RELAY advised it."""
        dispatcher = self.dispatcher
        return self.state_due or dispatcher.transfer is not None or dispatcher.reading_state

    # --- for building blocks: see Connection ------------------------------------------------------------------------

    @property
    def address(self) -> Address | None:
        node = self.host.node
        return None if node is None else node.me

    @property
    def now_ns(self) -> int:
        return self.host.loop.now_ns

    def clock_ns(self) -> int:
        return self.host.loop.clock_ns()

    def boot_ns(self) -> int:
        return self.host.loop.boot_ns()

    def call(self, function: Callable[[], None]) -> None:
        self.host.loop.call(function)

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        return self.host.loop.later(delay_ns, function)

    def interrupt(self, reason: str, error: BaseException) -> None:
        self.dispatcher.interrupt(reason, error)

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        self.host.ask(question, answer)

    # --- outputs, and the end ---------------------------------------------------------------------------------------

    def _host_ended(self, reason: str, unrequested: bool) -> None:
        self.reason, self.dispatcher.unrequested = reason, unrequested
        self.ended = True
        self._changed()

    def _before(self, output: Output) -> None:
        kind, listener = output.__class__, self._listener
        if kind is ViewInstalled:
            self.dispatcher.me = self.address
            self.view = output.view                                      # type: ignore[attr-defined]
            listener.view_installed(self, output.view)                   # type: ignore[attr-defined]
        elif kind is GlobalViewInstalled:
            self._global_view = output.view                              # type: ignore[attr-defined]
            listener.global_view_installed(self, output.view)            # type: ignore[attr-defined]
        elif kind is Closed and self.dispatcher.unrequested and self.joined:
            listener.closed_itself(self, self.reason)
        elif kind is SiteStatusChanged:
            listener.site_status_changed(self, output.site, output.status)       # type: ignore[attr-defined]
        elif kind is StateAdvised:
            self._fetch_state(output.site)                               # type: ignore[attr-defined]
        self._log.record(output, self.dispatcher.unrequested and self.joined)

    def _fetch_state(self, site: str) -> None:
        """This site lost messages of another one: request a state from there, if the receiver has set_state."""
        view = self._global_view
        members = view.sites.get(site, ()) if view is not None else ()
        if members and self.dispatcher.has("set_state") and self.dispatcher.transfer is None:
            with contextlib.suppress(ChannelError):                      # the channel is being closed
                self.sends.put_event(GetState(members[0], ADVISED_STATE_NS), 0, None)

    def _after(self, output: Output) -> None:
        if output.__class__ is ViewInstalled and self.dispatcher.exit_error is None:
            self.joined = True
            self._changed()                                  # some thread may wait for members
            if output.view.id.counter == 1:
                self.call(self._wait_for_others)

    def _wait_for_others(self) -> None:
        self.later(ALONE_NS, self._check_alone)

    def _check_alone(self) -> None:
        """Inside a round: report it if this founder is still alone. Where the members of two hosts cannot find each
        other, this is the one thing that either of them can notice."""
        node = self.host.node
        if node is None:
            return
        view, asked = node.local.find(ViewSource).current_view(), node.local.find(NamesAsked)
        if view is not None and view.id.counter == 1:
            self.inbox.put([MemberAlone(why_alone(self._spec, () if asked is None else asked.unknown_names()))])

    def _application_exits(self, reason: str) -> None:
        """A callback raised SystemExit or KeyboardInterrupt: leave the group, deliver nothing more. From any thread."""
        self._listener.closed_itself(self, reason)
        self.host.leave()
        self.inbox.wake_consumer()
