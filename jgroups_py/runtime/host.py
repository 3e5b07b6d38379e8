"""Hosts one node on its loop: feeds it what the application queued, and carries out what it asks of the world.

Everything here runs inside a round or a combined step of the loop, hence one thread at a time, but for what stands
under "from any thread". An exception that comes out of the node, or out of the sockets' own code, is a bug of ours: it
ends this host with the reason and its traceback in the log, and no other channel notices.
"""
from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from jgroups_py.batch import Batch
from jgroups_py.config.load import bridge_loader
from jgroups_py.config.spec import StackSpec
from jgroups_py.counters import Counters
from jgroups_py.errors import ChannelClosedError, ChannelError, ConfigError, NotConnectedError
from jgroups_py.events import Event, FolderRead, StateBusy
from jgroups_py.naming import Resolve
from jgroups_py.node import Node
from jgroups_py.outputs import (
    LOCAL,
    Closed,
    CloseTransport,
    Frame,
    GroupConnected,
    Listen,
    Note,
    OpenTransport,
    Output,
    ReadFolder,
    StoreEntry,
)
from jgroups_py.runtime.durable import Durable
from jgroups_py.runtime.files import read_folder, store_entry
from jgroups_py.runtime.inbox import HIGH_BYTES, LOW_BYTES, Inbox
from jgroups_py.runtime.loop import Loop, clock
from jgroups_py.runtime.net import LINKS_AND_STREAMS, LinkOrStream, Net
from jgroups_py.runtime.resolving import Resolving
from jgroups_py.runtime.sends import FULL_BYTES, MESSAGE_COST, RUN_BYTES, Run, SendQueue
from jgroups_py.runtime.udp import Frames
from jgroups_py.units import millis

log = logging.getLogger("jgroups_py")

