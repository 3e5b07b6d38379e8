"""ChannelLink: a federation on an AsyncChannel of ours, in the event loop of the broker's server.

    core = FederationCore(FederationOptions(name="node1"), Random(), now_ns=monotonic_ns(), wall_offset_ns=...)
    server = MqttServer(BrokerOptions(node_name="node1"), federation=core)
    core.attach(server.broker)
    channel = AsyncChannel("tcp", name="node1")
    link = ChannelLink(channel, core, server.settle)
    await channel.connect("brokers")
    await server.start()

The channel may carry other things too: the frames have a header of their own. Views count in order with the messages.
With RELAY in its stack brokers of other sites belong to the federation. A publisher then gets PUBACK when all members
of its own site have the message, which RELAY's receipt says.
"""
from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import ClassVar

from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.group_link import GroupLink, lost_counter
from jgroups_py.blocks.mqtt.federation.message_record import STREAM, MessageRecord
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import RecordMessages
from jgroups_py.model.outputs import (
    Closed,
    GlobalViewInstalled,
    MessagesLost,
    Output,
    SiteStatusChanged,
    ViewInstalled,
)
from jgroups_py.model.view import GlobalView, View
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.wire.block_headers import BlockHeader, Federate
from jgroups_py.wire.topic_headers import for_sites

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.001