TAKE_BYTES = RUN_BYTES                      # what one round takes from the send queue, at most
CHECK_BYTES = 64 << 10                      # after so many bytes layers are asked what they keep back
PENDING_BYTES = 1 << 20                     # while layers keep back more than this, nothing is taken
SPARSE_NS = millis(0.05)                    # who sends so seldom, on average since it was looked at, sends at once
FLUSH_NS = millis(500)                      # how long a leaving member sends what its application queued before
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Host:
    """One node and its sockets.

    ended: called once, inside a round, when the node is done: the reason, and whether nobody had asked for it.
    """

    def __init__(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> None:
        self.loop = Loop(self)
        self.sends = SendQueue(self._queued)
        self.inbox = inbox
        self.node: Node | None = None
        self.counters = Counters()
        self._spec = spec
        self._cluster = cluster
        self._name = name
        self._ended = ended
        self._nets: dict[int, Net] = {}
        self._news: list[Output] = []
        self._held_back = False
        self._unchecked_bytes = 0                            # taken since layers were asked what they keep back
        self.breathe: Callable[[], object] = lambda: None    # a round, by a callback that sends more than it may
        self.began = threading.Event()                       # the sockets stand, or it is over
        self.gathers = False                                 # the loop comes round soon: single messages wait for it
        self._looked = (0, 0, 0)                             # see `_queued`: when, how many were sent, by which thread
        self._leaving = self._forget = False                 # the application wants to leave; its site for good
        self._leave_by_ns: int | None = None                 # it waits for the queue to empty, until then
        self._over = False
        self._reason = ""                                    # why it is over
        self._resolving = Resolving(lambda net, event: self.loop.call(lambda: self._notify(net, event)))
        self._carriers: dict[type[Output], Callable[[Any], None]] = {
            OpenTransport: self._open_transport, CloseTransport: self._close_transport, Listen: self._listen,
            **dict.fromkeys(LINKS_AND_STREAMS, self._to_net), StoreEntry: self._store_entry,
            ReadFolder: self._read_folder, Note: self._note_output, Closed: self._closed,
            GroupConnected: self._group_connected, Resolve: self._resolving.ask,
        }
        self._durable = Durable(lambda event: self.loop.call(lambda: self._notify(LOCAL, event)), self._carriers)

    # --- from any thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Build the node and open its sockets."""
        self.inbox.caught_up = lambda: self.loop.call(self._caught_up)
        self.loop.call(self._start)

    def leave(self, forget: bool = False) -> None:
        """Leave the group gracefully; `ended` follows. forget: as in the event LeaveWanted."""
        self.loop.call(lambda: self._leave(forget))

    def join(self) -> None:
        """After the end: wait until sockets and files are closed."""
        self.loop.join()
        self._durable.join()

    def kill(self, reason: str) -> None:
        """Close the sockets without a word to the group; `ended` follows."""
        self.loop.call(lambda: self._kill(reason))

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        """Call `answer`, inside a round, with what `question` says about the node (None: there is none)."""
        self.loop.call(lambda: answer(None if self.node is None else question(self.node)))

    def _queued(self) -> None:
        """Something was queued: the sender carries it down to the socket himself, or the loop is woken to do it.

        A whole frame goes at once and without a change of threads, and so does a message now and then of the only
        thread that sends. Floods of small messages, and those of many threads, are left to the loop: while it wakes up
        they gather, and travel together. So is all that the main thread sends: a signal's handler (Ctrl-C's, to begin
        with) may raise there at any time, and a node must not be left in the middle of something.
        """
        sends = self.sends
        if not self.wants_round:
            if sends.nbytes > sends.limit_bytes and sends.owner == threading.get_ident():
                self.breathe()
            return
        before, self._looked = self._looked, (clock(), sends.sent, threading.get_ident())
        now_ns, sent, thread = self._looked
        sparse = thread == before[2] and now_ns - before[0] >= SPARSE_NS * (sent - before[1])
        if (sends.nbytes >= FULL_BYTES or (sparse and not self.gathers)) and thread != threading.main_thread().ident:
            self.loop.combine()
        else:
            self.loop.wake()

    # --- the loop's guest -------------------------------------------------------------------------------------------

    @property
    def wants_round(self) -> bool:
        """Whether something was queued that the node may have now."""
        return self.sends.nbytes > 0 and not self._held_back and not self._over and self.node is not None

    def step(self, now_ns: int) -> int | None:
        """One round: take what was queued, advance, carry out."""
        node = self.node
        if node is None or self._over:
            return None
        if self.sends.nbytes:
            self._take(node, now_ns)
        if self._leave_by_ns is not None:
            self._leave_when_sent(node, now_ns)
        node.advance(now_ns)
        self._settle(node, now_ns)
        return now_ns if self.sends.nbytes and self.wants_round else self._deadline(node)

    def send_queued(self, now_ns: int) -> int | None:
        """Take what was queued, carry out what follows from it alone."""
        node = self.node
        if node is None or self._over:
            return None
        self._take(node, now_ns)
        self._settle(node, now_ns)
        return self._deadline(node)

    def _settle(self, node: Node, now_ns: int) -> None:
        """Carry out all that the node asks, and tell the application."""
        while node.outputs:
            self._carry_out(node.drain())
        if self._news:
            self._tell(node, now_ns)

    def _deadline(self, node: Node) -> int | None:
        deadline_ns, leave_by_ns = node.next_deadline_ns, self._leave_by_ns
        if leave_by_ns is None:
            return deadline_ns
        return leave_by_ns if deadline_ns is None else min(deadline_ns, leave_by_ns)

    def fail(self, error: BaseException) -> None:
        """Something of this host raised."""
        log.error("channel %s of cluster %s closes because of a bug", self._name, self._cluster, exc_info=error)
        self._kill(f"{type(error).__name__}: {error}")

    # --- to the node ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._over:
            return
        try:
            self.node = Node(self._spec, self._cluster, self._name, os.urandom(16).hex(), self.loop.now_ns,
                             load_bridge=bridge_loader(self._spec))
        except ConfigError as error:
            return self._kill(str(error))
        return None

    def _take(self, node: Node, now_ns: int) -> None:
        self._unchecked_bytes += self.sends.nbytes
        if self._held_back or self._unchecked_bytes > CHECK_BYTES:
            self._unchecked_bytes = 0
            self._held_back = node.pending_bytes() > PENDING_BYTES
            if self._held_back:
                return
        me = node.me
        for item in self.sends.take(TAKE_BYTES):
            if isinstance(item, Run):
                payloads = tuple(item.payloads)
                batch = Batch(me, item.dest, payloads, item.headers, item.flags)
                node.send(batch.counted(item.nbytes - MESSAGE_COST * len(payloads)), now_ns)
            else:
                node.inject(item[0], now_ns)

    def _received(self, net: int, frames: Frames) -> None:
        if self.node is not None:
            self.node.receive(frames, self.loop.now_ns, net)

    def _notify(self, net: int, event: Event) -> None:
        if self.node is not None:
            self.node.notify(event, self.loop.now_ns, net)

    def _leave(self, forget: bool) -> None:
        if self._over or self._leaving:
            return
        self._leaving, self._forget = True, forget
        if self.node is None:
            return self._kill("left")
        self.sends.close(lambda: NotConnectedError("the channel is leaving its group"))
        self._leave_by_ns = self.loop.now_ns + FLUSH_NS
        return None

    def _leave_when_sent(self, node: Node, now_ns: int) -> None:
        """What was sent before leaving goes out first, if the group takes it in time."""
        assert self._leave_by_ns is not None, "asked for only while leaving"
        if now_ns >= self._leave_by_ns or not (self.sends.nbytes or node.pending_bytes()):
            self._leave_by_ns = None
            node.disconnect(now_ns, forget=self._forget)

    # --- to the application -----------------------------------------------------------------------------------------

    def _tell(self, node: Node, now_ns: int) -> None:
        news, self._news = self._news, []
        inbox = self.inbox
        inbox.put(news)
        if not inbox.busy and inbox.backlog_bytes > HIGH_BYTES:
            inbox.busy = True
            node.app_busy(True, now_ns)
            # The consumer may have caught up before it could see the flag; then nobody else would lower it.
            if inbox.backlog_bytes <= LOW_BYTES:
                self._caught_up()
        if not inbox.state_busy and inbox.state_backlog_bytes > HIGH_BYTES:
            inbox.state_busy = True
            node.inject(StateBusy(True), now_ns)
            if inbox.state_backlog_bytes <= LOW_BYTES:
                self._caught_up()

    def _caught_up(self) -> None:
        inbox, node = self.inbox, None if self._over else self.node
        if inbox.busy and inbox.backlog_bytes <= LOW_BYTES:
            inbox.busy = False
            if node is not None:
                node.app_busy(False, self.loop.now_ns)
        if inbox.state_busy and inbox.state_backlog_bytes <= LOW_BYTES:
            inbox.state_busy = False
            if node is not None:
                node.inject(StateBusy(False), self.loop.now_ns)

    # --- carrying out -----------------------------------------------------------------------------------------------

    def _carry_out(self, outputs: list[Output]) -> None:
        nets, carriers, news = self._nets, self._carriers, self._news
        for output in outputs:
            kind = output.__class__
            if kind is Frame:
                net = nets.get(output.net)                   # type: ignore[attr-defined]
                if net is not None:
                    net.sockets.send(output.to, output.data)  # type: ignore[attr-defined]
                continue
            carrier = carriers.get(kind)
            if carrier is None:
                news.append(output)
            else:
                carrier(output)
        self._durable.flush()                                # before the application gets what was delivered

    def _open_transport(self, asked: OpenTransport) -> None:
        assert self.node is not None, "a node asks"
        number, now_ns = asked.net, self.loop.now_ns

        try:
            net = Net(self.loop, asked, lambda frames: self._received(number, frames),
                      lambda event: self._notify(number, event), self._note)
        except (OSError, ConfigError) as error:
            return self.node.bind_failed(number, str(error), now_ns)
        self._nets[number] = net
        self.began.set()
        return self.node.bound(number, net.sockets.physical, now_ns)

    def _close_transport(self, asked: CloseTransport) -> None:
        net = self._nets.pop(asked.net, None)
        if net is not None:
            net.close(asked.graceful)

    def _listen(self, asked: Listen) -> None:
        net = self._nets.get(asked.net)
        if net is None:
            return
        try:
            net.links.listen(asked)
        except (OSError, ConfigError) as error:
            self._note("warning", f"no listener for FD_SOCK: {error}")

    def _to_net(self, asked: LinkOrStream) -> None:
        net = self._nets.get(asked.net)
        if net is not None:
            net.carry_out(asked)

    def _store_entry(self, asked: StoreEntry) -> None:
        try:
            store_entry(asked.folder, asked.name, asked.data)
        except OSError as error:
            self.counters.add("entries_not_stored")
            self._note("warning", f"cannot write {asked.name!r} to {asked.folder}: {error}")

    def _read_folder(self, asked: ReadFolder) -> None:
        try:
            entries = read_folder(asked.folder)
        except OSError as error:
            self._note("warning", f"cannot read {asked.folder}: {error}")
            entries = ()
        self._notify(asked.net, FolderRead(asked.folder, entries))

    def _group_connected(self, news: GroupConnected) -> None:
        self.sends.connected(news)
        self._news.append(news)

    def _note_output(self, note: Note) -> None:
        self._note(note.level, note.text)

    def _note(self, level: str, text: str) -> None:
        log.log(LEVELS.get(level, logging.WARNING), "%s@%s: %s", self._name, self._cluster, text)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _kill(self, reason: str) -> None:
        if not self._over:
            self._closed(Closed(reason))

    def _closed(self, closed: Closed) -> None:
        """The node is done (its sockets were closed by outputs before this one, unless we were killed)."""
        if self._over:
            return
        self._over = True
        self._reason = closed.reason
        for net in list(self._nets):
            self._close_transport(CloseTransport(net, graceful=self._leaving))
        self._durable.close(closed.reason)
        self.sends.close(self._refusal)
        self._ended(closed.reason, not self._leaving)
        self.began.set()
        self.inbox.put([*self._news, closed])
        self._news = []
        self.loop.stop()

    def _refusal(self) -> ChannelError:
        """What a send raises from now on."""
        if self._leaving:
            return NotConnectedError("the channel has left its group")
        return ChannelClosedError(self._reason)

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self, node: Node) -> dict[str, dict[str, float]]:
        """The node's counters by protocol; what the sockets counted stands with the transport and FD_SOCK."""
        found = node.stats()
        for number, net in self._nets.items():
            stack = node.local if number == LOCAL else node.bridge
            if stack is not None:
                prefix = "" if number == LOCAL else "bridge."
                found.setdefault(prefix + stack.transport.name, {}).update(net.counters())
                if net.links.counters:
                    found.setdefault(prefix + "FD_SOCK", {}).update(net.links.counters)
        if figures := self._durable.stats():
            found.setdefault("ARCHIVE", {}).update(figures)
        found["channel"] = {"send_queue_bytes": self.sends.nbytes, "backlog_bytes": self.inbox.backlog_bytes,
                            "messages_queued": self.sends.sent, "kept_back_bytes": node.pending_bytes(),
                            **self.counters}
        return found