class ChannelLink(Block):
    """See the module. settle: carries out what the broker wants. All methods are for the event loop's thread."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (Federate,)

    def __init__(
        self, channel: AsyncChannel, core: FederationCore, settle: Callable[[], None], service: int = 1,
    ) -> None:
        self.core = core
        self.link = GroupLink(core, self)
        self._settle = settle
        self._header = (Federate(service),)
        self._connection: Connection | None = None
        self._view: View | None = None                   # that the core was given
        self._wanted: View | None = None                 # the newest one
        self._loop = asyncio.get_running_loop()
        self._is_flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0                               # when it is due
        self._is_closed = False
        self._site = channel.site or ""
        self._statuses = channel.sites                   # the channel's own follow later, in order with messages
        self._global_view = channel.global_view
        self._channel = channel
        self.ended: Callable[[], None] = lambda: None    # is called when the channel has left its group
        core.wake = self._wake
        if channel.spec.config_of("ARCHIVE") is not None:
            core.record = MessageRecord()
        channel.attach(self)
        self._tick()

    def close(self) -> None:
        """Send nothing any more."""
        self._is_closed = True
        self.core.wake = None
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_ready(self) -> bool:
        """Whether what a client publishes now reaches those who want it: the core has a view, whose members get all
        messages until their filters have come, and, with RELAY, another site, for which the same holds."""
        return self._view is not None and (not self._site or bool(self.core.sites.others))

    # --- the block ----------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        self._wanted = connection.view
        self._look()

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                self._wanted = output.view
                self._loop.call_soon_threadsafe(self._look)
            elif isinstance(output, GlobalViewInstalled):
                self._loop.call_soon_threadsafe(self._global_view_changed, output.view)
            elif isinstance(output, SiteStatusChanged):
                self._loop.call_soon_threadsafe(self._status_changed, output.site, output.status)
            elif isinstance(output, MessagesLost) and (counter := lost_counter(output, self._site)) is not None:
                self._loop.call_soon_threadsafe(self._lost, output, counter)
            elif isinstance(output, Closed):
                self._loop.call_soon_threadsafe(self._ended)
        return outputs

    def deliver(self, batch: Batch) -> None:
        if self._is_closed:
            return
        if batch.dest is None and not batch.flags & NO_RELAY and not isinstance(batch.src, ProxyUUID):
            return                                       # for other sites, from this one
        self._look()
        now_ns = monotonic_ns()
        for payload in batch.payloads:
            self.link.received(batch.src, payload, now_ns)
        self._settle()
        self._wake()

    def _look(self) -> None:
        """Give the core the view of the messages that are delivered now; come again while a newer one is on its way."""
        connection = self._connection
        if self._is_closed or connection is None or connection.ended:
            return
        view, me = connection.view, connection.address
        if view is not None and me is not None and view is not self._view:
            self._view = view
            self.link.view_installed(view, me, monotonic_ns())
            self._look_at_sites()
            self._wake()
        if self._view is not self._wanted:
            self._loop.call_later(LOOK_SECONDS, self._look)

    def _global_view_changed(self, view: GlobalView) -> None:
        self._global_view = view
        self._look_at_sites()

    def _status_changed(self, site: str, status: str) -> None:
        self._statuses[site] = status
        self._look_at_sites()

    def _look_at_sites(self) -> None:
        if self._site and not self._is_closed:
            self.link.sites_changed(self._site, self._statuses, self._global_view, monotonic_ns())

    def _lost(self, lost: MessagesLost, counter: str) -> None:
        """What RELAY has declared lost: numbers of this site's members for another site, or of another site's here."""
        self.core.counters.add(counter, lost.stop - lost.first)
        log.warning("messages %d to %d of %s are lost for %s", lost.first, lost.stop - 1, lost.origin,
                    lost.dest_site or "this broker")

    def _ended(self) -> None:
        self._view = self._wanted = None
        self.link.ended(monotonic_ns())
        self._settle()
        self.ended()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Send soon: all of a round together."""
        if not self._is_flush_due and not self._is_closed:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        connection = self._connection
        if self._is_closed:
            return
        runs = () if self.core.record is None else self.core.record.take()
        if runs and connection is not None and not connection.ended:
            event = RecordMessages(STREAM, runs)         # for ARCHIVE, in a round
            connection.ask(lambda node: node.inject(event, connection.now_ns), lambda answer: None)
        if connection is not None and not connection.ended and not connection.sends.has_room():
            # What waits stays in the streams, which are bounded; nothing else here waits.
            connection.sends.when_room(self._has_room)
            return
        self.link.flush(monotonic_ns())
        self._settle()
        if self.core.next_deadline_ns() < self._timer_ns:
            self._set_timer()

    def _has_room(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def send(self, dest: Address | None, data: bytes) -> None:
        """See group_link.Carrier."""
        connection = self._connection
        if connection is None or connection.ended:
            return                                       # the streams send it again in the next connection
        try:
            connection.sends.put(dest, data, 0 if isinstance(dest, ProxyUUID) else NO_RELAY, self._header, NOW)
        except ChannelError:
            log.debug("a frame for %s was not sent; it will be sent again", dest, exc_info=True)

    def send_to_sites(self, frames: Sequence[bytes], tokens: Sequence[int], sites: tuple[str, ...] | None) -> None:
        """See group_link.Carrier. Multicasts of one member keep their order, so the receipt of the last is one for
        all."""
        connection = self._connection
        if connection is None or connection.ended:
            self.core.counters.add("dropped_site_queue", len(frames))
            return
        headers = self._header if sites is None else (*self._header, for_sites(sites))
        try:
            if not tokens:
                connection.sends.put_all(None, list(frames), 0, headers, NOW)
                return
            if len(frames) > 1:
                connection.sends.put_all(None, list(frames[:-1]), 0, headers, NOW)
            self._channel.receipts.send((self._site,), frames[-1], 0, headers, NOW,
                                        lambda receipt: self._taken_over(tokens))
        except ChannelError:
            self.core.counters.add("dropped_site_queue", len(frames))
            log.warning("%d messages for other sites were not sent", len(frames), exc_info=True)

    def _taken_over(self, tokens: Sequence[int]) -> None:
        """Inside a round: all members of this site have what these waited for, or the connection has ended."""
        with contextlib.suppress(RuntimeError):          # the event loop is closed
            self._loop.call_soon_threadsafe(self._release, tokens)

    def _release(self, tokens: Sequence[int]) -> None:
        self.core.sites_have(tokens)
        self._settle()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_closed:
            return
        self.core.tick(monotonic_ns())
        self._wake()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = self.core.next_deadline_ns()
        self._timer = self._loop.call_later(max(0, self._timer_ns - monotonic_ns()) / SECOND, self._tick)
